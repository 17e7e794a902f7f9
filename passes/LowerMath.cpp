//===- LowerMath.cpp - mathematical functions and small floats for the CPU ----===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Conversion/MathToLibm/MathToLibm.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Transforms/DialectConversion.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "passes/MathApproximation.h"
#include "passes/Passes.h"

using namespace mlir;

namespace attn {
#define GEN_PASS_DEF_LOWERMATHPASS
#include "passes/Passes.h.inc"
} // namespace attn

/// What LLVM has as an instruction, or as an intrinsic that it expands to arithmetic.
static bool isForLLVM(Operation *op) {
  return isa<math::AbsFOp, math::AbsIOp, math::CeilOp, math::CopySignOp, math::CountLeadingZerosOp,
             math::CountTrailingZerosOp, math::CtPopOp, math::FloorOp, math::FmaOp, math::IsNaNOp,
             math::IsInfOp, math::IsFiniteOp, math::IsNormalOp, math::RoundEvenOp, math::RoundOp,
             math::RsqrtOp, math::SqrtOp, math::TruncOp>(op);
}

namespace {
struct LowerMath : attn::impl::LowerMathPassBase<LowerMath> {
  void runOnOperation() override {
    // Upstream's widening of small floats lets its conversions be contracted, which would drop the rounding
    // between two operations.
    getOperation().walk([](Operation *op) {
      if (isa<arith::ExtFOp, arith::TruncFOp>(op))
        op->removeAttr(cast<arith::ArithFastMathInterface>(op).getFastMathAttrName());
    });

    RewritePatternSet patterns(&getContext());
    attn::populateMathApproximationPatterns(patterns);
    math::populateExpansionPatterns(patterns, {"clampf", "fpowi"});
    arith::populateCeilFloorDivExpandOpsPatterns(patterns);
    arith::populateExpandBFloat16Patterns(patterns);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      return signalPassFailure();

    ConversionTarget target(getContext());
    target.addLegalDialect<arith::ArithDialect, func::FuncDialect, vector::VectorDialect>();
    target.addDynamicallyLegalDialect<math::MathDialect>(isForLLVM);
    RewritePatternSet libm(&getContext());
    populateMathToLibmConversionPatterns(libm);
    if (failed(applyPartialConversion(getOperation(), target, std::move(libm))))
      return signalPassFailure();
  }
};
} // namespace
