//===- GpuRuntime.h - what all executables of a process share ---------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_RUNTIME_GPURUNTIME_H
#define ATTN_RUNTIME_GPURUNTIME_H

#include "runtime/KernelCompiler.h"
#include "runtime/WorkspacePool.h"

namespace attn {

/// The driver, the compiler, the code that is loaded and the memory that calls reuse. One serves any number
/// of devices, executables and threads.
class GpuRuntime {
public:
  /// On the driver that the machine has, or on one that the caller brings, which must outlive it.
  static StatusOr<std::shared_ptr<GpuRuntime>> create(std::shared_ptr<KernelCompiler> compiler,
                                                      const CudaDriver *driver = nullptr);

  const CudaDriver &getDriver() const { return driver; }
  KernelCompiler &getCompiler() { return *compiler; }
  WorkspacePool &getWorkspacePool() { return workspacePool; }

  /// The code in the current context, whose id is given. It stays loaded: a graph may hold its kernels, and a
  /// language with garbage collection may drop an executable in the middle of a capture.
  StatusOr<cuda::Module> load(uint64_t contextId, const CompiledModule &module);

private:
  GpuRuntime(std::shared_ptr<KernelCompiler> compiler, const CudaDriver &driver)
      : driver(driver), compiler(std::move(compiler)), workspacePool(driver) {}

  const CudaDriver &driver;
  std::shared_ptr<KernelCompiler> compiler;
  WorkspacePool workspacePool;
  std::mutex mutex; // of what follows
  /// By context and cache key.
  std::map<std::pair<uint64_t, std::string>, cuda::Module> modules;
};

} // namespace attn

#endif // ATTN_RUNTIME_GPURUNTIME_H
