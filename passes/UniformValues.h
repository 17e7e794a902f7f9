//===- UniformValues.h - mask values that are one for a whole block ---------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A value of a mask region that depends on neither index is *uniform*: every pair of a block sees the same
// one (lengths, captured scalars, captured tensors read at the batch entry or the head). It is cloned into
// the ranges region and stands there for a symbol.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PASSES_UNIFORMVALUES_H
#define ATTN_PASSES_UNIFORMVALUES_H

#include "dialect/AttnDialect.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/InferIntRangeInterface.h"

namespace attn {
class UniformValues {
public:
  /// Clones go to the insertion point of `builder`, in the entry block `ranges` of the ranges region.
  UniformValues(mlir::OpBuilder &builder, mlir::Block &mask, mlir::Block &ranges);

  /// Whether `value`, of the mask region, is uniform and can be evaluated outside of the mask.
  bool isUniform(mlir::Value value) { return getFacts(value).isUniform && getFacts(value).canHoist; }
  /// The value in the ranges region of a uniform value of the mask region.
  mlir::Value getOrClone(mlir::Value value);
  mlir::Value getQueryLength() { return getLength<QLenOp>(queryLength); }
  mlir::Value getKeyLength() { return getLength<KvLenOp>(keyLength); }
  /// The range of a value of the ranges region, uninitialized where that is not an integer.
  mlir::IntegerValueRange getRange(mlir::Value value);

private:
  struct Facts {
    bool isUniform;
    bool usesLength;
    /// Reads memory or may divide by zero, itself or in a region.
    bool mayFail;
    /// May run wherever the ranges are computed.
    bool canHoist;
  };
  Facts getFacts(mlir::Value value);
  Facts getFacts(mlir::Operation *op);
  Facts computeFacts(mlir::Operation *op);
  /// Whether arithmetic on indices, which the ranges compute in 64 bits, may come out differently in the 32
  /// that a mask has: constants make it overflow at numbers below 2^20, as in a hash.
  bool dependsOnIndexWidth(mlir::Operation *op);
  /// The range of an integer of the mask region where arguments and captures are below 2^20 in magnitude.
  mlir::ConstantIntRanges getUsualRange(mlir::Value value);

  template <typename LengthOp>
  mlir::Value getLength(mlir::Value &cached) {
    if (!cached)
      cached = LengthOp::create(builder, ranges.getArgument(RangesArgs::batch).getLoc(),
                                ranges.getArgument(RangesArgs::batch));
    return cached;
  }

  mlir::OpBuilder &builder;
  mlir::Block &mask, &ranges;
  mlir::IRMapping mapping;
  llvm::DenseMap<mlir::Operation *, Facts> facts;
  llvm::DenseMap<mlir::Value, mlir::IntegerValueRange> valueRanges;
  llvm::DenseMap<mlir::Value, mlir::ConstantIntRanges> usualRanges;
  mlir::Value queryLength, keyLength;
};
} // namespace attn

#endif // ATTN_PASSES_UNIFORMVALUES_H
