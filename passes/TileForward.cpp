//===- TileForward.cpp - the forward kernel of the portable GPU family -------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// FlashAttention-2 (Dao 2023): a block of the grid keeps block_m queries and streams the keys in blocks of
// block_n. Warps divide the rows, so that the softmax of a row stays in four lanes, and the probabilities are
// the left operand of the second product in the registers where the first left them. One tile of keys and one
// of values: the keys of the next block are copied while the softmax runs, the values while the scores are
// computed.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/TileKernel.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace attn;
using namespace attn::tile;

namespace {
class ForwardKernel : public OnlineTileKernel {
public:
  ForwardKernel(ImplicitLocOpBuilder &host, OnlineAttentionOp op, StringRef name,
                const TileLoweringOptions &options);
  void build();

private:
  void allocateStorage();
  void step(Value keyBegin, Value nextKeyBegin, Value masked);
  void applyRegions(Value keyBegin, Value masked);
  void softmax();
  void finalise();

  /// Whether scores stay q k^T, and the scale is a factor of the exponent.
  bool foldsScale() { return op.getScore().empty() && op.getScaleOrDefault() > 0; }
  Value exp2(Value exponent);
  /// `max`, but 0 for a row without a key so far: -inf - -inf would be a NaN.
  Value getShift(Value max);
  Value isEmpty(Value rowValue, Value empty) {
    return arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, rowValue, empty);
  }

  ImplicitLocOpBuilder &host;
  Value hostOut, hostLse, out, lse;
  // The block of the grid.
  Value split, batch, head, kvHead, begin;
  /// Where the keys of the block end: those of its split.
  Value keyEnd;
  // Storage.
  Value queryTile, keyTile, valueTile, scoresTile;
  Value scores, probabilities, output, rowMax, rowSum, blockSum, rescale;
};
} // namespace

ForwardKernel::ForwardKernel(ImplicitLocOpBuilder &host, OnlineAttentionOp op, StringRef name,
                             const TileLoweringOptions &options)
    : OnlineTileKernel(host, op, name, options), host(host) {
  int64_t leading = op.getSchedule().getKvSplits() > 1 ? 1 : 0;
  hostOut = allocateResult(host, op.getResult(0), op.getQuery(), leading);
  hostLse = allocateResult(host, op.getResult(1), op.getQuery(), leading);
  out = addParameter(hostOut, "out");
  lse = addParameter(hostLse, "lse");
}

void ForwardKernel::allocateStorage() {
  ArrayRef<int64_t> grid = queryGrid;
  queryTile = sharedTile("query_tile", blockM(), paddedHeadDim, elementType);
  keyTile = sharedTile("key_tile", blockN(), paddedHeadDim, elementType);
  valueTile = sharedTile("value_tile", blockN(), paddedValueDim, elementType);
  FragmentType scoresType = accumulatorType(blockM(), blockN(), grid);
  scores = fragment("scores", scoresType);
  if (elementType.isF32())
    scoresTile = sharedTile("scores_tile", blockM(), blockN(), elementType);
  else
    probabilities =
        fragment("probabilities", FragmentType::get(b.getContext(), scoresType.getShape(), elementType,
                                                    Layout::operand_a, scoresType.getWarps()));
  output = fragment("output", accumulatorType(blockM(), paddedValueDim, grid));
  rowMax = fragment("row_max", scoresType.getRowsType());
  rowSum = fragment("row_sum", scoresType.getRowsType());
  blockSum = fragment("block_sum", scoresType.getRowsType());
  rescale = fragment("rescale", scoresType.getRowsType());
}

Value ForwardKernel::exp2(Value exponent) {
  // The hardware's exp2 has a relative error of 2^-22, far below the rounding of the probabilities to 16
  // bits; where they are not rounded the accurate one is called.
  auto flags = elementType.isF32() ? arith::FastMathFlags::none : arith::FastMathFlags::afn;
  return math::Exp2Op::create(b, exponent, flags);
}

Value ForwardKernel::getShift(Value max) {
  return arith::SelectOp::create(b, isEmpty(max, f32(-INFINITY)), f32(0), max);
}

