//===- VerifyEmittable.cpp - what the printer asks of kernels ---------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "codegen/CodegenPasses.h"
#include "codegen/CudaExpr.h"
#include "codegen/CudaPrinter.h"
#include "codegen/CudaTypes.h"
#include "codegen/FunctionPrinter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace attn;
using namespace attn::cuda;

namespace attn {
#define GEN_PASS_DEF_VERIFYEMITTABLEPASS
#include "codegen/CodegenPasses.h.inc"
} // namespace attn

static LogicalResult reject(Operation *op) { return op->emitOpError("has no CUDA C++ form"); }

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

static LogicalResult verifyType(Operation *op, Type type) {
  auto tile = dyn_cast<tile::SharedType>(type);
  if (tile && tile.is2D() && (tile.getShape()[0] % 8 != 0 || tile.getShape()[1] % 16 != 0))
    return op->emitOpError("expected shared tiles of a multiple of 8 rows and of 16 columns, got ") << type;
  if (getType(type).empty())
    return op->emitOpError("has a value of type ") << type << ", which has no CUDA C++ form";
  return success();
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

static LogicalResult verifyAtomic(memref::AtomicRMWOp op) {
  Type type = op.getValue().getType();
  bool isKnown = (op.getKind() == arith::AtomicRMWKind::addf && (type.isF32() || type.isF64())) ||
                 (op.getKind() == arith::AtomicRMWKind::addi && type.isSignlessInteger(32));
  if (!isKnown)
    return op.emitOpError("expected an addition of f32, f64 or i32");
  return success();
}

static LogicalResult verifyMma(tile::MmaOp op) {
  tile::FragmentType acc = op.getAcc().getType();
  int64_t columns = acc.getShape()[1] / acc.getWarps()[1];
  if (op.getAtom() == tile::Atom::mma_sync && columns % 16 != 0)
    return op.emitOpError("expected a multiple of 16 columns for each warp, got ") << columns;
  return success();
}

/// Votes of a whole block, which meets there.
static LogicalResult verifyVote(gpu::AllReduceOp op) {
  std::optional<gpu::AllReduceOperation> operation = op.getOp();
  bool isVote = operation == gpu::AllReduceOperation::AND || operation == gpu::AllReduceOperation::OR;
  if (isVote && op.getUniform() && op.getType().isInteger(1))
    return success();
  return op.emitOpError("expected a uniform 'and' or 'or' of i1");
}

static LogicalResult verifyOp(Operation *op) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case<scf::IfOp, scf::WhileOp, scf::ConditionOp, scf::YieldOp, gpu::BarrierOp, gpu::BlockIdOp,
            gpu::ThreadIdOp, gpu::GridDimOp, gpu::BlockDimOp, memref::DimOp, memref::LoadOp, memref::StoreOp,
            memref::CastOp, tile::SharedReuseOp, tile::FragmentAllocOp, tile::CopyAsyncOp, tile::CopyCommitOp,
            tile::CopyWaitOp, tile::FillOp, tile::FirstColumnOp, tile::YieldOp, tile::ConvertOp,
            tile::LoadRowsOp, tile::LoadColumnsOp, tile::StoreSharedOp, tile::StoreOp, tile::StoreRowsOp,
            tile::AtomicAddOp, tile::DivisorOp, tile::RowDotOp, tile::RingSlotOp, tile::LoadSharedOp,
            tile::LoadOp, tile::AccumulateOp, tile::FlushSumOp, tile::RowReduceOp, tile::RowCombineOp,
            tile::AddNonFiniteOp, tile::CopyFiniteOp, tile::WarpSpecializeOp, tile::OpenTurnsOp,
            tile::TakeTurnOp, tile::PassTurnOp, tile::PipelineAcquireOp, tile::PipelineWaitOp,
            tile::PipelineCommitOp, tile::PipelineReleaseOp, tile::WarpBarrierOp, tile::AwaitKernelsOp,
            tile::ReleaseKernelsOp, tile::LoadOperandOp, tile::MergeWarpsOp, tile::CopyBulkOp,
            tile::LoadPanelsOp, tile::StorePanelsOp, tile::StoreBulkOp, tile::WorkDrawOp, tile::WorkTakeOp,
            tile::MmaCommitOp, tile::MmaWaitOp, tile::MapOp, tile::AnyOp>(
          [](Operation *) { return success(); })
      .Case([](scf::ForOp loop) -> LogicalResult {
        if (loop.getUnsignedCmp())
          return loop.emitOpError("compares unsigned, which has no CUDA C++ form");
        return success();
      })
      .Case([](gpu::ReturnOp returnOp) -> LogicalResult { return success(); })
      .Case([](memref::AtomicRMWOp atomic) { return verifyAtomic(atomic); })
      .Case([](gpu::AllReduceOp vote) { return verifyVote(vote); })
      .Case([](tile::SharedAllocOp alloc) -> LogicalResult {
        if (!alloc.getOffset())
          return alloc.emitOpError("has no offset; run --attn-tile-place-shared");
        return success();
      })
      .Case([](tile::PipelineAllocOp alloc) -> LogicalResult {
        if (!alloc.getOffset() || !alloc.getBarrierOffset())
          return alloc.emitOpError("has no offset; run --attn-tile-place-shared");
        return success();
      })
      .Case([](tile::WorkQueueAllocOp alloc) -> LogicalResult {
        if (!alloc.getOffset())
          return alloc.emitOpError("has no offset; run --attn-tile-place-shared");
        return success();
      })
      .Case([](tile::MmaOp mma) { return verifyMma(mma); })
      .Default([](Operation *other) { return hasExpr(other) ? success() : reject(other); });
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

static bool isFree(StringRef name) {
  return !llvm::is_contained(getReservedNames(), name) &&
         llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || c == '_'; }) &&
         !llvm::isDigit(name.front());
}

