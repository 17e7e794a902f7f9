//===- Nvrtc.h - NVIDIA's runtime compiler, opened when first needed --------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_RUNTIME_NVRTC_H
#define ATTN_RUNTIME_NVRTC_H

#include "runtime/Status.h"
#include <memory>
#include <vector>

namespace attn {

/// A header that sources include by `name`, without an include path.
struct DeviceHeader {
  std::string name; ///< "attn/portable.cuh"
  std::string text;
};

struct NvrtcRequest {
  std::string name; ///< Of the source, in diagnostics: "causal.cu".
  std::string source;
  std::vector<DeviceHeader> headers;
  std::string arch; ///< "sm_90a"
  std::vector<std::string> options;
  bool wantPtx = false;
};

/// What ptxas says of one function.
struct FunctionUsage {
  std::string name;
  int registers = 0; ///< A thread. 0 for a function that is called, not launched.
  int64_t stackBytes = 0, spillStoreBytes = 0, spillLoadBytes = 0; ///< A thread.
  int64_t staticSharedBytes = 0;                                   ///< A block.
};

/// What the log of a compilation with ptxas's -v says.
struct CompileReport {
  std::vector<FunctionUsage> functions;
  /// Warnings, and notes with a code C75xx (products of tensor cores that ptxas had to serialize), one line
  /// each.
  std::vector<std::string> warnings;

  /// Lines on spills, stack frames and `warnings`; empty where nothing was found to object to.
  std::vector<std::string> findProblems() const;
};
CompileReport parseCompileLog(const std::string &log);

struct NvrtcOutput {
  std::string cubin;
  std::string ptx; ///< If wanted.
  std::string log; ///< Warnings and ptxas's report.
};

/// The file that `Nvrtc::open` would open.
struct NvrtcLibrary {
  std::string path;
  /// Changes when the file does.
  std::string identity;
};

/// Compiling from several threads at once is fine.
class Nvrtc {
public:
  /// Finds libnvrtc without opening it: the file `path` if not empty; else one that the process has loaded;
  /// else the highest version in the first of `directories` that has any; else where the dynamic linker
  /// looks, which only opening tells. The message of a failure says where it looked.
  static StatusOr<NvrtcLibrary> find(const std::string &path, const std::vector<std::string> &directories);
  static StatusOr<std::shared_ptr<Nvrtc>> open(const NvrtcLibrary &library);

  /// "13.0", with the size of the library's file, which tells patch releases apart.
  const std::string &getVersion() const { return version; }
  const std::string &getPath() const { return path; }

  /// On an error in the source, the message is one line and `*log`, if not null, the whole log.
  StatusOr<NvrtcOutput> compile(const NvrtcRequest &request, std::string *log = nullptr) const;

private:
  struct Functions;

  Nvrtc() = default;

  std::shared_ptr<const Functions> functions;
  std::string path, version;
};

} // namespace attn

#endif // ATTN_RUNTIME_NVRTC_H
