//===- KnownFaultsMemoryTest.cpp - known faults of strides, offsets and partial results --===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See KnownFaultsTest.cpp.
//
//===----------------------------------------------------------------------===//

#include "KnownFaults.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Passes.h"
#include "tools/common/Fill.h"

using namespace mlir;
using namespace attn;

//===----------------------------------------------------------------------===//
// Parts that are merged
//===----------------------------------------------------------------------===//

/// A part of the keys, from position %offset on; with `mask`, which calls the position of the key %key.
static Text makePart(const std::string &mask) {
  Text text;
  text.name = "part";
  text.captures = "%offset: index, %documents: tensor<?xi32>";
  text.mask = "%key = arith.addi %j, %offset : index\n" + mask;
  return text;
}

static const char *const kMerge = R"(
func.func @merge(%a: tensor<?x?x?x64xf32>, %a_lse: tensor<?x?x?xf32>, %b: tensor<?x?x?x64xf32>, %b_lse: tensor<?x?x?xf32>)
    -> (tensor<?x?x?x64xf32>, tensor<?x?x?xf32>) {
  %out, %lse = attn.merge (%a, %a_lse), (%b, %b_lse) : tensor<?x?x?x64xf32>, tensor<?x?x?xf32> -> tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
  return %out, %lse : tensor<?x?x?x64xf32>, tensor<?x?x?xf32>
}
)";

TEST_F(KnownFaults, Row26_48_90_MergedPartsAreTheWhole) {
  // Documents of odd lengths under a causal mask; then no mask at all.
  const std::string causalDocuments = R"(
    %of_query = tensor.extract %documents[%i] : tensor<?xi32>
    %of_key = tensor.extract %documents[%key] : tensor<?xi32>
    %same = arith.cmpi eq, %of_query, %of_key : i32
    %causal = arith.cmpi sle, %key, %i : index
    %keep = arith.andi %same, %causal : i1
    attn.yield %keep : i1
  )";
  const std::string all = "%keep = arith.constant true\n attn.yield %keep : i1\n";
  std::vector<double> documents;
  for (int64_t end : {9, 17, 25, 37, 45, 57})
    documents.resize(end, static_cast<double>(documents.size()));
  StridedTensor documentsTensor = list("i32", {57}, documents);

  for (const std::string &mask : {causalDocuments, all}) {
    Text part = makePart(mask), whole = part;
    whole.name = "f";
    CheckedAttention attention = compile(whole);
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(part.build() + kMerge, &context);
    PassManager pm(&context);
    pm.addPass(createDifferentiatePass());
    ASSERT_TRUE(succeeded(pm.run(*module)));
    CpuCompileOptions options;
    options.numThreads = 1;
    std::unique_ptr<CpuExecutable> parts = llvm::cantFail(CpuExecutable::compile(*module, options));

    StridedTensor zero = list("index", {}, {0});
    std::vector<StridedTensor> inputs = makeInputs(whole, {1, 2, 2, 57, 57}, {zero, documentsTensor});
    auto makeResults = [&](ArrayRef<ArrayRef<int64_t>> shapes) {
      std::vector<StridedTensor> results;
      for (ArrayRef<int64_t> shape : shapes)
        results.emplace_back(parse("f32"), shape);
      return results;
    };
    auto run = [&](const char *function, ArrayRef<Argument> arguments, ArrayRef<StridedTensor> results) {
      SmallVector<BufferRef> buffers =
          llvm::map_to_vector(results, [](const StridedTensor &tensor) { return tensor.ref(); });
      EXPECT_FALSE(static_cast<bool>(parts->run(function, arguments, buffers)));
    };
    SmallVector<int64_t> outShape = {1, 2, 57, 64}, lseShape = {1, 2, 57};
    std::vector<StridedTensor> merged = makeResults({outShape, lseShape});
    // In the order of a ring: the last part comes second.
    static constexpr std::pair<int64_t, int64_t> bounds[] = {{0, 16}, {41, 57}, {16, 30}, {30, 41}};
    auto getArguments = [&](std::pair<int64_t, int64_t> part, int64_t &offset) {
      offset = part.first;
      return SmallVector<Argument>{inputs[0].ref(), inputs[1].slice(2, part.first, part.second).ref(),
                                   inputs[2].slice(2, part.first, part.second).ref(),
                                   ScalarRef{&offset, parse("index")}, documentsTensor.ref()};
    };
    int64_t offset;
    for (auto [index, part] : llvm::enumerate(bounds)) {
      std::vector<StridedTensor> results = makeResults({outShape, lseShape});
      run("part", getArguments(part, offset), results);
      if (index == 0) {
        merged = results;
        continue;
      }
      std::vector<StridedTensor> both = makeResults({outShape, lseShape});
      run("merge", {merged[0].ref(), merged[1].ref(), results[0].ref(), results[1].ref()}, both);
      merged = both;
    }

    // The gradients of a part follow from the output and lse of the whole.
    std::vector<StridedTensor> gradients = makeResults({outShape, outShape, outShape});
    HostTensor dQuery(parse("f32"), outShape);
    for (auto part : bounds) {
      SmallVector<Argument> arguments = getArguments(part, offset);
      for (const StridedTensor &tensor : {merged[0], merged[1], inputs[5], inputs[6]})
        arguments.push_back(tensor.ref());
      std::vector<StridedTensor> results = {StridedTensor(parse("f32"), outShape),
                                            gradients[1].slice(2, part.first, part.second),
                                            gradients[2].slice(2, part.first, part.second)};
      run("part_backward", arguments, results);
      HostTensor ofPart = results[0].toHost();
      for (int64_t i = 0; i < dQuery.getNumElements(); ++i)
        dQuery.set(i, dQuery.get(i) + ofPart.get(i));
    }
    gradients[0].fill(dQuery);
    llvm::append_range(merged, gradients);
    attention.expectContract(merged, inputs);
  }
}

