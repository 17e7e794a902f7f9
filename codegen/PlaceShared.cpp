//===- PlaceShared.cpp - places of tiles in shared memory -------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "codegen/CodegenPasses.h"
#include "codegen/FunctionPrinter.h"
#include "dialect/AttnDialect.h"
#include "dialect/AttnTileDialect.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace attn;
using namespace attn::tile;

namespace attn {
#define GEN_PASS_DEF_PLACESHAREDPASS
#include "codegen/CodegenPasses.h.inc"
} // namespace attn

/// What the permutation of chunks in a tile, and bulk copies, need; and the swizzle of panels.
static constexpr int64_t kAlignment = 128, kPanelAlignment = 1024;

int64_t cuda::getSharedAlignment(gpu::GPUFuncOp kernel) {
  bool hasPanels = kernel.walk([](PipelineAllocOp) { return WalkResult::interrupt(); }).wasInterrupted();
  return hasPanels ? kPanelAlignment : kAlignment;
}

/// Places the tiles, panels first; returns the bytes of all.
static int64_t placeTiles(gpu::GPUFuncOp kernel) {
  int64_t end = 0;
  auto place = [&](int64_t bytes, int64_t alignment) {
    int64_t offset = llvm::alignTo(end, alignment);
    end = offset + bytes;
    return offset;
  };
  kernel.walk(
      [&](PipelineAllocOp alloc) { alloc.setOffset(place(alloc.getType().getBytes(), kPanelAlignment)); });
  kernel.walk(
      [&](SharedAllocOp alloc) { alloc.setOffset(place(alloc.getTile().getType().getBytes(), kAlignment)); });
  kernel.walk(
      [&](PipelineAllocOp alloc) { alloc.setBarrierOffset(place(alloc.getType().getBarrierBytes(), 8)); });
  kernel.walk([&](WorkQueueAllocOp alloc) { alloc.setOffset(place(WorkQueueType::kBytes, 8)); });
  return end;
}

static LogicalResult checkLimit(gpu::GPUFuncOp kernel, int64_t bytes, TargetAttr target) {
  if (!target || bytes <= target.getMaxSharedMemory())
    return success();
  InFlightDiagnostic diagnostic = kernel.emitOpError("needs ")
                                  << bytes << " bytes of shared memory, more than the "
                                  << target.getMaxSharedMemory() << " of a block on "
                                  << stringifyArch(target.getArch())
                                  << "; choose smaller blocks or fewer stages";
  kernel.walk([&](SharedAllocOp alloc) {
    diagnostic.attachNote(alloc.getLoc())
        << '"' << alloc.getName() << "\" takes " << alloc.getTile().getType().getBytes() << " bytes";
  });
  kernel.walk([&](PipelineAllocOp alloc) {
    diagnostic.attachNote(alloc.getLoc())
        << '"' << alloc.getName() << "\" takes " << alloc.getType().getBytes() << " bytes";
  });
  return failure();
}

namespace {
struct PlaceShared : attn::impl::PlaceSharedPassBase<PlaceShared> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto target = module->getAttrOfType<TargetAttr>(AttnDialect::getTargetAttrName());
    WalkResult result = module.walk([&](gpu::GPUFuncOp function) {
      auto kernel = function->getAttrOfType<KernelAttr>(AttnTileDialect::getKernelAttrName());
      int64_t bytes = placeTiles(function);
      if (!kernel) {
        if (bytes == 0)
          return WalkResult::advance();
        function.emitOpError("has shared tiles, but no '")
            << AttnTileDialect::getKernelAttrName() << "' attribute";
        return WalkResult::interrupt();
      }
      if (failed(checkLimit(function, bytes, target)))
        return WalkResult::interrupt();
      function->setAttr(AttnTileDialect::getKernelAttrName(),
                        KernelAttr::get(&getContext(), kernel.getWarps(), kernel.getBlocksPerMultiprocessor(),
                                        bytes, kernel.getOptimization()));
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }
};
} // namespace
