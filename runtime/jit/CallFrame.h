//===- CallFrame.h - checked arguments of a compiled function ----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_RUNTIME_JIT_CALLFRAME_H
#define ATTN_RUNTIME_JIT_CALLFRAME_H

#include "runtime/jit/CpuExecutable.h"

namespace attn {
/// The parameters of a compiled function, one 64-bit slot each: of a buffer two pointers, the offset, the
/// sizes and the strides; of a scalar its bytes, in the low ones.
using CallFrame = llvm::SmallVector<uint64_t, 64>;

/// Checks arguments and result buffers against `signature`, and the sizes of results against `resultSizes`,
/// and lays them out. An error names the function, the value, what was expected and what it got.
llvm::Expected<CallFrame> buildCallFrame(llvm::StringRef name, mlir::FunctionType signature,
                                         llvm::ArrayRef<ResultSize> resultSizes,
                                         llvm::ArrayRef<Argument> arguments,
                                         llvm::ArrayRef<BufferRef> results);
} // namespace attn

#endif // ATTN_RUNTIME_JIT_CALLFRAME_H
