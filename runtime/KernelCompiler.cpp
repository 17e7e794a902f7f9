//===- KernelCompiler.cpp - CUDA sources to machine code, through the cache -===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/KernelCompiler.h"
#include "runtime/BuildId.h"
#include "runtime/Environment.h"
#include "runtime/Hash.h"
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

namespace fs = std::filesystem;

namespace attn {

using Json = nlohmann::ordered_json;

std::vector<std::string> KernelCompilerOptions::getDefaultOptions() {
  return {"--std=c++17", "--fmad=false", "--ptxas-options=-v", "--ptxas-options=-warn-spills",
          "--ptxas-options=-warn-lmem-usage"};
}

KernelCompilerOptions KernelCompilerOptions::fromEnvironment(const Environment &environment) {
  KernelCompilerOptions options;
  options.buildId = getBuildId();
  options.nvrtcDirectories = environment.nvrtcDirectories;
  options.disableJit = environment.disableJit;
  options.dumpDirectory = environment.dumpDirectory;
  options.overrideDirectory = environment.overrideDirectory;
  KernelCacheOptions cache;
  cache.directory = environment.cacheDirectory;
  options.cache = std::make_shared<KernelCache>(cache);
  return options;
}

KernelCompiler::KernelCompiler(KernelCompilerOptions given) : options(std::move(given)) {
  if (!options.cache)
    options.cache = std::make_shared<KernelCache>(KernelCacheOptions());
}

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

StatusOr<LaunchPlan> KernelCompiler::getPlan(PlanKeyParts parts,
                                             const std::function<StatusOr<LaunchPlan>()> &lower) {
  parts.buildId = options.buildId;
  StatusOr<KernelCache::Entry> entry =
      options.cache->getOrBuild(KernelCache::Kind::Plan, makePlanKey(parts), [&]() -> StatusOr<EntryFiles> {
        // The kernels of a new plan are new, and NVRTC opens while passes run.
        std::thread opening;
        if (!options.disableJit)
          opening = std::thread([&] { (void)getNvrtc(); });
        StatusOr<LaunchPlan> plan = lower();
        if (opening.joinable())
          opening.join();
        if (!plan.ok())
          return plan.getStatus();
        return EntryFiles{{"plan.json", toJson(*plan)}};
      });
  if (!entry.ok())
    return entry.getStatus();
  auto plan = (*entry)->find("plan.json");
  if (plan == (*entry)->end())
    return Status::failure("the cache has no plan.json in its entry for this module");
  return parseLaunchPlan(plan->second);
}

//===----------------------------------------------------------------------===//
// NVRTC
//===----------------------------------------------------------------------===//

StatusOr<std::shared_ptr<Nvrtc>> KernelCompiler::getNvrtc() {
  std::lock_guard<std::mutex> lock(mutex);
  if (nvrtc)
    return nvrtc;
  if (!library)
    library = Nvrtc::find(options.nvrtcPath, options.nvrtcDirectories);
  if (!library->ok())
    return library->getStatus();
  StatusOr<std::shared_ptr<Nvrtc>> opened = Nvrtc::open(**library);
  if (opened.ok())
    nvrtc = *opened;
  return opened;
}

StatusOr<std::string> KernelCompiler::getNvrtcVersion() {
  std::string key;
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (nvrtc)
      return nvrtc->getVersion();
    if (!library)
      library = Nvrtc::find(options.nvrtcPath, options.nvrtcDirectories);
    if (!library->ok())
      return library->getStatus();
    key = hashText((*library)->identity);
  }
  StatusOr<KernelCache::Entry> entry =
      options.cache->getOrBuild(KernelCache::Kind::Nvrtc, key, [&]() -> StatusOr<EntryFiles> {
        StatusOr<std::shared_ptr<Nvrtc>> nvrtc = getNvrtc();
        if (!nvrtc.ok())
          return nvrtc.getStatus();
        return EntryFiles{{"version", (*nvrtc)->getVersion()}};
      });
  if (!entry.ok())
    return entry.getStatus();
  auto version = (*entry)->find("version");
  if (version == (*entry)->end())
    return Status::failure("the cache has no version in its entry for NVRTC");
  return version->second;
}

//===----------------------------------------------------------------------===//
// Compilation
//===----------------------------------------------------------------------===//

