//===- Program.h - compiled functions over host tensors ----------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TOOLS_COMMON_PROGRAM_H
#define ATTN_TOOLS_COMMON_PROGRAM_H

#include "passes/Pipelines.h"
#include "runtime/jit/CpuExecutable.h"
#include "runtime/jit/EntryPoint.h"
#include "tools/common/HostTensor.h"

namespace attn {
struct GpuMachine;

/// How attention becomes loops: the schedule's numbers given by hand; 0 leaves the choice to the compiler.
struct LoweringSettings {
  bool reference = false; ///< --attn-decompose-reference instead of tiles
  int64_t blockM = 0, blockN = 0, kvSplits = 0;
  LoopOrder order = LoopOrder::query_outer;
  std::optional<bool> blockLists;  ///< for masks that depend on data; by default for a GPU
  std::string family = "auto";     ///< of GPU kernels
  bool exactMaximum = false;       ///< of the hopper family
  llvm::SmallVector<int64_t> tile; ///< of GPU kernels, in full
};

/// The same as options of the pipelines.
void setPipelineOptions(PlanPipelineOptions &pipeline, const LoweringSettings &lowering);
void setPipelineOptions(CudaPipelineOptions &pipeline, const LoweringSettings &lowering);

struct ProgramOptions {
  std::string target = "host"; ///< or x86-64, x86-64-v3, x86-64-v4; to plan only also sm_80, …
  std::optional<int> gpu;      ///< instead of `target`: the CUDA device of that number
  int threads = 0;             ///< 0: all hardware threads
  LoweringSettings lowering;

  /// What 0 stands for is filled in.
  int getNumThreads() const;
  /// For what the CPU does whatever the target is: references, and the ranges of masks. A program for a CPU
  /// keeps its options.
  ProgramOptions forCpu() const;
};

/// The number of a CUDA device as an option names it; 0 for no text.
llvm::Expected<int> parseDevice(llvm::StringRef text);

/// The machine that the options name.
llvm::Expected<TargetAttr> getTarget(mlir::MLIRContext *context, const ProgramOptions &options);
/// The same, if it is a GPU; none for a CPU.
llvm::Expected<std::optional<GpuMachine>> getGpuMachine(const ProgramOptions &options);

/// The dialects and interfaces that the tools and their pipelines need; called before a context is made.
void registerToolDialects(mlir::DialectRegistry &registry);

/// A module compiled for this machine.
class Program {
public:
  /// Attention ops become loops as the options say; everything else is compiled as it stands.
  static llvm::Expected<Program> compile(mlir::OwningOpRef<mlir::ModuleOp> module,
                                         const ProgramOptions &options);

  /// Runs a public function. `results` have their shapes; they are filled with NaN first, so that what the
  /// function leaves out shows.
  llvm::Error call(llvm::StringRef function, llvm::ArrayRef<const HostTensor *> inputs,
                   llvm::MutableArrayRef<HostTensor> results) const;

  /// The arguments and results of a function; null if there is none of that name.
  mlir::FunctionType getSignature(llvm::StringRef function) const {
    return executable->getSignature(function);
  }

  /// The same again and again, for timing: `results` are not filled first.
  std::function<llvm::Error()> prepare(llvm::StringRef function, llvm::ArrayRef<const HostTensor *> inputs,
                                       llvm::MutableArrayRef<HostTensor> results) const;

private:
  std::shared_ptr<CpuExecutable> executable;
};

} // namespace attn

#endif // ATTN_TOOLS_COMMON_PROGRAM_H
