//===- mma_f32.cuh - products of tiles of floats ----------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// As mma(acc, a, b), for operands of float in shared memory and with the same accumulators: in full precision
// by multiply-adds (mma_fma), or rounded to tf32 by mma.sync (mma_tf32).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attn/mma.cuh"

namespace attn {

/// Element (row, column) of a tile as it is multiplied.
template <int Rows, int Columns>
__device__ __forceinline__ float operand_at(const SharedTile<float, Rows, Columns> &tile, int row,
                                            int column) {
  return tile.at(row, column);
}
template <int Rows, int Columns>
__device__ __forceinline__ float operand_at(const Transposed<SharedTile<float, Rows, Columns>> &transposed,
                                            int row, int column) {
  return transposed.tile.at(column, row);
}

/// Four elements along the inner dimension at once where they lie side by side.
template <int Rows, int Columns>
__device__ __forceinline__ void read_left(float (&elements)[4], const SharedTile<float, Rows, Columns> &a,
                                          int row, int k) {
  const float4 chunk = *reinterpret_cast<const float4 *>(a.chunk(row, k / 4));
  elements[0] = chunk.x;
  elements[1] = chunk.y;
  elements[2] = chunk.z;
  elements[3] = chunk.w;
}
template <int Rows, int Columns>
__device__ __forceinline__ void
read_left(float (&elements)[4], const Transposed<SharedTile<float, Rows, Columns>> &a, int row, int k) {
#pragma unroll
  for (int i = 0; i < 4; ++i)
    elements[i] = operand_at(a, row, k + i);
}

/// Columns column and column + 1 of four rows of the right operand.
template <int Rows, int Columns>
__device__ __forceinline__ void read_right(float (&elements)[2][4], const SharedTile<float, Rows, Columns> &b,
                                           int k, int column) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 pair = *reinterpret_cast<const float2 *>(&b.at(k + i, column));
    elements[0][i] = pair.x;
    elements[1][i] = pair.y;
  }
}
template <int Rows, int Columns>
__device__ __forceinline__ void read_right(float (&elements)[2][4],
                                           const Transposed<SharedTile<float, Rows, Columns>> &b, int k,
                                           int column) {
  read_left(elements[0], b.tile, column, k);
  read_left(elements[1], b.tile, column + 1, k);
}

/// acc += a b, one multiply-add an element. Terms are summed in parts of 32, which then are added: the
/// rounding errors of long sums grow with the number of parts, not of terms. With a transposed left operand,
/// as for the gradients of keys and values, whose sums may be of many terms of one size, by four first.
template <int M, int N, int WarpsM, int WarpsN, typename A, typename B>
__device__ __forceinline__ void mma_fma(Fragment<float, M, N, WarpsM, WarpsN> &acc, const A &a, const B &b) {
  static_assert(is_same<typename A::Element, float> && is_same<typename B::Element, float>,
                "operands of float");
  static_assert(A::kRows == M && B::kColumns == N && A::kColumns == B::kRows, "shapes that do not fit");
  static_assert(A::kColumns % 4 == 0, "the inner dimension goes by four");
  using Acc = Fragment<float, M, N, WarpsM, WarpsN>;
  constexpr int kRowTiles = Acc::kRowTiles, kDepth = A::kColumns, kPart = 32;
  constexpr bool kByFour = is_transposed<A>;
  // Few columns at a time: the sums of a part are registers beside those of acc.
  constexpr int kGroup = Acc::kColumnTiles % 4 == 0 ? 4 : Acc::kColumnTiles % 2 == 0 ? 2 : 1;
  const int first_row = acc.first_row(threadIdx.x), first_column = acc.first_column(threadIdx.x);
#pragma unroll 1
  for (int part = 0; part < kDepth; part += kPart) {
#pragma unroll
    for (int group = 0; group < Acc::kColumnTiles; group += kGroup) {
      float sums[kRowTiles][kGroup][4] = {};
#pragma unroll 1
      for (int k = part; k < min(part + kPart, kDepth); k += 4) {
        float left[kRowTiles][2][4];
#pragma unroll
        for (int i = 0; i < kRowTiles; ++i)
#pragma unroll
          for (int h = 0; h < 2; ++h)
            read_left(left[i][h], a, first_row + acc.row_offset(i, 2 * h), k);
#pragma unroll
        for (int j = 0; j < kGroup; ++j) {
          float right[2][4];
          read_right(right, b, k, first_column + acc.column_offset(group + j, 0));
#pragma unroll
          for (int i = 0; i < kRowTiles; ++i)
#pragma unroll
            for (int e = 0; e < 4; ++e) {
              float four = kByFour ? 0.0f : sums[i][j][e];
#pragma unroll
              for (int step = 0; step < 4; ++step)
                four = __fmaf_rn(left[i][e / 2][step], right[e % 2][step], four);
              sums[i][j][e] = kByFour ? sums[i][j][e] + four : four;
            }
        }
      }
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i)
#pragma unroll
        for (int j = 0; j < kGroup; ++j)
#pragma unroll
          for (int e = 0; e < 4; ++e)
            acc.data[i][group + j][e] += sums[i][j][e];
    }
  }
}

