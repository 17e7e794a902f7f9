//===- ExprKinds.h - the names of kinds of expressions ----------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_RUNTIME_EXPRKINDS_H
#define ATTN_RUNTIME_EXPRKINDS_H

#include "runtime/KernelSpec.h"

namespace attn {
/// As JSON and messages write it: "ceildiv".
const char *getName(Expr::Kind kind);
} // namespace attn

#endif // ATTN_RUNTIME_EXPRKINDS_H
