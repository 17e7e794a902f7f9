//===- Cases.cpp - the attention that a benchmark times -----------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/attn-bench/Cases.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Passes.h"
#include "tools/common/Backward.h"
#include "tools/common/Fill.h"
#include "tools/common/Inputs.h"
#include "tools/common/Plan.h"
#include "tools/common/Stopwatch.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include <cstring>

using namespace mlir;
using namespace attn;

std::string BenchCase::getName() const {
  std::string heads = qHeads == kvHeads ? llvm::formatv("h{0}", qHeads).str()
                                        : llvm::formatv("h{0}on{1}", qHeads, kvHeads).str();
  std::string length =
      qLen == kvLen ? llvm::formatv("n{0}", qLen).str() : llvm::formatv("n{0}on{1}", qLen, kvLen).str();
  return llvm::formatv("{0}/{1}/b{2}/{3}/{4}/d{5}/{6}", backward ? "backward" : "forward", dtype, batch,
                       heads, length, headDim, mod);
}

ArrayRef<StringLiteral> attn::getBenchMods() {
  static constexpr StringLiteral mods[] = {"full", "causal", "soft_cap", "alibi", "window"};
  return mods;
}

/// The score and mask regions.
static std::string getRegions(const BenchCase &benchCase) {
  std::string compute = benchCase.dtype == "f64" ? "f64" : "f32";
  std::string regions;
  if (benchCase.mod == "soft_cap")
    regions += llvm::formatv(R"(
    score(%s: {0}, %b: index, %h: index, %q_idx: index, %kv_idx: index) {{
      %cap = arith.constant 20.0 : {0}
      %inverse = arith.constant 0.05 : {0}
      %relative = arith.mulf %s, %inverse : {0}
      %squashed = math.tanh %relative fastmath<afn> : {0}
      %capped = arith.mulf %cap, %squashed : {0}
      attn.yield %capped : {0}
    })",
                             compute);
  if (benchCase.mod == "alibi")
    // Slopes are computed, so that they have no gradient.
    regions += llvm::formatv(R"(
    score(%s: {0}, %b: index, %h: index, %q_idx: index, %kv_idx: index) {{
      %one = arith.constant 1.0 : {0}
      %step = arith.constant {1:e} : {0}
      %h_i32 = arith.index_cast %h : index to i32
      %h_f = arith.sitofp %h_i32 : i32 to {0}
      %next = arith.addf %h_f, %one : {0}
      %exponent = arith.mulf %next, %step : {0}
      %slope = math.exp2 %exponent : {0}
      %distance = arith.subi %kv_idx, %q_idx : index
      %distance_i32 = arith.index_cast %distance : index to i32
      %distance_f = arith.sitofp %distance_i32 : i32 to {0}
      %bias = arith.mulf %slope, %distance_f : {0}
      %biased = arith.addf %s, %bias : {0}
      attn.yield %biased : {0}
    })",
                             compute, -8.0 / static_cast<double>(benchCase.qHeads));
  if (benchCase.mod == "causal" || benchCase.mod == "alibi")
    regions += R"(
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %keep = arith.cmpi sle, %kv_idx, %q_idx : index
      attn.yield %keep : i1
    })";
  if (benchCase.mod == "window")
    regions += llvm::formatv(R"(
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {{
      %window = arith.constant {0} : index
      %distance = arith.subi %q_idx, %kv_idx : index
      %near = arith.cmpi slt, %distance, %window : index
      %causal = arith.cmpi sle, %kv_idx, %q_idx : index
      %keep = arith.andi %near, %causal : i1
      attn.yield %keep : i1
    })",
                             kBenchWindow);
  return regions;
}

