//===- rows.cuh - row vectors, and fragments as rows of tensors -*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attn/copy.cuh"
#include "attn/reduce.cuh"

namespace attn {

/// vector = vector (+) all elements of each row of the fragment.
template <typename Operation, int M, int N, int WarpsM, int WarpsN>
__device__ __forceinline__ void row_reduce(RowVector<float, M, WarpsM, WarpsN> &vector,
                                           const Fragment<float, M, N, WarpsM, WarpsN> &fragment,
                                           float *scratch = nullptr) {
  if constexpr (is_same<Operation, Sum>) {
    // What the vector holds already must count once, not once a lane.
    RowVector<float, M, WarpsM, WarpsN> sums;
    fill(sums, 0.0f);
    lane_reduce<Sum>(sums, fragment);
    all_reduce<Sum>(sums, scratch);
#pragma unroll
    for (int i = 0; i < vector.kRowTiles; ++i)
#pragma unroll
      for (int h = 0; h < 2; ++h)
        vector.data[i][h] += sums.data[i][h];
  } else {
    lane_reduce<Operation>(vector, fragment);
    all_reduce<Operation>(vector, scratch);
  }
}

/// Loads a value for each row below valid_rows, and `padding` for the others. Rows are `stride` elements
/// apart.
template <int M, int WarpsM, int WarpsN>
__device__ __forceinline__ void load_rows(RowVector<float, M, WarpsM, WarpsN> &vector, const float *global,
                                          int64 stride, int valid_rows, float padding) {
  const int first_row = vector.first_row(threadIdx.x);
#pragma unroll
  for (int i = 0; i < vector.kRowTiles; ++i)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = first_row + vector.row_offset(i, h);
      vector.data[i][h] = row < valid_rows ? global[row * stride] : padding;
    }
}

/// Writes the rows below valid_rows, `stride` elements apart or PackedRows.
template <int M, int WarpsM, int WarpsN, typename Stride>
__device__ __forceinline__ void store_rows(float *global, Stride stride, int valid_rows,
                                           const RowVector<float, M, WarpsM, WarpsN> &vector) {
  if (lane_index() % 4 != 0 || warp_index() % WarpsN != 0)
    return;
  const int first_row = vector.first_row(opaque(threadIdx.x));
#pragma unroll
  for (int i = 0; i < vector.kRowTiles; ++i)
#pragma unroll
    for (int h = 0; h < 2; ++h)
      if (const int row = first_row + vector.row_offset(i, h); row < valid_rows)
        global[row * stride] = vector.data[i][h];
}

/// vector += the dot product of each row of two tiles, in parts that all_reduce<Sum> adds up. A row's 16-bit
/// elements are dealt to the four lanes that hold it, and with WarpsN > 1 to the warps of its band. A row of
/// f32 is summed by one lane like the products of mma_fma, in the same parts and order: where a row gives all
/// its weight to one key, the product of d_out and its value and this one have to cancel.
template <typename T, int M, int N, int WarpsM, int WarpsN>
__device__ __forceinline__ void row_dot(RowVector<float, M, WarpsM, WarpsN> &vector,
                                        const SharedTile<T, M, N> &a, const SharedTile<T, M, N> &b) {
  using Rows = RowVector<float, M, WarpsM, WarpsN>;
  constexpr int kChunk = SharedTile<T, M, N>::kChunkElements;
  constexpr int kLanes = sizeof(T) == 4 ? 1 : 4 * WarpsN, kPart = sizeof(T) == 4 ? 32 : kChunk;
  const int first_row = Rows::first_row(threadIdx.x);
  const int lane = warp_index() % WarpsN * 4 + lane_index() % 4;
  if (lane >= kLanes)
    return;
#pragma unroll
  for (int i = 0; i < Rows::kRowTiles; ++i)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = first_row + Rows::row_offset(i, h);
      for (int part = lane * kPart; part < N; part += kLanes * kPart) {
        float sum = 0.0f;
        for (int column = part; column < min(part + kPart, N); column += kChunk) {
          const T *left = a.chunk(row, column / kChunk), *right = b.chunk(row, column / kChunk);
#pragma unroll
          for (int c = 0; c < kChunk; ++c)
            sum = __fmaf_rn(float(left[c]), float(right[c]), sum);
        }
        vector.data[i][h] += sum;
      }
    }
}

__device__ __forceinline__ void fill(float &number, float value) { number = value; }

/// *global += the sum over the threads of the block, by one atomic addition a warp, and none of 0.
__device__ __forceinline__ void flush_sum(float *global, float sum) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    sum += __shfl_xor_sync(0xffffffff, sum, distance);
  if (lane_index() == 0 && sum != 0)
    atomicAdd(global, sum);
}

/// Loads an accumulator from rows 0 to valid_rows - 1 and columns 0 to ValidColumns - 1 of a matrix in global
/// memory; the rest is 0.
template <int ValidColumns, int M, int N, int WarpsM, int WarpsN>
__device__ __forceinline__ void load(Fragment<float, M, N, WarpsM, WarpsN> &fragment, const float *global,
                                     int64 stride, int valid_rows) {
  const int first_row = fragment.first_row(threadIdx.x), first_column = fragment.first_column(threadIdx.x);
#pragma unroll
  for (int i = 0; i < fragment.kRowTiles; ++i)
#pragma unroll
    for (int j = 0; j < fragment.kColumnTiles; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int row = first_row + fragment.row_offset(i, e);
        const int column = first_column + fragment.column_offset(j, e);
        fragment.data[i][j][e] =
            row < valid_rows && column < ValidColumns ? global[row * stride + column] : 0;
      }
}

