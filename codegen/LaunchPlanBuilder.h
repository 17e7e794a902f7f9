//===- LaunchPlanBuilder.h - launch plans of lowered functions --------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A lowered function (`--attn-to-cuda-pipeline`) computes sizes from the dimensions of its parameters and
// launches kernels:
//
//   | in the function                                    | in the plan                                     |
//   |----------------------------------------------------|-------------------------------------------------|
//   | argument                                           | parameter, named by the argument's NameLoc      |
//   | argument with `attn.result = [[0, 0], 4, [0, 2]]`  | result; its sizes are constants or              |
//   |                                                    | [argument, dim]                                 |
//   | memref.dim, arith on indices                       | expression                                      |
//   | memref.alloc (named by its NameLoc)                | workspace                                       |
//   | linalg.fill with zero, before the first launch     | `zeroed` of the workspace or result             |
//   | `attn_tile.left_zero` on memref.alloc              | `left_zero` of the workspace                    |
//   | cf.assert                                          | requirement                                     |
//   | gpu.launch_func                                    | launch                                          |
//   | attn_tile.tensor_map that a launch takes           | tensor map, and that its tensor is aligned      |
//
// attn_tile.take_if is a condition of the variant, which then stands before those without one. memref.cast
// and memref.dealloc mean nothing. Anything else is an error on the operation.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_CODEGEN_LAUNCHPLANBUILDER_H
#define ATTN_CODEGEN_LAUNCHPLANBUILDER_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "runtime/KernelSpec.h"

namespace attn::cuda {

/// What a launch plan calls a scalar type (i64 for index); none where it cannot pass it.
std::optional<ElementType> getElementKind(mlir::Type type);

/// The plan of one function, from one or more modules that lower it in different ways, each through
/// `buildEmissionPipeline`. A variant may be taken where the tensors that its kernels access in 16 bytes at a
/// time
/// (`aligned`) are aligned; the first such variant is.
mlir::FailureOr<LaunchPlan> buildLaunchPlan(llvm::ArrayRef<mlir::func::FuncOp> variants);

} // namespace attn::cuda

#endif // ATTN_CODEGEN_LAUNCHPLANBUILDER_H
