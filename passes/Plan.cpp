//===- Plan.cpp - --attn-plan ------------------------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Remarks.h"
#include "passes/ChooseSchedule.h"
#include "passes/CpuTile.h"
#include "passes/MaskStructure.h"
#include "passes/Passes.h"
#include "passes/RegionUtils.h"
#include "passes/Targets.h"

using namespace mlir;
using namespace attn;

namespace attn {
#define GEN_PASS_DEF_PLANPASS
#include "passes/Passes.h.inc"
} // namespace attn

/// delta = sum over value_dim of d_out * out, minus d_lse: what softmax subtracts from the gradient of each
/// score of a row.
///
/// The sum is that of the kernels' products, in the same parts and with the same multiply-add (which is fused
/// only where the target can): where a row gives all its weight to one key, out is the value of that key, and
/// d_out * v^T - delta has to be 0 to the last bit.
static Value buildDelta(ImplicitLocOpBuilder &b, AttentionBackwardOp op) {
  RankedTensorType rowType = op.getLse().getType();
  Type compute = op.getComputeType();
  SmallVector<Value> dynamicDims;
  for (int64_t dim = 0; dim < 3; ++dim)
    if (rowType.isDynamicDim(dim))
      dynamicDims.push_back(tensor::DimOp::create(b, op.getLse(), dim));
  Value empty = tensor::EmptyOp::create(b, rowType.getShape(), compute, dynamicDims);
  Value zero = arith::ConstantOp::create(b, cast<TypedAttr>(b.getZeroAttr(compute)));
  auto index = [&](int64_t value) -> Value { return arith::ConstantIndexOp::create(b, value); };
  Value first = index(0), last = index(op.getValueDim()), one = index(1), partDepth = index(kPartDepth);

  auto buildRow = [&](OpBuilder &builder, Location loc, ValueRange args) {
    ImplicitLocOpBuilder b(loc, builder);
    SmallVector<Value> row;
    for (int64_t dim = 0; dim < 3; ++dim)
      row.push_back(linalg::IndexOp::create(b, dim));
    auto single = VectorType::get({1}, compute);
    auto read = [&](Value tensor, Value column) -> Value {
      SmallVector<Value> position = row;
      position.push_back(column);
      Value element = tensor::ExtractOp::create(b, tensor, position);
      return vector::BroadcastOp::create(b, single, convertFloat(b, loc, element, compute));
    };
    auto sum = [&](Value begin, Value end, Value step, function_ref<Value(Value, Value)> add) -> Value {
      auto loop = scf::ForOp::create(b, begin, end, step, zero);
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(loop.getBody());
      scf::YieldOp::create(b, add(loop.getInductionVar(), loop.getRegionIterArg(0)));
      return loop.getResult(0);
    };
    Value total = sum(first, last, partDepth, [&](Value begin, Value total) -> Value {
      Value end = arith::MinSIOp::create(b, arith::AddIOp::create(b, begin, partDepth), last);
      Value part = sum(begin, end, one, [&](Value column, Value part) -> Value {
        Value next = vector::FMAOp::create(b, read(op.getDOut(), column), read(op.getOut(), column),
                                           vector::BroadcastOp::create(b, single, part));
        return vector::ExtractOp::create(b, next, 0);
      });
      return arith::AddFOp::create(b, total, part);
    });
    if (op.getDLse())
      total = arith::SubFOp::create(b, total, args[0]);
    linalg::YieldOp::create(b, total);
  };
  SmallVector<Value> ins;
  if (op.getDLse())
    ins.push_back(op.getDLse());
  SmallVector<AffineMap> maps(ins.size() + 1, AffineMap::getMultiDimIdentityMap(3, b.getContext()));
  SmallVector<utils::IteratorType> iterators(3, utils::IteratorType::parallel);
  return linalg::GenericOp::create(b, TypeRange(rowType), ins, empty, maps, iterators, buildRow).getResult(0);
}

namespace {
struct PlanPass : attn::impl::PlanPassBase<PlanPass> {
  using PlanPassBase::PlanPassBase;
  void runOnOperation() override;

private:
  FailureOr<ScheduleAttr> choose(AttentionOpInterface op, KernelKind kind);
  FailureOr<OnlineAttentionOp> plan(ImplicitLocOpBuilder &b, AttentionOpInterface op, KernelKind kind,
                                    TypeRange resultTypes, ValueRange rowOperands);
  LogicalResult planForward(AttentionOp op);
  LogicalResult planBackward(AttentionBackwardOp op);

  TargetAttr target;
};
} // namespace

FailureOr<ScheduleAttr> PlanPass::choose(AttentionOpInterface op, KernelKind kind) {
  ScheduleOverrides overrides;
  overrides.blockM = blockM;
  overrides.blockN = blockN;
  if (kind == KernelKind::forward)
    overrides.order = keyOuter ? LoopOrder::key_outer : LoopOrder::query_outer;
  FailureOr<ScheduleChoice> choice =
      chooseSchedule([&] { return op->emitOpError(); }, ShapeClass::get(op, kind), target, overrides);
  if (failed(choice))
    return failure();
  auto named = remark::RemarkOpts::name("schedule").category("attn-plan").function(stringifyKernelKind(kind));
  for (const ScheduleCandidate &candidate : choice->candidates) {
    auto tile = llvm::formatv("block_m = {0}, block_n = {1}", candidate.blockM, candidate.blockN).str();
    if (candidate.rejection.empty())
      remark::passed(op->getLoc(), named) << tile << remark::metric("hot_bytes", candidate.hotBytes)
                                          << remark::metric("total_bytes", candidate.totalBytes);
    else
      remark::missed(op->getLoc(), named) << tile << remark::reason("{0}", candidate.rejection);
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
                                          lse, delta, dOut, op.getCaptures(), op.getScaleAttr(), *schedule);
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
    MaskStructure structure = buildRanges(b, op, online.getRanges(), online.blocksKeys(), sizes);
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
  ImplicitLocOpBuilder b(op.getLoc(), op);
  Value rowOperands[] = {op.getLse(), buildDelta(b, op), op.getDOut()};
  SmallVector<Type> dqTypes{op.getDQuery().getType()};
  llvm::append_range(dqTypes, op.getDCaptures().getTypes());
  FailureOr<OnlineAttentionOp> dq = plan(b, op, KernelKind::dq, dqTypes, rowOperands);
  if (failed(dq))
    return failure();
  FailureOr<OnlineAttentionOp> dkdv =
      plan(b, op, KernelKind::dkdv, {op.getDKey().getType(), op.getDValue().getType()}, rowOperands);
  if (failed(dkdv))
    return failure();
  SmallVector<Value> replacements{dq->getResult(0), dkdv->getResult(0), dkdv->getResult(1)};
  llvm::append_range(replacements, dq->getResults().drop_front());
  op->replaceAllUsesWith(replacements);
  op->erase();
  return success();
}

void PlanPass::runOnOperation() {
  SmallVector<AttentionOpInterface> ops;
  getOperation()->walk([&](AttentionOpInterface op) {
    if (!isa<OnlineAttentionOp>(op))
      ops.push_back(op);
  });
  target = getTarget(getOperation());
  for (AttentionOpInterface op : ops) {
    if (!target) {
      op->emitOpError("expected a module with '")
          << AttnDialect::getTargetAttrName() << "'; run --attn-set-target before --attn-plan";
      return signalPassFailure();
    }
    if (failed(verifyLoweredType(op, op.getElementType())) || failed(verifyInlinable(op)))
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
