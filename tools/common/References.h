//===- References.h - the computations that results are checked against ------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TOOLS_COMMON_REFERENCES_H
#define ATTN_TOOLS_COMMON_REFERENCES_H

#include "tools/common/Contract.h"
#include "tools/common/Program.h"

namespace attn {

/// Makes of the function @f the functions @exact_f, its reference from f64 arguments to f64 results, and
/// @standard_f, the standard computation of the numeric contract.
mlir::LogicalResult addReferences(mlir::func::FuncOp function);

/// Whether the contract bounds the errors of the function by those of its form in f32: it holds attention on
/// f64 tensors.
bool needsF32Form(mlir::func::FuncOp function);

/// Makes every f64 of the module an f32.
void convertToF32(mlir::ModuleOp module);

/// A function of the program as a computation. Inputs are converted to the types of its arguments.
Computation getComputation(const Program &program, std::string name,
                           llvm::ArrayRef<llvm::SmallVector<int64_t>> resultShapes);

/// The computations of the entry, whose own is `ours`, that give results of the shapes of `results`.
llvm::Expected<Computations> compileComputations(const EntryPoint &entry, Computation ours,
                                                 llvm::ArrayRef<HostTensor> results,
                                                 const ProgramOptions &options);

} // namespace attn

#endif // ATTN_TOOLS_COMMON_REFERENCES_H
