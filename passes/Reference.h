//===- Reference.h - the reference lowering, for C++ ------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See `--attn-decompose-reference` in Passes.td for what the reference computes.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PASSES_REFERENCE_H
#define ATTN_PASSES_REFERENCE_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace attn {
struct ReferenceOptions {
  enum class ComputeType {
    own, ///< each operation's: f64 for f64 tensors, f32 for all others
    f32, ///< refused for operations on f64 tensors
    f64, ///< scores, masks and gradients are re-typed
  };
  ComputeType computeType = ComputeType::own;

  /// Round QK^T, P, dP and the gradient of QK^T to the element type, as computations that keep them in memory
  /// do.
  bool roundIntermediates = false;

  /// Give the function the f64 form of every floating argument and result: no result is rounded, and a chain
  /// of attention operations is in f64 from end to end. Needs computeType = f64.
  bool f64Boundary = false;

  /// Query rows that are computed at a time; the memory used is O(chunkRows * kv_len).
  int64_t chunkRows = 32;
};

/// Replaces the attention operations of `func` by their reference.
mlir::LogicalResult decomposeReference(mlir::func::FuncOp func, const ReferenceOptions &options);

/// Clones `func`, behind itself, as `name` and decomposes the clone. On failure nothing is left.
mlir::FailureOr<mlir::func::FuncOp> buildReferenceFunction(mlir::func::FuncOp func, llvm::StringRef name,
                                                           const ReferenceOptions &options);
} // namespace attn

#endif // ATTN_PASSES_REFERENCE_H
