//===- AffineForm.h - integer expressions that a mask compares --------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A mask compares integer expressions of the two indices. They are kept as affine forms over *terms*: the
// indices, symbols (values that one block sees as constants), and floor divisions, maxima, minima and selects
// of other forms. A remainder is not a term: `e mod c` is `e - c * floor(e / c)`.
//
// Coefficients are of arbitrary precision, so nothing here overflows: a window of INT64_MAX is as good a
// number as any.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PASSES_AFFINEFORM_H
#define ATTN_PASSES_AFFINEFORM_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/DynamicAPInt.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"
#include <optional>

namespace attn {
using Integer = llvm::DynamicAPInt;

/// Position of a term in its TermTable.
using TermId = unsigned;

/// The sum of integer multiples of terms and a constant.
class AffineForm {
public:
  using Monomial = std::pair<TermId, Integer>;

  AffineForm() = default;
  explicit AffineForm(const Integer &constant) : constant(constant) {}
  static AffineForm fromConstant(int64_t constant) { return AffineForm(Integer(constant)); }
  static AffineForm fromTerm(TermId term, const Integer &coefficient = Integer(1));

  llvm::ArrayRef<Monomial> getMonomials() const { return monomials; }
  const Integer &getConstant() const { return constant; }
  bool isConstant() const { return monomials.empty(); }
  /// Zero where the term does not occur.
  Integer getCoefficient(TermId term) const;
  AffineForm without(TermId term) const;
  /// The form with the smallest coefficients that is not positive exactly where this one, not constant, is
  /// not.
  AffineForm getReduced() const;

  AffineForm operator+(const AffineForm &other) const;
  AffineForm operator-(const AffineForm &other) const { return *this + other * Integer(-1); }
  AffineForm operator*(const Integer &factor) const;
  AffineForm operator+(int64_t other) const { return *this + fromConstant(other); }
  AffineForm operator-(int64_t other) const { return *this - fromConstant(other); }
  AffineForm operator-() const { return *this * Integer(-1); }
  bool operator==(const AffineForm &other) const {
    return constant == other.constant && monomials == other.monomials;
  }

private:
  llvm::SmallVector<Monomial, 0> monomials; // by ascending term, no coefficient is zero
  Integer constant;
};

/// Bounds of an integer, both inclusive.
struct Interval {
  Integer min, max;
};

struct Term {
  enum class Kind { blocked, streamed, symbol, floor, maximum, minimum, select };
  Kind kind;
  /// The value of a symbol; the condition of a select, unless that is a form.
  mlir::Value value;
  /// The dividend of a floor; the operands of a maximum, minimum or select.
  AffineForm lhs, rhs;
  /// The condition of a select without a value: that this form is not positive.
  AffineForm condition;
  Integer divisor;
  Interval interval;
  bool usesBlocked = false, usesStreamed = false;

  bool isUniform() const { return !usesBlocked && !usesStreamed; }
};

/// Owns the terms of the forms of one mask and knows what is true of them.
class TermTable {
public:
  static constexpr TermId blocked = 0, streamed = 1;

  TermTable();

  const Term &operator[](TermId term) const { return terms[term]; }

  AffineForm getSymbol(mlir::Value value, const Interval &interval);
  /// floor(dividend / divisor), for a positive divisor. Where the first term of a floor term's dividend is an
  /// index, its coefficient is positive.
  AffineForm getFloor(const AffineForm &dividend, const Integer &divisor);
  AffineForm getCeil(const AffineForm &dividend, const Integer &divisor) {
    return getFloor(dividend + AffineForm(divisor) - 1, divisor);
  }
  AffineForm getMaximum(const AffineForm &lhs, const AffineForm &rhs);
  AffineForm getMinimum(const AffineForm &lhs, const AffineForm &rhs);
  /// `condition` is a value of the mask region that depends on the indices.
  AffineForm getSelect(mlir::Value condition, const AffineForm &lhs, const AffineForm &rhs) {
    return getSelect(condition, AffineForm(), lhs, rhs);
  }
  /// `lhs` where `condition <= 0`, else `rhs`.
  AffineForm getSelect(const AffineForm &condition, const AffineForm &lhs, const AffineForm &rhs) {
    return getSelect(mlir::Value(), condition, lhs, rhs);
  }

  Interval getInterval(const AffineForm &form) const;
  /// The same where no term exceeds 2^20 in magnitude: as long as sequences are in practice.
  Interval getUsualInterval(const AffineForm &form) const;
  bool usesBlocked(const AffineForm &form) const;
  bool usesStreamed(const AffineForm &form) const;
  bool isUniform(const AffineForm &form) const { return !usesBlocked(form) && !usesStreamed(form); }

  /// Records that `form` is never positive.
  void addFact(const AffineForm &form) { facts.push_back(form); }
  /// What `form` is proven never to exceed where no form of `assumed` is positive.
  Integer getUpperBound(const AffineForm &form, llvm::ArrayRef<AffineForm> assumed = {}) const;
  bool isNeverPositive(const AffineForm &form) const { return getUpperBound(form) <= 0; }

  /// `scale * form` is at least `bound`, which is without the floor terms that `matches` selects.
  struct Relaxed {
    AffineForm bound;
    Integer scale;
  };
  Relaxed relaxFloors(const AffineForm &form, llvm::function_ref<bool(const Term &)> matches) const;
  /// `form` with `term` replaced, inside of floor terms too.
  AffineForm replace(const AffineForm &form, TermId term, const AffineForm &replacement);

  /// The first term of `form` that is a maximum, a minimum or a select and depends on an index.
  std::optional<TermId> findChoice(const AffineForm &form) const;
  /// How many forms `form` is, one at a time, once such choices are made; saturates at a million.
  unsigned countAlternatives(const AffineForm &form) const;

private:
  AffineForm getSelect(mlir::Value value, const AffineForm &condition, const AffineForm &lhs,
                       const AffineForm &rhs);
  AffineForm intern(Term term);

  llvm::SmallVector<Term, 0> terms;
  llvm::SmallVector<AffineForm> facts;
};
} // namespace attn

#endif // ATTN_PASSES_AFFINEFORM_H
