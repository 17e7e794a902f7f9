//===- RangeSolver.cpp - the streamed indices that a case of a mask reaches -===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/RangeSolver.h"

using namespace mlir;
using namespace attn;

/// The smallest streamed block worth skipping: narrower gaps between residues are not looked for.
static constexpr int64_t kSmallestGap = 16;

RangeSolver::RangeSolver(TermTable &terms, const FormEmitter &emitter, const AffineForm &begin,
                         const AffineForm &end, const AffineForm &length)
    : terms(terms), emitter(emitter), begin(begin), end(end), length(length) {}

static AffineForm getLargest(TermTable &terms, ArrayRef<AffineForm> forms) {
  AffineForm largest = forms.front();
  for (const AffineForm &form : forms.drop_front())
    largest = terms.getMaximum(largest, form);
  return largest;
}

static AffineForm getSmallest(TermTable &terms, ArrayRef<AffineForm> forms) {
  AffineForm smallest = forms.front();
  for (const AffineForm &form : forms.drop_front())
    smallest = terms.getMinimum(smallest, form);
  return smallest;
}

//===----------------------------------------------------------------------===//
// Sorting inequalities
//===----------------------------------------------------------------------===//

static SmallVector<AffineForm::Monomial> getMonomials(const TermTable &terms, const AffineForm &form,
                                                      bool Term::*uses) {
  SmallVector<AffineForm::Monomial> monomials;
  llvm::copy_if(form.getMonomials(), std::back_inserter(monomials),
                [&](const AffineForm::Monomial &monomial) { return terms[monomial.first].*uses; });
  return monomials;
}

void RangeSolver::addForm(State &state, const AffineForm &form) {
  if (state.isEmpty || terms.isNeverPositive(form))
    return;
  if (terms.isNeverPositive(-form + 1))
    state.isEmpty = true;
  else if (terms.usesBlocked(form))
    addBlocked(state, form);
  else if (terms.usesStreamed(form))
    addStreamed(state, form);
  else
    addGuard(state, form);
}

void RangeSolver::addGuard(State &state, const AffineForm &form) {
  if (emitter.fitsAtMostZero(form))
    state.range.guardForms.push_back(form);
  else
    exact = false;
}

/// `form <= 0` with the term `floor` replaced by its dividend: floor(e / c) <= n is e <= c * n + c - 1, and
/// floor(e / c) >= n is e >= c * n.
AffineForm RangeSolver::solveFloor(const AffineForm &form, TermId floor) {
  Term term = terms[floor];
  assert(term.kind == Term::Kind::floor && "choices are made before a case is solved");
  Integer coefficient = form.getCoefficient(floor);
  AffineForm rest = form.without(floor);
  if (coefficient > 0)
    return term.lhs - terms.getFloor(-rest, coefficient) * term.divisor - AffineForm(term.divisor) + 1;
  return terms.getCeil(rest, -coefficient) * term.divisor - term.lhs;
}

void RangeSolver::addBlocked(State &state, const AffineForm &form) {
  SmallVector<AffineForm::Monomial> monomials = getMonomials(terms, form, &Term::usesBlocked);
  auto [id, coefficient] = monomials.front();
  if (monomials.size() == 1 && id == TermTable::blocked) {
    if (coefficient > 0)
      state.upper.push_back({coefficient, -form.without(id)});
    else
      state.lower.push_back({-coefficient, form.without(id)});
  } else if (monomials.size() == 1) {
    addForm(state, solveFloor(form, id));
  } else {
    exact = false;
    if (!addResidue(state.blockedResidues, form, TermTable::blocked))
      addForm(state, terms.relaxFloors(form, [](const Term &term) { return term.usesBlocked; }));
  }
}

void RangeSolver::addStreamed(State &state, const AffineForm &form) {
  SmallVector<AffineForm::Monomial> monomials = getMonomials(terms, form, &Term::usesStreamed);
  auto [id, coefficient] = monomials.front();
  if (monomials.size() == 1 && id == TermTable::streamed) {
    AffineForm rest = form.without(id);
    if (coefficient > 0)
      state.range.upper.push_back(terms.getFloor(-rest, coefficient));
    else
      state.range.lower.push_back(terms.getCeil(rest, -coefficient));
  } else if (monomials.size() == 1) {
    addForm(state, solveFloor(form, id));
  } else {
    exact = false;
    if (!addResidue(state.streamedResidues, form, TermTable::streamed))
      addForm(state, terms.relaxFloors(form, [](const Term &term) { return term.usesStreamed; }));
  }
}

