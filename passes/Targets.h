//===- Targets.h - named targets ---------------------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PASSES_TARGETS_H
#define ATTN_PASSES_TARGETS_H

#include "dialect/AttnDialect.h"
#include "mlir/IR/BuiltinOps.h"

namespace attn {
/// The architecture called `name`, with `-` or `_` between its parts; none if there is no such.
std::optional<Arch> parseArch(llvm::StringRef name);

/// A machine of `arch` with the vector width that its instruction set guarantees, ordinary caches and one
/// core; for a GPU the shared memory of its compute capability. The runtime describes the machine it finds
/// more exactly.
TargetAttr getNamedTarget(mlir::MLIRContext *context, Arch arch);

/// The target that the module was given; null without.
TargetAttr getTarget(mlir::ModuleOp module);
} // namespace attn

#endif // ATTN_PASSES_TARGETS_H
