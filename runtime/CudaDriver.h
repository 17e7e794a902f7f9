//===- CudaDriver.h - the CUDA driver, opened when first needed -------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Nothing links to CUDA and no CUDA header is needed: what is used of the driver's interface, which is
// stable, is declared here, and libcuda.so.1 is opened at run time. The functions are data, so that tests can
// put their own.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_RUNTIME_CUDADRIVER_H
#define ATTN_RUNTIME_CUDADRIVER_H

#include "runtime/Status.h"
#include <cstddef>
#include <cstdint>
#include <string>

namespace attn {
namespace cuda {
using Result = int; // 0 is success
using Device = int;
using DevicePointer = uint64_t;
using Context = struct ContextHandle *;
using Module = struct ModuleHandle *;
using Function = struct FunctionHandle *;
using Stream = struct StreamHandle *;
using Event = struct EventHandle *;
using Graph = struct GraphHandle *;
using GraphExec = struct GraphExecHandle *;

/// The legacy default stream has two names. The third handle names another stream in each thread.
inline const Stream legacyStream = nullptr;
inline const Stream explicitLegacyStream = reinterpret_cast<Stream>(0x1);
inline const Stream perThreadStream = reinterpret_cast<Stream>(0x2);

enum DeviceAttribute : int {
  ClockKilohertz = 13,
  MultiprocessorCount = 16,
  L2CacheBytes = 38,
  ComputeCapabilityMajor = 75,
  ComputeCapabilityMinor = 76,
  MaxSharedBytesPerMultiprocessor = 81,
  MaxSharedBytesPerBlockOptIn = 97,
};
enum FunctionAttribute : int {
  StaticSharedBytes = 1,
  LocalBytes = 3,
  NumRegisters = 4,
  MaxDynamicSharedBytes = 8,
};
/// CUlaunchAttribute and CUlaunchConfig.
enum LaunchAttributeKind : int { ProgrammaticStreamSerialization = 6 };
struct LaunchAttribute {
  LaunchAttributeKind kind;
  alignas(8) int value;
  char rest[60];
};
struct LaunchConfig {
  unsigned grid[3], block[3], sharedBytes;
  Stream stream;
  const LaunchAttribute *attributes;
  unsigned numAttributes;
};
static_assert(sizeof(LaunchAttribute) == 72 && sizeof(LaunchConfig) == 56, "as cuda.h has them");
/// How a tensor map is encoded: CUtensorMapDataType and so on.
enum TensorMapType : int { TensorMapF16 = 6, TensorMapBF16 = 9 };
enum TensorMapInterleave : int { InterleaveNone = 0 };
enum TensorMapSwizzle : int { Swizzle128Bytes = 3 };
enum TensorMapPromotion : int { PromoteTo128Bytes = 2 };
enum TensorMapFill : int { FillZeros = 0 };
enum CaptureStatus : int { CaptureNone = 0, CaptureActive = 1, CaptureInvalidated = 2 };
enum CaptureMode : int { CaptureGlobal = 0, CaptureThreadLocal = 1, CaptureRelaxed = 2 };
} // namespace cuda

/// X(name, symbol, parameters): the functions every driver of CUDA 11.4 or later has.
#define ATTN_CUDA_FUNCTIONS(X)                                                                               \
  X(init, cuInit, (unsigned flags))                                                                          \
  X(driverGetVersion, cuDriverGetVersion, (int *version))                                                    \
  X(getErrorName, cuGetErrorName, (cuda::Result, const char **text))                                         \
  X(getErrorString, cuGetErrorString, (cuda::Result, const char **text))                                     \
  X(deviceGetCount, cuDeviceGetCount, (int *count))                                                          \
  X(deviceGet, cuDeviceGet, (cuda::Device *, int ordinal))                                                   \
  X(deviceGetName, cuDeviceGetName, (char *name, int length, cuda::Device))                                  \
  X(deviceGetAttribute, cuDeviceGetAttribute, (int *value, int attribute, cuda::Device))                     \
  X(deviceTotalMem, cuDeviceTotalMem_v2, (size_t *, cuda::Device))                                           \
  X(primaryContextRetain, cuDevicePrimaryCtxRetain, (cuda::Context *, cuda::Device))                         \
  X(contextGetCurrent, cuCtxGetCurrent, (cuda::Context *))                                                   \
  X(contextSetCurrent, cuCtxSetCurrent, (cuda::Context))                                                     \
  X(contextGetDevice, cuCtxGetDevice, (cuda::Device *))                                                      \
  X(contextSynchronize, cuCtxSynchronize, ())                                                                \
  X(moduleLoadData, cuModuleLoadData, (cuda::Module *, const void *image))                                   \
  X(moduleUnload, cuModuleUnload, (cuda::Module))                                                            \
  X(moduleGetFunction, cuModuleGetFunction, (cuda::Function *, cuda::Module, const char *name))              \
  X(functionSetAttribute, cuFuncSetAttribute, (cuda::Function, int attribute, int value))                    \
  X(functionGetAttribute, cuFuncGetAttribute, (int *value, int attribute, cuda::Function))                   \
  X(launchKernel, cuLaunchKernel,                                                                            \
    (cuda::Function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX, unsigned blockY,       \
     unsigned blockZ, unsigned sharedBytes, cuda::Stream, void **arguments, void **extra))                   \
  X(memAlloc, cuMemAlloc_v2, (cuda::DevicePointer *, size_t bytes))                                          \
  X(memFree, cuMemFree_v2, (cuda::DevicePointer))                                                            \
  X(memsetD8Async, cuMemsetD8Async, (cuda::DevicePointer, unsigned char value, size_t bytes, cuda::Stream))  \
  X(memcpyHtoD, cuMemcpyHtoD_v2, (cuda::DevicePointer, const void *, size_t bytes))                          \
  X(memcpyDtoH, cuMemcpyDtoH_v2, (void *, cuda::DevicePointer, size_t bytes))                                \
  X(streamCreate, cuStreamCreate, (cuda::Stream *, unsigned flags))                                          \
  X(streamDestroy, cuStreamDestroy_v2, (cuda::Stream))                                                       \
  X(streamSynchronize, cuStreamSynchronize, (cuda::Stream))                                                  \
  X(streamBeginCapture, cuStreamBeginCapture_v2, (cuda::Stream, int mode))                                   \
  X(streamEndCapture, cuStreamEndCapture, (cuda::Stream, cuda::Graph *))                                     \
  X(streamGetCaptureInfo, cuStreamGetCaptureInfo, (cuda::Stream, int *status, uint64_t *id))                 \
  X(threadExchangeCaptureMode, cuThreadExchangeStreamCaptureMode, (int *mode))                               \
  X(graphInstantiate, cuGraphInstantiateWithFlags,                                                           \
    (cuda::GraphExec *, cuda::Graph, unsigned long long flags))                                              \
  X(graphLaunch, cuGraphLaunch, (cuda::GraphExec, cuda::Stream))                                             \
  X(graphExecDestroy, cuGraphExecDestroy, (cuda::GraphExec))                                                 \
  X(graphDestroy, cuGraphDestroy, (cuda::Graph))                                                             \
  X(eventCreate, cuEventCreate, (cuda::Event *, unsigned flags))                                             \
  X(eventRecord, cuEventRecord, (cuda::Event, cuda::Stream))                                                 \
  X(eventSynchronize, cuEventSynchronize, (cuda::Event))                                                     \
  X(eventElapsedTime, cuEventElapsedTime, (float *milliseconds, cuda::Event begin, cuda::Event end))         \
  X(eventDestroy, cuEventDestroy_v2, (cuda::Event))

/// Those that may be null.
#define ATTN_CUDA_OPTIONAL_FUNCTIONS(X)                                                                      \
  X(launchKernelEx, cuLaunchKernelEx, /* 11.8; used from 12.3 on */                                          \
    (const cuda::LaunchConfig *, cuda::Function, void **arguments, void **extra))                            \
  X(contextGetId, cuCtxGetId, (cuda::Context, unsigned long long *id)) /* 12.0 */                            \
  X(tensorMapEncodeTiled, cuTensorMapEncodeTiled,                      /* 12.0 */                            \
    (void *map, int type, uint32_t rank, void *data, const uint64_t *sizes, const uint64_t *strides,         \
     const uint32_t *box, const uint32_t *elementStrides, int interleave, int swizzle, int promotion,        \
     int fill))

/// What the compiler and the launcher ask of a device.
struct DeviceInfo {
  int ordinal = 0;
  std::string name;
  int major = 0, minor = 0; ///< The compute capability.
  int multiprocessors = 0;
  int64_t maxSharedBytesPerBlock = 0; ///< Dynamic and static shared memory together, when a kernel opts in.
  int64_t sharedBytesPerMultiprocessor = 0;
  int64_t l2Bytes = 0;
  int64_t memoryBytes = 0;
};

/// The architecture to compile for: "sm_86", and from compute capability 9 on "sm_90a" with the features
/// that only this architecture has.
std::string getArchName(int major, int minor);

struct CudaDriver {
// Neither a name nor a list of parameters may stand in parentheses.
// NOLINTNEXTLINE(bugprone-macro-parentheses)
#define ATTN_CUDA_DECLARE(name, symbol, parameters) cuda::Result(*name) parameters = nullptr;
  ATTN_CUDA_FUNCTIONS(ATTN_CUDA_DECLARE)
  ATTN_CUDA_OPTIONAL_FUNCTIONS(ATTN_CUDA_DECLARE)
#undef ATTN_CUDA_DECLARE

  /// Opens libcuda.so.1 and initializes it, once a process; failures are remembered too.
  static StatusOr<const CudaDriver *> get();
  /// Opens the named library, without initializing it.
  static StatusOr<CudaDriver> open(const std::string &library);

  StatusOr<DeviceInfo> query(int ordinal) const;
  /// Success, or "CALL failed: CUDA_ERROR_… (text)".
  Status check(cuda::Result result, const char *call) const;
};

/// Makes the primary context of a device current for its lifetime, if the calling thread's current context
/// is not one of that device; the primary context stays alive to the end of the process.
class ContextScope {
public:
  static StatusOr<ContextScope> enter(const CudaDriver &driver, int device);
  ContextScope(ContextScope &&other) noexcept;
  ContextScope &operator=(ContextScope &&) = delete;
  ~ContextScope();

  /// Tells contexts apart, also one that was destroyed from a later one at its address.
  uint64_t getId() const { return id; }

private:
  ContextScope() = default;

  const CudaDriver *driver = nullptr; // null when there is nothing to restore
  cuda::Context outer = nullptr;
  uint64_t id = 0;
};

} // namespace attn

#endif // ATTN_RUNTIME_CUDADRIVER_H
