//===- Launch.cpp - a launch plan, ready to run on a device -----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/Launch.h"
#include "runtime/CallChecks.h"
#include "runtime/TensorMap.h"
#include <algorithm>
#include <cstring>
#include <thread>

namespace attn {

StatusOr<std::unique_ptr<GpuExecutable>>
GpuExecutable::create(std::shared_ptr<GpuRuntime> runtime, LaunchPlan plan, int ordinal, std::string arch) {
  if (Status status = validate(plan); !status.ok())
    return status;
  StatusOr<DeviceInfo> device = runtime->getDriver().query(ordinal);
  if (!device.ok())
    return device.getStatus();
  std::unique_ptr<GpuExecutable> executable(new GpuExecutable(std::move(runtime), std::move(plan)));
  executable->device = *device;
  executable->arch = arch.empty() ? getArchName(device->major, device->minor) : std::move(arch);
  executable->compiled.resize(executable->plan.modules.size());
  for (const VariantSpec &variant : executable->plan.variants)
    for (const LaunchSpec &launch : variant.launches)
      if (launch.dynamicSharedBytes > device->maxSharedBytesPerBlock)
        return Status::failure("kernel '" + launch.kernel + "' needs " +
                               std::to_string(launch.dynamicSharedBytes) + " bytes of shared memory, but " +
                               device->name + " has " + std::to_string(device->maxSharedBytesPerBlock) +
                               "; compile for this device");
  return executable;
}

//===----------------------------------------------------------------------===//
// Compiling and loading
//===----------------------------------------------------------------------===//

Status GpuExecutable::compile(size_t variant) {
  std::lock_guard<std::mutex> lock(compileMutex);
  return compileMissing(variant);
}

Status GpuExecutable::compileMissing(size_t variant) {
  std::vector<size_t> missing;
  for (const LaunchSpec &launch : plan.variants[variant].launches)
    if (!compiled[launch.module] && std::find(missing.begin(), missing.end(), launch.module) == missing.end())
      missing.push_back(launch.module);

  std::vector<Status> statuses(missing.size());
  auto compileOne = [&](size_t i) {
    StatusOr<CompiledModule> module =
        runtime->getCompiler().compile(plan.name, plan.modules[missing[i]], arch);
    if (module.ok())
      compiled[missing[i]] = *module; // each thread has its own element
    else
      statuses[i] = module.getStatus();
  };
  std::vector<std::thread> threads;
  for (size_t i = 1; i < missing.size(); ++i)
    threads.emplace_back(compileOne, i);
  if (!missing.empty())
    compileOne(0);
  for (std::thread &thread : threads)
    thread.join();
  for (const Status &status : statuses)
    if (!status.ok())
      return status;
  return {};
}

StatusOr<cuda::Function> GpuExecutable::loadKernel(uint64_t contextId, const LaunchSpec &launch) {
  const CudaDriver &driver = runtime->getDriver();
  StatusOr<cuda::Module> module = runtime->load(contextId, *compiled[launch.module]);
  if (!module.ok())
    return module.getStatus();
  cuda::Function function = nullptr;
  if (driver.moduleGetFunction(&function, *module, launch.kernel.c_str()))
    return Status::failure("module '" + plan.modules[launch.module].name + "' has no kernel '" +
                           launch.kernel + "'");
  int staticBytes = 0;
  if (Status status = driver.check(
          driver.functionGetAttribute(&staticBytes, cuda::StaticSharedBytes, function), "cuFuncGetAttribute");
      !status.ok())
    return status;
  if (staticBytes + launch.dynamicSharedBytes > device.maxSharedBytesPerBlock)
    return Status::failure("kernel '" + launch.kernel + "' needs " + std::to_string(staticBytes) + " + " +
                           std::to_string(launch.dynamicSharedBytes) + " bytes of shared memory, but " +
                           device.name + " has " + std::to_string(device.maxSharedBytesPerBlock));
  if (Status status = driver.check(driver.functionSetAttribute(function, cuda::MaxDynamicSharedBytes,
                                                               static_cast<int>(launch.dynamicSharedBytes)),
                                   "cuFuncSetAttribute");
      !status.ok())
    return status;
  return function;
}

StatusOr<const GpuExecutable::LoadedKernels *> GpuExecutable::getKernels(uint64_t contextId, size_t variant) {
  std::pair<uint64_t, size_t> key(contextId, variant);
  auto find = [&]() -> const LoadedKernels * {
    std::shared_lock<std::shared_mutex> lock(kernelsMutex);
    auto it = kernels.find(key);
    return it == kernels.end() ? nullptr : &it->second; // elements of a map stay where they are
  };
  if (const LoadedKernels *loaded = find())
    return loaded;
  std::lock_guard<std::mutex> compileLock(compileMutex);
  if (const LoadedKernels *loaded = find())
    return loaded; // by the thread that this one waited for
  if (Status status = compileMissing(variant); !status.ok())
    return status;
  LoadedKernels loaded;
  for (const LaunchSpec &launch : plan.variants[variant].launches) {
    StatusOr<cuda::Function> function = loadKernel(contextId, launch);
    if (!function.ok())
      return function.getStatus();
    loaded.push_back(*function);
  }
  std::unique_lock<std::shared_mutex> lock(kernelsMutex);
  return &kernels.emplace(key, std::move(loaded)).first->second;
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

Status GpuExecutable::check(const std::vector<TensorRef> &parameters,
                            const std::vector<TensorRef> &results) const {
  Status status = checkCall(plan, parameters, results, device.ordinal, device.multiprocessors);
  return status.ok() ? status : Status::failure("'" + plan.name + "': " + status.getMessage());
}

StatusOr<size_t> GpuExecutable::selectVariant(const EvaluationContext &context) const {
  for (size_t i = 0; i < plan.variants.size(); ++i) {
    StatusOr<int64_t> holds = evaluate(plan.variants[i].condition, context);
    if (!holds.ok())
      return Status::failure("'" + plan.name + "': the condition of variant '" + plan.variants[i].name +
                             "', " + toString(plan.variants[i].condition, plan) + ", " + holds.getMessage());
    if (*holds)
      return i;
  }
  std::string message = "'" + plan.name + "': no variant is for these tensors:";
  for (const VariantSpec &variant : plan.variants)
    message += " '" + variant.name + "' needs " + toString(variant.condition, plan) + ";";
  message.pop_back();
  return Status::failure(message);
}

StatusOr<size_t> GpuExecutable::selectVariant(const std::vector<TensorRef> &parameters,
                                              const std::vector<TensorRef> &results) const {
  if (Status status = check(parameters, results); !status.ok())
    return status;
  return selectVariant({parameters.data(), results.data(), device.multiprocessors});
}

namespace {
constexpr int64_t workspaceAlignment = 256;

/// The shape and place of a workspace in a call.
struct PlacedWorkspace {
  int64_t offset = 0; // from the beginning of the call's workspace
  int64_t bytes = 0;
  cuda::DevicePointer data = 0;
  bool isZero = false; // before the first kernel, without a fill
  int64_t sizes[maxRank], strides[maxRank];
};

using PlacedWorkspaces = std::array<PlacedWorkspace, maxWorkspaces>;

/// Computes sizes and offsets; returns the bytes of all.
StatusOr<int64_t> placeWorkspaces(PlacedWorkspaces &placed, const LaunchPlan &plan,
                                  const VariantSpec &variant, const EvaluationContext &context) {
  int64_t end = 0;
  for (size_t i = 0; i < variant.workspaces.size(); ++i) {
    const WorkspaceSpec &spec = variant.workspaces[i];
    PlacedWorkspace &workspace = placed[i];
    auto fail = [&](const std::string &what) {
      return Status::failure("'" + plan.name + "': workspace '" + spec.name + "' " + what);
    };
    int64_t elements = 1;
    bool overflow = false;
    for (size_t d = spec.sizes.size(); d-- > 0;) {
      StatusOr<int64_t> size = evaluate(spec.sizes[d], context);
      if (!size.ok())
        return fail("has no size in dimension " + std::to_string(d) + ": " + toString(spec.sizes[d], plan) +
                    " " + size.getMessage());
      if (*size < 0 || *size > INT32_MAX)
        return fail("has size " + std::to_string(*size) + " in dimension " + std::to_string(d) +
                    ", expected 0 to 2147483647");
      workspace.sizes[d] = *size;
      workspace.strides[d] = elements;
      overflow |= __builtin_mul_overflow(elements, *size, &elements);
    }
    overflow |= __builtin_mul_overflow(elements, getSizeInBytes(spec.type), &workspace.bytes);
    workspace.offset = end;
    overflow |= __builtin_add_overflow(end, workspace.bytes + workspaceAlignment - 1, &end);
    if (overflow)
      return fail("is too large");
    end = end / workspaceAlignment * workspaceAlignment;
  }
  return end;
}

/// Finds the memory of all: those that calls leave zero are in `lease`'s zeros, if there is room.
void locateWorkspaces(PlacedWorkspaces &placed, const VariantSpec &variant, cuda::DevicePointer workspace,
                      const WorkspacePool::Lease &lease) {
  int64_t zeroEnd = 0;
  for (size_t i = 0; i < variant.workspaces.size(); ++i) {
    PlacedWorkspace &place = placed[i];
    place.isZero =
        variant.workspaces[i].leftZero && lease.zeros && place.bytes <= WorkspacePool::zeroBytes - zeroEnd;
    place.data = place.isZero ? lease.zeros + zeroEnd : workspace + place.offset;
    if (place.isZero) // 16 bytes hold any element
      zeroEnd += (place.bytes + 15) / 16 * 16;
  }
}

/// Holds the arguments of kernels, those of one after those of another. The driver copies each to its place,
/// which only the compiled kernel knows: parameters of sm_90 begin 16 bytes after a multiple of 64, so that a
/// tensor map lies elsewhere than in a struct.
class ArgumentPacker {
public:
  void add(const void *value, int64_t size) { memcpy(reserve(size), value, size); }

  void addTensor(const TensorRef &tensor) {
    unsigned char *slot = reserve(getTensorLayout(tensor.rank).bytes);
    memcpy(slot, &tensor.data, 8);
    for (int i = 0; i < tensor.rank; ++i) {
      auto size = static_cast<int32_t>(tensor.sizes[i]);
      memcpy(slot + 8 + 8 * i, &tensor.strides[i], 8);
      memcpy(slot + 8 + 8 * tensor.rank + 4 * i, &size, 4);
    }
  }

  unsigned char *addTensorMap() { return reserve(tensorMapBytes); }

  size_t getCount() const { return offsets.size(); }

  /// Where the arguments are, once all are added.
  std::vector<void *> getPointers() {
    std::vector<void *> pointers;
    pointers.reserve(offsets.size());
    for (size_t offset : offsets)
      pointers.push_back(bytes.data() + offset);
    return pointers;
  }

private:
  unsigned char *reserve(int64_t size) {
    offsets.push_back(bytes.size());
    bytes.resize(bytes.size() + size);
    return bytes.data() + offsets.back();
  }

  std::vector<unsigned char> bytes;
  std::vector<size_t> offsets;
};

/// A kernel with all that its launch needs.
struct PreparedLaunch {
  unsigned grid[3];
  size_t firstArgument; // in the packer
  bool isEmpty;
};

/// The values of one call.
class CallPreparation {
public:
  CallPreparation(const CudaDriver &driver, const LaunchPlan &plan, const VariantSpec &variant,
                  const EvaluationContext &context, const PlacedWorkspaces &placed)
      : driver(driver), plan(plan), variant(variant), context(context), placed(placed) {}

  Status run() {
    for (size_t i = 0; i < variant.launches.size(); ++i)
      if (Status status = prepare(variant.launches[i], launches[i]); !status.ok())
        return status;
    return {};
  }

  ArgumentPacker packer;
  std::array<PreparedLaunch, maxLaunches> launches;

private:
  StatusOr<int64_t> evaluateIn(const Expr &expr, int64_t max, const LaunchSpec &launch, const char *what) {
    StatusOr<int64_t> value = evaluate(expr, context);
    if (value.ok() && *value >= 0 && *value <= max)
      return value;
    return Status::failure("'" + plan.name + "': " + what + " of kernel '" + launch.kernel + "', " +
                           toString(expr, plan) + ", " +
                           (value.ok()
                                ? "is " + std::to_string(*value) + ", expected 0 to " + std::to_string(max)
                                : value.getMessage()));
  }

  Status prepare(const LaunchSpec &launch, PreparedLaunch &prepared) {
    prepared.isEmpty = false;
    for (int i = 0; i < 3; ++i) {
      StatusOr<int64_t> blocks = evaluateIn(launch.grid[i], i == 0 ? INT32_MAX : 65535, launch, "the grid");
      if (!blocks.ok())
        return blocks.getStatus();
      prepared.grid[i] = static_cast<unsigned>(*blocks);
      prepared.isEmpty |= *blocks == 0;
    }
    prepared.firstArgument = packer.getCount();
    for (const ArgumentSpec &argument : launch.arguments)
      if (Status status = pack(argument, launch); !status.ok())
        return status;
    return {};
  }

  /// A tensor of the call; a workspace as if it were the caller's.
  TensorRef getTensor(ArgumentSpec::Kind kind, int32_t index) const {
    if (kind == ArgumentSpec::Kind::Parameter)
      return context.parameters[index];
    if (kind == ArgumentSpec::Kind::Result)
      return context.results[index];
    const PlacedWorkspace &place = placed[index];
    const WorkspaceSpec &spec = variant.workspaces[index];
    return {reinterpret_cast<void *>(place.data), spec.type, static_cast<int>(spec.sizes.size()), place.sizes,
            place.strides};
  }

  const std::string &getTensorName(ArgumentSpec::Kind kind, int32_t index) const {
    if (kind == ArgumentSpec::Kind::Parameter)
      return plan.parameters[index].name;
    return kind == ArgumentSpec::Kind::Result ? plan.results[index].name : variant.workspaces[index].name;
  }

  Status pack(const ArgumentSpec &argument, const LaunchSpec &launch) {
    switch (argument.kind) {
    case ArgumentSpec::Kind::Parameter:
      if (plan.parameters[argument.index].isScalar) {
        const TensorRef &scalar = context.parameters[argument.index];
        packer.add(scalar.data, getSizeInBytes(scalar.type));
        return {};
      }
      [[fallthrough]];
    case ArgumentSpec::Kind::Result:
    case ArgumentSpec::Kind::Workspace:
      packer.addTensor(getTensor(argument.kind, argument.index));
      return {};
    case ArgumentSpec::Kind::TensorMap: {
      Status status = encodeTensorMap(driver, getTensorName(argument.tensor, argument.index),
                                      getTensor(argument.tensor, argument.index), argument.boxRows,
                                      argument.boxColumns, packer.addTensorMap());
      return status.ok() ? status : Status::failure("'" + plan.name + "': " + status.getMessage());
    }
    case ArgumentSpec::Kind::Expression:
      break;
    }
    StatusOr<int64_t> value = evaluate(argument.expr, context);
    bool isNarrow = argument.type == ElementType::I32;
    if (!value.ok() || (isNarrow && (*value < INT32_MIN || *value > INT32_MAX)))
      return Status::failure(
          "'" + plan.name + "': an argument of kernel '" + launch.kernel + "', " +
          toString(argument.expr, plan) + ", " +
          (value.ok() ? "is " + std::to_string(*value) + ", expected 32 bits" : value.getMessage()));
    // The low bytes come first.
    packer.add(&*value, isNarrow ? 4 : 8);
    return {};
  }

  const CudaDriver &driver;
  const LaunchPlan &plan;
  const VariantSpec &variant;
  const EvaluationContext &context;
  const PlacedWorkspaces &placed;
};
} // namespace

/// Fills a tensor of any strides with zeros: one memset for each run of consecutive elements.
static Status fillWithZeros(const CudaDriver &driver, const TensorRef &tensor, cuda::Stream stream) {
  struct Dimension {
    int64_t size, stride;
  };
  std::vector<Dimension> outer;
  for (int i = 0; i < tensor.rank; ++i) {
    if (tensor.sizes[i] == 0)
      return {};
    if (tensor.sizes[i] > 1)
      outer.push_back({tensor.sizes[i], tensor.strides[i]});
  }
  std::sort(outer.begin(), outer.end(), [](Dimension a, Dimension b) { return a.stride > b.stride; });
  int64_t run = 1;
  for (; !outer.empty() && outer.back().stride == run; outer.pop_back())
    run *= outer.back().size;

  int64_t elementBytes = getSizeInBytes(tensor.type);
  std::vector<int64_t> position(outer.size());
  for (bool isDone = false; !isDone;) {
    int64_t offset = 0;
    for (size_t i = 0; i < outer.size(); ++i)
      offset += position[i] * outer[i].stride;
    cuda::Result result =
        driver.memsetD8Async(reinterpret_cast<cuda::DevicePointer>(tensor.data) + offset * elementBytes, 0,
                             run * elementBytes, stream);
    if (Status status = driver.check(result, "cuMemsetD8Async"); !status.ok())
      return status;
    isDone = true;
    for (size_t i = outer.size(); isDone && i-- > 0;) {
      isDone = ++position[i] == outer[i].size;
      if (isDone)
        position[i] = 0;
    }
  }
  return {};
}

StatusOr<int64_t> GpuExecutable::getWorkspaceBytes(const std::vector<TensorRef> &parameters,
                                                   const std::vector<TensorRef> &results) const {
  StatusOr<size_t> variant = selectVariant(parameters, results);
  if (!variant.ok())
    return variant.getStatus();
  PlacedWorkspaces placed;
  return placeWorkspaces(placed, plan, plan.variants[*variant],
                         {parameters.data(), results.data(), device.multiprocessors});
}

Status GpuExecutable::launch(const std::vector<TensorRef> &parameters, const std::vector<TensorRef> &results,
                             cuda::Stream stream, WorkspaceRef lent) {
  const CudaDriver &driver = runtime->getDriver();
  if (Status status = check(parameters, results); !status.ok())
    return status;
  EvaluationContext context{parameters.data(), results.data(), device.multiprocessors};
  StatusOr<size_t> variantIndex = selectVariant(context);
  if (!variantIndex.ok())
    return variantIndex.getStatus();
  const VariantSpec &variant = plan.variants[*variantIndex];
  PlacedWorkspaces placed;
  StatusOr<int64_t> workspaceBytes = placeWorkspaces(placed, plan, variant, context);
  if (!workspaceBytes.ok())
    return workspaceBytes.getStatus();
  if (lent.data &&
      (lent.bytes < *workspaceBytes || reinterpret_cast<uintptr_t>(lent.data) % workspaceAlignment))
    return Status::failure("'" + plan.name + "': got a workspace of " + std::to_string(lent.bytes) +
                           " bytes, expected " + std::to_string(*workspaceBytes) + ", aligned to " +
                           std::to_string(workspaceAlignment));

  StatusOr<ContextScope> scope = ContextScope::enter(driver, device.ordinal);
  if (!scope.ok())
    return scope.getStatus();
  StatusOr<const LoadedKernels *> loaded = getKernels(scope->getId(), *variantIndex);
  if (!loaded.ok())
    return loaded.getStatus();

  WorkspacePool::Lease lease;
  auto workspace = reinterpret_cast<cuda::DevicePointer>(lent.data);
  if (!workspace && *workspaceBytes) {
    bool wantsZeros = std::any_of(variant.workspaces.begin(), variant.workspaces.end(),
                                  [](const WorkspaceSpec &spec) { return spec.leftZero; });
    StatusOr<WorkspacePool::Lease> acquired = runtime->getWorkspacePool().acquire(
        scope->getId(), device.ordinal, stream, *workspaceBytes, wantsZeros);
    if (!acquired.ok())
      return acquired.getStatus();
    lease = std::move(*acquired);
    workspace = lease.data;
  }

  // All values before the first launch, so that a refusal leaves nothing half done.
  locateWorkspaces(placed, variant, workspace, lease);
  CallPreparation call(driver, plan, variant, context, placed);
  if (Status status = call.run(); !status.ok())
    return status;
  for (size_t i = 0; i < variant.workspaces.size(); ++i)
    if (variant.workspaces[i].zeroed && !placed[i].isZero && placed[i].bytes)
      if (Status status = driver.check(driver.memsetD8Async(placed[i].data, 0, placed[i].bytes, stream),
                                       "cuMemsetD8Async");
          !status.ok())
        return status;
  for (size_t i = 0; i < plan.results.size(); ++i)
    if (plan.results[i].zeroed)
      if (Status status = fillWithZeros(driver, results[i], stream); !status.ok())
        return status;
  std::vector<void *> arguments = call.packer.getPointers();
  for (size_t i = 0; i < variant.launches.size(); ++i) {
    const LaunchSpec &launch = variant.launches[i];
    PreparedLaunch &prepared = call.launches[i];
    if (prepared.isEmpty)
      continue;
    const auto &grid = prepared.grid;
    unsigned threads = launch.threads, sharedBytes = static_cast<unsigned>(launch.dynamicSharedBytes);
    void **own = arguments.data() + prepared.firstArgument;
    cuda::Result result;
    bool startsEarly = launch.startsEarly && driver.launchKernelEx;
    if (startsEarly) {
      cuda::LaunchAttribute attribute{cuda::ProgrammaticStreamSerialization, 1, {}};
      cuda::LaunchConfig config{
          {grid[0], grid[1], grid[2]}, {threads, 1, 1}, sharedBytes, stream, &attribute, 1};
      result = driver.launchKernelEx(&config, (**loaded)[i], own, nullptr);
    } else {
      result = driver.launchKernel((**loaded)[i], grid[0], grid[1], grid[2], threads, 1, 1, sharedBytes,
                                   stream, own, nullptr);
    }
    if (result) {
      lease.spoilZeros();
      return Status::failure(
          "kernel '" + launch.kernel +
          "': " + driver.check(result, startsEarly ? "cuLaunchKernelEx" : "cuLaunchKernel").getMessage());
    }
  }
  return {};
}

} // namespace attn
