//===- Contract.cpp - the error that a result may have ------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/common/Contract.h"
#include "llvm/ADT/APFloat.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace attn;

double attn::getUlp(FloatType type, double value) {
  const llvm::fltSemantics &semantics = type.getFloatSemantics();
  auto precision = static_cast<int>(APFloat::semanticsPrecision(semantics));
  int exponent = APFloat::semanticsMinExponent(semantics);
  if (value != 0 && std::isfinite(value))
    exponent = std::max(exponent, std::ilogb(value));
  return std::ldexp(1.0, exponent - (precision - 1));
}

MaxError attn::getMaxError(const HostTensor &tensor, const HostTensor &reference) {
  MaxError max;
  for (int64_t i = 0, count = reference.getNumElements(); i < count; ++i) {
    double value = tensor.get(i), expected = reference.get(i);
    double error = std::abs(value - expected);
    if (!std::isfinite(value) || !std::isfinite(expected))
      error = value == expected || (std::isnan(value) && std::isnan(expected)) ? 0 : INFINITY;
    if (error > max.error)
      max = {error, i};
  }
  return max;
}

ContractCheck attn::checkContract(const HostTensor &ours, const HostTensor &standard,
                                  const HostTensor &reference) {
  return checkContract(ours, getMaxError(standard, reference).error, reference);
}

ContractCheck attn::checkContract(const HostTensor &ours, double standardError, const HostTensor &reference) {
  double magnitude = 0;
  for (int64_t i = 0, count = reference.getNumElements(); i < count; ++i)
    if (double value = std::abs(reference.get(i)); std::isfinite(value))
      magnitude = std::max(magnitude, value);
  ContractCheck check;
  check.ours = getMaxError(ours, reference);
  check.standardError = standardError;
  check.ulp = getUlp(cast<FloatType>(ours.getElementType()), magnitude);
  check.numUlps = ours.getElementType().isF64() ? 64 : 1;
  check.bound = 2 * check.standardError + check.numUlps * check.ulp;
  // Where the standard computation breaks down (an intermediate overflows f16, say) its error bounds nothing.
  if (!std::isfinite(check.bound))
    check.bound = check.numUlps * check.ulp;
  check.passes = check.ours.error <= check.bound;
  return check;
}

std::string attn::formatPosition(int64_t index, ArrayRef<int64_t> shape) {
  SmallVector<int64_t> position(shape.size());
  for (size_t dim = shape.size(); dim-- > 0;) {
    position[dim] = index % shape[dim];
    index /= shape[dim];
  }
  std::string text = "[";
  for (auto [dim, value] : llvm::enumerate(position))
    text += (dim ? ", " : "") + std::to_string(value);
  return text + "]";
}
