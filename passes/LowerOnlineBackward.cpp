//===- LowerOnlineBackward.cpp - the dq and dkdv kernels on the CPU ----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two kernels that recompute the probabilities from lse, each the sole writer of its results: no atomics on
// d_query, d_key and d_value, so these are the same from run to run. Per tile of the score matrix, with x =
// scale * q k^T:
//
//   s = score(x)   p = exp(s - lse)   d_s = p * (d_out v^T - delta)   d_x = gradient(d_s, x)
//   dq:   d_query += scale * d_x k            dkdv: d_key += scale * d_x^T q,   d_value += p^T d_out
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "passes/LowerOnline.h"

using namespace mlir;
using namespace attn;

namespace {
/// The regions of one head, evaluated as far as batch and head allow.
struct HeadRegions {
  std::optional<RegionVectorizer> score, mask, gradient;
};

/// The gradient of a capture at an index that is the same for a whole block: summed in a tile, added to
/// memory once.
struct BlockSum {
  Value tile, buffer;
  SmallVector<Value> indices;
};

class BackwardLowering : public OnlineLowering {
public:
  using OnlineLowering::OnlineLowering;
  void runDq();
  void runDkdv();

private:
  HeadRegions prepareRegions(Value batch, Value head);
  /// Turns a tile of q k^T into probabilities and a tile of d_out v^T into d_x, both in place. Lanes run
  /// along the blocked dimension from `laneBegin`, rows along the streamed one from `rowBegin`.
  /// `getRowStatistics(lane, row)` gives lse and delta as vectors.
  void differentiateTile(Value scores, Value dScores, const HeadRegions &regions, bool isMasked,
                         Value laneBegin, Value rowBegin, Value rowCount,
                         function_ref<std::pair<Value, Value>(Value, Value)> getRowStatistics);
  void accumulate(ImplicitLocOpBuilder &builder, AccumulateGradientOp gradient, Value kept, Value sum,
                  ArrayRef<Value> indices);
  void addAtomically(Value sum, Value buffer, ValueRange indices);
  void scaleTile(Value tile);
  Value getGradientBuffer(AccumulateGradientOp gradient);

  int64_t blockM() { return op.getSchedule().getBlockM(); }
  int64_t blockN() { return op.getSchedule().getBlockN(); }

  Value lse, delta, dOut;
  SmallVector<Value> results;
  llvm::DenseMap<Operation *, BlockSum> blockSums;
  /// Tiles of f64, for sums over so many pairs that their rounding in f32 would outweigh that of the terms.
  TileBuilder wide{b, Float64Type::get(b.getContext()), op.getSchedule()};
};
} // namespace

HeadRegions BackwardLowering::prepareRegions(Value batch, Value head) {
  return {prepareScore(batch, head), prepareMask(batch, head), prepareGradient(batch, head)};
}

//===----------------------------------------------------------------------===//
// One tile
//===----------------------------------------------------------------------===//

