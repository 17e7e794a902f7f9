//===- MaskStructure.h - the blocks that a mask leaves empty or full --------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PASSES_MASKSTRUCTURE_H
#define ATTN_PASSES_MASKSTRUCTURE_H

#include "dialect/AttnDialect.h"
#include "mlir/IR/Builders.h"

namespace attn {
/// How many indices a block has, unless a length or a range ends before.
struct BlockSizes {
  int64_t blocked, streamed;
};

/// How well the ranges describe the mask. They are sound in any case.
struct MaskStructure {
  /// Whether every streamed block that meets a visited range holds a pair that is kept, and every one that
  /// meets a masked range a pair that is dropped.
  bool isExact = true;
  /// The first operation of the mask region, if any, that depends on the indices in a way that is not
  /// understood; what it decides is taken to go either way.
  mlir::Operation *unknown = nullptr;
  /// Whether the formula is larger than what the analysis goes into.
  bool exceedsLimits = false;
  /// Why the ranges are not exact, for a remark; empty where they are.
  std::string reason;
};

/// Fills `ranges`, an empty region, with what the `ranges` region of `attn.online_attention` has to hold for
/// `mask`, a region that is not empty. Blocks are of queries and ranges of keys, or the reverse if
/// `blocksKeys`. No block of the region may be larger than `sizes.blocked`; smaller streamed blocks cost no
/// more than exactness.
///
/// Index arithmetic of the mask is taken not to overflow; the ranges then do not either, for lengths below
/// 2^31 and any value of the captures.
MaskStructure buildRanges(mlir::OpBuilder &builder, mlir::Location loc, mlir::Region &mask,
                          mlir::Region &ranges, bool blocksKeys, BlockSizes sizes);
} // namespace attn

#endif // ATTN_PASSES_MASKSTRUCTURE_H
