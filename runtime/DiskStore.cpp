//===- DiskStore.cpp - folders of files that appear whole or not at all -----===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/DiskStore.h"
#include "runtime/Hash.h"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <dirent.h>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace fs = std::filesystem;

namespace attn {

namespace {
const std::string checksumsName = "checksums";
/// What a process that still writes has touched more recently than this.
constexpr int64_t staleStagingSeconds = 3600;

class FileDescriptor {
public:
  explicit FileDescriptor(int fd) : fd(fd) {}
  FileDescriptor(const FileDescriptor &) = delete;
  FileDescriptor &operator=(const FileDescriptor &) = delete;
  ~FileDescriptor() {
    if (fd >= 0)
      ::close(fd);
  }
  operator int() const { return fd; }
  int close() { return ::close(std::exchange(fd, -1)); }

private:
  int fd;
};

Status failure(const std::string &what, const std::string &path) {
  return Status::failure("cannot " + what + " '" + path + "': " + strerror(errno));
}

std::optional<std::string> readFile(int directory, const std::string &name) {
  FileDescriptor fd(openat(directory, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat info;
  if (fd < 0 || fstat(fd, &info) || !S_ISREG(info.st_mode))
    return std::nullopt;
  std::string contents(info.st_size, '\0');
  size_t done = 0;
  while (done < contents.size()) {
    ssize_t count = read(fd, contents.data() + done, contents.size() - done);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return std::nullopt;
    done += count;
  }
  return contents;
}

/// Of an open folder, but for hidden files, which network file systems put there.
size_t countFiles(int directory) {
  int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *dir = fd < 0 ? nullptr : fdopendir(fd);
  if (!dir)
    return 0;
  size_t count = 0;
  while (const dirent *file = readdir(dir))
    count += file->d_name[0] != '.';
  closedir(dir); // and fd
  return count;
}

/// Does not wait until the file is on the disk, which takes milliseconds: checksums show what a power failure
/// has left, and it is built again.
Status writeFile(const std::string &path, const std::string &contents) {
  FileDescriptor fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (fd < 0)
    return failure("create", path);
  for (size_t done = 0; done < contents.size();) {
    ssize_t count = write(fd, contents.data() + done, contents.size() - done);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return failure("write", path);
    done += count;
  }
  // Space that was promised may be missing only now, on a network.
  if (fd.close())
    return failure("write", path);
  return {};
}

Status makeDirectories(const std::string &path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error)
    return Status::failure("cannot create '" + path + "': " + error.message());
  return {};
}

std::vector<fs::path> listDirectory(const fs::path &directory) {
  std::vector<fs::path> paths;
  std::error_code error;
  fs::directory_iterator it(directory, error), end;
  for (; !error && it != end; it.increment(error))
    paths.push_back(it->path());
  return paths;
}

/// As sha256sum writes them: digits, two spaces, the name.
std::string formatChecksums(const EntryFiles &files) {
  std::string text;
  for (const auto &[name, contents] : files)
    text += hashText(contents) + "  " + name + "\n";
  return text;
}

/// A path in the staging folder that nobody else uses.
StatusOr<std::string> makeStagingPath(const std::string &staging) {
  std::string path = staging + "/XXXXXX";
  if (!mkdtemp(path.data()))
    return failure("create a folder in", staging);
  chmod(path.c_str(), 0755); // mkdtemp keeps others out, who may read the other files
  return path;
}
} // namespace

std::string DiskStore::getPath(const std::string &kind, const std::string &key) const {
  return directory + "/" + kind + "/" + key;
}

std::optional<EntryFiles> DiskStore::load(const std::string &kind, const std::string &key) const {
  std::string path = getPath(kind, key);
  // All files are opened relative to this one folder, which another process may move away and replace.
  FileDescriptor entry(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (entry < 0) {
    if (errno == ENOTDIR)
      discard(path);
    return std::nullopt;
  }
  EntryFiles files;
  std::optional<std::string> checksums = readFile(entry, checksumsName);
  bool isWhole = checksums.has_value();
  for (size_t begin = 0; isWhole && begin < checksums->size();) {
    size_t end = checksums->find('\n', begin), name = begin + 64 + 2;
    isWhole = end != std::string::npos && end > name;
    if (!isWhole)
      break;
    std::string fileName = checksums->substr(name, end - name);
    std::optional<std::string> contents;
    if (fileName.find('/') == std::string::npos)
      contents = readFile(entry, fileName);
    isWhole = contents.has_value();
    if (isWhole)
      files[fileName] = std::move(*contents);
    begin = end + 1;
  }
  // Checksums that end too early, after a line, show by the files that they do not name.
  if (!isWhole || files.empty() || formatChecksums(files) != *checksums ||
      countFiles(entry) != files.size() + 1) {
    discard(path);
    return std::nullopt;
  }
  // The time of last use; fails where the cache is read-only.
  (void)utimensat(entry, checksumsName.c_str(), nullptr, 0);
  return files;
}

Status DiskStore::publish(const std::string &kind, const std::string &key, EntryFiles &files) const {
  for (const std::string &path : {directory + "/" + kind, getStagingDirectory()})
    if (Status status = makeDirectories(path); !status.ok())
      return status;
  StatusOr<std::string> staging = makeStagingPath(getStagingDirectory());
  if (!staging.ok())
    return staging.getStatus();

  Status status = [&]() -> Status {
    for (const auto &[name, contents] : files)
      if (Status status = writeFile(*staging + "/" + name, contents); !status.ok())
        return status;
    if (Status status = writeFile(*staging + "/" + checksumsName, formatChecksums(files)); !status.ok())
      return status;
    std::string path = getPath(kind, key);
    // A rename onto an entry fails, since that is not empty. Then it is another process's, as good as this
    // one, or damaged, and loading removes it.
    for (int attempt = 0; attempt < 3; ++attempt) {
      if (!rename(staging->c_str(), path.c_str()))
        return {};
      if (errno != EEXIST && errno != ENOTEMPTY)
        return failure("rename to", path);
      if (std::optional<EntryFiles> others = load(kind, key)) {
        files = std::move(*others);
        break;
      }
    }
    return {};
  }();
  std::error_code ignored;
  fs::remove_all(*staging, ignored);
  if (status.ok())
    evict(getPath(kind, key));
  return status;
}

std::vector<std::string> DiskStore::listKeys(const std::string &kind) const {
  std::vector<std::string> keys;
  for (const fs::path &path : listDirectory(fs::path(directory) / kind))
    keys.push_back(path.filename().string());
  return keys;
}

/// Moved away first, so that no reader finds half of it.
void DiskStore::discard(const std::string &path) const {
  std::error_code ignored;
  fs::create_directories(getStagingDirectory(), ignored);
  StatusOr<std::string> trash = makeStagingPath(getStagingDirectory());
  if (!trash.ok())
    return;
  rename(path.c_str(), (*trash + "/entry").c_str());
  fs::remove_all(*trash, ignored);
}

//===----------------------------------------------------------------------===//
// Eviction
//===----------------------------------------------------------------------===//

namespace {
struct EntryOnDisk {
  std::string path;
  int64_t lastUse = 0; // nanoseconds
  uint64_t bytes = 0;
};

EntryOnDisk inspect(const fs::path &path) {
  EntryOnDisk entry{path.string()};
  auto toTime = [](const struct stat &info) {
    return int64_t(info.st_mtim.tv_sec) * 1000000000 + info.st_mtim.tv_nsec;
  };
  struct stat info;
  if (!stat(path.c_str(), &info))
    entry.lastUse = toTime(info);
  for (const fs::path &file : listDirectory(path))
    if (!stat(file.c_str(), &info)) {
      entry.bytes += uint64_t(info.st_blocks) * 512;
      if (file.filename() == checksumsName)
        entry.lastUse = toTime(info);
    }
  return entry;
}
} // namespace

void DiskStore::evict(const std::string &keep) const {
  // What killed processes have left behind.
  int64_t now = time(nullptr);
  for (const fs::path &path : listDirectory(getStagingDirectory())) {
    struct stat info;
    std::error_code ignored;
    if (!stat(path.c_str(), &info) && now - info.st_mtim.tv_sec > staleStagingSeconds)
      fs::remove_all(path, ignored);
  }

  std::vector<EntryOnDisk> entries;
  uint64_t bytes = 0;
  for (const fs::path &kind : listDirectory(directory))
    if (kind != getStagingDirectory())
      for (const fs::path &path : listDirectory(kind)) {
        entries.push_back(inspect(path));
        bytes += entries.back().bytes;
      }
  if (bytes <= maxBytes)
    return;
  std::sort(entries.begin(), entries.end(),
            [](const EntryOnDisk &a, const EntryOnDisk &b) { return a.lastUse < b.lastUse; });
  // A bit more than needed, so that not every publication evicts.
  uint64_t target = maxBytes - maxBytes / 8;
  for (const EntryOnDisk &entry : entries) {
    if (bytes <= target)
      return;
    if (entry.path == keep)
      continue;
    discard(entry.path);
    bytes -= entry.bytes;
  }
}

} // namespace attn
