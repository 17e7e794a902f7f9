//===- LowerOnline.cpp - --attn-lower-online ---------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/LowerOnline.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/TypeUtilities.h"
#include "passes/BufferTypes.h"
#include "passes/ChooseSchedule.h"
#include "passes/NarrowIndices.h"
#include "passes/Passes.h"
#include "passes/RegionUtils.h"
#include "passes/WorkIndex.h"

using namespace mlir;
using namespace attn;

namespace attn {
#define GEN_PASS_DEF_LOWERONLINEPASS
#include "passes/Passes.h.inc"
} // namespace attn

//===----------------------------------------------------------------------===//
// Operands and results
//===----------------------------------------------------------------------===//

OnlineLowering::OnlineLowering(OpBuilder &builder, OnlineAttentionOp op)
    : op(op), b(op.getLoc(), builder), t(b, op.getComputeType(), op.getSchedule()), headDim(op.getHeadDim()),
      valueDim(op.getValueDim()) {
  query = toBuffer(op.getQuery());
  key = toBuffer(op.getKey());
  value = toBuffer(op.getValue());
  if (op.getBlockLists())
    blockLists = toBuffer(op.getBlockLists());
  batches = dim(query, 0);
  qHeads = dim(query, 1);
  kvHeads = dim(key, 1);
  // Without key heads there is no work, but the division is evaluated all the same.
  Value one = t.index(1);
  group = arith::MaxSIOp::create(
      b, arith::DivSIOp::create(b, qHeads, arith::MaxSIOp::create(b, kvHeads, one)), one);
  context.qLen = dim(query, 2);
  context.kvLen = dim(key, 2);
  for (Value capture : op.getCaptures())
    context.captures.push_back(isa<RankedTensorType>(capture.getType()) ? toBuffer(capture) : capture);
}

Value OnlineLowering::toBuffer(Value tensor) {
  Value &buffer = buffers[tensor];
  if (!buffer) {
    MemRefType type = getBoundaryBufferType(cast<RankedTensorType>(tensor.getType()));
    buffer = bufferization::ToBufferOp::create(b, type, tensor, /*read_only=*/true);
  }
  return buffer;
}

Value OnlineLowering::allocateResult(unsigned index) {
  auto type = cast<RankedTensorType>(op.getResult(index).getType());
  Value source = op.getShapeSource(op->getResult(index));
  size_t leading = op.getSchedule().getKvSplits() > 1 ? 1 : 0;
  SmallVector<Value> dynamicDims;
  for (auto [position, size] : llvm::enumerate(type.getShape()))
    if (ShapedType::isDynamic(size))
      dynamicDims.push_back(position < leading ? t.index(op.getSchedule().getKvSplits())
                                               : dim(toBuffer(source), position - leading));
  return memref::AllocOp::create(b, MemRefType::get(type.getShape(), type.getElementType()), dynamicDims);
}

void OnlineLowering::replaceOp(ValueRange buffers) {
  for (auto [result, buffer] : llvm::zip_equal(op.getResults(), buffers))
    result.replaceAllUsesWith(bufferization::ToTensorOp::create(b, result.getType(), buffer,
                                                                /*restrict=*/true,
                                                                /*writable=*/true));
  op.erase();
}

Value OnlineLowering::dim(Value buffer, int64_t position) {
  return b.createOrFold<memref::DimOp>(buffer, position);
}

//===----------------------------------------------------------------------===//
// Work
//===----------------------------------------------------------------------===//

void OnlineLowering::forEachWorkItem(Value heads, Value length, int64_t blockSize, int64_t splits,
                                     function_ref<void(const WorkItem &)> body) {
  Value numBlocks = t.ceilDiv(length, blockSize);
  Value numSplits = t.index(splits);
  Value total = arith::MulIOp::create(b, arith::MulIOp::create(b, batches, heads),
                                      arith::MulIOp::create(b, numBlocks, numSplits));
  auto forall = scf::ForallOp::create(b, ArrayRef<OpFoldResult>{total}, ValueRange(), std::nullopt);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(forall.getBody());

  Value work = forall.getInductionVar(0);
  WorkItem item;
  if (splits > 1)
    item.split = takeDigit(b, work, numSplits);
  Value block = takeDigit(b, work, numBlocks);
  item.head = takeDigit(b, work, heads);
  item.batch = work;
  block = arith::SubIOp::create(b, arith::SubIOp::create(b, numBlocks, t.index(1)), block);
  item.begin = arith::MulIOp::create(b, block, t.index(blockSize));
  item.count = arith::MinSIOp::create(b, arith::SubIOp::create(b, length, item.begin), t.index(blockSize));
  item.kvHead = op.blocksKeys() ? item.head : arith::DivSIOp::create(b, item.head, group).getResult();
  body(item);
}

