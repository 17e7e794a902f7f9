//===- ThreadPool.cpp - the parallel for that compiled CPU code calls -------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/cpu/ThreadPool.h"
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <pthread.h>
#include <thread>
#include <vector>
#ifdef __linux__
#include <sched.h>
#endif

namespace {
/// Ranges a thread gets on average: enough to balance uneven work (the blocks of a causal mask), few enough
/// that handing them out costs nothing.
constexpr int64_t kRangesPerThread = 16;

/// Set while this thread runs a body, where a nested call must not wait for the pool.
thread_local bool insideBody = false;

/// One call in progress; lives on its caller's stack.
struct Job {
  int64_t count;
  int64_t rangeSize;
  void (*body)(int64_t, int64_t, void *);
  void *context;
  std::atomic<int64_t> next{0};
  int openSlots;      // how many more workers may join; guarded by the pool's mutex
  int numWorkers = 0; // workers that have joined and not left; guarded by the pool's mutex

  void work() {
    insideBody = true;
    for (;;) {
      int64_t begin = next.fetch_add(rangeSize, std::memory_order_relaxed);
      if (begin >= count)
        break;
      body(begin, std::min(begin + rangeSize, count), context);
    }
    insideBody = false;
  }
};

class ThreadPool {
public:
  /// Never destroyed: a worker may still be asleep in it while static objects are destroyed at exit.
  static ThreadPool &get() {
    static ThreadPool *pool = new ThreadPool;
    return *pool;
  }

  void run(Job &job) {
    int numHelpers = job.openSlots;
    {
      std::lock_guard<std::mutex> lock(mutex);
      startWorkers(numHelpers);
      jobs.push_back(&job);
    }
    if (numHelpers == 1)
      jobAdded.notify_one();
    else
      jobAdded.notify_all();

    job.work();

    // The body's writes by other threads are seen here because each worker leaves under the mutex.
    std::unique_lock<std::mutex> lock(mutex);
    jobs.erase(std::find(jobs.begin(), jobs.end(), &job));
    workerLeft.wait(lock, [&] { return job.numWorkers == 0; });
  }

private:
  /// Makes sure of `needed` workers, as far as the system lets us: a call is complete with any number of
  /// them.
  void startWorkers(int needed) {
    while (numStarted < needed) {
      pthread_t thread;
      if (pthread_create(&thread, nullptr, &runWorker, this) != 0)
        return;
      pthread_detach(thread);
      ++numStarted;
    }
  }

  static void *runWorker(void *pool) {
    static_cast<ThreadPool *>(pool)->workForever();
    return nullptr;
  }

  void workForever() {
    std::unique_lock<std::mutex> lock(mutex);
    for (;;) {
      Job *job = nullptr;
      jobAdded.wait(lock, [&] { return (job = findOpenJob()) != nullptr; });
      --job->openSlots;
      ++job->numWorkers;
      lock.unlock();
      job->work();
      lock.lock();
      if (--job->numWorkers == 0)
        workerLeft.notify_all();
    }
  }

  Job *findOpenJob() {
    for (Job *job : jobs)
      if (job->openSlots > 0 && job->next.load(std::memory_order_relaxed) < job->count)
        return job;
    return nullptr;
  }

  std::mutex mutex;
  std::condition_variable jobAdded, workerLeft;
  std::vector<Job *> jobs;
  int numStarted = 0;
};

std::atomic<int> requestedThreads{0};
thread_local int scopedThreads = 0;
} // namespace

int attn::cpu::getNumHardwareThreads() {
#ifdef __linux__
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0)
    return std::max(1, CPU_COUNT(&set));
#endif
  return std::max(1u, std::thread::hardware_concurrency());
}

void attn::cpu::setNumThreads(int numThreads) { requestedThreads = std::max(0, numThreads); }

int attn::cpu::getNumThreads() {
  int requested = scopedThreads ? scopedThreads : requestedThreads.load();
  static const int hardware = getNumHardwareThreads();
  return requested ? requested : hardware;
}

attn::cpu::NumThreadsScope::NumThreadsScope(int numThreads) : outer(scopedThreads) {
  if (numThreads > 0)
    scopedThreads = numThreads;
}

attn::cpu::NumThreadsScope::~NumThreadsScope() { scopedThreads = outer; }

void attn_cpu_parallel_for(int64_t count, void (*body)(int64_t, int64_t, void *), void *context) {
  if (count <= 0)
    return;
  int64_t numThreads = std::min<int64_t>(attn::cpu::getNumThreads(), count);
  if (numThreads == 1 || insideBody)
    return body(0, count, context);
  Job job;
  job.count = count;
  job.rangeSize = std::max<int64_t>(1, count / (numThreads * kRangesPerThread));
  job.body = body;
  job.context = context;
  job.openSlots = static_cast<int>(numThreads - 1);
  ThreadPool::get().run(job);
}
