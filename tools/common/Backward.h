//===- Backward.h - turns an entry point into its gradients ------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TOOLS_COMMON_BACKWARD_H
#define ATTN_TOOLS_COMMON_BACKWARD_H

#include "runtime/jit/EntryPoint.h"

namespace attn {

/// Runs `--attn-differentiate` and makes the backward function of the entry the new entry. Its arguments that
/// are not the entry's are named `d_` and the result that they are the gradient of, its results `d_` and the
/// argument.
llvm::Error differentiateEntry(EntryPoint &entry);

} // namespace attn

#endif // ATTN_TOOLS_COMMON_BACKWARD_H
