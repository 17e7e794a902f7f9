//===- FakeCudaDriver.cpp - a driver that records what it is asked ----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/FakeCudaDriver.h"
#include <chrono>
#include <cstring>
#include <set>
#include <thread>

namespace attn::test {

FakeCuda &FakeCuda::get() {
  static FakeCuda fake;
  return fake;
}

namespace {
thread_local cuda::Context currentContext = reinterpret_cast<cuda::Context>(0x1000); // of device 0
thread_local int captureMode = cuda::CaptureGlobal;
std::mutex mutex;

cuda::Context getContext(cuda::Device device) {
  return reinterpret_cast<cuda::Context>(uintptr_t(0x1000 + device));
}

/// Of calls that a capture in global mode forbids.
void noteForbidden() {
  if (FakeCuda::get().captureId && captureMode != cuda::CaptureRelaxed)
    ++FakeCuda::get().forbiddenInCapture;
}

/// Names of kernels stay where they are, and their addresses are the functions.
cuda::Function internKernel(const char *name) {
  std::lock_guard<std::mutex> lock(mutex);
  static std::set<std::string> names;
  return reinterpret_cast<cuda::Function>(const_cast<std::string *>(&*names.insert(name).first));
}

const std::string &getKernelName(cuda::Function function) {
  return *reinterpret_cast<std::string *>(function);
}

cuda::Result launchKernel(cuda::Function function, unsigned gridX, unsigned gridY, unsigned gridZ,
                          unsigned blockX, unsigned, unsigned, unsigned sharedBytes, cuda::Stream stream,
                          void **arguments, void **extra) {
  FakeCuda &fake = FakeCuda::get();
  if (fake.launchResult || !fake.recordLaunches)
    return fake.launchResult;
  if (fake.launchMicroseconds)
    std::this_thread::sleep_for(std::chrono::microseconds(fake.launchMicroseconds));
  std::lock_guard<std::mutex> lock(mutex);
  if (extra)
    return 1;
  std::vector<std::string> values;
  for (size_t size : fake.argumentSizes[getKernelName(function)])
    values.emplace_back(static_cast<const char *>(arguments[values.size()]), size);
  fake.launches.push_back(
      {getKernelName(function), {gridX, gridY, gridZ}, blockX, sharedBytes, values, stream, false});
  return 0;
}

cuda::Result launchKernelEx(const cuda::LaunchConfig *config, cuda::Function function, void **arguments,
                            void **extra) {
  const auto &[grid, block, sharedBytes, stream, attributes, numAttributes] = *config;
  cuda::Result result = launchKernel(function, grid[0], grid[1], grid[2], block[0], block[1], block[2],
                                     sharedBytes, stream, arguments, extra);
  if (FakeCuda &fake = FakeCuda::get(); !result && !fake.launches.empty())
    fake.launches.back().startsEarly = numAttributes == 1 &&
                                       attributes->kind == cuda::ProgrammaticStreamSerialization &&
                                       attributes->value == 1;
  return result;
}

cuda::Result encodeTensorMap(void *map, int type, uint32_t rank, void *data, const uint64_t *sizes,
                             const uint64_t *strides, const uint32_t *box, const uint32_t *elementStrides,
                             int interleave, int swizzle, int promotion, int fill) {
  FakeCuda &fake = FakeCuda::get();
  if (reinterpret_cast<uintptr_t>(map) % 64)
    return 1;
  fake.tensorMaps.push_back({type,
                             data,
                             {sizes, sizes + rank},
                             {strides, strides + rank - 1},
                             {box, box + rank},
                             {elementStrides, elementStrides + rank},
                             interleave,
                             swizzle,
                             promotion,
                             fill});
  memset(map, static_cast<int>(fake.tensorMaps.size()), 128);
  return fake.encodeResult;
}

CudaDriver makeDriver() {
  CudaDriver driver;
  driver.driverGetVersion = [](int *version) { return *version = 13000, 0; };
  driver.getErrorName = [](cuda::Result, const char **text) { return *text = "CUDA_ERROR_FAKE", 0; };
  driver.getErrorString = [](cuda::Result, const char **text) { return *text = "as told", 0; };
  driver.deviceGetCount = [](int *count) { return *count = 2, 0; };
  driver.deviceGet = [](cuda::Device *device, int ordinal) { return *device = ordinal, 0; };
  driver.deviceGetName = [](char *name, int, cuda::Device) { return strcpy(name, "Fake H200"), 0; };
  driver.deviceTotalMem = [](size_t *bytes, cuda::Device) { return *bytes = size_t(1) << 37, 0; };
  driver.deviceGetAttribute = [](int *value, int attribute, cuda::Device) {
    const std::map<int, int> values = {{cuda::MultiprocessorCount, 132},
                                       {cuda::L2CacheBytes, 60 << 20},
                                       {cuda::ComputeCapabilityMajor, 9},
                                       {cuda::ComputeCapabilityMinor, 0},
                                       {cuda::MaxSharedBytesPerMultiprocessor, 233472},
                                       {cuda::MaxSharedBytesPerBlockOptIn, 232448}};
    auto it = values.find(attribute);
    return it == values.end() ? 1 : (*value = it->second, 0);
  };
  driver.primaryContextRetain = [](cuda::Context *context, cuda::Device device) {
    return *context = getContext(device), 0;
  };
  driver.contextGetCurrent = [](cuda::Context *context) { return *context = currentContext, 0; };
  driver.contextSetCurrent = [](cuda::Context context) { return currentContext = context, 0; };
  driver.contextGetDevice = [](cuda::Device *device) {
    return *device = static_cast<int>(reinterpret_cast<uintptr_t>(currentContext) - 0x1000), 0;
  };
  driver.contextGetId = [](cuda::Context context, unsigned long long *id) {
    return *id = FakeCuda::get().contextId * 16 + (reinterpret_cast<uintptr_t>(context) & 15), 0;
  };
  driver.moduleLoadData = [](cuda::Module *module, const void *image) {
    noteForbidden();
    ++FakeCuda::get().moduleLoads;
    *module = reinterpret_cast<cuda::Module>(const_cast<void *>(image));
    return FakeCuda::get().moduleLoadResult;
  };
  driver.moduleGetFunction = [](cuda::Function *function, cuda::Module module, const char *name) {
    // The code of a fake module lists its kernels.
    if (!strstr(reinterpret_cast<const char *>(module), name))
      return 500;
    return *function = internKernel(name), 0;
  };
  driver.functionSetAttribute = [](cuda::Function function, int attribute, int value) {
    std::lock_guard<std::mutex> lock(mutex);
    if (attribute == cuda::MaxDynamicSharedBytes)
      FakeCuda::get().maxDynamicSharedBytes[getKernelName(function)] = value;
    return 0;
  };
  driver.functionGetAttribute = [](int *value, int attribute, cuda::Function) {
    return *value = attribute == cuda::StaticSharedBytes ? FakeCuda::get().staticSharedBytes : 0, 0;
  };
  driver.launchKernel = launchKernel;
  driver.launchKernelEx = launchKernelEx;
  driver.tensorMapEncodeTiled = encodeTensorMap;
  driver.memAlloc = [](cuda::DevicePointer *data, size_t bytes) {
    std::lock_guard<std::mutex> lock(mutex);
    static cuda::DevicePointer next = 0x10000000;
    noteForbidden();
    *data = next;
    next += (bytes + 255) / 256 * 256 + 256;
    ++FakeCuda::get().allocations;
    return FakeCuda::get().memAllocResult;
  };
  driver.memFree = [](cuda::DevicePointer) {
    noteForbidden();
    return ++FakeCuda::get().frees, 0;
  };
  driver.memsetD8Async = [](cuda::DevicePointer data, unsigned char, size_t bytes, cuda::Stream) {
    return FakeCuda::get().memsets.push_back({data, bytes}), 0;
  };
  driver.streamSynchronize = [](cuda::Stream) { return noteForbidden(), 0; };
  driver.streamGetCaptureInfo = [](cuda::Stream, int *status, uint64_t *id) {
    *status = FakeCuda::get().captureId ? cuda::CaptureActive : cuda::CaptureNone;
    return *id = FakeCuda::get().captureId, 0;
  };
  driver.threadExchangeCaptureMode = [](int *mode) { return std::swap(*mode, captureMode), 0; };
  return driver;
}
} // namespace

const CudaDriver &FakeCuda::getDriver() {
  static const CudaDriver driver = makeDriver();
  return driver;
}

} // namespace attn::test
