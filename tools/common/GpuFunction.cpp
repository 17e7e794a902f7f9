//===- GpuFunction.cpp - a compiled function on a GPU, over host tensors ------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/common/GpuFunction.h"
#include "runtime/Environment.h"
#include "tools/common/Stopwatch.h"

using namespace mlir;
using namespace attn;

/// An error that is the status, if it is one.
static llvm::Error toError(const Status &status) {
  return status.ok() ? llvm::Error::success() : makeError("%s", status.getMessage().c_str());
}

//===----------------------------------------------------------------------===//
// Without a GPU
//===----------------------------------------------------------------------===//

llvm::Expected<LaunchPlan> attn::makeLaunchPlan(const EntryPoint &entry, const GpuMachine &machine,
                                                const LoweringSettings &lowering) {
  EntryPoint copy;
  copy.module = ModuleOp(*entry.module).clone();
  copy.function = copy.module->lookupSymbol<func::FuncOp>(entry.getFunction().getName());
  copy.argNames = entry.argNames;
  copy.resultNames = entry.resultNames;
  if (llvm::Error error = removeOtherFunctions(copy))
    return std::move(error);
  CudaPipelineOptions options;
  setPipelineOptions(options, lowering);
  return lowerToLaunchPlan(copy, machine, options);
}

llvm::Expected<std::shared_ptr<KernelCompiler>> attn::getKernelCompiler() {
  static const StatusOr<std::shared_ptr<KernelCompiler>> compiler =
      []() -> StatusOr<std::shared_ptr<KernelCompiler>> {
    StatusOr<Environment> environment = readEnvironment();
    if (!environment.ok())
      return environment.getStatus();
    return createKernelCompiler(*environment);
  }();
  if (!compiler.ok())
    return toError(compiler.getStatus());
  return *compiler;
}

void CallTensors::add(std::vector<TensorRef> &tensors, ElementType type, ArrayRef<int64_t> shape) {
  storage.push_back(std::make_unique<int64_t[]>(2 * shape.size()));
  int64_t *sizes = storage.back().get(), *strides = sizes + shape.size(), stride = 1;
  for (size_t dim = shape.size(); dim-- > 0;) {
    sizes[dim] = shape[dim];
    strides[dim] = stride;
    stride *= shape[dim];
  }
  TensorRef tensor;
  // As aligned as those of a device, and a place of its own for each.
  tensor.data = reinterpret_cast<void *>(256 * storage.size());
  tensor.type = type;
  tensor.rank = static_cast<int>(shape.size());
  tensor.sizes = sizes;
  tensor.strides = strides;
  tensors.push_back(tensor);
}

llvm::Expected<CallTensors> CallTensors::create(const LaunchPlan &plan, const SizeResolver &sizes) {
  SmallVector<SmallVector<int64_t>> shapes;
  for (unsigned argument = 0; argument < plan.parameters.size(); ++argument)
    shapes.push_back(sizes.getShape(argument));
  return create(plan, shapes);
}

llvm::Expected<CallTensors> CallTensors::create(const LaunchPlan &plan,
                                                ArrayRef<SmallVector<int64_t>> shapes) {
  CallTensors call;
  for (auto [parameter, shape] : llvm::zip_equal(plan.parameters, shapes))
    call.add(call.parameters, parameter.type, shape);
  for (const ResultSpec &result : plan.results) {
    SmallVector<int64_t> shape;
    for (const Expr &size : result.sizes) {
      StatusOr<int64_t> value = evaluate(size, {call.parameters.data(), nullptr, 1});
      if (!value.ok())
        return toError(value.getStatus());
      shape.push_back(*value);
    }
    call.add(call.results, result.type, shape);
  }
  return std::move(call);
}

llvm::Expected<PlannedCall> PlannedCall::create(const EntryPoint &entry, const SizeResolver &sizes,
                                                const ProgramOptions &options) {
  llvm::Expected<std::optional<GpuMachine>> machine = getGpuMachine(options);
  if (!machine)
    return machine.takeError();
  llvm::Expected<LaunchPlan> plan = makeLaunchPlan(entry, **machine, options.lowering);
  if (!plan)
    return plan.takeError();
  llvm::Expected<CallTensors> tensors = CallTensors::create(*plan, sizes);
  if (!tensors)
    return tensors.takeError();
  llvm::Expected<std::shared_ptr<KernelCompiler>> compiler = getKernelCompiler();
  if (!compiler)
    return compiler.takeError();
  return PlannedCall{std::move(**machine), std::move(*plan), std::move(*tensors), std::move(*compiler)};
}

//===----------------------------------------------------------------------===//
// On a GPU
//===----------------------------------------------------------------------===//

namespace attn {
struct GpuState {
  GpuState(const CudaDriver &driver, ContextScope scope, std::unique_ptr<GpuExecutable> executable)
      : driver(driver), scope(std::move(scope)), executable(std::move(executable)) {}

  const CudaDriver &driver;
  ContextScope scope;
  std::unique_ptr<GpuExecutable> executable;
};
} // namespace attn

llvm::Expected<GpuFunction> GpuFunction::compile(const EntryPoint &entry, const SizeResolver &sizes,
                                                 const ProgramOptions &options) {
  llvm::Expected<PlannedCall> call = PlannedCall::create(entry, sizes, options);
  if (!call)
    return call.takeError();
  return compile(std::move(*call), *options.gpu);
}

