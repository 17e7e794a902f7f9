//===- DerivativeRules.cpp - the derivative of each operation ---------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One line or two an operation: d is the gradient of its result y, x(n) its operands. The conventions at
// kinks and poles are in ScoreGradient.h.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Math/IR/Math.h"
#include "passes/Cotangents.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace attn;

using Predicate = arith::CmpFPredicate;

static constexpr double kLn2 = 0.693147180559945309417;
static constexpr double kLn10 = 2.302585092994045684018;
static constexpr double kTwoOverSqrtPi = 1.128379167095512573896;

bool attn::isPiecewiseConstant(Operation *op) {
  return isa<arith::CmpFOp, arith::FPToSIOp, arith::FPToUIOp, math::FloorOp, math::CeilOp, math::RoundOp,
             math::RoundEvenOp, math::TruncOp, math::IsFiniteOp, math::IsInfOp, math::IsNaNOp,
             math::IsNormalOp>(op);
}

/// 1 - x²
static Value oneMinusSquare(DerivativeBuilder &b, Value x) { return b.sub(b.constant(1.0), b.mul(x, x)); }
/// 1 + x²
static Value onePlusSquare(DerivativeBuilder &b, Value x) { return b.add(b.constant(1.0), b.mul(x, x)); }

/// Minimum and maximum: `first` is where the first operand alone is chosen.
static void applyChoice(DerivativeBuilder &b, Value first) {
  b.give(0, b.d(), {first, true});
  b.give(1, b.d(), {first, false});
}

/// minnumf and maxnumf, which ignore a NaN: the second operand is chosen where it is the result.
static void applyNumberChoice(DerivativeBuilder &b) {
  Value second = b.compare(Predicate::OEQ, b.y(), b.x(1));
  b.give(0, b.d(), {second, false});
  b.give(1, b.d(), {second, true});
}

static void applyPow(math::PowFOp op, DerivativeBuilder &b) {
  Value x = b.x(0), exponent = b.x(1), zero = b.constant(0.0), one = b.constant(1.0);
  if (b.isActive(0)) {
    Value power = b.math<math::PowFOp>({x, b.sub(exponent, one)});
    Value slope = b.mul(exponent, power);
    Value isPole = arith::AndIOp::create(b.getBuilder(), op.getLoc(), b.compare(Predicate::OEQ, x, zero),
                                         b.compare(Predicate::OLT, exponent, one));
    b.give(0, b.select(isPole, zero, b.mul(b.d(), slope)));
  }
  if (b.isActive(1)) {
    Value slope = b.mul(b.y(), b.math<math::LogOp>(x));
    b.give(1, b.select(b.compare(Predicate::OGT, x, zero), b.mul(b.d(), slope), zero));
  }
}

static void applyPowI(math::FPowIOp op, DerivativeBuilder &b) {
  OpBuilder &builder = b.getBuilder();
  Location loc = op.getLoc();
  Value power = op.getRhs(),
        one = arith::ConstantOp::create(builder, loc, builder.getIntegerAttr(power.getType(), 1));
  Value less = arith::SubIOp::create(builder, loc, power, one);
  Value factor = arith::SIToFPOp::create(builder, loc, b.d().getType(), power);
  Value slope = b.mul(factor, b.math<math::FPowIOp>({b.x(0), less}));
  // 0 * 0^-1 is NaN, but x^0 is constant.
  Value isConstant = b.compare(Predicate::OEQ, factor, b.constant(0.0));
  b.give(0, b.select(isConstant, b.constant(0.0), b.mul(b.d(), slope)));
}

/// maximumf(minimumf(value, min), max), as the operation is defined: with the two in that order.
static void applyClamp(DerivativeBuilder &b) {
  Value isBelow = b.compare(Predicate::OLT, b.x(0), b.x(1));
  Value lower = b.select(isBelow, b.x(0), b.x(1));
  Guard inner = {b.compare(Predicate::OGT, lower, b.x(2)), true};
  b.give(0, b.select(isBelow, b.d(), b.constant(0.0)), inner);
  b.give(1, b.select(isBelow, b.constant(0.0), b.d()), inner);
  b.give(2, b.d(), {inner.condition, false});
}

