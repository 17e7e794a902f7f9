//===- MaskStructureTest.cpp - ranges against every pair of small lengths ---===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each mask and the ranges regions built from it, for blocks of queries and for blocks of keys, are evaluated
// by the interpreter below for all pairs of small lengths. An index that some pair of a block keeps has to be
// visited, one that some pair drops has to be masked; where the structure says that it is exact, no others
// are. Exact at every index, the ranges are exact for streamed blocks of any size.
//
//===----------------------------------------------------------------------===//

#include "passes/MaskStructure.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Index/IR/IndexDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "test/unit/MaskInterpreter.h"
#include <gtest/gtest.h>
#include <random>

using namespace mlir;
using namespace attn;

namespace {
constexpr int64_t kBatch = 2, kHeads = 2, kLongest = 48;
constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
constexpr int64_t kBlockSizes[] = {1, 4, 7, 16, 48};

/// The captures of every mask: three windows, a length and a document number for each position.
struct Captures {
  int64_t index = 3, i64 = 3, i32 = 3;
  std::vector<int64_t> lengths = {5, 17};

  std::vector<MaskArgument> getArguments() const {
    std::vector<int64_t> documents;
    for (int64_t position = 0; position < kBatch * kLongest; ++position)
      documents.push_back(position % kLongest / 5);
    return {{{index}, {}}, {{i64}, {}}, {{i32}, {}}, {lengths, {kBatch}}, {documents, {kBatch, kLongest}}};
  }
};

/// What a test expects of the ranges besides being sound.
enum class Expect { exact, sound, unknown };

struct Counts {
  int64_t visited = 0, emptyVisited = 0, full = 0, missedFull = 0;
};

class MaskStructureTest : public testing::Test {
protected:
  MaskStructureTest() {
    DialectRegistry registry;
    registry.insert<AttnDialect, arith::ArithDialect, func::FuncDialect, index::IndexDialect,
                    math::MathDialect, scf::SCFDialect, tensor::TensorDialect>();
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    context.allowUnregisteredDialects();
  }

  /// `body` computes the i1 %keep from %b, %h, %q, %kv and the captures.
  void parse(const std::string &body) {
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
    for (bool blocksKeys : {false, true}) {
      OpBuilder builder(&context);
      OperationState state(builder.getUnknownLoc(), "test.ranges");
      state.addRegion();
      holders[blocksKeys] = Operation::create(state);
      regions[blocksKeys] = &holders[blocksKeys]->getRegion(0);
      structures[blocksKeys] = buildRanges(builder, attention, *regions[blocksKeys], blocksKeys);
    }
  }

  std::string printRanges(bool blocksKeys) {
    std::string text;
    llvm::raw_string_ostream(text) << **holders[blocksKeys];
    return text;
  }

  /// Compares the ranges with the mask, for these captures and lengths.
  void check(const Captures &captures, ArrayRef<int64_t> lengths) {
    MaskProgram mask(attention.getMask().front());
    MaskProgram ranges[2] = {MaskProgram(regions[0]->front()), MaskProgram(regions[1]->front())};
    std::vector<MaskArgument> arguments = captures.getArguments();
    for (int64_t qLen : lengths)
      for (int64_t kvLen : lengths)
        for (int64_t b = 0; b < kBatch; ++b)
          for (int64_t h = 0; h < kHeads; ++h) {
            std::vector<char> kept(qLen * kvLen);
            for (int64_t q = 0; q < qLen; ++q)
              for (int64_t kv = 0; kv < kvLen; ++kv)
                kept[q * kvLen + kv] = mask.run({b, h, q, kv}, arguments, qLen, kvLen).front() & 1;
            for (bool blocksKeys : {false, true})
              for (int64_t blockSize : kBlockSizes)
                checkBlocks(kept, ranges[blocksKeys], arguments, {b, h}, qLen, kvLen, blocksKeys, blockSize);
            if (HasFailure())
              return;
          }
  }