//===----------------------------------------------------------------------===//
// Remainders
//===----------------------------------------------------------------------===//

/// Recognises `form <= 0` as a bound of `(index + offset) mod period`, which it is where the index occurs
/// twice, once in a floor term, with slopes that cancel.
bool RangeSolver::addResidue(SmallVectorImpl<Residue> &residues, const AffineForm &form, TermId index) {
  bool Term::*uses = index == TermTable::blocked ? &Term::usesBlocked : &Term::usesStreamed;
  SmallVector<AffineForm::Monomial> monomials = getMonomials(terms, form, uses);
  if (monomials.size() != 2 || monomials[0].first != index ||
      !terms.isUniform(form.without(index).without(monomials[1].first)))
    return false;
  const auto &[floor, floorCoefficient] = monomials[1];
  Integer slope = monomials[0].second, period = terms[floor].divisor;
  Integer sign = terms[floor].lhs.getCoefficient(index);
  AffineForm shift = terms[floor].lhs.without(index);
  if (abs(sign) != 1 || !terms.isUniform(shift) || slope * period + floorCoefficient * sign != 0)
    return false;

  // With m = (index + shift) mod period the form is slope * (m - shift) + rest. The remainder of -index +
  // shift is period - 1 - m with m = (index - shift - 1) mod period; the form is slope * (m + shift - period
  // + 1) + rest.
  AffineForm rest = form.without(index).without(floor);
  AffineForm offset = sign == 1 ? shift : -shift - 1;
  AffineForm base = sign == 1 ? shift : AffineForm(period) - 1 - shift;
  AffineForm first, last = AffineForm(period) - 1;
  if (slope > 0)
    last = terms.getMinimum(last, base + terms.getFloor(-rest, slope));
  else
    first = terms.getMaximum(first, base + terms.getCeil(rest, -slope));

  for (Residue &residue : residues) {
    if (residue.offset == offset && residue.period == period) {
      residue.first = terms.getMaximum(residue.first, first);
      residue.last = terms.getMinimum(residue.last, last);
      return true;
    }
  }
  residues.push_back({offset, period, first, last});
  return true;
}

/// The first index from `lower` on that has the residue.
AffineForm RangeSolver::getFirstIn(const Residue &residue, const AffineForm &lower) {
  AffineForm period = terms.getCeil(lower + residue.offset - residue.last, residue.period);
  return terms.getMaximum(lower, period * residue.period + residue.first - residue.offset);
}

/// The last index up to `upper` that has the residue.
AffineForm RangeSolver::getLastIn(const Residue &residue, const AffineForm &upper) {
  AffineForm period = terms.getFloor(upper + residue.offset - residue.first, residue.period);
  return terms.getMinimum(upper, period * residue.period + residue.last - residue.offset);
}

//===----------------------------------------------------------------------===//
// Elimination
//===----------------------------------------------------------------------===//

void RangeSolver::eliminateBlocked(State &state) {
  // Bounds without y come together: the block itself and what the mask says of x alone.
  SmallVector<AffineForm> first{begin}, last{end - 1};
  SmallVector<Bound> lower, upper;
  for (const Bound &bound : state.lower) {
    if (terms.isUniform(bound.form))
      first.push_back(terms.getCeil(bound.form, bound.scale));
    else
      lower.push_back(bound);
  }
  for (const Bound &bound : state.upper) {
    if (terms.isUniform(bound.form))
      last.push_back(terms.getFloor(bound.form, bound.scale));
    else
      upper.push_back(bound);
  }
  for (const Residue &residue : state.blockedResidues) {
    addForm(state, residue.first - residue.last);
    first = {getFirstIn(residue, getLargest(terms, first))};
    last = {getLastIn(residue, getSmallest(terms, last))};
  }
  for (const AffineForm &form : first)
    lower.push_back({Integer(1), form});
  for (const AffineForm &form : last)
    upper.push_back({Integer(1), form});

  for (const Bound &low : lower) {
    for (const Bound &high : upper) {
      AffineForm form = low.form * high.scale - high.form * low.scale;
      // With both scales above 1 the interval between the bounds may hold no integer, unless it is wide
      // enough.
      Integer slack = (low.scale - 1) * (high.scale - 1);
      exact &= slack == 0 || terms.isNeverPositive(form + AffineForm(slack));
      addForm(state, form);
    }
  }
}

