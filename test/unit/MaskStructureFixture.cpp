//===- MaskStructureFixture.cpp - ranges against every pair of small lengths ===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/MaskStructureFixture.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Index/IR/IndexDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;
using namespace attn;

std::vector<MaskArgument> Captures::getArguments() const {
  std::vector<int64_t> documents;
  for (int64_t position = 0; position < kBatch * kLongest; ++position)
    documents.push_back(position % kLongest / 5);
  return {{{index}, {}}, {{i64}, {}}, {{i32}, {}}, {lengths, {kBatch}}, {documents, {kBatch, kLongest}}};
}

MaskStructureTest::MaskStructureTest() {
  DialectRegistry registry;
  registry.insert<AttnDialect, arith::ArithDialect, func::FuncDialect, index::IndexDialect, math::MathDialect,
                  scf::SCFDialect, tensor::TensorDialect>();
  context.appendDialectRegistry(registry);
  context.loadAllAvailableDialects();
  context.allowUnregisteredDialects();
}

void MaskStructureTest::parse(const std::string &body, BlockSizes sizes) {
  std::string text = R"(
    func.func @f(%query: tensor<2x2x?x8xf32>, %key: tensor<2x2x?x8xf32>, %index: index, %i64: i64, %i32: i32,
                 %lengths: tensor<2xi32>, %documents: tensor<2x48xi32>) -> tensor<2x2x?x8xf32> {
      %out, %lse = attn.attention %query, %key, %key
        captures(%index : index, %i64 : i64, %i32 : i32, %lengths : tensor<2xi32>, %documents : tensor<2x48xi32>)
        mask(%b: index, %h: index, %q: index, %kv: index) {
        )" + body + R"(
        attn.yield %keep : i1
      } : (tensor<2x2x?x8xf32>, tensor<2x2x?x8xf32>, tensor<2x2x?x8xf32>)
          -> (tensor<2x2x?x8xf32>, tensor<2x2x?xf32>)
      return %out : tensor<2x2x?x8xf32>
    })";
  module = parseSourceString<ModuleOp>(text, &context);
  ASSERT_TRUE(module) << body;
  module->walk([&](AttentionOp op) { attention = op; });
  build(sizes);
}

void MaskStructureTest::build(BlockSizes sizes) {
  built = sizes;
  for (bool blocksKeys : {false, true}) {
    OpBuilder builder(&context);
    OperationState state(builder.getUnknownLoc(), "test.ranges");
    state.addRegion();
    holders[blocksKeys] = Operation::create(state);
    regions[blocksKeys] = &holders[blocksKeys]->getRegion(0);
    structures[blocksKeys] = buildRanges(builder, attention.getLoc(), attention.getMask(),
                                         *regions[blocksKeys], blocksKeys, sizes);
  }
}

void MaskStructureTest::check(const Captures &captures, ArrayRef<int64_t> lengths,
                              ArrayRef<int64_t> blockSizes) {
  MaskProgram mask(attention.getMask().front());
  MaskProgram ranges[2] = {MaskProgram(regions[0]->front()), MaskProgram(regions[1]->front())};
  Pairs pairs;
  pairs.captures = captures.getArguments();
  for (int64_t qLen : lengths)
    for (int64_t kvLen : lengths)
      for (int64_t b = 0; b < kBatch; ++b)
        for (int64_t h = 0; h < kHeads; ++h) {
          pairs = {std::move(pairs.captures), b, h, qLen, kvLen, std::vector<char>(qLen * kvLen)};
          for (int64_t q = 0; q < qLen; ++q)
            for (int64_t kv = 0; kv < kvLen; ++kv)
              pairs.kept[q * kvLen + kv] = mask.run({b, h, q, kv}, pairs.captures, qLen, kvLen).front() & 1;
          for (bool blocksKeys : {false, true})
            for (int64_t blockSize : blockSizes)
              checkBlocks(pairs, ranges[blocksKeys], blocksKeys, blockSize);
          if (HasFailure())
            return;
        }
}