/// Loads a left operand from rows 0 to valid_rows - 1 and columns 0 to ValidColumns - 1 of a matrix in global
/// memory; the rest is 0. Where `Aligned`, rows begin at multiples of 16 bytes.
template <int ValidColumns, bool Aligned = false, typename T, int M, int K, int WarpsM, typename Stride>
__device__ __forceinline__ void load(Operand<T, M, K, WarpsM> &operand, const T *global, Stride stride,
                                     int valid_rows) {
  const int first_row = warp_index() % WarpsM * (M / WarpsM) + lane_index() / 4;
#pragma unroll
  for (int i = 0; i < operand.kRowTiles; ++i)
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int row = first_row + 16 * i + r % 2 * 8;
      const T *source = global + row * stride;
#pragma unroll
      for (int k = 0; k < operand.kColumnTiles; ++k) {
        const int column = 16 * k + r / 2 * 8 + lane_index() % 4 * 2;
        const bool has_low = row < valid_rows && column < ValidColumns;
        const bool has_high = row < valid_rows && column + 1 < ValidColumns;
        uint32 word = 0;
        if (Aligned && has_high)
          word = *reinterpret_cast<const uint32 *>(source + column);
        else if (has_low)
          word = source[column].bits | (has_high ? uint32(source[column + 1].bits) << 16 : 0);
        operand.data[i][k][r] = word;
      }
    }
}

/// Word i of lane t of each quad becomes word t of lane i.
__device__ __forceinline__ void transpose_quad(uint32 (&words)[4]) {
#pragma unroll
  for (int distance = 1; distance <= 2; distance *= 2) {
    const bool is_upper = lane_index() & distance;
#pragma unroll
    for (int first = 0; first < 4; ++first) {
      if (first & distance)
        continue;
      uint32 &lower = words[first], &upper = words[first + distance];
      const uint32 received = __shfl_xor_sync(0xffffffff, is_upper ? lower : upper, distance);
      lower = is_upper ? received : lower;
      upper = is_upper ? upper : received;
    }
  }
}

/// Writes an accumulator, rounded to T, to rows 0 to valid_rows - 1 and columns 0 to ValidColumns - 1 of a
/// matrix in global memory. Where `Aligned`, rows begin at multiples of 16 bytes, and the lanes of a quad
/// exchange their columns of four tiles so that each writes 16 bytes.
template <int ValidColumns, bool Aligned = false, typename T, int M, int N, int WarpsM, int WarpsN,
          typename Stride>
__device__ __forceinline__ void store(T *global, Stride stride, int valid_rows,
                                      const Fragment<float, M, N, WarpsM, WarpsN> &fragment) {
  constexpr bool kWide = Aligned && sizeof(T) == 2 && ValidColumns % 8 == 0;
  const uint32 thread = opaque(threadIdx.x);
  const int first_row = fragment.first_row(thread), first_column = fragment.first_column(thread);
#pragma unroll
  for (int i = 0; i < fragment.kRowTiles; ++i)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = first_row + fragment.row_offset(i, 2 * h);
#pragma unroll
      for (int j = 0; j < fragment.kColumnTiles; ++j) {
        const auto &tile = fragment.data[i][j];
        const int column = first_column + fragment.column_offset(j, 0);
        if constexpr (kWide) {
          if (j / 4 < fragment.kColumnTiles / 4) {
            if (j % 4 != 0)
              continue;
            uint32 words[4];
#pragma unroll
            for (int t = 0; t < 4; ++t)
              words[t] = pack<T>(fragment.data[i][j + t][2 * h], fragment.data[i][j + t][2 * h + 1]);
            transpose_quad(words);
            const int quad_column = first_column - int(thread % 4) * 2 + 8 * (j + int(thread % 4));
            if (row < valid_rows && quad_column < ValidColumns)
              *reinterpret_cast<uint4 *>(global + row * stride + quad_column) =
                  make_uint4(words[0], words[1], words[2], words[3]);
            continue;
          }
        }
#pragma unroll
        for (int e = 0; e < 2; ++e)
          if (row < valid_rows && column + e < ValidColumns)
            global[row * stride + column + e] = T(tile[2 * h + e]);
      }
    }
}

/// The same by way of a shared tile, which no thread may use meanwhile, so that whole rows are written.
/// Contains barriers of the whole block, one before the tile is written.
template <int Threads, int ValidColumns, int Alignment = 16, typename T, int M, int N, int WarpsM, int WarpsN,
          typename Stride>
__device__ __forceinline__ void store_via(T *global, Stride stride, int valid_rows,
                                          const Fragment<float, M, N, WarpsM, WarpsN> &fragment,
                                          const SharedTile<T, M, N> &tile) {
  __syncthreads();
  store(tile, fragment);
  __syncthreads();
  copy<Threads, ValidColumns, Alignment>(global, stride, valid_rows, tile);
}

} // namespace attn
