//===- Contract.h - the error that a result may have -------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Against an f64 reference, the largest error of a result is at most twice that of the standard computation
// (scores, probabilities and outputs each rounded to the input type, everything else in f32) plus one unit in
// the last place of the result's type at the largest magnitude of the reference.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TOOLS_COMMON_CONTRACT_H
#define ATTN_TOOLS_COMMON_CONTRACT_H

#include "tools/common/HostTensor.h"

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

struct ContractCheck {
  MaxError ours;
  double standardError = 0;
  double ulp = 0;
  int numUlps = 1;
  double bound = 0;
  bool passes = false;
};

/// All three have the same shape; `ours` has the type that the ulp is of.
ContractCheck checkContract(const HostTensor &ours, const HostTensor &standard, const HostTensor &reference);
/// The same where only the error of the standard computation is known.
ContractCheck checkContract(const HostTensor &ours, double standardError, const HostTensor &reference);

/// "[0, 3, 17, 5]": the position of an element in a tensor.
std::string formatPosition(int64_t index, llvm::ArrayRef<int64_t> shape);

} // namespace attn

#endif // ATTN_TOOLS_COMMON_CONTRACT_H
