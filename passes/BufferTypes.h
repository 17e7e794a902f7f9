//===- BufferTypes.h - types of buffers at function boundaries --------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PASSES_BUFFERTYPES_H
#define ATTN_PASSES_BUFFERTYPES_H

#include "mlir/IR/BuiltinTypes.h"

namespace attn {
/// Name of the attribute of an argument that takes a result of the function. Its value has, for each
/// dimension, its size if that is static, else [argument, dimension], where its size is that of an argument,
/// or [argument, dimension, divisor], where it is that divided and rounded up, else nothing ([]).
constexpr llvm::StringLiteral getResultAttrName() { return "attn.result"; }

/// The buffer in which a tensor crosses a function boundary: any offset and strides, but a last stride of 1,
/// without which every vector read of a row would become scalar reads.
mlir::MemRefType getBoundaryBufferType(mlir::RankedTensorType type);
} // namespace attn

#endif // ATTN_PASSES_BUFFERTYPES_H
