//===- SizeFormula.h - sizes of tensors as functions of those of arguments ---===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PASSES_SIZEFORMULA_H
#define ATTN_PASSES_SIZEFORMULA_H

#include "mlir/IR/AffineMap.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/Value.h"
#include "llvm/Support/Error.h"

namespace attn {
/// A size as a linear function of the sizes of arguments of the function that it is in, and of arguments of
/// index type.
struct SizeFormula {
  /// The number of an argument of index type, or of a tensor and its dimension. Not the argument itself:
  /// formulas outlive the function.
  using Operand = std::pair<unsigned, std::optional<int64_t>>;
  using LookupFn = llvm::function_ref<std::optional<int64_t>(const Operand &)>;

  /// Of dimension `dim` of `tensor`; an error names the operation that does not tell the sizes of its
  /// results.
  static llvm::Expected<SizeFormula> compute(mlir::Value tensor, int64_t dim);

  /// The size where the operands have the values that `lookup` gives; none where it gives none.
  std::optional<int64_t> evaluate(LookupFn lookup) const;

  mlir::AffineMap map;
  llvm::SmallVector<Operand> operands;
};

/// What `SizeFormula` asks operations through. Bufferization asks too, where it compares slices: all dialects
/// have it, or none.
void registerSizeInterfaces(mlir::DialectRegistry &registry);
} // namespace attn

#endif // ATTN_PASSES_SIZEFORMULA_H
