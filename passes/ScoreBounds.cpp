//===- ScoreBounds.cpp - between which numbers a score lies ------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/ScoreBounds.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>

using namespace mlir;
using namespace attn;

static constexpr FloatInterval kEverything{-INFINITY, INFINITY};

/// The interval between the least and the greatest; everything where one is no number (0 * infinity).
static FloatInterval getHull(std::initializer_list<double> numbers) {
  if (llvm::any_of(numbers, [](double number) { return std::isnan(number); }))
    return kEverything;
  return {std::min(numbers), std::max(numbers)};
}

/// Whether `value` is a constant that is a number; canonicalization makes it the second operand.
static bool isNumber(Value value) {
  FloatAttr constant;
  return matchPattern(value, m_Constant(&constant)) && !constant.getValue().isNaN();
}

/// What is known of values so far: one may be used many times.
using Intervals = llvm::DenseMap<Value, FloatInterval>;

static FloatInterval computeInterval(Value value, Intervals &known);

static FloatInterval getInterval(Value value, Intervals &known) {
  if (auto found = known.find(value); found != known.end())
    return found->second;
  FloatInterval interval = computeInterval(value, known);
  known.try_emplace(value, interval);
  return interval;
}

FloatInterval attn::getFloatInterval(Value value) {
  Intervals known;
  return getInterval(value, known);
}

static FloatInterval computeInterval(Value value, Intervals &known) {
  FloatAttr constant;
  if (matchPattern(value, m_Constant(&constant))) {
    double number = constant.getValueAsDouble();
    return getHull({number});
  }
  Operation *op = value.getDefiningOp();
  if (!op)
    return kEverything;
  auto get = [&](unsigned operand) { return getInterval(op->getOperand(operand), known); };
  auto isUnit = [](Operation *) { return FloatInterval{-1, 1}; };
  return llvm::TypeSwitch<Operation *, FloatInterval>(op)
      .Case<math::TanhOp, math::ErfOp, math::SinOp, math::CosOp>(isUnit)
      .Case([&](arith::NegFOp) {
        FloatInterval x = get(0);
        return FloatInterval{-x.high, -x.low};
      })
      .Case([&](math::AbsFOp) {
        FloatInterval x = get(0);
        return FloatInterval{std::max({x.low, -x.high, 0.0}), std::max(-x.low, x.high)};
      })
      .Case([&](arith::AddFOp) {
        FloatInterval x = get(0), y = get(1);
        return getHull({x.low + y.low, x.high + y.high});
      })
      .Case([&](arith::SubFOp) {
        FloatInterval x = get(0), y = get(1);
        return getHull({x.low - y.high, x.high - y.low});
      })
      .Case([&](arith::MulFOp) {
        FloatInterval x = get(0), y = get(1);
        return getHull({x.low * y.low, x.low * y.high, x.high * y.low, x.high * y.high});
      })
      .Case([&](arith::MinimumFOp) {
        FloatInterval x = get(0), y = get(1);
        return FloatInterval{std::min(x.low, y.low), std::min(x.high, y.high)};
      })
      .Case([&](arith::MaximumFOp) {
        FloatInterval x = get(0), y = get(1);
        return FloatInterval{std::max(x.low, y.low), std::max(x.high, y.high)};
      })
      // Where one is no number these are the other, which bounds them only if it is known to be one.
      .Case([&](arith::MinNumFOp) {
        FloatInterval x = get(0), y = get(1);
        double high = isNumber(op->getOperand(1)) ? y.high : std::max(x.high, y.high);
        return FloatInterval{std::min(x.low, y.low), high};
      })
      .Case([&](arith::MaxNumFOp) {
        FloatInterval x = get(0), y = get(1);
        double low = isNumber(op->getOperand(1)) ? y.low : std::min(x.low, y.low);
        return FloatInterval{low, std::max(x.high, y.high)};
      })
      .Case([&](math::ClampFOp) {
        FloatInterval x = get(0), low = get(1), high = get(2);
        return FloatInterval{std::min(std::max(x.low, low.low), high.low),
                             std::min(std::max(x.high, low.high), high.high)};
      })
      .Case([&](arith::SelectOp) {
        FloatInterval x = get(1), y = get(2);
        return FloatInterval{std::min(x.low, y.low), std::max(x.high, y.high)};
      })
      .Default([](Operation *) { return kEverything; });
}
