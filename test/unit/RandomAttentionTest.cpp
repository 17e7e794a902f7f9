//===- RandomAttentionTest.cpp - tiled kernels against the reference ---------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For each seed: a random attention, its tiled lowering and its gradients on inputs of random strides, within
// the bound of the numeric contract of the f64 reference. A test is named after its seed;
//
//   RandomAttentionTests --seeds=100-199
//
// runs these in place of the default ones, and --print shows them instead.
//
//===----------------------------------------------------------------------===//

#include "RandomAttention.h"
#include "CheckedAttention.h"
#include "RandomRegions.h"
#include "mlir/AsmParser/AsmParser.h"
#include "tools/common/Fill.h"
#include "llvm/Support/PrettyStackTrace.h"
#include "llvm/Support/Signals.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace attn;

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

/// What is f64 here is f32 in the attention that bounds its error: it must be exact in both.
static HostTensor makeExactFilled(Type type, ArrayRef<int64_t> shape, const Fill &fill, uint64_t seed,
                                  unsigned argument) {
  if (!type.isF64())
    return makeFilled(type, shape, fill, seed, argument);
  return makeFilled(Float32Type::get(type.getContext()), shape, fill, seed, argument).castTo(type);
}

static HostTensor makeValues(const ArgumentSpec &spec, Type type, ArrayRef<int64_t> shape,
                             const RunSizes &sizes, uint64_t seed, unsigned argument) {
  auto make = [&](Fill::Kind kind, double low, double high) {
    return makeExactFilled(type, shape, {kind, low, high}, seed, argument);
  };
  switch (spec.values) {
  case Values::normal:
    return make(Fill::normal, 0, 0);
  case Values::large: {
    HostTensor tensor = make(Fill::normal, 0, 0);
    for (int64_t i = 0; i < tensor.getNumElements(); ++i)
      tensor.set(i, 4 * tensor.get(i));
    return tensor;
  }
  case Values::withInfinity: {
    HostTensor tensor = make(Fill::normal, 0, 0);
    Random random(seed + argument);
    for (int64_t i = 0; i < tensor.getNumElements(); ++i)
      if (random.chance(25))
        tensor.set(i, -INFINITY);
    return tensor;
  }
  case Values::aroundOne:
    return make(Fill::uniform, 0.5, 1.5);
  case Values::small:
    return make(Fill::uniform, -0.25, 0.25);
  case Values::lengths:
    return make(Fill::uniform, 0, static_cast<double>(sizes.kvLen));
  case Values::documents:
    return make(Fill::sorted, 0, 3);
  case Values::smallIntegers:
    return make(Fill::uniform, -3, 3);
  case Values::bits:
    return make(Fill::uniform, 0, 1);
  }
  llvm_unreachable("unknown values");
}

/// Any order of the outer dimensions, gaps behind each of them and, for an input, sometimes a stride of 0.
static SmallVector<int64_t> chooseStrides(Random &random, ArrayRef<int64_t> shape, bool isInput) {
  SmallVector<unsigned> order = llvm::to_vector(llvm::seq<unsigned>(0, shape.size()));
  SmallVector<int64_t> strides(shape.size(), 1);
  if (shape.empty())
    return strides;
  for (unsigned dim = 0; dim + 1 < shape.size(); ++dim)
    if (random.chance(40))
      std::swap(order[dim], order[random.below(static_cast<int64_t>(shape.size()) - 1)]);
  int64_t stride = 1;
  for (unsigned dim : llvm::reverse(order)) {
    strides[dim] = stride;
    stride *= std::max<int64_t>(shape[dim], 1);
    if (random.chance(30))
      stride += 1 + random.below(5);
  }
  if (isInput && shape.size() > 1 && random.chance(20))
    strides[random.below(static_cast<int64_t>(shape.size()) - 1)] = 0;
  return strides;
}

/// Makes a row, of all batch entries and heads, NaN.
static void poisonRow(StridedTensor &tensor, int64_t row) {
  if (row < 0 || row >= tensor.getShape()[2])
    return;
  StridedTensor part = tensor.slice(2, row, row + 1);
  HostTensor values = part.toHost();
  for (int64_t i = 0; i < values.getNumElements(); ++i)
    values.set(i, NAN);
  part.fill(values);
}

