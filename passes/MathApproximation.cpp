//===- MathApproximation.cpp - f32 functions as vectorisable arithmetic -----===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The exponential is a large part of the time of an attention, so it is written for few operations: no
// branch, and the special cases fall out of the range reduction. Polynomials are minimax fits of the relative
// error.
//
// max and min are compare and select with the operands in the order of x86's instructions, which then return
// a NaN that is their second operand: one instruction each, where arith.maximumf takes four.
//
//===----------------------------------------------------------------------===//

#include "passes/MathApproximation.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using arith::CmpFPredicate;

namespace {
/// Builds arithmetic on f32 values of one type, a scalar or a vector, and on i32 values of the same shape.
class FloatBuilder {
public:
  FloatBuilder(PatternRewriter &rewriter, Operation *op)
      : b(op->getLoc(), rewriter), floatType(op->getResult(0).getType()), intType(b.getI32Type()) {
    if (auto vectorType = dyn_cast<VectorType>(floatType))
      intType = vectorType.clone(b.getI32Type());
  }

  Value constant(float value) { return splat(b.getF32FloatAttr(value), floatType); }
  Value integer(int32_t value) { return splat(b.getI32IntegerAttr(value), intType); }
  Value infinity() { return constant(std::numeric_limits<float>::infinity()); }
  Value nan() { return constant(std::numeric_limits<float>::quiet_NaN()); }

  Value add(Value x, Value y) { return arith::AddFOp::create(b, x, y); }
  Value sub(Value x, Value y) { return arith::SubFOp::create(b, x, y); }
  Value mul(Value x, Value y) { return arith::MulFOp::create(b, x, y); }
  Value div(Value x, Value y) { return arith::DivFOp::create(b, x, y); }
  Value fma(Value x, Value y, Value z) { return math::FmaOp::create(b, x, y, z); }
  Value compare(CmpFPredicate predicate, Value x, Value y) {
    return arith::CmpFOp::create(b, predicate, x, y);
  }
  Value select(Value condition, Value x, Value y) { return arith::SelectOp::create(b, condition, x, y); }

  /// `x`, no less than `low` and no more than `high`; NaN if x is.
  Value clamp(Value x, float low, float high) {
    Value lower = constant(low), upper = constant(high);
    x = select(compare(CmpFPredicate::OGT, lower, x), lower, x);
    return select(compare(CmpFPredicate::OLT, upper, x), upper, x);
  }

  /// coefficients[0] + coefficients[1] x + …
  Value polynomial(Value x, ArrayRef<float> coefficients) {
    Value sum = constant(coefficients.back());
    for (float coefficient : llvm::reverse(coefficients.drop_back()))
      sum = fma(sum, x, constant(coefficient));
    return sum;
  }

  Value addInt(Value x, Value y) { return arith::AddIOp::create(b, x, y); }
  Value subInt(Value x, Value y) { return arith::SubIOp::create(b, x, y); }
  Value shiftLeft(Value x, int32_t bits) { return arith::ShLIOp::create(b, x, integer(bits)); }
  Value shiftRight(Value x, int32_t bits) { return arith::ShRSIOp::create(b, x, integer(bits)); }
  Value toFloat(Value x) { return arith::SIToFPOp::create(b, floatType, x); }
  Value bitsOf(Value x) { return arith::BitcastOp::create(b, intType, x); }
  Value floatOf(Value x) { return arith::BitcastOp::create(b, floatType, x); }

  ImplicitLocOpBuilder b;

private:
  Value splat(TypedAttr value, Type type) {
    if (auto vectorType = dyn_cast<VectorType>(type))
      return arith::ConstantOp::create(b, DenseElementsAttr::get(vectorType, cast<Attribute>(value)));
    return arith::ConstantOp::create(b, value);
  }

