//===- Nvrtc.cpp - NVIDIA's runtime compiler, opened when first needed ------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/Nvrtc.h"
#include <cstdlib>
#include <dirent.h>
#include <dlfcn.h>
#include <link.h>
#include <sys/stat.h>

namespace attn {

//===----------------------------------------------------------------------===//
// Finding the library
//===----------------------------------------------------------------------===//

namespace {
using Program = struct ProgramHandle *;

const std::string libraryPrefix = "libnvrtc.so";

std::string getFileName(const std::string &path) { return path.substr(path.rfind('/') + 1); }

std::string findLoaded() {
  std::string path;
  dl_iterate_phdr(
      [](dl_phdr_info *info, size_t, void *path) {
        std::string name = info->dlpi_name;
        if (getFileName(name).compare(0, libraryPrefix.size(), libraryPrefix) != 0)
          return 0;
        *static_cast<std::string *>(path) = name;
        return 1;
      },
      &path);
  return path;
}

/// The highest version of the library in `directory`, or nothing. "libnvrtc.so.13" beats "libnvrtc.so".
std::string findIn(const std::string &directory) {
  DIR *dir = opendir(directory.c_str());
  if (!dir)
    return "";
  std::string best;
  double bestVersion = -1;
  while (const dirent *entry = readdir(dir)) {
    std::string name = entry->d_name;
    if (name.compare(0, libraryPrefix.size(), libraryPrefix) != 0)
      continue;
    double version =
        name.size() > libraryPrefix.size() ? strtod(name.c_str() + libraryPrefix.size() + 1, nullptr) : 0;
    if (version > bestVersion) {
      best = directory + "/" + name;
      bestVersion = version;
    }
  }
  closedir(dir);
  return best;
}

std::string getIdentity(const std::string &path) {
  struct stat info;
  if (stat(path.c_str(), &info))
    return path;
  return path + " " + std::to_string(info.st_size) + " " + std::to_string(info.st_mtim.tv_sec) + "." +
         std::to_string(info.st_mtim.tv_nsec);
}
} // namespace

StatusOr<NvrtcLibrary> Nvrtc::find(const std::string &path, const std::vector<std::string> &directories) {
  if (!path.empty()) {
    struct stat info;
    if (stat(path.c_str(), &info))
      return Status::failure("NVRTC: there is no file '" + path + "'");
    return NvrtcLibrary{path, getIdentity(path)};
  }
  if (std::string loaded = findLoaded(); !loaded.empty())
    return NvrtcLibrary{loaded, getIdentity(loaded)};
  for (const std::string &directory : directories)
    if (std::string found = findIn(directory); !found.empty())
      return NvrtcLibrary{found, getIdentity(found)};
  for (const char *name : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"})
    if (dlopen(name, RTLD_NOW | RTLD_LOCAL)) {
      std::string loaded = findLoaded();
      return NvrtcLibrary{loaded, getIdentity(loaded)};
    }
  std::string message =
      "NVRTC is missing: found no libnvrtc.so.13 or other version where the dynamic linker looks";
  for (const std::string &directory : directories)
    message += ", nor in " + directory;
  return Status::failure(message + "; it comes with the CUDA toolkit, or by 'pip install nvidia-cuda-nvrtc'");
}

//===----------------------------------------------------------------------===//
// Compiling
//===----------------------------------------------------------------------===//

struct Nvrtc::Functions {
  int (*version)(int *major, int *minor);
  const char *(*getErrorString)(int);
  int (*getNumSupportedArchs)(int *);
  int (*getSupportedArchs)(int *);
  int (*createProgram)(Program *, const char *source, const char *name, int numHeaders,
                       const char *const *headers, const char *const *includeNames);
  int (*compileProgram)(Program, int numOptions, const char *const *options);
  int (*destroyProgram)(Program *);
  int (*getLogSize)(Program, size_t *);
  int (*getLog)(Program, char *);
  int (*getCubinSize)(Program, size_t *);
  int (*getCubin)(Program, char *);
  int (*getPtxSize)(Program, size_t *);
  int (*getPtx)(Program, char *);
};

StatusOr<std::shared_ptr<Nvrtc>> Nvrtc::open(const NvrtcLibrary &library) {
  // Never closed: the library's threads and its builtins do not survive that.
  void *handle = dlopen(library.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return Status::failure("NVRTC does not load: " + std::string(dlerror()));
  auto functions = std::make_shared<Functions>();
  std::string missing;
  auto resolve = [&](auto &function, const char *symbol) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(handle, symbol));
    if (!function && missing.empty())
      missing = symbol;
  };
  resolve(functions->version, "nvrtcVersion");
  resolve(functions->getErrorString, "nvrtcGetErrorString");
  resolve(functions->getNumSupportedArchs, "nvrtcGetNumSupportedArchs");
  resolve(functions->getSupportedArchs, "nvrtcGetSupportedArchs");
  resolve(functions->createProgram, "nvrtcCreateProgram");
  resolve(functions->compileProgram, "nvrtcCompileProgram");
  resolve(functions->destroyProgram, "nvrtcDestroyProgram");
  resolve(functions->getLogSize, "nvrtcGetProgramLogSize");
  resolve(functions->getLog, "nvrtcGetProgramLog");
  resolve(functions->getCubinSize, "nvrtcGetCUBINSize");
  resolve(functions->getCubin, "nvrtcGetCUBIN");
  resolve(functions->getPtxSize, "nvrtcGetPTXSize");
  resolve(functions->getPtx, "nvrtcGetPTX");
  if (!missing.empty())
    return Status::failure("NVRTC: '" + library.path + "' has no function " + missing +
                           ", expected NVRTC 11.2 or later");
  int major = 0, minor = 0;
  functions->version(&major, &minor);
  struct stat info = {};
  stat(library.path.c_str(), &info);
  std::shared_ptr<Nvrtc> nvrtc(new Nvrtc);
  nvrtc->functions = std::move(functions);
  nvrtc->path = library.path;
  nvrtc->version =
      std::to_string(major) + "." + std::to_string(minor) + " (" + std::to_string(info.st_size) + ")";
  return nvrtc;
}

namespace {
/// What a pair of NVRTC's functions returns.
template <typename GetSize, typename Get>
std::string fetch(Program program, GetSize getSize, Get get) {
  size_t size = 0;
  std::string text;
  if (getSize(program, &size) == 0 && size > 0) {
    text.resize(size);
    if (get(program, text.data()))
      text.clear();
  }
  return text;
}

/// Text comes with its terminating zero.
std::string dropTerminator(std::string text) {
  while (!text.empty() && text.back() == '\0')
    text.pop_back();
  return text;
}

std::vector<std::string> splitLines(const std::string &text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

bool contains(const std::string &text, const char *part) { return text.find(part) != std::string::npos; }
} // namespace

StatusOr<NvrtcOutput> Nvrtc::compile(const NvrtcRequest &request, std::string *log) const {
  std::vector<const char *> texts, names, options;
  for (const DeviceHeader &header : request.headers) {
    texts.push_back(header.text.c_str());
    names.push_back(header.name.c_str());
  }
  std::string archOption = "--gpu-architecture=" + request.arch;
  options.push_back(archOption.c_str());
  for (const std::string &option : request.options)
    options.push_back(option.c_str());

  Program program = nullptr;
  int result = functions->createProgram(&program, request.source.c_str(), request.name.c_str(),
                                        static_cast<int>(texts.size()), texts.data(), names.data());
  if (result)
    return Status::failure("NVRTC: " + request.name + ": " + functions->getErrorString(result));
  result = functions->compileProgram(program, static_cast<int>(options.size()), options.data());
  NvrtcOutput output;
  output.log = dropTerminator(fetch(program, functions->getLogSize, functions->getLog));
  if (!result) {
    output.cubin = fetch(program, functions->getCubinSize, functions->getCubin);
    if (request.wantPtx)
      output.ptx = dropTerminator(fetch(program, functions->getPtxSize, functions->getPtx));
  }
  functions->destroyProgram(&program);
  if (log)
    *log = output.log;
  if (!result && !output.cubin.empty())
    return output;

  std::string message = functions->getErrorString(result);
  for (const std::string &line : splitLines(output.log))
    if (contains(line, "error") || contains(line, "fatal")) {
      message = line;
      break;
    }
  int count = 0;
  functions->getNumSupportedArchs(&count);
  std::vector<int> archs(count);
  functions->getSupportedArchs(archs.data());
  if (contains(message, "gpu-architecture") && count > 0)
    message += "; it is for sm_" + std::to_string(archs.front()) + " to sm_" + std::to_string(archs.back());
  return Status::failure("NVRTC " + version + " does not compile " + request.name + " for " + request.arch +
                         ": " + message);
}

//===----------------------------------------------------------------------===//
// The log
//===----------------------------------------------------------------------===//

namespace {
/// The number before `unit` in a list like "0 bytes stack frame, 8 bytes spill stores"; 0 if there is none.
int64_t findNumberBefore(const std::string &line, const std::string &unit) {
  size_t end = line.find(" " + unit);
  if (end == std::string::npos)
    return 0;
  size_t begin = end;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9')
    --begin;
  return strtoll(line.c_str() + begin, nullptr, 10);
}
} // namespace

CompileReport parseCompileLog(const std::string &log) {
  CompileReport report;
  auto getFunction = [&](const std::string &name) -> FunctionUsage & {
    for (FunctionUsage &function : report.functions)
      if (function.name == name)
        return function;
    report.functions.emplace_back();
    report.functions.back().name = name;
    return report.functions.back();
  };
  // ptxas names a function in one line and tells of it in those that follow: registers of the entry function,
  // stack of the function last named, which may be one that the entry calls.
  std::string entry, function;
  for (const std::string &line : splitLines(log)) {
    const std::string compiling = "Compiling entry function '", properties = "Function properties for ";
    if (size_t at = line.find(compiling); at != std::string::npos) {
      size_t begin = at + compiling.size();
      entry = function = line.substr(begin, line.find('\'', begin) - begin);
      getFunction(entry);
    } else if (size_t at = line.find(properties); at != std::string::npos) {
      function = line.substr(at + properties.size());
    } else if (contains(line, "bytes stack frame") && !function.empty()) {
      FunctionUsage &usage = getFunction(function);
      usage.stackBytes = findNumberBefore(line, "bytes stack frame");
      usage.spillStoreBytes = findNumberBefore(line, "bytes spill stores");
      usage.spillLoadBytes = findNumberBefore(line, "bytes spill loads");
    } else if (contains(line, ": Used ") && !entry.empty()) {
      FunctionUsage &usage = getFunction(entry);
      usage.registers = static_cast<int>(findNumberBefore(line, "registers"));
      usage.staticSharedBytes = findNumberBefore(line, "bytes smem");
    } else if (contains(line, "warning") || contains(line, "(C75")) {
      report.warnings.push_back(line);
    }
  }
  return report;
}

std::vector<std::string> CompileReport::findProblems() const {
  std::vector<std::string> problems;
  for (const FunctionUsage &function : functions)
    if (function.stackBytes || function.spillStoreBytes || function.spillLoadBytes)
      problems.push_back(function.name + ": " + std::to_string(function.spillStoreBytes) +
                         " bytes spill stores, " + std::to_string(function.spillLoadBytes) +
                         " bytes spill loads, " + std::to_string(function.stackBytes) +
                         " bytes stack frame a thread");
  problems.insert(problems.end(), warnings.begin(), warnings.end());
  return problems;
}

} // namespace attn
