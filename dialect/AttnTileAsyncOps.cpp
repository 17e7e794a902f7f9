//===- AttnTileAsyncOps.cpp - roles, pipelines and asynchronous products -----===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialect/AttnTileDialect.h"

using namespace mlir;
using namespace attn;
using namespace attn::tile;

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

LogicalResult PanelsType::verify(function_ref<InFlightDiagnostic()> emitError, ArrayRef<int64_t> shape,
                                 FloatType elementType) {
  bool isValid = shape.size() == 2 && shape[0] >= 8 && shape[0] % 8 == 0 && shape[1] >= 16 &&
                 shape[1] % 16 == 0 && (elementType.isF16() || elementType.isBF16());
  if (!isValid) // (TP1)
    return emitError() << "expected panels of two dimensions, a multiple of 8 rows and of 16 columns, of f16 "
                          "or bf16, got ["
                       << shape << "] of " << elementType << " [TP1]";
  return success();
}

LogicalResult PipelineType::verify(function_ref<InFlightDiagnostic()> emitError, ArrayRef<int64_t> shape,
                                   FloatType elementType, int64_t consumers, TileUse use) {
  if (shape.size() != 3 || shape[0] < 1 || shape[0] > 8 || consumers < 1 || consumers > 3) // (TL1)
    return emitError()
           << "expected a pipeline of 1 to 8 stages, rows and columns, and 1 to 3 consumers, got [" << shape
           << "] and " << consumers << " [TL1]";
  return PanelsType::verify(emitError, shape.drop_front(), elementType);
}

LogicalResult WorkQueueType::verify(function_ref<InFlightDiagnostic()> emitError, int64_t warps) {
  if (warps < 1 || warps > 13) // (TW1)
    return emitError() << "expected a work queue of 1 to 13 warps that take, got " << warps << " [TW1]";
  return success();
}

//===----------------------------------------------------------------------===//
// Roles
//===----------------------------------------------------------------------===//

/// Registers of a multiprocessor; those of a thread come in eights.
static constexpr int64_t kRegisterUnit = 8, kRegisters = 65536, kWarpgroupThreads = 128;

