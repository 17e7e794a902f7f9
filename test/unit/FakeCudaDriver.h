//===- FakeCudaDriver.h - a driver that records what it is asked ------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TEST_UNIT_FAKECUDADRIVER_H
#define ATTN_TEST_UNIT_FAKECUDADRIVER_H

#include "runtime/CudaDriver.h"
#include <map>
#include <mutex>
#include <vector>

namespace attn::test {

/// What was asked of the fake driver, and how it is to answer. There is one; `reset` starts afresh. Two
/// devices of compute capability 9.0; streams are any values, a module is named by its code, a kernel by its
/// name.
struct FakeCuda {
  struct Launch {
    std::string kernel;
    std::vector<unsigned> grid;
    unsigned threads = 0, sharedBytes = 0;
    std::vector<std::string> arguments; // the bytes of each
    cuda::Stream stream = nullptr;
    bool startsEarly = false;
  };
  struct Memset {
    cuda::DevicePointer data;
    size_t bytes;
  };

  /// What cuTensorMapEncodeTiled was given; the map it makes is filled with the number of such calls.
  struct TensorMap {
    int type = 0;
    void *data = nullptr;
    std::vector<uint64_t> sizes, strides;
    std::vector<uint32_t> box, elementStrides;
    int interleave = 0, swizzle = 0, promotion = 0, fill = 0;
  };

  std::vector<Launch> launches;
  std::vector<TensorMap> tensorMaps;
  std::vector<Memset> memsets;
  int allocations = 0, frees = 0, moduleLoads = 0, forbiddenInCapture = 0;
  std::map<std::string, int> maxDynamicSharedBytes; // by kernel
  /// Of the arguments that a kernel takes; none is looked at where this has no entry.
  std::map<std::string, std::vector<size_t>> argumentSizes;
  uint64_t captureId = 0; // of all streams; 0 when none is capturing
  cuda::Result launchResult = 0, moduleLoadResult = 0, memAllocResult = 0, encodeResult = 0;
  uint64_t contextId = 7;    // of the current context
  int staticSharedBytes = 0; // of every kernel
  bool recordLaunches = true;
  int launchMicroseconds = 0; // how long a launch takes

  static FakeCuda &get();
  static void reset() { get() = FakeCuda(); }
  static const CudaDriver &getDriver();
};

} // namespace attn::test

#endif // ATTN_TEST_UNIT_FAKECUDADRIVER_H
