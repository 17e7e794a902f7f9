//===- RangeSolver.h - the streamed indices that a case of a mask reaches ---===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Given a case, a conjunction of inequalities of the blocked index x and the streamed index y, and a block
// `begin <= x < end`: for which y is there an x in the block that satisfies all of them?
//
// x is eliminated as by Fourier and Motzkin: each inequality bounds x from below or above by a form of y, and
// an x exists where every lower bound is at most every upper one. Over the integers that is exact as long as
// one of the two bounds has coefficient 1, which is so for all difference constraints, whatever stands on the
// side of y. Pairs without y become guards; the others bound y. A floor division is never approximated where
// it can be solved: floor(e / c) <= n is e <= c * n + c - 1.
//
// What has two terms of y, as y and floor(y / c), may hold for some y of each chunk of c and not for others.
// It is split into the *quotients* that floor(y / c) can have: with each a constant of the block, everything
// is linear in y, and has one range. There are few, unless c is small; but then the gaps between the ranges
// are narrower than a streamed block, and one range from the first index to the last says as much.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PASSES_RANGESOLVER_H
#define ATTN_PASSES_RANGESOLVER_H

#include "passes/MaskFormula.h"

namespace attn {
/// The indices from every `lower` to every `upper`, inclusive, if every guard holds.
struct StreamedRange {
  llvm::SmallVector<AffineForm> lower, upper;
  /// Uniform forms, none of which is positive.
  llvm::SmallVector<AffineForm> guardForms;
  llvm::SmallVector<Guard> guards;
};

class RangeSolver {
public:
  /// The block is from `begin` to `end`, exclusive; the streamed index is below `length`, and streamed in
  /// blocks of at least `streamedSize`, but for one that the end of a range or of the length cuts off.
  RangeSolver(TermTable &terms, const FormEmitter &emitter, const AffineForm &begin, const AffineForm &end,
              const AffineForm &length, int64_t streamedSize);

  /// The ranges of `solved`: none if it never holds, and at most `mostRanges` (but one, if that is 0).
  llvm::SmallVector<StreamedRange, 0> solve(const Case &solved, size_t mostRanges);

  /// Whether, since the solver was made, every streamed block that meets a range holds an index of its case.
  bool isExact() const { return exact; }

private:
  /// `scale * x` is at least, or at most, `form`.
  struct Bound {
    Integer scale;
    AffineForm form;
  };
  /// `first <= (y + offset) mod period <= last`.
  struct Residue {
    AffineForm offset;
    Integer period;
    AffineForm first, last;
  };
  using Forms = llvm::SmallVector<AffineForm>;
  struct State {
    llvm::SmallVector<Bound> lower, upper;
    llvm::SmallVector<Residue, 0> blockedResidues;
    /// With several terms of the index, so that nothing uniform bounds it.
    Forms blockedForms, streamedForms;
    /// How many of `streamedForms`, from the first on, depend on remainders for all y of the range.
    unsigned numBounded = 0;
    StreamedRange range;
    bool isEmpty = false;
  };

  void addForm(State &state, const AffineForm &form);
  void addBlocked(State &state, const AffineForm &form);
  void addStreamed(State &state, const AffineForm &form);
  void addGuard(State &state, const AffineForm &form);
  AffineForm solveFloor(const AffineForm &form, TermId floor);
  bool addResidue(llvm::SmallVectorImpl<Residue> &residues, const AffineForm &form, TermId index);
  AffineForm getFirstIn(const Residue &residue, const AffineForm &lower);
  AffineForm getLastIn(const Residue &residue, const AffineForm &upper);
  void eliminateBlocked(State &state);
  /// One state for each quotient that a floor term of `index` in `forms` may have between `lower` and
  /// `upper`; none if there may be more than `most`.
  llvm::SmallVector<State, 0> splitByQuotient(const State &state, Forms State::*forms, TermId index,
                                              const Forms &lower, const Forms &upper, unsigned most);
  llvm::SmallVector<State, 0> splitByTrend(const State &state);
  llvm::SmallVector<State, 0> splitStreamed(const State &state);
  bool isNarrow(const Residue &residue) const;
  void solveBlocked(State state);
  void solveStreamed(State state);
  bool isOverLimit() const;
  void narrowToResidues(StreamedRange &range, llvm::ArrayRef<Residue> residues);
  /// Drops bounds that others make redundant; false where no index is left.
  bool simplify(StreamedRange &range);

  TermTable &terms;
  const FormEmitter &emitter;
  AffineForm begin, end, length;
  int64_t streamedSize;
  bool exact = true;

  // Of the case that is being solved.
  llvm::SmallVector<StreamedRange, 0> ranges;
  size_t limit = 0, numStates = 0;
  bool maySplit = true;
};
} // namespace attn

#endif // ATTN_PASSES_RANGESOLVER_H