void BackwardLowering::differentiateTile(
    Value scores, Value dScores, const HeadRegions &regions, bool isMasked, Value laneBegin, Value rowBegin,
    Value rowCount, function_ref<std::pair<Value, Value>(Value, Value)> getRowStatistics) {
  bool lanesAreKeys = op.blocksKeys();
  Value scale = t.splat(op.getScaleOrDefault());
  Value zero = t.splat(0);
  int64_t lanes = cast<MemRefType>(scores.getType()).getDimSize(1);
  Value lastLane = arith::SubIOp::create(b, lanesAreKeys ? context.kvLen : context.qLen, t.index(1));
  Value allLanes = arith::ConstantOp::create(
      b, DenseElementsAttr::get(VectorType::get({t.vectorLength()}, b.getI1Type()), true));

  t.loop(t.index(0), t.index(lanes), t.vectorLength(), [&](Value lane) {
    HeadRegions inner = regions;
    Value laneIndex = t.laneIndices(arith::AddIOp::create(b, laneBegin, lane), lastLane);
    auto bindLanes = [&](std::optional<RegionVectorizer> &region, unsigned queryArg, unsigned keyArg) {
      if (!region)
        return;
      region->bind(lanesAreKeys ? keyArg : queryArg, laneIndex);
      region->advance(b);
    };
    bindLanes(inner.score, ScoreArgs::query, ScoreArgs::key);
    if (isMasked)
      bindLanes(inner.mask, MaskArgs::query, MaskArgs::key);
    bindLanes(inner.gradient, GradientArgs::query, GradientArgs::key);

    t.loop(t.index(0), rowCount, 1, [&](Value row) {
      Value rowIndex = arith::AddIOp::create(b, rowBegin, row);
      auto bindRow = [&](std::optional<RegionVectorizer> &region, unsigned queryArg, unsigned keyArg) {
        region->bind(lanesAreKeys ? queryArg : keyArg, rowIndex);
      };
      auto [rowLse, rowDelta] = getRowStatistics(lane, row);
      Value x = arith::MulFOp::create(b, t.loadVector(scores, {row, lane}), scale);
      Value s = x;
      if (inner.score) {
        inner.score->bind(ScoreArgs::score, x);
        bindRow(inner.score, ScoreArgs::query, ScoreArgs::key);
        s = inner.score->finishVector(b);
      }
      Value dropped = arith::OrIOp::create(b, t.isMinusInfinity(s), t.isMinusInfinity(rowLse));
      Value kept = arith::XOrIOp::create(b, dropped, allLanes);
      if (isMasked) {
        bindRow(inner.mask, MaskArgs::query, MaskArgs::key);
        kept = arith::AndIOp::create(b, kept, inner.mask->finishVector(b));
      }
      Value p = math::ExpOp::create(b, arith::SubFOp::create(b, s, rowLse));
      p = t.select(kept, p, zero);
      Value ds =
          arith::MulFOp::create(b, p, arith::SubFOp::create(b, t.loadVector(dScores, {row, lane}), rowDelta));
      Value dx = ds;
      if (inner.gradient) {
        inner.gradient->bind(GradientArgs::cotangent, ds);
        inner.gradient->bind(GradientArgs::score, x);
        bindRow(inner.gradient, GradientArgs::query, GradientArgs::key);
        inner.gradient->accumulate = [&](ImplicitLocOpBuilder &builder, AccumulateGradientOp gradient,
                                         Value sum, ArrayRef<Value> indices) {
          accumulate(builder, gradient, kept, sum, indices);
        };
        dx = inner.gradient->finishVector(b);
      }
      t.storeVector(p, scores, {row, lane});
      t.storeVector(t.select(kept, dx, zero), dScores, {row, lane});
    });
  });
}

//===----------------------------------------------------------------------===//
// Gradients of captures
//===----------------------------------------------------------------------===//

Value BackwardLowering::getGradientBuffer(AccumulateGradientOp gradient) {
  unsigned capture = op.getCaptureNumber(cast<BlockArgument>(gradient.getCapture()));
  return results[op.getCaptureGradient(capture).getResultNumber()];
}

void BackwardLowering::addAtomically(Value sum, Value buffer, ValueRange indices) {
  // Where every pair was dropped the index may be out of bounds, and the sum is exactly 0.
  Value isNonZero = arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, sum, t.scalar(0));
  t.ifThen(isNonZero,
           [&] { memref::AtomicRMWOp::create(b, arith::AtomicRMWKind::addf, sum, buffer, indices); });
}

/// Adds `sum`, in the lanes that are kept, to the gradient of a capture. Only dq does so: dkdv would count
/// twice.
void BackwardLowering::accumulate(ImplicitLocOpBuilder &builder, AccumulateGradientOp gradient, Value kept,
                                  Value sum, ArrayRef<Value> indices) {
  if (op.getKind() != KernelKind::dq)
    return;
  // The operation may stand in a branch, which `builder` is in.
  OpBuilder::InsertionGuard guard(b);
  b.restoreInsertionPoint(builder.saveInsertionPoint());
  sum = t.select(kept, sum, t.splat(0));
  if (auto blockSum = blockSums.find(gradient); blockSum != blockSums.end()) {
    Value tile = blockSum->second.tile;
    if (t.compute != wide.compute)
      sum = arith::ExtFOp::create(b, wide.vectorType(), sum);
    wide.storeVector(arith::AddFOp::create(b, wide.loadVector(tile, t.index(0)), sum), tile, t.index(0));
  } else if (llvm::none_of(indices, [](Value index) { return isa<VectorType>(index.getType()); })) {
    Value total = vector::ReductionOp::create(b, vector::CombiningKind::ADD, sum);
    addAtomically(total, getGradientBuffer(gradient), indices);
  } else {
    t.loop(t.index(0), t.index(t.vectorLength()), 1, [&](Value lane) {
      SmallVector<Value> laneIndices;
      for (Value index : indices) {
        if (isa<VectorType>(index.getType())) {
          index = vector::ExtractOp::create(b, index, OpFoldResult(lane));
          index = arith::IndexCastOp::create(b, b.getIndexType(), index);
        }
        laneIndices.push_back(index);
      }
      Value element = vector::ExtractOp::create(b, sum, OpFoldResult(lane));
      addAtomically(element, getGradientBuffer(gradient), laneIndices);
    });
  }
  builder.restoreInsertionPoint(b.saveInsertionPoint());
}

