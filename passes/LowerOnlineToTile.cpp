//===- LowerOnlineToTile.cpp - --attn-lower-online-to-tile -------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Index/IR/IndexOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/ChooseSchedule.h"
#include "passes/NarrowIndices.h"
#include "passes/Passes.h"
#include "passes/Targets.h"
#include "passes/TileKernel.h"

using namespace mlir;
using namespace attn;

namespace attn {
#define GEN_PASS_DEF_LOWERONLINETOTILEPASS
#include "passes/Passes.h.inc"
} // namespace attn

/// A kernel computes the ranges of a block in 32 bits, too. Captured "no limits" are clamped to what the
/// lengths of any tensor that fits a GPU are below, and what is added to them does not overflow.
static void narrowRanges(Region &region) {
  constexpr int64_t limit = int64_t(1) << 30;
  region.walk([&](Operation *op) {
    OpBuilder builder(op);
    auto constant = [&](Type type, int64_t value) -> Value {
      return arith::ConstantOp::create(builder, op->getLoc(), builder.getIntegerAttr(type, value));
    };
    if (auto number = dyn_cast<arith::ConstantIndexOp>(op)) {
      if (number.value() != static_cast<int32_t>(number.value()))
        op->getResult(0).replaceAllUsesWith(constant(number.getType(), number.value() < 0 ? -limit : limit));
      return;
    }
    if (!isa<arith::IndexCastOp, arith::IndexCastUIOp, index::CastSOp, index::CastUOp>(op) ||
        !op->getResult(0).getType().isIndex())
      return;
    Value source = op->getOperand(0);
    Type type = source.getType();
    if (type.getIntOrFloatBitWidth() <= 32)
      return;
    // Only the result has the name of the value.
    Location loc = op->getLoc();
    if (auto name = dyn_cast<NameLoc>(loc))
      loc = name.getChildLoc();
    if (isa<arith::IndexCastUIOp, index::CastUOp>(op))
      source = arith::MinUIOp::create(builder, loc, source, constant(type, limit));
    else
      source = arith::MinSIOp::create(builder, loc,
                                      arith::MaxSIOp::create(builder, loc, source, constant(type, -limit)),
                                      constant(type, limit));
    op->setOperand(0, source);
  });
}

static LogicalResult verifyGpuType(Operation *op, Type elementType) {
  if (elementType.isF64())
    return op->emitOpError("f64 tensors are for the CPU; convert them to f32 for a GPU");
  return verifyLoweredType(op, elementType);
}

/// The schedule may be written by hand: what --attn-plan says of one that cannot be is said here, too.
static LogicalResult verifySchedule(OnlineAttentionOp op, bool aligned) {
  TargetAttr target = getTarget(op->getParentOfType<ModuleOp>());
  if (!target) // the one with the most room
    target = getNamedTarget(op.getContext(), Arch::sm_90a);
  ScheduleAttr schedule = op.getSchedule();
  ScheduleOverrides overrides;
  overrides.tile = GpuTile{schedule.getBlockM(), schedule.getBlockN(),
                           schedule.getWarps(),  schedule.getBlocksPerMultiprocessor(),
                           schedule.getStages(), schedule.getKeyWarps()};
  overrides.order = schedule.getOrder();
  overrides.family = schedule.getFamily();
  overrides.aligned = aligned;
  overrides.splitsKeys = op.isSplit();
  overrides.biasStages = schedule.getBiasStages();
  overrides.setLists(op);
  if (!target.isGpu())
    return op.emitOpError("expected a GPU as the target, got ") << target;
  ShapeClass shape = ShapeClass::get(op, op.getKind());
  if (schedule.getBiasStages() > 0 && !shape.hasBias)
    return op.emitOpError("expected bias_stages = 0 without a dense bias of f16 or bf16, got ")
           << schedule.getBiasStages();
  return chooseGpuSchedule([&] { return op.emitOpError(); }, shape, target, overrides);
}

namespace {
struct LowerOnlineToTilePass : attn::impl::LowerOnlineToTilePassBase<LowerOnlineToTilePass> {
  using LowerOnlineToTilePassBase::LowerOnlineToTilePassBase;

  LogicalResult lower(OnlineAttentionOp op) {
    if (failed(verifyGpuType(op, op.getElementType())) || failed(verifyInlinable(op)))
      return failure();
    if (op.isSplit() && op.getBlockLists())
      return op.emitOpError("expected no block lists where the keys are computed in parts on a GPU; compile "
                            "with kv_splits = 1 or without block lists");
    if (int64_t warps = op.getSchedule().getKeyWarps();
        warps > 1 && (op.getKind() != KernelKind::forward || op.getBlockLists() ||
                      op.getElementType().getIntOrFloatBitWidth() != 16))
      return op.emitOpError(
                 "expected key_warps = 1 but for a forward of 16-bit elements without block lists, got ")
             << warps;
    if (failed(verifySchedule(op, aligned)))
      return failure();
    narrowIndices(op);
    narrowRanges(op.getRanges());
    TileLoweringOptions options;
    options.aligned = aligned;
    if (op.getSchedule().getFamily() == ScheduleFamily::hopper)
      return op.isSplit() ? lowerPartsToHopper(op, options) : lowerForwardToHopper(op, options);
    if (op.getKind() == KernelKind::forward)
      lowerForwardToTile(op, options);
    else
      lowerBackwardToTile(op, options);
    return success();
  }

  void runOnOperation() override {
    // With their merges.
    SmallVector<OnlineAttentionOp> parts;
    getOperation()->walk([&](OnlineAttentionOp op) {
      if (op.isSplit() && op.getSchedule().getFamily() == ScheduleFamily::hopper)
        parts.push_back(op);
    });
    for (OnlineAttentionOp op : parts)
      if (failed(lower(op)))
        return signalPassFailure();
    SmallVector<MergeOp> merges;
    getOperation()->walk([&](MergeOp op) { merges.push_back(op); });
    for (MergeOp op : merges) {
      Type type = op.getOut().getType().getElementType();
      if (failed(verifyGpuType(op, type)))
        return signalPassFailure();
      lowerMergeToTile(op);
    }
    SmallVector<BlockListsOp> lists;
    getOperation()->walk([&](BlockListsOp op) { lists.push_back(op); });
    for (BlockListsOp op : lists) {
      if (failed(verifyInlinable(op)))
        return signalPassFailure();
      narrowIndices(op.getMask(), op.getCaptures().size());
      narrowRanges(op.getRanges());
      lowerBlockListsToTile(op);
    }
    SmallVector<OnlineAttentionOp> ops;
    getOperation()->walk([&](OnlineAttentionOp op) { ops.push_back(op); });
    for (OnlineAttentionOp op : ops)
      if (failed(lower(op)))
        return signalPassFailure();
    SmallVector<DeltaOp> deltas;
    getOperation()->walk([&](DeltaOp op) { deltas.push_back(op); });
    TileLoweringOptions options;
    options.aligned = aligned;
    for (DeltaOp op : deltas)
      lowerDeltaToTile(op, options);
  }
};
} // namespace