llvm::Expected<GpuFunction> GpuFunction::compile(PlannedCall call, int device) {
  StatusOr<std::shared_ptr<GpuRuntime>> runtime = GpuRuntime::create(call.compiler);
  if (!runtime.ok())
    return toError(runtime.getStatus());
  auto executable = GpuExecutable::create(*runtime, std::move(call.plan), device);
  if (!executable.ok())
    return toError(executable.getStatus());
  StatusOr<size_t> variant = (*executable)->selectVariant(call.tensors.parameters, call.tensors.results);
  if (!variant.ok())
    return toError(variant.getStatus());
  if (Status status = (*executable)->compile(*variant); !status.ok())
    return toError(status);
  const CudaDriver &driver = (*runtime)->getDriver();
  StatusOr<ContextScope> scope = ContextScope::enter(driver, device);
  if (!scope.ok())
    return toError(scope.getStatus());
  return GpuFunction(std::make_shared<GpuState>(driver, std::move(*scope), std::move(*executable)));
}

const DeviceInfo &GpuFunction::getDevice() const { return state->executable->getDevice(); }

llvm::Expected<GpuCall> GpuFunction::prepare(ArrayRef<const HostTensor *> inputs) const {
  const LaunchPlan &plan = state->executable->getPlan();
  SmallVector<SmallVector<int64_t>> shapes;
  for (const HostTensor *input : inputs)
    shapes.emplace_back(input->getShape());
  llvm::Expected<CallTensors> tensors = CallTensors::create(plan, shapes);
  if (!tensors)
    return tensors.takeError();
  GpuCall call(state);
  call.tensors = std::move(*tensors);
  int device = getDevice().ordinal;
  auto allocate = [&](TensorRef &tensor, const std::string &name) -> llvm::Expected<DeviceBuffer *> {
    size_t bytes = getSizeInBytes(tensor.type);
    for (int dim = 0; dim < tensor.rank; ++dim)
      bytes *= tensor.sizes[dim];
    StatusOr<DeviceBuffer> buffer = DeviceBuffer::allocate(state->driver, bytes);
    if (!buffer.ok())
      return makeError("%%%s: %s", name.c_str(), buffer.getMessage().c_str());
    call.buffers.push_back(std::move(*buffer));
    tensor.data = call.buffers.back().getData();
    tensor.device = device;
    return &call.buffers.back();
  };
  for (auto [index, parameter] : llvm::enumerate(plan.parameters)) {
    TensorRef &tensor = call.tensors.parameters[index];
    if (parameter.isScalar) {
      tensor.data = const_cast<void *>(inputs[index]->getData());
      continue;
    }
    llvm::Expected<DeviceBuffer *> buffer = allocate(tensor, parameter.name);
    if (!buffer)
      return buffer.takeError();
    if (Status status = (*buffer)->copyFrom(inputs[index]->getData()); !status.ok())
      return toError(status);
  }
  call.firstResult = call.buffers.size();
  for (auto [index, result] : llvm::enumerate(plan.results)) {
    llvm::Expected<DeviceBuffer *> buffer = allocate(call.tensors.results[index], result.name);
    if (!buffer)
      return buffer.takeError();
  }
  if (llvm::Error error = call.fillResults())
    return std::move(error);
  return std::move(call);
}

llvm::Error GpuCall::fillResults() {
  // All ones is a NaN in every floating type: what the function leaves out shows.
  for (DeviceBuffer &buffer : MutableArrayRef(buffers).drop_front(firstResult))
    if (Status status = buffer.fill(0xff, cuda::legacyStream); !status.ok())
      return toError(status);
  return llvm::Error::success();
}

llvm::Error GpuCall::take(const GpuFunction &function) {
  state = function.state;
  return fillResults();
}

llvm::Error GpuFunction::call(ArrayRef<const HostTensor *> inputs,
                              MutableArrayRef<HostTensor> results) const {
  llvm::Expected<GpuCall> call = prepare(inputs);
  if (!call)
    return call.takeError();
  if (llvm::Error error = call->launch())
    return error;
  return call->read(results);
}

llvm::Error GpuCall::launch() {
  return toError(state->executable->launch(tensors.parameters, tensors.results, cuda::legacyStream));
}

llvm::Error GpuCall::read(MutableArrayRef<HostTensor> results) const {
  // A fault of a kernel shows here, and is said to be one.
  if (Status status = state->driver.check(state->driver.streamSynchronize(cuda::legacyStream),
                                          "cuStreamSynchronize after the kernels");
      !status.ok())
    return toError(status);
  for (auto [index, result] : llvm::enumerate(results)) {
    const DeviceBuffer &buffer = buffers[firstResult + index];
    assert(static_cast<size_t>(result.getNumBytes()) == buffer.getNumBytes() &&
           "sizes of results are those of the plan");
    if (Status status = buffer.copyTo(result.getData()); !status.ok())
      return toError(status);
  }
  return llvm::Error::success();
}

llvm::Expected<double> GpuCall::time() {
  if (!timer) {
    StatusOr<GpuTimer> made = GpuTimer::create(state->driver);
    if (!made.ok())
      return toError(made.getStatus());
    timer = std::make_unique<GpuTimer>(std::move(*made));
  }
  StatusOr<double> seconds = timer->time(
      [&] { return state->executable->launch(tensors.parameters, tensors.results, cuda::legacyStream); });
  if (!seconds.ok())
    return toError(seconds.getStatus());
  return *seconds;
}

llvm::Expected<double> GpuCall::timeLaunch() {
  constexpr int count = 200; // fewer kernels than the queue of the driver holds: it would wait
  double seconds = 0;
  for (bool isWarmUp : {true, false}) {
    Stopwatch watch;
    for (int run = 0; run < (isWarmUp ? 10 : count); ++run)
      if (llvm::Error error = launch())
        return std::move(error);
    seconds = watch.getSeconds() / count;
    if (Status status = state->driver.check(state->driver.streamSynchronize(cuda::legacyStream),
                                            "cuStreamSynchronize after the kernels");
        !status.ok())
      return toError(status);
  }
  return seconds;
}