static void applyAtan2(DerivativeBuilder &b) {
  Value square = b.add(b.mul(b.x(0), b.x(0)), b.mul(b.x(1), b.x(1)));
  Value slope = b.divOrZero(b.d(), square);
  b.give(0, b.mul(slope, b.x(1)));
  b.give(1, b.neg(b.mul(slope, b.x(0))));
}

/// arith, but for casts from integers, which have no floating operand.
static bool applyArith(Operation *op, DerivativeBuilder &b) {
  bool known = true;
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](arith::AddFOp) { b.give(0, b.d()), b.give(1, b.d()); })
      .Case([&](arith::SubFOp) { b.give(0, b.d()), b.give(1, b.neg(b.d())); })
      .Case([&](arith::MulFOp) { b.give(0, b.mul(b.d(), b.x(1))), b.give(1, b.mul(b.d(), b.x(0))); })
      .Case([&](arith::DivFOp) {
        Value quotient = b.div(b.d(), b.x(1));
        b.give(0, quotient), b.give(1, b.neg(b.mul(quotient, b.y())));
      })
      .Case([&](arith::RemFOp) {
        Value multiple = b.math<math::TruncOp>(b.div(b.x(0), b.x(1)));
        b.give(0, b.d()), b.give(1, b.neg(b.mul(b.d(), multiple)));
      })
      .Case([&](arith::NegFOp) { b.give(0, b.neg(b.d())); })
      .Case([&](arith::MaximumFOp) { applyChoice(b, b.compare(Predicate::OGT, b.x(0), b.x(1))); })
      .Case([&](arith::MinimumFOp) { applyChoice(b, b.compare(Predicate::OLT, b.x(0), b.x(1))); })
      .Case<arith::MaxNumFOp, arith::MinNumFOp>([&](auto) { applyNumberChoice(b); })
      .Case<arith::ExtFOp, arith::TruncFOp>([&](auto) { b.give(0, b.d()); })
      .Case([&](arith::SelectOp select) {
        b.give(1, b.d(), {select.getCondition(), true});
        b.give(2, b.d(), {select.getCondition(), false});
      })
      .Default([&](Operation *) { known = false; });
  return known;
}