void ForwardKernel::step(Value keyBegin, Value nextKeyBegin, Value masked) {
  // All keys are there; all threads are done with the values of the block before.
  CopyWaitOp::create(b, 0);
  gpu::BarrierOp::create(b);
  copyRows(value, batch, kvHead, keyBegin, kvLen, valueTile);
  CopyCommitOp::create(b);
  FillOp::create(b, scores, f32(0));
  mma(scores, queryTile, keyTile, /*transposeA=*/false, /*transposeB=*/true);

  // All values are there; all threads are done with the keys.
  CopyWaitOp::create(b, 0);
  gpu::BarrierOp::create(b);
  ifThen(isLess(nextKeyBegin, keyEnd), [&] { copyRows(key, batch, kvHead, nextKeyBegin, kvLen, keyTile); });
  CopyCommitOp::create(b);
  applyRegions(keyBegin, masked);
  softmax();
  if (elementType.isF32()) {
    StoreSharedOp::create(b, scores, scoresTile);
    gpu::BarrierOp::create(b);
    mma(output, scoresTile, valueTile);
  } else {
    ConvertOp::create(b, scores, probabilities);
    mma(output, probabilities, valueTile);
  }
}

/// Scale, score and mask of a block of scores.
void ForwardKernel::applyRegions(Value keyBegin, Value masked) {
  auto getPair = [&](ValueRange indices) {
    Value queryIndex = named(add(begin, indices[0]), "q_idx"),
          keyIndex = named(add(keyBegin, indices[1]), "kv_idx");
    return std::pair(queryIndex, keyIndex);
  };
  if (!foldsScale())
    map({}, scores, [&](ValueRange indices, ValueRange elements) -> SmallVector<Value> {
      Value s = arith::MulFOp::create(b, elements[0], f32(op.getScaleOrDefault()));
      if (op.getScore().empty())
        return {s};
      auto [queryIndex, keyIndex] = getPair(indices);
      return {inlineScore(s, batch, head, queryIndex, keyIndex)};
    });
  ifThen(masked, [&] {
    map({}, scores, [&](ValueRange indices, ValueRange elements) -> SmallVector<Value> {
      auto [queryIndex, keyIndex] = getPair(indices);
      Value keep = isLess(keyIndex, kvLen);
      if (!op.getMask().empty())
        keep = arith::AndIOp::create(b, keep, inlineMask(batch, head, queryIndex, keyIndex));
      return {arith::SelectOp::create(b, keep, elements[0], f32(-INFINITY))};
    });
  });
}

/// Turns scores into probabilities; updates the maximum, the sum and the output of each row.
void ForwardKernel::softmax() {
  map(rowMax, rescale, [&](ValueRange, ValueRange elements) -> SmallVector<Value> { return {elements[0]}; });
  RowReduceOp::create(b, Combine::max, scores, rowMax, /*partial=*/false);

  double scale = foldsScale() ? op.getScaleOrDefault() : 1.0;
  Value toBase2 = f32(scale * llvm::numbers::log2e);
  map(rowMax, rescale, [&](ValueRange, ValueRange elements) -> SmallVector<Value> {
    Value shift = getShift(elements[0]);
    return {exp2(arith::MulFOp::create(b, arith::SubFOp::create(b, elements[1], shift), toBase2))};
  });
  map(rowMax, scores, [&](ValueRange, ValueRange elements) -> SmallVector<Value> {
    // Not one multiply-add: with a large maximum its product is rounded by more than the difference.
    Value shift = getShift(elements[0]);
    return {exp2(arith::MulFOp::create(b, arith::SubFOp::create(b, elements[1], shift), toBase2))};
  });
  // The sum of the block first: one addition a block to a sum that may be long.
  FillOp::create(b, blockSum, f32(0));
  RowReduceOp::create(b, Combine::add, scores, blockSum, /*partial=*/true);
  map({rescale, blockSum}, rowSum, [&](ValueRange, ValueRange elements) -> SmallVector<Value> {
    return {math::FmaOp::create(b, elements[2], elements[0], elements[1])};
  });
  map(rescale, output, [&](ValueRange, ValueRange elements) -> SmallVector<Value> {
    return {arith::MulFOp::create(b, elements[1], elements[0])};
  });
}

