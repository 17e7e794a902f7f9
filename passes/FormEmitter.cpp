//===- FormEmitter.cpp - index arithmetic for affine forms ------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/FormEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace attn;

static constexpr int64_t kLargestSum = int64_t(1) << 62;

bool FormEmitter::fits(const AffineForm &form) const {
  auto fitsTerm = [&](TermId id) {
    const Term &term = terms[id];
    return term.kind == Term::Kind::symbol || (fits(term.lhs) && fits(term.rhs));
  };
  // A term alone is not added to anything: even a symbol of all 64 bits is fine, under a clamp.
  ArrayRef<AffineForm::Monomial> monomials = form.getMonomials();
  if (monomials.size() == 1 && monomials.front().second == 1 && form.getConstant() == 0)
    return fitsTerm(monomials.front().first);
  Integer sum = abs(form.getConstant());
  for (const auto &[id, coefficient] : monomials) {
    const Interval &interval = terms[id].interval;
    sum += abs(coefficient) * std::max(abs(interval.min), abs(interval.max));
    if (!fitsTerm(id))
      return false;
  }
  return sum <= kLargestSum;
}

/// `form <= 0` as `less <= more`, with nothing negated.
static std::pair<AffineForm, AffineForm> splitBySign(const AffineForm &form) {
  AffineForm less, more;
  for (const auto &[id, coefficient] : form.getMonomials()) {
    if (coefficient > 0)
      less = less + AffineForm::fromTerm(id, coefficient);
    else
      more = more + AffineForm::fromTerm(id, -coefficient);
  }
  return {less, more};
}

bool FormEmitter::fitsAtMostZero(const AffineForm &form) const {
  auto [less, more] = splitBySign(form);
  AffineForm constant(form.getConstant());
  return fits(less + constant) && fits(more + constant);
}

Value FormEmitter::emitTerm(TermId id) {
  auto it = emittedTerms.find(id);
  if (it != emittedTerms.end())
    return it->second;
  Value value = createTerm(id);
  emittedTerms.insert({id, value});
  return value;
}

Value FormEmitter::createTerm(TermId id) {
  const Term &term = terms[id];
  assert(term.isUniform() && "a form that differs within a block");
  if (term.kind == Term::Kind::symbol)
    return term.value;
  Value lhs = emit(term.lhs);
  if (term.kind == Term::Kind::floor) {
    Value divisor = emit(AffineForm(term.divisor));
    if (terms.getInterval(term.lhs).min >= 0)
      return builder.createOrFold<arith::DivUIOp>(loc, lhs, divisor);
    return builder.createOrFold<arith::FloorDivSIOp>(loc, lhs, divisor);
  }
  Value rhs = emit(term.rhs);
  if (term.kind == Term::Kind::maximum)
    return builder.createOrFold<arith::MaxSIOp>(loc, lhs, rhs);
  assert(term.kind == Term::Kind::minimum && "a select is never uniform");
  return builder.createOrFold<arith::MinSIOp>(loc, lhs, rhs);
}

Value FormEmitter::emit(const AffineForm &form) {
  for (const auto &[other, value] : emitted)
    if (other == form)
      return value;

  Value sum;
  Integer constant = form.getConstant();
  if (form.isConstant()) {
    sum = arith::ConstantIndexOp::create(builder, loc, static_cast<int64_t>(constant));
  } else {
    // What is added comes first, then what is subtracted, then the constant: it reads as one would write it.
    for (bool isAdded : {true, false}) {
      for (const auto &[id, coefficient] : form.getMonomials()) {
        if ((coefficient > 0) != isAdded)
          continue;
        Value product = emitTerm(id);
        if (abs(coefficient) != 1)
          product = builder.createOrFold<arith::MulIOp>(loc, product, emit(AffineForm(abs(coefficient))));
        if (isAdded)
          sum = sum ? builder.createOrFold<arith::AddIOp>(loc, sum, product) : product;
        else
          sum = builder.createOrFold<arith::SubIOp>(
              loc, sum ? sum : emit(AffineForm(std::exchange(constant, Integer(0)))), product);
      }
    }
    if (constant != 0)
      sum = builder.createOrFold<arith::AddIOp>(loc, sum, emit(AffineForm(constant)));
  }
  emitted.emplace_back(form, sum);
  return sum;
}

Value FormEmitter::emitAtMostZero(const AffineForm &form) {
  auto [less, more] = splitBySign(form);
  Integer constant = form.getConstant();
  // a - b + 1 <= 0 is a < b.
  bool isStrict = constant > 0;
  if (isStrict)
    constant -= 1;
  if (constant > 0)
    less = less + AffineForm(constant);
  else
    more = more - AffineForm(constant);
  Value lhs = emit(less), rhs = emit(more);
  if (less.isConstant())
    return builder.createOrFold<arith::CmpIOp>(
        loc, isStrict ? arith::CmpIPredicate::sgt : arith::CmpIPredicate::sge, rhs, lhs);
  return builder.createOrFold<arith::CmpIOp>(
      loc, isStrict ? arith::CmpIPredicate::slt : arith::CmpIPredicate::sle, lhs, rhs);
}