  void checkBlocks(const std::vector<char> &kept, MaskProgram &program,
                   const std::vector<MaskArgument> &arguments, std::pair<int64_t, int64_t> batchAndHead,
                   int64_t qLen, int64_t kvLen, bool blocksKeys, int64_t blockSize) {
    int64_t blockedLength = blocksKeys ? kvLen : qLen, length = blocksKeys ? qLen : kvLen;
    bool isExact = structures[blocksKeys].isExact;
    for (int64_t begin = 0; begin < blockedLength; begin += blockSize) {
      int64_t end = std::min(begin + blockSize, blockedLength);
      std::vector<int64_t> bounds =
          program.run({batchAndHead.first, batchAndHead.second, begin, end}, arguments, qLen, kvLen);
      auto yield = cast<YieldRangesOp>(regions[blocksKeys]->front().getTerminator());
      size_t numVisited = yield.getVisitedBegins().size(), numMasked = yield.getMaskedBegins().size();
      auto contains = [&](size_t first, size_t count, int64_t index) {
        for (size_t i = first; i < first + count; ++i)
          if (bounds[i] <= index && index < bounds[i + count])
            return true;
        return false;
      };
      std::vector<char> anyKept(length), anyDropped(length), visited(length), masked(length);
      for (int64_t index = 0; index < length; ++index) {
        for (int64_t blocked = begin; blocked < end; ++blocked) {
          bool keeps = blocksKeys ? kept[index * kvLen + blocked] : kept[blocked * kvLen + index];
          anyKept[index] |= keeps;
          anyDropped[index] |= !keeps;
        }
        visited[index] = contains(0, numVisited, index);
        masked[index] = contains(2 * numVisited, numMasked, index);
        bool isRight = visited[index] >= anyKept[index] && masked[index] >= anyDropped[index] &&
                       (!isExact || (visited[index] == anyKept[index] && masked[index] == anyDropped[index]));
        if (!isRight) {
          ADD_FAILURE() << (isExact ? "exact" : "sound") << " ranges are wrong at index " << index
                        << " of block " << begin << " to " << end << (blocksKeys ? " of keys" : " of queries")
                        << ", q_len " << qLen << ", kv_len " << kvLen << ", b " << batchAndHead.first
                        << ", h " << batchAndHead.second << ": kept " << int(anyKept[index]) << ", visited "
                        << int(visited[index]) << ", dropped " << int(anyDropped[index]) << ", masked "
                        << int(masked[index]) << "\n"
                        << printRanges(blocksKeys);
          return;
        }
      }
      countBlocks(anyKept, anyDropped, visited, masked);
    }
  }

  /// Counts whole streamed blocks of 16, for the masks that are not exact.
  void countBlocks(ArrayRef<char> anyKept, ArrayRef<char> anyDropped, ArrayRef<char> visited,
                   ArrayRef<char> masked) {
    for (size_t begin = 0; begin + 16 <= visited.size(); begin += 16) {
      auto any = [&](ArrayRef<char> flags) { return llvm::is_contained(flags.slice(begin, 16), 1); };
      counts.visited += any(visited);
      counts.emptyVisited += any(visited) && !any(anyKept);
      counts.full += !any(anyDropped);
      counts.missedFull += any(masked) && !any(anyDropped);
    }
  }

  void expect(const std::string &body, Expect expected, ArrayRef<Captures> captures = Captures()) {
    SCOPED_TRACE(body);
    parse(body);
    if (HasFatalFailure())
      return;
    for (const MaskStructure &structure : structures) {
      EXPECT_EQ(structure.isExact, expected == Expect::exact) << structure.reason;
      EXPECT_EQ(structure.unknown != nullptr, expected == Expect::unknown) << structure.reason;
    }
    counts = Counts();
    for (const Captures &values : captures)
      check(values, {0, 1, 2, 5, 16, 17, 31, 40});
  }

