//===- VectorizeRegion.h - evaluates a region for a vector of pairs at once --===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PASSES_VECTORIZEREGION_H
#define ATTN_PASSES_VECTORIZEREGION_H

#include "dialect/AttnDialect.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/DenseMap.h"
#include <functional>

namespace attn {

/// What the regions of one attention see besides their fixed arguments.
struct RegionContext {
  /// One for each capture: a memref for a tensor, the scalar itself for a scalar.
  llvm::SmallVector<mlir::Value> captures;
  mlir::Value qLen, kvLen;
};

/// Evaluates a score, mask, gradient or ranges region, in which every value is either uniform (a scalar) or
/// varying (a vector, one element a lane).
///
/// The arguments are bound one after the other, from the outermost loop inwards, and `advance` evaluates at
/// each level what can be evaluated by then. That is the split of a score into its per-tile, per-row or
/// per-column, and per-element parts; it also hoists reads of captures, which no later pass could (a store to
/// a tile might alias them).
///
/// Varying values of index type are i32 vectors. Arithmetic on indices has been narrowed to i32 before (see
/// NarrowIndices.h), but in a ranges region, whose values are all uniform and have 64 bits.
///
/// `scf.if` on a varying condition becomes selects. What it guarded is then evaluated for every lane, so
/// reads of captures are clamped into bounds and integer divisors of zero are replaced by one wherever
/// evaluation is speculative.
class RegionVectorizer {
public:
  using AccumulateFn = std::function<void(mlir::ImplicitLocOpBuilder &, AccumulateGradientOp,
                                          mlir::Value value, llvm::ArrayRef<mlir::Value> indices)>;

  /// `alwaysSpeculative`: the region is evaluated also where its result is not wanted (a score under a mask).
  RegionVectorizer(mlir::Region &region, const RegionContext &context, int64_t lanes, bool alwaysSpeculative);

  /// Gives argument `index` of the region a value: of the argument's type, or a vector.
  void bind(unsigned index, mlir::Value value) { values[region.getArgument(index)] = value; }

  /// Evaluates every top-level operation whose operands are known by now. Gradient accumulations wait for
  /// `finish`.
  void advance(mlir::ImplicitLocOpBuilder &builder);

  /// Evaluates the rest and returns the operands of the terminator, each uniform or varying. Values are
  /// forgotten again down to what was known at the last `advance`, so that the loop body may be emitted more
  /// than once.
  llvm::SmallVector<mlir::Value> finish(mlir::ImplicitLocOpBuilder &builder);

  /// The same for a region of one result, as a vector.
  mlir::Value finishVector(mlir::ImplicitLocOpBuilder &builder);

  /// What `value`, of the region, is at the levels reached so far; null where it is not known yet.
  mlir::Value tryGet(mlir::Value value) const { return values.lookup(value); }

  /// Called for each `attn.accumulate_gradient`; indices are uniform (index) or varying (i32 vectors). The
  /// value is a vector and is 0 in lanes where control flow does not reach the operation.
  AccumulateFn accumulate;

private:
  /// `value` as a vector; an index, one below 2^31, as one of i32.
  mlir::Value broadcast(mlir::ImplicitLocOpBuilder &builder, mlir::Value value);
  mlir::Value lookup(mlir::Value value) const;
  mlir::Value lookupVector(mlir::ImplicitLocOpBuilder &builder, mlir::Value value);
  bool isKnown(mlir::Operation *op) const;
  void evaluate(mlir::ImplicitLocOpBuilder &builder, mlir::Operation *op);
  void evaluateElementwise(mlir::ImplicitLocOpBuilder &builder, mlir::Operation *op);
  void evaluateExtract(mlir::ImplicitLocOpBuilder &builder, mlir::tensor::ExtractOp op);
  void evaluateIf(mlir::ImplicitLocOpBuilder &builder, mlir::scf::IfOp op);
  void evaluateAccumulate(mlir::ImplicitLocOpBuilder &builder, AccumulateGradientOp op);
  mlir::Value clampToBounds(mlir::ImplicitLocOpBuilder &builder, mlir::Value index, mlir::Value size);

  mlir::Region &region;
  const RegionContext &context;
  int64_t lanes;
  /// Whether what is being evaluated may be unwanted: out-of-bounds reads and division by zero must be
  /// harmless.
  bool speculative;
  /// The conjunction of the varying conditions of the enclosing scf.if operations; null outside any.
  mlir::Value active;
  llvm::DenseMap<mlir::Value, mlir::Value> values;
  llvm::SmallPtrSet<mlir::Operation *, 16> done;
};

} // namespace attn

#endif // ATTN_PASSES_VECTORIZEREGION_H
