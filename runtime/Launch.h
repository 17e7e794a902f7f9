//===- Launch.h - a launch plan, ready to run on a device -------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_RUNTIME_LAUNCH_H
#define ATTN_RUNTIME_LAUNCH_H

#include "runtime/GpuRuntime.h"
#include <shared_mutex>

namespace attn {

/// Device memory that the caller lends to a call: 256-byte aligned, used on the call's stream only.
struct WorkspaceRef {
  void *data = nullptr;
  int64_t bytes = 0;
};

/// A compiled function on one device. Sources are compiled when a call first needs them, those of a variant
/// in parallel threads; sizes never lead to a compilation of their own. Calls from several threads at once
/// are fine.
class GpuExecutable {
public:
  /// `arch` is what to compile for; empty for the device's own.
  static StatusOr<std::unique_ptr<GpuExecutable>> create(std::shared_ptr<GpuRuntime> runtime, LaunchPlan plan,
                                                         int device, std::string arch = "");

  /// Puts the call on the stream, and returns without waiting for it. Everything is checked first; on failure
  /// nothing was launched, unless the driver itself refuses a kernel. Parameters and results are in the
  /// plan's order; results overlap no other tensor. Without a workspace of the caller's, memory is allocated
  /// when a stream first needs that much; otherwise a call allocates nothing on the device. May be captured
  /// into a graph, the first call too.
  Status launch(const std::vector<TensorRef> &parameters, const std::vector<TensorRef> &results,
                cuda::Stream stream, WorkspaceRef workspace = {});

  /// How much workspace that call needs.
  StatusOr<int64_t> getWorkspaceBytes(const std::vector<TensorRef> &parameters,
                                      const std::vector<TensorRef> &results) const;

  /// Which variant that call takes.
  StatusOr<size_t> selectVariant(const std::vector<TensorRef> &parameters,
                                 const std::vector<TensorRef> &results) const;

  /// Compiles what a variant needs, where that has not happened yet.
  Status compile(size_t variant);

  const LaunchPlan &getPlan() const { return plan; }
  const DeviceInfo &getDevice() const { return device; }
  /// What it is compiled for.
  const std::string &getArch() const { return arch; }

private:
  /// The kernels of a variant in one context, in the order of its launches.
  using LoadedKernels = std::vector<cuda::Function>;

  GpuExecutable(std::shared_ptr<GpuRuntime> runtime, LaunchPlan plan)
      : runtime(std::move(runtime)), plan(std::move(plan)) {}

  Status check(const std::vector<TensorRef> &parameters, const std::vector<TensorRef> &results) const;
  StatusOr<size_t> selectVariant(const EvaluationContext &context) const;
  /// With `compileMutex` held.
  Status compileMissing(size_t variant);
  StatusOr<const LoadedKernels *> getKernels(uint64_t contextId, size_t variant);
  StatusOr<cuda::Function> loadKernel(uint64_t contextId, const LaunchSpec &launch);

  std::shared_ptr<GpuRuntime> runtime;
  LaunchPlan plan;
  DeviceInfo device;
  std::string arch;
  std::mutex compileMutex;                             // of `compiled`, held while compiling and loading
  std::vector<std::optional<CompiledModule>> compiled; // by module
  std::shared_mutex kernelsMutex;                      // of `kernels`
  std::map<std::pair<uint64_t, size_t>, LoadedKernels> kernels; // by context and variant
};

} // namespace attn

#endif // ATTN_RUNTIME_LAUNCH_H
