//===- Contract.cpp - the error that a result may have ------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/common/Contract.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/MathExtras.h"
#include <cmath>
#include <random>

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

/// After so many computations a result may pass whose error is no more than half of what is allowed.
static constexpr int kFewComputations = 8;

/// How many computations say what the error of a result of so many elements is.
static int getNumComputations(int64_t numElements) {
  constexpr int64_t enoughErrors = 64, mostComputations = 32;
  if (numElements == 0)
    return 1;
  return static_cast<int>(std::min(mostComputations, llvm::divideCeilSigned(enoughErrors, numElements)));
}

/// A copy of the inputs in which the operands are smaller by up to 1/16, which overflows nothing.
static std::vector<HostTensor> perturb(ArrayRef<HostTensor> inputs, ArrayRef<bool> isOperand, int seed) {
  std::mt19937_64 random(seed);
  std::vector<HostTensor> perturbed;
  for (auto [input, changes] : llvm::zip_equal(inputs, isOperand)) {
    HostTensor &tensor = perturbed.emplace_back(input.castTo(input.getElementType()));
    if (!changes || !isa<FloatType>(tensor.getElementType()))
      continue;
    for (int64_t i = 0, count = tensor.getNumElements(); i < count; ++i)
      tensor.set(i, tensor.get(i) * (1 - std::ldexp(static_cast<double>(random() >> 11), -53 - 4)));
  }
  return perturbed;
}

namespace {
/// The reference of all results, and the largest error of the standard computation in each.
struct Reference {
  std::vector<HostTensor> exact;
  SmallVector<double> standardErrors;
};
} // namespace

static llvm::Expected<Reference> computeReference(const Computations &computations,
                                                  ArrayRef<HostTensor> inputs) {
  auto exact = computations.exact(inputs);
  if (!exact)
    return exact.takeError();
  auto standard = computations.standard(inputs);
  if (!standard)
    return standard.takeError();
  Reference reference;
  auto addErrors = [&](ArrayRef<HostTensor> standardExact) {
    for (auto [result, expected] : llvm::zip_equal(*standard, standardExact))
      reference.standardErrors.push_back(getMaxError(result, expected).error);
  };
  if (computations.exactOfF32) {
    auto exactOfF32 = computations.exactOfF32(inputs);
    if (!exactOfF32)
      return exactOfF32.takeError();
    addErrors(*exactOfF32);
    // 3/2, since the reference in f64 has such an error too.
    for (double &error : reference.standardErrors)
      error = std::ldexp(1.5 * error, 24 - 53);
  } else {
    addErrors(*exact);
  }
  reference.exact = std::move(*exact);
  return std::move(reference);
}

static bool hasNaN(const HostTensor &tensor) {
  for (int64_t i = 0, count = tensor.getNumElements(); i < count; ++i)
    if (std::isnan(tensor.get(i)))
      return true;
  return false;
}

static double getUlpOfResult(const HostTensor &result, const HostTensor &exact) {
  double magnitude = 0;
  for (int64_t i = 0, count = exact.getNumElements(); i < count; ++i)
    if (double value = std::abs(exact.get(i)); std::isfinite(value))
      magnitude = std::max(magnitude, value);
  return getUlp(cast<FloatType>(result.getElementType()), magnitude);
}

llvm::Expected<std::vector<ContractCheck>> attn::checkContract(const Computations &computations,
                                                               ArrayRef<HostTensor> inputs,
                                                               ArrayRef<HostTensor> results) {
  llvm::Expected<Reference> reference = computeReference(computations, inputs);
  if (!reference)
    return reference.takeError();
  bool canPerturb = computations.ours && llvm::is_contained(computations.isOperand, true);
  std::vector<ContractCheck> checks;
  int numComputations = 1;
  for (auto [result, exact, standardError] :
       llvm::zip_first(results, reference->exact, reference->standardErrors)) {
    ContractCheck &check = checks.emplace_back();
    check.worst = getMaxError(result, exact);
    check.isExactNaN = hasNaN(exact);
    if (exact.getNumElements() > 0) {
      check.got = result.get(check.worst.index);
      check.expected = exact.get(check.worst.index);
    }
    check.error = check.worst.error;
    if (!isa<FloatType>(result.getElementType()))
      continue;
    check.standardError = standardError;
    check.ulp = getUlpOfResult(result, exact);
    // Whatever the error of the standard computation is, the bound is at least an ulp.
    if (canPerturb && check.error > check.ulp)
      check.numComputations = getNumComputations(exact.getNumElements());
    numComputations = std::max(numComputations, check.numComputations);
  }

  // Until all computations are done the errors are sums of squares.
  auto square = [](double value) { return value * value; };
  for (ContractCheck &check : checks) {
    check.error = square(check.error);
    check.standardError = square(check.standardError);
  }
  for (int computation = 1; computation < numComputations; ++computation) {
    std::vector<HostTensor> perturbed = perturb(inputs, computations.isOperand, computation);
    llvm::Expected<Reference> more = computeReference(computations, perturbed);
    if (!more)
      return more.takeError();
    auto ours = computations.ours(perturbed);
    if (!ours)
      return ours.takeError();
    for (auto [index, check] : llvm::enumerate(checks)) {
      if (computation >= check.numComputations)
        continue;
      check.error += square(getMaxError((*ours)[index], more->exact[index]).error);
      check.standardError += square(more->standardErrors[index]);
    }
    if (computation + 1 == kFewComputations) {
      numComputations = 1;
      for (ContractCheck &check : checks) {
        if (check.error <= check.standardError)
          check.numComputations = std::min(check.numComputations, kFewComputations);
        numComputations = std::max(numComputations, check.numComputations);
      }
    }
  }
  for (ContractCheck &check : checks) {
    check.error = std::sqrt(check.error / check.numComputations);
    check.standardError = std::sqrt(check.standardError / check.numComputations);
    check.bound = 2 * check.standardError + check.ulp;
    // Where the standard computation breaks down (an intermediate overflows f16, say) its error bounds
    // nothing.
    if (!std::isfinite(check.bound))
      check.bound = check.ulp;
    check.passes = check.error <= check.bound;
  }
  return std::move(checks);
}

std::string attn::formatCheck(const ContractCheck &check) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << (check.numComputations > 1 ? "error " : "max error ") << llvm::format("%.3g", check.error);
  if (check.numComputations > 1)
    os << " (rms of " << check.numComputations << " computations)";
  os << llvm::format(", bound %.3g = 2 x %.3g + %.3g", check.bound, check.standardError, check.ulp);
  return text;
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