LogicalResult WarpSpecializeOp::verify() {
  int64_t consumers = getConsumers();
  auto kernel = (*this)->getParentOfType<gpu::GPUFuncOp>();
  auto resources =
      kernel ? kernel->getAttrOfType<KernelAttr>(AttnTileDialect::getKernelAttrName()) : KernelAttr();
  if (consumers < 1 || consumers > 3 || (resources && resources.getWarps() != 4 * (consumers + 1)))
    return emitOpError("expected 1 to 3 consumer warpgroups and a block of one warpgroup more, got ")
           << consumers << " and " << (resources ? resources.getWarps() : 0) << " warps [WS1]";
  auto isNumber = [](int64_t registers) {
    return registers >= 24 && registers <= 256 && registers % kRegisterUnit == 0;
  };
  int64_t threads =
      kWarpgroupThreads * (consumers + 1) * (resources ? resources.getBlocksPerMultiprocessor() : 1);
  int64_t launched = kRegisters / threads / kRegisterUnit * kRegisterUnit;
  int64_t consumer = getConsumerRegisters(), producer = getProducerRegisters();
  int64_t available = launched * (consumers + 1), needed = consumers * consumer + producer;
  if (!isNumber(consumer) || !isNumber(producer) || needed > available)
    return emitOpError("expected registers that are multiples of 8 from 24 to 256 and at most ")
           << available << " in a thread of each warpgroup together, got " << consumer << " and " << producer
           << ", together " << needed << " [WS2]";
  if (consumer < launched) // so the producer has at most these
    return emitOpError("expected at least the ")
           << launched << " registers that a thread is launched with for a consumer, got " << consumer
           << " [WS2]";
  WalkResult result = (*this)->walk([](Operation *op) {
    if (!isa<gpu::BarrierOp, gpu::AllReduceOp>(op))
      return WalkResult::advance();
    op->emitOpError(
        "waits for all threads of the block, but stands in a region that only some execute [WS3]");
    return WalkResult::interrupt();
  });
  if (result.wasInterrupted())
    return failure();
  bool hasStorer = !getStorer().empty();
  int64_t takers = 4 * consumers + (hasStorer ? 1 : 0);
  result = (*this)->walk([&](Operation *op) {
    for (Type type : op->getOperandTypes()) {
      auto pipeline = dyn_cast<PipelineType>(type);
      auto queue = dyn_cast<WorkQueueType>(type);
      bool isRight = pipeline ? pipeline.getConsumers() == consumers && (hasStorer || !pipeline.isStored())
                              : !queue || queue.getWarps() == takers;
      if (isRight)
        continue;
      op->emitOpError("expected pipelines of the ")
          << consumers << " consumers, " << (hasStorer ? "" : "none of them stored without a storer, ")
          << "and work queues of " << takers << " warps, got " << type << " [WS4]";
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

static LogicalResult verifyRole(Operation *op, Region &(WarpSpecializeOp::*getRegion)(), StringRef role,
                                StringRef label) {
  auto roles = op->getParentOfType<WarpSpecializeOp>();
  if (roles && (roles.*getRegion)().isAncestor(op->getParentRegion()))
    return success();
  return op->emitOpError("expected to stand in the ")
         << role << " region of an attn_tile.warp_specialize [" << label << "]";
}
static LogicalResult verifyConsumer(Operation *op, StringRef label) {
  return verifyRole(op, &WarpSpecializeOp::getConsumer, "consumer", label);
}
/// Of what is in no storer region.
static LogicalResult verifyConsumerOrStorer(Operation *op, StringRef label) {
  return verifyRole(op, &WarpSpecializeOp::getConsumer, "consumer or storer", label);
}
static LogicalResult verifyProducer(Operation *op, StringRef label) {
  return verifyRole(op, &WarpSpecializeOp::getProducer, "producer", label);
}
static LogicalResult verifyStorer(Operation *op, StringRef label) {
  return verifyRole(op, &WarpSpecializeOp::getStorer, "storer", label);
}

bool WarpSpecializeOp::isInStorer(Operation *op) {
  auto roles = op->getParentOfType<WarpSpecializeOp>();
  return roles && roles.getStorer().isAncestor(op->getParentRegion());
}

LogicalResult OpenTurnsOp::verify() { return verifyConsumer(*this, "TN1"); }
LogicalResult TakeTurnOp::verify() { return verifyConsumer(*this, "TN1"); }
LogicalResult PassTurnOp::verify() { return verifyConsumer(*this, "TN1"); }

//===----------------------------------------------------------------------===//
// Pipelines
//===----------------------------------------------------------------------===//

LogicalResult PipelineAllocOp::verify() { return verifyName(*this, getName(), "PA1"); }
void PipelineAllocOp::getAsmResultNames(OpAsmSetValueNameFn setName) { setName(getPipeline(), getName()); }

LogicalResult WorkQueueAllocOp::verify() { return verifyName(*this, getName(), "WQ1"); }
LogicalResult WorkDrawOp::verify() { return verifyProducer(*this, "WQ2"); }
LogicalResult WorkTakeOp::verify() {
  return success(WarpSpecializeOp::isInStorer(*this) || succeeded(verifyConsumerOrStorer(*this, "WQ2")));
}
void WorkQueueAllocOp::getAsmResultNames(OpAsmSetValueNameFn setName) { setName(getQueue(), getName()); }

LogicalResult PipelineAcquireOp::verify() {
  return success(succeeded(verifyName(*this, getName(), "PS1")) && succeeded(verifyProducer(*this, "PA2")));
}
void PipelineAcquireOp::getAsmResultNames(OpAsmSetValueNameFn setName) { setName(getTile(), getName()); }
/// Of what takes tiles out of a pipeline: consumers, and then the storer of one that is stored.
static LogicalResult verifyTaker(Operation *op, PipelineType pipeline) {
  if (!WarpSpecializeOp::isInStorer(op))
    return verifyConsumerOrStorer(op, "PA2");
  if (!pipeline.isStored())
    return op->emitOpError("expected a pipeline that is stored in the storer region, got ")
           << pipeline << " [PA3]";
  return success();
}

LogicalResult PipelineWaitOp::verify() {
  return success(succeeded(verifyName(*this, getName(), "PS1")) &&
                 succeeded(verifyTaker(*this, getPipeline().getType())));
}
void PipelineWaitOp::getAsmResultNames(OpAsmSetValueNameFn setName) { setName(getTile(), getName()); }
LogicalResult PipelineCommitOp::verify() { return verifyProducer(*this, "PA2"); }
LogicalResult PipelineReleaseOp::verify() { return verifyTaker(*this, getPipeline().getType()); }

/// Whether the boxes of a map are the panels of a tile.
static bool hasPanels(TensorMapType map, PanelsType tile) {
  ArrayRef<int64_t> box = map.getShape();
  return box[0] == tile.getShape()[0] && box[1] == PanelsType::kPanelColumns &&
         map.getElementType() == tile.getElementType();
}

LogicalResult CopyBulkOp::verify() {
  TensorMapType map = getMap().getType();
  PanelsType tile = getTile().getType();
  if (!hasPanels(map, tile) || getPipeline().getType().getTileType() != tile || getIndices().size() != 3)
    return emitOpError("expected boxes of the tile's rows, ")
           << PanelsType::kPanelColumns << " columns and its element type, a tile of the pipeline, and three "
           << "indices, got " << map << ", " << tile << " of " << getPipeline().getType() << " and "
           << getIndices().size() << " [CB1]";
  return verifyProducer(*this, "PA2");
}

LogicalResult LoadPanelsOp::verify() {
  FragmentType fragment = getFragment().getType();
  PanelsType tile = getTile().getType();
  if (fragment.getLayout() != Layout::operand_a || fragment.getShape() != tile.getShape() ||
      fragment.getElementType() != tile.getElementType() ||
      fragment.getShape()[0] != 16 * fragment.getWarps()[0])
    return emitOpError("expected an operand_a of the shape and the element type of the tile, with 16 rows a "
                       "warp, got ")
           << fragment << " and " << tile << " [LP1]";
  auto wait = getTile().getDefiningOp<PipelineWaitOp>();
  if (!wait || wait.getPipeline().getType().getUse() != TileUse::loaded)
    return emitOpError("expected a tile of a pipeline that is loaded [LP2]");
  return success();
}

LogicalResult StorePanelsOp::verify() {
  FragmentType fragment = getFragment().getType();
  PipelineType pipeline = getPipeline().getType();
  PanelsType tile = pipeline.getTileType();
  ArrayRef<int64_t> shape = fragment.getShape(), warps = fragment.getWarps();
  if (fragment.getLayout() != Layout::accumulator || shape[0] != tile.getShape()[0] || shape[1] % 16 != 0 ||
      llvm::divideCeilSigned(shape[1], PanelsType::kPanelColumns) > tile.getNumPanels() ||
      warps != ArrayRef<int64_t>{4 * pipeline.getConsumers(), 1} || !pipeline.isStored())
    return emitOpError(
               "expected an accumulator of the rows of the tiles of a pipeline that is stored, no more "
               "panels, a multiple of 16 columns, and one column of the consumers' warps, got ")
           << fragment << " and " << pipeline << " [SP1]";
  return verifyConsumer(*this, "SP2");
}

LogicalResult StoreBulkOp::verify() {
  if (!hasPanels(getMap().getType(), getTile().getType()) || getIndices().size() != 3)
    return emitOpError("expected boxes of the tile's rows, ")
           << PanelsType::kPanelColumns << " columns and its element type, and three indices, got "
           << getMap().getType() << ", " << getTile().getType() << " and " << getIndices().size() << " [SB1]";
  return verifyStorer(*this, "SB2");
}
