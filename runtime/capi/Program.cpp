//===- Program.cpp - a function compiled for one device ---------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/capi/Program.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Pipelines.h"
#include "runtime/CallChecks.h"
#include "runtime/Environment.h"
#include "runtime/jit/CpuExecutable.h"
#include "runtime/jit/HostTarget.h"
#include "runtime/jit/Signature.h"
#include <thread>

using namespace mlir;
using namespace attn;
using namespace attn::capi;

StatusOr<const std::string *> Program::getText(const std::string &name) {
  std::lock_guard<std::mutex> lock(textMutex);
  auto it = texts.find(name);
  if (it != texts.end())
    return &it->second;
  StatusOr<std::string> text = makeText(*this, name);
  if (!text.ok())
    return text.getStatus();
  return &texts.emplace(name, std::move(*text)).first->second;
}

//===----------------------------------------------------------------------===//
// CPU
//===----------------------------------------------------------------------===//

llvm::Expected<CpuModule> capi::lowerForCpu(MLIRContext *context, const CompileRequest &request) {
  CpuModule lowered;
  llvm::Expected<EntryPoint> entry = parseRequest(context, request);
  if (!entry)
    return entry.takeError();
  lowered.entry = std::move(*entry);
  (*lowered.entry.module)->setAttr(AttnDialect::getTargetAttrName(), getHostTarget(context));
  llvm::Expected<LaunchPlan> plan = describeParameters(lowered.entry);
  if (!plan)
    return plan.takeError();
  lowered.plan = std::move(*plan);
  {
    FirstDiagnostic diagnostic(context);
    PassManager pm(context);
    CpuPipelineOptions options;
    setOptions(options, request);
    buildAttentionPipeline(pm, options);
    if (failed(pm.run(*lowered.entry.module)))
      return diagnostic.take("the attention cannot be lowered");
  }
  llvm::Expected<std::vector<ResultSpec>> results = describeResults(lowered.entry, *lowered.entry.module);
  if (!results)
    return results.takeError();
  lowered.plan.results = std::move(*results);
  return std::move(lowered);
}

namespace {
class CpuProgram : public Program {
public:
  CpuProgram(CompileRequest request, LaunchPlan plan, std::unique_ptr<MLIRContext> context,
             std::unique_ptr<CpuExecutable> executable)
      : Program(std::move(request), std::move(plan)), context(std::move(context)),
        executable(std::move(executable)) {}

  std::string getDevice() const override { return "cpu"; }
  std::pair<int, int> getDlpackDevice() const override { return {1, 0}; }
  Status prepare(const VariantSpec *) override { return {}; }
  StatusOr<int64_t> getWorkspaceBytes(const std::vector<TensorRef> &parameters,
                                      const std::vector<TensorRef> &results) const override {
    if (Status status = check(parameters, results); !status.ok())
      return status;
    return int64_t(0);
  }
  Status synchronize(void *) const override { return {}; }
  StatusOr<CompiledModule> getCompiled(const ModuleSpec &) override {
    return Status::failure("a program for the CPU has no kernels");
  }

  Status launch(const std::vector<TensorRef> &parameters, const std::vector<TensorRef> &results, void *,
                WorkspaceRef) const override {
    if (Status status = check(parameters, results); !status.ok())
      return status;
    FunctionType signature = executable->getSignature(plan.name);
    SmallVector<Argument> arguments;
    SmallVector<BufferRef> buffers;
    for (auto [parameter, type] : llvm::zip_equal(parameters, signature.getInputs()))
      if (isa<RankedTensorType>(type))
        arguments.push_back(makeBuffer(parameter, type));
      else
        arguments.push_back(ScalarRef{parameter.data, type});
    for (auto [result, type] : llvm::zip_equal(results, signature.getResults()))
      buffers.push_back(makeBuffer(result, type));
    if (llvm::Error error = executable->run(plan.name, arguments, buffers))
      return Status::failure(llvm::toString(std::move(error)));
    return {};
  }

private:
  Status check(const std::vector<TensorRef> &parameters, const std::vector<TensorRef> &results) const {
    Status status = checkCall(plan, parameters, results, /*device=*/0, /*multiprocessors=*/1);
    return status.ok() ? status : Status::failure("'" + plan.name + "': " + status.getMessage());
  }