namespace {
std::string describe(const CompileReport &report, const std::string &name, const std::string &arch,
                     const std::string &nvrtcVersion, const std::vector<std::string> &options) {
  Json functions = Json::array();
  for (const FunctionUsage &function : report.functions)
    functions.push_back({{"name", function.name},
                         {"registers", function.registers},
                         {"stack_bytes", function.stackBytes},
                         {"spill_store_bytes", function.spillStoreBytes},
                         {"spill_load_bytes", function.spillLoadBytes},
                         {"static_shared_bytes", function.staticSharedBytes}});
  Json json = {{"name", name},       {"arch", arch},           {"nvrtc", nvrtcVersion},
               {"options", options}, {"functions", functions}, {"warnings", report.warnings}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}
} // namespace

std::vector<std::string> KernelCompilerOptions::getModuleOptions(int32_t optimization) const {
  std::vector<std::string> all = options;
  if (optimization == 2) // of ptxas, -O2 does what -O3 does
    all.push_back("--ptxas-options=--register-usage-level=0");
  else if (optimization != 3) // its default
    all.push_back("--ptxas-options=-O" + std::to_string(optimization));
  return all;
}

StatusOr<EntryFiles> KernelCompiler::build(const std::string &name, const std::string &source,
                                           const std::string &arch,
                                           const std::vector<std::string> &moduleOptions) {
  StatusOr<std::shared_ptr<Nvrtc>> nvrtc = getNvrtc();
  if (!nvrtc.ok())
    return nvrtc.getStatus();
  std::string log;
  StatusOr<NvrtcOutput> output =
      (*nvrtc)->compile({name + ".cu", source, options.headers, arch, moduleOptions}, &log);
  if (!output.ok()) {
    dump(name + ".log", log);
    return output.getStatus();
  }
  std::string spec = describe(parseCompileLog(log), name, arch, (*nvrtc)->getVersion(), moduleOptions);
  return EntryFiles{{"kernel.cu", source},
                    {"kernel.cubin", std::move(output->cubin)},
                    {"kernel_spec.json", std::move(spec)},
                    {"compile.log", std::move(log)}};
}

StatusOr<CompiledModule> KernelCompiler::compile(const std::string &planName, const ModuleSpec &module,
                                                 const std::string &arch) {
  // The hash tells sources of one name apart: other types, other schedules.
  std::string name = planName + "." + module.name + "." + hashText(module.source).substr(0, 8);
  std::string source = getOverride(planName, module, name + ".cu");
  dump(name + ".cu", source);

  std::vector<std::string> moduleOptions = options.getModuleOptions(module.optimization);
  KernelKeyParts parts{source, options.headers, "", moduleOptions, arch, options.buildId};
  CompiledModule compiled;
  StatusOr<std::string> version = getNvrtcVersion();
  Status status = version.getStatus();
  if (version.ok()) {
    parts.nvrtcVersion = *version;
    compiled.key = makeKernelKey(parts);
    StatusOr<KernelCache::Entry> entry =
        options.cache->getOrBuild(KernelCache::Kind::Kernel, compiled.key, [&]() -> StatusOr<EntryFiles> {
          if (options.disableJit)
            return Status::failure("kernel '" + name + "' is not in the cache for " + arch +
                                   ", and compiling is off (ATTN_DISABLE_JIT)");
          return build(name, source, arch, moduleOptions);
        });
    status = entry.getStatus();
    if (entry.ok())
      compiled.entry = *entry;
  }
  // Where nothing is compiled, what another version has left in the cache serves.
  if (!compiled.entry && (!version.ok() || options.disableJit))
    for (const std::string &key : options.cache->listKeys(KernelCache::Kind::Nvrtc))
      if (KernelCache::Entry known = options.cache->find(KernelCache::Kind::Nvrtc, key);
          known && known->count("version") && !compiled.entry) {
        parts.nvrtcVersion = known->at("version");
        compiled.key = makeKernelKey(parts);
        compiled.entry = options.cache->find(KernelCache::Kind::Kernel, compiled.key);
      }
  if (!compiled.entry)
    return status;
  for (const char *file : {"kernel.cu", "kernel.cubin", "kernel_spec.json", "compile.log"})
    if (!compiled.entry->count(file))
      return Status::failure("the cache's entry " + compiled.key + " has no " + file + "; remove it");
  dump(name + ".cubin", compiled.getCubin());
  dump(name + ".json", compiled.entry->at("kernel_spec.json"));
  dump(name + ".log", compiled.getLog());
  return compiled;
}

//===----------------------------------------------------------------------===//
// Dumping and overriding
//===----------------------------------------------------------------------===//

std::string KernelCompiler::getOverride(const std::string &planName, const ModuleSpec &module,
                                        const std::string &fileName) {
  if (options.overrideDirectory.empty())
    return module.source;
  auto sayOnce = [&](const std::string &message) {
    {
      std::lock_guard<std::mutex> lock(mutex);
      if (std::exchange(said[message], true))
        return;
    }
    options.warn(message);
  };
  std::string path = options.overrideDirectory + "/" + fileName;
  if (std::ifstream file(path, std::ios::binary); file) {
    std::stringstream text;
    text << file.rdbuf();
    sayOnce("using '" + path + "' instead of the emitted source");
    return text.str();
  }
  // A file for a source that the compiler no longer emits would be ignored in silence.
  std::string prefix = planName + "." + module.name + ".";
  std::error_code error;
  fs::directory_iterator it(options.overrideDirectory, error), end;
  for (; !error && it != end; it.increment(error))
    if (std::string other = it->path().filename().string();
        other.compare(0, prefix.size(), prefix) == 0 && it->path().extension() == ".cu")
      sayOnce("not using '" + it->path().string() + "': the source emitted now is " + fileName);
  return module.source;
}

void KernelCompiler::dump(const std::string &fileName, const std::string &contents) {
  if (options.dumpDirectory.empty())
    return;
  std::error_code error;
  fs::create_directories(options.dumpDirectory, error);
  std::string path = options.dumpDirectory + "/" + fileName;
  std::ofstream file(path, std::ios::binary);
  file << contents;
  file.close();
  if (!file) {
    {
      std::lock_guard<std::mutex> lock(mutex);
      if (std::exchange(said["dump"], true))
        return;
    }
    options.warn("cannot write '" + path + "'");
  }
}

} // namespace attn
