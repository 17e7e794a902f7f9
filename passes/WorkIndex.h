//===- WorkIndex.h - the number of a work item as digits ---------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PASSES_WORKINDEX_H
#define ATTN_PASSES_WORKINDEX_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace attn {

/// Takes the least significant digit of a mixed-radix number: `work` becomes what is left.
inline mlir::Value takeDigit(mlir::ImplicitLocOpBuilder &b, mlir::Value &work, mlir::Value base) {
  mlir::Value digit = mlir::arith::RemSIOp::create(b, work, base);
  work = mlir::arith::DivSIOp::create(b, work, base);
  return digit;
}

} // namespace attn

#endif // ATTN_PASSES_WORKINDEX_H
