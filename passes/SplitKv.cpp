//===- SplitKv.cpp - --attn-split-kv -----------------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Remarks.h"
#include "passes/ChooseSchedule.h"
#include "passes/Passes.h"
#include "passes/Targets.h"
#include "passes/TileKernel.h"

using namespace mlir;
using namespace attn;

namespace attn {
#define GEN_PASS_DEF_SPLITKVPASS
#include "passes/Passes.h.inc"
} // namespace attn

/// Computes the operation in parts, of which there are `splits`, or (if that is 1) `numParts`.
static void split(ImplicitLocOpBuilder &b, OnlineAttentionOp op, int64_t splits, Value numParts) {
  ScheduleAttr schedule = op.getSchedule().withKvSplits(splits);
  auto addLeadingDim = [&](Value result) {
    auto type = cast<RankedTensorType>(result.getType());
    SmallVector<int64_t> shape{numParts ? ShapedType::kDynamic : splits};
    llvm::append_range(shape, type.getShape());
    return RankedTensorType::get(shape, op.getComputeType());
  };
  Type types[] = {addLeadingDim(op.getResult(0)), addLeadingDim(op.getResult(1))};
  auto parts =
      OnlineAttentionOp::create(b, types, op.getKind(), op.getQuery(), op.getKey(), op.getValue(), Value(),
                                Value(), Value(), op.getCaptures(), op.getBlockLists(), op.getScaleAttr(),
                                op.getBlocksAttr(), schedule, numParts, op.getTf32());
  for (auto [from, to] : llvm::zip(op->getRegions(), parts->getRegions()))
    to.takeBody(from);

  auto merge = MergeOp::create(b, op.getResultTypes(), parts.getResult(0), parts.getResult(1));
  op->replaceAllUsesWith(merge.getResults());
  op->erase();
}

//===----------------------------------------------------------------------===//
// The number of parts as a function of sizes
//===----------------------------------------------------------------------===//

/// Keys that a part is to have at least: fewer do not repay the merge.
static constexpr int64_t kMinPartKeys = 256;
/// Keys that repay it where heads have one block of queries each: smaller tiles, of several heads.
static constexpr int64_t kMinKeys = 1024;
/// Rows of a tile that one warpgroup keeps.
static constexpr int64_t kWarpgroupRows = 64;
/// More parts than this take longer to merge than the last ones save.
static constexpr int64_t kMaxParts = 128;

/// Whether the host may compute a ranges region with the lengths in place of a block: without what a call
/// captures, with nothing that overflows or has no value, and as a short expression (that of a launch plan is
/// a tree).
static bool isHostFormula(Region &region, size_t numCaptures) {
  static constexpr int64_t kMaxTree = 64;
  for (BlockArgument capture : region.getArguments().take_back(numCaptures))
    if (!capture.use_empty())
      return false;
  llvm::DenseMap<Value, int64_t> sizes;
  int64_t total = 0;
  for (Operation &op : region.front()) {
    int64_t size = 1;
    for (Value operand : op.getOperands())
      size += sizes.lookup_or(operand, 1);
    if (isa<YieldRangesOp>(op)) {
      total = size;
      continue;
    }
    if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      auto value = dyn_cast<IntegerAttr>(constant.getValue());
      if (!value || std::abs(value.getValue().getSExtValue()) > std::numeric_limits<int32_t>::max())
        return false;
    } else if (!isa<arith::AddIOp, arith::SubIOp, arith::MinSIOp, arith::MaxSIOp, arith::CmpIOp,
                    arith::AndIOp, arith::OrIOp, arith::SelectOp, QLenOp, KvLenOp>(op)) {
      return false;
    }
    sizes[op.getResult(0)] = isa<arith::SelectOp>(op) ? size + sizes.lookup(op.getOperand(0)) : size;
  }
  return total <= kMaxTree;
}

/// The keys that the last block of queries visits, in the first head; all where that is not known.
static Value getVisitedKeys(ImplicitLocOpBuilder &b, OnlineAttentionOp op) {
  Value kvLen = b.createOrFold<tensor::DimOp>(op.getKey(), 2),
        qLen = b.createOrFold<tensor::DimOp>(op.getQuery(), 2);
  Region &region = op.getRanges();
  if (region.empty() || !isHostFormula(region, op.getCaptures().size()))
    return kvLen;
  Value zero = arith::ConstantIndexOp::create(b, 0);
  auto greater = [&](Value x, Value y) -> Value { return b.createOrFold<arith::MaxSIOp>(x, y); };
  auto difference = [&](Value x, Value y) -> Value { return b.createOrFold<arith::SubIOp>(x, y); };
  RegionInlining inlining;
  inlining.queryLength = [&](OpBuilder &, Location, Value) { return qLen; };
  inlining.keyLength = [&](OpBuilder &, Location, Value) { return kvLen; };
  Value blockM = arith::ConstantIndexOp::create(b, op.getSchedule().getBlockM());
  SmallVector<Value> arguments{zero, zero, greater(difference(qLen, blockM), zero), qLen};
  llvm::append_range(arguments, op.getCaptures());
  auto yield = cast<YieldRangesOp>(region.front().getTerminator());
  BlockRanges ranges = BlockRanges::get(yield, inlineRanges(b, region, arguments, inlining));
  Value visited = zero;
  for (auto [begin, end] : ranges.visited) {
    Value length = difference(b.createOrFold<arith::MinSIOp>(end, kvLen), greater(begin, zero));
    visited = b.createOrFold<arith::AddIOp>(visited, greater(length, zero));
  }
  return b.createOrFold<arith::MinSIOp>(visited, kvLen);
}

