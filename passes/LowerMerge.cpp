//===- LowerMerge.cpp - --attn-lower-merge -----------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/Passes.h"
#include "passes/ReferenceBuilder.h"

using namespace mlir;
using namespace attn;

namespace attn {
#define GEN_PASS_DEF_LOWERMERGEPASS
#include "passes/Passes.h.inc"
} // namespace attn

namespace {
struct LowerMergePass : attn::impl::LowerMergePassBase<LowerMergePass> {
  void runOnOperation() override {
    SmallVector<MergeOp> ops;
    getOperation()->walk([&](MergeOp op) { ops.push_back(op); });
    for (MergeOp op : ops) {
      if (failed(verifyLoweredType(op, op.getOut().getType().getElementType())))
        return signalPassFailure();
      decomposeMerge(op, ReferenceOptions());
    }
  }
};
} // namespace
