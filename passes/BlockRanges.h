//===- BlockRanges.h - the ranges of one block, in a kernel ------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PASSES_BLOCKRANGES_H
#define ATTN_PASSES_BLOCKRANGES_H

#include "dialect/AttnDialect.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include <optional>

namespace attn {

/// What a block of block lists is, beside empty.
enum class BlockKind { partial, full };

/// Which of the numbers that the lists have of a block is that of the next one of this kind, along its row or
/// column.
inline int64_t getListNumber(bool alongColumn, BlockKind kind) {
  return 2 * (alongColumn ? 1 : 0) + (kind == BlockKind::full ? 1 : 0);
}

/// A row or column of the block lists of an attention, in a kernel: that of the block which it keeps.
struct ListedBlocks {
  /// `begin`, a position in the block, is of keys or of queries as the attention blocks them.
  static ListedBlocks get(mlir::ImplicitLocOpBuilder &b, OnlineAttentionOp op, mlir::Value lists,
                          mlir::Value batch, mlir::Value head, mlir::Value begin);

  /// The first position of the streamed dimension from `position` on that lies in a block of this kind: at
  /// the end of the dimension, or past it, where there is none.
  mlir::Value getNext(mlir::ImplicitLocOpBuilder &b, mlir::Value position, BlockKind kind) const;
  /// Whether the block that holds `position` is full.
  mlir::Value isFull(mlir::ImplicitLocOpBuilder &b, mlir::Value position) const;

  mlir::Value lists, batch, head;
  mlir::Value block; ///< the number of the block, among those of the lists
  bool blocksKeys;
  int64_t streamedSize;

private:
  mlir::Value getBlock(mlir::ImplicitLocOpBuilder &b, mlir::Value position) const;
  mlir::Value load(mlir::ImplicitLocOpBuilder &b, mlir::Value streamedBlock, BlockKind kind) const;
};

/// What the ranges region of an online attention yields, as values of a kernel.
struct BlockRanges {
  using Range = std::pair<mlir::Value, mlir::Value>;
  llvm::SmallVector<Range> visited, masked;
  /// Without a mask everything is visited and nothing masked.
  bool all = false;
  /// Whether a block that meets a visited range may be empty all the same.
  bool inexact = false;
  /// What is known exactly, where there are block lists.
  std::optional<ListedBlocks> listed;

  /// Splits the operands of the region's terminator, already evaluated, into ranges.
  static BlockRanges get(YieldRangesOp yield, mlir::ValueRange bounds);
};

/// Whether [begin, end) meets any of the ranges.
mlir::Value meetsAny(mlir::ImplicitLocOpBuilder &b, llvm::ArrayRef<BlockRanges::Range> ranges,
                     mlir::Value begin, mlir::Value end);

} // namespace attn

#endif // ATTN_PASSES_BLOCKRANGES_H
