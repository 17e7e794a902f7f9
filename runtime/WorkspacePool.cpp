//===- WorkspacePool.cpp - device memory that calls reuse -------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/WorkspacePool.h"
#include <functional>
#include <thread>

namespace attn {

WorkspacePool::~WorkspacePool() {
  // At the end of the process the driver may be gone: it frees all memory itself then, and refuses this.
  auto release = [&](cuda::DevicePointer data, int device) {
    StatusOr<ContextScope> scope = ContextScope::enter(driver, device);
    if (data && scope.ok())
      (void)driver.memFree(data);
  };
  for (auto &[key, buffer] : buffers)
    release(buffer->data, buffer->device);
  for (auto [data, device] : outgrown)
    release(data, device);
}

StatusOr<cuda::DevicePointer> WorkspacePool::allocate(int64_t bytes) {
  RelaxedCaptureScope relaxed(driver);
  cuda::DevicePointer data = 0;
  if (Status status = driver.check(driver.memAlloc(&data, bytes), "cuMemAlloc"); !status.ok())
    return Status::failure("no device memory for a workspace of " + std::to_string(bytes) +
                           " bytes: " + status.getMessage());
  return data;
}

StatusOr<WorkspacePool::Lease> WorkspacePool::acquire(uint64_t contextId, int device, cuda::Stream stream,
                                                      int64_t bytes, bool wantsZeros) {
  int capture = cuda::CaptureNone;
  uint64_t captureId = 0;
  if (Status status =
          driver.check(driver.streamGetCaptureInfo(stream, &capture, &captureId), "cuStreamGetCaptureInfo");
      !status.ok())
    return status;
  if (capture == cuda::CaptureNone)
    captureId = 0;
  if (stream == cuda::explicitLegacyStream)
    stream = cuda::legacyStream;
  uint64_t thread = 0;
  if (stream == cuda::perThreadStream)
    thread = std::hash<std::thread::id>()(std::this_thread::get_id());

  Buffer *buffer;
  {
    std::lock_guard<std::mutex> lock(mutex);
    // A capture's buffer serves all streams that take part in it only one after another, which their order in
    // the graph need not be: a buffer for each.
    std::unique_ptr<Buffer> &entry = buffers[Key(contextId, stream, thread, captureId)];
    if (!entry)
      entry = std::make_unique<Buffer>();
    buffer = entry.get();
  }
  Lease lease;
  lease.lock = std::unique_lock<std::mutex>(buffer->mutex);
  if (buffer->bytes < bytes) {
    if (buffer->data && captureId) {
      std::lock_guard<std::mutex> lock(mutex);
      outgrown[buffer->data] = buffer->device; // nodes of the graph use it
    } else if (buffer->data) {
      // Work that uses it may still run.
      RelaxedCaptureScope relaxed(driver);
      if (Status status = driver.check(driver.streamSynchronize(stream), "cuStreamSynchronize"); !status.ok())
        return status;
      (void)driver.memFree(buffer->data);
    }
    buffer->data = 0;
    buffer->bytes = 0;
    buffer->hasZeros = false;
    StatusOr<cuda::DevicePointer> data = allocate(zeroBytes + bytes);
    if (!data.ok())
      return data.getStatus();
    buffer->data = *data;
    buffer->bytes = bytes;
    buffer->device = device;
  }
  lease.data = buffer->data + zeroBytes;
  if (!wantsZeros || captureId)
    return lease;
  if (!buffer->hasZeros)
    if (Status status =
            driver.check(driver.memsetD8Async(buffer->data, 0, zeroBytes, stream), "cuMemsetD8Async");
        !status.ok())
      return status;
  buffer->hasZeros = true;
  lease.zeros = buffer->data;
  lease.hasZeros = &buffer->hasZeros;
  return lease;
}

} // namespace attn
