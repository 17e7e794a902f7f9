//===- DeviceBuffer.h - memory of a device with an owner --------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_RUNTIME_DEVICEBUFFER_H
#define ATTN_RUNTIME_DEVICEBUFFER_H

#include "runtime/CudaDriver.h"

namespace attn {

/// Memory of the current context, aligned to 256 bytes and freed with its owner; the context must be current
/// then too. For programs whose tensors lie on the host. Copies wait for the work on the default stream.
class DeviceBuffer {
public:
  static StatusOr<DeviceBuffer> allocate(const CudaDriver &driver, size_t bytes);
  DeviceBuffer(DeviceBuffer &&other) noexcept;
  DeviceBuffer &operator=(DeviceBuffer &&) = delete;
  ~DeviceBuffer();

  /// Null for a buffer of 0 bytes.
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the driver gives numbers
  void *getData() const { return reinterpret_cast<void *>(data); }
  size_t getNumBytes() const { return bytes; }

  /// Of all its bytes.
  Status copyFrom(const void *host);
  Status copyTo(void *host) const;
  /// Puts the work on the stream, and returns.
  Status fill(unsigned char value, cuda::Stream stream);

private:
  DeviceBuffer(const CudaDriver &driver, size_t bytes) : driver(driver), bytes(bytes) {}

  const CudaDriver &driver;
  cuda::DevicePointer data = 0;
  size_t bytes;
};

} // namespace attn

#endif // ATTN_RUNTIME_DEVICEBUFFER_H
