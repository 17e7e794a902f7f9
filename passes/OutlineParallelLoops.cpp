//===- OutlineParallelLoops.cpp - parallel loops to calls of the runtime ------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/Passes.h"

using namespace mlir;

namespace attn {
#define GEN_PASS_DEF_OUTLINEPARALLELLOOPSPASS
#include "passes/Passes.h.inc"
} // namespace attn

namespace {
struct OutlineParallelLoops : attn::impl::OutlineParallelLoopsPassBase<OutlineParallelLoops> {
  void runOnOperation() override {}
};
} // namespace
