//===- MachineCode.h - LLVM IR to an object file for one CPU -----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_RUNTIME_JIT_MACHINECODE_H
#define ATTN_RUNTIME_JIT_MACHINECODE_H

#include "dialect/AttnDialect.h"
#include "llvm/Support/CodeGen.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"

namespace llvm {
class Module;
class TargetMachine;
} // namespace llvm

namespace attn {
/// LLVM's description of exactly the CPU of `target`, whatever the host is, with a code generator that
/// optimizes or one that is quick.
llvm::Expected<std::unique_ptr<llvm::TargetMachine>> createTargetMachine(TargetAttr target,
                                                                         bool optimize = true);

/// Runs LLVM's optimizer for `machine`, as far as that optimizes. Vectors are as wide as the target's, which
/// LLVM would by itself halve on AVX-512.
void optimize(llvm::Module &module, llvm::TargetMachine &machine, TargetAttr target);

/// Assembly text or an object file. Lowers `module` on the way, so it is of no further use but to be emitted
/// again.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> emit(llvm::Module &module, llvm::TargetMachine &machine,
                                                         llvm::CodeGenFileType type);
} // namespace attn

#endif // ATTN_RUNTIME_JIT_MACHINECODE_H