  static BufferRef makeBuffer(const TensorRef &tensor, Type type) {
    BufferRef buffer;
    buffer.data = tensor.data;
    buffer.shape.assign(tensor.sizes, tensor.sizes + tensor.rank);
    buffer.strides.assign(tensor.strides, tensor.strides + tensor.rank);
    buffer.elementType = cast<RankedTensorType>(type).getElementType();
    return buffer;
  }

  std::unique_ptr<MLIRContext> context; // of the executable's types
  std::unique_ptr<CpuExecutable> executable;
};
} // namespace

static Status toStatus(llvm::Error error) { return Status::failure(llvm::toString(std::move(error))); }

StatusOr<std::unique_ptr<Program>> capi::compileForCpu(CompileRequest request, int threads) {
  DialectRegistry registry;
  registerCompilerDialects(registry);
  auto context = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  llvm::Expected<CpuModule> lowered = lowerForCpu(context.get(), request);
  if (!lowered)
    return toStatus(lowered.takeError());
  CpuCompileOptions options;
  options.numThreads = threads;
  llvm::Expected<std::unique_ptr<CpuExecutable>> executable =
      CpuExecutable::compile(*lowered->entry.module, options);
  if (!executable)
    return toStatus(executable.takeError());
  // What follows needs the types of the context, but no module.
  LaunchPlan plan = std::move(lowered->plan);
  lowered->entry.module = nullptr;
  return std::unique_ptr<Program>(
      new CpuProgram(std::move(request), std::move(plan), std::move(context), std::move(*executable)));
}

//===----------------------------------------------------------------------===//
// GPU
//===----------------------------------------------------------------------===//

namespace {
/// What all programs of the process share. Never destroyed: the driver may be gone when the process ends.
class Shared {
public:
  static StatusOr<std::shared_ptr<KernelCompiler>> getCompiler() {
    static auto *const compiler = new StatusOr<std::shared_ptr<KernelCompiler>>(createCompiler());
    return *compiler;
  }

  static StatusOr<std::shared_ptr<GpuRuntime>> getRuntime() {
    static auto *const runtime = new StatusOr<std::shared_ptr<GpuRuntime>>(createRuntime());
    return *runtime;
  }

private:
  static StatusOr<std::shared_ptr<KernelCompiler>> createCompiler() {
    StatusOr<Environment> environment = readEnvironment();
    if (!environment.ok())
      return environment.getStatus();
    return createKernelCompiler(*environment);
  }

  static StatusOr<std::shared_ptr<GpuRuntime>> createRuntime() {
    StatusOr<std::shared_ptr<KernelCompiler>> compiler = getCompiler();
    if (!compiler.ok())
      return compiler.getStatus();
    return GpuRuntime::create(*compiler);
  }
};

class GpuProgram : public Program {
public:
  GpuProgram(CompileRequest request, LaunchPlan plan, GpuMachine machine, KernelCompiler &compiler,
             std::shared_ptr<GpuRuntime> runtime, std::unique_ptr<GpuExecutable> executable)
      : Program(std::move(request), std::move(plan)), machine(std::move(machine)), compiler(compiler),
        runtime(std::move(runtime)), executable(std::move(executable)) {}

  std::optional<GpuMachine> getMachine() const override { return machine; }
  std::string getDevice() const override {
    return executable ? "cuda:" + std::to_string(executable->getDevice().ordinal) : machine.arch;
  }
  std::pair<int, int> getDlpackDevice() const override {
    return {2, executable ? executable->getDevice().ordinal : -1};
  }

