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
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "passes/DenseBias.h"
#include "passes/Pipelines.h"
#include "passes/Targets.h"

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
  enum class Kind { given, tiledBias, aligned, any, shortLengths, splitKv, manyRows, fewRows };
  auto lower = [&](Kind kind) -> LogicalResult {
    OwningOpRef<ModuleOp> copy = module.clone();
    PassManager pm(module.getContext());
    StringRef name = kind == Kind::tiledBias      ? "tiled_bias"
                     : kind == Kind::shortLengths ? "short_lengths"
                     : kind == Kind::splitKv      ? "split_kv"
                     : kind == Kind::manyRows     ? "many_rows"
                     : kind == Kind::fewRows      ? "few_rows"
                                                  : "";
    if (kind != Kind::given) {
      CudaPipelineOptions own;
      own.copyOptionValuesFrom(options);
      own.aligned = kind != Kind::any;
      own.shortLengths = kind == Kind::shortLengths;
      own.splitKv = kind == Kind::splitKv || kind == Kind::manyRows || kind == Kind::fewRows;
      own.manyRows = kind == Kind::manyRows;
      own.fewRows = kind == Kind::fewRows;
      if (kind == Kind::aligned)
        own.biasStages = 0;
      // What calls of the other kinds take.
      if (options.aligned && (!own.aligned || own.splitKv)) {
        own.tile.clear();
        if (own.family == "hopper")
          own.family = "auto";
      }
      buildCudaPipeline(pm, own);
    }
    // Twice, and not after each pass, where it takes a third of the time. attn-opt verifies after each.
    PassManager emission(module.getContext());
    buildEmissionPipeline(emission);
    for (PassManager *passes : {&pm, &emission}) {
      passes->enableVerifier(false);
      if (failed(passes->run(*copy)) || failed(verify(*copy)))
        return failure();
    }
    if (name.empty() || isEverTaken(*copy, name))
      lowered.push_back(std::move(copy));
    return success();
  };
  if (!module.getOps<gpu::GPUModuleOp>().empty()) {
    if (failed(lower(Kind::given)))
      return failure();
    return lowered;
  }
  TargetAttr target = getTarget(module);
  bool mayBeHopper = target && target.getArch() == Arch::sm_90a && options.family != "portable";
  bool hasBias = module
                     .walk([](AttentionOp op) {
                       return findDenseBias(op) ? WalkResult::interrupt() : WalkResult::advance();
                     })
                     .wasInterrupted();
  if (options.aligned && mayBeHopper && hasBias && options.biasStages != 0 && failed(lower(Kind::tiledBias)))
    return failure();
  if (options.aligned && failed(lower(Kind::aligned)))
    return failure();
  if (failed(lower(Kind::any)))
    return failure();
  bool isForward = module.walk([](AttentionOp) { return WalkResult::interrupt(); }).wasInterrupted();
  if (!isForward || !options.aligned || options.keyOuter)
    return lowered;
  for (Kind kind : {Kind::shortLengths, Kind::splitKv, Kind::manyRows, Kind::fewRows}) {
    bool isOfHopper = kind == Kind::shortLengths || kind == Kind::manyRows;
    bool splits = kind != Kind::shortLengths;
    if ((!isOfHopper || mayBeHopper) && (!splits || options.kvSplits == 0) && failed(lower(kind)))
      return failure();
  }
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
