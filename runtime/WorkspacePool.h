//===- WorkspacePool.h - device memory that calls reuse ---------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_RUNTIME_WORKSPACEPOOL_H
#define ATTN_RUNTIME_WORKSPACEPOOL_H

#include "runtime/CudaDriver.h"
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

namespace attn {

/// One buffer for each stream, which grows to the largest size asked for: work on one stream is in order, so
/// calls may share it. A graph that is being captured gets buffers of its own, since it may be replayed on
/// any stream at any time; those stay until the pool goes.
class WorkspacePool {
public:
  explicit WorkspacePool(const CudaDriver &driver) : driver(driver) {}
  WorkspacePool(const WorkspacePool &) = delete;
  WorkspacePool &operator=(const WorkspacePool &) = delete;
  ~WorkspacePool();

  /// How many bytes the zeros of a lease have.
  static constexpr int64_t zeroBytes = 256;

  /// Memory for the work that its holder puts on the stream while the lease lives; then the next holder's
  /// work follows on the stream. Other threads wait.
  struct Lease {
    cuda::DevicePointer data = 0;
    /// If asked for: filled with zeros once, for work that leaves it so. Null in a capture, where filling is
    /// a node of the graph in any case.
    cuda::DevicePointer zeros = 0;
    std::unique_lock<std::mutex> lock;
    /// The work was not put on the stream as a whole: who asks for zeros next gets them filled.
    void spoilZeros() {
      if (hasZeros)
        *hasZeros = false;
    }
    bool *hasZeros = nullptr; // of the buffer, whose mutex is held
  };

  /// At least `bytes` bytes, aligned to 256, of the current context, whose id is given, on `device`.
  StatusOr<Lease> acquire(uint64_t contextId, int device, cuda::Stream stream, int64_t bytes,
                          bool wantsZeros = false);

private:
  struct Buffer {
    std::mutex mutex;
    cuda::DevicePointer data = 0;
    int64_t bytes = 0; // behind the zeros
    bool hasZeros = false;
    int device = 0;
  };
  /// Context, stream, thread (of the stream that each thread has its own of), capture (0 for none).
  using Key = std::tuple<uint64_t, cuda::Stream, uint64_t, uint64_t>;

  StatusOr<cuda::DevicePointer> allocate(int64_t bytes);

  const CudaDriver &driver;
  std::mutex mutex; // of what follows
  std::map<Key, std::unique_ptr<Buffer>> buffers;
  std::map<cuda::DevicePointer, int> outgrown; // of captures, with their devices
};

/// While it lives, calls of this thread that a capture of any stream forbids are allowed, such as to allocate
/// memory or load code: they are no part of the graph.
class RelaxedCaptureScope {
public:
  explicit RelaxedCaptureScope(const CudaDriver &driver) : driver(driver), mode(cuda::CaptureRelaxed) {
    (void)driver.threadExchangeCaptureMode(&mode);
  }
  RelaxedCaptureScope(const RelaxedCaptureScope &) = delete;
  RelaxedCaptureScope &operator=(const RelaxedCaptureScope &) = delete;
  ~RelaxedCaptureScope() { (void)driver.threadExchangeCaptureMode(&mode); }

private:
  const CudaDriver &driver;
  int mode;
};

} // namespace attn

#endif // ATTN_RUNTIME_WORKSPACEPOOL_H