  size_t countOps(bool blocksKeys) {
    return llvm::count_if(regions[blocksKeys]->front().without_terminator(),
                          [](Operation &op) { return !op.hasTrait<OpTrait::ConstantLike>(); });
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  AttentionOp attention;
  OwningOpRef<Operation *> holders[2];
  Region *regions[2];
  MaskStructure structures[2];
  Counts counts;
};

//===----------------------------------------------------------------------===//
// Masks by name
//===----------------------------------------------------------------------===//

/// Pieces of masks: each defines one i1, named by its first word.
const char *kCausal = "%causal = arith.cmpi sle, %kv, %q : index\n";
const char *kBottomRight = R"(
  %q_len = attn.q_len %b
  %kv_len = attn.kv_len %b
  %shift = arith.subi %kv_len, %q_len : index
  %last = arith.addi %q, %shift : index
  %bottom_right = arith.cmpi sle, %kv, %last : index
)";
const char *kWindow = R"(
  %window_distance = arith.subi %q, %kv : index
  %window = arith.cmpi slt, %window_distance, %index : index
)";
const char *kTwoSided = R"(
  %two_sided_distance = arith.subi %q, %kv : index
  %two_sided_width = arith.index_cast %i32 : i32 to index
  %two_sided_magnitude = math.absi %two_sided_distance : index
  %two_sided = arith.cmpi sle, %two_sided_magnitude, %two_sided_width : index
)";
const char *kPadding = R"(
  %padding_i32 = tensor.extract %lengths[%b] : tensor<2xi32>
  %padding_len = arith.index_cast %padding_i32 : i32 to index
  %padding = arith.cmpi slt, %kv, %padding_len : index
)";
const char *kQueryPadding = R"(
  %query_padding_i32 = tensor.extract %lengths[%b] : tensor<2xi32>
  %query_padding_len = arith.index_cast %query_padding_i32 : i32 to index
  %query_padding = arith.cmpi slt, %q, %query_padding_len : index
)";
const char *kChunk = R"(
  %c8 = arith.constant 8 : index
  %q_chunk = arith.floordivsi %q, %c8 : index
  %kv_chunk = arith.floordivsi %kv, %c8 : index
  %chunk = arith.cmpi eq, %q_chunk, %kv_chunk : index
)";
const char *kSink = R"(
  %c4 = arith.constant 4 : index
  %sink = arith.cmpi slt, %kv, %c4 : index
)";
const char *kDilated = R"(
  %dilation = arith.constant 3 : index
  %phase = arith.remui %kv, %dilation : index
  %dilated_zero = arith.constant 0 : index
  %dilated = arith.cmpi eq, %phase, %dilated_zero : index
)";
const char *kStrided = R"(
  %stride = arith.constant 4 : index
  %strided_distance = arith.subi %q, %kv : index
  %strided_phase = arith.remsi %strided_distance, %stride : index
  %strided_zero = arith.constant 0 : index
  %strided = arith.cmpi eq, %strided_phase, %strided_zero : index
)";
const char *kDocument = R"(
  %q_document = tensor.extract %documents[%b, %q] : tensor<2x48xi32>
  %kv_document = tensor.extract %documents[%b, %kv] : tensor<2x48xi32>
  %document = arith.cmpi eq, %q_document, %kv_document : i32
)";
const char *kHeadWindow = R"(
  %head_one = arith.constant 1 : index
  %head_first = arith.cmpi slt, %h, %head_one : index
  %head_ten = arith.constant 10 : index
  %head_width = arith.select %head_first, %index, %head_ten : index
  %head_distance = arith.subi %q, %kv : index
  %head_window = arith.cmpi sle, %head_distance, %head_width : index
)";
const char *kFirstHead = R"(
  %first_head_one = arith.constant 1 : index
  %first_head = arith.cmpi slt, %h, %first_head_one : index
)";
const char *kQueryFrom = "%query_from = arith.cmpi sge, %q, %index : index\n";

std::string yieldOf(StringRef name) {
  return "%true = arith.constant true\n%keep = arith.andi %" + name.str() + ", %true : i1\n";
}

/// All windows: no limit in either direction, none, one, some.
std::vector<Captures> getWindows() {
  std::vector<Captures> windows;
  for (int64_t width :
       {int64_t(-7), int64_t(-1), int64_t(0), int64_t(1), int64_t(2), int64_t(9), int64_t(60)})
    windows.push_back({width, width, width, {5, 17}});
  for (int64_t width : {kNoLimit, kNoLimit - 3, -kNoLimit, -kNoLimit - 1})
    windows.push_back({width, width, static_cast<int32_t>(width), {0, 40}});
  return windows;
}

TEST_F(MaskStructureTest, Causal) {
  expect(kCausal + yieldOf("causal"), Expect::exact);
  EXPECT_EQ(countOps(false), 2u) << printRanges(false); // begin + 1 and the length
  EXPECT_EQ(countOps(true), 2u) << printRanges(true);
}

