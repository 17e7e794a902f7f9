//===- GpuRuntime.cpp - what all executables of a process share -------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/GpuRuntime.h"

namespace attn {

StatusOr<std::shared_ptr<GpuRuntime>> GpuRuntime::create(std::shared_ptr<KernelCompiler> compiler,
                                                         const CudaDriver *driver) {
  if (!driver) {
    StatusOr<const CudaDriver *> found = CudaDriver::get();
    if (!found.ok())
      return found.getStatus();
    driver = *found;
  }
  return std::shared_ptr<GpuRuntime>(new GpuRuntime(std::move(compiler), *driver));
}

StatusOr<cuda::Module> GpuRuntime::load(uint64_t contextId, const CompiledModule &module) {
  std::lock_guard<std::mutex> lock(mutex);
  cuda::Module &loaded = modules[{contextId, module.key}];
  if (loaded)
    return loaded;
  RelaxedCaptureScope relaxed(driver);
  cuda::Result result = driver.moduleLoadData(&loaded, module.getCubin().data());
  if (result) {
    loaded = nullptr;
    int version = 0;
    (void)driver.driverGetVersion(&version);
    return Status::failure(driver.check(result, "cuModuleLoadData").getMessage() +
                           "; the driver is for CUDA " + std::to_string(version / 1000) + "." +
                           std::to_string(version % 1000 / 10) + ", NVRTC must not be newer");
  }
  return loaded;
}

} // namespace attn
