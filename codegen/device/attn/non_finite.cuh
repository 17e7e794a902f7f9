//===- non_finite.cuh - products that skip zeros ----------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For acc += a b with infinities and NaNs in b, which must not show where a is 0: copy_finite leaves them out
// of b, and add_non_finite(acc, a, b) adds those that count. In loops, and with as few registers as they can:
// they stand beside code that needs all of them.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attn/fragment.cuh"

namespace attn {

/// Which elements of the left operand are not 0, for the rows that a thread has of a product.
template <typename A, typename Rows>
struct NonZero;

template <typename T, int M, int K, typename Rows>
struct NonZero<SharedTile<T, M, K>, Rows> {
  const SharedTile<T, M, K> &a;
  __device__ __forceinline__ bool at(int i, int h, int k) const {
    return float(a.at(Rows::row(i, h), k)) != 0;
  }
};

/// A bit for each element of a row that the lane has; registers have no index at run time.
template <int M, int K, int WarpsM, typename Rows>
struct NonZero<Fragment<float, M, K, WarpsM, 1>, Rows> {
  static constexpr int kWords = (K / 4 + 31) / 32;
  uint32 words[Rows::kRowTiles][2][kWords] = {};
  __device__ __forceinline__ explicit NonZero(const Fragment<float, M, K, WarpsM, 1> &a) {
#pragma unroll
    for (int i = 0; i < a.kRowTiles; ++i)
#pragma unroll
      for (int j = 0; j < a.kColumnTiles; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          words[i][e / 2][j / 16] |= uint32(a.data[i][j][e] != 0) << (2 * j + e % 2) % 32;
  }
  __device__ __forceinline__ bool at(int i, int h, int k) const {
    uint32 word = words[i][h][0];
#pragma unroll
    for (int w = 1; w < kWords; ++w)
      word = k / 128 == w ? words[i][h][w] : word;
    return __shfl_sync(0xffffffff, word, lane_index() / 4 * 4 + k % 8 / 2) >> (k / 8 * 2 + k % 2) % 32 & 1;
  }
};

/// Adds what is not finite in b, in the rows and columns where a is not 0.
template <int M, int N, int WarpsM, int WarpsN, typename A, typename T, int K>
__device__ __forceinline__ void add_non_finite(Fragment<float, M, N, WarpsM, WarpsN> &acc, const A &a,
                                               const SharedTile<T, K, N> &b) {
  using Rows = RowVector<float, M, WarpsM, WarpsN>;
  const NonZero<A, Rows> non_zero{a};
  const int first_column = acc.first_column(threadIdx.x);
#pragma unroll 1
  for (int k = 0; k < K; ++k) {
    bool counts[Rows::kRowTiles][2];
#pragma unroll
    for (int i = 0; i < Rows::kRowTiles; ++i)
#pragma unroll
      for (int h = 0; h < 2; ++h)
        counts[i][h] = non_zero.at(i, h, k);
#pragma unroll
    for (int j = 0; j < acc.kColumnTiles; ++j)
#pragma unroll
      for (int e = 0; e < 2; ++e)
        if (const float value = b.at(k, first_column + acc.column_offset(j, e));
            !(fabsf(value) < kInfinity)) {
#pragma unroll
          for (int i = 0; i < Rows::kRowTiles; ++i)
#pragma unroll
            for (int h = 0; h < 2; ++h)
              if (counts[i][h])
                acc.data[i][j][2 * h + e] += value;
        }
  }
}

/// Copies rows 0 to valid_rows - 1 of a matrix with ValidColumns columns into a tile, with 0 for the rest and
/// for what is not finite. Other threads see it after a barrier.
template <int Threads, int ValidColumns, typename T, int Rows, int Columns>
__device__ __forceinline__ void copy_finite(const SharedTile<T, Rows, Columns> &tile, const T *global,
                                            int64 stride, int valid_rows) {
#pragma unroll 1
  for (int index = Threads == 32 ? threadIdx.x % 32 : threadIdx.x; index < Rows * Columns; index += Threads) {
    const int row = index / Columns, column = index % Columns;
    T element = T(0.0f);
    if (row < valid_rows && column < ValidColumns)
      if (const T given = global[row * stride + column]; fabsf(given) < kInfinity)
        element = given;
    tile.at(row, column) = element;
  }
}

} // namespace attn