void BackwardLowering::scaleTile(Value tile) {
  ArrayRef<int64_t> shape = cast<MemRefType>(tile.getType()).getShape();
  Value scale = t.splat(op.getScaleOrDefault());
  t.loop(t.index(0), t.index(shape[0]), 1, [&](Value row) {
    t.loop(t.index(0), t.index(shape[1]), t.vectorLength(), [&](Value lane) {
      t.storeVector(arith::MulFOp::create(b, t.loadVector(tile, {row, lane}), scale), tile, {row, lane});
    });
  });
}

//===----------------------------------------------------------------------===//
// dq: a block of queries stays, keys stream by
//===----------------------------------------------------------------------===//

void BackwardLowering::runDq() {
  lse = toBuffer(op.getLse());
  delta = toBuffer(op.getDelta());
  dOut = toBuffer(op.getDOut());
  for (unsigned index = 0; index < op.getNumResults(); ++index)
    results.push_back(allocateResult(index));
  for (OpResult gradient : op.getCaptureGradients())
    linalg::FillOp::create(b, t.scalar(0), results[gradient.getResultNumber()]);

  int64_t keyRows = t.paddedRows(blockN()), paddedDim = t.paddedRows(headDim);
  forEachWorkItem(qHeads, context.qLen, blockM(), /*splits=*/1, [&](const WorkItem &item) {
    Value queryTile = t.allocate("query", {headDim, blockM()}),
          dOutTile = t.allocate("d_out", {valueDim, blockM()});
    Value lseTile = t.allocate("lse", {blockM()}), deltaTile = t.allocate("delta", {blockM()});
    Value keyTile = t.allocate("key", {keyRows, paddedDim}),
          valueTile = t.allocate("value", {keyRows, valueDim});
    Value scores = t.allocate("scores", {keyRows, blockM()}),
          dScores = t.allocate("d_scores", {keyRows, blockM()});
    Value dQuery = t.allocate("d_query", {paddedDim, blockM()});

    HeadRegions regions = prepareRegions(item.batch, item.head);
    op.getGradient().walk([&](AccumulateGradientOp gradient) {
      SmallVector<Value> indices = llvm::map_to_vector(
          gradient.getIndices(), [&](Value index) { return regions.gradient->tryGet(index); });
      if (llvm::is_contained(indices, Value()))
        return;
      Value tile = wide.allocate("d_capture", {t.vectorLength()});
      wide.fill(tile, 0);
      blockSums[gradient] = {tile, getGradientBuffer(gradient), indices};
    });

    t.fill(dQuery, 0);
    t.packTransposed(item.rows(query, /*ofKeys=*/false), headDim, queryTile);
    t.packTransposed(item.rows(dOut, /*ofKeys=*/false), valueDim, dOutTile);
    // Lanes without a query have lse = -inf and contribute nothing.
    t.fill(lseTile, -INFINITY);
    t.fill(deltaTile, 0);
    t.loop(t.index(0), item.count, 1, [&](Value row) {
      Value position = arith::AddIOp::create(b, item.begin, row);
      for (auto [buffer, tile] : {std::pair(lse, lseTile), std::pair(delta, deltaTile)})
        memref::StoreOp::create(
            b, memref::LoadOp::create(b, buffer, ValueRange{item.batch, item.head, position}), tile, row);
    });

    Visits visits{item, regions.mask, evaluateRanges(item, item.head)};
    forEachVisitedBlock(
        visits, t.index(0), context.kvLen, blockN(), [&](Value begin, Value count, Value masked) {
          t.packRows({key, item.batch, item.kvHead, begin, count}, headDim, keyTile);
          t.packRows({value, item.batch, item.kvHead, begin, count}, valueDim, valueTile);
          t.product(
              {keyTile, /*aTransposed=*/false, queryTile, scores, count, t.index(headDim), nullptr, false});
          t.product({valueTile, /*aTransposed=*/false, dOutTile, dScores, count, t.index(valueDim), nullptr,
                     false});
          withAndWithoutMask(masked, [&](bool isMasked) {
            differentiateTile(scores, dScores, regions, isMasked, item.begin, begin, count,
                              [&](Value lane, Value) {
                                return std::pair(t.loadVector(lseTile, lane), t.loadVector(deltaTile, lane));
                              });
          });
          t.product({keyTile, /*aTransposed=*/true, dScores, dQuery, t.index(headDim), count, nullptr, true,
                     findNonFinite(keyTile, count)});
        });

    scaleTile(dQuery);
    t.storeTransposed(dQuery, item.rows(results[0], /*ofKeys=*/false), headDim);
    op.getGradient().walk([&](AccumulateGradientOp gradient) {
      auto found = blockSums.find(gradient);
      if (found == blockSums.end())
        return;
      const BlockSum &sum = found->second;
      Value total =
          vector::ReductionOp::create(b, vector::CombiningKind::ADD, wide.loadVector(sum.tile, t.index(0)));
      if (t.compute != wide.compute)
        total = arith::TruncFOp::create(b, t.compute, total);
      addAtomically(total, sum.buffer, sum.indices);
    });
  });
  replaceOp(results);
}

