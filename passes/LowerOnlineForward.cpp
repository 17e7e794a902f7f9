//===- LowerOnlineForward.cpp - the forward kernel on the CPU ----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The online softmax (Milakov and Gimelshein 2018; FlashAttention, Dao et al. 2022). For a block of queries,
// with the running maximum m, sum l and unnormalised output o, each block of keys does
//
//   s  = scale * q k^T, then score and mask            m' = max(m, max_j s)
//   p  = exp(s - m')                                   l' = l * exp(m - m') + sum_j p
//   o' = o * exp(m - m') + p v
//
// and at the end out = o / l, lse = m + log(l).
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/LowerOnline.h"

using namespace mlir;
using namespace attn;

namespace {
/// The running state of one block of queries, and the tiles that every block of keys uses again.
struct ForwardTiles {
  // State: lives from the first to the last block of keys.
  Value out, max, sum;
  // Scratch.
  Value query, key, value, scores, rescale;
  /// Whether the block of values holds an infinity or a NaN; null where no pair is dropped.
  Value hasNonFiniteValue;
};

class ForwardLowering : public OnlineLowering {
public:
  using OnlineLowering::OnlineLowering;
  void run();

private:
  ForwardTiles allocateScratch();
  void initialise(const ForwardTiles &tiles);
  void packKeys(ForwardTiles &tiles, const WorkItem &item, Value begin, Value count);
  void step(const ForwardTiles &tiles, const WorkItem &item, const std::optional<RegionVectorizer> &score,
            const std::optional<RegionVectorizer> &mask, Value keyBegin, Value keyCount, Value masked);
  void softmax(const ForwardTiles &tiles, const WorkItem &item, const RegionVectorizer *score,
               const RegionVectorizer *mask, Value keyBegin, Value keyCount);
  void finalise(const ForwardTiles &tiles, const WorkItem &item);
  void lowerQueryOuter();
  void lowerKeyOuter();

  int64_t blockM() { return op.getSchedule().getBlockM(); }
  int64_t blockN() { return op.getSchedule().getBlockN(); }

  Value out, lse;
};
} // namespace

ForwardTiles ForwardLowering::allocateScratch() {
  ForwardTiles tiles;
  tiles.query = t.allocate("query", {headDim, blockM()});
  tiles.key = t.allocate("key", {t.paddedRows(blockN()), headDim});
  tiles.value = t.allocate("value", {blockN(), t.paddedRows(valueDim)});
  tiles.scores = t.allocate("scores", {t.paddedRows(blockN()), blockM()});
  tiles.rescale = t.allocate("rescale", {blockM()});
  return tiles;
}

void ForwardLowering::initialise(const ForwardTiles &tiles) {
  t.fill(tiles.out, 0);
  t.fill(tiles.max, -INFINITY);
  t.fill(tiles.sum, 0);
}

void ForwardLowering::packKeys(ForwardTiles &tiles, const WorkItem &item, Value begin, Value count) {
  t.packRows({key, item.batch, item.kvHead, begin, count}, headDim, tiles.key);
  t.packRows({value, item.batch, item.kvHead, begin, count}, valueDim, tiles.value);
  tiles.hasNonFiniteValue = findNonFinite(tiles.value, count);
}

/// One block of keys [keyBegin, keyBegin + keyCount), packed already.
void ForwardLowering::step(const ForwardTiles &tiles, const WorkItem &item,
                           const std::optional<RegionVectorizer> &score,
                           const std::optional<RegionVectorizer> &mask, Value keyBegin, Value keyCount,
                           Value masked) {
  t.product({tiles.key, /*aTransposed=*/false, tiles.query, tiles.scores, keyCount, t.index(headDim),
             /*factors=*/nullptr, /*accumulate=*/false});
  withAndWithoutMask(masked, [&](bool isMasked) {
    softmax(tiles, item, score ? &*score : nullptr, isMasked ? &*mask : nullptr, keyBegin, keyCount);
  });
  t.product({tiles.value, /*aTransposed=*/true, tiles.scores, tiles.out, t.index(valueDim), keyCount,
             tiles.rescale, /*accumulate=*/true, tiles.hasNonFiniteValue});
}