TEST_F(MaskStructureTest, CausalBottomRight) {
  expect(kBottomRight + yieldOf("bottom_right"), Expect::exact);
}
TEST_F(MaskStructureTest, Window) { expect(kWindow + yieldOf("window"), Expect::exact, getWindows()); }
TEST_F(MaskStructureTest, TwoSided) { expect(kTwoSided + yieldOf("two_sided"), Expect::exact, getWindows()); }

TEST_F(MaskStructureTest, Padding) {
  expect(kPadding + yieldOf("padding"), Expect::exact, getWindows());
  expect(kQueryPadding + yieldOf("query_padding"), Expect::exact, getWindows());
}

TEST_F(MaskStructureTest, Chunk) { expect(kChunk + yieldOf("chunk"), Expect::exact); }
TEST_F(MaskStructureTest, HeadWindow) {
  expect(kHeadWindow + yieldOf("head_window"), Expect::exact, getWindows());
}
TEST_F(MaskStructureTest, UniformGuard) { expect(kFirstHead + yieldOf("first_head"), Expect::exact); }

TEST_F(MaskStructureTest, AllAndNothing) {
  expect("%keep = arith.constant true", Expect::exact);
  EXPECT_EQ(cast<YieldRangesOp>(regions[0]->front().getTerminator()).getMaskedBegins().size(), 0u);
  expect("%keep = arith.constant false", Expect::exact);
  EXPECT_EQ(cast<YieldRangesOp>(regions[0]->front().getTerminator()).getVisitedBegins().size(), 0u);
  expect("%keep = arith.cmpi sge, %q, %b : index", Expect::exact);
}

TEST_F(MaskStructureTest, Unsigned) {
  // 0 <= q - kv < window, as one unsigned comparison.
  expect("%d = arith.subi %q, %kv : index\n%keep = arith.cmpi ult, %d, %index : index", Expect::exact,
         getWindows());
}

/// One mask in the words of different front ends.
TEST_F(MaskStructureTest, Spellings) {
  // Causal in 32 bits, and through 64.
  expect(R"(%q32 = arith.index_cast %q : index to i32
            %kv32 = arith.index_cast %kv : index to i32
            %d = arith.subi %kv32, %q32 : i32
            %zero = arith.constant 0 : i32
            %keep = arith.cmpi sle, %d, %zero : i32)",
         Expect::exact);
  expect(R"(%q64 = index.casts %q : index to i64
            %kv64 = index.castu %kv : index to i64
            %q32 = arith.trunci %q64 : i64 to i32
            %kv32 = arith.trunci %kv64 : i64 to i32
            %q_wide = arith.extui %q32 : i32 to i64
            %kv_wide = arith.extsi %kv32 : i32 to i64
            %keep = arith.cmpi uge, %q_wide, %kv_wide : i64)",
         Expect::exact);
  expect("%keep = index.cmp ule(%kv, %q)", Expect::exact);
  // A window of a captured i32, in 32 bits.
  expect(R"(%q32 = arith.index_cast %q : index to i32
            %kv32 = arith.index_cast %kv : index to i32
            %d = arith.subi %q32, %kv32 : i32
            %keep = arith.cmpi slt, %d, %i32 : i32)",
         Expect::exact, getWindows());
  // Chunks of 8 by low bits, by shifts, and by remainders.
  expect(R"(%low = arith.constant 7 : index
            %q_low = arith.andi %q, %low : index
            %kv_low = index.and %low, %kv
            %q_first = arith.subi %q, %q_low : index
            %kv_first = arith.subi %kv, %kv_low : index
            %keep = arith.cmpi eq, %q_first, %kv_first : index)",
         Expect::exact);
  expect(R"(%three = arith.constant 3 : index
            %q_chunk = arith.shrui %q, %three : index
            %kv_chunk = index.shrs %kv, %three
            %q_first = arith.shli %q_chunk, %three : index
            %kv_first = index.shl %kv_chunk, %three
            %keep = arith.cmpi eq, %q_first, %kv_first : index)",
         Expect::exact);
  // Division towards zero: the pairs at a distance below 8, in either direction.
  expect(R"(%eight = arith.constant 8 : index
            %zero = arith.constant 0 : index
            %d = arith.subi %q, %kv : index
            %chunks = arith.divsi %d, %eight : index
            %keep = arith.cmpi eq, %chunks, %zero : index)",
         Expect::exact);
  // Truth values as numbers.
  expect(R"(%after = arith.cmpi sge, %q, %kv : index
            %near = arith.cmpi slt, %kv, %index : index
            %a = arith.extui %after : i1 to i32
            %n = arith.extui %near : i1 to i32
            %both = arith.addi %a, %n : i32
            %two = arith.constant 2 : i32
            %keep = arith.cmpi eq, %both, %two : i32)",
         Expect::exact, getWindows());
  // Prefix-LM: the last visible key is the larger of two.
  expect(R"(%prefix_i32 = tensor.extract %lengths[%b] : tensor<2xi32>
            %prefix = arith.index_cast %prefix_i32 : i32 to index
            %one = arith.constant 1 : index
            %next = arith.addi %q, %one : index
            %last = arith.maxsi %prefix, %next : index
            %keep = arith.cmpi slt, %kv, %last : index)",
         Expect::exact, getWindows());
}

