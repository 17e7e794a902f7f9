//===- Cotangents.cpp - the gradients that a reverse sweep accumulates ------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Cotangents.h"
#include "passes/RegionUtils.h"

using namespace mlir;
using namespace attn;

FloatType attn::getGradientType(Type type, FloatType compute) {
  auto floating = cast<FloatType>(type);
  return floating.getWidth() < compute.getWidth() ? compute : floating;
}

/// Selects by `guards`, the innermost (last) first.
static Value select(OpBuilder &builder, Location loc, Value value, ArrayRef<Guard> guards) {
  for (const Guard &guard : llvm::reverse(guards)) {
    Value zero = arith::ConstantOp::create(builder, loc, builder.getFloatAttr(value.getType(), 0.0));
    value = guard.whenTrue ? arith::SelectOp::create(builder, loc, guard.condition, value, zero)
                           : arith::SelectOp::create(builder, loc, guard.condition, zero, value);
  }
  return value;
}

Value attn::materialize(OpBuilder &builder, Location loc, const Cotangent &cotangent) {
  return select(builder, loc, cotangent.value, cotangent.guards);
}

Value attn::conjunction(OpBuilder &builder, Location loc, ArrayRef<Guard> guards) {
  Value all = arith::ConstantOp::create(builder, loc, builder.getBoolAttr(true));
  for (const Guard &guard : guards) {
    Value condition = guard.condition;
    if (!guard.whenTrue) {
      Value yes = arith::ConstantOp::create(builder, loc, builder.getBoolAttr(true));
      condition = arith::XOrIOp::create(builder, loc, condition, yes);
    }
    all = arith::AndIOp::create(builder, loc, all, condition);
  }
  return all;
}

size_t attn::countCommonGuards(ArrayRef<Guard> lhs, ArrayRef<Guard> rhs) {
  auto [end, unused] = std::mismatch(lhs.begin(), lhs.end(), rhs.begin(), rhs.end());
  return end - lhs.begin();
}

void attn::accumulate(OpBuilder &builder, Location loc, Cotangents &cotangents, Value value,
                      Cotangent cotangent) {
  auto [it, inserted] = cotangents.insert({value, cotangent});
  if (inserted)
    return;
  Cotangent &sum = it->second;
  size_t common = countCommonGuards(sum.guards, cotangent.guards);
  ArrayRef<Guard> lhsGuards = ArrayRef(sum.guards).drop_front(common);
  ArrayRef<Guard> rhsGuards = ArrayRef(cotangent.guards).drop_front(common);

  Value total, counts; // where at least one of the two counts; null for everywhere
  if (!lhsGuards.empty() && !rhsGuards.empty() &&
      lhsGuards.front().condition == rhsGuards.front().condition) {
    // The two sides of one select.
    Value condition = lhsGuards.front().condition;
    Cotangent sides[] = {{sum.value, SmallVector<Guard, 2>(lhsGuards.drop_front())},
                         {cotangent.value, SmallVector<Guard, 2>(rhsGuards.drop_front())}};
    if (!lhsGuards.front().whenTrue)
      std::swap(sides[0], sides[1]);
    total = arith::SelectOp::create(builder, loc, condition, materialize(builder, loc, sides[0]),
                                    materialize(builder, loc, sides[1]));
    if (!sides[0].guards.empty() || !sides[1].guards.empty())
      counts = arith::SelectOp::create(builder, loc, condition, conjunction(builder, loc, sides[0].guards),
                                       conjunction(builder, loc, sides[1].guards));
  } else {
    total = arith::AddFOp::create(builder, loc, select(builder, loc, sum.value, lhsGuards),
                                  select(builder, loc, cotangent.value, rhsGuards));
    if (!lhsGuards.empty() && !rhsGuards.empty())
      counts = arith::OrIOp::create(builder, loc, conjunction(builder, loc, lhsGuards),
                                    conjunction(builder, loc, rhsGuards));
  }
  sum.value = total;
  sum.guards.truncate(common);
  if (counts)
    sum.guards.push_back({counts, true});
}

DerivativeBuilder::DerivativeBuilder(OpBuilder &builder, OpResult result, const Cotangent &cotangent,
                                     const DenseSet<Value> &active, FloatType compute, Cotangents &cotangents)
    : builder(builder), loc(result.getLoc()), result(result), cotangent(cotangent), active(active),
      compute(compute), cotangents(cotangents), type(getGradientType(result.getType(), compute)) {
  if (auto op = dyn_cast<arith::ArithFastMathInterface>(result.getOwner()))
    if (arith::FastMathFlagsAttr flags = op.getFastMathFlagsAttr())
      fastMath = flags.getValue();
}

Value DerivativeBuilder::widen(Value value) { return convertFloat(builder, loc, value, type); }
Value DerivativeBuilder::x(unsigned operand) { return widen(result.getOwner()->getOperand(operand)); }
Value DerivativeBuilder::y() { return widen(result); }

Value DerivativeBuilder::constant(double value) {
  return arith::ConstantOp::create(builder, loc, builder.getFloatAttr(type, value));
}
Value DerivativeBuilder::neg(Value value) { return arith::NegFOp::create(builder, loc, value, fastMath); }
Value DerivativeBuilder::add(Value lhs, Value rhs) {
  return arith::AddFOp::create(builder, loc, lhs, rhs, fastMath);
}
Value DerivativeBuilder::sub(Value lhs, Value rhs) {
  return arith::SubFOp::create(builder, loc, lhs, rhs, fastMath);
}
Value DerivativeBuilder::mul(Value lhs, Value rhs) {
  return arith::MulFOp::create(builder, loc, lhs, rhs, fastMath);
}
Value DerivativeBuilder::div(Value lhs, Value rhs) {
  return arith::DivFOp::create(builder, loc, lhs, rhs, fastMath);
}
Value DerivativeBuilder::compare(arith::CmpFPredicate predicate, Value lhs, Value rhs) {
  return arith::CmpFOp::create(builder, loc, predicate, lhs, rhs, fastMath);
}
Value DerivativeBuilder::select(Value condition, Value ifTrue, Value ifFalse) {
  return arith::SelectOp::create(builder, loc, condition, ifTrue, ifFalse);
}
Value DerivativeBuilder::divOrZero(Value lhs, Value rhs) {
  Value zero = constant(0.0);
  return select(compare(arith::CmpFPredicate::OEQ, rhs, zero), zero, div(lhs, rhs));
}
Value DerivativeBuilder::timesSign(Value value, Value x) {
  Value zero = constant(0.0);
  Value whenNegative = select(compare(arith::CmpFPredicate::OLT, x, zero), neg(value), zero);
  return select(compare(arith::CmpFPredicate::OGT, x, zero), value, whenNegative);
}

void DerivativeBuilder::give(unsigned operand, Value gradient) {
  if (!isActive(operand))
    return;
  Value target = result.getOwner()->getOperand(operand);
  gradient = convertFloat(builder, loc, gradient, getGradientType(target.getType(), compute));
  accumulate(builder, loc, cotangents, target, {gradient, cotangent.guards});
}

void DerivativeBuilder::give(unsigned operand, Value gradient, Guard guard) {
  if (!isActive(operand))
    return;
  Value target = result.getOwner()->getOperand(operand);
  gradient = convertFloat(builder, loc, gradient, getGradientType(target.getType(), compute));
  Cotangent guarded = {gradient, cotangent.guards};
  guarded.guards.push_back(guard);
  accumulate(builder, loc, cotangents, target, guarded);
}
