//===- RandomAttention.cpp - a random attention for each seed ----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RandomAttention.h"
#include "RandomRegions.h"
#include "runtime/jit/HostTarget.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace attn;

int64_t Dimension::get(const RunSizes &sizes) const {
  switch (of) {
  case none:
    return constant;
  case batch:
    return sizes.batch + constant;
  case qHeads:
    return sizes.qHeads + constant;
  case kvHeads:
    return sizes.kvHeads + constant;
  case qLen:
    return sizes.qLen + constant;
  case kvLen:
    return sizes.kvLen + constant;
  case bothLens:
    return sizes.qLen + sizes.kvLen + constant;
  case longerLen:
    return std::max(sizes.qLen, sizes.kvLen) + constant;
  case qBlocks:
    return static_cast<int64_t>(llvm::divideCeil(sizes.qLen, 16)) + constant;
  }
  llvm_unreachable("unknown dimension");
}

std::string RandomAttention::describe() const {
  std::string description = elementType + ", target " + options.target;
  auto add = [&](const char *name, int64_t value) {
    if (value != 0)
      description += ", " + std::string(name) + " = " + std::to_string(value);
  };
  add("block_m", options.lowering.blockM);
  add("block_n", options.lowering.blockN);
  add("kv_splits", options.lowering.kvSplits);
  if (options.lowering.order == LoopOrder::key_outer)
    description += ", key_outer";
  add("threads", options.threads);
  for (const RunSizes &run : runs)
    description += "\n  batch " + std::to_string(run.batch) + ", heads " + std::to_string(run.qHeads) +
                   " on " + std::to_string(run.kvHeads) + ", " + std::to_string(run.qLen) + " queries, " +
                   std::to_string(run.kvLen) + " keys";
  return description + "\n" + text;
}

//===----------------------------------------------------------------------===//
// Shapes, schedule and target
//===----------------------------------------------------------------------===//

static int64_t chooseLength(Random &random) {
  static constexpr int64_t lengths[] = {1,  2,  3,  7,  8,  15, 16, 17,  31,  32,  33,  37,  48,
                                        61, 63, 64, 65, 79, 96, 97, 127, 128, 129, 131, 163, 257};
  return random.chance(4) ? 0 : random.oneOf(lengths);
}

static int64_t chooseHeadDim(Random &random) {
  static constexpr int64_t usual[] = {1, 3, 8, 16, 17, 32, 40, 64, 64, 72, 96, 128};
  static constexpr int64_t long_[] = {160, 192, 256, 512};
  return random.chance(8) ? random.oneOf(long_) : random.oneOf(usual);
}

static RunSizes chooseSizes(Random &random, int64_t headDims) {
  static constexpr int64_t groups[] = {1, 1, 1, 2, 3, 6, 8};
  RunSizes sizes;
  sizes.batch = random.chance(3) ? 0 : 1 + random.below(3);
  sizes.kvHeads = 1 + random.below(2);
  sizes.qHeads = sizes.kvHeads * random.oneOf(groups);
  sizes.qLen = chooseLength(random);
  sizes.kvLen = random.chance(40) ? sizes.qLen : chooseLength(random);
  // The reference is slow: keep the work of one run bounded.
  auto work = [&] {
    return static_cast<double>(sizes.batch) * sizes.qHeads * sizes.qLen * sizes.kvLen * headDims;
  };
  if (work() > 1.5e7)
    sizes.batch = 1;
  if (work() > 1.5e7)
    sizes.qHeads = sizes.kvHeads;
  if (work() > 1.5e7)
    sizes.qLen = std::min<int64_t>(sizes.qLen, 37);
  return sizes;
}

static ProgramOptions chooseOptions(Random &random) {
  ProgramOptions options;
  options.target = random.chance(40) ? "x86-64-v3" : random.chance(8) ? "x86-64" : "host";
  Arch arch = options.target == "x86-64-v3" ? Arch::x86_64_v3 : Arch::x86_64;
  if (options.target != "host" && !canRunOnHost(arch))
    options.target = "host";
  options.threads = 1 + static_cast<int>(random.below(3));
  // 32 is a multiple of two vectors of every target.
  static constexpr int64_t blocks[] = {0, 0, 0, 32, 32, 32, 64, 96};
  auto chooseBlock = [&]() -> int64_t { return random.oneOf(blocks); };
  options.lowering.blockM = chooseBlock();
  options.lowering.blockN = chooseBlock();
  if (random.chance(25))
    options.lowering.order = LoopOrder::key_outer;
  else if (random.chance(30))
    options.lowering.kvSplits = 2 + random.below(4);
  return options;
}

//===----------------------------------------------------------------------===//
// The function
//===----------------------------------------------------------------------===//

static std::string joinArguments(llvm::ArrayRef<std::string> arguments) {
  return llvm::join(arguments, ", ");
}

