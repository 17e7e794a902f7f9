//===- DeviceBuffer.cpp - memory of a device with an owner ------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/DeviceBuffer.h"
#include <utility>

namespace attn {

StatusOr<DeviceBuffer> DeviceBuffer::allocate(const CudaDriver &driver, size_t bytes) {
  DeviceBuffer buffer(driver, bytes);
  if (bytes > 0) // the driver refuses to allocate nothing
    if (Status status = driver.check(driver.memAlloc(&buffer.data, bytes), "cuMemAlloc"); !status.ok()) {
      buffer.data = 0;
      return Status::failure("no device memory for " + std::to_string(bytes) +
                             " bytes: " + status.getMessage());
    }
  return buffer;
}

DeviceBuffer::DeviceBuffer(DeviceBuffer &&other) noexcept
    : driver(other.driver), data(std::exchange(other.data, 0)), bytes(std::exchange(other.bytes, 0)) {}

DeviceBuffer::~DeviceBuffer() {
  if (data)
    (void)driver.memFree(data);
}

Status DeviceBuffer::copyFrom(const void *host) {
  return bytes ? driver.check(driver.memcpyHtoD(data, host, bytes), "cuMemcpyHtoD") : Status();
}

Status DeviceBuffer::copyTo(void *host) const {
  return bytes ? driver.check(driver.memcpyDtoH(host, data, bytes), "cuMemcpyDtoH") : Status();
}

Status DeviceBuffer::fill(unsigned char value, cuda::Stream stream) {
  return bytes ? driver.check(driver.memsetD8Async(data, value, bytes, stream), "cuMemsetD8Async") : Status();
}

} // namespace attn
