//===- LowerOnlineToTile.cpp - --attn-lower-online-to-tile -------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/Passes.h"
#include "passes/TileKernel.h"

using namespace mlir;
using namespace attn;

namespace attn {
#define GEN_PASS_DEF_LOWERONLINETOTILEPASS
#include "passes/Passes.h.inc"
} // namespace attn

namespace {
struct LowerOnlineToTilePass : attn::impl::LowerOnlineToTilePassBase<LowerOnlineToTilePass> {
  using LowerOnlineToTilePassBase::LowerOnlineToTilePassBase;

  LogicalResult lower(OnlineAttentionOp op) {
    if (op.getElementType().isF64())
      return op.emitOpError("f64 tensors are for the CPU; convert them to f32 for a GPU");
    if (failed(verifyLoweredType(op, op.getElementType())) || failed(verifyInlinable(op)))
      return failure();
    TileLoweringOptions options;
    options.aligned = aligned;
    switch (op.getKind()) {
    case KernelKind::forward:
      lowerForwardToTile(op, options);
      return success();
    case KernelKind::fused:
      lowerFusedToTile(op, options);
      return success();
    case KernelKind::dq:
    case KernelKind::dkdv:
      return op.emitOpError("expected the kind forward or fused for a GPU, got ")
             << stringifyKernelKind(op.getKind());
    }
    llvm_unreachable("unhandled kind");
  }

  void runOnOperation() override {
    SmallVector<OnlineAttentionOp> ops;
    getOperation()->walk([&](OnlineAttentionOp op) { ops.push_back(op); });
    for (OnlineAttentionOp op : ops)
      if (failed(lower(op)))
        return signalPassFailure();
    SmallVector<DeltaOp> deltas;
    getOperation()->walk([&](DeltaOp op) { deltas.push_back(op); });
    TileLoweringOptions options;
    options.aligned = aligned;
    for (DeltaOp op : deltas)
      lowerDeltaToTile(op, options);
  }
};
} // namespace