/// The arguments, then d_out and d_lse.
static std::vector<StridedTensor> makeInputs(MLIRContext &context, const RandomAttention &attention,
                                             const RunSizes &sizes, uint64_t seed, Random &random) {
  std::vector<StridedTensor> inputs;
  auto add = [&](const ArgumentSpec &spec, ArrayRef<int64_t> shape) {
    Type type = parseType(spec.elementType, &context);
    StridedTensor tensor(type, shape, chooseStrides(random, shape, /*isInput=*/true));
    tensor.fill(makeValues(spec, type, shape, sizes, seed, inputs.size()));
    inputs.push_back(std::move(tensor));
  };
  auto getShape = [&](const ArgumentSpec &argument) {
    return llvm::map_to_vector(argument.dims, [&](const Dimension &dim) { return dim.get(sizes); });
  };
  for (const ArgumentSpec &argument : attention.arguments)
    add(argument, getShape(argument));
  SmallVector<int64_t> outShape(getShape(attention.arguments.front()));
  outShape.back() = attention.valueDim;
  ArgumentSpec gradient;
  gradient.elementType = attention.elementType;
  add(gradient, outShape);
  gradient.elementType = attention.elementType == "f64" ? "f64" : "f32";
  if (attention.withDLse)
    add(gradient, ArrayRef(outShape).drop_back());
  size_t dOut = attention.arguments.size();
  // A stride of 0 makes one row of all: then all would be poisoned.
  for (size_t input : {size_t(0), size_t(1), size_t(2), dOut})
    if (inputs[input].ref().strides[2] != 0)
      poisonRow(inputs[input], input == 1 || input == 2 ? attention.poisonedKey : attention.poisonedQuery);
  return inputs;
}

//===----------------------------------------------------------------------===//
// Tests
//===----------------------------------------------------------------------===//

static void checkSeed(uint64_t seed) {
  RandomAttention attention = makeRandomAttention(seed);
  std::string description =
      attention.describe() + "to run it again: RandomAttentionTests --seeds=" + std::to_string(seed) + "\n";
  SCOPED_TRACE(description);
  llvm::PrettyStackTraceString trace(description.c_str());

  DialectRegistry registry;
  registerToolDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  CheckedAttention::Options options;
  options.program = attention.options;
  options.withDLse = attention.withDLse;
  CheckedAttention checked(context, attention.text, options);
  if (!checked.isCompiled())
    return;
  for (auto [index, sizes] : llvm::enumerate(attention.runs)) {
    SCOPED_TRACE("run " + std::to_string(index));
    Random random(seed * 16 + index);
    checked.check(makeInputs(context, attention, sizes, seed * 16 + index, random),
                  [&](ArrayRef<int64_t> shape) { return chooseStrides(random, shape, /*isInput=*/false); });
  }
}

namespace {
class SeedTest : public testing::Test {
public:
  explicit SeedTest(uint64_t seed) : seed(seed) {}
  void TestBody() override { checkSeed(seed); }

private:
  uint64_t seed;
};
} // namespace

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  llvm::sys::PrintStackTraceOnErrorSignal(argv[0]);
  llvm::EnablePrettyStackTrace();
  uint64_t first = 0, last = 29;
  bool print = false;
  for (StringRef argument : llvm::ArrayRef(argv, argc).drop_front()) {
    if (argument == "--print") {
      print = true;
      continue;
    }
    bool isSeeds = argument.consume_front("--seeds=");
    auto [begin, end] = argument.split('-');
    bool fails = !isSeeds || begin.getAsInteger(10, first);
    if (end.empty())
      last = first;
    else
      fails |= end.getAsInteger(10, last);
    if (fails) {
      llvm::errs() << "RandomAttentionTests: expected --seeds=N, --seeds=N-M or --print, got '" << argument
                   << "'\n";
      return 1;
    }
  }
  if (print) {
    for (uint64_t seed = first; seed <= last; ++seed)
      llvm::outs() << "seed " << seed << ": " << makeRandomAttention(seed).describe();
    return 0;
  }
  for (uint64_t seed = first; seed <= last; ++seed)
    testing::RegisterTest("RandomAttention", ("seed_" + std::to_string(seed)).c_str(), nullptr, nullptr,
                          __FILE__, __LINE__, [=]() -> testing::Test * { return new SeedTest(seed); });
  return RUN_ALL_TESTS();
}
