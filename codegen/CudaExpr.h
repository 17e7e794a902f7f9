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

struct Expr {
  std::string text;
  Precedence precedence = Precedence::Primary;
};

/// `left op right`, with the parentheses that C++ needs and those that a reader would miss.
Expr makeBinary(llvm::StringRef op, Precedence precedence, const Expr &left, const Expr &right);
Expr makeUnary(llvm::StringRef op, const Expr &operand);
Expr makeConditional(const Expr &condition, const Expr &onTrue, const Expr &onFalse);
/// A call, or a conversion written like one.
Expr makeCall(const llvm::Twine &function, llvm::ArrayRef<Expr> arguments);
/// A number, exactly.
Expr makeLiteral(const llvm::APFloat &value, mlir::Type type);
Expr makeLiteral(const llvm::APInt &value, mlir::Type type);
/// A float expression computed in `float` (from 16-bit operands) as a value of `type`.
Expr makeRounded(mlir::Type type, Expr value);

/// Whether an operation is a scalar one of which `buildExpr` knows the form.
bool hasExpr(mlir::Operation *op);

/// The expression of a pure scalar operation with one result. Every operand is printed once. Fails, with an
/// error on the operation, where it has no form.
mlir::FailureOr<Expr> buildExpr(mlir::Operation *op, llvm::ArrayRef<Expr> operands);

/// The same of the math dialect; no value where the operation is unknown.
std::optional<Expr> buildMathExpr(mlir::Operation *op, llvm::ArrayRef<Expr> operands);

} // namespace attn::cuda

#endif // ATTN_CODEGEN_CUDAEXPR_H
