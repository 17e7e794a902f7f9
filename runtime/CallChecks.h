//===- CallChecks.h - whether tensors fit a launch plan ---------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_RUNTIME_CALLCHECKS_H
#define ATTN_RUNTIME_CALLCHECKS_H

#include "runtime/KernelSpec.h"

namespace attn {

/// Checks the tensors of a call against what the plan says of them: number, element types, ranks, sizes,
/// strides (the last is 1; results do not overlap themselves, nor begin where another tensor does),
/// alignment, the device, and the plan's requirements. A kernel may then read and write whatever the sizes
/// and strides say.
Status checkCall(const LaunchPlan &plan, const std::vector<TensorRef> &parameters,
                 const std::vector<TensorRef> &results, int device, int64_t multiprocessors);

} // namespace attn

#endif // ATTN_RUNTIME_CALLCHECKS_H
