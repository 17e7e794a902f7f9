//===- KernelCompiler.h - CUDA sources to machine code, through the cache ---===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_RUNTIME_KERNELCOMPILER_H
#define ATTN_RUNTIME_KERNELCOMPILER_H

#include "runtime/KernelCache.h"
#include "runtime/KernelSpec.h"

namespace attn {

struct Environment;

struct KernelCompilerOptions {
  /// What sources may include.
  std::vector<DeviceHeader> headers;
  /// Of NVRTC, beyond the architecture.
  std::vector<std::string> options = getDefaultOptions();
  /// A part of every key.
  std::string buildId;
  /// The library; empty to look for one in `nvrtcDirectories` and where the dynamic linker looks.
  std::string nvrtcPath;
  std::vector<std::string> nvrtcDirectories;
  /// See Environment.h.
  bool disableJit = false;
  std::string dumpDirectory, overrideDirectory;
  /// Null for one in memory.
  std::shared_ptr<KernelCache> cache;
  WarningHandler warn = warnOnStandardError;

  /// C++17, and ptxas's report of registers and spills in the log.
  static std::vector<std::string> getDefaultOptions();
  /// `options`, and the one that sets the level of ptxas.
  std::vector<std::string> getModuleOptions(int32_t optimization) const;
  /// What the environment says, with its cache directory and this build's id.
  static KernelCompilerOptions fromEnvironment(const Environment &environment);
};

/// A source's machine code.
struct CompiledModule {
  KernelCache::Entry entry;
  std::string key; ///< Of the cache.

  const std::string &getCubin() const { return entry->at("kernel.cubin"); }
  /// The source as it was compiled: that of the plan, or the one that overrides it.
  const std::string &getSource() const { return entry->at("kernel.cu"); }
  const std::string &getLog() const { return entry->at("compile.log"); }
  CompileReport getReport() const { return parseCompileLog(getLog()); }
};

/// Any number of threads may use it at once. NVRTC is opened for the first plan or source that is in no
/// cache: its library takes 14 ms to open, or 0.1 s the first time on a machine.
class KernelCompiler {
public:
  explicit KernelCompiler(KernelCompilerOptions options);

  /// The plan for `parts`, from the cache or from `lower`. The build id is added.
  StatusOr<LaunchPlan> getPlan(PlanKeyParts parts, const std::function<StatusOr<LaunchPlan>()> &lower);

  /// The machine code of a module of the plan called `planName`.
  StatusOr<CompiledModule> compile(const std::string &planName, const ModuleSpec &module,
                                   const std::string &arch);

  KernelCache &getCache() { return *options.cache; }

private:
  StatusOr<std::shared_ptr<Nvrtc>> getNvrtc();
  StatusOr<std::string> getNvrtcVersion();
  StatusOr<EntryFiles> build(const std::string &name, const std::string &source, const std::string &arch,
                             const std::vector<std::string> &moduleOptions);
  std::string getOverride(const std::string &planName, const ModuleSpec &module, const std::string &fileName);
  void dump(const std::string &fileName, const std::string &contents);

  KernelCompilerOptions options;
  std::mutex mutex; // of what follows
  std::optional<StatusOr<NvrtcLibrary>> library;
  std::shared_ptr<Nvrtc> nvrtc;
  std::map<std::string, bool> said;
};

} // namespace attn

#endif // ATTN_RUNTIME_KERNELCOMPILER_H