/// Hashes of the positions, as sparse masks drawn at random have them, wrap in 32 and in 64 bits.
TEST_F(MaskStructureTest, Hash) {
  for (StringRef type : {"i32", "i64"}) {
    StringRef multiplier = type == "i32" ? "747796405" : "-7046029254386353131";
    expect(("%x = arith.index_cast %q : index to " + type + "\n%y = arith.index_cast %kv : index to " + type +
            "\n%c = arith.constant " + multiplier + " : " + type + "\n%row = arith.constant 2048 : " + type +
            "\n%first = arith.muli %x, %row : " + type + "\n%pair = arith.addi %first, %y : " + type +
            "\n%hash = arith.muli %pair, %c : " + type + "\n%zero = arith.constant 0 : " + type +
            "\n%keep = arith.cmpi slt, %hash, %zero : " + type)
               .str(),
           Expect::unknown);
  }
}

/// What a narrow type wraps is not understood, and what an index multiplies by a capture neither.
TEST_F(MaskStructureTest, Unknown) {
  expect(R"(%q8 = arith.index_cast %q : index to i8
            %kv8 = arith.index_cast %kv : index to i8
            %keep = arith.cmpi slt, %kv8, %q8 : i8)",
         Expect::unknown);
  expect("%scaled = arith.muli %q, %index : index\n%keep = arith.cmpi sle, %kv, %scaled : index\n",
         Expect::unknown, getWindows());
  parse(R"(%q64 = arith.index_cast %q : index to i64
           %q128 = arith.extsi %q64 : i64 to i128
           %i128 = arith.extsi %i64 : i64 to i128
           %square = arith.muli %i128, %i128 : i128
           %keep = arith.cmpi sle, %q128, %square : i128)");
  ASSERT_TRUE(structures[0].unknown);
  EXPECT_EQ(structures[0].unknown->getName().getStringRef(), "arith.extsi");
  parse(R"(%q_f32 = arith.uitofp %i32 : i32 to f32
           %kv_i32 = arith.index_cast %kv : index to i32
           %kv_f32 = arith.sitofp %kv_i32 : i32 to f32
           %keep = arith.cmpf ole, %kv_f32, %q_f32 : f32)");
  ASSERT_TRUE(structures[0].unknown);
  EXPECT_EQ(structures[0].reason, "'arith.cmpf' depends on the indices in a way that is not affine");
}

