//===- Cases.cpp - the attention that a benchmark times -----------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/attn-bench/Cases.h"
#include "tools/common/Backward.h"
#include "tools/common/Inputs.h"
#include "tools/common/Plan.h"
#include "tools/common/Stopwatch.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace attn;

std::string BenchCase::getName() const {
  std::string heads = qHeads == kvHeads ? llvm::formatv("h{0}", qHeads).str()
                                        : llvm::formatv("h{0}on{1}", qHeads, kvHeads).str();
  std::string length =
      qLen == kvLen ? llvm::formatv("n{0}", qLen).str() : llvm::formatv("n{0}on{1}", qLen, kvLen).str();
  return llvm::formatv("{0}/{1}/b{2}/{3}/{4}/d{5}/{6}", backward ? "backward" : "forward", dtype, batch,
                       heads, length, headDim, causal ? "causal" : "full");
}

std::string BenchCase::getModule() const {
  std::string query = llvm::formatv("tensor<?x{0}x?x{1}x{2}>", qHeads, headDim, dtype);
  std::string key = llvm::formatv("tensor<?x{0}x?x{1}x{2}>", kvHeads, headDim, dtype);
  std::string lse = llvm::formatv("tensor<?x{0}x?x{1}>", qHeads, dtype == "f64" ? "f64" : "f32");
  std::string mask = causal ? R"(
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %keep = arith.cmpi sle, %kv_idx, %q_idx : index
      attn.yield %keep : i1
    })"
                            : "";
  if (!backward)
    return llvm::formatv(R"(func.func @forward(%q: {0}, %k: {1}, %v: {1}) -> ({0}, {2}) {{
  %out, %lse = attn.attention %q, %k, %v {3} : ({0}, {1}, {1}) -> ({0}, {2})
  return %out, %lse : {0}, {2}
}
)",
                         query, key, lse, mask);
  return llvm::formatv(R"(
func.func @backward(%q: {0}, %k: {1}, %v: {1}, %out: {0}, %lse: {2}, %d_out: {0}) -> ({0}, {1}, {1}) {{
  %d_q, %d_k, %d_v = attn.attention_backward %q, %k, %v, %out, %lse, %d_out {3}
    : ({0}, {1}, {1}, {0}, {2}, {0}) -> ({0}, {1}, {1})
  return %d_q, %d_k, %d_v : {0}, {1}, {1}
}
)",
                       query, key, lse, mask);
}

double BenchCase::getFlops() const {
  double pairs = 0;
  for (int64_t query = 0; query < qLen; ++query)
    pairs += static_cast<double>(causal ? std::min(query + 1, kvLen) : kvLen);
  double products = backward ? 5 : 2;
  return static_cast<double>(batch * qHeads) * pairs * products * 2 * static_cast<double>(headDim);
}

llvm::Expected<BenchRun> BenchRun::create(const EntryPoint &entry, const InputRequest &request,
                                          const ProgramOptions &options, double flops) {
  SizeResolver sizes(entry);
  llvm::Expected<Inputs> made = makeInputs(entry, sizes, request);
  if (!made)
    return made.takeError();
  BenchRun run;
  run.flops = flops;
  run.onThisThread = options.getNumThreads() == 1;
  run.computeType = entry.getAttentionOps().front().getComputeType();
  for (HostTensor &tensor : made->tensors)
    run.inputs.push_back(std::move(tensor));
  for (unsigned i = 0; i < entry.resultNames.size(); ++i) {
    llvm::Expected<SmallVector<int64_t>> shape = sizes.getResultShape(i);
    if (!shape)
      return shape.takeError();
    run.results.emplace_back(getElementTypeOrSelf(entry.getFunction().getResultTypes()[i]), *shape);
  }
  if (flops == 0) {
    llvm::Expected<PlannedEntry> planned = PlannedEntry::create(entry, sizes, options);
    if (!planned)
      return planned.takeError();
    for (OnlineAttentionOp op : planned->getOps()) {
      llvm::Expected<AttentionCost> cost = planned->getCost(op, run.inputs);
      if (!cost)
        return cost.takeError();
      run.flops += cost->flops;
    }
  }
  llvm::Expected<Program> program =
      Program::compile(OwningOpRef<ModuleOp>(ModuleOp(*entry.module).clone()), options);
  if (!program)
    return program.takeError();
  SmallVector<const HostTensor *> arguments;
  for (const HostTensor &tensor : run.inputs)
    arguments.push_back(&tensor);
  StringRef name = entry.getFunction().getName();
  // The first call touches all memory and finds what is wrong.
  if (llvm::Error error = program->call(name, arguments, run.results))
    return std::move(error);
  run.call = program->prepare(name, arguments, run.results);
  return std::move(run);
}

llvm::Expected<BenchRun> BenchRun::create(MLIRContext *context, const BenchCase &benchCase,
                                          const ProgramOptions &options) {
  llvm::Expected<EntryPoint> entry = parseEntryPoint(
      context, llvm::MemoryBuffer::getMemBufferCopy(benchCase.getModule(), benchCase.getName()), "");
  if (!entry)
    return entry.takeError();
  InputRequest request;
  request.sizes = {benchCase.batch, benchCase.qHeads, benchCase.kvHeads, benchCase.qLen, benchCase.kvLen};
  return create(*entry, request, options, benchCase.getFlops());
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

double BenchRun::time() const {
  Stopwatch watch(onThisThread ? Stopwatch::thread : Stopwatch::wall);
  // The same call has succeeded before.
  llvm::cantFail(call());
  return watch.getSeconds();
}
