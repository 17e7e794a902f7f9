//===- MaskBlocks.h - which blocks of a score matrix a mask keeps ------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TOOLS_COMMON_MASKBLOCKS_H
#define ATTN_TOOLS_COMMON_MASKBLOCKS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tools/common/HostTensor.h"

namespace attn {

/// The blocks of one score matrix.
struct MaskBlocks {
  enum Kind : uint8_t { empty, partial, full };

  int64_t qLen = 0, kvLen = 0;
  int64_t blockM = 1, blockN = 1;
  int64_t rows = 0, columns = 0;
  /// Pairs that each block keeps, row-major.
  llvm::SmallVector<int64_t> kept;

  /// How a plan treats each block; empty without a plan.
  llvm::SmallVector<Kind> planned;

  /// Pairs in a block: fewer at the ends.
  int64_t getNumPairs(int64_t row, int64_t column) const;
  Kind getKind(int64_t row, int64_t column) const;
  int64_t count(Kind kind) const;
  /// Blocks that the plan visits though they are empty, evaluates the mask in though they are full: lost
  /// time.
  int64_t countVisitedEmpty() const;
  int64_t countMaskedFull() const;
  /// Blocks that the plan skips though they keep a pair, or takes as full though they drop one: a fault of
  /// the compiler.
  int64_t countUnsound() const;
};

/// A function that is `function` up to `attention`, then counts the pairs that each block of its mask keeps:
/// `@attn_mask_counts(arguments…, b, h, block_m, block_n : index) -> tensor<?x?xi64>`. It is put beside
/// `function`.
mlir::func::FuncOp buildMaskCounts(mlir::func::FuncOp function, mlir::Operation *attention);

/// The same for the ranges of a planned attention: for each block of `block` of the blocked dimension, the
/// begins and ends of the visited ranges, then those of the masked ranges: `@attn_ranges(arguments…, b, h,
/// block : index) -> tensor<?xRx2xi64>`.
mlir::func::FuncOp buildRangesProbe(mlir::func::FuncOp function, mlir::Operation *onlineAttention);

constexpr llvm::StringLiteral kMaskCountsName = "attn_mask_counts";
constexpr llvm::StringLiteral kRangesProbeName = "attn_ranges";

/// From the result of the first function.
MaskBlocks makeMaskBlocks(const HostTensor &counts, int64_t qLen, int64_t kvLen, int64_t blockM,
                          int64_t blockN);

/// Blocks of a mask that keeps everything.
MaskBlocks makeUnmaskedBlocks(int64_t qLen, int64_t kvLen, int64_t blockM, int64_t blockN);

/// Fills `planned` from the result of the second function; `numVisited` of the R ranges are visited ones.
/// `blocksKeys`: rows of `ranges` are blocks of keys.
void setPlannedBlocks(MaskBlocks &blocks, const HostTensor &ranges, unsigned numVisited, bool blocksKeys);

} // namespace attn

#endif // ATTN_TOOLS_COMMON_MASKBLOCKS_H
