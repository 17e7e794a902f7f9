//===- Environment.cpp - the environment variables of the project -----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/Environment.h"
#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace fs = std::filesystem;

namespace attn {

namespace {
std::string getVariable(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

std::vector<std::string> splitPath(const std::string &path) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin < path.size();) {
    size_t end = std::min(path.find(':', begin), path.size());
    if (end > begin)
      parts.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// Entries of `directory` whose names begin with `prefix`, the highest first ("cuda-13.0" before
/// "cuda-12.4").
std::vector<std::string> listByPrefix(const fs::path &directory, const std::string &prefix) {
  std::vector<std::string> paths;
  std::error_code error;
  fs::directory_iterator it(directory, error), end;
  for (; !error && it != end; it.increment(error))
    if (it->path().filename().string().compare(0, prefix.size(), prefix) == 0)
      paths.push_back(it->path().string());
  auto key = [](const std::string &path) {
    // Numbers compare by value when shorter ones come first.
    return std::pair(path.size(), path);
  };
  std::sort(paths.begin(), paths.end(), [&](const auto &a, const auto &b) { return key(a) > key(b); });
  return paths;
}

/// The folders of the PyPI package nvidia-cuda-nvrtc below the Python libraries in `prefix`/lib.
void addPythonDirectories(const fs::path &prefix, std::vector<std::string> &directories) {
  for (const std::string &python : listByPrefix(prefix / "lib", "python3"))
    for (const char *packages : {"site-packages", "dist-packages"}) {
      fs::path nvidia = fs::path(python) / packages / "nvidia";
      for (const std::string &cuda : listByPrefix(nvidia, "cu1"))
        directories.push_back(cuda + "/lib");
      directories.push_back((nvidia / "cuda_nvrtc" / "lib").string());
    }
}

void addToolkitDirectories(const std::string &root, std::vector<std::string> &directories) {
  for (const char *library : {"/lib64", "/lib", "/targets/x86_64-linux/lib"})
    directories.push_back(root + library);
}

std::vector<std::string> findNvrtcDirectories() {
  std::vector<std::string> directories = splitPath(getVariable("LD_LIBRARY_PATH"));
  for (const char *name : {"CUDA_HOME", "CUDA_PATH"})
    if (std::string root = getVariable(name); !root.empty())
      addToolkitDirectories(root, directories);
  for (const char *name : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (std::string root = getVariable(name); !root.empty()) {
      directories.push_back(root + "/lib");
      addPythonDirectories(root, directories);
    }
  addToolkitDirectories("/usr/local/cuda", directories);
  for (const std::string &root : listByPrefix("/usr/local", "cuda-"))
    addToolkitDirectories(root, directories);
  // A program in PREFIX/bin/python3 has its packages in PREFIX/lib, also in a virtual environment.
  std::error_code error;
  for (const std::string &directory : splitPath(getVariable("PATH")))
    if (fs::exists(fs::path(directory) / "python3", error))
      addPythonDirectories(fs::path(directory).parent_path(), directories);
  if (std::string home = getVariable("HOME"); !home.empty())
    addPythonDirectories(fs::path(home) / ".local", directories);
  addPythonDirectories("/usr/local", directories);
  directories.insert(directories.end(), {"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"});

  std::vector<std::string> existing;
  for (std::string &directory : directories)
    if (std::find(existing.begin(), existing.end(), directory) == existing.end() &&
        fs::is_directory(directory, error))
      existing.push_back(std::move(directory));
  return existing;
}

std::string findCacheDirectory() {
  if (std::string directory = getVariable("ATTN_CACHE_DIR"); !directory.empty())
    return directory;
  if (std::string cache = getVariable("XDG_CACHE_HOME"); !cache.empty())
    return cache + "/attn";
  if (std::string home = getVariable("HOME"); !home.empty())
    return home + "/.cache/attn";
  return "";
}
} // namespace

StatusOr<Environment> readEnvironment() {
  Environment environment;
  environment.cacheDirectory = findCacheDirectory();
  environment.dumpDirectory = getVariable("ATTN_DUMP_DIR");
  environment.overrideDirectory = getVariable("ATTN_OVERRIDE_DIR");
  std::error_code error;
  if (!environment.overrideDirectory.empty() && !fs::is_directory(environment.overrideDirectory, error))
    return Status::failure("ATTN_OVERRIDE_DIR names '" + environment.overrideDirectory +
                           "', which is no directory");
  std::string disable = getVariable("ATTN_DISABLE_JIT");
  if (!disable.empty() && disable != "0" && disable != "1")
    return Status::failure("ATTN_DISABLE_JIT is '" + disable + "', expected 0 or 1");
  environment.disableJit = disable == "1";
  environment.nvrtcDirectories = findNvrtcDirectories();
  return environment;
}

} // namespace attn
