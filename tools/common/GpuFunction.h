//===- GpuFunction.h - a compiled function on a GPU, over host tensors --------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TOOLS_COMMON_GPUFUNCTION_H
#define ATTN_TOOLS_COMMON_GPUFUNCTION_H

#include "runtime/DeviceBuffer.h"
#include "runtime/Launch.h"
#include "runtime/jit/GpuProgram.h"
#include "tools/common/GpuTimer.h"
#include "tools/common/Program.h"
#include "tools/common/Sizes.h"

namespace attn {

/// The launch plan of the entry for a machine that need not be here.
llvm::Expected<LaunchPlan> makeLaunchPlan(const EntryPoint &entry, const GpuMachine &machine,
                                          const LoweringSettings &lowering);

/// The compiler of kernels with the cache that the environment names, one a process.
llvm::Expected<std::shared_ptr<KernelCompiler>> getKernelCompiler();

/// The tensors of a call as the runtime sees them, all contiguous.
class CallTensors {
public:
  /// For parameters of these shapes. Nothing lies behind the addresses until they are set.
  static llvm::Expected<CallTensors> create(const LaunchPlan &plan,
                                            llvm::ArrayRef<llvm::SmallVector<int64_t>> shapes);
  static llvm::Expected<CallTensors> create(const LaunchPlan &plan, const SizeResolver &sizes);

  std::vector<TensorRef> parameters, results;

  EvaluationContext getContext(int64_t multiprocessors) const {
    return {parameters.data(), results.data(), multiprocessors};
  }

private:
  void add(std::vector<TensorRef> &tensors, ElementType type, llvm::ArrayRef<int64_t> shape);
  std::vector<std::unique_ptr<int64_t[]>> storage; // of sizes and strides
};

/// What a call on the machine of the options, which need not be here, begins with.
struct PlannedCall {
  static llvm::Expected<PlannedCall> create(const EntryPoint &entry, const SizeResolver &sizes,
                                            const ProgramOptions &options);

  GpuMachine machine;
  LaunchPlan plan;
  CallTensors tensors;
  std::shared_ptr<KernelCompiler> compiler;
};

/// A call whose tensors are on the device.
class GpuCall {
public:
  /// Puts one run on the default stream, and returns.
  llvm::Error launch();
  /// Waits, and copies the results to the host.
  llvm::Error read(llvm::MutableArrayRef<HostTensor> results) const;
  /// Seconds of one run on the device, by the protocol of GpuTimer.
  llvm::Expected<double> time();
  /// Seconds that this thread spends on putting one run on the stream: the mean over a few hundred.
  llvm::Expected<double> timeLaunch();
  /// Runs another function from here on, on the same tensors: it has the same parameters and results. These
  /// are filled with NaN.
  llvm::Error take(const class GpuFunction &function);

private:
  friend class GpuFunction;
  explicit GpuCall(std::shared_ptr<struct GpuState> state) : state(std::move(state)) {}
  llvm::Error fillResults();

  std::shared_ptr<struct GpuState> state; // its context is current when the buffers are freed
  CallTensors tensors;
  std::vector<DeviceBuffer> buffers;
  size_t firstResult = 0;          // in `buffers`
  std::unique_ptr<GpuTimer> timer; // with a buffer to flush caches with, so made when first needed
};

/// The function of an entry point, compiled for the GPU of the options.
class GpuFunction {
public:
  /// With the machine code for tensors of these sizes.
  static llvm::Expected<GpuFunction> compile(const EntryPoint &entry, const SizeResolver &sizes,
                                             const ProgramOptions &options);
  static llvm::Expected<GpuFunction> compile(PlannedCall call, int device);

  /// Copies the inputs to the device, fills the results there with NaN, and runs the function. `results` are
  /// where it goes from there, and have their shapes.
  llvm::Error call(llvm::ArrayRef<const HostTensor *> inputs,
                   llvm::MutableArrayRef<HostTensor> results) const;
  /// Only copies and fills. Scalars of `inputs` have to live as long as the call.
  llvm::Expected<GpuCall> prepare(llvm::ArrayRef<const HostTensor *> inputs) const;

  const DeviceInfo &getDevice() const;

private:
  friend class GpuCall;
  explicit GpuFunction(std::shared_ptr<struct GpuState> state) : state(std::move(state)) {}
  std::shared_ptr<struct GpuState> state;
};

} // namespace attn

#endif // ATTN_TOOLS_COMMON_GPUFUNCTION_H
