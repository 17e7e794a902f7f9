//===- Plan.cpp - --attn-plan ------------------------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialect/AttnTileDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Remarks.h"
#include "passes/ChooseSchedule.h"
#include "passes/DenseBias.h"
#include "passes/MaskStructure.h"
#include "passes/Passes.h"
#include "passes/RegionUtils.h"
#include "passes/ScoreParts.h"
#include "passes/Targets.h"
#include "llvm/Support/InterleavedRange.h"

using namespace mlir;
using namespace attn;

namespace attn {
#define GEN_PASS_DEF_PLANPASS
#include "passes/Passes.h.inc"
} // namespace attn

namespace {
struct PlanPass : attn::impl::PlanPassBase<PlanPass> {
  using PlanPassBase::PlanPassBase;
  void runOnOperation() override;

private:
  FailureOr<ScheduleAttr> choose(AttentionOpInterface op, KernelKind kind);
  FailureOr<OnlineAttentionOp> plan(ImplicitLocOpBuilder &b, AttentionOpInterface op, KernelKind kind,
                                    TypeRange resultTypes, ValueRange rowOperands);
  LogicalResult verifyFamily();
  LogicalResult verifyTf32(AttentionOpInterface op);
  LogicalResult planForward(AttentionOp op);
  LogicalResult planBackward(AttentionBackwardOp op);
  LogicalResult planLists(BlockListsOp op);

  TargetAttr target;
};
} // namespace

static void takeIfLengthIsShort(AttentionOpInterface op) {
  ImplicitLocOpBuilder b(op.getLoc(), op);
  Value queries = b.createOrFold<tensor::DimOp>(op.getQuery(), 2);
  Value isShort = b.createOrFold<arith::CmpIOp>(arith::CmpIPredicate::sle, queries,
                                                arith::ConstantIndexOp::create(b, kShortLength).getResult());
  tile::TakeIfOp::create(b, isShort, "short_lengths");
}

static void remarkBias(AttentionOpInterface op, ScheduleAttr schedule) {
  BiasPlan bias = describeBias(op, schedule);
  auto named = remark::RemarkOpts::name("bias").category("attn-plan").function("forward");
  if (bias.isTiled)
    remark::passed(op->getLoc(), named) << bias.text;
  else if (bias.hasBias)
    remark::missed(op->getLoc(), named) << bias.text << remark::reason("{0}", bias.reason);
}

FailureOr<ScheduleAttr> PlanPass::choose(AttentionOpInterface op, KernelKind kind) {
  ScheduleOverrides overrides;
  overrides.blockM = blockM;
  overrides.blockN = blockN;
  overrides.setLists(op);
  overrides.splitsKeys = splitKeys && !op.getBlockLists();
  overrides.hasFewRows = fewRows && overrides.splitsKeys;
  overrides.hasManyRows = manyRows && overrides.splitsKeys;
  overrides.shortLengths = shortLengths && kind == KernelKind::forward;
  overrides.aligned = aligned;
  overrides.family = symbolizeScheduleFamily(family);
  if (biasStages < -1 || biasStages > 2)
    return op->emitOpError("expected bias-stages from 0 to 2, or -1 to choose, got ")
           << biasStages.getValue();
  if (biasStages >= 0)
    overrides.biasStages = biasStages;
  if (!tile.empty() && !target.isGpu())
    return op->emitOpError("expected no tile of GPU kernels, since the target is ") << target;
  if (!tile.empty()) {
    bool isGpuTile =
        overrides.family && tile.size() == 5 && llvm::all_of(tile, [](int64_t number) { return number > 0; });
    if (!isGpuTile)
      return op->emitOpError("expected the tile of GPU kernels as block_m, block_n, warps, "
                             "blocks_per_multiprocessor and stages, all of at least 1, with family = hopper "
                             "or portable, got ")
             << llvm::interleaved(ArrayRef<int64_t>(tile)).str() << " with family = " << family;
    if (blockM || blockN)
      return op->emitOpError("expected either a tile or block_m and block_n, got both");
    overrides.tile = GpuTile{tile[0], tile[1], tile[2], tile[3], tile[4]};
  }
  // The maximum of the first block would say nothing of the others.
  bool grows = op.getMask().empty() && !op.getScore().empty() && growsWithKey(op.getScore());
  overrides.exactMaximum = exactMaximum || grows;
  if (kind == KernelKind::forward)
    overrides.order = keyOuter ? LoopOrder::key_outer : LoopOrder::query_outer;
  auto choose = [&] {
    return chooseSchedule([&] { return op->emitOpError(); }, ShapeClass::get(op, kind), target, overrides);
  };
  FailureOr<ScheduleChoice> choice = choose();
  if (failed(choice))
    return failure();
  if (overrides.shortLengths) {
    overrides.shortLengths = false;
    if (FailureOr<ScheduleChoice> general = choose();
        succeeded(general) && general->schedule != choice->schedule)
      takeIfLengthIsShort(op);
  }
  auto named = remark::RemarkOpts::name("schedule").category("attn-plan").function(stringifyKernelKind(kind));
  if (!choice->hopperRejection.empty())
    remark::missed(op->getLoc(), named)
        << "the family is portable, not hopper" << remark::reason("{0}", choice->hopperRejection);
  if (grows && !exactMaximum && choice->schedule.getFamily() == ScheduleFamily::hopper)
    remark::missed(op->getLoc(), named)
        << "the maximum is exact, not fixed" << remark::reason("scores may grow from key to key");
  if (kind == KernelKind::forward && choice->schedule.getFamily() == ScheduleFamily::hopper)
    remarkBias(op, choice->schedule);
  for (const ScheduleCandidate &candidate : choice->candidates) {
    auto text = llvm::formatv("block_m = {0}, block_n = {1}", candidate.blockM, candidate.blockN).str();
    if (candidate.rejection.empty()) {
      auto chosen = remark::passed(op->getLoc(), named);
      chosen << text << remark::metric("hot_bytes", candidate.hotBytes)
             << remark::metric("total_bytes", candidate.totalBytes);
      if (!candidate.evidence.empty())
        chosen << remark::reason("measured: {0}", candidate.evidence);
    } else {
      remark::missed(op->getLoc(), named) << text << remark::reason("{0}", candidate.rejection);
    }
  }
  return choice->schedule;
}

