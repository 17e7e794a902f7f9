//===- Pipelines.cpp - the pass pipelines ------------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Pipelines.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Passes.h"

using namespace mlir;
using namespace attn;

void attn::buildAttentionPipeline(OpPassManager &pm, const CpuPipelineOptions &options) {}

void attn::buildBufferToLLVMPipeline(OpPassManager &pm, const CpuPipelineOptions &options) {
  pm.addPass(createOutlineParallelLoopsPass());
}

void attn::buildCpuPipeline(OpPassManager &pm, const CpuPipelineOptions &options) {
  buildAttentionPipeline(pm, options);
  buildBufferToLLVMPipeline(pm, options);
}

void attn::registerAttnPipelines() {
  PassPipelineRegistration<CpuPipelineOptions>("attn-to-cpu-pipeline",
                                               "Lower attention to the LLVM dialect for the CPU", buildCpuPipeline);
}
