//===- copy.cuh - copies between global and shared memory -------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All `Threads` threads of the block (threadIdx.x), or with 32 those of each warp, take part in each copy.
// Rows are `stride` elements apart in global memory, or are PackedRows.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attn/shared_tile.cuh"

namespace attn {

/// Starts copying the first `valid` elements of a chunk and zeroes the others.
template <int Alignment, typename T, int Rows, int Columns>
__device__ __forceinline__ void copy_chunk_async(const SharedTile<T, Rows, Columns> &tile, int row, int chunk,
                                                 const T *source, int valid) {
  constexpr int kElements = 16 / int(sizeof(T));
  if constexpr (Alignment >= 16) {
    cp_async<16>(tile.chunk_address(row, chunk), source, valid * int(sizeof(T)));
  } else if constexpr (Alignment >= 4) {
    constexpr int kPart = Alignment / int(sizeof(T));
#pragma unroll
    for (int part = 0; part < kElements; part += kPart)
      cp_async<Alignment>(tile.chunk_address(row, chunk) + part * int(sizeof(T)), source + part,
                          min(max(valid - part, 0), kPart) * int(sizeof(T)));
  } else {
    uint32 words[4];
#pragma unroll
    for (int word = 0; word < 4; ++word) {
      const uint32 low = 2 * word < valid ? source[2 * word].bits : 0;
      const uint32 high = 2 * word + 1 < valid ? source[2 * word + 1].bits : 0;
      words[word] = low | high << 16;
    }
    *reinterpret_cast<uint4 *>(tile.chunk(row, chunk)) = make_uint4(words[0], words[1], words[2], words[3]);
  }
}

/// Starts copying rows 0 to valid_rows - 1 of a matrix with ValidColumns columns into a tile. What the matrix
/// does not have is zero in the tile, and not read. Complete after wait_group and a barrier.
///
/// Alignment is what the address and the stride are known to be a multiple of, in bytes: 16, 8 or 4 use
/// cp.async of that size, less uses plain loads and stores, to which the same barrier applies.
template <int Threads, int ValidColumns, int Alignment = 16, typename T, int Rows, int Columns,
          typename Stride>
__device__ __forceinline__ void copy_async(const SharedTile<T, Rows, Columns> &tile, const T *global,
                                           Stride stride, int valid_rows) {
  using Tile = SharedTile<T, Rows, Columns>;
  static_assert(ValidColumns <= Columns, "the matrix is wider than the tile");
  constexpr int kChunks = Tile::kRowChunks, kElements = Tile::kChunkElements;
  constexpr int kSteps = (Rows * kChunks + Threads - 1) / Threads;
  // Where the threads make up whole rows each keeps its chunk and walks down, one addition a step.
  constexpr bool kWholeRows = Threads % kChunks == 0, kWalks = kWholeRows && is_same<Stride, int64>;
  const uint32 thread = opaque(Threads == 32 ? threadIdx.x % 32 : threadIdx.x);
  const T *walk = global;
  if constexpr (kWalks)
    walk += int64(thread / kChunks) * stride + thread % kChunks * kElements;
  // Without cp.async a step holds its loads in registers, and is much code.
#pragma unroll(Alignment >= 4 ? kSteps : 2)
  for (int step = 0; step < kSteps; ++step) {
    const uint32 index = step * Threads + thread;
    const int row = kWholeRows ? thread / kChunks + step * (Threads / kChunks) : index / kChunks;
    const int chunk = kWholeRows ? thread % kChunks : index % kChunks;
    if (Rows * kChunks % Threads != 0 && index >= Rows * kChunks)
      break;
    const T *source = walk;
    if constexpr (kWalks)
      walk += Threads / kChunks * stride;
    else
      source += row * stride + chunk * kElements;
    const int columns =
        ValidColumns == Columns ? kElements : min(max(ValidColumns - chunk * kElements, 0), kElements);
    copy_chunk_async<Alignment>(tile, row, chunk, source, row < valid_rows ? columns : 0);
  }
}

/// Stores rows 0 to valid_rows - 1 and columns 0 to ValidColumns - 1 of a tile to global memory, in whole
/// rows, with accesses of up to 16 bytes.
template <int Threads, int ValidColumns, int Alignment = 16, typename T, int Rows, int Columns,
          typename Stride>
__device__ __forceinline__ void copy(T *global, Stride stride, int valid_rows,
                                     const SharedTile<T, Rows, Columns> &tile) {
  using Tile = SharedTile<T, Rows, Columns>;
  constexpr int kChunks = Tile::kRowChunks, kElements = Tile::kChunkElements;
  constexpr int kSteps = (Rows * kChunks + Threads - 1) / Threads;
#pragma unroll(Alignment >= 16 ? kSteps : 2)
  for (int step = 0; step < kSteps; ++step) {
    const uint32 index = step * Threads + threadIdx.x;
    const int row =
        Threads % kChunks == 0 ? threadIdx.x / kChunks + step * (Threads / kChunks) : index / kChunks;
    const int chunk = Threads % kChunks == 0 ? threadIdx.x % kChunks : index % kChunks;
    if (row >= min(valid_rows, Rows) || chunk * kElements >= ValidColumns)
      continue;
    T *target = global + row * stride + chunk * kElements;
    const T *source = tile.chunk(row, chunk);
    if (Alignment >= 16 && (ValidColumns % kElements == 0 || (chunk + 1) * kElements <= ValidColumns)) {
      *reinterpret_cast<uint4 *>(target) = *reinterpret_cast<const uint4 *>(source);
    } else {
#pragma unroll
      for (int i = 0; i < kElements; ++i)
        if (chunk * kElements + i < ValidColumns)
          target[i] = source[i];
    }
  }
}

} // namespace attn
