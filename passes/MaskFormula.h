//===- MaskFormula.h - a mask as cases of affine inequalities ---------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The i1 that a mask region yields, or its negation, as a disjunction of *cases*; each case is a conjunction
// of inequalities `form <= 0` and of uniform conditions. What is not understood is taken for true in either
// polarity, so the cases hold at least where the formula does.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PASSES_MASKFORMULA_H
#define ATTN_PASSES_MASKFORMULA_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/FormEmitter.h"
#include "passes/Guard.h"
#include "passes/UniformValues.h"

namespace attn {
struct Case {
  /// None is positive.
  llvm::SmallVector<AffineForm> forms;
  /// On conditions of the ranges region.
  llvm::SmallVector<Guard> guards;
};
using Cases = llvm::SmallVector<Case>;

class MaskFormula {
public:
  /// `mask` is the block of the mask region. Clones of uniform values go where `builder` stands.
  MaskFormula(mlir::OpBuilder &builder, TermTable &terms, UniformValues &uniform, FormEmitter &emitter,
              mlir::Block &mask, bool blocksKeys);

  /// Where the mask keeps a pair, or where it drops one.
  Cases getKept() { return evaluateBoolean(getYielded(), /*isNegated=*/false); }
  Cases getDropped() { return evaluateBoolean(getYielded(), /*isNegated=*/true); }

  /// The first operation met that depends on the indices in a way that is not understood, or null.
  mlir::Operation *getUnknown() const { return unknown; }
  /// Whether there were too many cases, so that some were merged into one that covers them.
  bool hasMergedCases() const { return mergedCases; }
  /// Whether the indices are taken modulo a constant.
  bool hasRemainder() const { return remainder; }

private:
  using OptionalForm = std::optional<AffineForm>;

  mlir::Value getYielded() { return mask.getTerminator()->getOperand(0); }

  OptionalForm evaluateInteger(mlir::Value value);
  OptionalForm evaluateIntegerOp(mlir::OpResult value);
  OptionalForm evaluateCast(mlir::Operation *op);
  OptionalForm evaluateBinary(mlir::Operation *op);
  OptionalForm evaluateChoice(mlir::Value condition, mlir::Value lhs, mlir::Value rhs);
  AffineForm getSymbol(mlir::Value value);

  Cases evaluateBoolean(mlir::Value value, bool isNegated);
  Cases evaluateBooleanOp(mlir::OpResult value, bool isNegated);
  Cases evaluateComparison(mlir::arith::CmpIPredicate predicate, const AffineForm &lhs,
                           const AffineForm &rhs);
  Cases evaluateXor(mlir::Value lhs, mlir::Value rhs, bool isNegated);
  Cases evaluateSelect(mlir::Value condition, mlir::Value lhs, mlir::Value rhs, bool isNegated);

  /// The cases of `form <= 0`.
  Cases getAtMostZero(const AffineForm &form);
  AffineForm clampSymbols(const AffineForm &form);
  Cases conjoin(const Cases &lhs, const Cases &rhs);
  Cases disjoin(Cases lhs, const Cases &rhs);
  void simplify(Cases &cases);

  mlir::OpBuilder &builder;
  TermTable &terms;
  UniformValues &uniform;
  FormEmitter &emitter;
  mlir::Block &mask;
  TermId query, key;
  llvm::DenseMap<mlir::Value, OptionalForm> integers;
  llvm::DenseMap<mlir::Value, Cases> kept, dropped;
  mlir::Operation *unknown = nullptr;
  bool mergedCases = false, remainder = false;
};

} // namespace attn

#endif // ATTN_PASSES_MASKFORMULA_H
