//===- BlockLists.h - evaluating the blocks of a mask ------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PASSES_BLOCKLISTS_H
#define ATTN_PASSES_BLOCKLISTS_H

#include "dialect/AttnDialect.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "passes/RegionUtils.h"

namespace attn {

/// The indices [begin, end) of a block, along queries or keys; a thread looks at `first`, first + step, ….
struct BlockSide {
  mlir::Value begin, end, first;
  int64_t step;
};

/// What a block of a mask is, as i1: whether some of its pairs are kept, and whether all are.
struct BlockState {
  mlir::Value any, all;
};

/// Evaluates the mask on the pairs of a block, unless the ranges of the operation know what it is. The loops
/// see the pairs of one thread; `combine` makes of that what holds for the block.
BlockState evaluateBlock(mlir::ImplicitLocOpBuilder &b, BlockListsOp op, mlir::Value batch, mlir::Value head,
                         const BlockSide &queries, const BlockSide &keys, mlir::ValueRange captures,
                         const RegionInlining &inlining, llvm::function_ref<BlockState(BlockState)> combine);

/// A new buffer for the result. Its sizes are computed by the host, from those of the operands.
mlir::Value allocateLists(mlir::ImplicitLocOpBuilder &host, BlockListsOp op);

} // namespace attn

#endif // ATTN_PASSES_BLOCKLISTS_H