/// Rounds floats to tf32, 10 bits of mantissa. PTX ISA 9.7.9.22 (cvt).
__device__ __forceinline__ void round_to_tf32(uint32 (&values)[4]) {
#pragma unroll
  for (uint32 &value : values)
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(value) : "f"(__uint_as_float(value)));
}

/// d += a b for one 16 x 8 x 8 product of tf32. With g = lane / 4 and t = lane % 4:
///   a[0], a[1]  rows g, g + 8, column t;   a[2], a[3]  the same rows, column t + 4
///   b0, b1      column g, rows t and t + 4
/// and d as of mma_m16n8k16. PTX ISA 9.7.14.5.7 (mma.m16n8k8).
__device__ __forceinline__ void mma_m16n8k8_tf32(float (&d)[4], const uint32 (&a)[4], uint32 b0, uint32 b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Reads the 16 x 8 tiles of a left operand that belong to a warp with `Size` rows from first_row on. Of rows
/// of a shared tile ldmatrix brings eight of 16 bytes as it does 16-bit ones: the four bytes of a lane are a
/// float.
template <typename A, int Size>
struct LeftTf32Reader {
  const A &a;
  const int row;
  __device__ __forceinline__ LeftTf32Reader(const A &a, int first_row)
      : a(a), row(first_row + lane_index() / 4) {}
  __device__ __forceinline__ void read(uint32 (&registers)[4], int i, int k) const {
#pragma unroll
    for (int r = 0; r < 4; ++r)
      registers[r] =
          __float_as_uint(operand_at(a, row + 16 * i + r % 2 * 8, 8 * k + lane_index() % 4 + r / 2 * 4));
  }
};
template <int M, int K, int Size>
struct LeftTf32Reader<SharedTile<float, M, K>, Size> : LeftReader<SharedTile<float, M, K>, Size> {
  using LeftReader<SharedTile<float, M, K>, Size>::LeftReader;
};

/// Reads two 8 x 8 tiles of a right operand, side by side, or the first one where `Size` columns end in it.
template <typename B, int Size, bool HasPairs = Size % 16 == 0>
struct RightTf32Reader {
  const B &b;
  const int column;
  __device__ __forceinline__ RightTf32Reader(const B &b, int first_column)
      : b(b), column(first_column + lane_index() / 4) {}
  __device__ __forceinline__ void read(uint32 (&registers)[4], int j, int k) const {
#pragma unroll
    for (int r = 0; r < 4; ++r)
      if (16 * j + r / 2 * 8 < Size)
        registers[r] =
            __float_as_uint(operand_at(b, 8 * k + lane_index() % 4 + r % 2 * 4, column + 16 * j + r / 2 * 8));
  }
};
template <int N, int K, int Size>
struct RightTf32Reader<Transposed<SharedTile<float, N, K>>, Size, true>
    : RightReader<Transposed<SharedTile<float, N, K>>, Size> {
  using RightReader<Transposed<SharedTile<float, N, K>>, Size>::RightReader;
};

/// acc += a b, with the elements of a and b rounded to tf32.
template <int M, int N, int WarpsM, int WarpsN, typename A, typename B>
__device__ __forceinline__ void mma_tf32(Fragment<float, M, N, WarpsM, WarpsN> &acc, const A &a, const B &b) {
  static_assert(is_same<typename A::Element, float> && is_same<typename B::Element, float>,
                "operands of float");
  static_assert(A::kRows == M && B::kColumns == N && A::kColumns == B::kRows, "shapes that do not fit");
  static_assert(A::kColumns % 8 == 0, "the inner dimension goes by eight");
  constexpr int kRowTiles = Fragment<float, M, N, WarpsM, WarpsN>::kRowTiles;
  const LeftTf32Reader<A, M / WarpsM> left(a, acc.warp_row());
  const RightTf32Reader<B, N / WarpsN> right(b, acc.warp_column());
#pragma unroll 4
  for (int k = 0; k < A::kColumns / 8; ++k) {
    uint32 a_registers[kRowTiles][4];
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
      left.read(a_registers[i], i, k);
      round_to_tf32(a_registers[i]);
    }
#pragma unroll
    for (int j = 0; j < acc.kColumnTiles; j += 2) {
      uint32 b_registers[4] = {};
      right.read(b_registers, j / 2, k);
      round_to_tf32(b_registers);
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) {
        mma_m16n8k8_tf32(acc.data[i][j], a_registers[i], b_registers[0], b_registers[1]);
        if (j + 1 < acc.kColumnTiles)
          mma_m16n8k8_tf32(acc.data[i][j + 1], a_registers[i], b_registers[2], b_registers[3]);
      }
    }
  }
}

} // namespace attn
