//===- RegionUtils.h - inlining of score, mask and gradient regions ---------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PASSES_REGIONUTILS_H
#define ATTN_PASSES_REGIONUTILS_H

#include "dialect/AttnDialect.h"
#include <functional>
#include <memory>

namespace attn {
/// Converts a floating scalar or vector to elements of type `element`. Narrowing from f64 to f16 or bf16 goes
/// through f32: no machine does it in one step, and the library calls that would (`__truncdfbf2`,
/// `__truncdfhf2`) are missing from most.
mlir::Value convertFloat(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value, mlir::Type element);

/// How `inlineRegion` resolves what a region leaves open.
struct RegionInlining {
  using LengthFn = std::function<mlir::Value(mlir::OpBuilder &, mlir::Location, mlir::Value batch)>;
  /// The lengths of a batch entry, for `attn.q_len` and `attn.kv_len`.
  LengthFn queryLength, keyLength;

  /// Reads an element of a captured tensor, for `tensor.extract`; by default with `tensor.extract` itself.
  using ReadFn = std::function<mlir::Value(mlir::OpBuilder &, mlir::Location, mlir::Value capture,
                                           mlir::ValueRange indices)>;
  ReadFn readCapture;

  /// Replaces an `attn.accumulate_gradient`: adds `value` to the gradient of the capture number `capture` at
  /// `indices`. `state` are values that are threaded through the region in program order (and through every
  /// `scf.if` that accumulates): gradients held as tensors are updated by replacing their value here. Empty
  /// for gradients in memory.
  using AccumulateFn =
      std::function<void(mlir::OpBuilder &, mlir::Location, mlir::Value value, unsigned capture,
                         mlir::ValueRange indices, llvm::MutableArrayRef<mlir::Value> state)>;
  AccumulateFn accumulateGradient;

  /// When set, f32 computations become f64 ones: constants and reads of captures are extended, other floating
  /// types keep their meaning (a `truncf` to bf16 still rounds). Fast-math flags are dropped.
  bool widenToF64 = false;
};

/// Inlines a score, mask or gradient region at scalar arguments and returns the value that it yields.
/// `arguments` are the fixed arguments, then the captures; floating ones are converted to what the region
/// expects, so a captured tensor may have any floating element type.
mlir::Value inlineRegion(mlir::OpBuilder &builder, mlir::Region &region, mlir::ValueRange arguments,
                         const RegionInlining &options, llvm::MutableArrayRef<mlir::Value> state = {});

/// Inlines a ranges region and returns the operands of its `attn.yield_ranges`.
llvm::SmallVector<mlir::Value> inlineRanges(mlir::OpBuilder &builder, mlir::Region &region,
                                            mlir::ValueRange arguments, const RegionInlining &options);

/// A copy of a region that yields `value`, one of its values, and computes nothing else.
std::unique_ptr<mlir::Region> cloneYielding(mlir::Region &region, mlir::Value value);

/// Whether a region yields its argument number `argument` times a factor that does not depend on it, seen
/// from its arithmetic, and does nothing else with it.
bool isLinearIn(mlir::Region &region, unsigned argument);

/// What `value` is `factor` times, where it is the product of something and an f32 constant, or a quotient by
/// one; else null.
mlir::Value takeConstantFactor(mlir::Value value, double &factor);

/// Whether a little change of an f32 argument cannot make a step in the result: no f32 value is compared, or
/// rounded to an integer.
bool isContinuous(mlir::Region &region);

/// Whether a kernel reads the same from `buffer` all the time: a parameter that it only reads.
bool isOnlyRead(mlir::Value buffer);

/// Reports an element type of query, key and value that no lowering knows yet.
mlir::LogicalResult verifyLoweredType(mlir::Operation *op, mlir::Type elementType);

/// Reports the operations of the op's regions that `inlineRegion` cannot clone, which are calls that were not
/// inlined, and those that no lowering has a form of.
mlir::LogicalResult verifyInlinable(mlir::Operation *op);
} // namespace attn

#endif // ATTN_PASSES_REGIONUTILS_H
