//===- DiskStore.h - folders of files that appear whole or not at all -------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// DIRECTORY/KIND/KEY/ holds the files of an entry and `checksums`, which `sha256sum --check` reads. An entry
// is written in DIRECTORY/staging and moved to its place by one rename. There are no locks:
// any number of processes, also on other machines, may read, write, evict and be killed at any time.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_RUNTIME_DISKSTORE_H
#define ATTN_RUNTIME_DISKSTORE_H

#include "runtime/Status.h"
#include <cstdint>
#include <map>
#include <vector>

namespace attn {

/// Contents by file name.
using EntryFiles = std::map<std::string, std::string>;

class DiskStore {
public:
  /// The directory need not exist. Beyond `maxBytes`, the entries used longest ago are removed.
  DiskStore(std::string directory, uint64_t maxBytes) : directory(std::move(directory)), maxBytes(maxBytes) {}

  /// The entry, whole and with the right checksums, or nothing. A damaged one is removed. Marks the entry as
  /// used.
  std::optional<EntryFiles> load(const std::string &kind, const std::string &key) const;

  /// Adds an entry, and evicts others where there are too many. If another process has added it meanwhile,
  /// `files` becomes that one's.
  Status publish(const std::string &kind, const std::string &key, EntryFiles &files) const;

  std::vector<std::string> listKeys(const std::string &kind) const;

  std::string getPath(const std::string &kind, const std::string &key) const;

private:
  void discard(const std::string &path) const;
  void evict(const std::string &keep) const;
  std::string getStagingDirectory() const { return directory + "/staging"; }

  std::string directory;
  uint64_t maxBytes;
};

} // namespace attn

#endif // ATTN_RUNTIME_DISKSTORE_H
