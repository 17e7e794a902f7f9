//===- merge.cuh - what the warps of a block computed, merged --*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attn/fragment.cuh"

namespace attn {

/// Each warp has the normalised output and the lse of keys of its own: weighs them by exp(lse), which makes
/// them those of all keys, divided among the warps by columns. A row without a key has an lse of -inf.
/// Through `scratch`, Warps x M x N elements of shared memory, and `lses`, Warps x M; contains barriers of
/// the whole block, one before these are written.
template <int M, int N, int Warps>
__device__ __forceinline__ void merge_warps(const Fragment<float, M, N, 1, 1> &part,
                                            const RowVector<float, M, 1, 1> &part_lse,
                                            Fragment<float, M, N, 1, Warps> &out,
                                            RowVector<float, M, 1, Warps> &lse, float *scratch, float *lses) {
  static_assert(N % 32 == 0, "rows are whole lines of banks");
  // Rows begin in one bank: permuted by eights of columns, four of them have all banks.
  auto place = [&](int warp, int row, int column) {
    return reinterpret_cast<float2 *>(scratch + (warp * M + row) * N + (column ^ row % 4 * 8));
  };
  __syncthreads();
#pragma unroll
  for (int i = 0; i < part.kRowTiles; ++i)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = part.row(i, 2 * h);
#pragma unroll
      for (int j = 0; j < part.kColumnTiles; ++j)
        *place(warp_index(), row, part.first_column(threadIdx.x) + part.column_offset(j, 0)) =
            make_float2(part.data[i][j][2 * h], part.data[i][j][2 * h + 1]);
      lses[warp_index() * M + row] = part_lse.data[i][h]; // the four lanes of a row write the same
    }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < out.kRowTiles; ++i)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = out.row(i, 2 * h);
      float weights[Warps], largest = -kInfinity, sum = 0.0f;
#pragma unroll
      for (int warp = 0; warp < Warps; ++warp)
        largest = fmaxf(largest, lses[warp * M + row]);
#pragma unroll
      for (int warp = 0; warp < Warps; ++warp) {
        // The maximum passes a NaN over, the sum does not.
        weights[warp] = lses[warp * M + row] == -kInfinity ? 0.0f : expf(lses[warp * M + row] - largest);
        sum += weights[warp];
      }
      lse.data[i][h] = sum == 0.0f ? -kInfinity : largest + logf(sum);
      const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
#pragma unroll
      for (int j = 0; j < out.kColumnTiles; ++j) {
        float2 total = make_float2(0.0f, 0.0f);
#pragma unroll
        for (int warp = 0; warp < Warps; ++warp) {
          const float2 values = *place(warp, row, out.first_column(threadIdx.x) + out.column_offset(j, 0));
          total.x = __fmaf_rn(weights[warp], values.x, total.x); // 0 of a warp without a key
          total.y = __fmaf_rn(weights[warp], values.y, total.y);
        }
        out.data[i][j][2 * h] = total.x * inverse;
        out.data[i][j][2 * h + 1] = total.y * inverse;
      }
    }
}

} // namespace attn
