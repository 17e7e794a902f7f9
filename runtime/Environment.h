//===- Environment.h - the environment variables of the project -------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The only place that reads the environment. Tools and bindings ask once, and pass on what they got as
// options.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_RUNTIME_ENVIRONMENT_H
#define ATTN_RUNTIME_ENVIRONMENT_H

#include "runtime/Status.h"
#include <vector>

namespace attn {

struct Environment {
  /// ATTN_CACHE_DIR: where compiled kernels are kept. Without it $XDG_CACHE_HOME/attn, else ~/.cache/attn,
  /// else empty: nothing is kept beyond the process.
  std::string cacheDirectory;
  /// ATTN_DISABLE_JIT=1: kernels come from the cache alone; one that is missing is an error.
  bool disableJit = false;
  /// ATTN_DUMP_DIR: every kernel that is used is written there, with what belongs to it; empty for nowhere.
  std::string dumpDirectory;
  /// ATTN_OVERRIDE_DIR: a CUDA source that lies there under the name that a dump has is used instead of the
  /// emitted one; empty for none.
  std::string overrideDirectory;
  /// Where libnvrtc may lie, from the directories that LD_LIBRARY_PATH, CUDA_HOME, CUDA_PATH, VIRTUAL_ENV,
  /// CONDA_PREFIX, HOME and the Python installations on PATH name; best first.
  std::vector<std::string> nvrtcDirectories;
};

/// Fails on a value that means nothing.
StatusOr<Environment> readEnvironment();

} // namespace attn

#endif // ATTN_RUNTIME_ENVIRONMENT_H
