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
// side of y. Pairs without y become guards; the others bound y, since each is monotone in y or a remainder of
// y. A floor division is never approximated where it can be solved: floor(e / c) <= n is e <= c * n + c - 1.
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
  /// The block is from `begin` to `end`, exclusive; the streamed index is below `length`.
  RangeSolver(TermTable &terms, const FormEmitter &emitter, const AffineForm &begin, const AffineForm &end,
              const AffineForm &length);

  /// Appends the ranges of `solved`: none if it never holds.
  void solve(const Case &solved, llvm::SmallVectorImpl<StreamedRange> &ranges);

  /// Whether a bound was approximated since the solver was made.
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
  struct State {
    llvm::SmallVector<Bound> lower, upper;
    llvm::SmallVector<Residue, 0> blockedResidues, streamedResidues;
    llvm::SmallVector<AffineForm> streamedForms;
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
  void appendRanges(State &state, llvm::SmallVectorImpl<StreamedRange> &ranges);
  /// Drops bounds that others make redundant; false where no index is left.
  bool simplify(StreamedRange &range);

  TermTable &terms;
  const FormEmitter &emitter;
  AffineForm begin, end, length;
  bool exact = true;
};
} // namespace attn

#endif // ATTN_PASSES_RANGESOLVER_H