//===----------------------------------------------------------------------===//
// dkdv: a block of keys stays, the queries of all heads of its group stream by
//===----------------------------------------------------------------------===//

void BackwardLowering::runDkdv() {
  lse = toBuffer(op.getLse());
  delta = toBuffer(op.getDelta());
  dOut = toBuffer(op.getDOut());
  results = {allocateResult(0), allocateResult(1)};

  int64_t queryRows = t.paddedRows(blockM());
  int64_t paddedDim = t.paddedRows(headDim), paddedValueDim = t.paddedRows(valueDim);
  forEachWorkItem(kvHeads, context.kvLen, blockN(), /*splits=*/1, [&](const WorkItem &item) {
    Value keyTile = t.allocate("key", {headDim, blockN()}),
          valueTile = t.allocate("value", {valueDim, blockN()});
    Value dKey = t.allocate("d_key", {paddedDim, blockN()}),
          dValue = t.allocate("d_value", {paddedValueDim, blockN()});
    Value queryTile = t.allocate("query", {queryRows, paddedDim}),
          dOutTile = t.allocate("d_out", {queryRows, paddedValueDim});
    Value scores = t.allocate("scores", {queryRows, blockN()}),
          dScores = t.allocate("d_scores", {queryRows, blockN()});

    t.fill(dKey, 0);
    t.fill(dValue, 0);
    t.packTransposed(item.rows(key, /*ofKeys=*/true), headDim, keyTile);
    t.packTransposed(item.rows(value, /*ofKeys=*/true), valueDim, valueTile);
    Value firstHead = arith::MulIOp::create(b, item.head, group);
    t.loop(t.index(0), group, 1, [&](Value headInGroup) {
      Value head = arith::AddIOp::create(b, firstHead, headInGroup);
      HeadRegions regions = prepareRegions(item.batch, head);
      Visits visits{item, regions.mask, evaluateRanges(item, head)};
      forEachVisitedBlock(
          visits, t.index(0), context.qLen, blockM(), [&](Value begin, Value count, Value masked) {
            t.packRows({query, item.batch, head, begin, count}, headDim, queryTile);
            t.packRows({dOut, item.batch, head, begin, count}, valueDim, dOutTile);
            t.product(
                {queryTile, /*aTransposed=*/false, keyTile, scores, count, t.index(headDim), nullptr, false});
            t.product({dOutTile, /*aTransposed=*/false, valueTile, dScores, count, t.index(valueDim), nullptr,
                       false});
            withAndWithoutMask(masked, [&](bool isMasked) {
              differentiateTile(
                  scores, dScores, regions, isMasked, item.begin, begin, count, [&](Value, Value row) {
                    Value position = arith::AddIOp::create(b, begin, row);
                    auto load = [&](Value buffer) -> Value {
                      Value number =
                          memref::LoadOp::create(b, buffer, ValueRange{item.batch, head, position});
                      return vector::BroadcastOp::create(b, t.vectorType(), number);
                    };
                    return std::pair(load(lse), load(delta));
                  });
            });
            t.product({dOutTile, /*aTransposed=*/true, scores, dValue, t.index(valueDim), count, nullptr,
                       true, findNonFinite(dOutTile, count)});
            t.product({queryTile, /*aTransposed=*/true, dScores, dKey, t.index(headDim), count, nullptr, true,
                       findNonFinite(queryTile, count)});
          });
    });
    scaleTile(dKey);
    t.storeTransposed(dKey, item.rows(results[0], /*ofKeys=*/true), headDim);
    t.storeTransposed(dValue, item.rows(results[1], /*ofKeys=*/true), valueDim);
  });
  replaceOp(results);
}

void attn::lowerOnlineDq(OpBuilder &builder, OnlineAttentionOp op) { BackwardLowering(builder, op).runDq(); }
void attn::lowerOnlineDkdv(OpBuilder &builder, OnlineAttentionOp op) {
  BackwardLowering(builder, op).runDkdv();
}
