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

namespace attn {

/// What the ranges region of an online attention yields, as values of a kernel.
struct BlockRanges {
  using Range = std::pair<mlir::Value, mlir::Value>;
  llvm::SmallVector<Range> visited, masked;
  /// Without a mask everything is visited and nothing masked.
  bool all = false;

  /// Splits the operands of the region's terminator, already evaluated, into ranges.
  static BlockRanges get(YieldRangesOp yield, mlir::ValueRange bounds);
};

/// Whether [begin, end) meets any of the ranges.
mlir::Value meetsAny(mlir::ImplicitLocOpBuilder &b, llvm::ArrayRef<BlockRanges::Range> ranges,
                     mlir::Value begin, mlir::Value end);

} // namespace attn

#endif // ATTN_PASSES_BLOCKRANGES_H
