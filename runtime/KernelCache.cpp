//===- KernelCache.cpp - compiled kernels and plans, in memory and on disk --===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/KernelCache.h"
#include "runtime/Hash.h"
#include <cstdio>

namespace attn {

//===----------------------------------------------------------------------===//
// Keys
//===----------------------------------------------------------------------===//

namespace {
using Parts = std::vector<std::pair<std::string, std::string>>;

void addOptions(Parts &parts, const std::vector<std::string> &options) {
  for (const std::string &option : options)
    parts.emplace_back("option", option);
}
} // namespace

std::string makePlanKey(const PlanKeyParts &parts) {
  Parts list = {{"plan", ""},
                {"module", parts.moduleText},
                {"function", parts.function},
                {"target", parts.target},
                {"build", parts.buildId}};
  addOptions(list, parts.options);
  return hashParts(list);
}

std::string makeKernelKey(const KernelKeyParts &parts) {
  Parts list = {{"kernel", ""},
                {"source", parts.source},
                {"nvrtc", parts.nvrtcVersion},
                {"arch", parts.arch},
                {"build", parts.buildId}};
  addOptions(list, parts.options);
  for (const DeviceHeader &header : parts.headers)
    list.emplace_back("header " + header.name, header.text);
  return hashParts(list);
}

//===----------------------------------------------------------------------===//
// KernelCache
//===----------------------------------------------------------------------===//

void warnOnStandardError(const std::string &message) {
  fprintf(stderr, "attn: warning: %s\n", message.c_str());
}

namespace {
const char *getFolder(KernelCache::Kind kind) {
  switch (kind) {
  case KernelCache::Kind::Plan:
    return "plans";
  case KernelCache::Kind::Kernel:
    return "kernels";
  case KernelCache::Kind::Nvrtc:
    return "nvrtc";
  }
  return "";
}
} // namespace

KernelCache::KernelCache(KernelCacheOptions given) : options(std::move(given)) {
  if (!options.warn)
    options.warn = warnOnStandardError;
  if (!options.directory.empty())
    disk.emplace(options.directory, options.maxBytes);
}

std::string KernelCache::getPath(Kind kind, const std::string &key) const {
  return disk ? disk->getPath(getFolder(kind), key) : "";
}

std::shared_ptr<KernelCache::Slot> KernelCache::getSlot(const std::string &id) {
  std::lock_guard<std::mutex> lock(mutex);
  auto [it, isNew] = slots.try_emplace(id);
  if (isNew) {
    it->second = std::make_shared<Slot>();
    ages.push_front(id);
    it->second->age = ages.begin();
  } else {
    ages.splice(ages.begin(), ages, it->second->age);
  }
  return it->second;
}

/// Books the slot's entry, or forgets the slot if it has none.
void KernelCache::keepInMemory(const std::string &id, const std::shared_ptr<Slot> &slot) {
  std::lock_guard<std::mutex> lock(mutex);
  auto it = slots.find(id);
  if (it == slots.end() || it->second != slot)
    return; // dropped meanwhile
  auto drop = [&](decltype(it) victim) {
    memoryBytes -= victim->second->bytes;
    ages.erase(victim->second->age);
    slots.erase(victim);
  };
  if (!slot->entry)
    return drop(it);
  for (const auto &[name, contents] : *slot->entry)
    slot->bytes += contents.size();
  memoryBytes += slot->bytes;
  // Those who use an entry share it; only the cache lets go. Slots without bytes are still being built.
  auto oldest = ages.end();
  while (memoryBytes > options.maxMemoryBytes && oldest != ages.begin()) {
    auto victim = slots.find(*--oldest);
    if (victim->second != slot && victim->second->bytes) {
      ++oldest;
      drop(victim);
    }
  }
}

KernelCache::Entry KernelCache::find(Kind kind, const std::string &key) {
  StatusOr<Entry> entry = get(kind, key, /*build=*/nullptr);
  return entry.ok() ? *entry : nullptr;
}

StatusOr<KernelCache::Entry> KernelCache::getOrBuild(Kind kind, const std::string &key,
                                                     const std::function<StatusOr<EntryFiles>()> &build) {
  return get(kind, key, &build);
}

StatusOr<KernelCache::Entry> KernelCache::get(Kind kind, const std::string &key,
                                              const std::function<StatusOr<EntryFiles>()> *build) {
  std::string id = std::string(getFolder(kind)) + "/" + key;
  std::shared_ptr<Slot> slot = getSlot(id);
  std::lock_guard<std::mutex> lock(slot->mutex);
  if (!slot->isDone) {
    if (disk)
      if (std::optional<EntryFiles> files = disk->load(getFolder(kind), key))
        slot->entry = std::make_shared<const EntryFiles>(std::move(*files));
    if (!slot->entry) {
      if (!build)
        return Status::failure("not cached"); // the slot stays open: a thread may be waiting to build
      StatusOr<EntryFiles> files = (*build)();
      if (files.ok()) {
        if (disk)
          if (Status status = disk->publish(getFolder(kind), key, *files); !status.ok())
            warnOnce("compiled kernels are kept in memory only: " + status.getMessage());
        slot->entry = std::make_shared<const EntryFiles>(std::move(*files));
      } else {
        slot->status = files.getStatus();
      }
    }
    slot->isDone = true;
    keepInMemory(id, slot);
  }
  if (!slot->entry)
    return slot->status;
  return slot->entry;
}

std::vector<std::string> KernelCache::listKeys(Kind kind) const {
  return disk ? disk->listKeys(getFolder(kind)) : std::vector<std::string>();
}

void KernelCache::clearMemory() {
  std::lock_guard<std::mutex> lock(mutex);
  slots.clear();
  ages.clear();
  memoryBytes = 0;
}

void KernelCache::warnOnce(const std::string &message) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (std::exchange(hasWarned, true))
      return;
  }
  options.warn(message);
}

} // namespace attn