//===----------------------------------------------------------------------===//
// Strides and large offsets
//===----------------------------------------------------------------------===//

TEST_F(KnownFaults, Row28_BroadcastKeysAndValues) {
  Text text;
  text.type = "bf16";
  text.headDim = text.valueDim = 512;
  text.captures = "%kept: tensor<?x?xi1>";
  text.mask = R"(
    %keep = tensor.extract %kept[%i, %j] : tensor<?x?xi1>
    attn.yield %keep : i1
  )";
  CheckedAttention attention = compile(text);
  StridedTensor kept = make(makeFilled(parse("i1"), {20, 33}, {Fill::uniform, 0, 1}, 9, 0));
  std::vector<StridedTensor> inputs = makeInputs(text, {2, 2, 2, 20, 33}, kept);
  for (unsigned input : {1, 2}) {
    StridedTensor broadcast(parse("bf16"), {2, 2, 33, 512}, {0, 0, 512, 1});
    broadcast.fill(inputs[input].toHost());
    inputs[input] = broadcast;
  }
  std::vector<StridedTensor> contiguous = inputs;
  contiguous[1] = make(inputs[1].toHost());
  contiguous[2] = make(inputs[2].toHost());
  expectBitEqual(attention.check(inputs), attention.run(contiguous));
}

TEST_F(KnownFaults, Row38_SlicedAndTransposedInputs) {
  Text text;
  text.headDim = text.valueDim = 256;
  CheckedAttention attention = compile(text);
  std::vector<StridedTensor> inputs = makeInputs(text, {1, 4, 4, 70, 70}), contiguous = inputs;
  // One tensor of (length, 3, heads, head_dim) holds query, key and value.
  StridedTensor packed(parse("f32"), {3, 1, 4, 70, 256}, {4 * 256, 0, 256, 3 * 4 * 256, 1});
  for (unsigned input = 0; input < 3; ++input) {
    StridedTensor part = packed.at(input);
    part.fill(inputs[input].toHost());
    inputs[input] = part;
  }
  StridedTensor transposed(parse("f32"), {1, 4, 70, 256}, {0, 256, 4 * 256, 1});
  transposed.fill(inputs[3].toHost());
  inputs[3] = transposed;
  auto chooseTransposed = [](ArrayRef<int64_t> shape) {
    if (shape.size() == 3)
      return SmallVector<int64_t>{shape[1] * shape[2], 1 * shape[2], 1};
    return SmallVector<int64_t>{shape[1] * shape[2] * shape[3], shape[3], shape[1] * shape[3], 1};
  };
  expectBitEqual(attention.check(inputs, chooseTransposed), attention.run(contiguous));
}

TEST_F(KnownFaults, Row34_BatchedEqualsSingle) {
  Text text;
  CheckedAttention attention = compile(text, /*threads=*/2);
  std::vector<StridedTensor> inputs = makeInputs(text, {32, 1, 1, 500, 350});
  std::vector<StridedTensor> batched = attention.runForward(inputs), single;
  for (int64_t batch : {0, 7, 31}) {
    for (StridedTensor &input : inputs)
      single.push_back(input.slice(0, batch, batch + 1));
    std::vector<StridedTensor> results = attention.runForward(single);
    for (Result result : {kOut, kLse})
      EXPECT_TRUE(areBitEqual(batched[result].slice(0, batch, batch + 1), results[result]));
    single.clear();
  }
}

