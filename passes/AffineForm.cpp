//===- AffineForm.cpp - integer expressions that a mask compares ------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/AffineForm.h"
#include "llvm/ADT/STLExtras.h"
#include <limits>

using namespace mlir;
using namespace attn;

//===----------------------------------------------------------------------===//
// AffineForm
//===----------------------------------------------------------------------===//

AffineForm AffineForm::fromTerm(TermId term, const Integer &coefficient) {
  AffineForm form;
  if (coefficient != 0)
    form.monomials.emplace_back(term, coefficient);
  return form;
}

Integer AffineForm::getCoefficient(TermId term) const {
  for (const auto &[id, coefficient] : monomials)
    if (id == term)
      return coefficient;
  return Integer(0);
}

AffineForm AffineForm::without(TermId term) const {
  AffineForm form = *this;
  llvm::erase_if(form.monomials, [&](const Monomial &monomial) { return monomial.first == term; });
  return form;
}

AffineForm AffineForm::getReduced() const {
  Integer common(0);
  for (const auto &[term, coefficient] : monomials)
    common = gcd(common, abs(coefficient));
  AffineForm reduced = *this;
  reduced.constant = ceilDiv(constant, common);
  for (auto &[term, coefficient] : reduced.monomials)
    coefficient = floorDiv(coefficient, common);
  return reduced;
}

AffineForm AffineForm::operator+(const AffineForm &other) const {
  AffineForm sum(constant + other.constant);
  const auto *lhs = monomials.begin(), *rhs = other.monomials.begin();
  while (lhs != monomials.end() || rhs != other.monomials.end()) {
    if (rhs == other.monomials.end() || (lhs != monomials.end() && lhs->first < rhs->first)) {
      sum.monomials.push_back(*lhs++);
    } else if (lhs == monomials.end() || rhs->first < lhs->first) {
      sum.monomials.push_back(*rhs++);
    } else {
      Integer coefficient = lhs->second + rhs->second;
      if (coefficient != 0)
        sum.monomials.emplace_back(lhs->first, coefficient);
      ++lhs, ++rhs;
    }
  }
  return sum;
}

AffineForm AffineForm::operator*(const Integer &factor) const {
  if (factor == 0)
    return AffineForm();
  AffineForm product = *this;
  product.constant *= factor;
  for (auto &[term, coefficient] : product.monomials)
    coefficient *= factor;
  return product;
}

//===----------------------------------------------------------------------===//
// TermTable: making terms
//===----------------------------------------------------------------------===//

/// Lengths are below 2^31, so the last index is at most 2^31 - 2.
static constexpr int64_t kLastIndex = std::numeric_limits<int32_t>::max() - 1;

static Term makeTerm(Term::Kind kind, const Interval &interval) {
  Term term;
  term.kind = kind;
  term.interval = interval;
  return term;
}

static Term makeExtremum(Term::Kind kind, const AffineForm &lhs, const AffineForm &rhs,
                         const Interval &interval) {
  Term term = makeTerm(kind, interval);
  term.lhs = lhs;
  term.rhs = rhs;
  return term;
}

TermTable::TermTable() {
  for (Term::Kind kind : {Term::Kind::blocked, Term::Kind::streamed}) {
    Term term = makeTerm(kind, {Integer(0), Integer(kLastIndex)});
    term.usesBlocked = kind == Term::Kind::blocked;
    term.usesStreamed = kind == Term::Kind::streamed;
    terms.push_back(std::move(term));
  }
}

AffineForm TermTable::intern(Term term) {
  for (auto [id, other] : llvm::enumerate(terms))
    if (other.kind == term.kind && other.value == term.value && other.divisor == term.divisor &&
        other.lhs == term.lhs && other.rhs == term.rhs && other.condition == term.condition)
      return AffineForm::fromTerm(id);
  term.usesBlocked = usesBlocked(term.lhs) || usesBlocked(term.rhs);
  term.usesStreamed = usesStreamed(term.lhs) || usesStreamed(term.rhs);
  terms.push_back(std::move(term));
  return AffineForm::fromTerm(terms.size() - 1);
}

AffineForm TermTable::getSymbol(Value value, const Interval &interval) {
  Term symbol = makeTerm(Term::Kind::symbol, interval);
  symbol.value = value;
  return intern(std::move(symbol));
}

AffineForm TermTable::getMaximum(const AffineForm &lhs, const AffineForm &rhs) {
  if (isNeverPositive(lhs - rhs))
    return rhs;
  if (isNeverPositive(rhs - lhs))
    return lhs;
  Interval a = getInterval(lhs), b = getInterval(rhs);
  return intern(
      makeExtremum(Term::Kind::maximum, lhs, rhs, {std::max(a.min, b.min), std::max(a.max, b.max)}));
}

