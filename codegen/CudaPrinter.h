//===- CudaPrinter.h - kernels as CUDA C++ ----------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_CODEGEN_CUDAPRINTER_H
#define ATTN_CODEGEN_CUDAPRINTER_H

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "llvm/Support/raw_ostream.h"

namespace attn::cuda {

/// Prints the functions of a module as one source, each operation as one statement or as part of one. Decides
/// nothing and changes nothing: the module must have been through `--attn-prepare-for-emission`. Fails, with
/// errors on the operations, where `verifyEmittable` does. The same module always gives the same text.
///
/// A discardable attribute `comment = "…"` of any operation becomes a line of comment before it.
mlir::LogicalResult printCuda(mlir::gpu::GPUModuleOp module, llvm::raw_ostream &os);

/// Checks that every operation and type has a CUDA C++ form.
mlir::LogicalResult verifyEmittable(mlir::gpu::GPUModuleOp module);

} // namespace attn::cuda

#endif // ATTN_CODEGEN_CUDAPRINTER_H