/// Turns scores into probabilities and updates the running maximum and sum.
void ForwardLowering::softmax(const ForwardTiles &tiles, const WorkItem &item, const RegionVectorizer *score,
                              const RegionVectorizer *mask, Value keyBegin, Value keyCount) {
  Value scale = t.splat(op.getScaleOrDefault());
  Value lastQuery = arith::SubIOp::create(b, context.qLen, t.index(1));
  t.loop(t.index(0), t.index(blockM()), t.vectorLength(), [&](Value lane) {
    Value queryIndex = t.laneIndices(arith::AddIOp::create(b, item.begin, lane), lastQuery);
    std::optional<RegionVectorizer> rowScore, rowMask;
    if (score) {
      rowScore.emplace(*score).bind(ScoreArgs::query, queryIndex);
      rowScore->advance(b);
    }
    if (mask) {
      rowMask.emplace(*mask).bind(MaskArgs::query, queryIndex);
      rowMask->advance(b);
    }

    Value oldMax = t.loadVector(tiles.max, lane);
    Value newMax =
        t.loop(t.index(0), keyCount, 1, oldMax, [&](Value k, ValueRange carried) -> SmallVector<Value> {
          Value keyIndex = arith::AddIOp::create(b, keyBegin, k);
          Value s = arith::MulFOp::create(b, t.loadVector(tiles.scores, {k, lane}), scale);
          if (rowScore) {
            rowScore->bind(ScoreArgs::score, s);
            rowScore->bind(ScoreArgs::key, keyIndex);
            s = rowScore->finishVector(b);
          }
          if (rowMask) {
            rowMask->bind(MaskArgs::key, keyIndex);
            s = t.select(rowMask->finishVector(b), s, t.splat(-INFINITY));
          }
          t.storeVector(s, tiles.scores, {k, lane});
          // Not maxnumf: a NaN score reaches the sum all the same, and this form is one instruction.
          Value greater = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, s, carried[0]);
          return {t.select(greater, s, carried[0])};
        })[0];

    // A row without a key so far has m = -inf; shifting it by 0 instead keeps -inf - -inf out.
    Value shift = t.select(t.isMinusInfinity(newMax), t.splat(0), newMax);
    Value rescale = math::ExpOp::create(b, arith::SubFOp::create(b, oldMax, shift));
    Value sum =
        t.loop(t.index(0), keyCount, 1, t.splat(0), [&](Value k, ValueRange carried) -> SmallVector<Value> {
          Value s = t.loadVector(tiles.scores, {k, lane});
          Value p = math::ExpOp::create(b, arith::SubFOp::create(b, s, shift));
          t.storeVector(p, tiles.scores, {k, lane});
          return {arith::AddFOp::create(b, carried[0], p)};
        })[0];
    Value oldSum = arith::MulFOp::create(b, t.loadVector(tiles.sum, lane), rescale);
    t.storeVector(arith::AddFOp::create(b, oldSum, sum), tiles.sum, lane);
    t.storeVector(newMax, tiles.max, lane);
    t.storeVector(rescale, tiles.rescale, lane);
  });
}

/// The part `index` of a buffer's first dimension, without that dimension.
static Value takePart(ImplicitLocOpBuilder &b, Value buffer, Value index) {
  auto type = cast<MemRefType>(buffer.getType());
  SmallVector<OpFoldResult> offsets(type.getRank(), b.getIndexAttr(0));
  SmallVector<OpFoldResult> strides(type.getRank(), b.getIndexAttr(1));
  SmallVector<OpFoldResult> sizes = memref::getMixedSizes(b, b.getLoc(), buffer);
  offsets[0] = index;
  sizes[0] = b.getIndexAttr(1);
  auto partType = memref::SubViewOp::inferRankReducedResultType(type.getShape().drop_front(), type, offsets,
                                                                sizes, strides);
  return memref::SubViewOp::create(b, partType, buffer, offsets, sizes, strides);
}

/// Normalises the output of a block of queries and stores it and lse.
void ForwardLowering::finalise(const ForwardTiles &tiles, const WorkItem &item) {
  Value blockLse = tiles.rescale; // not needed any more
  t.loop(t.index(0), t.index(blockM()), t.vectorLength(), [&](Value lane) {
    Value sum = t.loadVector(tiles.sum, lane);
    Value isEmpty = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, sum, t.splat(0));
    t.loop(t.index(0), t.index(valueDim), 1, [&](Value c) {
      Value o = arith::DivFOp::create(b, t.loadVector(tiles.out, {c, lane}), sum);
      t.storeVector(t.select(isEmpty, t.splat(0), o), tiles.out, {c, lane});
    });
    Value l = arith::AddFOp::create(b, t.loadVector(tiles.max, lane), math::LogOp::create(b, sum));
    t.storeVector(t.select(isEmpty, t.splat(-INFINITY), l), blockLse, lane);
  });

  Value outBuffer = out, lseBuffer = lse;
  if (item.split) {
    outBuffer = takePart(b, out, item.split);
    lseBuffer = takePart(b, lse, item.split);
  }
  t.storeTransposed(tiles.out, {outBuffer, item.batch, item.head, item.begin, item.count}, valueDim);
  t.loop(t.index(0), item.count, 1, [&](Value row) {
    memref::StoreOp::create(b, memref::LoadOp::create(b, blockLse, row), lseBuffer,
                            ValueRange{item.batch, item.head, arith::AddIOp::create(b, item.begin, row)});
  });
}

