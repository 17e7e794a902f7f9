//===- ReferenceBuilder.h - builds the loops of the reference lowering ------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PASSES_REFERENCEBUILDER_H
#define ATTN_PASSES_REFERENCEBUILDER_H

#include "dialect/AttnDialect.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "passes/Reference.h"
#include "passes/RegionUtils.h"

namespace attn {
/// A tensor, and which loop runs over each of its dimensions.
struct Access {
  mlir::Value tensor;
  llvm::SmallVector<unsigned, 4> loops;
};

/// Builds loops and elementwise computations in one compute type.
class ReferenceBuilder : public mlir::ImplicitLocOpBuilder {
public:
  ReferenceBuilder(mlir::Operation *op, mlir::Type elementType, const ReferenceOptions &options);

  const ReferenceOptions &getOptions() const { return options; }
  /// Whether the regions, written in f32, are computed in f64.
  bool widensRegions() const { return compute.isF64() && !getComputeType(element).isF64(); }

  // Scalars, in the compute type.
  mlir::Value constant(double value);
  mlir::Value index(int64_t value);
  mlir::Value add(mlir::Value lhs, mlir::Value rhs);
  mlir::Value sub(mlir::Value lhs, mlir::Value rhs);
  mlir::Value mul(mlir::Value lhs, mlir::Value rhs);
  mlir::Value div(mlir::Value lhs, mlir::Value rhs);
  mlir::Value max(mlir::Value lhs, mlir::Value rhs);
  mlir::Value exp(mlir::Value value);
  mlir::Value log(mlir::Value value);
  mlir::Value isMinusInfinity(mlir::Value value);
  mlir::Value select(mlir::Value condition, mlir::Value ifTrue, mlir::Value ifFalse);
  /// Any floating value in the compute type.
  mlir::Value widen(mlir::Value value);
  /// Rounds an intermediate to the element type where the options ask for it.
  mlir::Value round(mlir::Value value);

  // Tensors.
  mlir::Value empty(llvm::ArrayRef<mlir::OpFoldResult> sizes, mlir::Type type = {});
  mlir::Value zeros(llvm::ArrayRef<mlir::OpFoldResult> sizes);
  /// `out[…] = body(ins[…]…, out[…])` over all loops, the last one innermost. Loops that `out` lacks are
  /// reductions.
  mlir::Value generic(llvm::ArrayRef<Access> ins, const Access &out,
                      llvm::function_ref<mlir::Value(mlir::ValueRange)> body);
  /// Elementwise conversion, also of scalars.
  mlir::Value convert(mlir::Value value, mlir::Type elementType);

  // Control flow.
  using Values = llvm::SmallVector<mlir::Value>;
  Values loop(mlir::Value end, mlir::Value step, mlir::ValueRange inits,
              llvm::function_ref<Values(mlir::Value, mlir::ValueRange)> body);
  Values ifElse(mlir::Value condition, mlir::TypeRange types, llvm::function_ref<Values()> thenBody,
                llvm::function_ref<Values()> elseBody);

  // Operands and results of the operation.
  /// The operand, in f64 where it came from an f64 boundary.
  mlir::Value operand(mlir::Value value);
  /// The element type that results of `elementType` are computed in.
  mlir::Type resultElement(mlir::Type elementType) const {
    return options.f64Boundary ? mlir::Type(compute) : elementType;
  }
  /// Replaces a result of the operation by a tensor of `resultElement`.
  void replaceResult(mlir::Value result, mlir::Value value);

  mlir::FloatType compute;
  mlir::Type element;

private:
  const ReferenceOptions &options;
};

/// The operands of an attention, and its loop over chunks of query rows.
class ReferenceAttention {
public:
  ReferenceAttention(ReferenceBuilder &b, AttentionOpInterface op);

  /// A chunk of query rows of one batch entry and head.
  struct Chunk {
    mlir::Value batch, head, keyHead, begin, rows;
  };
  /// Scaled dot products, and the scores: -inf exactly where the mask drops the pair.
  struct Scores {
    mlir::Value scaled, score;
  };

  /// Runs `body` for every chunk, threading `inits` through.
  ReferenceBuilder::Values
  forEachChunk(mlir::ValueRange inits,
               llvm::function_ref<ReferenceBuilder::Values(Chunk, mlir::ValueRange)> body);
  Scores buildScores(Chunk chunk);
  /// A contraction `(i, j, c)` of two tiles.
  mlir::Value buildProduct(const Access &lhs, const Access &rhs, const Access &out, mlir::Value score = {});

  /// The rows of a tensor over queries, or the keys of a tensor over keys, that a chunk reads or writes.
  mlir::Value rowsOf(mlir::Value tensor, Chunk chunk);
  mlir::Value keysOf(mlir::Value tensor, Chunk chunk);
  mlir::Value insertRows(mlir::Value tile, mlir::Value tensor, Chunk chunk);
  mlir::Value insertKeys(mlir::Value tile, mlir::Value tensor, Chunk chunk);

  mlir::Value query, key, value;
  ReferenceBuilder::Values captures;
  llvm::SmallVector<mlir::OpFoldResult> querySizes, keySizes, valueSizes;
  RegionInlining inlining;
  mlir::Value scale;

private:
  ReferenceBuilder &b;
  AttentionOpInterface op;
};

/// Replaces the operation. It has been checked by `verifyReference`.
void decomposeAttention(AttentionOp op, const ReferenceOptions &options);
void decomposeAttentionBackward(AttentionBackwardOp op, const ReferenceOptions &options);
void decomposeMerge(MergeOp op, const ReferenceOptions &options);
} // namespace attn

#endif // ATTN_PASSES_REFERENCEBUILDER_H
