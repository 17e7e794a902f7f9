//===- mma.cuh - products of tiles ------------------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// mma(acc, a, b) is acc += a b with a of M x K and b of K x N. `a` is a SharedTile, a transposed one or an
// Operand in registers; `b` is a SharedTile or a transposed one. The k loop is here: for each 16 columns of
// `a`, ldmatrix brings both operands into registers, and each warp multiplies its band of rows with its band
// of columns.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attn/fragment.cuh"

namespace attn {

/// Reads the 16 x 16 tiles of a left operand that belong to a warp with `Size` rows from first_row on.
template <typename A, int Size>
struct LeftReader;

/// Lanes 0 to 15 address the rows of columns 0 to 7, lanes 16 to 31 those of columns 8 to 15.
template <typename T, int M, int K, int Size>
struct LeftReader<SharedTile<T, M, K>, Size> {
  using Tile = SharedTile<T, M, K>;
  const uint32 address;
  __device__ __forceinline__ LeftReader(const Tile &a, int first_row)
      : address(a.chunk_address(first_row + lane_index() % 16, lane_index() / 16)) {}
  __device__ __forceinline__ void read(uint32 (&registers)[4], int i, int k) const {
    ldmatrix_x4(registers, Tile::advance(address, 16 * i, 2 * k));
  }
};

/// The tile holds columns of `a` as rows: matrices in the order rows 0 and 8 of columns 0 to 7, then of
/// columns 8 to 15.
template <typename T, int K, int M, int Size>
struct LeftReader<Transposed<SharedTile<T, K, M>>, Size> {
  using Tile = SharedTile<T, K, M>;
  static_assert(Tile::template can_advance<Size>, "the rows of a warp straddle permuted chunks");
  const uint32 address;
  __device__ __forceinline__ LeftReader(const Transposed<Tile> &a, int first_row)
      : address(a.tile.chunk_address(lane_index() % 8 + lane_index() / 16 * 8,
                                     first_row / 8 + lane_index() / 8 % 2)) {}
  __device__ __forceinline__ void read(uint32 (&registers)[4], int i, int k) const {
    ldmatrix_x4_trans(registers, Tile::advance(address, 16 * k, 2 * i));
  }
};

template <typename T, int M, int K, int WarpsM, int Size>
struct LeftReader<Operand<T, M, K, WarpsM>, Size> {
  const Operand<T, M, K, WarpsM> &operand;
  __device__ __forceinline__ LeftReader(const Operand<T, M, K, WarpsM> &a, int) : operand(a) {}
  __device__ __forceinline__ void read(uint32 (&registers)[4], int i, int k) const {
#pragma unroll
    for (int r = 0; r < 4; ++r)
      registers[r] = operand.data[i][k][r];
  }
};

/// Reads the 16 x 16 tiles of a right operand that belong to a warp with `Size` columns from first_column on.
template <typename B, int Size>
struct RightReader;

/// Matrices in the order rows 0 and 8 of columns 0 to 7, then of columns 8 to 15.
template <typename T, int K, int N, int Size>
struct RightReader<SharedTile<T, K, N>, Size> {
  using Tile = SharedTile<T, K, N>;
  static_assert(Tile::template can_advance<Size>, "the columns of a warp straddle permuted chunks");
  const uint32 address;
  __device__ __forceinline__ RightReader(const Tile &b, int first_column)
      : address(b.chunk_address(lane_index() % 16, first_column / 8 + lane_index() / 16)) {}
  __device__ __forceinline__ void read(uint32 (&registers)[4], int j, int k) const {
    ldmatrix_x4_trans(registers, Tile::advance(address, 16 * k, 2 * j));
  }
};

/// The tile holds columns of `b` as rows.
template <typename T, int N, int K, int Size>
struct RightReader<Transposed<SharedTile<T, N, K>>, Size> {
  using Tile = SharedTile<T, N, K>;
  const uint32 address;
  __device__ __forceinline__ RightReader(const Transposed<Tile> &b, int first_column)
      : address(b.tile.chunk_address(first_column + lane_index() % 8 + lane_index() / 16 * 8,
                                     lane_index() / 8 % 2)) {}
  __device__ __forceinline__ void read(uint32 (&registers)[4], int j, int k) const {
    ldmatrix_x4(registers, Tile::advance(address, 16 * j, 2 * k));
  }
};

template <int M, int N, int WarpsM, int WarpsN, typename A, typename B>
__device__ __forceinline__ void mma(Fragment<float, M, N, WarpsM, WarpsN> &acc, const A &a, const B &b) {
  using T = typename A::Element;
  static_assert(is_same<T, typename B::Element>, "operands of different types");
  static_assert(A::kRows == M && B::kColumns == N && A::kColumns == B::kRows, "shapes that do not fit");
  static_assert(N % (16 * WarpsN) == 0 && A::kColumns % 16 == 0, "each warp multiplies whole 16 x 16 tiles");
  constexpr int kRowTiles = Fragment<float, M, N, WarpsM, WarpsN>::kRowTiles;
  const LeftReader<A, M / WarpsM> left(a, acc.warp_row());
  const RightReader<B, N / WarpsN> right(b, acc.warp_column());
#pragma unroll
  for (int k = 0; k < A::kColumns / 16; ++k) {
    uint32 a_registers[kRowTiles][4];
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i)
      left.read(a_registers[i], i, k);
#pragma unroll
    for (int j = 0; j < N / (16 * WarpsN); ++j) {
      uint32 b_registers[4];
      right.read(b_registers, j, k);
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) {
        mma_m16n8k16<T>(acc.data[i][2 * j], a_registers[i], b_registers[0], b_registers[1]);
        mma_m16n8k16<T>(acc.data[i][2 * j + 1], a_registers[i], b_registers[2], b_registers[3]);
      }
    }
  }
}

/// Brings a left operand into registers for good.
template <typename T, int M, int K, int WarpsM>
__device__ __forceinline__ void load(Operand<T, M, K, WarpsM> &operand, const SharedTile<T, M, K> &tile) {
  const LeftReader<SharedTile<T, M, K>, M / WarpsM> left(tile, warp_index() * (M / WarpsM));
#pragma unroll
  for (int i = 0; i < operand.kRowTiles; ++i)
#pragma unroll
    for (int k = 0; k < operand.kColumnTiles; ++k)
      left.read(operand.data[i][k], i, k);
}

} // namespace attn