void MaskStructureTest::checkBlocks(const Pairs &pairs, MaskProgram &program, bool blocksKeys,
                                    int64_t blockSize) {
  int64_t blockedLength = blocksKeys ? pairs.kvLen : pairs.qLen;
  int64_t length = blocksKeys ? pairs.qLen : pairs.kvLen;
  auto yield = cast<YieldRangesOp>(regions[blocksKeys]->front().getTerminator());
  size_t numVisited = yield.getVisitedBegins().size(), numMasked = yield.getMaskedBegins().size();
  for (int64_t begin = 0; begin < blockedLength; begin += blockSize) {
    int64_t end = std::min(begin + blockSize, blockedLength);
    std::vector<int64_t> bounds =
        program.run({pairs.b, pairs.h, begin, end}, pairs.captures, pairs.qLen, pairs.kvLen);
    auto contains = [&](size_t first, size_t count, int64_t index) {
      for (size_t i = first; i < first + count; ++i)
        if (bounds[i] <= index && index < bounds[i + count])
          return true;
      return false;
    };
    std::vector<char> anyKept(length), anyDropped(length), visited(length), masked(length);
    bool isRight = true;
    for (int64_t index = 0; index < length; ++index) {
      for (int64_t blocked = begin; blocked < end; ++blocked) {
        bool keeps = blocksKeys ? pairs.kept[index * pairs.kvLen + blocked]
                                : pairs.kept[blocked * pairs.kvLen + index];
        anyKept[index] |= keeps;
        anyDropped[index] |= !keeps;
      }
      visited[index] = contains(0, numVisited, index);
      masked[index] = contains(2 * numVisited, numMasked, index);
      isRight &= visited[index] >= anyKept[index] && masked[index] >= anyDropped[index];
    }
    isRight &= countBlocks(anyKept, anyDropped, visited, masked) || !structures[blocksKeys].isExact;
    if (isRight)
      continue;
    auto print = [](ArrayRef<char> flags) {
      std::string text;
      for (char flag : flags)
        text += flag ? '1' : '0';
      return text;
    };
    ADD_FAILURE() << (structures[blocksKeys].isExact ? "exact" : "sound") << " ranges are wrong for block "
                  << begin << " to " << end << (blocksKeys ? " of keys" : " of queries") << ", q_len "
                  << pairs.qLen << ", kv_len " << pairs.kvLen << ", b " << pairs.b << ", h " << pairs.h
                  << "\nkept    " << print(anyKept) << "\nvisited " << print(visited) << "\ndropped "
                  << print(anyDropped) << "\nmasked  " << print(masked) << "\n"
                  << printRanges(blocksKeys);
    return;
  }
}

/// Counts streamed blocks of the size that the ranges were built for; false where one is visited or masked in
/// vain.
bool MaskStructureTest::countBlocks(ArrayRef<char> anyKept, ArrayRef<char> anyDropped, ArrayRef<char> visited,
                                    ArrayRef<char> masked) {
  Counts before = counts;
  for (size_t begin = 0; begin < visited.size(); ++begin) {
    size_t size = std::min<size_t>(built.streamed, visited.size() - begin);
    auto any = [&](ArrayRef<char> flags) { return llvm::is_contained(flags.slice(begin, size), 1); };
    counts.visited += any(visited);
    counts.emptyVisited += any(visited) && !any(anyKept);
    counts.full += !any(anyDropped);
    counts.missedFull += any(masked) && !any(anyDropped);
  }
  return counts.emptyVisited == before.emptyVisited && counts.missedFull == before.missedFull;
}

void MaskStructureTest::expect(const std::string &body, Expect expected, ArrayRef<Captures> captures,
                               BlockSizes sizes) {
  SCOPED_TRACE(body);
  parse(body, sizes);
  if (HasFatalFailure())
    return;
  for (auto [region, structure] : llvm::zip(regions, structures)) {
    EXPECT_EQ(structure.isExact, expected == Expect::exact) << structure.reason;
    EXPECT_NE(structure.isExact, cast<YieldRangesOp>(region->front().getTerminator()).getInexact());
    EXPECT_EQ(structure.unknown != nullptr, expected == Expect::unknown) << structure.reason;
  }
  counts = Counts();
  for (const Captures &values : captures)
    check(values, {0, 1, 2, 5, 16, 17, 31, 40});
}

std::string MaskStructureTest::printRanges(bool blocksKeys) {
  std::string text;
  llvm::raw_string_ostream(text) << **holders[blocksKeys];
  return text;
}

size_t MaskStructureTest::countOps(bool blocksKeys) {
  return llvm::count_if(regions[blocksKeys]->front().without_terminator(),
                        [](Operation &op) { return !op.hasTrait<OpTrait::ConstantLike>(); });
}
