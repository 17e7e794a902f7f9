//===- CodegenPasses.h - the passes before kernels are printed --------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_CODEGEN_CODEGENPASSES_H
#define ATTN_CODEGEN_CODEGENPASSES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace attn {
#define GEN_PASS_DECL
#include "codegen/CodegenPasses.h.inc"

#define GEN_PASS_REGISTRATION
#include "codegen/CodegenPasses.h.inc"

/// From kernels in attn_tile to kernels that can be printed: all passes above.
void buildEmissionPipeline(mlir::OpPassManager &pm);
} // namespace attn

#endif // ATTN_CODEGEN_CODEGENPASSES_H