BlockRanges OnlineLowering::evaluateRanges(const WorkItem &item, Value head) {
  if (op.getRanges().empty()) {
    BlockRanges ranges;
    ranges.all = true;
    return ranges;
  }
  RegionVectorizer region(op.getRanges(), context, /*lanes=*/1, /*alwaysSpeculative=*/false);
  region.bind(RangesArgs::batch, item.batch);
  region.bind(RangesArgs::head, head);
  region.bind(RangesArgs::begin, item.begin);
  region.bind(RangesArgs::end, arith::AddIOp::create(b, item.begin, item.count));
  auto yield = cast<YieldRangesOp>(op.getRanges().front().getTerminator());
  BlockRanges ranges = BlockRanges::get(yield, region.finish(b));
  if (blockLists)
    ranges.listed = ListedBlocks::get(b, op, blockLists, item.batch, head, item.begin);
  return ranges;
}

Value OnlineLowering::keepsAny(const Visits &visits, Value begin, Value end) {
  const WorkItem &item = visits.item;
  Value blockEnd = arith::AddIOp::create(b, item.begin, item.count);
  Value last = arith::SubIOp::create(b, blockEnd, t.index(1));
  unsigned blocked = op.blocksKeys() ? MaskArgs::key : MaskArgs::query;
  unsigned streamed = op.blocksKeys() ? MaskArgs::query : MaskArgs::key;
  return t.findAny(item.begin, blockEnd, t.vectorLength(), [&](Value lane) {
    RegionVectorizer mask = *visits.mask;
    mask.bind(blocked, t.laneIndices(lane, last));
    mask.advance(b);
    return t.findAny(begin, end, 1, [&](Value row) -> Value {
      mask.bind(streamed, row);
      return vector::ReductionOp::create(b, vector::CombiningKind::OR, mask.finishVector(b));
    });
  });
}

void OnlineLowering::visitBlock(const Visits &visits, Value begin, Value end, bool isInRange,
                                function_ref<void(Value)> body) {
  const BlockRanges &ranges = visits.ranges;
  // Blocks of the lists may be larger than tiles, and the last tile of a part be shorter than the ranges are
  // exact for.
  bool mayBeEmpty = ranges.inexact || ranges.listed || visits.item.split;
  auto visit = [&](Value masked) {
    if (!masked || !mayBeEmpty)
      return body(masked);
    auto test = scf::IfOp::create(
        b, masked, [&](OpBuilder &, Location) { scf::YieldOp::create(b, keepsAny(visits, begin, end)); },
        [&](OpBuilder &, Location) {
          Value full = arith::ConstantIntOp::create(b, 1, 1);
          scf::YieldOp::create(b, full);
        });
    t.ifThen(test.getResult(0), [&] { body(masked); });
  };
  if (const std::optional<ListedBlocks> &listed = ranges.listed) {
    // At most as long as a block of the lists, but it may lie in two of them.
    Value next = arith::MinSIOp::create(b, listed->getNext(b, begin, BlockKind::partial),
                                        listed->getNext(b, begin, BlockKind::full));
    t.ifThen(arith::CmpIOp::create(b, arith::CmpIPredicate::slt, next, end), [&] {
      Value last = arith::SubIOp::create(b, end, t.index(1));
      Value full = arith::AndIOp::create(b, listed->isFull(b, begin), listed->isFull(b, last));
      visit(arith::XOrIOp::create(b, full, arith::ConstantIntOp::create(b, 1, 1)));
    });
    return;
  }
  auto visitInRange = [&] {
    visit(ranges.masked.empty() ? Value() : meetsAny(b, ranges.masked, begin, end));
  };
  if (isInRange)
    visitInRange();
  else
    t.ifThen(meetsAny(b, ranges.visited, begin, end), visitInRange);
}

