//===- shared_tile.cuh - tiles in shared memory -----------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attn/ptx.cuh"

namespace attn {

/// A Rows x Columns tile in shared memory, row after row, without padding.
///
/// The 16-byte chunks of a row are permuted so that eight consecutive rows hold the same column in eight
/// different sets of four banks: ldmatrix, which reads one column of eight rows, then has no bank conflict.
/// With g = gcd(chunks a row, 8), chunk c of row r lies at position c ^ ((r / (8 / g)) % g). The storage is
/// aligned to 128 bytes.
template <typename T, int Rows, int Columns>
class SharedTile {
  static constexpr int kChunkCount = Columns * int(sizeof(T)) / 16;
  static constexpr int kPermuted = kChunkCount % 8 == 0 ? 8 : kChunkCount % 4 == 0 ? 4 : 2;

public:
  using Element = T;
  static constexpr int kRows = Rows, kColumns = Columns;
  static constexpr int kChunkElements = 16 / int(sizeof(T));
  static constexpr int kRowChunks = kChunkCount;
  static constexpr int kRowBytes = Columns * int(sizeof(T));
  static constexpr int kBytes = Rows * kRowBytes;
  static_assert(Columns % 16 == 0 && Rows % 8 == 0, "tiles have whole 8 x 16 blocks");

  __device__ __forceinline__ explicit SharedTile(void *storage)
      : storage_(static_cast<unsigned char *>(storage)), address_(shared_address(storage)) {}

  /// The address of a 16-byte chunk, as instructions take it.
  __device__ __forceinline__ uint32 chunk_address(int row, int chunk) const {
    return address_ + chunk_offset(row, chunk);
  }

  /// The address `rows` rows and `chunks` chunks further on than chunk_address(r, c), where rows is a
  /// multiple of 8, chunks is even and c = b + 0 or 1; b is 0 or the start of one of several equal parts of
  /// the row that can_advance<columns of the part> allows, and chunks stays inside it. Costs one instruction,
  /// or none where chunks is a multiple of g.
  __device__ __forceinline__ static uint32 advance(uint32 address, int rows, int chunks) {
    return (address ^ uint32(chunks % kPermuted * 16)) +
           uint32(rows * kRowBytes + chunks / kPermuted * kPermuted * 16);
  }

  /// Parts that are the whole row, a power of two or a multiple of g chunks: adding to their start carries
  /// into no permuted bit.
  template <int PartColumns>
  static constexpr bool can_advance =
      PartColumns == Columns || PartColumns / kChunkElements % kPermuted == 0 ||
      (PartColumns & (PartColumns - 1)) == 0;

  __device__ __forceinline__ T *chunk(int row, int chunk) const {
    return reinterpret_cast<T *>(storage_ + chunk_offset(row, chunk));
  }

  __device__ __forceinline__ T &at(int row, int column) const {
    return chunk(row, column / kChunkElements)[column % kChunkElements];
  }

private:
  __device__ __forceinline__ static int chunk_offset(int row, int chunk) {
    return row * kRowBytes + (chunk ^ int(uint32(row) / (8 / kPermuted) % kPermuted)) * 16;
  }

  unsigned char *storage_;
  uint32 address_;
};

/// Tiles one behind the other, the stages of a pipeline.
template <typename T, int Rows, int Columns, int Stages>
class SharedTileRing {
public:
  using Tile = SharedTile<T, Rows, Columns>;
  static constexpr int kBytes = Stages * Tile::kBytes;

  __device__ __forceinline__ explicit SharedTileRing(void *storage)
      : storage_(static_cast<unsigned char *>(storage)) {}

  __device__ __forceinline__ Tile operator[](int stage) const {
    return Tile(storage_ + stage * Tile::kBytes);
  }

private:
  unsigned char *storage_;
};

/// A vector in shared memory, such as the lse of a block of rows.
template <typename T, int Size>
class SharedVector {
public:
  using Element = T;
  static constexpr int kSize = Size;
  static constexpr int kBytes = Size * int(sizeof(T));

  __device__ __forceinline__ explicit SharedVector(void *storage) : storage_(static_cast<T *>(storage)) {}

  __device__ __forceinline__ T &operator[](int index) const { return storage_[index]; }
  __device__ __forceinline__ T *data() const { return storage_; }

private:
  T *storage_;
};

/// A tile read with rows and columns exchanged.
template <typename Tile>
struct Transposed {
  using Element = typename Tile::Element;
  static constexpr int kRows = Tile::kColumns, kColumns = Tile::kRows;
  Tile tile;
};

template <typename Operand>
inline constexpr bool is_transposed = false;
template <typename Tile>
inline constexpr bool is_transposed<Transposed<Tile>> = true;

template <typename T, int Rows, int Columns>
__device__ __forceinline__ Transposed<SharedTile<T, Rows, Columns>>
transpose(const SharedTile<T, Rows, Columns> &tile) {
  return {tile};
}

} // namespace attn