/// Each mask, and each pair of masks under and, or, xor and and-not.
TEST_F(MaskStructureTest, Combinations) {
  struct Piece {
    StringRef name;
    const char *text;
    Expect expected;
  };
  const Piece pieces[] = {
      {"causal", kCausal, Expect::exact},        {"bottom_right", kBottomRight, Expect::exact},
      {"window", kWindow, Expect::exact},        {"two_sided", kTwoSided, Expect::exact},
      {"padding", kPadding, Expect::exact},      {"query_padding", kQueryPadding, Expect::exact},
      {"chunk", kChunk, Expect::exact},          {"sink", kSink, Expect::exact},
      {"dilated", kDilated, Expect::sound},      {"strided", kStrided, Expect::sound},
      {"document", kDocument, Expect::unknown},  {"head_window", kHeadWindow, Expect::exact},
      {"first_head", kFirstHead, Expect::exact}, {"query_from", kQueryFrom, Expect::exact}};
  const StringRef operations[] = {"arith.andi %a, %b2 : i1", "arith.ori %a, %b2 : i1",
                                  "arith.xori %a, %b2 : i1", "arith.andi %a, %not_b : i1"};
  std::vector<Captures> captures = {{3, 3, 3, {5, 17}}, {-2, -2, 0, {0, 40}}, {kNoLimit, 1, 20, {16, 1}}};
  for (const Piece &lhs : pieces) {
    for (const Piece &rhs : pieces) {
      if (lhs.name == rhs.name)
        continue;
      for (StringRef operation : operations) {
        std::string body =
            std::string(lhs.text) + rhs.text + "%true = arith.constant true\n%a = arith.andi %" +
            lhs.name.str() + ", %true : i1\n%b2 = arith.andi %" + rhs.name.str() +
            ", %true : i1\n%not_b = arith.xori %b2, %true : i1\n%keep = " + operation.str() + "\n";
        SCOPED_TRACE(body);
        parse(body);
        bool isUnknown = lhs.expected == Expect::unknown || rhs.expected == Expect::unknown;
        bool areExact = lhs.expected == Expect::exact && rhs.expected == Expect::exact;
        for (const MaskStructure &structure : structures) {
          EXPECT_EQ(structure.unknown != nullptr, isUnknown);
          // Chunks with other comparisons may leave gaps between the chunks of a block.
          if (areExact && lhs.name != "chunk" && rhs.name != "chunk")
            EXPECT_TRUE(structure.isExact) << structure.reason;
        }
        for (const Captures &values : captures)
          check(values, {0, 1, 16, 23, 40});
        if (HasFailure())
          return;
      }
    }
  }
}

/// What the chunks of a block leave exact, and where it has to be said that they do not.
TEST_F(MaskStructureTest, ChunkAndOthers) {
  std::string chunk = kChunk,
              negation = "%true = arith.constant true\n%not = arith.xori %other, %true : i1\n";
  expect(chunk + kCausal + "%keep = arith.andi %chunk, %causal : i1\n", Expect::exact);
  expect(chunk + kSink + kCausal + "%a = arith.andi %chunk, %causal : i1\n%keep = arith.ori %a, %sink : i1\n",
         Expect::exact);
  // The chunk of the query and the one before it.
  expect(chunk + R"(%distance = arith.subi %q_chunk, %kv_chunk : index
                    %one = arith.constant 1 : index
                    %keep = arith.cmpi ule, %distance, %one : index)",
         Expect::exact);
  // Compressed keys: key j stands for queries 8 j to 8 j + 7.
  expect(chunk + "%keep = arith.cmpi sle, %kv, %q_chunk : index\n", Expect::exact);
  expect(chunk + "%keep = arith.cmpi eq, %kv_chunk, %q : index\n", Expect::exact);
  // Later keys of the chunk: each chunk's first has no query.
  expect(chunk +
             "%keep_later = arith.cmpi sgt, %kv, %q : index\n%keep = arith.andi %chunk, %keep_later : i1\n",
         Expect::sound);
  // Gaps of 48 between chunks of 64 are found as long as a block meets two chunks.
  expect(R"(%c32 = arith.constant 32 : index
            %c24 = arith.constant 24 : index
            %q_chunk = arith.divui %q, %c32 : index
            %kv_chunk = arith.divui %kv, %c32 : index
            %chunk = arith.cmpi eq, %q_chunk, %kv_chunk : index
            %distance = arith.subi %q, %kv : index
            %far = arith.cmpi sge, %distance, %c24 : index
            %keep = arith.andi %chunk, %far : i1)",
         Expect::sound);
  EXPECT_GT(counts.visited, 0);
  EXPECT_EQ(counts.emptyVisited, 0);
}

/// A remainder makes the ranges inexact, but only by gaps narrower than a block, and by nothing for fullness.
TEST_F(MaskStructureTest, Dilated) {
  expect(kDilated + yieldOf("dilated"), Expect::sound);
  EXPECT_GT(counts.visited, 0);
  EXPECT_EQ(counts.emptyVisited, 0);
  expect(std::string(kDilated) + kCausal + "%keep = arith.andi %dilated, %causal : i1\n", Expect::sound);
  EXPECT_EQ(counts.emptyVisited, 0);
  expect(std::string(kStrided) + kCausal + "%keep = arith.ori %strided, %causal : i1\n", Expect::sound);
  EXPECT_GT(counts.full, 0);
  EXPECT_EQ(counts.missedFull, 0);
}

