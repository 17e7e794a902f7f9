//===- Stopwatch.h - seconds that code took ----------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TOOLS_COMMON_STOPWATCH_H
#define ATTN_TOOLS_COMMON_STOPWATCH_H

#include <ctime>

namespace attn {

/// Runs from its construction on.
class Stopwatch {
public:
  /// `thread`: counts only the time that this thread ran, so that other programs on the machine do not
  /// disturb it. Right for code that stays on this thread alone.
  enum Clock { wall, thread };
  explicit Stopwatch(Clock clock = wall)
      : id(clock == thread ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC), start(now()) {}
  double getSeconds() const { return now() - start; }

private:
  double now() const {
    timespec time;
    clock_gettime(id, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }
  clockid_t id;
  double start;
};

} // namespace attn

#endif // ATTN_TOOLS_COMMON_STOPWATCH_H
