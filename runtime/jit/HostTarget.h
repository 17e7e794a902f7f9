//===- HostTarget.h - the machine that this process runs on ------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_RUNTIME_JIT_HOSTTARGET_H
#define ATTN_RUNTIME_JIT_HOSTTARGET_H

#include "dialect/AttnDialect.h"
#include "llvm/Support/Error.h"

namespace attn {
/// The host: the highest of our CPU architectures that it supports, its caches and its cores.
TargetAttr getHostTarget(mlir::MLIRContext *context);

/// `host`, or the name of an architecture (`x86-64-v3` or `x86_64_v3`). On the host's own architecture or an
/// older one, caches and cores are the host's: only the instruction set is the named one.
llvm::Expected<TargetAttr> parseTarget(mlir::MLIRContext *context, llvm::StringRef name);

/// Whether the host can run code for `arch`.
bool canRunOnHost(Arch arch);
} // namespace attn

#endif // ATTN_RUNTIME_JIT_HOSTTARGET_H