bool RangeSolver::simplify(StreamedRange &range) {
  auto dropUnfit = [&](SmallVectorImpl<AffineForm> &bounds) {
    size_t before = bounds.size();
    llvm::erase_if(bounds, [&](const AffineForm &bound) { return !emitter.fits(bound + 1); });
    exact &= bounds.size() == before;
  };
  dropUnfit(range.lower);
  dropUnfit(range.upper);

  // Keeps the first of two bounds that imply each other.
  auto prune = [&](SmallVectorImpl<AffineForm> &bounds, auto isImplied) {
    SmallVector<AffineForm> kept;
    for (auto [position, bound] : llvm::enumerate(bounds)) {
      bool redundant = false;
      for (auto [otherPosition, other] : llvm::enumerate(bounds))
        redundant |= otherPosition != position && isImplied(bound, other) &&
                     (otherPosition < position || !isImplied(other, bound));
      if (!redundant)
        kept.push_back(bound);
    }
    bounds = std::move(kept);
  };
  prune(range.lower, [&](const AffineForm &bound, const AffineForm &other) {
    return terms.isNeverPositive(bound - other);
  });
  prune(range.upper, [&](const AffineForm &bound, const AffineForm &other) {
    return terms.isNeverPositive(other - bound);
  });
  prune(range.guardForms, [&](const AffineForm &bound, const AffineForm &other) {
    return terms.isNeverPositive(bound - other);
  });

  // No index is below 0 or at the length.
  llvm::erase_if(range.lower, [&](const AffineForm &bound) { return terms.isNeverPositive(bound); });
  llvm::erase_if(range.upper,
                 [&](const AffineForm &bound) { return terms.isNeverPositive(length - 1 - bound); });
  for (const AffineForm &lower : range.lower) {
    if (terms.isNeverPositive(length - lower))
      return false;
    for (const AffineForm &upper : range.upper)
      if (terms.isNeverPositive(upper - lower + 1))
        return false;
  }
  return llvm::none_of(range.upper,
                       [&](const AffineForm &upper) { return terms.isNeverPositive(upper + 1); });
}

void RangeSolver::appendRanges(State &state, SmallVectorImpl<StreamedRange> &ranges) {
  auto append = [&](StreamedRange range) {
    if (simplify(range))
      ranges.push_back(std::move(range));
  };
  StreamedRange &range = state.range;
  if (state.streamedResidues.empty())
    return append(range);

  // The hull of the residues within the bounds.
  bool isBounded = !range.lower.empty() && !range.upper.empty();
  range.lower.push_back(AffineForm());
  range.upper.push_back(length - 1);
  AffineForm lower = getLargest(terms, range.lower), upper = getSmallest(terms, range.upper);
  const Residue &residue = state.streamedResidues.front();
  AffineForm firstPeriod = terms.getCeil(lower + residue.offset - residue.last, residue.period);
  AffineForm lastPeriod = terms.getFloor(upper + residue.offset - residue.first, residue.period);
  for (const Residue &other : state.streamedResidues) {
    lower = getFirstIn(other, lower);
    upper = getLastIn(other, upper);
  }
  range.lower = {lower};
  range.upper = {upper};
  AffineForm gap = AffineForm(residue.period) - residue.last + residue.first - 1;
  if (!isBounded || state.streamedResidues.size() > 1 || terms.getInterval(gap).max < kSmallestGap)
    return append(range);

  // Within bounds there are few periods (chunks, as a rule): the first, the last, and those between. If the
  // first comes after the last, all three are empty.
  auto getFirst = [&](const AffineForm &period) {
    return period * residue.period + residue.first - residue.offset;
  };
  auto getLast = [&](const AffineForm &period) {
    return period * residue.period + residue.last - residue.offset;
  };
  StreamedRange head = range, middle = range, tail = range;
  head.upper.push_back(getLast(firstPeriod));
  middle.lower = {getFirst(firstPeriod + 1)};
  middle.upper = {getLast(lastPeriod - 1)};
  tail.lower.push_back(getFirst(lastPeriod));
  for (StreamedRange &part : {std::ref(head), std::ref(middle), std::ref(tail)})
    append(part);
}

void RangeSolver::solve(const Case &solved, SmallVectorImpl<StreamedRange> &ranges) {
  State state;
  state.range.guards = solved.guards;
  for (const AffineForm &form : solved.forms)
    addForm(state, form);
  eliminateBlocked(state);
  for (const Residue &residue : state.streamedResidues)
    addForm(state, residue.first - residue.last);
  if (!state.isEmpty)
    appendRanges(state, ranges);
}
