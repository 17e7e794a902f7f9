//===- ThreadPool.h - the parallel for that compiled CPU code calls ---------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One pool of threads a process, started when first needed and asleep between calls. No MLIR, no LLVM.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_RUNTIME_CPU_THREADPOOL_H
#define ATTN_RUNTIME_CPU_THREADPOOL_H

#include <cstdint>

/// Calls `body(begin, end, context)` for disjoint ranges that together are [0, count), from several threads
/// at once, the caller's among them, and returns when all are done. Ranges are handed out in order, one at a
/// time, so uneven ones balance. A call from inside a body runs on the spot, in one range. Any number of
/// threads may call at the same time.
extern "C" void attn_cpu_parallel_for(int64_t count, void (*body)(int64_t begin, int64_t end, void *context),
                                      void *context);

namespace attn::cpu {
/// Threads that this process may run on at once: hardware threads, less those that its affinity mask
/// excludes.
int getNumHardwareThreads();

/// How many threads, the caller's included, work on one call from now on; 0 (the start) means all hardware
/// threads.
void setNumThreads(int numThreads);
int getNumThreads();

/// While it lives, the calls of this thread get `numThreads` threads instead, if that is not 0.
class NumThreadsScope {
public:
  explicit NumThreadsScope(int numThreads);
  ~NumThreadsScope();
  NumThreadsScope(const NumThreadsScope &) = delete;
  NumThreadsScope &operator=(const NumThreadsScope &) = delete;

private:
  int outer;
};
} // namespace attn::cpu

#endif // ATTN_RUNTIME_CPU_THREADPOOL_H
