//===- CompileCuda.cpp - from modules with attention to launch plans --------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "codegen/CompileCuda.h"
#include "codegen/CodegenPasses.h"
#include "codegen/LaunchPlanBuilder.h"
#include "dialect/AttnDialect.h"
#include "dialect/AttnTileDialect.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Pipelines.h"

using namespace mlir;
using namespace attn;

/// Whether some call takes a way to lower that is not for all: static sizes may exclude it, and there may be
/// no tile of few rows.
static bool isEverTaken(ModuleOp module, StringRef name) {
  bool isTaken = false;
  module.walk([&](tile::TakeIfOp op) {
    isTaken |= op.getName() == name && !matchPattern(op.getCondition(), m_Zero());
  });
  return isTaken;
}

FailureOr<SmallVector<OwningOpRef<ModuleOp>>> cuda::lowerToCuda(ModuleOp module,
                                                                const CudaPipelineOptions &options) {
  SmallVector<OwningOpRef<ModuleOp>> lowered;
  auto lower = [&](bool isLowered, bool aligned, bool splitKv, bool fewRows = false) -> LogicalResult {
    OwningOpRef<ModuleOp> copy = module.clone();
    PassManager pm(module.getContext());
    if (!isLowered) {
      CudaPipelineOptions own;
      own.copyOptionValuesFrom(options);
      own.aligned = aligned;
      own.splitKv = splitKv;
      own.fewRows = fewRows;
      // What calls of the other kinds take.
      if (options.aligned && own.family == "hopper" && (!aligned || splitKv))
        own.family = "auto";
      buildCudaPipeline(pm, own);
    }
    buildEmissionPipeline(pm);
    if (failed(pm.run(*copy)))
      return failure();
    if (!splitKv || isEverTaken(*copy, fewRows ? "few_rows" : "split_kv"))
      lowered.push_back(std::move(copy));
    return success();
  };
  if (!module.getOps<gpu::GPUModuleOp>().empty()) {
    if (failed(lower(/*isLowered=*/true, /*aligned=*/false, /*splitKv=*/false)))
      return failure();
    return lowered;
  }
  if (options.aligned && failed(lower(/*isLowered=*/false, /*aligned=*/true, /*splitKv=*/false)))
    return failure();
  if (failed(lower(/*isLowered=*/false, /*aligned=*/false, /*splitKv=*/false)))
    return failure();
  bool isForward = module.walk([](AttentionOp) { return WalkResult::interrupt(); }).wasInterrupted();
  if (isForward && options.aligned && options.kvSplits == 0 && !options.keyOuter)
    for (bool fewRows : {false, true})
      if (failed(lower(/*isLowered=*/false, /*aligned=*/true, /*splitKv=*/true, fewRows)))
        return failure();
  return lowered;
}

FailureOr<LaunchPlan> cuda::buildLaunchPlan(ArrayRef<OwningOpRef<ModuleOp>> modules, StringRef name) {
  SmallVector<func::FuncOp> variants;
  for (const OwningOpRef<ModuleOp> &owner : modules) {
    ModuleOp module = owner.get();
    func::FuncOp found;
    for (auto function : module.getOps<func::FuncOp>()) {
      if (name.empty() ? !function.isPublic() : function.getName() != name)
        continue;
      if (found)
        return function.emitOpError("is not the only public function of its module; name the one to compile");
      found = function;
    }
    if (!found) {
      InFlightDiagnostic diagnostic = module.emitError("expected a public function");
      if (!name.empty())
        diagnostic << " @" << name;
      return diagnostic;
    }
    variants.push_back(found);
  }
  return buildLaunchPlan(variants);
}
