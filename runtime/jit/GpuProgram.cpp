//===- GpuProgram.cpp - from the text of a module to a launch plan ----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/jit/GpuProgram.h"
#include "codegen/CompileCuda.h"
#include "codegen/DeviceHeaders.h"
#include "dialect/AttnTileDialect.h"
#include "mlir/Dialect/Func/Extensions/InlinerExtension.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Index/IR/IndexDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Pipelines.h"
#include "passes/Targets.h"
#include "runtime/Environment.h"
#include "runtime/jit/BackwardEntry.h"
#include "runtime/jit/Signature.h"

using namespace mlir;
using namespace attn;

//===----------------------------------------------------------------------===//
// Modules
//===----------------------------------------------------------------------===//

void attn::registerCompilerDialects(DialectRegistry &registry) {
  registry.insert<AttnDialect, tile::AttnTileDialect, arith::ArithDialect, func::FuncDialect, gpu::GPUDialect,
                  index::IndexDialect, linalg::LinalgDialect, math::MathDialect, scf::SCFDialect,
                  tensor::TensorDialect, ub::UBDialect, vector::VectorDialect>();
  func::registerInlinerExtension(registry);
  registerPipelineInterfaces(registry);
}

void attn::setOptions(PlanPipelineOptions &options, const CompileRequest &request) {
  options.blockM = request.blockM;
  options.blockN = request.blockN;
  options.kvSplits = request.kvSplits;
  if (request.blockLists != 0)
    options.blockLists = request.blockLists > 0;
  else if (request.kvSplits > 1)
    options.blockLists = false; // a GPU has no parts with block lists
  options.tf32 = request.tf32;
  options.deterministic = request.deterministic;
}

void attn::setOptions(CudaPipelineOptions &options, const CompileRequest &request) {
  setOptions(static_cast<PlanPipelineOptions &>(options), request);
  options.family = request.family;
  options.exactMaximum = request.exactMaximum;
}

llvm::Error attn::removeOtherFunctions(EntryPoint &entry) {
  for (auto function : entry.module->getOps<func::FuncOp>())
    if (function != entry.function)
      function.setPrivate();
  MLIRContext *context = entry.module->getContext();
  FirstDiagnostic diagnostic(context);
  PassManager pm(context);
  pm.addPass(createSymbolDCEPass());
  if (failed(pm.run(*entry.module)))
    return diagnostic.take("unused functions cannot be removed");
  return llvm::Error::success();
}

llvm::Expected<EntryPoint> attn::parseRequest(MLIRContext *context, const CompileRequest &request) {
  auto buffer = llvm::MemoryBuffer::getMemBufferCopy(request.text, request.name);
  llvm::Expected<EntryPoint> entry =
      parseEntryPoint(context, std::move(buffer), request.entry, /*keepsNames=*/true);
  if (!entry)
    return entry.takeError();
  if (request.backward)
    if (llvm::Error error = makeBackwardEntry(*entry))
      return std::move(error);
  if (llvm::Error error = removeOtherFunctions(*entry))
    return std::move(error);
  return entry;
}

//===----------------------------------------------------------------------===//
// Machines
//===----------------------------------------------------------------------===//

GpuMachine GpuMachine::get(const DeviceInfo &device) {
  return {getArchName(device.major, device.minor), device.multiprocessors, device.maxSharedBytesPerBlock};
}

StatusOr<GpuMachine> GpuMachine::get(const std::string &name) {
  std::optional<Arch> arch = parseArch(name);
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<AttnDialect>();
  TargetAttr target = arch ? getNamedTarget(&context, *arch) : TargetAttr();
  if (!target || !target.isGpu())
    return Status::failure("unknown GPU architecture '" + name +
                           "', expected sm_80, sm_86, sm_89, sm_90a, sm_100a or sm_120a");
  return GpuMachine{name, target.getMultiprocessors(), target.getMaxSharedMemory()};
}

/// "sm_90a" is 90.
static unsigned getComputeCapability(StringRef arch) {
  unsigned number = 0;
  (void)arch.drop_front(std::min<size_t>(3, arch.size())).consumeInteger(10, number);
  return number;
}