AffineForm TermTable::getMinimum(const AffineForm &lhs, const AffineForm &rhs) {
  if (isNeverPositive(lhs - rhs))
    return lhs;
  if (isNeverPositive(rhs - lhs))
    return rhs;
  Interval a = getInterval(lhs), b = getInterval(rhs);
  return intern(
      makeExtremum(Term::Kind::minimum, lhs, rhs, {std::min(a.min, b.min), std::min(a.max, b.max)}));
}

AffineForm TermTable::getSelect(Value value, const AffineForm &condition, const AffineForm &lhs,
                                const AffineForm &rhs) {
  if (lhs == rhs)
    return lhs;
  Interval a = getInterval(lhs), b = getInterval(rhs);
  Term select = makeTerm(Term::Kind::select, {std::min(a.min, b.min), std::max(a.max, b.max)});
  select.value = value;
  select.condition = condition;
  select.lhs = lhs;
  select.rhs = rhs;
  AffineForm form = intern(std::move(select));
  // The condition depends on the indices even where neither operand does.
  Term &term = terms[form.getMonomials().front().first];
  term.usesBlocked = term.usesStreamed = true;
  return form;
}

AffineForm TermTable::getFloor(const AffineForm &dividend, const Integer &divisor) {
  assert(divisor > 0 && "a floor division by a constant that is not positive");
  if (divisor == 1)
    return dividend;

  // Division is monotone, so it moves into a choice; floor terms then hold no choice of the indices.
  if (std::optional<TermId> id = findChoice(dividend)) {
    Term choice = terms[*id];
    Integer coefficient = dividend.getCoefficient(*id);
    AffineForm rest = dividend.without(*id);
    AffineForm lhs = getFloor(rest + choice.lhs * coefficient, divisor);
    AffineForm rhs = getFloor(rest + choice.rhs * coefficient, divisor);
    if (choice.kind == Term::Kind::select)
      return getSelect(choice.value, choice.condition, lhs, rhs);
    return (choice.kind == Term::Kind::maximum) == (coefficient > 0) ? getMaximum(lhs, rhs)
                                                                     : getMinimum(lhs, rhs);
  }

  // floor((c * a + r) / c) = a + floor(r / c).
  AffineForm whole, rest(mod(dividend.getConstant(), divisor));
  whole = AffineForm(floorDiv(dividend.getConstant(), divisor));
  Integer common = divisor;
  for (const auto &[term, coefficient] : dividend.getMonomials()) {
    if (mod(coefficient, divisor) == 0) {
      whole = whole + AffineForm::fromTerm(term, floorDiv(coefficient, divisor));
    } else {
      rest = rest + AffineForm::fromTerm(term, coefficient);
      common = gcd(common, abs(coefficient));
    }
  }
  // floor((g * a + r) / (g * c)) = floor((a + floor(r / g)) / c).
  Integer reduced = floorDiv(divisor, common);
  AffineForm inner(floorDiv(rest.getConstant(), common));
  for (const auto &[term, coefficient] : rest.getMonomials())
    inner = inner + AffineForm::fromTerm(term, floorDiv(coefficient, common));

  Interval range = getInterval(inner);
  Integer first = floorDiv(range.min, reduced), last = floorDiv(range.max, reduced);
  if (first == last)
    return whole + AffineForm(first);

  // floor(-a / c) = -ceil(a / c): an index is never divided with a minus sign before it.
  if (const auto &[term, coefficient] = inner.getMonomials().front(); term <= streamed && coefficient < 0)
    return whole - getCeil(-inner, reduced);

  // floor((floor(a / d) + r) / c) = floor((a + d * r) / (c * d)).
  if (inner.getMonomials().size() == 1 && inner.getMonomials().front().second == 1) {
    const Term &term = terms[inner.getMonomials().front().first];
    if (term.kind == Term::Kind::floor) {
      Integer nested = term.divisor;
      AffineForm merged = term.lhs + AffineForm(nested * inner.getConstant());
      return whole + getFloor(merged, reduced * nested);
    }
  }
  Term floor = makeTerm(Term::Kind::floor, {first, last});
  floor.lhs = inner;
  floor.divisor = reduced;
  return whole + intern(std::move(floor));
}

//===----------------------------------------------------------------------===//
// TermTable: what is known
//===----------------------------------------------------------------------===//

/// Bounds of `form`, given those of each term.
static Interval getSum(const AffineForm &form, function_ref<Interval(TermId)> getRange) {
  Interval sum{form.getConstant(), form.getConstant()};
  for (const auto &[id, coefficient] : form.getMonomials()) {
    Interval range = getRange(id);
    sum.min += coefficient * (coefficient > 0 ? range.min : range.max);
    sum.max += coefficient * (coefficient > 0 ? range.max : range.min);
  }
  return sum;
}

