//===- CudaTypes.h - the C++ types of emitted code --------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_CODEGEN_CUDATYPES_H
#define ATTN_CODEGEN_CUDATYPES_H

#include "mlir/IR/Types.h"
#include <string>

namespace attn::cuda {

/// "int", "bf16", "float": the type that a value of an MLIR scalar type has. Empty if it has none. `index` is
/// int, i1 is bool, other integers are signed.
std::string getScalarType(mlir::Type type);

/// The same of an element in memory, where an index takes 64 bits.
std::string getElementType(mlir::Type type);

/// The type of a scalar, memref ("Tensor<bf16, 4>"), shared tile or fragment. Empty if it has none: a tensor
/// map is only ever a parameter of a kernel.
std::string getType(mlir::Type type);

/// 32 for index.
unsigned getIntegerWidth(mlir::Type type);

} // namespace attn::cuda

#endif // ATTN_CODEGEN_CUDATYPES_H