  Type floatType, intType;
};

//===----------------------------------------------------------------------===//
// exp, exp2
//===----------------------------------------------------------------------===//

/// Adding 1.5 * 2^23 rounds to an integer, which then is in the low bits of the sum.
constexpr float kRound = 12582912.0f;

/// value * 2^(n - 1), for n from -126 to 128 in the low bits of `rounded`; 0 for n = -126. A scale of 2^n
/// would be infinite for n = 128, where the largest finite results are, so the caller's value is twice what
/// it would be.
Value scaleByHalfPowerOf2(FloatBuilder &f, Value value, Value rounded) {
  Value bits = f.shiftLeft(f.bitsOf(rounded), 23);
  return f.mul(value, f.floatOf(f.addInt(bits, f.integer(126 << 23))));
}

Value buildExp(FloatBuilder &f, Value x) {
  // Below the bounds n is -126 and the result 0, above them it overflows to infinity.
  x = f.clamp(x, -87.5f, 89.0f);
  Value rounded = f.fma(x, f.constant(1.44269504f), f.constant(kRound));
  Value n = f.sub(rounded, f.constant(kRound));
  // ln 2 in two parts; n times the first is exact.
  Value r = f.fma(n, f.constant(-0.693145752f), x);
  r = f.fma(n, f.constant(-1.42860677e-6f), r);
  Value twice = f.polynomial(r, {2.0f, 2.0f, 2 * 0.49999994f, 2 * 0.1666652f, 2 * 0.041668404f,
                                 2 * 0.008368899f, 2 * 0.0013814222f});
  return scaleByHalfPowerOf2(f, twice, rounded);
}

Value buildExp2(FloatBuilder &f, Value x) {
  x = f.clamp(x, -126.0f, 128.0f);
  Value rounded = f.add(x, f.constant(kRound));
  Value r = f.sub(x, f.sub(rounded, f.constant(kRound)));
  Value twice = f.polynomial(r, {2.0f, 2 * 0.6931472f, 2 * 0.24022648f, 2 * 0.05550332f, 2 * 0.00961844f,
                                 2 * 0.0013399132f, 2 * 0.00015353154f});
  return scaleByHalfPowerOf2(f, twice, rounded);
}

//===----------------------------------------------------------------------===//
// log, log2
//===----------------------------------------------------------------------===//

/// A positive x as 2^exponent * (1 + fraction), with fraction from sqrt(1/2) - 1 to sqrt(2) - 1; also log(1 +
/// fraction) - fraction.
struct LogParts {
  Value exponent, fraction, rest;
};

LogParts buildLogParts(FloatBuilder &f, Value x) {
  // Subnormals are scaled into the normal range first.
  Value isSubnormal = f.compare(CmpFPredicate::OLT, x, f.constant(0x1p-126f));
  Value scaled = f.select(isSubnormal, f.mul(x, f.constant(0x1p23f)), x);
  Value bias = f.select(isSubnormal, f.constant(-23.0f), f.constant(0.0f));
  constexpr int32_t kRootOfHalf = 0x3f3504f3; // bits of sqrt(1/2)
  Value bits = f.bitsOf(scaled);
  Value exponent = f.shiftRight(f.subInt(bits, f.integer(kRootOfHalf)), 23);
  Value mantissa = f.floatOf(f.subInt(bits, f.shiftLeft(exponent, 23)));

  LogParts parts;
  parts.exponent = f.add(f.toFloat(exponent), bias);
  parts.fraction = f.sub(mantissa, f.constant(1.0f));
  Value square = f.mul(parts.fraction, parts.fraction);
  Value tail = f.polynomial(parts.fraction, {0.3333333f, -0.25000837f, 0.20001292f, -0.16622765f, 0.14199695f,
                                             -0.13164185f, 0.12779115f, -0.07646106f});
  parts.rest = f.fma(f.mul(square, parts.fraction), tail, f.mul(square, f.constant(-0.5f)));
  return parts;
}

/// `result`, or what the logarithm of a special x is.
Value selectLogSpecials(FloatBuilder &f, Value x, Value result) {
  Value zero = f.constant(0.0f), infinity = f.infinity();
  result = f.select(f.compare(CmpFPredicate::OEQ, x, infinity), infinity, result);
  result = f.select(f.compare(CmpFPredicate::OEQ, x, zero), f.sub(zero, infinity), result);
  return f.select(f.compare(CmpFPredicate::ULT, x, zero), f.nan(), result);
}

Value buildLog(FloatBuilder &f, Value x) {
  LogParts parts = buildLogParts(f, x);
  Value rest = f.fma(parts.exponent, f.constant(1.42860677e-6f), parts.rest);
  Value log = f.fma(parts.exponent, f.constant(0.693145752f), f.add(rest, parts.fraction));
  return selectLogSpecials(f, x, log);
}

Value buildLog2(FloatBuilder &f, Value x) {
  LogParts parts = buildLogParts(f, x);
  // 1 / ln 2 is 1 + 0.4427: the product with its first part needs no rounding.
  Value small = f.fma(f.add(parts.fraction, parts.rest), f.constant(0.442695041f), parts.rest);
  Value log = f.add(f.add(small, parts.fraction), parts.exponent);
  return selectLogSpecials(f, x, log);
}

//===----------------------------------------------------------------------===//
// tanh
//===----------------------------------------------------------------------===//

Value buildTanh(FloatBuilder &f, Value x) {
  Value magnitude = math::AbsFOp::create(f.b, x);
  // Near 0 the difference below would cancel.
  Value square = f.mul(x, x);
  Value odd = f.polynomial(square, {-0.3333328f, 0.13331442f, -0.053739715f, 0.020639088f, -0.0057049873f});
  Value small = f.fma(f.mul(square, magnitude), odd, magnitude);
  Value power = buildExp(f, f.add(magnitude, magnitude));
  Value large = f.sub(f.constant(1.0f), f.div(f.constant(2.0f), f.add(power, f.constant(1.0f))));
  Value isSmall = f.compare(CmpFPredicate::OLT, magnitude, f.constant(0.625f));
  return math::CopySignOp::create(f.b, f.select(isSmall, small, large), x);
}

template <typename OpTy, Value (*build)(FloatBuilder &, Value)>
struct Approximate : OpRewritePattern<OpTy> {
  using OpRewritePattern<OpTy>::OpRewritePattern;
  LogicalResult matchAndRewrite(OpTy op, PatternRewriter &rewriter) const override {
    if (!getElementTypeOrSelf(op.getType()).isF32())
      return rewriter.notifyMatchFailure(op, "not of f32");
    FloatBuilder f(rewriter, op);
    rewriter.replaceOp(op, build(f, op.getOperand()));
    return success();
  }
};
} // namespace

void attn::populateMathApproximationPatterns(RewritePatternSet &patterns) {
  patterns.add<Approximate<math::ExpOp, buildExp>, Approximate<math::Exp2Op, buildExp2>,
               Approximate<math::LogOp, buildLog>, Approximate<math::Log2Op, buildLog2>,
               Approximate<math::TanhOp, buildTanh>>(patterns.getContext());
}