std::string BenchCase::getModule() const {
  std::string query = llvm::formatv("tensor<?x{0}x?x{1}x{2}>", qHeads, headDim, dtype);
  std::string key = llvm::formatv("tensor<?x{0}x?x{1}x{2}>", kvHeads, headDim, dtype);
  std::string lse = llvm::formatv("tensor<?x{0}x?x{1}>", qHeads, dtype == "f64" ? "f64" : "f32");
  std::string regions = getRegions(*this);
  if (!backward)
    return llvm::formatv(R"(func.func @forward(%q: {0}, %k: {1}, %v: {1}) -> ({0}, {2}) {{
  %out, %lse = attn.attention %q, %k, %v {3} : ({0}, {1}, {1}) -> ({0}, {2})
  return %out, %lse : {0}, {2}
}
)",
                         query, key, lse, regions);
  return llvm::formatv(R"(
func.func @backward(%q: {0}, %k: {1}, %v: {1}, %out: {0}, %lse: {2}, %d_out: {0}) -> ({0}, {1}, {1}) {{
  %d_q, %d_k, %d_v = attn.attention_backward %q, %k, %v, %out, %lse, %d_out {3}
    : ({0}, {1}, {1}, {0}, {2}, {0}) -> ({0}, {1}, {1})
  return %d_q, %d_k, %d_v : {0}, {1}, {1}
}
)",
                       query, key, lse, regions);
}

double BenchCase::getFlops() const {
  double pairs = 0;
  bool isCausal = mod != "full" && mod != "soft_cap";
  for (int64_t query = 0; query < qLen; ++query) {
    int64_t begin = mod == "window" ? std::max<int64_t>(query + 1 - kBenchWindow, 0) : 0;
    int64_t end = isCausal ? std::min(query + 1, kvLen) : kvLen;
    pairs += static_cast<double>(std::max<int64_t>(end - begin, 0));
  }
  double products = backward ? 5 : 2;
  return static_cast<double>(batch * qHeads) * pairs * products * 2 * static_cast<double>(headDim);
}

/// Fills the operands of attention with normal numbers, the same ones again and again: to draw all that a
/// GPU computes in a millisecond would take seconds.
static void fillOperands(Inputs &inputs) {
  constexpr int64_t numDrawn = 131071; // a prime, so that no two rows are equal
  for (auto [index, tensor] : llvm::enumerate(inputs.tensors)) {
    if (inputs.sources[index] != kNotNeeded || tensor.getNumElements() == 0)
      continue;
    int64_t count = std::min(tensor.getNumElements(), numDrawn);
    HostTensor drawn = makeFilled(tensor.getElementType(), {count}, Fill(), /*seed=*/0, index);
    for (int64_t begin = 0; begin < tensor.getNumBytes(); begin += drawn.getNumBytes())
      std::memcpy(static_cast<char *>(tensor.getData()) + begin, drawn.getData(),
                  std::min(drawn.getNumBytes(), tensor.getNumBytes() - begin));
  }
}

llvm::Expected<BenchTensors> BenchTensors::create(const EntryPoint &entry, SizeResolver &sizes,
                                                  InputRequest request, bool forGpu) {
  request.onlyShow = forGpu;
  llvm::Expected<Inputs> made = makeInputs(entry, sizes, request);
  if (!made)
    return made.takeError();
  if (forGpu)
    fillOperands(*made);
  BenchTensors tensors;
  for (HostTensor &tensor : made->tensors)
    tensors.inputs.push_back(std::move(tensor));
  for (unsigned i = 0; i < entry.resultNames.size(); ++i) {
    llvm::Expected<SmallVector<int64_t>> shape = sizes.getResultShape(i);
    if (!shape)
      return shape.takeError();
    tensors.results.emplace_back(getElementTypeOrSelf(entry.getFunction().getResultTypes()[i]), *shape);
  }
  return std::move(tensors);
}

SmallVector<const HostTensor *> BenchTensors::getArguments() const {
  SmallVector<const HostTensor *> arguments;
  for (const HostTensor &tensor : inputs)
    arguments.push_back(&tensor);
  return arguments;
}

