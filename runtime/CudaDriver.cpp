//===- CudaDriver.cpp - the CUDA driver, opened when first needed -----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/CudaDriver.h"
#include <dlfcn.h>

namespace attn {

std::string getArchName(int major, int minor) {
  return "sm_" + std::to_string(major * 10 + minor) + (major >= 9 ? "a" : "");
}

StatusOr<CudaDriver> CudaDriver::open(const std::string &library) {
  void *handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return Status::failure(
        "the CUDA driver is missing: " + std::string(dlerror()) + " (looked for " + library +
        " where the dynamic linker looks: LD_LIBRARY_PATH, /etc/ld.so.cache, /lib, /usr/lib); "
        "it comes with NVIDIA's display driver");
  CudaDriver driver;
  std::string missing;
  auto resolve = [&](auto &function, const char *symbol, bool optional) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(handle, symbol));
    if (!function && !optional && missing.empty())
      missing = symbol;
  };
#define ATTN_CUDA_RESOLVE(name, symbol, parameters) resolve(driver.name, #symbol, false);
#define ATTN_CUDA_RESOLVE_OPTIONAL(name, symbol, parameters) resolve(driver.name, #symbol, true);
  ATTN_CUDA_FUNCTIONS(ATTN_CUDA_RESOLVE)
  ATTN_CUDA_OPTIONAL_FUNCTIONS(ATTN_CUDA_RESOLVE_OPTIONAL)
#undef ATTN_CUDA_RESOLVE
#undef ATTN_CUDA_RESOLVE_OPTIONAL
  if (!missing.empty())
    return Status::failure("the CUDA driver " + library + " has no function " + missing +
                           ", expected one of CUDA 11.4 or later");
  return driver;
}

StatusOr<const CudaDriver *> CudaDriver::get() {
  static const StatusOr<CudaDriver> driver = [] {
    StatusOr<CudaDriver> opened = open("libcuda.so.1");
    if (!opened.ok())
      return opened;
    if (Status status = opened->check(opened->init(0), "cuInit"); !status.ok())
      return StatusOr<CudaDriver>(status);
    // Before CUDA 12.3 launches with the attribute that it is used for cannot be captured.
    int version = 0;
    if (opened->driverGetVersion(&version) || version < 12030)
      opened->launchKernelEx = nullptr;
    return opened;
  }();
  if (!driver.ok())
    return driver.getStatus();
  return &*driver;
}

Status CudaDriver::check(cuda::Result result, const char *call) const {
  if (result == 0)
    return {};
  const char *name = nullptr, *text = nullptr;
  getErrorName(result, &name);
  getErrorString(result, &text);
  return Status::failure(std::string(call) + " failed: " + (name ? name : "error " + std::to_string(result)) +
                         (text ? " (" + std::string(text) + ")" : ""));
}

StatusOr<DeviceInfo> CudaDriver::query(int ordinal) const {
  int count = 0;
  if (Status status = check(deviceGetCount(&count), "cuDeviceGetCount"); !status.ok())
    return status;
  if (ordinal < 0 || ordinal >= count)
    return Status::failure("there is no CUDA device " + std::to_string(ordinal) + ": the driver sees " +
                           std::to_string(count));
  DeviceInfo info;
  info.ordinal = ordinal;
  cuda::Device device = 0;
  if (Status status = check(deviceGet(&device, ordinal), "cuDeviceGet"); !status.ok())
    return status;
  char name[256] = {};
  if (Status status = check(deviceGetName(name, sizeof(name) - 1, device), "cuDeviceGetName"); !status.ok())
    return status;
  info.name = name;

  Status failed;
  auto attribute = [&](cuda::DeviceAttribute which) {
    int value = 0;
    if (Status status = check(deviceGetAttribute(&value, which, device), "cuDeviceGetAttribute");
        !status.ok())
      failed = status;
    return value;
  };
  info.major = attribute(cuda::ComputeCapabilityMajor);
  info.minor = attribute(cuda::ComputeCapabilityMinor);
  info.multiprocessors = attribute(cuda::MultiprocessorCount);
  info.maxSharedBytesPerBlock = attribute(cuda::MaxSharedBytesPerBlockOptIn);
  info.sharedBytesPerMultiprocessor = attribute(cuda::MaxSharedBytesPerMultiprocessor);
  info.l2Bytes = attribute(cuda::L2CacheBytes);
  if (!failed.ok())
    return failed;
  size_t bytes = 0;
  if (Status status = check(deviceTotalMem(&bytes, device), "cuDeviceTotalMem"); !status.ok())
    return status;
  info.memoryBytes = static_cast<int64_t>(bytes);
  return info;
}

//===----------------------------------------------------------------------===//
// ContextScope
//===----------------------------------------------------------------------===//

StatusOr<ContextScope> ContextScope::enter(const CudaDriver &driver, int device) {
  ContextScope scope;
  cuda::Context current = nullptr;
  cuda::Device currentDevice = -1;
  if (Status status = driver.check(driver.contextGetCurrent(&current), "cuCtxGetCurrent"); !status.ok())
    return status;
  if (current)
    if (Status status = driver.check(driver.contextGetDevice(&currentDevice), "cuCtxGetDevice"); !status.ok())
      return status;
  if (currentDevice != device) {
    cuda::Context primary = nullptr;
    // Retained at each entry and never released: a count is cheaper than state, and to release the last would
    // destroy the context that other libraries of the process use too.
    if (Status status =
            driver.check(driver.primaryContextRetain(&primary, device), "cuDevicePrimaryCtxRetain");
        !status.ok())
      return status;
    if (Status status = driver.check(driver.contextSetCurrent(primary), "cuCtxSetCurrent"); !status.ok())
      return status;
    scope.driver = &driver;
    scope.outer = current;
    current = primary;
  }
  scope.id = reinterpret_cast<uintptr_t>(current);
  unsigned long long id = 0;
  if (driver.contextGetId && driver.contextGetId(current, &id) == 0)
    scope.id = id;
  return scope;
}

ContextScope::ContextScope(ContextScope &&other) noexcept
    : driver(std::exchange(other.driver, nullptr)), outer(other.outer), id(other.id) {}

ContextScope::~ContextScope() {
  if (driver)
    driver->contextSetCurrent(outer);
}

} // namespace attn
