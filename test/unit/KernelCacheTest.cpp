//===- KernelCacheTest.cpp - the kernel cache under all that may happen -----===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/KernelCache.h"
#include "runtime/Hash.h"
#include "test/unit/TemporaryDirectory.h"
#include "gtest/gtest.h"
#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <set>
#include <sstream>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace attn;
using attn::test::TemporaryDirectory;
namespace fs = std::filesystem;

namespace {
constexpr auto kernelKind = KernelCache::Kind::Kernel;

KernelCacheOptions inDirectory(const std::string &directory) {
  KernelCacheOptions options;
  options.directory = directory;
  options.warn = [](const std::string &message) { ADD_FAILURE() << "unexpected warning: " << message; };
  return options;
}

std::function<StatusOr<EntryFiles>()> building(const std::string &contents,
                                               std::atomic<int> *count = nullptr) {
  return [=]() -> StatusOr<EntryFiles> {
    if (count)
      ++*count;
    return EntryFiles{{"kernel.cu", "// " + contents}, {"kernel.cubin", contents + std::string(1000, '\0')}};
  };
}

std::function<StatusOr<EntryFiles>()> failing() {
  return []() -> StatusOr<EntryFiles> { return Status::failure("must not build"); };
}

/// Runs `body` in a process of its own and returns its exit status; 100 where a signal ended it.
template <typename Body>
int runInChild(Body body) {
  pid_t child = fork();
  if (child == 0)
    _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100;
}

size_t countEntries(const fs::path &directory) {
  return fs::exists(directory) ? std::distance(fs::directory_iterator(directory), fs::directory_iterator())
                               : 0;
}

TEST(Hash, KnownAnswers) {
  EXPECT_EQ(hashText("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_NE(hashParts({{"a", "bc"}}), hashParts({{"ab", "c"}}));
  EXPECT_NE(hashParts({{"a", "b"}, {"c", "d"}}), hashParts({{"a", "b"}, {"d", "c"}}));
}

TEST(CacheKeys, EveryPartCounts) {
  std::set<std::string> keys;
  KernelKeyParts kernel{"source", {{"attn/a.cuh", "text"}}, "13.0", {"-a"}, "sm_90a", "build"};
  keys.insert(makeKernelKey(kernel));
  auto add = [&](auto change) {
    KernelKeyParts changed = kernel;
    change(changed);
    keys.insert(makeKernelKey(changed));
  };
  add([](KernelKeyParts &parts) { parts.source += " "; });
  add([](KernelKeyParts &parts) { parts.headers[0].text += " "; });
  add([](KernelKeyParts &parts) { parts.headers[0].name += " "; });
  add([](KernelKeyParts &parts) { parts.headers.push_back({"attn/b.cuh", ""}); });
  add([](KernelKeyParts &parts) { parts.nvrtcVersion = "13.1"; });
  add([](KernelKeyParts &parts) { parts.options.push_back("-b"); });
  add([](KernelKeyParts &parts) { parts.arch = "sm_80"; });
  add([](KernelKeyParts &parts) { parts.buildId = "other"; });
  EXPECT_EQ(keys.size(), 9u);

  PlanKeyParts plan{"module", "f", "target", {"-a"}, "build"};
  keys = {makePlanKey(plan),
          makePlanKey({"module2", "f", "target", {"-a"}, "build"}),
          makePlanKey({"module", "g", "target", {"-a"}, "build"}),
          makePlanKey({"module", "f", "target2", {"-a"}, "build"}),
          makePlanKey({"module", "f", "target", {"-b"}, "build"}),
          makePlanKey({"module", "f", "target", {"-a"}, "build2"})};
  EXPECT_EQ(keys.size(), 6u);
}

TEST(KernelCache, KeepsInMemoryAndOnDisk) {
  TemporaryDirectory directory;
  std::atomic<int> count{0};
  KernelCache cache(inDirectory(directory.getPath()));
  EXPECT_EQ(cache.find(kernelKind, "a"), nullptr);
  StatusOr<KernelCache::Entry> built = cache.getOrBuild(kernelKind, "a", building("A", &count));
  ASSERT_TRUE(built.ok());
  EXPECT_EQ(*cache.getOrBuild(kernelKind, "a", failing()), *built);
  cache.clearMemory();
  EXPECT_EQ(**cache.getOrBuild(kernelKind, "a", failing()), **built);
  KernelCache other(inDirectory(directory.getPath()));
  KernelCache::Entry found = other.find(kernelKind, "a");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(*found, **built);
  EXPECT_EQ(count, 1);
  // The same key is another entry in another kind.
  EXPECT_EQ(other.find(KernelCache::Kind::Plan, "a"), nullptr);
  // Nothing else is left, and the checksums are what the usual tool reads.
  EXPECT_EQ(countEntries(directory.getPath() + "/staging"), 0u);
  std::string check = "cd " + cache.getPath(kernelKind, "a") + " && sha256sum --check --quiet checksums";
  EXPECT_EQ(system(check.c_str()), 0);
}

TEST(KernelCache, ErrorsAreNotKept) {
  KernelCache cache(inDirectory(""));
  StatusOr<KernelCache::Entry> failed = cache.getOrBuild(kernelKind, "a", failing());
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.getMessage(), "must not build");
  EXPECT_TRUE(cache.getOrBuild(kernelKind, "a", building("A")).ok());
}

TEST(KernelCache, MemoryIsBounded) {
  KernelCacheOptions options = inDirectory("");
  options.maxMemoryBytes = 3 * 1010; // three entries of 1005 bytes
  KernelCache cache(options);
  std::atomic<int> count{0};
  for (const char *key : {"a", "b", "c", "a", "d"}) // now b was used longest ago
    ASSERT_TRUE(cache.getOrBuild(kernelKind, key, building("x", &count)).ok());
  EXPECT_EQ(count, 4);
  for (const char *key : {"a", "c", "d"})
    EXPECT_TRUE(cache.getOrBuild(kernelKind, key, failing()).ok()) << key;
  EXPECT_EQ(cache.find(kernelKind, "b"), nullptr);
}

TEST(KernelCache, ThreadsBuildAKeyOnce) {
  TemporaryDirectory directory;
  KernelCache cache(inDirectory(directory.getPath()));
  std::atomic<int> count{0}, errors{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; ++i)
    threads.emplace_back([&, i] {
      for (int key = 0; key < 20; ++key) {
        auto build = [&, key]() -> StatusOr<EntryFiles> {
          std::this_thread::sleep_for(std::chrono::milliseconds(2));
          return building(std::to_string(key), &count)();
        };
        if (i % 4 == 0) // looking is no reason for another to fail
          (void)cache.find(kernelKind, std::to_string(key));
        StatusOr<KernelCache::Entry> entry = cache.getOrBuild(kernelKind, std::to_string(key), build);
        if (!entry.ok() || (*entry)->at("kernel.cu") != "// " + std::to_string(key))
          ++errors;
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(count, 20);
  EXPECT_EQ(errors, 0);
}

TEST(KernelCache, ProcessesUseWhatTheFirstPublished) {
  TemporaryDirectory directory, reports;
  constexpr int numProcesses = 8, numKeys = 15;
  std::vector<pid_t> children;
  for (int process = 0; process < numProcesses; ++process) {
    pid_t child = fork();
    if (child == 0) {
      KernelCache cache(inDirectory(directory.getPath()));
      std::ofstream report(reports.getPath() + "/" + std::to_string(process));
      for (int key = 0; key < numKeys; ++key) {
        // What each would build differs, so that it shows whose is used.
        StatusOr<KernelCache::Entry> entry =
            cache.getOrBuild(kernelKind, std::to_string(key), building(std::to_string(process)));
        report << (entry.ok() ? (*entry)->at("kernel.cu") : "failed") << "\n";
      }
      report.close();
      _exit(testing::Test::HasFailure());
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  std::set<std::string> texts;
  for (int process = 0; process < numProcesses; ++process) {
    std::stringstream text;
    text << std::ifstream(reports.getPath() + "/" + std::to_string(process)).rdbuf();
    texts.insert(text.str());
  }
  EXPECT_EQ(texts.size(), 1u) << "processes used different entries";
  EXPECT_EQ(texts.begin()->find("failed"), std::string::npos);
  EXPECT_EQ(countEntries(directory.getPath() + "/kernels"), size_t(numKeys));
  EXPECT_EQ(countEntries(directory.getPath() + "/staging"), 0u);
}

TEST(KernelCache, KilledWritersLeaveNoDamage) {
  TemporaryDirectory directory;
  std::string big(200000, 'x');
  // Until enough were killed in the middle of their work, however slow the disk is.
  size_t numEntries = 0;
  for (int round = 0; round < 15 || (numEntries < 5 && round < 200); ++round) {
    pid_t child = fork();
    if (child == 0) {
      KernelCache cache(inDirectory(directory.getPath()));
      for (int key = 0;; ++key)
        (void)cache.getOrBuild(kernelKind, std::to_string(round) + "." + std::to_string(key), building(big));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(3000 + 1700 * round));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    numEntries = countEntries(directory.getPath() + "/kernels");
  }
  EXPECT_GE(numEntries, 5u);
  KernelCache cache(inDirectory(directory.getPath()));
  for (const std::string &key : cache.listKeys(kernelKind)) {
    KernelCache::Entry entry = cache.find(kernelKind, key);
    ASSERT_NE(entry, nullptr) << key << " is damaged";
    EXPECT_EQ(entry->at("kernel.cu"), "// " + big);
  }
  EXPECT_EQ(countEntries(directory.getPath() + "/kernels"), numEntries);
  EXPECT_TRUE(cache.getOrBuild(kernelKind, "next", building("next")).ok());
}

TEST(KernelCache, DamagedEntriesAreRebuilt) {
  auto overwrite = [](const std::string &path, const std::string &contents) {
    std::ofstream(path, std::ios::binary) << contents;
  };
  std::vector<std::pair<const char *, std::function<void(const std::string &)>>> damages = {
      {"short", [](const std::string &path) { fs::resize_file(path + "/kernel.cubin", 500); }},
      {"empty", [](const std::string &path) { fs::resize_file(path + "/kernel.cubin", 0); }},
      {"long", [](const std::string &path) { fs::resize_file(path + "/kernel.cubin", 5000); }},
      {"changed", [&](const std::string &path) { overwrite(path + "/kernel.cu", "// B"); }},
      {"missing", [](const std::string &path) { fs::remove(path + "/kernel.cubin"); }},
      {"no checksums", [](const std::string &path) { fs::remove(path + "/checksums"); }},
      {"empty checksums", [](const std::string &path) { fs::resize_file(path + "/checksums", 0); }},
      {"short checksums", [](const std::string &path) { fs::resize_file(path + "/checksums", 70); }},
      {"garbage checksums", [&](const std::string &path) { overwrite(path + "/checksums", "x\n"); }},
      {"half of the checksums",
       [](const std::string &path) { fs::resize_file(path + "/checksums", 64 + 2 + 10); }},
      {"a path in the checksums",
       [&](const std::string &path) {
         overwrite(path + "/checksums", std::string(64, '0') + "  ../../secret\n");
       }},
      {"a folder for a file",
       [](const std::string &path) {
         fs::remove(path + "/kernel.cubin");
         fs::create_directory(path + "/kernel.cubin");
       }},
      {"a file for the folder",
       [&](const std::string &path) {
         fs::remove_all(path);
         overwrite(path, "x");
       }},
      {"an empty folder",
       [](const std::string &path) {
         fs::remove_all(path);
         fs::create_directory(path);
       }},
  };
  for (auto &[name, damage] : damages) {
    TemporaryDirectory directory;
    KernelCache cache(inDirectory(directory.getPath()));
    ASSERT_TRUE(cache.getOrBuild(kernelKind, "a", building("A")).ok());
    cache.clearMemory();
    damage(cache.getPath(kernelKind, "a"));
    std::atomic<int> count{0};
    StatusOr<KernelCache::Entry> entry = cache.getOrBuild(kernelKind, "a", building("A", &count));
    ASSERT_TRUE(entry.ok()) << name;
    EXPECT_EQ((*entry)->at("kernel.cubin").size(), 1001u) << name;
    EXPECT_EQ(count, 1) << name;
    cache.clearMemory();
    EXPECT_TRUE(cache.getOrBuild(kernelKind, "a", failing()).ok()) << name << ": it was not repaired";
    EXPECT_EQ(countEntries(directory.getPath() + "/staging"), 0u) << name;
  }
}

/// Builds two entries of `size` bytes where the disk does not take them: both must work, with one warning
/// that has `text`. Returns 0 if so.
int useUnwritableCache(const std::string &directory, size_t size, const std::string &text) {
  std::vector<std::string> warnings;
  KernelCacheOptions options;
  options.directory = directory;
  options.warn = [&](const std::string &message) { warnings.push_back(message); };
  KernelCache cache(options);
  for (const char *key : {"x", "y"}) {
    if (!cache.getOrBuild(kernelKind, key, building(std::string(size, 'x'))).ok())
      return 1;
    if (!cache.getOrBuild(kernelKind, key, failing()).ok())
      return 2;
  }
  if (warnings.size() != 1)
    return 3;
  if (warnings[0].find("compiled kernels are kept in memory only: cannot ") != 0 ||
      warnings[0].find(text) == std::string::npos) {
    fprintf(stderr, "%s\n", warnings[0].c_str());
    return 4;
  }
  return 0;
}

TEST(KernelCache, ReadOnlyDirectory) {
  TemporaryDirectory directory;
  std::string path = directory.getPath();
  ASSERT_TRUE(KernelCache(inDirectory(path)).getOrBuild(kernelKind, "a", building("A")).ok());
  for (const char *folder : {"", "/kernels", "/staging"})
    chmod((path + folder).c_str(), 0555);
  EXPECT_EQ(runInChild([&] {
              // Nothing is read-only for root; who is not may be kept from the path to here, but not from
              // here.
              if (chdir(path.c_str()) || (geteuid() == 0 && setuid(65534)))
                return 10;
              KernelCache cache(inDirectory("."));
              if (!cache.find(kernelKind, "a"))
                return 11;
              return useUnwritableCache(".", 10, "Permission denied");
            }),
            0);
  for (const char *folder : {"", "/kernels", "/staging"})
    chmod((path + folder).c_str(), 0755);
  EXPECT_EQ(countEntries(path + "/kernels"), 1u);
}

TEST(KernelCache, FullDisk) {
  // A limit on the size of files fails as a full disk does: in the middle of a write.
  TemporaryDirectory directory;
  EXPECT_EQ(runInChild([&] {
              signal(SIGXFSZ, SIG_IGN);
              rlimit limit{50000, 50000};
              setrlimit(RLIMIT_FSIZE, &limit);
              return useUnwritableCache(directory.getPath(), 200000, "File too large");
            }),
            0);
  EXPECT_EQ(countEntries(directory.getPath() + "/kernels"), 0u);
  EXPECT_EQ(countEntries(directory.getPath() + "/staging"), 0u);
}

TEST(KernelCache, DirectoryThatCannotBe) {
  TemporaryDirectory directory;
  std::ofstream(directory.getPath() + "/file") << "x";
  EXPECT_EQ(useUnwritableCache(directory.getPath() + "/file", 10, "Not a directory"), 0);
  EXPECT_EQ(useUnwritableCache("/dev/full", 10, "Not a directory"), 0);
}

TEST(KernelCache, EvictsWhatWasUsedLongestAgo) {
  TemporaryDirectory directory;
  KernelCacheOptions options = inDirectory(directory.getPath());
  options.maxBytes = 700000;
  std::string contents(100000, 'x'); // about 200 KB an entry: three fit
  auto add = [&](const char *key) {
    ASSERT_TRUE(KernelCache(options).getOrBuild(kernelKind, key, building(contents)).ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(15)); // the clock of file times is coarse
  };
  add("a");
  add("b");
  add("c");
  EXPECT_EQ(countEntries(directory.getPath() + "/kernels"), 3u);
  ASSERT_NE(KernelCache(options).find(kernelKind, "a"), nullptr); // now b was used longest ago
  std::this_thread::sleep_for(std::chrono::milliseconds(15));
  add("d");
  KernelCache cache(options);
  EXPECT_EQ(cache.find(kernelKind, "b"), nullptr);
  EXPECT_NE(cache.find(kernelKind, "a"), nullptr);
  EXPECT_NE(cache.find(kernelKind, "d"), nullptr);
  EXPECT_EQ(countEntries(directory.getPath() + "/staging"), 0u);
  // One entry that is too large by itself stays until the next.
  options.maxBytes = 1000;
  add("e");
  EXPECT_EQ(countEntries(directory.getPath() + "/kernels"), 1u);
  EXPECT_NE(KernelCache(options).find(kernelKind, "e"), nullptr);
}

TEST(KernelCache, CleansUpAfterKilledProcesses) {
  TemporaryDirectory directory;
  std::string staging = directory.getPath() + "/staging";
  for (const char *name : {"/old", "/new"}) {
    fs::create_directories(staging + name);
    std::ofstream(staging + name + "/kernel.cubin") << "x";
  }
  fs::last_write_time(staging + "/old", fs::file_time_type::clock::now() - std::chrono::hours(2));
  ASSERT_TRUE(KernelCache(inDirectory(directory.getPath())).getOrBuild(kernelKind, "a", building("A")).ok());
  EXPECT_FALSE(fs::exists(staging + "/old"));
  EXPECT_TRUE(fs::exists(staging + "/new")); // another process may be writing it
}

TEST(KernelCache, ReadersAndWritersAndEvictionAtOnce) {
  // Small enough that entries come and go all the time; each that is found must be whole.
  TemporaryDirectory directory;
  std::vector<pid_t> children;
  for (int process = 0; process < 4; ++process) {
    pid_t child = fork();
    if (child == 0) {
      KernelCacheOptions options = inDirectory(directory.getPath());
      options.maxBytes = 60000;
      int result = 0;
      for (int i = 0; i < 60; ++i) {
        KernelCache cache(options);
        std::string key = std::to_string((i * 7 + process) % 10);
        StatusOr<KernelCache::Entry> entry = cache.getOrBuild(kernelKind, key, building(key));
        if (!entry.ok() || **entry != *building(key)())
          result = 1;
      }
      _exit(result || testing::Test::HasFailure());
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
}
} // namespace
