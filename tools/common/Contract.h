//===- Contract.h - the error that a result may have -------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The numeric contract of dialect/README.md: against an f64 reference, the error of a result is at most twice
// that of the standard computation plus one unit in the last place of the result's type at the largest
// magnitude of the reference.
//
// The error of a computation is its largest over the elements of the result. Over few elements that is luck:
// of two equally good computations of one number, one is more than twice as far off as the other in three
// cases of ten. So the errors of a result of fewer than 64 elements are root mean squares over several
// computations, ours and the standard one alike, on inputs that differ by a few percent: as many as give 64
// errors, at most 32, and no more than 8 where the error is then below that of the standard computation.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TOOLS_COMMON_CONTRACT_H
#define ATTN_TOOLS_COMMON_CONTRACT_H

#include "tools/common/HostTensor.h"
#include "llvm/Support/Error.h"
#include <functional>
#include <vector>

namespace attn {

/// The distance from |value| to the next larger number of the type.
double getUlp(mlir::FloatType type, double value);

/// Largest |tensor - reference|. An infinity or a NaN has no error where the reference has the same, an
/// infinite one elsewhere.
struct MaxError {
  double error = 0;
  int64_t index = 0; ///< of the element, row-major
};
MaxError getMaxError(const HostTensor &tensor, const HostTensor &reference);

/// From the inputs of a function to its results.
using Computation = std::function<llvm::Expected<std::vector<HostTensor>>(llvm::ArrayRef<HostTensor> inputs)>;

/// One function, computed in several ways.
struct Computations {
  Computation ours; ///< null where it cannot be repeated: one computation has to do
  Computation exact, standard;
  /// For f64 tensors. The standard computation is then that of the same function in f32, and this is the
  /// reference of that: a reference in f64 rounds as we do and says nothing of our error; the error that f32
  /// has, as much smaller as f64 is more precise, does.
  Computation exactOfF32;
  /// Which inputs the regions do not read: those may change a little without changing what is computed.
  llvm::SmallVector<bool> isOperand;
};

/// The two sides of the contract for one result.
struct ContractCheck {
  /// Over how many computations the errors are root mean squares.
  int numComputations = 1;
  double error = 0, standardError = 0, ulp = 0, bound = 0;
  bool passes = false;
  bool isExactNaN = false; ///< of any element
  /// On the inputs as they were given.
  MaxError worst;
  double got = 0, expected = 0;
};

/// Checks `results`, what our computation has made of `inputs`. They may be fewer than those of the others.
/// Results that are no floating numbers have to be equal to the reference.
llvm::Expected<std::vector<ContractCheck>> checkContract(const Computations &computations,
                                                         llvm::ArrayRef<HostTensor> inputs,
                                                         llvm::ArrayRef<HostTensor> results);

/// "error 2e-07, bound 8e-07 = 2 x 3e-07 + 2e-07", and over how many computations.
std::string formatCheck(const ContractCheck &check);

/// "[0, 3, 17, 5]": the position of an element in a tensor.
std::string formatPosition(int64_t index, llvm::ArrayRef<int64_t> shape);

} // namespace attn

#endif // ATTN_TOOLS_COMMON_CONTRACT_H