  Status prepare(const VariantSpec *variant) override {
    std::vector<bool> needed(plan.modules.size(), !variant);
    if (variant)
      for (const LaunchSpec &launch : variant->launches)
        needed[launch.module] = true;
    std::vector<Status> statuses(plan.modules.size());
    std::vector<std::thread> threads;
    // Through the cache, from which the executable takes them.
    for (size_t i = 0; i < plan.modules.size(); ++i)
      if (needed[i])
        threads.emplace_back([&, i] { statuses[i] = getCompiled(plan.modules[i]).getStatus(); });
    for (std::thread &thread : threads)
      thread.join();
    for (const Status &status : statuses)
      if (!status.ok())
        return status;
    return {};
  }

  Status launch(const std::vector<TensorRef> &parameters, const std::vector<TensorRef> &results, void *stream,
                WorkspaceRef workspace) const override {
    if (!executable)
      return notHere();
    return executable->launch(parameters, results, static_cast<cuda::Stream>(stream), workspace);
  }

  StatusOr<int64_t> getWorkspaceBytes(const std::vector<TensorRef> &parameters,
                                      const std::vector<TensorRef> &results) const override {
    if (!executable)
      return notHere();
    return executable->getWorkspaceBytes(parameters, results);
  }

  Status synchronize(void *stream) const override {
    if (!executable)
      return notHere();
    const CudaDriver &driver = runtime->getDriver();
    StatusOr<ContextScope> scope = ContextScope::enter(driver, executable->getDevice().ordinal);
    if (!scope.ok())
      return scope.getStatus();
    return driver.check(driver.streamSynchronize(static_cast<cuda::Stream>(stream)), "cuStreamSynchronize");
  }

  StatusOr<CompiledModule> getCompiled(const ModuleSpec &module) override {
    return compiler.compile(plan.name, module, machine.arch);
  }

private:
  Status notHere() const {
    return Status::failure("'" + plan.name + "' was compiled for any " + machine.arch +
                           ", not for a device; compile it for one ('cuda:0', without arch) to call it");
  }

  GpuMachine machine;
  KernelCompiler &compiler; // of the process
  std::shared_ptr<GpuRuntime> runtime;
  std::unique_ptr<GpuExecutable> executable; // null for a machine that need not be here
};
} // namespace

StatusOr<std::unique_ptr<Program>> capi::compileForGpu(CompileRequest request, int device,
                                                       const std::string &arch, bool &isUnavailable) {
  isUnavailable = true;
  StatusOr<std::shared_ptr<KernelCompiler>> compiler = Shared::getCompiler();
  if (!compiler.ok())
    return compiler.getStatus();
  std::shared_ptr<GpuRuntime> runtime;
  GpuMachine machine;
  if (arch.empty()) {
    StatusOr<std::shared_ptr<GpuRuntime>> found = Shared::getRuntime();
    if (!found.ok())
      return Status::failure(found.getMessage() +
                             "; compile for 'cpu', or for a GPU that is not here by its architecture");
    runtime = *found;
    StatusOr<DeviceInfo> info = runtime->getDriver().query(device);
    if (!info.ok())
      return info.getStatus();
    machine = GpuMachine::get(*info);
  }
  isUnavailable = false;
  if (!arch.empty()) {
    StatusOr<GpuMachine> named = GpuMachine::get(arch);
    if (!named.ok())
      return named.getStatus();
    machine = *named;
  }
  StatusOr<LaunchPlan> plan = getLaunchPlan(**compiler, request, machine);
  if (!plan.ok())
    return plan.getStatus();
  std::unique_ptr<GpuExecutable> executable;
  if (runtime) {
    auto created = GpuExecutable::create(runtime, *plan, device);
    if (!created.ok())
      return created.getStatus();
    executable = std::move(*created);
  }
  return std::unique_ptr<Program>(new GpuProgram(std::move(request), std::move(*plan), std::move(machine),
                                                 **compiler, std::move(runtime), std::move(executable)));
}