TEST_F(KnownFaults, Row82_BiasOfAnyRowStride) {
  Text text;
  text.captures = "%bias: tensor<?x?xf32>";
  text.score = kBias;
  CheckedAttention attention = compile(text);
  for (auto [qLen, kvLen] : {std::pair<int64_t, int64_t>{43, 43}, {17, 361}, {17, 364}}) {
    StridedTensor bias = normal("f32", {qLen, kvLen}, 10);
    std::vector<StridedTensor> inputs = makeInputs(text, {1, 2, 2, qLen, kvLen}, bias), aligned = inputs;
    aligned[3] = StridedTensor(parse("f32"), {qLen, kvLen}, {368, 1});
    aligned[3].fill(bias.toHost());
    std::vector<StridedTensor> results = attention.check(inputs), alignedResults = attention.run(aligned);
    // The order in which gradients of captures are added is open.
    results.pop_back();
    alignedResults.pop_back();
    expectBitEqual(results, alignedResults);
  }
}

TEST_F(KnownFaults, Row84_OddOffset) {
  Text text;
  text.type = "bf16";
  text.headDim = text.valueDim = 8;
  CheckedAttention attention = compile(text);
  std::vector<StridedTensor> inputs = makeInputs(text, {1, 2, 2, 65, 65}), contiguous = inputs;
  for (unsigned input = 0; input < 4; ++input) {
    // One element more at the end moves the first one off any alignment.
    StridedTensor wide(parse("bf16"), {2, 1, 2, 65, 8}, {1, 0, 65 * 8, 8, 1});
    StridedTensor moved = wide.at(0);
    moved.fill(inputs[input].toHost());
    inputs[input] = moved;
    EXPECT_NE(reinterpret_cast<uintptr_t>(moved.ref().data) % 16, 0u);
  }
  expectBitEqual(attention.check(inputs), attention.run(contiguous));
}

TEST_F(KnownFaults, Row80_OneQueryManyKeysAndABroadcastGradient) {
  Text text;
  LoweringSettings split;
  split.kvSplits = 4;
  CheckedAttention attention = compile(text, /*threads=*/2, split);
  std::vector<StridedTensor> inputs = makeInputs(text, {1, 16, 1, 1, 65536});
  attention.runForward(inputs);
  inputs = makeInputs(text, {1, 16, 1, 1, 1000});
  StridedTensor ones(parse("f32"), {1, 16, 1, 64}, {0, 0, 0, 1});
  ones.fill(constant("f32", {1, 16, 1, 64}, 1).toHost());
  inputs[3] = ones;
  attention.check(inputs);
}

TEST_F(KnownFaults, Row58_60_62_OffsetsBeyond32Bits) {
  Text text;
  text.type = "bf16";
  text.headDim = text.valueDim = 72;
  text.mask = kCausal;
  CheckedAttention attention = compile(text);
  std::vector<StridedTensor> contiguous = makeInputs(text, {2, 2, 2, 40, 40}), inputs = contiguous;
  std::vector<StridedTensor> expected = attention.check(contiguous);
  // In turn batch entries, heads and rows lie far apart.
  static constexpr int64_t far = (int64_t(1) << 31) + 72;
  static constexpr int64_t allStrides[][4] = {
      {far, 40 * 72, 72, 1}, {40 * 72, far, 72, 1}, {72, 2 * 72, far / 32, 1}};
  for (ArrayRef<int64_t> strides : allStrides) {
    auto chooseStrides = [&](ArrayRef<int64_t> shape) {
      SmallVector<int64_t> chosen(strides.take_front(shape.size()));
      chosen.back() = 1;
      return chosen;
    };
    for (unsigned input = 0; input < 4; ++input) {
      HostTensor values = contiguous[input].toHost();
      inputs[input] = StridedTensor(parse("bf16"), values.getShape(), strides);
      inputs[input].fill(values);
    }
    expectBitEqual(attention.run(inputs, chooseStrides), expected);
  }
}