/// The known part of a mask prunes although documents are read at the indices.
TEST_F(MaskStructureTest, DocumentAndCausal) {
  expect(std::string(kDocument) + kCausal + "%keep = arith.andi %document, %causal : i1\n", Expect::unknown);
  EXPECT_EQ(structures[0].unknown->getName().getStringRef(), "tensor.extract");
  OpBuilder builder(&context);
  MaskProgram program(regions[0]->front());
  std::vector<int64_t> bounds = program.run({0, 0, 8, 12}, Captures().getArguments(), 40, 40);
  EXPECT_EQ(bounds, (std::vector<int64_t>{0, 12, 0, 40}));
}

/// A read that the mask guards by a condition is not hoisted out of it.
TEST_F(MaskStructureTest, GuardedRead) {
  std::string body = R"(
    %one = arith.constant 1 : index
    %next = arith.addi %b, %one : index
    %two = arith.constant 2 : index
    %false = arith.constant false
    %exists = arith.cmpi slt, %next, %two : index
    %keep = scf.if %exists -> i1 {
      %length = tensor.extract %lengths[%next] : tensor<2xi32>
      %len = arith.index_cast %length : i32 to index
      %inside = arith.cmpi slt, %kv, %len : index
      scf.yield %inside : i1
    } else {
      scf.yield %false : i1
    })";
  expect(body, Expect::unknown);
}

/// Formulas that would grow without bound are cut off, soundly and in no time.
TEST_F(MaskStructureTest, Large) {
  std::string points = "%k0 = arith.constant false\n", parity = points,
              nested = "%m0 = arith.addi %q, %kv : index\n";
  for (int i = 0; i < 40; ++i) {
    std::string now = std::to_string(i), next = std::to_string(i + 1);
    std::string constant = "%c" + now + " = arith.constant " + std::to_string(3 * i) + " : index\n";
    points += constant + "%p" + now + " = arith.cmpi eq, %kv, %c" + now + " : index\n";
    points += "%k" + next + " = arith.ori %k" + now + ", %p" + now + " : i1\n";
    parity += constant + "%s" + now + " = arith.addi %q, %c" + now + " : index\n";
    parity += "%p" + now + " = arith.cmpi sle, %kv, %s" + now + " : index\n";
    parity += "%k" + next + " = arith.xori %k" + now + ", %p" + now + " : i1\n";
    nested += constant + "%n" + now + " = arith.maxsi %m" + now + ", %c" + now + " : index\n";
    nested += "%m" + next + " = arith.subi %n" + now + ", " + (i % 2 ? "%kv" : "%q") + " : index\n";
  }
  std::string keep = "%true = arith.constant true\n%keep = arith.andi %k40, %true : i1\n";
  expect(points + keep, Expect::sound);
  EXPECT_EQ(structures[0].reason, "the mask has too many cases");
  expect(parity + keep, Expect::sound);
  expect(nested + "%keep = arith.cmpi slt, %m40, %q : index\n", Expect::unknown);
}

//===----------------------------------------------------------------------===//
// Random masks
//===----------------------------------------------------------------------===//

/// Writes the text of a random mask.
class RandomMask {
public:
  explicit RandomMask(unsigned seed) : random(seed) {}

  std::string get() {
    std::string keep = boolean(3);
    line("arith.andi " + keep + ", " + line("arith.constant true") + " : i1", "%keep");
    return text;
  }

private:
  unsigned pick(unsigned count) { return random() % count; }

  std::string line(const std::string &op, std::string name = "") {
    if (name.empty())
      name = "%r" + std::to_string(next++);
    text += name + " = " + op + "\n";
    return name;
  }

  std::string constant(int64_t value) { return line("arith.constant " + std::to_string(value) + " : index"); }

