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
#include "mlir/IR/TypeUtilities.h"
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
             math::IsFiniteOp, math::RoundEvenOp, math::RoundOp, math::RsqrtOp, math::SqrtOp, math::TruncOp>(
      op);
}

/// What neither LLVM nor libm has: left, for `--attn-verify-llvm` to report.
static bool hasNoForm(Operation *op) { return isa<math::IPowIOp>(op); }

//===----------------------------------------------------------------------===//
// What upstream does not lower
//===----------------------------------------------------------------------===//

static LogicalResult expandSincos(math::SincosOp op, PatternRewriter &rewriter) {
  Value sin = math::SinOp::create(rewriter, op.getLoc(), op.getOperand(), op.getFastmath());
  Value cos = math::CosOp::create(rewriter, op.getLoc(), op.getOperand(), op.getFastmath());
  rewriter.replaceOp(op, {sin, cos});
  return success();
}

/// A floating constant of the type, or of a vector of it.
static Value createConstant(PatternRewriter &rewriter, Location loc, Type type, const APFloat &value) {
  TypedAttr number = FloatAttr::get(getElementTypeOrSelf(type), value);
  if (auto vector = dyn_cast<VectorType>(type))
    number = DenseElementsAttr::get(vector, value);
  return arith::ConstantOp::create(rewriter, loc, number);
}

static const llvm::fltSemantics &getSemantics(Type type) {
  return cast<FloatType>(getElementTypeOrSelf(type)).getFloatSemantics();
}

static LogicalResult expandIsInf(math::IsInfOp op, PatternRewriter &rewriter) {
  Type type = op.getOperand().getType();
  Value magnitude = math::AbsFOp::create(rewriter, op.getLoc(), op.getOperand());
  Value infinity = createConstant(rewriter, op.getLoc(), type, APFloat::getInf(getSemantics(type)));
  rewriter.replaceOpWithNewOp<arith::CmpFOp>(op, arith::CmpFPredicate::OEQ, magnitude, infinity);
  return success();
}

static LogicalResult expandIsNormal(math::IsNormalOp op, PatternRewriter &rewriter) {
  Type type = op.getOperand().getType();
  Location loc = op.getLoc();
  Value magnitude = math::AbsFOp::create(rewriter, loc, op.getOperand());
  auto compare = [&](arith::CmpFPredicate predicate, const APFloat &bound) -> Value {
    return arith::CmpFOp::create(rewriter, loc, predicate, magnitude,
                                 createConstant(rewriter, loc, type, bound));
  };
  Value isLarge = compare(arith::CmpFPredicate::OGE, APFloat::getSmallestNormalized(getSemantics(type)));
  Value isFinite = compare(arith::CmpFPredicate::OLT, APFloat::getInf(getSemantics(type)));
  rewriter.replaceOpWithNewOp<arith::AndIOp>(op, isLarge, isFinite);
  return success();
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
    patterns.add(expandSincos).add(expandIsInf).add(expandIsNormal);
    math::populateExpansionPatterns(patterns, {"clampf", "fpowi"});
    arith::populateCeilFloorDivExpandOpsPatterns(patterns);
    arith::populateExpandBFloat16Patterns(patterns);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      return signalPassFailure();

    ConversionTarget target(getContext());
    target.addLegalDialect<arith::ArithDialect, func::FuncDialect, vector::VectorDialect>();
    target.addDynamicallyLegalDialect<math::MathDialect>(
        [](Operation *op) { return isForLLVM(op) || hasNoForm(op); });
    RewritePatternSet libm(&getContext());
    populateMathToLibmConversionPatterns(libm);
    if (failed(applyPartialConversion(getOperation(), target, std::move(libm))))
      return signalPassFailure();
  }
};
} // namespace
