//===- CpuExecutable.h - compiled functions, ready to run --------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_RUNTIME_JIT_CPUEXECUTABLE_H
#define ATTN_RUNTIME_JIT_CPUEXECUTABLE_H

#include "dialect/AttnDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "passes/SizeFormula.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"
#include <functional>
#include <variant>

namespace llvm {
class Module;
namespace orc {
class LLJIT;
} // namespace orc
} // namespace llvm

namespace attn {

/// A strided tensor in memory, of the caller. Strides count elements.
struct BufferRef {
  void *data = nullptr;
  llvm::SmallVector<int64_t> shape, strides;
  mlir::Type elementType;
};

/// A scalar in memory, of the caller; an index is 64 bits.
struct ScalarRef {
  const void *data = nullptr;
  mlir::Type type;
};

using Argument = std::variant<BufferRef, ScalarRef>;

/// A dynamic size of a result that follows from the arguments.
struct ResultSize {
  unsigned result, dim;
  SizeFormula formula;
};

struct CpuCompileOptions {
  /// The CPU to compile for; null for the module's `attn.target`, or the host where it has none.
  TargetAttr target;
  /// Threads that work on one call, the caller's included; 0 for all hardware threads.
  int numThreads = 0;
  /// Without, the code comes out of LLVM in a small part of the time and is several times slower: right for
  /// what runs once on little data.
  bool optimize = true;
  /// Keep the assembly text for `getAssembly`, at the price of generating code twice.
  bool keepAssembly = false;
  /// Called with the module in the LLVM dialect, and with the optimized LLVM IR.
  std::function<void(mlir::ModuleOp)> dumpLowered;
  std::function<void(llvm::Module &)> dumpOptimized;
};

/// The public functions of a module, compiled for a CPU by `--attn-to-cpu-pipeline`. Calls from several
/// threads at once are fine. The context of the module must outlive it: signatures are types of that context.
class CpuExecutable {
public:
  /// Compiles a copy of `module`.
  static llvm::Expected<std::unique_ptr<CpuExecutable>> compile(mlir::ModuleOp module,
                                                                const CpuCompileOptions &options = {});
  ~CpuExecutable();

  /// Calls the function `name` with its arguments, and one buffer for each result, which it fills. Buffers of
  /// results overlap no other. All are checked against the function's signature, and the dynamic sizes of
  /// results against those that the function gives them where `SizeFormula` knows these; else they must be
  /// right.
  llvm::Error run(llvm::StringRef name, llvm::ArrayRef<Argument> arguments,
                  llvm::ArrayRef<BufferRef> results) const;

  /// The arguments and results of a function as they were before compilation; null if there is none of that
  /// name.
  mlir::FunctionType getSignature(llvm::StringRef name) const;

  TargetAttr getTarget() const { return target; }
  /// The assembly text, if it was kept.
  llvm::Expected<llvm::StringRef> getAssembly() const;
  /// The ELF object as it was loaded.
  llvm::StringRef getObject() const { return object; }

private:
  using EntryPoint = void (*)(const uint64_t *slots);
  struct Function {
    mlir::FunctionType signature;
    llvm::SmallVector<ResultSize> resultSizes;
    EntryPoint entryPoint = nullptr;
  };

  CpuExecutable() = default;

  TargetAttr target;
  int numThreads = 0;
  llvm::StringMap<Function> functions;
  std::unique_ptr<llvm::orc::LLJIT> jit;
  std::string assembly, object;
};

} // namespace attn

#endif // ATTN_RUNTIME_JIT_CPUEXECUTABLE_H