static LogicalResult verifyFunction(gpu::GPUFuncOp function) {
  if (!isFree(function.getName()))
    return function.emitOpError("expected a name that is a C++ identifier and not taken, got '")
           << function.getName() << "'";
  if (!function.getBody().hasOneBlock())
    return function.emitOpError("has more than one block; control flow is scf");
  if (function.isKernel()) {
    auto kernel = function->getAttrOfType<tile::KernelAttr>(tile::AttnTileDialect::getKernelAttrName());
    if (!kernel)
      return function.emitOpError("expected the attribute '")
             << tile::AttnTileDialect::getKernelAttrName() << "' on a kernel";
    WalkResult warps = function.walk([&](tile::FragmentAllocOp alloc) {
      tile::FragmentType type = alloc.getType();
      // Those of the consumers, where warps have roles.
      bool hasRole = alloc->getParentOfType<tile::WarpSpecializeOp>();
      int64_t warps = kernel.getWarps() - (hasRole ? 4 : 0);
      int64_t own = type.getWarps()[0] * type.getWarps()[1];
      if (own == warps || (own == 1 && !hasRole)) // 1: each warp has its own
        return WalkResult::advance();
      alloc.emitOpError("expected the ")
          << warps << " warps of the " << (hasRole ? "consumers" : "kernel") << ", got " << type;
      return WalkResult::interrupt();
    });
    if (warps.wasInterrupted())
      return failure();
  } else if (function.getNumResults() != 1 || getScalarType(function.getResultTypes().front()).empty()) {
    return function.emitOpError("expected a function that is no kernel to return one scalar");
  }
  for (BlockArgument argument : function.getArguments()) {
    bool isMap = function.isKernel() && isa<tile::TensorMapType>(argument.getType());
    if (!isMap && failed(verifyType(function, argument.getType())))
      return failure();
  }

  bool isValid = true;
  function.getBody().walk<WalkOrder::PreOrder>([&](Operation *op) {
    LogicalResult result = verifyOp(op);
    auto verifyValues = [&](ValueRange values) {
      for (Value value : values)
        if (succeeded(result))
          result = verifyType(op, value.getType());
    };
    verifyValues(op->getResults());
    for (Region &region : op->getRegions())
      for (Block &block : region)
        verifyValues(block.getArguments());
    isValid &= succeeded(result);
  });
  return success(isValid);
}

LogicalResult cuda::verifyEmittable(gpu::GPUModuleOp module) {
  bool isValid = true;
  for (Operation &op : *module.getBody()) {
    auto function = dyn_cast<gpu::GPUFuncOp>(op);
    isValid &= succeeded(function ? verifyFunction(function) : reject(&op));
  }
  return success(isValid);
}

namespace {
struct VerifyEmittable : attn::impl::VerifyEmittablePassBase<VerifyEmittable> {
  void runOnOperation() override {
    for (auto module : getOperation().getOps<gpu::GPUModuleOp>())
      if (failed(cuda::verifyEmittable(module)))
        signalPassFailure();
  }
};
} // namespace
