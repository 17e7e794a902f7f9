//===- reduce.cuh - reductions over the rows of a fragment ------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A row of a Fragment lies in the four lanes of a quad of WarpsN warps. Where WarpsN > 1 the reductions
// exchange through `scratch`, WarpsN x M elements of shared memory, and contain barriers of the whole block.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attn/fragment.cuh"

namespace attn {

struct Sum {
  __device__ __forceinline__ static float combine(float a, float b) { return a + b; }
};
/// NaN loses against a number.
struct Max {
  __device__ __forceinline__ static float combine(float a, float b) { return fmaxf(a, b); }
};

/// vector = vector (+) the lane's own elements of each row, without communication. Where that is interleaved,
/// elements of even and of odd columns are combined side by side: before one sequence ptxas leaves what else
/// there is to the end.
template <typename Operation, bool Interleaved = false, int M, int N, int WarpsM, int WarpsN>
__device__ __forceinline__ void lane_reduce(RowVector<float, M, WarpsM, WarpsN> &vector,
                                            const Fragment<float, M, N, WarpsM, WarpsN> &fragment) {
#pragma unroll
  for (int i = 0; i < fragment.kRowTiles; ++i)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float &even = vector.data[i][h];
      float odd = fragment.data[i][0][2 * h + 1];
#pragma unroll
      for (int j = 0; j < fragment.kColumnTiles; ++j) {
        even = Operation::combine(even, fragment.data[i][j][2 * h]);
        float &other = Interleaved ? odd : even;
        if (!Interleaved || j > 0)
          other = Operation::combine(other, fragment.data[i][j][2 * h + 1]);
      }
      if (Interleaved)
        even = Operation::combine(even, odd);
    }
}

/// Combines what the lanes of each quad, and the WarpsN warps of each band, hold of a row. All end with the
/// result.
template <typename Operation, int M, int WarpsM, int WarpsN>
__device__ __forceinline__ void all_reduce(RowVector<float, M, WarpsM, WarpsN> &vector,
                                           float *scratch = nullptr) {
#pragma unroll
  for (int i = 0; i < vector.kRowTiles; ++i)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float &value = vector.data[i][h];
      value = Operation::combine(value, __shfl_xor_sync(0xffffffff, value, 2));
      value = Operation::combine(value, __shfl_xor_sync(0xffffffff, value, 1));
    }
  if constexpr (WarpsN > 1) {
    if (lane_index() % 4 == 0) {
#pragma unroll
      for (int i = 0; i < vector.kRowTiles; ++i)
#pragma unroll
        for (int h = 0; h < 2; ++h)
          scratch[warp_index() % WarpsN * M + vector.row(i, h)] = vector.data[i][h];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < vector.kRowTiles; ++i)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        // All warps combine in the same order, so that all have the same bits.
        vector.data[i][h] = scratch[vector.row(i, h)];
#pragma unroll
        for (int n = 1; n < WarpsN; ++n)
          vector.data[i][h] = Operation::combine(vector.data[i][h], scratch[n * M + vector.row(i, h)]);
      }
    __syncthreads();
  }
}

} // namespace attn
