//===- RangeSolver.cpp - the streamed indices that a case of a mask reaches -===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/RangeSolver.h"

using namespace mlir;
using namespace attn;

/// No case is split into more states than this.
static constexpr unsigned kMaxStates = 1000;

/// So few ranges are not worth a condition that makes them fewer.
static constexpr unsigned kFewQuotients = 4;

RangeSolver::RangeSolver(TermTable &terms, const FormEmitter &emitter, const AffineForm &begin,
                         const AffineForm &end, const AffineForm &length, int64_t streamedSize)
    : terms(terms), emitter(emitter), begin(begin), end(end), length(length), streamedSize(streamedSize) {}

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
    state.range.guardForms.push_back(form.getReduced());
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
  } else if (addResidue(state.blockedResidues, form, TermTable::blocked)) {
    exact = false;
  } else {
    state.blockedForms.push_back(form);
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
    state.streamedForms.push_back(form);
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
  AffineForm offset = terms[floor].lhs.without(index);
  if (terms[floor].lhs.getCoefficient(index) != 1 || !terms.isUniform(offset) ||
      slope * period + floorCoefficient != 0)
    return false;

  // With m = (index + offset) mod period the form is slope * (m - offset) + rest.
  AffineForm rest = form.without(index).without(floor);
  AffineForm first, last = AffineForm(period) - 1;
  if (slope > 0)
    last = terms.getMinimum(last, offset + terms.getFloor(-rest, slope));
  else
    first = terms.getMaximum(first, offset + terms.getCeil(rest, -slope));

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
      addForm(state, form);
      // With both scales above 1 the interval between the bounds may hold no integer, unless it is wide
      // enough.
      Integer slack = (low.scale - 1) * (high.scale - 1);
      if (slack != 0 && !terms.isNeverPositive(form + AffineForm(slack)))
        addForm(state, terms.getCeil(low.form, low.scale) - terms.getFloor(high.form, high.scale));
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

//===----------------------------------------------------------------------===//
// Quotients
//===----------------------------------------------------------------------===//

/// A floor term of `form` that depends on the index, none inside of whose dividend does.
static std::optional<TermId> findInnermostFloor(const TermTable &terms, const AffineForm &form,
                                                bool Term::*uses) {
  for (const auto &[id, coefficient] : form.getMonomials())
    if (terms[id].kind == Term::Kind::floor && terms[id].*uses) {
      std::optional<TermId> inner = findInnermostFloor(terms, terms[id].lhs, uses);
      return inner ? inner : id;
    }
  return std::nullopt;
}

SmallVector<RangeSolver::State, 0> RangeSolver::splitByQuotient(const State &state, Forms State::*forms,
                                                                TermId index, const Forms &lower,
                                                                const Forms &upper, unsigned most) {
  bool Term::*uses = index == TermTable::blocked ? &Term::usesBlocked : &Term::usesStreamed;
  std::optional<TermId> id = findInnermostFloor(terms, (state.*forms).front(), uses);
  assert(id && "two terms of an index, neither a floor");
  Term floor = terms[*id];
  Integer slope = floor.lhs.getCoefficient(index);
  AffineForm offset = floor.lhs.without(index);
  if (!terms.isUniform(offset))
    return {};

  auto getQuotient = [&](const AffineForm &at) { return terms.getFloor(at * slope + offset, floor.divisor); };
  std::optional<Integer> count;
  for (const AffineForm &low : lower) {
    for (const AffineForm &high : upper) {
      Integer bound = terms.getUpperBound(getQuotient(high) - getQuotient(low) + 1, state.range.guardForms);
      count = count ? std::min(*count, bound) : bound;
    }
  }
  if (*count > most)
    return {};
  count = std::max(*count, Integer(1)); // no states would mean too many

  AffineForm first = getQuotient(getLargest(terms, lower));
  SmallVector<State, 0> pieces;
  for (Integer step(0); step < *count; ++step) {
    AffineForm quotient = first + AffineForm(step);
    State piece = state;
    (piece.*forms).clear();
    piece.numBounded = 0;
    addForm(piece, quotient * floor.divisor - floor.lhs);
    addForm(piece, floor.lhs - quotient * floor.divisor - AffineForm(floor.divisor) + 1);
    for (const AffineForm &form : state.*forms)
      addForm(piece, terms.replace(form, *id, quotient));
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

/// Where the next form of several terms of y holds whatever the remainders are, and where that depends on
/// them: within a few chunks if the form grows or falls with y, under a condition on the symbols if it does
/// not.
SmallVector<RangeSolver::State, 0> RangeSolver::splitByTrend(const State &state) {
  AffineForm form = state.streamedForms[state.numBounded];
  auto relax = [&](const AffineForm &relaxed) {
    return terms.relaxFloors(relaxed, [](const Term &term) { return term.usesStreamed; }).bound;
  };
  AffineForm least = relax(form), most = -relax(-form);
  State always = state, sometimes = state;
  always.streamedForms.erase(always.streamedForms.begin() + state.numBounded);
  addForm(always, most);
  ++sometimes.numBounded;
  addForm(sometimes, least);
  addForm(sometimes, -most + 1);
  return {always, sometimes};
}

bool RangeSolver::isOverLimit() const { return ranges.size() > limit || numStates > kMaxStates; }

void RangeSolver::solveBlocked(State state) {
  ++numStates;
  if (state.isEmpty || isOverLimit())
    return;
  if (!state.blockedForms.empty()) {
    SmallVector<State, 0> parts;
    if (maySplit)
      parts =
          splitByQuotient(state, &State::blockedForms, TermTable::blocked, {begin}, {end - 1}, kMaxStates);
    if (!parts.empty()) {
      for (State &part : parts)
        solveBlocked(std::move(part));
      return;
    }
    exact = false;
    for (const AffineForm &form : std::exchange(state.blockedForms, {}))
      addForm(state, terms.relaxFloors(form, [](const Term &term) { return term.usesBlocked; }).bound);
  }
  eliminateBlocked(state);
  solveStreamed(std::move(state));
}

/// From the first to the last index of `range` that has the residues.
void RangeSolver::narrowToResidues(StreamedRange &range, ArrayRef<Residue> residues) {
  range.lower.push_back(AffineForm());
  range.upper.push_back(length - 1);
  AffineForm lower = getLargest(terms, range.lower), upper = getSmallest(terms, range.upper);
  for (const Residue &residue : residues) {
    lower = getFirstIn(residue, lower);
    upper = getLastIn(residue, upper);
  }
  range.lower = {lower};
  range.upper = {upper};
}

/// By quotients if a block meets few, else by trend first, which may leave fewer. Empty if there are too
/// many.
SmallVector<RangeSolver::State, 0> RangeSolver::splitStreamed(const State &state) {
  Forms lower = state.range.lower, upper = state.range.upper;
  lower.push_back(AffineForm());
  upper.push_back(length - 1);
  auto split = [&](unsigned most) {
    return splitByQuotient(state, &State::streamedForms, TermTable::streamed, lower, upper, most);
  };
  SmallVector<State, 0> parts = split(kFewQuotients);
  if (!parts.empty())
    return parts;
  if (state.numBounded < state.streamedForms.size())
    return splitByTrend(state);
  return split(kMaxStates);
}

/// Whether no gap between the indices that have the residue holds a streamed block.
bool RangeSolver::isNarrow(const Residue &residue) const {
  AffineForm gap = AffineForm(residue.period) - residue.last + residue.first - 1;
  return residue.period <= streamedSize || terms.getUpperBound(gap) < streamedSize;
}

void RangeSolver::solveStreamed(State state) {
  ++numStates;
  if (state.isEmpty || isOverLimit() || !simplify(state.range))
    return;
  if (state.streamedForms.empty()) {
    ranges.push_back(std::move(state.range));
    return;
  }
  SmallVector<Residue, 0> residues;
  Forms others;
  for (const AffineForm &form : state.streamedForms)
    if (!addResidue(residues, form, TermTable::streamed))
      others.push_back(form);

  bool isConvex = others.empty() && residues.size() == 1 && isNarrow(residues.front());
  if (!isConvex) {
    SmallVector<State, 0> parts;
    if (maySplit)
      parts = splitStreamed(state);
    if (!parts.empty()) {
      for (State &part : parts)
        solveStreamed(std::move(part));
      return;
    }
    exact = false;
  }

  for (const AffineForm &form : others)
    addForm(state, terms.relaxFloors(form, [](const Term &term) { return term.usesStreamed; }).bound);
  for (const Residue &residue : residues)
    addForm(state, residue.first - residue.last);
  narrowToResidues(state.range, residues);
  if (!state.isEmpty && simplify(state.range))
    ranges.push_back(std::move(state.range));
}

SmallVector<StreamedRange, 0> RangeSolver::solve(const Case &solved, size_t mostRanges) {
  State state;
  state.range.guards = solved.guards;
  for (const AffineForm &form : solved.forms)
    addForm(state, form);
  limit = std::max<size_t>(mostRanges, 1);
  for (bool mayBeExact : {true, false}) {
    maySplit = mayBeExact;
    numStates = 0;
    ranges.clear();
    solveBlocked(state);
    if (!isOverLimit())
      break;
    exact = false;
  }
  return std::move(ranges);
}
