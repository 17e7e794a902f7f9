//===- Differentiate.h - backward functions, for C++ ------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PASSES_DIFFERENTIATE_H
#define ATTN_PASSES_DIFFERENTIATE_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace attn {
/// Makes `@<name>_backward` behind the function, as `--attn-differentiate` does. Reports what the function
/// lacks to be differentiated.
mlir::FailureOr<mlir::func::FuncOp> buildBackwardFunction(mlir::func::FuncOp func);
} // namespace attn

#endif // ATTN_PASSES_DIFFERENTIATE_H
