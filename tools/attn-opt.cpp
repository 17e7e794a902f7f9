//===- attn-opt.cpp - runs passes over attention modules ---------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "codegen/CodegenPasses.h"
#include "mlir/Dialect/Func/Extensions/InlinerExtension.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Passes.h"
#include "passes/Pipelines.h"
#include "tools/Dialects.h"

using namespace mlir;

int main(int argc, char **argv) {
  DialectRegistry registry;
  attn::registerDialects(registry);
  func::registerInlinerExtension(registry);
  attn::registerPipelineInterfaces(registry);
  registerTransformsPasses();
  attn::registerAttnPasses();
  attn::registerAttnCodegenPasses();
  attn::registerAttnPipelines();
  return asMainReturnCode(MlirOptMain(argc, argv, "attn optimizer driver\n", registry));
}
