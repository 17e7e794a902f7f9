//===- CompileCuda.h - from modules with attention to launch plans ----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_CODEGEN_COMPILECUDA_H
#define ATTN_CODEGEN_COMPILECUDA_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "runtime/KernelSpec.h"

namespace attn {
struct CudaPipelineOptions;
}

namespace attn::cuda {

/// Copies of a module, each lowered in one way so that it can be printed: for tensors whose rows are aligned
/// to 16 bytes, and for any (only that one if `options.aligned` is false). Of a module with a forward those
/// for some calls with aligned tensors follow, each with an `attn_tile.take_if` that says which: for short
/// lengths in the hopper family, and, where nobody chose the parts (`options.kvSplits` is 0), for long keys:
/// of few queries, and of so few that a tile has few rows. A module with kernels (gpu.module) is taken as it
/// is: one copy. The module must have an `attn.target` if it has attention.
mlir::FailureOr<llvm::SmallVector<mlir::OwningOpRef<mlir::ModuleOp>>>
lowerToCuda(mlir::ModuleOp module, const CudaPipelineOptions &options);

/// The launch plan of a function of modules that `lowerToCuda` made; of their only public one if `function`
/// is empty.
mlir::FailureOr<LaunchPlan> buildLaunchPlan(llvm::ArrayRef<mlir::OwningOpRef<mlir::ModuleOp>> modules,
                                            llvm::StringRef function);

} // namespace attn::cuda

#endif // ATTN_CODEGEN_COMPILECUDA_H