/// As many parts as the machine has room for, of some keys each; and a single one where one tile holds the
/// queries of a head, if the keys are many. Either way rows are few, and their number fits 32 bits.
static void splitByLengths(OnlineAttentionOp op, TargetAttr target, bool manyRows) {
  ImplicitLocOpBuilder b(op.getLoc(), op);
  ScheduleAttr schedule = op.getSchedule();
  auto constant = [&](int64_t value) -> Value { return arith::ConstantIndexOp::create(b, value); };
  int64_t room = target.getMultiprocessors() * schedule.getBlocksPerMultiprocessor();
  bool packs = packsHeads(op);
  Value one = constant(1);
  Value blocks = arith::MaxSIOp::create(b, getNumForwardBlocks(b, op, packs), one);
  bool hasFewRows = schedule.getKeyWarps() > 1, isHopper = schedule.getFamily() == ScheduleFamily::hopper,
       hasManyRows = isHopper && manyRows;
  // Blocks whose copies are under way all the time saturate the memory when nearly every multiprocessor has
  // one, and there is room for a second one. With many rows products take as long.
  bool saturates = hasFewRows || (isHopper && !hasManyRows);
  if (saturates)
    room = target.getMultiprocessors() - target.getMultiprocessors() / 16;
  Value byRoom = saturates ? arith::CeilDivSIOp::create(b, constant(room), blocks).getResult()
                           : arith::DivSIOp::create(b, constant(room), blocks).getResult();
  Value visited = getVisitedKeys(b, op);
  Value byKeys = arith::DivSIOp::create(b, visited, constant(kMinPartKeys));
  Value most = arith::MinSIOp::create(b, arith::MinSIOp::create(b, byRoom, byKeys), constant(kMaxParts));
  Value parts = arith::MaxSIOp::create(b, most, one);
  auto isAtLeast = [&](Value x, Value y) -> Value {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::sge, x, y);
  };
  auto both = [&](Value x, Value y) -> Value { return arith::AndIOp::create(b, x, y); };
  auto either = [&](Value x, Value y) -> Value { return arith::OrIOp::create(b, x, y); };
  Value rows = getNumForwardRows(b, op, packs), hasKeys = isAtLeast(visited, constant(kMinKeys)),
        isSplit = isAtLeast(parts, constant(2));
  Value isOneTile = both(isAtLeast(constant(schedule.getBlockM()), rows), hasKeys);
  Value pays = hasFewRows ? isOneTile : either(isOneTile, isSplit);
  if (hasManyRows) {
    // Tiles of a head each have empty rows, or there are fewer of them than multiprocessors.
    Value shared = arith::MulIOp::create(b, blocks, constant(4)),
          apart = arith::MulIOp::create(b, getNumForwardBlocks(b, op, /*packs=*/false), constant(3));
    pays = both(isAtLeast(rows, constant(kWarpgroupRows + 1)),
                either(both(isAtLeast(apart, shared), hasKeys), isSplit));
  }
  tile::TakeIfOp::create(b, pays, hasFewRows ? "few_rows" : hasManyRows ? "many_rows" : "split_kv");

  auto named = remark::RemarkOpts::name("kv-splits").category("attn-split-kv").function("forward");
  remark::passed(op->getLoc(), named)
      << "the keys are computed in min(room / blocks of queries, visited keys / least keys) parts, where "
         "these are several, or one tile holds the queries of a head and the keys are many"
      << remark::metric("room", room) << remark::metric("least_keys", kMinPartKeys)
      << remark::metric("most_parts", kMaxParts) << remark::metric("heads_share_tiles", packs);
  split(b, op, 1, parts);
}

namespace {
struct SplitKvPass : attn::impl::SplitKvPassBase<SplitKvPass> {
  using SplitKvPassBase::SplitKvPassBase;
  void runOnOperation() override {
    SmallVector<OnlineAttentionOp> ops;
    getOperation()->walk([&](OnlineAttentionOp op) {
      if (op.getKind() == KernelKind::forward && !op.isSplit())
        ops.push_back(op);
    });
    TargetAttr target = getTarget(getOperation());
    for (OnlineAttentionOp op : ops) {
      int64_t wanted = splits;
      if (byLengths && (wanted != 0 || !target || !target.isGpu())) {
        op.emitOpError("expected a GPU target, and no number of splits, to split the keys by lengths");
        return signalPassFailure();
      }
      if (wanted < 0 || wanted > kMaxKvSplits) {
        op.emitOpError("expected from 1 to ") << kMaxKvSplits << " splits of the keys, got " << wanted;
        return signalPassFailure();
      }
      bool isKeyOuter = op.getSchedule().getOrder() == LoopOrder::key_outer;
      if (wanted > 1 && isKeyOuter) {
        op.emitOpError("expected order = query_outer to split the keys in ")
            << wanted << " parts, got key_outer";
        return signalPassFailure();
      }
      if (wanted == 0)
        wanted =
            target ? chooseKvSplits(ShapeClass::get(op, KernelKind::forward), target, op.getSchedule()) : 1;
      // Without rows there is nothing to merge, and no valid slice of a part in the kernel either.
      if (llvm::is_contained(cast<RankedTensorType>(op.getResult(0).getType()).getShape(), 0))
        continue;
      // Block lists have no ranges that parts could divide. Parts are weighted by their lse, whose rounding
      // shows in an f32 result.
      bool isExact = op.getElementType().isF32();
      if (byLengths && !isKeyOuter && !op.getBlockLists() && !isExact) {
        splitByLengths(op, target, manyRows);
      } else if (wanted > 1) {
        ImplicitLocOpBuilder b(op.getLoc(), op);
        split(b, op, wanted, /*numParts=*/Value());
      }
    }
  }
};
} // namespace
