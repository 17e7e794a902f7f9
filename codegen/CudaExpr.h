//===- CudaExpr.h - scalar operations as C++ expressions --------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_CODEGEN_CUDAEXPR_H
#define ATTN_CODEGEN_CUDAEXPR_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/APFloat.h"
#include <string>

namespace attn::cuda {

/// How tightly the outermost operator of an expression binds.
enum class Precedence {
  Conditional,
  LogicalOr,
  LogicalAnd,
  BitOr,
  BitXor,
  BitAnd,
  Equality,
  Relational,
  Shift,
  Additive,
  Multiplicative,
  Unary,
  Primary,
};

struct CudaExpr {
  std::string text;
  Precedence precedence = Precedence::Primary;
};

/// `left op right`, with the parentheses that C++ needs and those that a reader would miss.
CudaExpr makeBinary(llvm::StringRef op, Precedence precedence, const CudaExpr &left, const CudaExpr &right);
CudaExpr makeUnary(llvm::StringRef op, const CudaExpr &operand);
CudaExpr makeConditional(const CudaExpr &condition, const CudaExpr &onTrue, const CudaExpr &onFalse);
/// A call, or a conversion written like one.
CudaExpr makeCall(const llvm::Twine &function, llvm::ArrayRef<CudaExpr> arguments);
/// A number, exactly.
CudaExpr makeLiteral(const llvm::APFloat &value, mlir::Type type);
CudaExpr makeLiteral(const llvm::APInt &value, mlir::Type type);
/// A float expression computed in `float` (from 16-bit operands) as a value of `type`.
CudaExpr makeRounded(mlir::Type type, CudaExpr value);

/// Whether an operation is a scalar one of which `buildExpr` knows the form.
bool hasExpr(mlir::Operation *op);

/// The expression of a pure scalar operation with one result. Every operand is printed once. Fails, with an
/// error on the operation, where it has no form.
mlir::FailureOr<CudaExpr> buildExpr(mlir::Operation *op, llvm::ArrayRef<CudaExpr> operands);

/// The same of the math dialect; no value where the operation is unknown.
std::optional<CudaExpr> buildMathExpr(mlir::Operation *op, llvm::ArrayRef<CudaExpr> operands);

} // namespace attn::cuda

#endif // ATTN_CODEGEN_CUDAEXPR_H
