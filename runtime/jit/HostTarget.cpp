//===- HostTarget.cpp - the machine that this process runs on ----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/jit/HostTarget.h"
#include "passes/Targets.h"
#include "runtime/cpu/ThreadPool.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/Triple.h"
#include <unistd.h>

using namespace mlir;
using namespace attn;

/// CPU architectures from old to new; each runs the code of those before it. The features are those that the
/// psABI's levels add.
static Arch detectHostArch() {
  if (llvm::Triple(llvm::sys::getProcessTriple()).isAArch64())
    return Arch::aarch64;
  llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
  auto hasAll = [&](std::initializer_list<llvm::StringRef> names) {
    return llvm::all_of(names, [&](llvm::StringRef name) { return features.lookup(name); });
  };
  if (!hasAll({"avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "movbe"}))
    return Arch::x86_64;
  if (!hasAll({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}))
    return Arch::x86_64_v3;
  return Arch::x86_64_v4;
}

static Arch getHostArch() {
  static const Arch arch = detectHostArch();
  return arch;
}

/// A cache's size as the system tells it, or `otherwise`: containers and some kernels tell 0.
static int64_t getCacheBytes(int name, int64_t otherwise) {
  long bytes = sysconf(name);
  return bytes > 0 ? bytes : otherwise;
}

static TargetAttr withHostCachesAndCores(TargetAttr target) {
  return TargetAttr::get(target.getContext(), target.getArch(), target.getVectorBits(),
                         target.getVectorRegisters(),
                         getCacheBytes(_SC_LEVEL1_DCACHE_SIZE, target.getL1Bytes()),
                         getCacheBytes(_SC_LEVEL2_CACHE_SIZE, target.getL2Bytes()),
                         cpu::getNumHardwareThreads(), target.getMaxSharedMemory());
}

bool attn::canRunOnHost(Arch arch) {
  Arch host = getHostArch();
  if (host == Arch::aarch64 || arch == Arch::aarch64)
    return host == arch;
  return arch <= host; // x86-64 levels are declared from old to new
}

TargetAttr attn::getHostTarget(MLIRContext *context) {
  return withHostCachesAndCores(getNamedTarget(context, getHostArch()));
}

llvm::Expected<TargetAttr> attn::parseTarget(MLIRContext *context, llvm::StringRef name) {
  if (name == "host")
    return getHostTarget(context);
  std::optional<Arch> arch = parseArch(name);
  if (!arch)
    return llvm::createStringError(
        "unknown target '" + name +
        "', expected host, x86-64, x86-64-v3, x86-64-v4 or aarch64, or a GPU's sm_…");
  TargetAttr target = getNamedTarget(context, *arch);
  return canRunOnHost(*arch) ? withHostCachesAndCores(target) : target;
}
