//===- AttnRegions.h - verifiers of regions ----------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTNREGIONS_H
#define ATTN_DIALECT_ATTNREGIONS_H

#include "dialect/AttnDialect.h"

namespace attn {

/// The arguments of a region, what it yields, and the operations that it may hold (A5, A6, A8). `label` is
/// that of the constraint in the description of the operation. An empty region is right.
llvm::LogicalResult verifyMask(mlir::Operation *op, mlir::ValueRange captures, mlir::Region &mask,
                               llvm::StringRef label);
llvm::LogicalResult verifyRanges(mlir::Operation *op, mlir::ValueRange captures, mlir::Region &ranges,
                                 llvm::StringRef label);
llvm::LogicalResult verifyScoreAndMask(AttentionOpInterface op);
llvm::LogicalResult verifyGradient(AttentionOpInterface op, mlir::Region &gradient);

} // namespace attn

#endif // ATTN_DIALECT_ATTNREGIONS_H