static bool applyMath(Operation *op, DerivativeBuilder &b) {
  bool known = true;
  Value one = b.constant(1.0), two = b.constant(2.0), three = b.constant(3.0);
  llvm::TypeSwitch<Operation *>(op)
      // Exponentials and logarithms.
      .Case([&](math::ExpOp) { b.give(0, b.mul(b.d(), b.y())); })
      .Case([&](math::Exp2Op) { b.give(0, b.mul(b.mul(b.d(), b.y()), b.constant(kLn2))); })
      // Not y + 1, which has no correct digit where y is near -1.
      .Case([&](math::ExpM1Op) { b.give(0, b.mul(b.d(), b.math<math::ExpOp>(b.x(0)))); })
      .Case([&](math::LogOp) { b.give(0, b.div(b.d(), b.x(0))); })
      .Case([&](math::Log2Op) { b.give(0, b.div(b.d(), b.mul(b.x(0), b.constant(kLn2)))); })
      .Case([&](math::Log10Op) { b.give(0, b.div(b.d(), b.mul(b.x(0), b.constant(kLn10)))); })
      .Case([&](math::Log1pOp) { b.give(0, b.div(b.d(), b.add(b.x(0), one))); })
      // Powers and roots.
      .Case([&](math::PowFOp pow) { applyPow(pow, b); })
      .Case([&](math::FPowIOp pow) { applyPowI(pow, b); })
      .Case([&](math::SqrtOp) { b.give(0, b.divOrZero(b.d(), b.mul(b.y(), two))); })
      .Case([&](math::RsqrtOp) { b.give(0, b.div(b.mul(b.mul(b.d(), b.y()), b.constant(-0.5)), b.x(0))); })
      .Case([&](math::CbrtOp) { b.give(0, b.divOrZero(b.d(), b.mul(b.mul(b.y(), b.y()), three))); })
      // Circular functions.
      .Case([&](math::SinOp) { b.give(0, b.mul(b.d(), b.math<math::CosOp>(b.x(0)))); })
      .Case([&](math::CosOp) { b.give(0, b.neg(b.mul(b.d(), b.math<math::SinOp>(b.x(0))))); })
      .Case([&](math::SincosOp sincos) {
        bool isSine = b.resultNumber() == 0;
        Value slope = b.mul(b.d(), b.widen(sincos.getResult(isSine ? 1 : 0)));
        b.give(0, isSine ? slope : b.neg(slope));
      })
      .Case([&](math::TanOp) { b.give(0, b.mul(b.d(), onePlusSquare(b, b.y()))); })
      .Case([&](math::AsinOp) {
        b.give(0, b.divOrZero(b.d(), b.math<math::SqrtOp>(oneMinusSquare(b, b.x(0)))));
      })
      .Case([&](math::AcosOp) {
        b.give(0, b.neg(b.divOrZero(b.d(), b.math<math::SqrtOp>(oneMinusSquare(b, b.x(0))))));
      })
      .Case([&](math::AtanOp) { b.give(0, b.div(b.d(), onePlusSquare(b, b.x(0)))); })
      .Case([&](math::Atan2Op) { applyAtan2(b); })
      // Hyperbolic functions.
      .Case([&](math::SinhOp) { b.give(0, b.mul(b.d(), b.math<math::CoshOp>(b.x(0)))); })
      .Case([&](math::CoshOp) { b.give(0, b.mul(b.d(), b.math<math::SinhOp>(b.x(0)))); })
      .Case([&](math::TanhOp) { b.give(0, b.mul(b.d(), oneMinusSquare(b, b.y()))); })
      .Case([&](math::AsinhOp) { b.give(0, b.div(b.d(), b.math<math::SqrtOp>(onePlusSquare(b, b.x(0))))); })
      .Case([&](math::AcoshOp) {
        Value square = b.mul(b.sub(b.x(0), one), b.add(b.x(0), one));
        b.give(0, b.divOrZero(b.d(), b.math<math::SqrtOp>(square)));
      })
      .Case([&](math::AtanhOp) { b.give(0, b.div(b.d(), oneMinusSquare(b, b.x(0)))); })
      // The error function.
      .Case<math::ErfOp, math::ErfcOp>([&](auto) {
        Value slope = b.mul(b.math<math::ExpOp>(b.neg(b.mul(b.x(0), b.x(0)))),
                            b.constant(isa<math::ErfOp>(op) ? kTwoOverSqrtPi : -kTwoOverSqrtPi));
        b.give(0, b.mul(b.d(), slope));
      })
      // Piecewise linear functions.
      .Case([&](math::AbsFOp) { b.give(0, b.timesSign(b.d(), b.x(0))); })
      .Case([&](math::CopySignOp) {
        b.give(0, b.timesSign(b.mul(b.d(), b.math<math::CopySignOp>({one, b.x(1)})), b.x(0)));
      })
      .Case([&](math::ClampFOp) { applyClamp(b); })
      .Case([&](math::FmaOp) {
        b.give(0, b.mul(b.d(), b.x(1))), b.give(1, b.mul(b.d(), b.x(0))), b.give(2, b.d());
      })
      .Default([&](Operation *) { known = false; });
  return known;
}

LogicalResult attn::applyDerivativeRule(Operation *op, DerivativeBuilder &b) {
  return success(applyArith(op, b) || applyMath(op, b));
}
