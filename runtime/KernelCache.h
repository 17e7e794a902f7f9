//===- KernelCache.h - compiled kernels and plans, in memory and on disk ----===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two levels. A *plan* entry goes from what the user wrote to the launch plan, CUDA sources included, so a
// warm start runs no pass; a *kernel* entry goes from one CUDA source to the machine code, so sources that
// come out the same, from whatever module, are compiled once. No key has a value that changes from call to
// call.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_RUNTIME_KERNELCACHE_H
#define ATTN_RUNTIME_KERNELCACHE_H

#include "runtime/DiskStore.h"
#include "runtime/Nvrtc.h"
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace attn {

/// Everything that lowering a function to a launch plan depends on.
struct PlanKeyParts {
  std::string moduleText; ///< As the caller gave it; what prints the same is the same.
  std::string function;
  std::string target;               ///< The text of `#attn.target<…>`.
  std::vector<std::string> options; ///< Of the pipeline, in a fixed order.
  std::string buildId;              ///< `getBuildId()`
};
std::string makePlanKey(const PlanKeyParts &parts);

/// Everything that compiling a source depends on.
struct KernelKeyParts {
  std::string source;
  std::vector<DeviceHeader> headers;
  std::string nvrtcVersion;
  std::vector<std::string> options;
  std::string arch;
  std::string buildId;
};
std::string makeKernelKey(const KernelKeyParts &parts);

/// Where warnings go; each is one line.
using WarningHandler = std::function<void(const std::string &)>;

struct KernelCacheOptions {
  std::string directory; ///< Empty: memory alone.
  uint64_t maxBytes = uint64_t(1) << 30;
  /// Of entries in memory; those used longest ago go first.
  uint64_t maxMemoryBytes = uint64_t(256) << 20;
  /// Told once if the disk cannot be written. Default: standard error.
  WarningHandler warn;
};

class KernelCache {
public:
  enum class Kind {
    Plan,   ///< plan.json, and what the compiler puts beside it
    Kernel, ///< kernel.cu, kernel.cubin, kernel_spec.json, compile.log
    Nvrtc,  ///< version: that of a library, to know it without opening 100 MB
  };
  using Entry = std::shared_ptr<const EntryFiles>;

  explicit KernelCache(KernelCacheOptions options);

  /// From memory, else from disk, else null.
  Entry find(Kind kind, const std::string &key);

  /// As `find`, else builds, and keeps. Threads that ask for one key at the same time share one build, and
  /// its error; an error is not kept. Several processes may each build, and use what the first has published.
  StatusOr<Entry> getOrBuild(Kind kind, const std::string &key,
                             const std::function<StatusOr<EntryFiles>()> &build);

  /// The keys on disk.
  std::vector<std::string> listKeys(Kind kind) const;

  /// Drops what is in memory.
  void clearMemory();

  /// Where an entry is or would be on disk; empty without a disk.
  std::string getPath(Kind kind, const std::string &key) const;

private:
  struct Slot {
    std::mutex mutex; // held while the entry is loaded or built
    bool isDone = false;
    Entry entry;
    Status status; // why there is no entry
    std::list<std::string>::iterator age;
    uint64_t bytes = 0;
  };

  /// `build` may be null.
  StatusOr<Entry> get(Kind kind, const std::string &key, const std::function<StatusOr<EntryFiles>()> *build);
  std::shared_ptr<Slot> getSlot(const std::string &id);
  void keepInMemory(const std::string &id, const std::shared_ptr<Slot> &slot);
  void warnOnce(const std::string &message);

  KernelCacheOptions options;
  std::optional<DiskStore> disk;
  std::mutex mutex; // of what follows; never held during I/O
  std::unordered_map<std::string, std::shared_ptr<Slot>> slots;
  std::list<std::string> ages; // ids, most recently used first
  uint64_t memoryBytes = 0;
  bool hasWarned = false;
};

/// Prints "attn: warning: …" to standard error.
void warnOnStandardError(const std::string &message);

} // namespace attn

#endif // ATTN_RUNTIME_KERNELCACHE_H
