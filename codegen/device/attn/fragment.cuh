//===- fragment.cuh - tiles in registers ------------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The warps of a block form a grid of WarpsM x WarpsN; warp w stands at (w / WarpsN, w % WarpsN). A tile is
// cut into WarpsM bands of rows and WarpsN bands of columns, one of each for a warp. A fragment whose grid
// has fewer warps than the block exists once a group of so many warps: each group has its own content, and
// may work on other tiles.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attn/shared_tile.cuh"

namespace attn {

__device__ __forceinline__ int lane_index() { return int(threadIdx.x % 32); }
__device__ __forceinline__ int warp_index() { return int(threadIdx.x / 32); }

/// An M x N accumulator. A warp holds kRowTiles x kColumnTiles tiles of 16 x 8 in the layout of mma.m16n8k16:
/// with g = lane / 4 and t = lane % 4, element e of a tile is at row g + 8 (e / 2), column 2t + e % 2.
template <typename T, int M, int N, int WarpsM, int WarpsN = 1>
struct Fragment {
  using Element = T;
  static constexpr int kRows = M, kColumns = N;
  static constexpr int kRowTiles = M / (16 * WarpsM), kColumnTiles = N / (8 * WarpsN);
  static_assert(M % (16 * WarpsM) == 0 && N % (8 * WarpsN) == 0, "each warp holds whole 16 x 8 tiles");

  T data[kRowTiles][kColumnTiles][4];

  /// Where the first element of a thread stands in the whole tile. Element e of tile (i, j) is row_offset(i,
  /// e) rows and column_offset(j, e) columns further on.
  __device__ __forceinline__ static int first_row(uint32 thread) {
    return int(thread / 32 / WarpsN % WarpsM * (M / WarpsM) + thread % 32 / 4);
  }
  __device__ __forceinline__ static int first_column(uint32 thread) {
    return int(thread / 32 % WarpsN * (N / WarpsN) + thread % 4 * 2);
  }
  __device__ __forceinline__ static constexpr int row_offset(int i, int e) { return 16 * i + e / 2 * 8; }
  __device__ __forceinline__ static constexpr int column_offset(int j, int e) { return 8 * j + e % 2; }

  /// The first row and column of this warp.
  __device__ __forceinline__ static int warp_row() { return warp_index() / WarpsN % WarpsM * (M / WarpsM); }
  __device__ __forceinline__ static int warp_column() { return warp_index() % WarpsN * (N / WarpsN); }

  /// Where element e of row tile i or column tile j stands in the whole tile.
  __device__ __forceinline__ static int row(int i, int e) {
    return warp_row() + lane_index() / 4 + 16 * i + e / 2 * 8;
  }
  __device__ __forceinline__ static int column(int j, int e) {
    return warp_column() + lane_index() % 4 * 2 + 8 * j + e % 2;
  }
};

/// One value a row of a Fragment with the same M and warp grid: element h of row tile i is row g + 8h of that
/// tile. The four lanes of a quad, and the WarpsN warps of a band, hold the same values.
template <typename T, int M, int WarpsM, int WarpsN = 1>
struct RowVector {
  using Element = T;
  static constexpr int kRows = M;
  static constexpr int kRowTiles = M / (16 * WarpsM);

  T data[kRowTiles][2];

  __device__ __forceinline__ static int first_row(uint32 thread) {
    return int(thread / 32 / WarpsN % WarpsM * (M / WarpsM) + thread % 32 / 4);
  }
  __device__ __forceinline__ static constexpr int row_offset(int i, int h) { return 16 * i + 8 * h; }

  __device__ __forceinline__ static int row(int i, int h) {
    return warp_index() / WarpsN % WarpsM * (M / WarpsM) + lane_index() / 4 + 16 * i + 8 * h;
  }
};

/// One value a column of a Fragment with the same N and columns of warps: element r of column tile j is
/// column 2t + r of that tile. Lanes of the same t, and the warps of a column, hold the same values.
template <typename T, int N, int WarpsN = 1>
struct ColumnVector {
  using Element = T;
  static constexpr int kColumns = N;
  static constexpr int kColumnTiles = N / (8 * WarpsN);

  T data[kColumnTiles][2];

  __device__ __forceinline__ static int first_column(uint32 thread) {
    return int(thread / 32 % WarpsN * (N / WarpsN) + thread % 4 * 2);
  }
  __device__ __forceinline__ static constexpr int column_offset(int j, int r) { return 8 * j + r; }
};

/// The left operand of a product in registers, M x K, rows split among WarpsM bands; each warp holds all K
/// columns. For 16-bit types a 16 x 16 tile is the four registers of mma.m16n8k16; for float it is two tiles
/// in accumulator layout.
template <typename T, int M, int K, int WarpsM>
struct Operand {
  using Element = T;
  static constexpr int kRows = M, kColumns = K;
  static constexpr int kRowTiles = M / (16 * WarpsM), kColumnTiles = K / 16;
  static constexpr int kRegisters = sizeof(T) == 4 ? 8 : 4;

