//===- HostExpr.cpp - index arithmetic of the host as expressions of a plan -===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "codegen/HostExpr.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace attn;
using namespace attn::cuda;

bool cuda::isNonNegative(const Expr &expr) {
  switch (expr.kind) {
  case Expr::Kind::Constant:
    return expr.value >= 0;
  case Expr::Kind::Sub:
    return false;
  case Expr::Kind::Max:
    return llvm::any_of(expr.operands, isNonNegative);
  case Expr::Kind::Mod: // of a positive divisor
    return true;
  case Expr::Kind::Add:
  case Expr::Kind::Mul:
  case Expr::Kind::CeilDiv:
  case Expr::Kind::FloorDiv:
  case Expr::Kind::Min:
    return llvm::all_of(expr.operands, isNonNegative);
  default:
    return true;
  }
}

/// Toward zero, as arith divides.
static Expr divide(const Expr &left, const Expr &right) {
  if (isNonNegative(left))
    return Expr::floorDiv(left, right);
  return Expr::add(Expr::floorDiv(Expr::max(left, 0), right), Expr::ceilDiv(Expr::min(left, 0), right));
}

static Expr modulo(const Expr &left, const Expr &right) {
  if (isNonNegative(left))
    return Expr::mod(left, right);
  return Expr::sub(left, Expr::mul(divide(left, right), right));
}

static Expr negate(const Expr &condition) { return Expr::equal(condition, 0); }

static std::optional<Expr> compare(arith::CmpIPredicate predicate, const Expr &left, const Expr &right) {
  switch (predicate) {
  case arith::CmpIPredicate::eq:
    return Expr::equal(left, right);
  case arith::CmpIPredicate::ne:
    return negate(Expr::equal(left, right));
  case arith::CmpIPredicate::slt:
    return Expr::less(left, right);
  case arith::CmpIPredicate::sle:
    return Expr::lessEqual(left, right);
  case arith::CmpIPredicate::sgt:
    return Expr::less(right, left);
  case arith::CmpIPredicate::sge:
    return Expr::lessEqual(right, left);
  default:
    if (!isNonNegative(left) || !isNonNegative(right))
      return std::nullopt;
    break;
  }
  switch (predicate) {
  case arith::CmpIPredicate::ult:
    return Expr::less(left, right);
  case arith::CmpIPredicate::ule:
    return Expr::lessEqual(left, right);
  case arith::CmpIPredicate::ugt:
    return Expr::less(right, left);
  default:
    return Expr::lessEqual(right, left);
  }
}

FailureOr<Expr> cuda::buildHostExpr(Operation *op, ArrayRef<Expr> x) {
  bool isCondition = op->getNumResults() == 1 && op->getResult(0).getType().isInteger(1);
  bool isUnsigned = llvm::all_of(x, isNonNegative); // and signed as well
  auto expr =
      llvm::TypeSwitch<Operation *, std::optional<Expr>>(op)
          .Case([&](arith::ConstantOp constant) -> std::optional<Expr> {
            auto value = dyn_cast<IntegerAttr>(constant.getValue());
            if (!value || value.getValue().getBitWidth() > 64)
              return std::nullopt;
            return Expr(isCondition ? static_cast<int64_t>(value.getValue().getBoolValue())
                                    : value.getValue().getSExtValue());
          })
          .Case([&](arith::IndexCastOp) { return x[0]; })
          .Case([&](arith::ExtSIOp) -> std::optional<Expr> {
            if (op->getOperand(0).getType().isInteger(1)) // a signed true is -1
              return Expr::sub(0, x[0]);
            return x[0];
          })
          .Case<arith::ExtUIOp, arith::IndexCastUIOp>([&](auto) -> std::optional<Expr> {
            if (!isUnsigned)
              return std::nullopt;
            return x[0];
          })
          .Case([&](arith::AndIOp) -> std::optional<Expr> {
            if (!isCondition)
              return std::nullopt;
            return Expr::min(x[0], x[1]);
          })
          .Case([&](arith::OrIOp) -> std::optional<Expr> {
            if (!isCondition)
              return std::nullopt;
            return Expr::max(x[0], x[1]);
          })
          .Case([&](arith::XOrIOp) -> std::optional<Expr> {
            if (!isCondition)
              return std::nullopt;
            return negate(Expr::equal(x[0], x[1]));
          })
          .Case([&](arith::CmpIOp comparison) { return compare(comparison.getPredicate(), x[0], x[1]); })
          .Case([&](arith::SelectOp) -> std::optional<Expr> {
            // c is 0 or 1.
            return Expr::add(Expr::mul(x[0], x[1]), Expr::mul(negate(x[0]), x[2]));
          })
          .Default([](Operation *) { return std::nullopt; });
  if (!expr && !isCondition)
    expr = llvm::TypeSwitch<Operation *, std::optional<Expr>>(op)
               .Case([&](arith::AddIOp) { return Expr::add(x[0], x[1]); })
               .Case([&](arith::SubIOp) { return Expr::sub(x[0], x[1]); })
               .Case([&](arith::MulIOp) { return Expr::mul(x[0], x[1]); })
               .Case([&](arith::CeilDivSIOp) { return Expr::ceilDiv(x[0], x[1]); })
               .Case([&](arith::FloorDivSIOp) { return Expr::floorDiv(x[0], x[1]); })
               .Case([&](arith::DivSIOp) { return divide(x[0], x[1]); })
               .Case([&](arith::RemSIOp) { return modulo(x[0], x[1]); })
               .Case([&](arith::MinSIOp) { return Expr::min(x[0], x[1]); })
               .Case([&](arith::MaxSIOp) { return Expr::max(x[0], x[1]); })
               .Default([](Operation *) { return std::nullopt; });
  if (!expr && !isCondition && isUnsigned)
    expr = llvm::TypeSwitch<Operation *, std::optional<Expr>>(op)
               .Case([&](arith::CeilDivUIOp) { return Expr::ceilDiv(x[0], x[1]); })
               .Case([&](arith::DivUIOp) { return Expr::floorDiv(x[0], x[1]); })
               .Case([&](arith::RemUIOp) { return Expr::mod(x[0], x[1]); })
               .Case([&](arith::MinUIOp) { return Expr::min(x[0], x[1]); })
               .Case([&](arith::MaxUIOp) { return Expr::max(x[0], x[1]); })
               .Default([](Operation *) { return std::nullopt; });
  if (expr)
    return *expr;
  return op->emitOpError("has no place in a launch plan");
}
