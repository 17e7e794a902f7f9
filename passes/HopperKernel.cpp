//===- HopperKernel.cpp - what the kernels of the hopper GPU family share ----===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/HopperKernel.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "passes/ChooseSchedule.h"
#include "passes/Targets.h"

using namespace mlir;
using namespace attn;
using namespace attn::tile;

HopperKernel::HopperKernel(ImplicitLocOpBuilder &host, OnlineAttentionOp op, StringRef name,
                           const TileLoweringOptions &options)
    : ForwardTileKernel(host, op, name, options), consumers(getHopperConsumers(op.getSchedule())) {}

void HopperKernel::addProgress() {
  if (!dropsPairs())
    return;
  hostProgress = memref::AllocOp::create(host, MemRefType::get({2}, host.getI32Type()));
  named(hostProgress, "progress");
  fillWithZero(host, hostProgress);
  // The last draw of a tile sets the first one back, and so does the last block of the kernel that repairs,
  // which counts its blocks there; and it sets back the second one, which says that a row is marked.
  hostProgress.getDefiningOp()->setAttr(AttnTileDialect::getLeftZeroAttrName(), host.getUnitAttr());
  progress = addParameter(hostProgress, "progress");
}

void HopperKernel::addKeyMaps() {
  keyMap = addTensorMap(op.getKey(), blockN(), "key_map");
  valueMap = addTensorMap(op.getValue(), blockN(), "value_map");
}

//===----------------------------------------------------------------------===//
// Roles and pipelines
//===----------------------------------------------------------------------===//

Value HopperKernel::addPipeline(int64_t stages, int64_t rows, int64_t columns, StringRef name,
                                FloatType elementType, TileUse use) {
  SmallVector<int64_t> shape{stages, rows, columns};
  auto type = PipelineType::get(b.getContext(), shape, elementType, consumers, use);
  return PipelineAllocOp::create(b, type, b.getStringAttr(name), IntegerAttr(), IntegerAttr());
}

void HopperKernel::addKeyPipelines() {
  int64_t stages = op.getSchedule().getStages();
  keys = addPipeline(stages, blockN(), paddedHeadDim, "keys", elementType);
  values = addPipeline(stages, blockN(), paddedValueDim, "values", elementType);
}

WarpSpecializeOp HopperKernel::addRoles() {
  HopperRegisters registers = getHopperRegisters(consumers);
  return WarpSpecializeOp::create(b, consumers, registers.consumer, registers.producer);
}

void HopperKernel::fillRole(ImplicitLocOpBuilder &b, Region &region, function_ref<void()> body) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&region.emplaceBlock());
  body();
  tile::YieldOp::create(b, ValueRange());
}

void HopperKernel::load(Value map, Value pipeline, ValueRange indices, StringRef slot, Value column) {
  Value tile = PipelineAcquireOp::create(b, getTileType(pipeline), pipeline, b.getStringAttr(slot));
  CopyBulkOp::create(b, map, indices, column, tile, pipeline);
  PipelineCommitOp::create(b, pipeline);
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

void HopperKernel::allocateAccumulators() {
  SmallVector<int64_t> warps{4 * consumers, 1};
  FragmentType scoresType = accumulatorType(blockM(), blockN(), warps);
  scores = fragment("scores", scoresType);
  probabilities = fragment("probabilities", FragmentType::get(b.getContext(), scoresType.getShape(),
                                                              elementType, Layout::operand_a, warps));
  output = fragment("output", accumulatorType(blockM(), paddedValueDim, warps));
  allocateRows(scoresType, /*isLazy=*/true);
}

void HopperKernel::startScores(Value keyTile) {
  MmaOp::create(b, Atom::wgmma, scores, queryTile, keyTile, /*transpose_a=*/false, /*transpose_b=*/true,
                /*overwrite=*/true);
  MmaCommitOp::create(b);
}

void HopperKernel::startOutput(Value valueTile) {
  MmaOp::create(b, Atom::wgmma, output, probabilities, valueTile);
  MmaCommitOp::create(b);
}

void HopperKernel::rescaleWhereGrown() {
  Value grew = any(rescale, [&](ValueRange elements) -> Value {
    return arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, elements[0], f32(1));
  });
  ifThen(named(grew, "maximum_grew"), [&] { rescaleOutput(); });
}

void HopperKernel::noteMarked(Value isMarked) {
  ifThen(isMarked, [&] {
    Value one = arith::ConstantIntOp::create(b, 1, 32);
    memref::StoreOp::create(b, one, progress, ValueRange{index(1)});
  });
}

LogicalResult attn::lowerMarkedRows(ImplicitLocOpBuilder &host, OnlineAttentionOp op,
                                    const TileLoweringOptions &options, Value out, Value lse, Value progress,
                                    StringRef name) {
  ScheduleOverrides overrides;
  overrides.family = ScheduleFamily::portable;
  // The ranges are for blocks of keys of the given size or less.
  overrides.maxBlockN = op.getSchedule().getBlockN();
  overrides.setLists(op);
  auto choose = [&] {
    return chooseGpuSchedule([&] { return op.emitOpError(); }, ShapeClass::get(op, KernelKind::forward),
                             getTarget(op->getParentOfType<ModuleOp>()), overrides);
  };
  FailureOr<ScheduleChoice> choice = choose();
  if (failed(choice))
    return failure();
  // A warp for every 16 rows: a thread has half as much to do, and the compiler, for which a first call
  // waits. What is repaired is rare.
  ScheduleAttr fastest = choice->schedule;
  int64_t warps = fastest.getBlockM() / 16;
  if (warps > fastest.getWarps()) {
    overrides.tile = {fastest.getBlockM(), fastest.getBlockN(), warps, /*blocksPerMultiprocessor=*/1,
                      fastest.getStages()};
    ScopedDiagnosticHandler silent(op.getContext(), [](Diagnostic &) { return success(); });
    if (FailureOr<ScheduleChoice> wider = choose(); succeeded(wider))
      choice = wider;
  }
  op.setScheduleAttr(choice->schedule);
  lowerMarkedForwardToTile(host, op, options, out, lse, progress, name);
  return success();
}
