//===- GpuTimer.h - times work on a GPU ---------------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kernels that run back to back heat a GPU until it lowers its clock: figures fall by 5 to 15 %, unequally.
// So each launch that is timed comes after the stream is drained and the GPU has idled for 6 ms, and with a
// cold L2 cache. The flush also hides what the host takes to launch: events that are recorded after it
// enclose the work on the device alone.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TOOLS_COMMON_GPUTIMER_H
#define ATTN_TOOLS_COMMON_GPUTIMER_H

#include "runtime/DeviceBuffer.h"
#include <array>
#include <functional>

namespace attn {

class GpuTimer {
public:
  /// For the current context.
  static StatusOr<GpuTimer> create(const CudaDriver &driver);
  GpuTimer(GpuTimer &&other) noexcept;
  GpuTimer &operator=(GpuTimer &&) = delete;
  ~GpuTimer();

  /// Seconds on the device of what `launch` puts on the default stream.
  StatusOr<double> time(const std::function<Status()> &launch);

private:
  GpuTimer(const CudaDriver &driver, DeviceBuffer flushed) : driver(driver), flushed(std::move(flushed)) {}

  const CudaDriver &driver;
  DeviceBuffer flushed;
  std::array<cuda::Event, 3> events = {}; // before the flush, after it, after the work
};

} // namespace attn

#endif // ATTN_TOOLS_COMMON_GPUTIMER_H
