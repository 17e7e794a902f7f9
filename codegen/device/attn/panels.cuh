//===- panels.cuh - tiles as TMA writes and wgmma reads them ----*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attn/shared_tile.cuh"

namespace attn {

/// A Rows x Columns tile of 16-bit elements in panels of 128 bytes, the last one filled up: panel after
/// panel, each of Rows rows. Chunk c (of 16 bytes) of row r lies at c ^ (r % 8) of its panel: the 128-byte
/// swizzle. The tile begins at a multiple of 1024 bytes.
template <typename T, int Rows, int Columns>
class PanelTile {
public:
  using Element = T;
  static constexpr int kRows = Rows, kColumns = Columns;
  static constexpr int kPanels = (Columns + 63) / 64, kPanelColumns = 64;
  static constexpr int kPanelBytes = Rows * 128, kBytes = kPanels * kPanelBytes;

  __device__ __forceinline__ explicit PanelTile(uint32 address) : address_(address) {}

  __device__ __forceinline__ uint32 panel_address(int panel) const { return address_ + panel * kPanelBytes; }

  /// The lower half of the descriptor of a wgmma operand whose inner dimension is the columns (PTX ISA,
  /// "Matrix descriptor": address in bits 0 to 13, in units of 16 bytes, as are all fields), from `row` on, a
  /// multiple of 8. The leading offset, bits 16 to 29, means nothing for it.
  __device__ __forceinline__ uint32 column_descriptor(int row) const {
    return (address_ + row * 128) >> 4 | 1 << 16;
  }
  /// What is to be added for columns 16 k and on.
  __device__ __forceinline__ static constexpr uint32 column_step(int k) {
    return uint32(k / 4 * kPanelBytes + k % 4 * 32) >> 4;
  }

  /// The same of an operand whose inner dimension is the rows; the leading offset is that from panel to
  /// panel.
  __device__ __forceinline__ uint32 row_descriptor() const {
    return address_ >> 4 | uint32(kPanelBytes >> 4) << 16;
  }
  /// What is to be added for rows 16 k and on.
  __device__ __forceinline__ static constexpr uint32 row_step(int k) { return uint32(k * 16 * 128) >> 4; }

private:
  uint32 address_;
};

/// The upper half of the descriptors: from one group of 8 rows to the next it is 1024 bytes (bits 32 to 45),
/// and the swizzle is that of 128 bytes (bits 62 and 63).
constexpr uint32 kUpperDescriptor = 1024 >> 4 | 1u << 30;

template <typename T, int Rows, int Columns>
__device__ __forceinline__ Transposed<PanelTile<T, Rows, Columns>>
transpose(const PanelTile<T, Rows, Columns> &tile) {
  return {tile};
}

} // namespace attn
