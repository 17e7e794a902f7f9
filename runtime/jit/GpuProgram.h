//===- GpuProgram.h - from the text of a module to a launch plan ------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_RUNTIME_JIT_GPUPROGRAM_H
#define ATTN_RUNTIME_JIT_GPUPROGRAM_H

#include "runtime/CudaDriver.h"
#include "runtime/KernelCompiler.h"
#include "runtime/jit/EntryPoint.h"

namespace attn {
struct CudaPipelineOptions;
struct PlanPipelineOptions;

/// A function to compile, and how.
struct CompileRequest {
  std::string text;                 ///< Of a module, or its bytecode.
  std::string name = "module.mlir"; ///< What messages call the text.
  std::string entry;                ///< The function; empty for the only public one with attention.
  bool backward = false;            ///< Compile the backward function of the entry instead.
  int64_t blockM = 0, blockN = 0, kvSplits = 0; ///< Of the schedule; 0 chooses.
  int blockLists = 0;                           ///< Whether to compute block lists: 1 yes, -1 no, 0 chooses.
  bool tf32 = false;                            ///< Products of f32 tensors round their operands to tf32.
  bool deterministic = false;                   ///< Gradients are the same bit by bit from run to run.
  std::string family = "auto"; ///< Of GPU kernels: portable, hopper, or auto for the fastest that can be.
  bool exactMaximum = false;   ///< Probabilities are relative to the true maximum of their row.
};

/// What the request says of the lowering as options of a pipeline.
void setOptions(PlanPipelineOptions &options, const CompileRequest &request);
void setOptions(CudaPipelineOptions &options, const CompileRequest &request);

/// The dialects and interfaces that compiling needs.
void registerCompilerDialects(mlir::DialectRegistry &registry);

/// Removes what the function of the entry does not call; it may not even be compilable.
llvm::Error removeOtherFunctions(EntryPoint &entry);

/// Parses the text and selects the function, differentiated if the request says so. What it does not call is
/// removed.
llvm::Expected<EntryPoint> parseRequest(mlir::MLIRContext *context, const CompileRequest &request);

/// What the compiler needs to know of a GPU.
struct GpuMachine {
  std::string arch; ///< "sm_90a": what NVRTC compiles for.
  int64_t multiprocessors = 0, maxSharedBytesPerBlock = 0;

  static GpuMachine get(const DeviceInfo &device);
  /// A GPU of that architecture, of no particular size. Fails on a name that is none of a GPU that the
  /// compiler knows.
  static StatusOr<GpuMachine> get(const std::string &arch);
};

/// The machine as an attribute; its architecture is the newest that the compiler knows and the machine runs.
llvm::Expected<TargetAttr> getTarget(mlir::MLIRContext *context, const GpuMachine &machine);

/// The launch plan of the entry, alone in its module, which gets the machine as its target. Parameters and
/// results have the names of the entry.
llvm::Expected<LaunchPlan> lowerToLaunchPlan(EntryPoint &entry, const GpuMachine &machine,
                                             const CudaPipelineOptions &options);

/// The launch plan of the request, from the compiler's cache or by lowering. Its parameters and results have
/// the names of the text.
StatusOr<LaunchPlan> getLaunchPlan(KernelCompiler &compiler, const CompileRequest &request,
                                   const GpuMachine &machine);

/// A compiler with the device headers, as the environment says.
std::shared_ptr<KernelCompiler> createKernelCompiler(const Environment &environment);

} // namespace attn

#endif // ATTN_RUNTIME_JIT_GPUPROGRAM_H
