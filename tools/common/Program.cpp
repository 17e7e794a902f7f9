//===- Program.cpp - compiled functions over host tensors ---------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/common/Program.h"
#include "mlir/Dialect/Func/Extensions/InlinerExtension.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Passes.h"
#include "runtime/cpu/ThreadPool.h"
#include "runtime/jit/GpuProgram.h"
#include "runtime/jit/HostTarget.h"
#include "tools/Dialects.h"
#include <cstring>

using namespace mlir;
using namespace attn;

int ProgramOptions::getNumThreads() const { return threads > 0 ? threads : cpu::getNumHardwareThreads(); }

ProgramOptions ProgramOptions::forCpu() const {
  bool isGpu = gpu || StringRef(target).starts_with("sm_");
  if (!isGpu)
    return *this;
  ProgramOptions options;
  options.threads = threads;
  return options;
}

llvm::Expected<int> attn::parseDevice(StringRef text) {
  unsigned device = 0;
  if (!text.empty() && (text.getAsInteger(10, device) || device > 4096))
    return makeError("--gpu: expected the number of a CUDA device, got '%s'", text.str().c_str());
  return static_cast<int>(device);
}

llvm::Expected<std::optional<GpuMachine>> attn::getGpuMachine(const ProgramOptions &options) {
  auto fail = [](const char *option, const std::string &message) {
    return makeError("--%s: %s", option, message.c_str());
  };
  if (options.gpu) {
    StatusOr<const CudaDriver *> driver = CudaDriver::get();
    if (!driver.ok())
      return fail("gpu", driver.getMessage());
    StatusOr<DeviceInfo> device = (*driver)->query(*options.gpu);
    if (!device.ok())
      return fail("gpu", device.getMessage());
    return GpuMachine::get(*device);
  }
  if (!StringRef(options.target).starts_with("sm_"))
    return std::nullopt;
  StatusOr<GpuMachine> machine = GpuMachine::get(options.target);
  if (!machine.ok())
    return fail("target", machine.getMessage());
  return *machine;
}

llvm::Expected<TargetAttr> attn::getTarget(MLIRContext *context, const ProgramOptions &options) {
  llvm::Expected<std::optional<GpuMachine>> machine = getGpuMachine(options);
  if (!machine)
    return machine.takeError();
  if (*machine)
    return getTarget(context, **machine);
  llvm::Expected<TargetAttr> target = parseTarget(context, options.target);
  if (!target)
    return makeError("--target: %s", llvm::toString(target.takeError()).c_str());
  return target;
}

void attn::registerToolDialects(DialectRegistry &registry) {
  registerDialects(registry);
  func::registerInlinerExtension(registry);
  registerPipelineInterfaces(registry);
}

void attn::setPipelineOptions(PlanPipelineOptions &pipeline, const LoweringSettings &lowering) {
  pipeline.blockM = lowering.blockM;
  pipeline.blockN = lowering.blockN;
  pipeline.keyOuter = lowering.order == LoopOrder::key_outer;
  pipeline.kvSplits = lowering.kvSplits;
  if (lowering.blockLists)
    pipeline.blockLists = *lowering.blockLists;
  else if (lowering.kvSplits > 1)
    pipeline.blockLists = false; // a GPU has no parts with block lists
}

void attn::setPipelineOptions(CudaPipelineOptions &pipeline, const LoweringSettings &lowering) {
  setPipelineOptions(static_cast<PlanPipelineOptions &>(pipeline), lowering);
  pipeline.family = lowering.family;
  pipeline.exactMaximum = lowering.exactMaximum;
  pipeline.tile = llvm::ArrayRef<int64_t>(lowering.tile);
}

llvm::Expected<Program> Program::compile(OwningOpRef<ModuleOp> module, const ProgramOptions &options) {
  MLIRContext *context = module->getContext();
  llvm::Expected<TargetAttr> target = attn::getTarget(context, options);
  if (!target)
    return target.takeError();
  if (!canRunOnHost(target->getArch()))
    return makeError("--target: this machine does not run code for %s", options.target.c_str());
  (*module)->setAttr(AttnDialect::getTargetAttrName(), *target);

  {
    FirstDiagnostic diagnostic(context);
    PassManager pm(context);
    if (options.lowering.reference) {
      pm.addPass(createDecomposeReferencePass());
      pm.addPass(createLowerBlockListsPass()); // of lists that are results
    } else {
      CpuPipelineOptions pipeline;
      setPipelineOptions(pipeline, options.lowering);
      buildAttentionPipeline(pm, pipeline);
    }
    if (failed(pm.run(*module)))
      return diagnostic.take("the attention cannot be lowered");
  }
  CpuCompileOptions compileOptions;
  compileOptions.target = *target;
  compileOptions.numThreads = options.threads;
  FirstDiagnostic diagnostic(context);
  llvm::Expected<std::unique_ptr<CpuExecutable>> executable = CpuExecutable::compile(*module, compileOptions);
  if (!executable) {
    std::string reason = llvm::toString(executable.takeError());
    return diagnostic.take(StringRef(reason).split('\n').first);
  }
  Program program;
  program.executable = std::move(*executable);
  return std::move(program);
}

static BufferRef makeBufferRef(const HostTensor &tensor) {
  BufferRef buffer;
  buffer.data = const_cast<void *>(tensor.getData());
  buffer.shape.assign(tensor.getShape().begin(), tensor.getShape().end());
  buffer.strides.resize(buffer.shape.size());
  int64_t stride = 1;
  for (size_t dim = buffer.shape.size(); dim-- > 0;) {
    buffer.strides[dim] = stride;
    stride *= buffer.shape[dim];
  }
  buffer.elementType = tensor.getElementType();
  return buffer;
}

std::function<llvm::Error()> Program::prepare(StringRef function, ArrayRef<const HostTensor *> inputs,
                                              MutableArrayRef<HostTensor> results) const {
  FunctionType signature = executable->getSignature(function);
  SmallVector<Argument> arguments;
  for (auto [index, tensor] : llvm::enumerate(inputs)) {
    bool isTensor =
        signature && index < signature.getNumInputs() && isa<RankedTensorType>(signature.getInput(index));
    if (isTensor)
      arguments.push_back(makeBufferRef(*tensor));
    else
      arguments.push_back(ScalarRef{tensor->getData(), tensor->getElementType()});
  }
  SmallVector<BufferRef> buffers;
  for (const HostTensor &tensor : results)
    buffers.push_back(makeBufferRef(tensor));
  return [executable = executable, name = function.str(), arguments, buffers] {
    return executable->run(name, arguments, buffers);
  };
}

llvm::Error Program::call(StringRef function, ArrayRef<const HostTensor *> inputs,
                          MutableArrayRef<HostTensor> results) const {
  // All ones is a NaN in every floating type.
  for (HostTensor &tensor : results)
    std::memset(tensor.getData(), 0xff, tensor.getNumBytes());
  return prepare(function, inputs, results)();
}
