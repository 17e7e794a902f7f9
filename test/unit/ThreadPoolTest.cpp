//===- ThreadPoolTest.cpp - the parallel for of the CPU runtime -------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/cpu/ThreadPool.h"
#include "gtest/gtest.h"
#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace {
/// Calls attn_cpu_parallel_for with a lambda `body(begin, end)`.
template <typename Body>
void parallelFor(int64_t count, Body body) {
  attn_cpu_parallel_for(
      count, [](int64_t begin, int64_t end, void *context) { (*static_cast<Body *>(context))(begin, end); },
      &body);
}

/// Counts how often each index of [0, count) is visited and expects once.
void expectEachOnce(int64_t count) {
  std::vector<std::atomic<int>> visits(count);
  parallelFor(count, [&](int64_t begin, int64_t end) {
    ASSERT_LT(begin, end);
    for (int64_t i = begin; i < end; ++i)
      ++visits[i];
  });
  for (int64_t i = 0; i < count; ++i)
    ASSERT_EQ(visits[i], 1) << "index " << i << " of " << count;
}

struct ThreadPool : testing::TestWithParam<int> {
  void SetUp() override { attn::cpu::setNumThreads(GetParam()); }
  void TearDown() override { attn::cpu::setNumThreads(0); }
};

TEST_P(ThreadPool, VisitsEachIndexOnce) {
  for (int64_t count : {1, 2, 3, 15, 16, 17, 31, 64, 127, 1000, 4099})
    expectEachOnce(count);
}

TEST_P(ThreadPool, EmptyRangeCallsNothing) {
  parallelFor(0, [](int64_t, int64_t) { FAIL(); });
  parallelFor(-5, [](int64_t, int64_t) { FAIL(); });
}

TEST_P(ThreadPool, WritesAreVisibleToTheCaller) {
  std::vector<int64_t> values(4099);
  for (int64_t round = 0; round < 50; ++round) {
    parallelFor(values.size(), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        values[i] = i * round;
    });
    for (int64_t i = 0; i < static_cast<int64_t>(values.size()); ++i)
      ASSERT_EQ(values[i], i * round);
  }
}

TEST_P(ThreadPool, NestedCallsRunOnTheSpot) {
  std::atomic<int64_t> sum{0};
  parallelFor(40, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      std::thread::id outer = std::this_thread::get_id();
      parallelFor(10, [&](int64_t innerBegin, int64_t innerEnd) {
        EXPECT_EQ(std::this_thread::get_id(), outer);
        for (int64_t j = innerBegin; j < innerEnd; ++j)
          sum += i * 10 + j;
      });
    }
  });
  EXPECT_EQ(sum, 400 * 399 / 2);
}

TEST_P(ThreadPool, SeveralCallersAtOnce) {
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 6; ++caller)
    callers.emplace_back([] {
      for (int round = 0; round < 200; ++round)
        expectEachOnce(257);
    });
  for (std::thread &caller : callers)
    caller.join();
}

INSTANTIATE_TEST_SUITE_P(Threads, ThreadPool, testing::Values(0, 1, 2, 3, 8));

TEST(ThreadPoolSize, UsesAsManyThreadsAsAsked) {
  for (int numThreads : {1, 2, 4}) {
    attn::cpu::setNumThreads(numThreads);
    EXPECT_EQ(attn::cpu::getNumThreads(), numThreads);
    std::atomic<int> arrived{0};
    std::mutex mutex;
    std::set<std::thread::id> ids;
    // Each body waits for all the others, which ends only if that many threads run bodies at once.
    parallelFor(numThreads, [&](int64_t begin, int64_t end) {
      {
        std::lock_guard<std::mutex> lock(mutex);
        ids.insert(std::this_thread::get_id());
      }
      arrived += static_cast<int>(end - begin);
      auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (arrived < numThreads && std::chrono::steady_clock::now() < deadline)
        std::this_thread::yield();
    });
    EXPECT_EQ(static_cast<int>(ids.size()), numThreads);

    ids.clear();
    parallelFor(1000, [&](int64_t begin, int64_t end) {
      std::lock_guard<std::mutex> lock(mutex);
      ids.insert(std::this_thread::get_id());
    });
    EXPECT_LE(static_cast<int>(ids.size()), numThreads);
  }
  attn::cpu::setNumThreads(0);
  EXPECT_EQ(attn::cpu::getNumThreads(), attn::cpu::getNumHardwareThreads());
}
} // namespace
