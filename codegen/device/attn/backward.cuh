//===- backward.cuh - what only the backward needs --------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attn/fragment.cuh"

namespace attn {

//===----------------------------------------------------------------------===//
// Accumulators in 16-bit tiles of shared memory
//===----------------------------------------------------------------------===//

/// Half of a register as f32: the lower, then the upper.
template <typename T>
__device__ __forceinline__ float unpack(uint32 pair, int half) {
  T value;
  value.bits = static_cast<unsigned short>(half ? pair >> 16 : pair);
  return value;
}
template <>
__device__ __forceinline__ float unpack<bf16>(uint32 pair, int half) {
  return __uint_as_float(half ? pair & 0xffff0000u : pair << 16);
}

/// The address at which ldmatrix_x4 and stmatrix_x4 have the first 16 x 16 elements of this warp, in the
/// order of an accumulator's registers: rows 0 and 8 of columns 0 to 7, then of columns 8 to 15.
template <int WarpsM, int WarpsN, typename T, int M, int N>
__device__ __forceinline__ uint32 accumulator_address(const SharedTile<T, M, N> &tile) {
  static_assert(SharedTile<T, M, N>::template can_advance<N / WarpsN>,
                "a warp's columns straddle permuted chunks");
  static_assert(N % (16 * WarpsN) == 0, "each warp holds whole 16 x 16 tiles");
  const uint32 thread = opaque(threadIdx.x), warp = thread / 32, lane = thread % 32;
  return tile.chunk_address(warp / WarpsN % WarpsM * (M / WarpsM) + lane % 16,
                            warp % WarpsN * (N / WarpsN) / 8 + lane / 16);
}

/// Rounds an accumulator to T and writes it to a tile. Other warps see it after a barrier.
template <typename T, int M, int N, int WarpsM, int WarpsN>
__device__ __forceinline__ void store_rounded(const SharedTile<T, M, N> &tile,
                                              const Fragment<float, M, N, WarpsM, WarpsN> &fragment) {
#if __CUDA_ARCH__ >= 900
  const uint32 address = accumulator_address<WarpsM, WarpsN>(tile);
#pragma unroll
  for (int i = 0; i < fragment.kRowTiles; ++i)
#pragma unroll
    for (int j = 0; j < fragment.kColumnTiles; j += 2)
      store_matrices<T>(SharedTile<T, M, N>::advance(address, 16 * i, j), fragment, i, j);
#else
  store(tile, fragment);
#endif
}

/// Reads a tile into an accumulator. What store_rounded wrote from a fragment with the same warps needs no
/// barrier in between: each warp reads what it wrote.
template <typename T, int M, int N, int WarpsM, int WarpsN>
__device__ __forceinline__ void load(Fragment<float, M, N, WarpsM, WarpsN> &fragment,
                                     const SharedTile<T, M, N> &tile) {
  const uint32 address = accumulator_address<WarpsM, WarpsN>(tile);
  __syncwarp();
#pragma unroll
  for (int i = 0; i < fragment.kRowTiles; ++i)
#pragma unroll
    for (int j = 0; j < fragment.kColumnTiles; j += 2) {
      uint32 matrices[4];
      ldmatrix_x4(matrices, SharedTile<T, M, N>::advance(address, 16 * i, j));
#pragma unroll
      for (int n = 0; n < 2; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          fragment.data[i][j + n][e] = unpack<T>(matrices[2 * n + e / 2], e % 2);
    }
}

//===----------------------------------------------------------------------===//
// Accumulators in global memory, in the order of the registers
//===----------------------------------------------------------------------===//
//
// M x N f32, for sums that only kernels with the same fragment read: of each 16 x 8 tile the block's threads
// have their elements side by side, so that a warp touches whole lines, computes no position and checks no
// bound. Only one group of warps may take part, that is, the fragment's grid is all warps of the block.

/// Where element e of 16 x 8 tile number `tile` is: four elements a thread are one access where red takes
/// vectors, and whole lines otherwise too where it does not.
template <int Threads>
__device__ __forceinline__ uint32 register_offset(uint32 thread, int tile, int e) {
#if __CUDA_ARCH__ >= 900
  return uint32(tile * Threads * 4) + thread * 4 + e;
#else
  return uint32((tile * 4 + e) * Threads) + thread;
#endif
}

template <int M, int N, int WarpsM, int WarpsN>
__device__ __forceinline__ void atomic_add_registers(float *global,
                                                     const Fragment<float, M, N, WarpsM, WarpsN> &fragment) {
  constexpr int kThreads = 32 * WarpsM * WarpsN;
  float *mine = global + register_offset<kThreads>(opaque(threadIdx.x), 0, 0);
#pragma unroll
  for (int i = 0; i < fragment.kRowTiles; ++i)
#pragma unroll
    for (int j = 0; j < fragment.kColumnTiles; ++j) {
      const int tile = i * fragment.kColumnTiles + j;
      const auto &elements = fragment.data[i][j];
#if __CUDA_ARCH__ >= 900
      red_add(mine + register_offset<kThreads>(0, tile, 0), elements[0], elements[1], elements[2],
              elements[3]);
#else
#pragma unroll
      for (int e = 0; e < 4; ++e)
        red_add(mine + register_offset<kThreads>(0, tile, e), elements[e]);
#endif
    }
}

template <int M, int N, int WarpsM, int WarpsN>
__device__ __forceinline__ void load_registers(Fragment<float, M, N, WarpsM, WarpsN> &fragment,
                                               const float *global) {
#pragma unroll
  for (int i = 0; i < fragment.kRowTiles; ++i)
#pragma unroll
    for (int j = 0; j < fragment.kColumnTiles; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        fragment.data[i][j][e] =
            global[register_offset<32 * WarpsM * WarpsN>(threadIdx.x, i * fragment.kColumnTiles + j, e)];
}

} // namespace attn
