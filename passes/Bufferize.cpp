//===- Bufferize.cpp - tensors to buffers -------------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Bufferization/Transforms/OneShotAnalysis.h"
#include "mlir/Dialect/Bufferization/Transforms/OneShotModuleBufferize.h"
#include "mlir/Dialect/Bufferization/Transforms/Transforms.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "passes/BufferTypes.h"
#include "passes/Passes.h"

using namespace mlir;
using namespace mlir::bufferization;

namespace attn {
#define GEN_PASS_DEF_BUFFERIZEPASS
#include "passes/Passes.h.inc"
} // namespace attn

namespace {
struct Bufferize : attn::impl::BufferizePassBase<Bufferize> {
  void runOnOperation() override {
    OneShotBufferizationOptions options;
    options.bufferizeFunctionBoundaries = true;
    options.allowReturnAllocsFromLoops = true;
    options.inferFunctionResultLayout = false;
    options.functionArgTypeConverterFn = [](TensorLikeType type, Attribute, func::FuncOp,
                                            const BufferizationOptions &) {
      auto ranked = dyn_cast<RankedTensorType>(type);
      return cast<BufferLikeType>(ranked ? BaseMemRefType(attn::getBoundaryBufferType(ranked))
                                         : getMemRefTypeWithFullyDynamicLayout(cast<TensorType>(type)));
    };
    BufferizationState state;
    if (failed(runOneShotModuleBufferize(getOperation(), options, state)))
      signalPassFailure();
  }
};
} // namespace
