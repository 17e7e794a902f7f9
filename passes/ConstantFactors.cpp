//===- ConstantFactors.cpp - products with constants, made fewer -------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/ConstantFactors.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "passes/RegionUtils.h"
#include <cmath>

using namespace mlir;

/// Factors in between leave products that were finite, and above the smallest numbers, so.
static bool isModerate(double factor) { return std::abs(factor) >= 0x1p-20 && std::abs(factor) <= 0x1p20; }

static std::optional<double> getConstant(Value value) {
  FloatAttr constant;
  if (!matchPattern(value, m_Constant(&constant)) || !constant.getType().isF32() ||
      !isModerate(constant.getValueAsDouble()))
    return std::nullopt;
  return constant.getValueAsDouble();
}

static Value takeFactor(Value value, double &factor) {
  Value other = attn::takeConstantFactor(value, factor);
  return other && isModerate(factor) ? other : Value();
}

static Value createConstant(PatternRewriter &rewriter, Location loc, double number) {
  return arith::ConstantOp::create(rewriter, loc, rewriter.getF32FloatAttr(static_cast<float>(number)));
}

namespace {
/// x / c is x * (1 / c).
struct ReplaceDivisor : OpRewritePattern<arith::DivFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::DivFOp op, PatternRewriter &rewriter) const override {
    std::optional<double> divisor = getConstant(op.getRhs());
    if (!divisor)
      return failure();
    rewriter.replaceOpWithNewOp<arith::MulFOp>(
        op, op.getLhs(), createConstant(rewriter, op.getLoc(), 1 / *divisor), op.getFastmath());
    return success();
  }
};

/// (x * c) * d is x * (c * d), and (x * c) * y is (x * y) * c.
struct MergeFactors : OpRewritePattern<arith::MulFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::MulFOp op, PatternRewriter &rewriter) const override {
    double outer, inner;
    if (Value product = takeFactor(op, outer)) {
      Value factor = takeFactor(product, inner);
      if (!factor || !isModerate(outer * inner))
        return failure();
      rewriter.replaceOpWithNewOp<arith::MulFOp>(
          op, factor, createConstant(rewriter, op.getLoc(), outer * inner), op.getFastmath());
      return success();
    }
    for (auto [product, other] : {std::pair(op.getLhs(), op.getRhs()), std::pair(op.getRhs(), op.getLhs())})
      if (Value factor = takeFactor(product, inner); factor && product.hasOneUse()) {
        Value variable = arith::MulFOp::create(rewriter, op.getLoc(), factor, other, op.getFastmath());
        rewriter.replaceOpWithNewOp<arith::MulFOp>(op, variable, createConstant(rewriter, op.getLoc(), inner),
                                                   op.getFastmath());
        return success();
      }
    return failure();
  }
};

/// (x * c) * d + y is x * (c * d) + y.
struct MergeFmaFactors : OpRewritePattern<math::FmaOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(math::FmaOp op, PatternRewriter &rewriter) const override {
    double inner;
    Value factor = takeFactor(op.getA(), inner);
    std::optional<double> outer = getConstant(op.getB());
    if (!factor || !outer || !isModerate(*outer * inner))
      return failure();
    rewriter.replaceOpWithNewOp<math::FmaOp>(
        op, factor, createConstant(rewriter, op.getLoc(), *outer * inner), op.getC(), op.getFastmath());
    return success();
  }
};
} // namespace

void attn::mergeConstantFactors(Region &region) {
  RewritePatternSet patterns(region.getContext());
  patterns.add<ReplaceDivisor, MergeFactors, MergeFmaFactors>(region.getContext());
  SmallVector<Operation *> ops;
  for (Operation &op : region.front().without_terminator())
    ops.push_back(&op);
  // Also where it gives up: what is there then is as right.
  (void)applyOpPatternsGreedily(ops, std::move(patterns));
}
