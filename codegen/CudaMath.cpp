//===- CudaMath.cpp - math operations as C++ expressions --------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "codegen/CudaExpr.h"
#include "codegen/CudaTypes.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace attn;
using namespace attn::cuda;

static bool isApproximate(Operation *op) {
  auto flags = dyn_cast<arith::ArithFastMathInterface>(op);
  return flags &&
         arith::bitEnumContainsAll(flags.getFastMathFlagsAttr().getValue(), arith::FastMathFlags::afn);
}

/// CUDA's function of doubles for operations of floats; that of floats has an f appended.
static StringRef getFunction(Operation *op) {
  return llvm::StringSwitch<StringRef>(op->getName().stripDialect())
      .Cases({"acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt"},
             op->getName().stripDialect())
      .Cases({"ceil", "copysign", "cos", "cosh", "erf", "erfc", "exp", "exp2"}, op->getName().stripDialect())
      .Cases({"expm1", "floor", "fma", "log", "log10", "log1p", "log2", "round"},
             op->getName().stripDialect())
      .Cases({"rsqrt", "sin", "sinh", "sqrt", "tan", "tanh", "trunc"}, op->getName().stripDialect())
      .Case("absf", "fabs")
      .Case("powf", "pow")
      .Case("roundeven", "rint")
      .Default("");
}

/// The hardware's approximation, a function of floats; empty where there is none.
static StringRef getApproximation(Operation *op) {
  return llvm::StringSwitch<StringRef>(op->getName().stripDialect())
      .Case("exp", "exp_approx")
      .Case("exp2", "exp2_approx")
      .Case("log", "log_approx")
      .Case("log2", "log2_approx")
      .Case("tanh", "tanh_approx")
      .Default("");
}

std::optional<CudaExpr> cuda::buildMathExpr(Operation *op, ArrayRef<CudaExpr> operands) {
  Type type = op->getResult(0).getType();
  if (StringRef function = getApproximation(op); !function.empty() && isApproximate(op) && !type.isF64())
    return makeRounded(type, makeCall(function, operands));
  if (StringRef function = getFunction(op); !function.empty())
    return makeRounded(type, makeCall(function + (type.isF64() ? "" : "f"), operands));
  return llvm::TypeSwitch<Operation *, std::optional<CudaExpr>>(op)
      .Case([&](math::AbsIOp) { return makeCall("wrap_abs", operands); })
      .Case([&](math::FPowIOp power) -> std::optional<CudaExpr> {
        if (getIntegerWidth(power.getRhs().getType()) > 32)
          return std::nullopt;
        std::string computed = type.isF64() ? "double" : "float";
        return makeRounded(type, makeCall("power<" + computed + ">", operands));
      })
      .Case([&](math::CountLeadingZerosOp) { return makeCall("count_leading_zeros", operands); })
      .Case([&](math::CountTrailingZerosOp) { return makeCall("count_trailing_zeros", operands); })
      .Case([&](math::CtPopOp) { return makeCall("count_ones", operands); })
      .Case([&](math::IsNaNOp) { return makeCall("is_nan", operands); })
      .Case([&](math::IsInfOp) { return makeCall("is_infinite", operands); })
      .Case([&](math::IsFiniteOp) { return makeCall("is_finite", operands); })
      .Default([](Operation *) { return std::nullopt; });
}