/// Normalises the output and stores it and lse.
void ForwardKernel::finalise() {
  RowCombineOp::create(b, Combine::add, rowSum);
  // A division a row; a multiplication more does not show in an output rounded to 16 bits.
  if (!elementType.isF32())
    map(rowSum, rescale, [&](ValueRange, ValueRange elements) -> SmallVector<Value> {
      return {arith::DivFOp::create(b, f32(1), elements[0])};
    });
  map({rowSum, rescale}, output, [&](ValueRange, ValueRange elements) -> SmallVector<Value> {
    Value sum = elements[0], o = elements[2];
    Value normalised = elementType.isF32() ? arith::DivFOp::create(b, o, sum).getResult()
                                           : arith::MulFOp::create(b, o, elements[1]).getResult();
    return {arith::SelectOp::create(b, isEmpty(sum, f32(0)), f32(0), normalised)};
  });
  double scale = foldsScale() ? op.getScaleOrDefault() : 1.0;
  map(rowSum, rowMax, [&](ValueRange, ValueRange elements) -> SmallVector<Value> {
    Value l =
        math::FmaOp::create(b, elements[1], f32(scale), math::LogOp::create(b, elements[0]).getResult());
    return {arith::SelectOp::create(b, isEmpty(elements[0], f32(0)), f32(-INFINITY), l)};
  });
  Value rows = named(sub(qLen, begin), "q_rows");
  SmallVector<Value> place{batch, head, begin};
  if (split)
    place.insert(place.begin(), split);
  auto outElement = cast<MemRefType>(out.getType()).getElementType();
  auto stagingType = SharedType::get(b.getContext(), {blockM(), paddedValueDim}, cast<FloatType>(outElement));
  Value staging;
  if (stagingType.getBytes() <= cast<SharedType>(queryTile.getType()).getBytes())
    staging = SharedReuseOp::create(b, stagingType, queryTile, b.getStringAttr("output_tile"));
  StoreOp::create(b, output, staging, out, place, rows, options.aligned);
  StoreRowsOp::create(b, rowMax, lse, place, rows);
}

void ForwardKernel::build() {
  int64_t splits = op.getSchedule().getKvSplits();
  allocateStorage();
  // The last blocks first: under a causal mask they are the longest.
  Value numBlocks = named(ceilDiv(qLen, blockM()), "num_blocks");
  Value work = gpu::BlockIdOp::create(b, gpu::Dimension::x);
  if (splits > 1)
    split = takeDigit(work, index(splits), "split");
  Value position = takeDigit(work, numBlocks, "position");
  head = takeDigit(work, qHeads, "head");
  batch = named(work, "batch");
  kvHead = named(arith::DivSIOp::create(b, head, group), "kv_head");
  Value block = named(sub(sub(numBlocks, index(1)), position), "block");
  begin = named(mul(block, index(blockM())), "q_begin");
  Value queryEnd = named(arith::MinSIOp::create(b, add(begin, index(blockM())), qLen), "q_end");

  copyRows(query, batch, head, begin, qLen, queryTile);
  FillOp::create(b, output, f32(0));
  FillOp::create(b, rowMax, f32(-INFINITY));
  FillOp::create(b, rowSum, f32(0));
  Streamed keys{"kv", index(0), kvLen, blockN()};
  if (split) {
    // Parts are whole blocks.
    Value part = mul(ceilDiv(ceilDiv(kvLen, splits), blockN()), index(blockN()));
    keys.begin = named(mul(split, part), "split_begin");
    keys.end = named(arith::MinSIOp::create(b, add(keys.begin, part), kvLen), "split_end");
  }
  keyEnd = keys.end;
  forEachVisitedBlock(
      evaluateRanges(batch, head, begin, queryEnd), keys,
      [&](Value first, Value) {
        ifThen(isLess(first, keyEnd), [&] { copyRows(key, batch, kvHead, first, kvLen, keyTile); });
        CopyCommitOp::create(b);
      },
      [&](const StreamedBlock &block) {
        Value ragged = isLess(kvLen, add(block.begin, index(blockN())));
        step(block.begin, block.next,
             block.masked ? arith::OrIOp::create(b, block.masked, ragged).getResult() : ragged);
      });
  CopyWaitOp::create(b, 0);
  finalise();

  Value blocks = getNumBlocks(host, op.getQuery(), blockM());
  launch(arith::MulIOp::create(host, blocks, arith::ConstantIndexOp::create(host, splits).getResult()));
  replaceWithBuffer(host, op.getResult(0), hostOut);
  replaceWithBuffer(host, op.getResult(1), hostLse);
}

void attn::lowerForwardToTile(OnlineAttentionOp op, const TileLoweringOptions &options) {
  ImplicitLocOpBuilder host(op.getLoc(), op);
  auto function = op->getParentOfType<FunctionOpInterface>();
  ForwardKernel(host, op, (function.getName() + "_forward").str(), options).build();
  op.erase();
}