/// FlashAttention-2: a block of queries stays, keys stream by.
void ForwardLowering::lowerQueryOuter() {
  int64_t splits = op.getSchedule().getKvSplits();
  forEachWorkItem(qHeads, context.qLen, blockM(), splits, [&](const WorkItem &item) {
    ForwardTiles tiles = allocateScratch();
    tiles.out = t.allocate("out", {t.paddedRows(valueDim), blockM()});
    tiles.max = t.allocate("max", {blockM()});
    tiles.sum = t.allocate("sum", {blockM()});
    initialise(tiles);
    t.packTransposed(item.rows(query, /*ofKeys=*/false), headDim, tiles.query);
    std::optional<RegionVectorizer> score = prepareScore(item.batch, item.head);
    std::optional<RegionVectorizer> mask = prepareMask(item.batch, item.head);

    Value begin = t.index(0), end = context.kvLen;
    if (item.split) {
      Value part = t.ceilDiv(context.kvLen, splits);
      begin = arith::MulIOp::create(b, item.split, part);
      end = arith::MinSIOp::create(b, arith::AddIOp::create(b, begin, part), context.kvLen);
    }
    Visits visits{item, mask, evaluateRanges(item, item.head)};
    forEachVisitedBlock(visits, begin, end, blockN(), [&](Value keyBegin, Value keyCount, Value masked) {
      packKeys(tiles, item, keyBegin, keyCount);
      step(tiles, item, score, mask, keyBegin, keyCount, masked);
    });
    finalise(tiles, item);
  });
}

/// FlashAttention-1: a block of keys stays, queries stream by, and the state of every query is in memory.
void ForwardLowering::lowerKeyOuter() {
  // One item is a whole head: blocks of keys of one head update the same state.
  Value one = t.index(1);
  forEachWorkItem(qHeads, one, 1, 1, [&](const WorkItem &headItem) {
    Value numBlocks = t.ceilDiv(context.qLen, blockM());
    // Freed by the buffer deallocation pass, like every buffer.
    auto allocateState = [&](ArrayRef<int64_t> shape) -> Value {
      SmallVector<int64_t> all{ShapedType::kDynamic};
      llvm::append_range(all, shape);
      return memref::AllocOp::create(b, MemRefType::get(all, t.compute), ValueRange{numBlocks},
                                     b.getI64IntegerAttr(64));
    };
    Value out = allocateState({t.paddedRows(valueDim), blockM()});
    Value max = allocateState({blockM()}), sum = allocateState({blockM()});
    ForwardTiles scratch = allocateScratch();
    std::optional<RegionVectorizer> score = prepareScore(headItem.batch, headItem.head);
    std::optional<RegionVectorizer> mask = prepareMask(headItem.batch, headItem.head);

    auto forEachQueryBlock = [&](function_ref<void(const ForwardTiles &, const WorkItem &)> body) {
      t.loop(t.index(0), numBlocks, 1, [&](Value block) {
        ForwardTiles tiles = scratch;
        tiles.out = takePart(b, out, block);
        tiles.max = takePart(b, max, block);
        tiles.sum = takePart(b, sum, block);
        WorkItem item = headItem;
        item.begin = arith::MulIOp::create(b, block, t.index(blockM()));
        item.count =
            arith::MinSIOp::create(b, arith::SubIOp::create(b, context.qLen, item.begin), t.index(blockM()));
        body(tiles, item);
      });
    };

    forEachQueryBlock([&](const ForwardTiles &tiles, const WorkItem &) { initialise(tiles); });
    t.loop(t.index(0), context.kvLen, blockN(), [&](Value keyBegin) {
      Value keyCount =
          arith::MinSIOp::create(b, arith::SubIOp::create(b, context.kvLen, keyBegin), t.index(blockN()));
      packKeys(scratch, headItem, keyBegin, keyCount);
      forEachQueryBlock([&](const ForwardTiles &tiles, const WorkItem &item) {
        Visits visits{item, mask, evaluateRanges(item, item.head)};
        Value keyEnd = arith::AddIOp::create(b, keyBegin, keyCount);
        visitBlock(visits, keyBegin, keyEnd, /*isInRange=*/visits.ranges.all, [&](Value masked) {
          t.packTransposed(item.rows(query, /*ofKeys=*/false), headDim, tiles.query);
          step(tiles, item, score, mask, keyBegin, keyCount, masked);
        });
      });
    });
    forEachQueryBlock([&](const ForwardTiles &tiles, const WorkItem &item) { finalise(tiles, item); });
  });
}

void ForwardLowering::run() {
  out = allocateResult(0);
  lse = allocateResult(1);
  if (op.getSchedule().getOrder() == LoopOrder::key_outer)
    lowerKeyOuter();
  else
    lowerQueryOuter();
  replaceOp({out, lse});
}

void attn::lowerOnlineForward(OpBuilder &builder, OnlineAttentionOp op) {
  ForwardLowering(builder, op).run();
}