void OnlineLowering::forEachVisitedBlock(const Visits &visits, Value begin, Value end, int64_t blockSize,
                                         function_ref<void(Value, Value, Value)> body) {
  const BlockRanges &ranges = visits.ranges;
  if (!ranges.all) {
    // The loop runs over the hull of the visited ranges; blocks between them are skipped one by one.
    Value hullBegin = end, hullEnd = begin;
    for (auto [first, last] : ranges.visited) {
      if (ranges.visited.size() > 1) {
        Value isEmpty = arith::CmpIOp::create(b, arith::CmpIPredicate::sge, first, last);
        first = t.select(isEmpty, end, first);
        last = t.select(isEmpty, begin, last);
      }
      hullBegin = arith::MinSIOp::create(b, hullBegin, first);
      hullEnd = arith::MaxSIOp::create(b, hullEnd, last);
    }
    begin = arith::MaxSIOp::create(b, begin, hullBegin);
    end = arith::MinSIOp::create(b, end, hullEnd);
  }
  t.loop(begin, end, blockSize, [&](Value block) {
    Value count = arith::MinSIOp::create(b, arith::SubIOp::create(b, end, block), t.index(blockSize));
    Value blockEnd = arith::AddIOp::create(b, block, count);
    visitBlock(visits, block, blockEnd, /*isInRange=*/ranges.visited.size() <= 1,
               [&](Value masked) { body(block, count, masked); });
  });
}

Value OnlineLowering::findNonFinite(Value tile, Value rows) {
  return op.getMask().empty() && op.getScore().empty() ? Value() : t.hasNonFinite(tile, rows);
}

void OnlineLowering::withAndWithoutMask(Value masked, function_ref<void(bool)> body) {
  if (!masked)
    return body(false);
  t.ifElse(masked, [&] { body(true); }, [&] { body(false); });
}

//===----------------------------------------------------------------------===//
// Regions
//===----------------------------------------------------------------------===//

std::optional<RegionVectorizer> OnlineLowering::prepareRegion(Region &region, unsigned batchArg, Value batch,
                                                              unsigned headArg, Value head,
                                                              bool alwaysSpeculative) {
  if (region.empty())
    return std::nullopt;
  RegionVectorizer prepared(region, context, t.vectorLength(), alwaysSpeculative);
  prepared.bind(batchArg, batch);
  prepared.bind(headArg, head);
  prepared.advance(b);
  return prepared;
}

// A score or gradient under a mask is also evaluated for pairs that are dropped, so it is speculative.

std::optional<RegionVectorizer> OnlineLowering::prepareScore(Value batch, Value head) {
  return prepareRegion(op.getScore(), ScoreArgs::batch, batch, ScoreArgs::head, head,
                       /*alwaysSpeculative=*/!op.getMask().empty());
}

std::optional<RegionVectorizer> OnlineLowering::prepareMask(Value batch, Value head) {
  return prepareRegion(op.getMask(), MaskArgs::batch, batch, MaskArgs::head, head,
                       /*alwaysSpeculative=*/false);
}

std::optional<RegionVectorizer> OnlineLowering::prepareGradient(Value batch, Value head) {
  return prepareRegion(op.getGradient(), GradientArgs::batch, batch, GradientArgs::head, head,
                       /*alwaysSpeculative=*/!op.getMask().empty());
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {
struct LowerOnlinePass : attn::impl::LowerOnlinePassBase<LowerOnlinePass> {
  void runOnOperation() override {
    SmallVector<OnlineAttentionOp> ops;
    getOperation()->walk([&](OnlineAttentionOp op) { ops.push_back(op); });
    for (OnlineAttentionOp op : ops) {
      if (failed(verifyLoweredType(op, op.getElementType())) || failed(verifyInlinable(op)) ||
          failed(verifyTileBytes([&] { return op.emitOpError(); }, ShapeClass::get(op, op.getKind()),
                                 op.getSchedule())))
        return signalPassFailure();
      if (op.getSplits()) {
        op.emitOpError("expected a number of parts in the schedule (kv_splits) for a CPU, got splits");
        return signalPassFailure();
      }
      narrowIndices(op);
      OpBuilder builder(op);
      switch (op.getKind()) {
      case KernelKind::forward:
        lowerOnlineForward(builder, op);
        break;
      case KernelKind::dq:
        lowerOnlineDq(builder, op);
        break;
      case KernelKind::dkdv:
        lowerOnlineDkdv(builder, op);
        break;
      case KernelKind::fused:
        op.emitOpError("expected the kind dq or dkdv for a CPU, got fused");
        return signalPassFailure();
      }
    }
  }
};
} // namespace
