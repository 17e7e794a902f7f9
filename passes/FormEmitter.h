//===- FormEmitter.h - index arithmetic for affine forms --------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PASSES_FORMEMITTER_H
#define ATTN_PASSES_FORMEMITTER_H

#include "mlir/IR/Builders.h"
#include "passes/AffineForm.h"
#include "llvm/ADT/DenseMap.h"

namespace attn {
/// Computes forms of uniform terms where its builder stands; equal forms become one value.
class FormEmitter {
public:
  FormEmitter(mlir::OpBuilder &builder, mlir::Location loc, const TermTable &terms)
      : builder(builder), loc(loc), terms(terms) {}

  /// Whether no sum or product of `form`, in any order, can overflow index arithmetic.
  bool fits(const AffineForm &form) const;
  /// Whether `form <= 0` can be decided without overflow.
  bool fitsAtMostZero(const AffineForm &form) const;

  mlir::Value emit(const AffineForm &form);
  /// The i1 that is `form <= 0`.
  mlir::Value emitAtMostZero(const AffineForm &form);
  mlir::Value emitConstant(int64_t value) { return emit(AffineForm::fromConstant(value)); }

private:
  mlir::Value emitTerm(TermId id);
  mlir::Value createTerm(TermId id);

  mlir::OpBuilder &builder;
  mlir::Location loc;
  const TermTable &terms;
  llvm::SmallVector<std::pair<AffineForm, mlir::Value>> emitted;
  llvm::DenseMap<TermId, mlir::Value> emittedTerms;
};
} // namespace attn

#endif // ATTN_PASSES_FORMEMITTER_H
