//===- TileBackwardQueries.cpp - the kernel of the kind dq -------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A block of the grid keeps block_m queries and streams the keys: no sum depends on the order of blocks.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/TileBackward.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace attn;
using namespace attn::tile;

namespace {
class QueryKernel : public BackwardKernel {
public:
  QueryKernel(ImplicitLocOpBuilder &host, OnlineAttentionOp op, StringRef name,
              const TileLoweringOptions &options)
      : BackwardKernel(host, op, name, options), dQueryOut(addResult("d_query")) {
    addCaptureGradients();
  }
  void build();

private:
  void allocateStorage();
  void copyBlock(Value keyBegin, Value stage);
  void step(Value queryBegin, const StreamedBlock &block);
  Value takeStage(Value stage) { return op.getSchedule().getStages() == 1 ? index(0) : stage; }

  Value dQueryOut;
  Value queryTile, dOutTile, keyRing, valueRing, dScoresTile, dQuery;
};
} // namespace

void QueryKernel::allocateStorage() {
  int64_t stages = op.getSchedule().getStages();
  queryTile = sharedTile("query_tile", blockM(), paddedHeadDim, elementType);
  dOutTile = sharedTile("d_out_tile", blockM(), paddedValueDim, elementType);
  keyRing = sharedRing("key_ring", stages, blockN(), paddedHeadDim, elementType);
  valueRing = sharedRing("value_ring", stages, blockN(), paddedValueDim, elementType);
  dScoresTile = sharedTile("d_scores_tile", blockM(), blockN(), elementType);
  FragmentType scoresType = accumulatorType(blockM(), blockN(), queryGrid);
  scores = fragment("scores", scoresType);
  dScores = fragment("d_scores", scoresType);
  rowLse = fragment("row_lse", scoresType.getRowsType());
  rowDelta = fragment("row_delta", scoresType.getRowsType());
  if (!op.getMask().empty() || scoresMayDrop())
    rowSum = fragment("row_sum", scoresType.getRowsType());
  dQuery = fragment("d_query_sum", accumulatorType(blockM(), paddedHeadDim, queryGrid));
}

/// Starts copying a block of keys and values; none where it begins past the last key.
void QueryKernel::copyBlock(Value keyBegin, Value stage) {
  ifThen(isLess(keyBegin, kvLen), [&] {
    copyRows(key, batch, kvHead, keyBegin, kvLen, ringSlot(keyRing, stage, "key_tile"));
    copyRows(value, batch, kvHead, keyBegin, kvLen, ringSlot(valueRing, stage, "value_tile"));
  });
  CopyCommitOp::create(b);
}

void QueryKernel::step(Value queryBegin, const StreamedBlock &block) {
  bool isSingle = op.getSchedule().getStages() == 1;
  Value stage = takeStage(block.stage);
  Value keyTile = ringSlot(keyRing, stage, "key_tile"), valueTile = ringSlot(valueRing, stage, "value_tile");
  // The block is there; all threads are done with the gradients, and the keys, of the one before.
  CopyWaitOp::create(b, 0);
  gpu::BarrierOp::create(b);
  FillOp::create(b, scores, f32(0));
  mma(scores, queryTile, keyTile, /*transposeA=*/false, /*transposeB=*/true);
  FillOp::create(b, dScores, f32(0));
  mma(dScores, dOutTile, valueTile, /*transposeA=*/false, /*transposeB=*/true);
  begin = block.begin;
  Value isRagged = named(isLess(kvLen, add(begin, index(blockN()))), "is_ragged");
  Value isNonFinite = withAndWithoutMask(block, isMasked(block, isRagged, sub(qLen, queryBegin)), scores,
                                         [&](bool isMasked) { differentiateTile(queryBegin, isMasked); });
  StoreSharedOp::create(b, dScores, dScoresTile);
  Value hasNonFinite = synchronise(isNonFinite);
  if (!isSingle)
    copyBlock(block.next, sub(index(1), block.stage));
  if (hasNonFinite)
    ifThen(hasNonFinite, [&] {
      copyFinite(key, kvHead, begin, kvLen, keyTile);
      gpu::BarrierOp::create(b);
    });
  mma(dQuery, dScoresTile, keyTile);
  if (isSingle) {
    gpu::BarrierOp::create(b);
    copyBlock(block.next, stage);
  }
}

void QueryKernel::build() {
  allocateStorage();
  // As in the forward, the last blocks first.
  Value numBlocks = named(ceilDiv(qLen, blockM()), "num_blocks");
  Value work = gpu::BlockIdOp::create(b, gpu::Dimension::x);
  Value position = takeDigit(work, numBlocks, "position");
  head = takeDigit(work, qHeads, "head");
  batch = named(work, "batch");
  kvHead = named(arith::DivSIOp::create(b, head, group), "kv_head");
  Value block = named(sub(sub(numBlocks, index(1)), position), "block");
  Value queryBegin = named(mul(block, index(blockM())), "q_begin");
  Value queryEnd = named(arith::MinSIOp::create(b, add(queryBegin, index(blockM())), qLen), "q_end");
  Value rows = named(sub(qLen, queryBegin), "q_rows");
  SmallVector<Value> place{batch, head, queryBegin};

  copyRows(query, batch, head, queryBegin, qLen, queryTile);
  copyRows(dOut, batch, head, queryBegin, qLen, dOutTile);
  loadRowLse(place, rows);
  LoadRowsOp::create(b, delta, place, rows, f32(0), rowDelta);
  FillOp::create(b, dQuery, f32(0));
  beginHead();
  forEachVisitedBlock(
      evaluateRanges(batch, head, queryBegin, queryEnd), {"kv", index(0), kvLen, blockN()},
      [&](Value first, Value stage) { copyBlock(first, takeStage(stage)); },
      [&](const StreamedBlock &block) { step(queryBegin, block); });
  endHead();
  CopyWaitOp::create(b, 0);
  scaleFragment(dQuery, op.getScaleOrDefault());
  StoreOp::create(b, dQuery, queryTile, dQueryOut, place, rows, options.aligned);
  launch(getNumBlocks(host, op.getQuery(), blockM()));
  replaceResults();
}

void attn::buildQueryKernel(ImplicitLocOpBuilder &host, OnlineAttentionOp op, StringRef name,
                            const TileLoweringOptions &options) {
  QueryKernel(host, op, name, options).build();
}