  uint32 data[kRowTiles][kColumnTiles][kRegisters];
};

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

template <typename T, int M, int N, int WarpsM, int WarpsN>
__device__ __forceinline__ void fill(Fragment<T, M, N, WarpsM, WarpsN> &fragment, T value) {
#pragma unroll
  for (int i = 0; i < fragment.kRowTiles; ++i)
#pragma unroll
    for (int j = 0; j < fragment.kColumnTiles; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        fragment.data[i][j][e] = value;
}

template <typename T, int M, int WarpsM, int WarpsN>
__device__ __forceinline__ void fill(RowVector<T, M, WarpsM, WarpsN> &vector, T value) {
#pragma unroll
  for (int i = 0; i < vector.kRowTiles; ++i)
#pragma unroll
    for (int h = 0; h < 2; ++h)
      vector.data[i][h] = value;
}

//===----------------------------------------------------------------------===//
// Changes of layout
//===----------------------------------------------------------------------===//

/// Rounds an accumulator to T and makes it a left operand. Each lane already holds the elements it needs.
template <typename T, int M, int N, int WarpsM>
__device__ __forceinline__ Operand<T, M, N, WarpsM>
convert(const Fragment<float, M, N, WarpsM, 1> &fragment) {
  Operand<T, M, N, WarpsM> operand;
#pragma unroll
  for (int i = 0; i < operand.kRowTiles; ++i)
#pragma unroll
    for (int k = 0; k < operand.kColumnTiles; ++k)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const auto &tile = fragment.data[i][2 * k + half];
        if constexpr (sizeof(T) == 4) {
#pragma unroll
          for (int e = 0; e < 4; ++e)
            operand.data[i][k][4 * half + e] = __float_as_uint(tile[e]);
        } else {
          operand.data[i][k][2 * half] = pack<T>(tile[0], tile[1]);
          operand.data[i][k][2 * half + 1] = pack<T>(tile[2], tile[3]);
        }
      }
  return operand;
}

/// Writes an accumulator, rounded to T, to a tile of shared memory. Other warps see it after a barrier.
template <typename T, int M, int N, int WarpsM, int WarpsN>
__device__ __forceinline__ void store(const SharedTile<T, M, N> &tile,
                                      const Fragment<float, M, N, WarpsM, WarpsN> &fragment) {
#pragma unroll
  for (int i = 0; i < fragment.kRowTiles; ++i)
#pragma unroll
    for (int j = 0; j < fragment.kColumnTiles; ++j)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        T *target = &tile.at(fragment.row(i, 2 * h), fragment.column(j, 0));
        const float first = fragment.data[i][j][2 * h], second = fragment.data[i][j][2 * h + 1];
        if constexpr (sizeof(T) == 4)
          *reinterpret_cast<float2 *>(target) = make_float2(first, second);
        else
          *reinterpret_cast<uint32 *>(target) = pack<T>(first, second);
      }
}

#if __CUDA_ARCH__ >= 900
/// Writes 16 rows and 16 columns of a warp, rounded to T: row tile i, columns of tiles j and j + 1. Lane l
/// has the address of row l % 16, of its first 8 columns in the lower half of the warp and of the others in
/// the upper.
template <typename T, int M, int N, int WarpsM, int WarpsN>
__device__ __forceinline__ void
store_matrices(uint32 shared, const Fragment<float, M, N, WarpsM, WarpsN> &fragment, int i, int j) {
  const auto &left = fragment.data[i][j], &right = fragment.data[i][j + 1];
  stmatrix_x4(shared, {pack<T>(left[0], left[1]), pack<T>(left[2], left[3]), pack<T>(right[0], right[1]),
                       pack<T>(right[2], right[3])});
}
#endif

/// Adds an accumulator to f32 in global memory, atomically, in rows below valid_rows and columns below
/// ValidColumns. Rows are `stride` elements apart. Where `Aligned` the address and the stride are multiples
/// of 16 bytes, and pairs of lanes exchange halves so that each adds four neighbours at once.
template <int ValidColumns, bool Aligned = true, int M, int N, int WarpsM, int WarpsN>
__device__ __forceinline__ void atomic_add(float *global, int64 stride, int valid_rows,
                                           const Fragment<float, M, N, WarpsM, WarpsN> &fragment) {
  const bool odd = lane_index() % 2;
#pragma unroll
  for (int i = 0; i < fragment.kRowTiles; ++i)
#pragma unroll
    for (int j = 0; j < fragment.kColumnTiles; ++j) {
      const auto &tile = fragment.data[i][j];
      if constexpr (Aligned && ValidColumns % 4 == 0) {
        // The even lane takes row g, the odd one row g + 8, each with its neighbour's two columns.
        const float first = __shfl_xor_sync(0xffffffff, odd ? tile[0] : tile[2], 1);
        const float second = __shfl_xor_sync(0xffffffff, odd ? tile[1] : tile[3], 1);
        const int row = fragment.row(i, odd ? 2 : 0), column = fragment.column(j, 0) - (odd ? 2 : 0);
        if (row < valid_rows && column < ValidColumns) {
          if (odd)
            red_add(global + row * stride + column, first, second, tile[2], tile[3]);
          else
            red_add(global + row * stride + column, tile[0], tile[1], first, second);
        }
      } else {
#pragma unroll
        for (int e = 0; e < 4; ++e)
          if (fragment.row(i, e) < valid_rows && fragment.column(j, e) < ValidColumns)
            red_add(global + fragment.row(i, e) * stride + fragment.column(j, e), tile[e]);
      }
    }
}

} // namespace attn
