//===- MaskStructureTest.cpp - the ranges of masks by name and by spelling ===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "test/unit/MaskStructureFixture.h"

using namespace mlir;
using namespace attn;

namespace {
constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

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
  // An index has 32 bits; so has what is uniform but no formula.
  expect(R"(%c = arith.constant 2654435761 : index
            %shift = arith.constant 31 : index
            %zero = arith.constant 0 : index
            %sum = arith.addi %q, %kv : index
            %hash = arith.muli %sum, %c : index
            %high = arith.shrui %hash, %shift : index
            %keep = arith.cmpi eq, %high, %zero : index)",
         Expect::unknown);
  expect(R"(%c = arith.constant 2654435761 : index
            %shift = arith.constant 31 : index
            %zero = arith.constant 0 : index
            %hash = index.mul %h, %c
            %high = index.shru %hash, %shift
            %keep = arith.cmpi eq, %high, %zero : index)",
         Expect::unknown);
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
          if (areExact)
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

/// A remainder of the streamed index leaves gaps that matter only to blocks narrower than they are; one of
/// the blocked index or of both is not exact.
TEST_F(MaskStructureTest, Dilated) {
  std::string causal = std::string(kDilated) + kCausal + "%keep = arith.andi %dilated, %causal : i1\n";
  expect(causal, Expect::sound);
  EXPECT_EQ(structures[0].reason, "a remainder leaves gaps in a range");
  EXPECT_FALSE(structures[0].exceedsLimits);
  EXPECT_GT(counts.emptyVisited, 0);
  parse(causal, {kLongest, 3});
  EXPECT_TRUE(structures[0].isExact) << structures[0].reason;
  EXPECT_FALSE(structures[1].isExact);
  check(Captures(), {0, 1, 2, 16, 40});
  expect(std::string(kStrided) + kCausal + "%keep = arith.ori %strided, %causal : i1\n", Expect::sound,
         Captures(), {kLongest, 16});
  EXPECT_GT(counts.full, 0);
  EXPECT_LT(counts.missedFull, counts.full / 2);
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
  EXPECT_TRUE(structures[0].exceedsLimits);
  expect(parity + keep, Expect::sound);
  expect(nested + "%keep = arith.cmpi slt, %m40, %q : index\n", Expect::unknown);
}
} // namespace
