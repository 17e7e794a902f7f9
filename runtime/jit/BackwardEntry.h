//===- BackwardEntry.h - turns an entry point into its backward function -----===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_RUNTIME_JIT_BACKWARDENTRY_H
#define ATTN_RUNTIME_JIT_BACKWARDENTRY_H

#include "runtime/jit/EntryPoint.h"

namespace attn {

/// Runs `--attn-differentiate` on the entry and makes `@<entry>_backward` the new entry: of the arguments of
/// the old one, `out`, `lse` and the gradients of what that returned (`d_` and its name) to the gradients of
/// query, key, value and floating captures (`d_` and the argument). The old function stays in the module.
llvm::Error makeBackwardEntry(EntryPoint &entry);

} // namespace attn

#endif // ATTN_RUNTIME_JIT_BACKWARDENTRY_H
