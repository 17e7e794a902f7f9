//===- HostExpr.h - index arithmetic of the host as expressions of a plan ---===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_CODEGEN_HOSTEXPR_H
#define ATTN_CODEGEN_HOSTEXPR_H

#include "mlir/IR/Operation.h"
#include "runtime/KernelSpec.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace attn::cuda {

/// Whether the value of an expression can be told never to be negative.
bool isNonNegative(const Expr &expr);

/// The expression of an arith operation on integers or conditions. Fails, with an error on the operation,
/// where it has none.
mlir::FailureOr<Expr> buildHostExpr(mlir::Operation *op, llvm::ArrayRef<Expr> operands);

} // namespace attn::cuda

#endif // ATTN_CODEGEN_HOSTEXPR_H