  std::string integer(unsigned depth) {
    if (depth == 0 || pick(3) == 0) {
      switch (pick(10)) {
      case 0:
      case 1:
      case 2:
        return "%q";
      case 3:
      case 4:
      case 5:
        return "%kv";
      case 6:
        return constant(int64_t(pick(16)) - 4);
      case 7:
        return pick(2) ? "%index" : line("arith.index_cast %i32 : i32 to index");
      case 8:
        return line(pick(2) ? "attn.q_len %b" : "attn.kv_len %b");
      default:
        return line("arith.index_cast " + line("tensor.extract %lengths[%b] : tensor<2xi32>") +
                    " : i32 to index");
      }
    }
    auto binary = [&](const char *op, const std::string &lhs, const std::string &rhs) {
      bool isTyped = !StringRef(op).starts_with("index.");
      return line(std::string(op) + " " + lhs + ", " + rhs + (isTyped ? " : index" : ""));
    };
    static const char *const divisions[] = {"arith.floordivsi", "arith.remsi",     "arith.divsi",
                                            "arith.ceildivsi",  "index.floordivs", "index.rems"};
    switch (pick(9)) {
    case 0:
    case 1:
      return binary("arith.addi", integer(depth - 1), integer(depth - 1));
    case 2:
    case 3:
      return binary(pick(2) ? "arith.subi" : "index.sub", integer(depth - 1), integer(depth - 1));
    case 4:
      return binary("arith.muli", integer(depth - 1), constant(int64_t(pick(5)) - 2));
    case 5:
      // Unsigned, a negative dividend would be near 2^64 and what is added to it overflow.
      if (pick(4) == 0)
        return binary(pick(2) ? "arith.divui" : "arith.remui", pick(2) ? "%q" : "%kv", constant(pick(7) + 1));
      return binary(divisions[pick(6)], integer(depth - 1), constant(pick(7) + 1));
    case 6:
      return binary(pick(2) ? "arith.maxsi" : "arith.minsi", integer(depth - 1), integer(depth - 1));
    case 7:
      return line("arith.select " + boolean(depth - 1) + ", " + integer(depth - 1) + ", " +
                  integer(depth - 1) + " : index");
    default:
      return pick(2) ? line("math.absi " + integer(depth - 1) + " : index")
                     : binary("arith.shrsi", integer(depth - 1), constant(pick(4)));
    }
  }

  std::string boolean(unsigned depth) {
    static const char *const predicates[] = {"sle", "slt", "sge", "sgt", "eq",
                                             "ne",  "ult", "ule", "ugt", "uge"};
    static const char *const operations[] = {"arith.andi", "arith.ori", "arith.xori"};
    if (depth == 0 || pick(3) == 0) {
      switch (pick(12)) {
      case 0:
        return line("arith.cmpi slt, %h, " + constant(1) + " : index");
      case 1:
        return line("arith.cmpi eq, " + line("tensor.extract %documents[%b, %q] : tensor<2x48xi32>") + ", " +
                    line("tensor.extract %documents[%b, %kv] : tensor<2x48xi32>") + " : i32");
      default:
        return line("arith.cmpi " + std::string(predicates[pick(pick(2) ? 6 : 10)]) + ", " + integer(2) +
                    ", " + integer(2) + " : index");
      }
    }
    switch (pick(6)) {
    case 0:
      return line("arith.xori " + boolean(depth - 1) + ", " + line("arith.constant true") + " : i1");
    case 1:
      return line("arith.select " + boolean(depth - 1) + ", " + boolean(depth - 1) + ", " +
                  boolean(depth - 1) + " : i1");
    case 2: {
      std::string condition = boolean(depth - 1), name = "%r" + std::to_string(next++);
      text += name + " = scf.if " + condition + " -> i1 {\n";
      text += "scf.yield " + boolean(depth - 1) + " : i1\n} else {\n";
      text += "scf.yield " + boolean(depth - 1) + " : i1\n}\n";
      return name;
    }
    default:
      return line(std::string(operations[pick(3)]) + " " + boolean(depth - 1) + ", " + boolean(depth - 1) +
                  " : i1");
    }
  }

  std::mt19937 random;
  std::string text;
  unsigned next = 0;
};

TEST_F(MaskStructureTest, Random) {
  constexpr unsigned numMasks = 600;
  unsigned numExact = 0;
  for (unsigned seed = 0; seed < numMasks; ++seed) {
    std::string body = RandomMask(seed).get();
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + body);
    parse(body);
    if (HasFailure())
      return;
    numExact += structures[0].isExact && structures[1].isExact;
    check({3, 3, 3, {5, 17}}, {0, 1, 13, 22});
    check({-2, -2, 11, {0, 40}}, {7, 24});
    if (HasFailure())
      return;
  }
  RecordProperty("exact", numExact);
  EXPECT_GT(numExact, numMasks / 4) << "most masks of the grammar are affine";
}
} // namespace