FailureOr<OnlineAttentionOp> PlanPass::plan(ImplicitLocOpBuilder &b, AttentionOpInterface op, KernelKind kind,
                                            TypeRange resultTypes, ValueRange rowOperands) {
  FailureOr<ScheduleAttr> schedule = choose(op, kind);
  if (failed(schedule))
    return failure();
  bool isGradient = kind != KernelKind::forward;
  Value lse = isGradient ? rowOperands[0] : Value(), delta = isGradient ? rowOperands[1] : Value(),
        dOut = isGradient ? rowOperands[2] : Value();
  auto online = OnlineAttentionOp::create(b, resultTypes, kind, op.getQuery(), op.getKey(), op.getValue(),
                                          lse, delta, dOut, op.getCaptures(), op.getBlockLists(),
                                          op.getScaleAttr(), op.getBlocksAttr(), *schedule,
                                          /*splits=*/Value(), tf32 || op.getTf32());
  auto copy = [](Region &from, Region &to) {
    IRMapping mapping;
    from.cloneInto(&to, mapping);
  };
  copy(op.getScore(), online.getScore());
  copy(op.getMask(), online.getMask());
  if (auto backward = dyn_cast<AttentionBackwardOp>(op.getOperation()))
    copy(backward.getGradient(), online.getGradient());
  if (!op.getMask().empty()) {
    OpBuilder::InsertionGuard guard(b);
    BlockSizes sizes{schedule->getBlockM(), schedule->getBlockN()};
    if (online.blocksKeys())
      std::swap(sizes.blocked, sizes.streamed);
    MaskStructure structure =
        buildRanges(b, op.getLoc(), op.getMask(), online.getRanges(), online.blocksKeys(), sizes);
    auto named =
        remark::RemarkOpts::name("mask-structure").category("attn-plan").function(stringifyKernelKind(kind));
    if (structure.isExact)
      remark::passed(op->getLoc(), named) << "the ranges are exact";
    else
      remark::missed(op->getLoc(), named)
          << "the ranges are not exact" << remark::reason("{0}", structure.reason);
  }
  return online;
}

LogicalResult PlanPass::verifyFamily() {
  if (family == "auto" || symbolizeScheduleFamily(family))
    return success();
  return getOperation()->emitError("expected the family of GPU kernels to be auto, portable or hopper, got ")
         << family;
}

LogicalResult PlanPass::verifyTf32(AttentionOpInterface op) {
  if (!tf32 && !op.getTf32())
    return success();
  if (!target.isGpu())
    return op->emitOpError(
        "tf32 products are for a GPU; a CPU's are those of f32: compile for it without tf32");
  if (!op.getElementType().isF32())
    return op->emitOpError("expected tensors of f32 for tf32 products, got ") << op.getElementType();
  return success();
}