llvm::Expected<BenchRun> BenchRun::create(const EntryPoint &entry, InputRequest request,
                                          const ProgramOptions &options, double flops) {
  SizeResolver sizes(entry);
  llvm::Expected<BenchTensors> tensors =
      BenchTensors::create(entry, sizes, std::move(request), options.gpu.has_value());
  if (!tensors)
    return tensors.takeError();
  BenchRun run;
  run.tensors = std::move(*tensors);
  run.flops = flops;
  run.onThisThread = options.getNumThreads() == 1;
  run.computeType = entry.getAttentionOps().front().getComputeType();
  if (flops == 0) {
    llvm::Expected<PlannedEntry> planned = PlannedEntry::create(entry, sizes, options);
    if (!planned)
      return planned.takeError();
    for (OnlineAttentionOp op : planned->getOps()) {
      llvm::Expected<AttentionCost> cost = planned->getCost(op, run.tensors.inputs);
      if (!cost)
        return cost.takeError();
      run.flops += cost->flops;
    }
  }
  SmallVector<const HostTensor *> arguments = run.tensors.getArguments();
  if (options.gpu) {
    llvm::Expected<GpuFunction> function = GpuFunction::compile(entry, sizes, options);
    if (!function)
      return function.takeError();
    llvm::Expected<GpuCall> call = function->prepare(arguments);
    if (!call)
      return call.takeError();
    run.gpuCall = std::move(*call);
    // The first runs load the code and allocate the workspace.
    if (llvm::Expected<double> seconds = run.time(); !seconds)
      return seconds.takeError();
    return std::move(run);
  }
  llvm::Expected<Program> program =
      Program::compile(OwningOpRef<ModuleOp>(ModuleOp(*entry.module).clone()), options);
  if (!program)
    return program.takeError();
  StringRef name = entry.getFunction().getName();
  // The first call touches all memory and finds what is wrong.
  if (llvm::Error error = program->call(name, arguments, run.tensors.results))
    return std::move(error);
  run.call = program->prepare(name, arguments, run.tensors.results);
  return std::move(run);
}

llvm::Expected<EntryPoint> BenchCase::parse(MLIRContext *context) const {
  llvm::Expected<EntryPoint> entry =
      parseEntryPoint(context, llvm::MemoryBuffer::getMemBufferCopy(getModule(), getName()), "");
  if (entry && backward) { // its gradient region, if there is a score
    FirstDiagnostic diagnostic(context);
    PassManager pm(context);
    pm.addPass(createDifferentiatePass());
    if (failed(pm.run(*entry->module)))
      return diagnostic.take("the backward cannot be derived");
  }
  return entry;
}

InputRequest BenchCase::getRequest() const {
  InputRequest request;
  request.sizes = {batch, qHeads, kvHeads, qLen, kvLen};
  return request;
}

llvm::Expected<BenchRun> BenchRun::create(MLIRContext *context, const BenchCase &benchCase,
                                          const ProgramOptions &options) {
  llvm::Expected<EntryPoint> entry = benchCase.parse(context);
  if (!entry)
    return entry.takeError();
  return create(*entry, benchCase.getRequest(), options, benchCase.getFlops());
}

llvm::Expected<BenchRun> BenchRun::create(MLIRContext *context, StringRef file, StringRef entryName,
                                          bool backward, const InputRequest &request,
                                          const ProgramOptions &options) {
  llvm::Expected<EntryPoint> entry = parseEntryPoint(context, file, entryName);
  if (!entry)
    return entry.takeError();
  if (entry->getAttentionOps().empty())
    return makeError("%s: @%s holds no attention op", file.str().c_str(),
                     entry->getFunction().getName().str().c_str());
  if (backward)
    if (llvm::Error error = differentiateEntry(*entry))
      return std::move(error);
  return create(*entry, request, options, 0);
}

llvm::Expected<double> BenchRun::time() {
  if (gpuCall)
    return gpuCall->time();
  Stopwatch watch(onThisThread ? Stopwatch::thread : Stopwatch::wall);
  // The same call has succeeded before.
  llvm::cantFail(call());
  return watch.getSeconds();
}
