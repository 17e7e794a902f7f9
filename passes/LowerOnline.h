//===- LowerOnline.h - what the CPU kernels of an online attention share -----===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PASSES_LOWERONLINE_H
#define ATTN_PASSES_LOWERONLINE_H

#include "passes/BlockRanges.h"
#include "passes/CpuTile.h"
#include "passes/VectorizeRegion.h"

namespace attn {

/// One unit of work: a block [begin, begin + count) of the blocked dimension of one head.
struct WorkItem {
  /// `head` is a query head for forward and dq, the key head for dkdv.
  mlir::Value batch, head, kvHead;
  mlir::Value begin, count;
  /// Which part of the keys, with `kv_splits`; null without.
  mlir::Value split;

  RowBlock rows(mlir::Value buffer, bool ofKeys) const {
    return {buffer, batch, ofKeys ? kvHead : head, begin, count};
  }
};

/// Base of the lowerings of each kernel kind: operands as buffers, lengths, the loop over work items, the
/// regions.
class OnlineLowering {
public:
  OnlineLowering(mlir::OpBuilder &builder, OnlineAttentionOp op);

protected:
  /// The operand as a strided buffer that is only read.
  mlir::Value toBuffer(mlir::Value tensor);
  /// A buffer for a result of the operation.
  mlir::Value allocateResult(unsigned index);
  void replaceOp(mlir::ValueRange buffers);

  mlir::Value dim(mlir::Value buffer, int64_t position);
  /// Runs `body` in parallel for every block of every head of every batch entry (and every split), the last
  /// blocks first: under a causal mask they are the longest.
  void forEachWorkItem(mlir::Value heads, mlir::Value length, int64_t blockSize, int64_t splits,
                       llvm::function_ref<void(const WorkItem &)> body);

  /// `head` is the query head: for dkdv one of those that share the item's key head.
  BlockRanges evaluateRanges(const WorkItem &item, mlir::Value head);
  /// What a work item streams past: its ranges, and the mask evaluated as far as its head allows.
  struct Visits {
    const WorkItem &item;
    const std::optional<RegionVectorizer> &mask;
    BlockRanges ranges;
  };
  /// Runs `body(begin, count, masked)` for every block of `blockSize` within [begin, end) that is not empty;
  /// `masked` is null where no block is.
  void forEachVisitedBlock(const Visits &visits, mlir::Value begin, mlir::Value end, int64_t blockSize,
                           llvm::function_ref<void(mlir::Value, mlir::Value, mlir::Value)> body);
  /// Runs `body(masked)` for the streamed block [begin, end), unless it is empty. Without block lists it is
  /// taken to meet the only visited range where there is but one, `isInRange`.
  void visitBlock(const Visits &visits, mlir::Value begin, mlir::Value end, bool isInRange,
                  llvm::function_ref<void(mlir::Value)> body);
  /// Whether the mask keeps a pair of the item's block and [begin, end): evaluates it up to the first one.
  mlir::Value keepsAny(const Visits &visits, mlir::Value begin, mlir::Value end);
  /// Emits `body(true)` where `masked` holds and `body(false)` elsewhere.
  void withAndWithoutMask(mlir::Value masked, llvm::function_ref<void(bool)> body);

  /// Whether a packed tile holds an infinity or a NaN that a product has to keep from pairs that are dropped;
  /// null where no pair is.
  mlir::Value findNonFinite(mlir::Value tile, mlir::Value rows);

  /// A region of one head, evaluated as far as batch and head allow; nothing where the region is empty.
  std::optional<RegionVectorizer> prepareScore(mlir::Value batch, mlir::Value head);
  std::optional<RegionVectorizer> prepareMask(mlir::Value batch, mlir::Value head);
  std::optional<RegionVectorizer> prepareGradient(mlir::Value batch, mlir::Value head);
  std::optional<RegionVectorizer> prepareRegion(mlir::Region &region, unsigned batchArg, mlir::Value batch,
                                                unsigned headArg, mlir::Value head, bool alwaysSpeculative);

  OnlineAttentionOp op;
  mlir::ImplicitLocOpBuilder b;
  TileBuilder t;
  int64_t headDim, valueDim;
  mlir::Value query, key, value, blockLists;
  mlir::Value batches, qHeads, kvHeads, group;
  RegionContext context;

private:
  llvm::SmallDenseMap<mlir::Value, mlir::Value> buffers; ///< of the operands
};

void lowerOnlineForward(mlir::OpBuilder &builder, OnlineAttentionOp op);
void lowerOnlineDq(mlir::OpBuilder &builder, OnlineAttentionOp op);
void lowerOnlineDkdv(mlir::OpBuilder &builder, OnlineAttentionOp op);

} // namespace attn

#endif // ATTN_PASSES_LOWERONLINE_H