LogicalResult PlanPass::planForward(AttentionOp op) {
  ImplicitLocOpBuilder b(op.getLoc(), op);
  FailureOr<OnlineAttentionOp> online = plan(b, op, KernelKind::forward, op->getResultTypes(), {});
  if (failed(online))
    return failure();
  op->replaceAllUsesWith(online->getResults());
  op->erase();
  return success();
}

LogicalResult PlanPass::planBackward(AttentionBackwardOp op) {
  if (!op.getScore().empty() && op.getGradient().empty())
    return op.emitOpError(
        "expected a gradient region for the score; run --attn-differentiate before --attn-plan");
  bool isDeterministic = deterministic || op.getDeterministic();
  if (isDeterministic)
    if (WalkResult summed =
            op.getGradient().walk([](AccumulateGradientOp) { return WalkResult::interrupt(); });
        summed.wasInterrupted())
      return op.emitOpError("gradients of captures are summed in an order that is not determined; ask for "
                            "deterministic gradients only without floating captures that the score reads");
  ImplicitLocOpBuilder b(op.getLoc(), op);
  Value delta = DeltaOp::create(b, op.getLse().getType(), op.getDOut(), op.getOut(), op.getDLse());
  Value rowOperands[] = {op.getLse(), delta, op.getDOut()};
  if (target.isGpu() && !isDeterministic) {
    SmallVector<Type> types{op.getDQuery().getType(), op.getDKey().getType(), op.getDValue().getType()};
    llvm::append_range(types, op.getCaptureGradients().getTypes());
    FailureOr<OnlineAttentionOp> fused = plan(b, op, KernelKind::fused, types, rowOperands);
    if (failed(fused))
      return failure();
    op->replaceAllUsesWith(fused->getResults());
    op->erase();
    return success();
  }
  SmallVector<Type> dqTypes{op.getDQuery().getType()};
  llvm::append_range(dqTypes, op.getCaptureGradients().getTypes());
  FailureOr<OnlineAttentionOp> dq = plan(b, op, KernelKind::dq, dqTypes, rowOperands);
  if (failed(dq))
    return failure();
  FailureOr<OnlineAttentionOp> dkdv =
      plan(b, op, KernelKind::dkdv, {op.getDKey().getType(), op.getDValue().getType()}, rowOperands);
  if (failed(dkdv))
    return failure();
  SmallVector<Value> replacements{dq->getResult(0), dkdv->getResult(0), dkdv->getResult(1)};
  llvm::append_range(replacements, dq->getCaptureGradients());
  op->replaceAllUsesWith(replacements);
  op->erase();
  return success();
}

LogicalResult PlanPass::planLists(BlockListsOp op) {
  if (!op.getRanges().empty())
    return success();
  if (failed(verifyInlinable(op)))
    return failure();
  OpBuilder builder(op);
  buildRanges(builder, op.getLoc(), op.getMask(), op.getRanges(), /*blocksKeys=*/false,
              {op.getBlocks()[0], op.getBlocks()[1]});
  return success();
}

void PlanPass::runOnOperation() {
  WalkResult lists = getOperation()->walk([&](BlockListsOp op) {
    return failed(planLists(op)) ? WalkResult::interrupt() : WalkResult::advance();
  });
  if (lists.wasInterrupted())
    return signalPassFailure();
  SmallVector<AttentionOpInterface> ops;
  getOperation()->walk([&](AttentionOpInterface op) {
    if (!isa<OnlineAttentionOp>(op))
      ops.push_back(op);
  });
  if (failed(verifyFamily()))
    return signalPassFailure();
  target = getTarget(getOperation());
  for (AttentionOpInterface op : ops) {
    if (!target) {
      op->emitOpError("expected a module with '")
          << AttnDialect::getTargetAttrName() << "'; run --attn-set-target before --attn-plan";
      return signalPassFailure();
    }
    if (failed(verifyLoweredType(op, op.getElementType())) || failed(verifyInlinable(op)) ||
        failed(verifyTf32(op)))
      return signalPassFailure();
    LogicalResult planned = success();
    if (auto forward = dyn_cast<AttentionOp>(op.getOperation()))
      planned = planForward(forward);
    else
      planned = planBackward(cast<AttentionBackwardOp>(op.getOperation()));
    if (failed(planned))
      return signalPassFailure();
  }
}