TEST_F(KnownFaults, Row58_60_66_ManyBatchEntries) {
  Text text;
  text.headDim = text.valueDim = 8;
  text.captures = "%bias: tensor<?xf32>";
  text.score = R"(
    %x = tensor.extract %bias[%b] : tensor<?xf32>
    %biased = arith.addf %s, %x : f32
    attn.yield %biased : f32
  )";
  constexpr int64_t batch = 262144;
  CheckedAttention attention = compile(text, /*threads=*/2);
  std::vector<StridedTensor> inputs = makeInputs(text, {batch, 1, 1, 1, 1}, normal("f32", {batch}, 11));
  std::vector<StridedTensor> results = attention.run(inputs);
  // With one key the output is its value.
  EXPECT_TRUE(areBitEqual(results[kOut], inputs[2]));
}

TEST_F(KnownFaults, Row64_ManyHeads) {
  Text text;
  text.headDim = text.valueDim = 16;
  CheckedAttention attention = compile(text, /*threads=*/2);
  constexpr int64_t heads = 65536;
  std::vector<StridedTensor> inputs = makeInputs(text, {1, heads, heads, 10, 10});
  std::vector<StridedTensor> results = attention.runForward(inputs), last;
  for (const StridedTensor &input : inputs)
    last.push_back(input.slice(1, heads - 1, heads));
  EXPECT_TRUE(areBitEqual(results[kOut].slice(1, heads - 1, heads), attention.runForward(last)[kOut]));
}

TEST_F(KnownFaults, Row30_MaskOfMoreThan32BitsOfPairs) {
  // A window keeps it fast, and only the ends of the sequence are computed.
  Text text;
  text.headDim = text.valueDim = 8;
  text.captures = "%kept: tensor<?x?xi1>";
  text.mask = R"(
    %n = attn.q_len %b
    %edge = arith.constant 64 : index
    %last = arith.subi %n, %edge : index
    %is_last = arith.cmpi sge, %i, %last : index
    %start = arith.subi %i, %edge : index
    %near = arith.cmpi sge, %j, %start : index
    %causal = arith.cmpi sle, %j, %i : index
    %in_window = arith.andi %near, %causal : i1
    %computed = arith.andi %in_window, %is_last : i1
    %listed = tensor.extract %kept[%i, %j] : tensor<?x?xi1>
    %keep = arith.andi %computed, %listed : i1
    attn.yield %keep : i1
  )";
  constexpr int64_t length = 65600;
  StridedTensor kept(parse("i1"), {length, length}, {length, 1}, /*zero=*/true);
  for (int64_t i = length - 64; i < length; ++i)
    static_cast<char *>(kept.ref().data)[i * length + i - 5] = 1;
  CheckedAttention attention = compile(text, /*threads=*/2);
  std::vector<StridedTensor> inputs = makeInputs(text, {1, 1, 1, length, length}, kept);
  std::vector<StridedTensor> results = attention.runForward(inputs);
  // Each of the last queries sees one key.
  EXPECT_TRUE(
      areBitEqual(results[kOut].slice(2, length - 64, length), inputs[2].slice(2, length - 69, length - 5)));
  EXPECT_TRUE(areZero(results[kOut].slice(2, 0, length - 64)));
}

//===----------------------------------------------------------------------===//
// Determinism and reuse
//===----------------------------------------------------------------------===//

TEST_F(KnownFaults, Row92_BitEqualFromRunToRun) {
  Text text;
  text.type = "f16";
  text.mask = kCausal;
  CheckedAttention attention = compile(text, /*threads=*/4);
  std::vector<StridedTensor> inputs = makeInputs(text, {2, 3, 1, 129, 129});
  std::vector<StridedTensor> first = attention.run(inputs);
  for (int repeat = 1; repeat < 100; ++repeat)
    expectBitEqual(attention.run(inputs), first);
}

TEST_F(KnownFaults, Row94_OneCompilationForAllValues) {
  // One executable serves every length, batch, number of heads and captured scalar.
  Text text;
  text.captures = "%cap: f32, %lengths: tensor<?xindex>";
  text.mask = kPadding;
  text.score = R"(
    %x = arith.divf %s, %cap : f32
    %t = math.tanh %x : f32
    %capped = arith.mulf %t, %cap : f32
    attn.yield %capped : f32
  )";
  CheckedAttention attention = compile(text);
  for (auto [cap, batch, heads, length] : {std::tuple(5.0, 1, 2, 33), {30.0, 3, 1, 70}, {1.5, 2, 6, 1}}) {
    HostTensor lengths = makeFilled(parse("index"), {batch}, {Fill::uniform, 0, double(length)}, 12, 0);
    attention.check(
        makeInputs(text, {batch, heads, 1, length, length}, {list("f32", {}, {cap}), make(lengths)}));
  }
}