llvm::Expected<TargetAttr> attn::getTarget(MLIRContext *context, const GpuMachine &machine) {
  unsigned capability = getComputeCapability(machine.arch);
  std::optional<Arch> best;
  // From old to new. Code for sm_90a runs on nothing else, so of those only the machine's own.
  for (Arch arch : {Arch::sm_80, Arch::sm_86, Arch::sm_89, Arch::sm_90a, Arch::sm_100a, Arch::sm_120a}) {
    StringRef name = stringifyArch(arch);
    if (name.ends_with("a") ? name == machine.arch : getComputeCapability(name) <= capability)
      best = arch;
  }
  if (!best)
    return makeError("the GPU is of architecture %s, expected sm_80 or later", machine.arch.c_str());
  TargetAttr named = getNamedTarget(context, *best);
  return TargetAttr::get(context, *best, named.getVectorBits(), named.getVectorRegisters(),
                         named.getL1Bytes(), named.getL2Bytes(), machine.multiprocessors,
                         machine.maxSharedBytesPerBlock);
}

//===----------------------------------------------------------------------===//
// Launch plans
//===----------------------------------------------------------------------===//

llvm::Expected<LaunchPlan> attn::lowerToLaunchPlan(EntryPoint &entry, const GpuMachine &machine,
                                                   const CudaPipelineOptions &options) {
  MLIRContext *context = entry.module->getContext();
  llvm::Expected<TargetAttr> target = getTarget(context, machine);
  if (!target)
    return target.takeError();
  (*entry.module)->setAttr(AttnDialect::getTargetAttrName(), *target);
  llvm::Expected<LaunchPlan> described = describeParameters(entry);
  if (!described)
    return described.takeError();

  FirstDiagnostic diagnostic(context);
  auto modules = cuda::lowerToCuda(*entry.module, options);
  FailureOr<LaunchPlan> plan = failure();
  if (succeeded(modules))
    plan = cuda::buildLaunchPlan(*modules, entry.getFunction().getName());
  if (failed(plan))
    return diagnostic.take("@" + entry.getFunction().getName().str() + " cannot be lowered to kernels");
  for (auto [parameter, source] : llvm::zip_equal(plan->parameters, described->parameters))
    parameter.name = source.name;
  for (auto [result, name] : llvm::zip_equal(plan->results, entry.resultNames))
    result.name = name;
  llvm::append_range(plan->requirements, described->requirements);
  return std::move(*plan);
}

static llvm::Expected<LaunchPlan> lower(const CompileRequest &request, const GpuMachine &machine) {
  DialectRegistry registry;
  registerCompilerDialects(registry);
  // Passes on so small a module gain nothing from threads, and a process that forks loses them.
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  llvm::Expected<EntryPoint> entry = parseRequest(&context, request);
  if (!entry)
    return entry.takeError();
  CudaPipelineOptions options;
  setOptions(options, request);
  return lowerToLaunchPlan(*entry, machine, options);
}

StatusOr<LaunchPlan> attn::getLaunchPlan(KernelCompiler &compiler, const CompileRequest &request,
                                         const GpuMachine &machine) {
  PlanKeyParts key;
  key.moduleText = request.text;
  key.function = request.entry;
  key.target = machine.arch + " " + std::to_string(machine.multiprocessors) + " multiprocessors, " +
               std::to_string(machine.maxSharedBytesPerBlock) + " bytes of shared memory";
  key.options = {"backward=" + std::to_string(request.backward),
                 "block-m=" + std::to_string(request.blockM),
                 "block-n=" + std::to_string(request.blockN),
                 "kv-splits=" + std::to_string(request.kvSplits),
                 "block-lists=" + std::to_string(request.blockLists),
                 "tf32=" + std::to_string(request.tf32),
                 "deterministic=" + std::to_string(request.deterministic),
                 "family=" + request.family,
                 "exact-maximum=" + std::to_string(request.exactMaximum)};
  return compiler.getPlan(std::move(key), [&]() -> StatusOr<LaunchPlan> {
    llvm::Expected<LaunchPlan> plan = lower(request, machine);
    if (!plan)
      return Status::failure(llvm::toString(plan.takeError()));
    return std::move(*plan);
  });
}

std::shared_ptr<KernelCompiler> attn::createKernelCompiler(const Environment &environment) {
  KernelCompilerOptions options = KernelCompilerOptions::fromEnvironment(environment);
  for (const cuda::EmbeddedHeader &header : cuda::getDeviceHeaders())
    options.headers.push_back({header.name, header.text});
  return std::make_shared<KernelCompiler>(std::move(options));
}
