//===- Signature.h - what a function takes and returns, for callers ---------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_RUNTIME_JIT_SIGNATURE_H
#define ATTN_RUNTIME_JIT_SIGNATURE_H

#include "runtime/KernelSpec.h"
#include "runtime/jit/EntryPoint.h"

namespace attn {

/// The parameters of the entry under their names, and what attention requires of their sizes: that query, key
/// and value agree, and that captures are as long as the regions read them. The result is a launch plan
/// without results and variants.
llvm::Expected<LaunchPlan> describeParameters(const EntryPoint &entry);

/// The results of the entry, with their sizes as expressions of those of the parameters. `loops` is the
/// module with attention lowered to loops on tensors (`buildAttentionPipeline`).
llvm::Expected<std::vector<ResultSpec>> describeResults(const EntryPoint &entry, mlir::ModuleOp loops);

} // namespace attn

#endif // ATTN_RUNTIME_JIT_SIGNATURE_H