RandomAttention makeRandomAttention(uint64_t seed) {
  Random random(seed);
  RandomAttention result;
  static constexpr const char *types[] = {"f32", "f32", "f32", "bf16", "bf16", "f16", "f16", "f64"};
  result.elementType = random.oneOf(types);
  std::string compute = result.elementType == "f64" ? "f64" : "f32";
  int64_t headDim = chooseHeadDim(random);
  result.valueDim = random.chance(60) ? headDim : chooseHeadDim(random);
  result.options = chooseOptions(random);
  result.withDLse = random.chance(80);

  int64_t numRuns = 2 + random.below(2);
  for (int64_t run = 0; run < numRuns; ++run)
    result.runs.push_back(chooseSizes(random, headDim + result.valueDim));
  bool isStatic = random.chance(30);
  if (isStatic)
    result.runs.resize(1);
  // Query heads may be static for every run only where the group is, too.
  bool hasStaticHeads = random.chance(50);
  if (hasStaticHeads)
    for (RunSizes &run : result.runs) {
      run.qHeads = result.runs.front().qHeads;
      run.kvHeads = result.runs.front().kvHeads;
    }

  auto getShape = [&](const ArgumentSpec &argument) {
    std::string shape;
    for (const Dimension &dim : argument.dims) {
      bool isHead = dim.of == Dimension::qHeads || dim.of == Dimension::kvHeads;
      bool known = isStatic || dim.of == Dimension::none || (hasStaticHeads && isHead);
      shape += known ? std::to_string(dim.get(result.runs.front())) : "?";
      shape += 'x';
    }
    return shape;
  };
  auto addTensor = [&](const char *name, Dimension::Of heads, Dimension::Of length, int64_t width,
                       Values values) {
    result.arguments.push_back({name,
                                result.elementType,
                                {{Dimension::batch, 0}, {heads, 0}, {length, 0}, {Dimension::none, width}},
                                false,
                                values});
  };
  Values scoreValues = random.chance(20) ? Values::large : Values::normal;
  addTensor("q", Dimension::qHeads, Dimension::qLen, headDim, scoreValues);
  addTensor("k", Dimension::kvHeads, Dimension::kvLen, headDim, Values::normal);
  addTensor("v", Dimension::kvHeads, Dimension::kvLen, result.valueDim, Values::normal);

  RegionWriter writer(random, compute, result.arguments, getShape);
  std::string score = random.chance(75) ? writer.writeScore() : "";
  bool wantsMask = random.chance(75);
  if (random.chance(20))
    result.poisonedKey = random.below(40);
  if (random.chance(20))
    result.poisonedQuery = random.below(40);
  bool needsMask = writer.needsMask() || result.poisonedKey >= 0 || result.poisonedQuery >= 0;
  std::string mask = wantsMask || needsMask ? writer.writeMask(result.poisonedKey, result.poisonedQuery) : "";

  std::vector<std::string> parameters, captures;
  std::vector<std::string> operandTypes;
  for (auto [index, argument] : llvm::enumerate(result.arguments)) {
    std::string type = getTypeText(argument, getShape);
    parameters.push_back("%" + argument.name + ": " + type);
    if (index < 3)
      operandTypes.push_back(type);
    else
      captures.push_back("%" + argument.name + " : " + type);
  }
  ArgumentSpec out = result.arguments[0], lse = out;
  out.dims[3].constant = result.valueDim;
  lse.dims.pop_back();
  lse.elementType = compute;
  std::string outType = getTypeText(out, getShape), lseType = getTypeText(lse, getShape);
  bool hasScale = random.chance(30);
  double scale = 0.05 + 0.01 * static_cast<double>(random.below(30));

  llvm::raw_string_ostream os(result.text);
  os << "func.func @f(" << joinArguments(parameters) << ")\n    -> (" << outType << ", " << lseType << ") {\n"
     << "  %out, %lse = attn.attention %q, %k, %v";
  if (!captures.empty())
    os << " captures(" << joinArguments(captures) << ")";
  if (hasScale)
    os << " scale(" << llvm::format("%.2f", scale) << ")";
  os << "\n";
  auto writeRegion = [&](const char *keyword, const char *first, const std::string &body) {
    if (!body.empty())
      os << "    " << keyword << "(" << first << "%b: index, %h: index, %i: index, %j: index) {\n"
         << body << "    }\n";
  };
  writeRegion("score", compute == "f64" ? "%s: f64, " : "%s: f32, ", score);
  writeRegion("mask", "", mask);
  os << "    : (" << joinArguments(operandTypes) << ")\n      -> (" << outType << ", " << lseType << ")\n"
     << "  return %out, %lse : " << outType << ", " << lseType << "\n}\n";
  return result;
}
