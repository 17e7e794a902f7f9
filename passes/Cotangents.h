//===- Cotangents.h - the gradients that a reverse sweep accumulates --------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PASSES_COTANGENTS_H
#define ATTN_PASSES_COTANGENTS_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "passes/Guard.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"

namespace attn {
/// The gradient with respect to a value: `value` where all guards hold, outermost first, and exactly 0
/// elsewhere. The selects are left to the end, so that the derivative of what was not chosen may be anything,
/// infinities and NaN included.
struct Cotangent {
  mlir::Value value;
  llvm::SmallVector<Guard, 2> guards;
};

/// Gradients by value, in the order in which they came up.
using Cotangents = llvm::MapVector<mlir::Value, Cotangent>;

/// The part of a reverse sweep that rules see: one result of one operation, and where to put gradients of its
/// operands.
class DerivativeBuilder {
public:
  DerivativeBuilder(mlir::OpBuilder &builder, mlir::OpResult result, const Cotangent &cotangent,
                    const llvm::DenseSet<mlir::Value> &active, mlir::FloatType compute,
                    Cotangents &cotangents);

  /// The gradient with respect to the result, and operands and result, all in one type.
  mlir::Value d() const { return cotangent.value; }
  mlir::Value x(unsigned operand);
  mlir::Value y();
  mlir::Value widen(mlir::Value value);
  unsigned resultNumber() const { return result.getResultNumber(); }

  mlir::OpBuilder &getBuilder() { return builder; }
  mlir::Value constant(double value);
  mlir::Value neg(mlir::Value value);
  mlir::Value add(mlir::Value lhs, mlir::Value rhs);
  mlir::Value sub(mlir::Value lhs, mlir::Value rhs);
  mlir::Value mul(mlir::Value lhs, mlir::Value rhs);
  mlir::Value div(mlir::Value lhs, mlir::Value rhs);
  mlir::Value compare(mlir::arith::CmpFPredicate predicate, mlir::Value lhs, mlir::Value rhs);
  mlir::Value select(mlir::Value condition, mlir::Value ifTrue, mlir::Value ifFalse);
  /// lhs / rhs, and 0 where rhs is 0.
  mlir::Value divOrZero(mlir::Value lhs, mlir::Value rhs);
  /// `value` with the sign of x: 0 at 0.
  mlir::Value timesSign(mlir::Value value, mlir::Value x);
  template <typename OpTy>
  mlir::Value math(mlir::ValueRange operands) {
    mlir::Type resultType = type;
    mlir::NamedAttribute flags =
        builder.getNamedAttr("fastmath", mlir::arith::FastMathFlagsAttr::get(builder.getContext(), fastMath));
    return OpTy::create(builder, loc, mlir::TypeRange(resultType), operands, flags);
  }

  /// Adds to the gradient of an operand, where the guard holds.
  void give(unsigned operand, mlir::Value gradient);
  void give(unsigned operand, mlir::Value gradient, Guard guard);
  bool isActive(unsigned operand) const { return active.contains(result.getOwner()->getOperand(operand)); }

private:
  mlir::OpBuilder &builder;
  mlir::Location loc;
  mlir::OpResult result;
  const Cotangent &cotangent;
  const llvm::DenseSet<mlir::Value> &active;
  mlir::FloatType compute;
  Cotangents &cotangents;
  mlir::FloatType type;
  mlir::arith::FastMathFlags fastMath = mlir::arith::FastMathFlags::none;
};

/// The type that gradients of `type` are accumulated in: no narrower than `compute`.
mlir::FloatType getGradientType(mlir::Type type, mlir::FloatType compute);
/// Adds `cotangent` to what there is for `value`.
void accumulate(mlir::OpBuilder &builder, mlir::Location loc, Cotangents &cotangents, mlir::Value value,
                Cotangent cotangent);
/// The gradient as one value, its guards selected.
mlir::Value materialize(mlir::OpBuilder &builder, mlir::Location loc, const Cotangent &cotangent);

/// Whether all guards hold.
mlir::Value conjunction(mlir::OpBuilder &builder, mlir::Location loc, llvm::ArrayRef<Guard> guards);
/// The number of guards that both begin with.
size_t countCommonGuards(llvm::ArrayRef<Guard> lhs, llvm::ArrayRef<Guard> rhs);

/// Whether the operation is constant between the points where it jumps: its operands have no gradient.
bool isPiecewiseConstant(mlir::Operation *op);
/// Applies the rule of the operation, other than control flow and reads. Fails, without a message, where
/// there is none.
mlir::LogicalResult applyDerivativeRule(mlir::Operation *op, DerivativeBuilder &b);
} // namespace attn

#endif // ATTN_PASSES_COTANGENTS_H