Interval TermTable::getInterval(const AffineForm &form) const {
  return getSum(form, [&](TermId id) { return terms[id].interval; });
}

Interval TermTable::getUsualInterval(const AffineForm &form) const {
  const Integer limit(int64_t(1) << 20);
  auto clamp = [&](const Integer &bound) { return std::min(std::max(bound, -limit), limit); };
  return getSum(form, [&](TermId id) {
    const Interval &range = terms[id].interval;
    return Interval{clamp(range.min), clamp(range.max)};
  });
}

bool TermTable::usesBlocked(const AffineForm &form) const {
  return llvm::any_of(form.getMonomials(), [&](const auto &m) { return terms[m.first].usesBlocked; });
}

bool TermTable::usesStreamed(const AffineForm &form) const {
  return llvm::any_of(form.getMonomials(), [&](const auto &m) { return terms[m.first].usesStreamed; });
}

std::optional<TermId> TermTable::findChoice(const AffineForm &form) const {
  for (const auto &[id, coefficient] : form.getMonomials())
    if (const Term &term = terms[id];
        !term.isUniform() && (term.kind == Term::Kind::maximum || term.kind == Term::Kind::minimum ||
                              term.kind == Term::Kind::select))
      return id;
  return std::nullopt;
}

unsigned TermTable::countAlternatives(const AffineForm &form) const {
  uint64_t product = 1;
  AffineForm rest = form;
  while (std::optional<TermId> id = findChoice(rest)) {
    const Term &choice = terms[*id];
    product *= countAlternatives(choice.lhs) + countAlternatives(choice.rhs);
    product = std::min<uint64_t>(product, 1000000) * countAlternatives(choice.condition);
    product = std::min<uint64_t>(product, 1000000);
    rest = rest.without(*id);
  }
  return product;
}

TermTable::Relaxed TermTable::relaxFloors(const AffineForm &form,
                                          llvm::function_ref<bool(const Term &)> matches) const {
  Relaxed relaxed{form, Integer(1)};
  auto findFloor = [&]() -> const AffineForm::Monomial * {
    for (const AffineForm::Monomial &monomial : relaxed.bound.getMonomials())
      if (const Term &term = terms[monomial.first]; term.kind == Term::Kind::floor && matches(term))
        return &monomial;
    return nullptr;
  };
  // (e - c + 1) / c <= floor(e / c) <= e / c; scaled by c to stay in the integers.
  while (const AffineForm::Monomial *monomial = findFloor()) {
    TermId id = monomial->first;
    Integer coefficient = monomial->second;
    const Term &term = terms[id];
    Integer scale = floorDiv(term.divisor, gcd(term.divisor, abs(coefficient)));
    AffineForm bound = coefficient > 0 ? term.lhs - AffineForm(term.divisor) + 1 : term.lhs;
    Integer factor = floorDiv(coefficient * scale, term.divisor);
    relaxed.bound = relaxed.bound.without(id) * scale + bound * factor;
    relaxed.scale *= scale;
  }
  return relaxed;
}

Integer TermTable::getUpperBound(const AffineForm &form, ArrayRef<AffineForm> assumed) const {
  // An upper bound of a form is the negated lower bound of the negated form.
  auto [lower, scale] = relaxFloors(-form, [](const Term &) { return true; });
  AffineForm bound = -lower;
  Integer least = std::min(getInterval(form).max, floorDiv(getInterval(bound).max, scale));
  // Subtracting a multiple of a fact f <= 0 keeps an upper bound; it pays where all terms of f cancel.
  for (const AffineForm &fact : llvm::concat<const AffineForm>(facts, assumed)) {
    std::optional<Integer> multiple;
    for (const auto &[term, coefficient] : fact.getMonomials()) {
      Integer most = floorDiv(bound.getCoefficient(term), coefficient);
      multiple = multiple ? std::min(*multiple, most) : most;
    }
    if (!multiple || *multiple <= 0)
      continue;
    bound = bound - fact * *multiple;
    least = std::min(least, floorDiv(getInterval(bound).max, scale));
  }
  return least;
}

AffineForm TermTable::replace(const AffineForm &form, TermId term, const AffineForm &replacement) {
  AffineForm result(form.getConstant());
  for (const auto &[id, coefficient] : form.getMonomials()) {
    AffineForm replaced = AffineForm::fromTerm(id);
    if (id == term) {
      replaced = replacement;
    } else if (terms[id].kind == Term::Kind::floor) {
      AffineForm dividend = terms[id].lhs;
      Integer divisor = terms[id].divisor;
      if (AffineForm inner = replace(dividend, term, replacement); !(inner == dividend))
        replaced = getFloor(inner, divisor);
    }
    result = result + replaced * coefficient;
  }
  return result;
}
