//===- GpuTimer.cpp - times work on a GPU -------------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/common/GpuTimer.h"
#include "tools/common/Stopwatch.h"
#include <chrono>
#include <thread>

using namespace attn;

constexpr std::chrono::milliseconds kGap(6);
/// Larger than any L2 cache, and long enough to write that a launch passes meanwhile.
constexpr size_t kFlushedBytes = size_t(1) << 30;
constexpr int kNumFlushes = 3;

StatusOr<GpuTimer> GpuTimer::create(const CudaDriver &driver) {
  StatusOr<DeviceBuffer> flushed = DeviceBuffer::allocate(driver, kFlushedBytes);
  if (!flushed.ok())
    return flushed.getStatus();
  GpuTimer timer(driver, std::move(*flushed));
  for (cuda::Event &event : timer.events)
    if (Status status = driver.check(driver.eventCreate(&event, 0), "cuEventCreate"); !status.ok())
      return status;
  return timer;
}

GpuTimer::GpuTimer(GpuTimer &&other) noexcept
    : driver(other.driver), flushed(std::move(other.flushed)), events(std::exchange(other.events, {})) {}

GpuTimer::~GpuTimer() {
  for (cuda::Event event : events)
    if (event)
      (void)driver.eventDestroy(event);
}

StatusOr<double> GpuTimer::time(const std::function<Status()> &launch) {
  Status failed;
  auto check = [&](cuda::Result result, const char *call) {
    if (Status status = driver.check(result, call); failed.ok() && !status.ok())
      failed = status;
  };
  auto getSeconds = [&](cuda::Event begin, cuda::Event end) {
    float milliseconds = 0;
    check(driver.eventElapsedTime(&milliseconds, begin, end), "cuEventElapsedTime");
    return 1e-3 * static_cast<double>(milliseconds);
  };
  for (int numFlushes = kNumFlushes;; numFlushes *= 4) {
    check(driver.streamSynchronize(cuda::legacyStream), "cuStreamSynchronize");
    std::this_thread::sleep_for(kGap);
    Stopwatch watch;
    check(driver.eventRecord(events[0], cuda::legacyStream), "cuEventRecord");
    for (int flush = 0; flush < numFlushes && failed.ok(); ++flush)
      failed = flushed.fill(0, cuda::legacyStream);
    check(driver.eventRecord(events[1], cuda::legacyStream), "cuEventRecord");
    if (failed.ok())
      failed = launch();
    check(driver.eventRecord(events[2], cuda::legacyStream), "cuEventRecord");
    double launched = watch.getSeconds();
    check(driver.eventSynchronize(events[2]), "cuEventSynchronize");
    double hidden = getSeconds(events[0], events[1]), seconds = getSeconds(events[1], events[2]);
    if (!failed.ok())
      return failed;
    // Otherwise the device waited for the host within the time.
    if (launched < hidden || numFlushes > 16 * kNumFlushes)
      return seconds;
  }
}
