//===- MeasuredSchedulesTest.cpp - the table of the tuner, and its use -------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/MeasuredSchedules.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Parser/Parser.h"
#include "passes/Targets.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace attn;

namespace {
class MeasuredSchedulesTest : public ::testing::Test {
protected:
  MeasuredSchedulesTest() {
    context.loadDialect<AttnDialect, arith::ArithDialect, func::FuncDialect, math::MathDialect,
                        scf::SCFDialect, tensor::TensorDialect>();
    gpu = getNamedTarget(&context, Arch::sm_90a);
  }

  ShapeClass makeShape(int64_t dim, KernelKind kind = KernelKind::forward) {
    return {kind, dim, dim, /*computeBits=*/32, /*elementBits=*/16, {}, {}, {}};
  }

  ScheduleChoice choose(const ShapeClass &shape, const ScheduleOverrides &overrides) {
    auto choice =
        chooseGpuSchedule([&] { return emitError(UnknownLoc::get(&context)); }, shape, gpu, overrides);
    EXPECT_TRUE(succeeded(choice));
    return succeeded(choice) ? *choice : ScheduleChoice();
  }

  /// An entry for plain attention of head_dim 64, and for its short lengths.
  MeasuredSchedule makeEntry(GpuTile tile, bool exactMaximum, bool isShort) {
    MeasuredSchedule entry;
    entry.key = {Arch::sm_90a, ScheduleFamily::hopper, KernelKind::forward, 16,     64,
                 64,           MaskClass::none,        ScoreClass::none,    isShort};
    entry.best.tile = tile;
    entry.best.exactMaximum = exactMaximum;
    entry.best.speed = 742.06;
    entry.best.spread = 0.0042;
    entry.best.registers = 168;
    entry.other.tile = {192, 128, 16, 1, 2};
    entry.other.speed = 701.3;
    entry.device = "a \"GPU\"";
    entry.driver = "CUDA 13.0";
    entry.date = "2026-11-30";
    entry.cases = "forward/bf16/b4/h32/n4096/d64/full";
    entry.candidates = {entry.best, entry.other};
    entry.candidates.push_back({{128, 224, 12, 1, 2}, false, 0, 0, 168, "8 bytes spilled \\ in a loop"});
    return entry;
  }

  MLIRContext context;
  TargetAttr gpu;
};

std::string write(ArrayRef<MeasuredSchedule> table) {
  std::string text;
  llvm::raw_string_ostream os(text);
  writeMeasured(os, table);
  return text;
}

TEST_F(MeasuredSchedulesTest, WritesWhatItReads) {
  std::vector<MeasuredSchedule> table{makeEntry({128, 160, 12, 1, 2}, true, false),
                                      makeEntry({128, 128, 12, 1, 2}, false, true)};
  table[1].key.kind = KernelKind::fused;
  table[1].key.family = ScheduleFamily::portable;
  table[1].key.mask = MaskClass::formula;
  table[1].key.score = ScoreClass::functions;
  std::string text = write(table);
  llvm::Expected<std::vector<MeasuredSchedule>> read = readMeasured(text);
  ASSERT_TRUE(static_cast<bool>(read)) << llvm::toString(read.takeError());
  EXPECT_EQ(write(*read), text);
  ASSERT_EQ(read->size(), 2u);
  for (auto [got, wanted] : llvm::zip_equal(*read, table)) {
    EXPECT_TRUE(got.key == wanted.key) << got.key.toString();
    EXPECT_TRUE(got.best.isSame(wanted.best));
    EXPECT_TRUE(got.other.isSame(wanted.other));
    EXPECT_NEAR(got.best.speed, wanted.best.speed, 0.05);
    EXPECT_EQ(got.best.registers, wanted.best.registers);
    EXPECT_EQ(got.device, wanted.device);
    ASSERT_EQ(got.candidates.size(), 3u);
    EXPECT_EQ(got.candidates[2].rejection, wanted.candidates[2].rejection);
  }
  EXPECT_EQ(write({}), "[\n]\n");
}

TEST_F(MeasuredSchedulesTest, RefusesWhatIsNoTable) {
  auto errorOf = [&](StringRef from, StringRef to) {
    std::string text = write(makeEntry({128, 160, 12, 1, 2}, false, false));
    size_t at = text.find(from.str());
    EXPECT_NE(at, std::string::npos) << from.str();
    text.replace(at, from.size(), to.str());
    llvm::Expected<std::vector<MeasuredSchedule>> read = readMeasured(text);
    return read ? "" : llvm::toString(read.takeError());
  };
  EXPECT_NE(errorOf("\"none\"", "\"some\"").find("expected one of the names"), std::string::npos);
  EXPECT_NE(errorOf("\"sm_90a\"", "\"sm_1\"").find("expected one of the names"), std::string::npos);
  EXPECT_NE(errorOf("128,160,12", "128,160").find("expected 6 numbers"), std::string::npos);
  EXPECT_NE(errorOf("\"head_dim\"", "\"head\"").find("missing value"), std::string::npos);
}

TEST_F(MeasuredSchedulesTest, IsPreferredToTheRule) {
  std::vector<MeasuredSchedule> table{makeEntry({128, 160, 12, 1, 2}, true, false),
                                      makeEntry({128, 112, 12, 1, 2}, false, true)};
  ScheduleOverrides overrides;
  overrides.measured = table;
  auto tile = [&](const ShapeClass &shape) {
    ScheduleAttr schedule = choose(shape, overrides).schedule;
    return std::tuple(schedule.getBlockM(), schedule.getBlockN(), schedule.getFixedMaximum());
  };
  ScheduleChoice choice = choose(makeShape(64), overrides);
  EXPECT_EQ(tile(makeShape(64)), std::tuple(128, 160, false));
  EXPECT_EQ(choice.candidates.back().evidence,
            "742.1 TFLOP/s against 701.3 of 192 x 128 (bf16, a \"GPU\", 2026-11-30)");
  EXPECT_EQ(choice.ruleReason, "");
  // A dimension is padded to 16.
  EXPECT_EQ(tile(makeShape(60)), std::tuple(128, 160, false));
  overrides.shortLengths = true;
  EXPECT_EQ(tile(makeShape(64)), std::tuple(128, 112, true));
  overrides.exactMaximum = true; // as asked for
  EXPECT_EQ(tile(makeShape(64)), std::tuple(128, 112, false));

  // Anything else is the rule's, and says so.
  overrides = {};
  overrides.measured = table;
  choice = choose(makeShape(128), overrides);
  EXPECT_EQ(tile(makeShape(128)), std::tuple(128, 128, true));
  EXPECT_EQ(choice.ruleReason,
            "not measured: hopper forward of sm_90a, 16 bits, head_dim 128, value_dim 128, "
            "mask none, score none, long lengths");
  EXPECT_EQ(choice.candidates.back().evidence, "");
  ShapeClass masked = makeShape(64);
  masked.mask = MaskClass::comparison;
  EXPECT_EQ(tile(masked), std::tuple(192, 128, true));
  ShapeClass scored = makeShape(64);
  scored.score = ScoreClass::arithmetic;
  EXPECT_EQ(tile(scored), std::tuple(192, 128, true));
  // So is what is given by hand, and what the measured tile cannot do.
  overrides.blockN = 64;
  EXPECT_EQ(tile(makeShape(64)), std::tuple(192, 64, true));
  EXPECT_EQ(choose(makeShape(64), overrides).ruleReason, "");
  overrides.blockN = 0;
  overrides.listBlockM = overrides.listBlockN = 128;
  EXPECT_EQ(tile(makeShape(64)), std::tuple(128, 128, true));
  overrides = {};
  overrides.measured = {};
  EXPECT_EQ(tile(makeShape(64)), std::tuple(192, 128, true));
}

TEST_F(MeasuredSchedulesTest, IsPreferredToTheRuleOfThePortableFamily) {
  std::vector<MeasuredSchedule> table{makeEntry({64, 64, 8, 1, 1}, false, false)};
  table[0].key.family = ScheduleFamily::portable;
  table[0].key.kind = KernelKind::fused;
  ScheduleOverrides overrides;
  overrides.measured = table;
  ScheduleAttr schedule = choose(makeShape(64, KernelKind::fused), overrides).schedule;
  EXPECT_EQ(std::tuple(schedule.getBlockM(), schedule.getBlockN(), schedule.getWarps(), schedule.getStages()),
            std::tuple(64, 64, 8, 1));
  EXPECT_EQ(choose(makeShape(64, KernelKind::fused), overrides).candidates.size(), 1u);
  EXPECT_NE(choose(makeShape(128, KernelKind::fused), overrides).ruleReason.find("head_dim 128"),
            std::string::npos);
}

/// One tile that is given in full is the only one that is considered.
TEST_F(MeasuredSchedulesTest, TakesTheTileThatIsGiven) {
  ScheduleOverrides overrides;
  overrides.family = ScheduleFamily::portable;
  overrides.tile = GpuTile{64, 64, 8, 1, 1};
  ScheduleChoice choice = choose(makeShape(64, KernelKind::fused), overrides);
  EXPECT_TRUE(choice.candidates.back().getTile() == *overrides.tile);
  EXPECT_EQ(choice.candidates.size(), 1u);
  overrides.family = ScheduleFamily::hopper;
  overrides.tile = GpuTile{128, 160, 12, 1, 2};
  choice = choose(makeShape(64), overrides);
  EXPECT_TRUE(choice.candidates.back().getTile() == *overrides.tile);
  EXPECT_EQ(choice.schedule.getFamily(), ScheduleFamily::hopper);
}

/// What the tuner compares holds what the rule takes, and nothing twice.
TEST_F(MeasuredSchedulesTest, ListsTheCandidates) {
  ScheduleOverrides overrides;
  overrides.measured = {};
  for (int64_t dim : {64, 128, 256}) {
    SmallVector<ScheduleCandidate> tiles =
        listGpuCandidates(makeShape(dim), gpu, overrides, ScheduleFamily::hopper, /*bothMaxima=*/true);
    auto same = [](const ScheduleCandidate &a, const ScheduleCandidate &b) {
      return a.getTile() == b.getTile() && a.exactMaximum == b.exactMaximum;
    };
    ScheduleCandidate rule = choose(makeShape(dim), overrides).candidates.back();
    for (const ScheduleCandidate &tile : tiles)
      EXPECT_EQ(llvm::count_if(tiles, [&](const ScheduleCandidate &each) { return same(each, tile); }), 1);
    for (bool exact : {false, true}) {
      rule.exactMaximum = exact;
      auto found = llvm::find_if(tiles, [&](const ScheduleCandidate &tile) { return same(tile, rule); });
      ASSERT_NE(found, tiles.end()) << dim;
      EXPECT_EQ(found->rejection, "");
    }
    EXPECT_FALSE(llvm::all_of(tiles, [](const ScheduleCandidate &tile) { return tile.rejection.empty(); }));
  }
  SmallVector<ScheduleCandidate> portable = listGpuCandidates(
      makeShape(128, KernelKind::fused), gpu, overrides, ScheduleFamily::portable, /*bothMaxima=*/true);
  GpuTile rule = choose(makeShape(128, KernelKind::fused), overrides).candidates.back().getTile();
  EXPECT_EQ(llvm::count_if(portable, [&](const ScheduleCandidate &tile) { return tile.getTile() == rule; }),
            1);
}

/// The table that is built in: each class once, and its tile is one that the compiler can do.
TEST_F(MeasuredSchedulesTest, IsBuiltInAndHolds) {
  ArrayRef<MeasuredSchedule> table = getMeasuredSchedules();
  ASSERT_FALSE(table.empty());
  for (const MeasuredSchedule &entry : table) {
    std::string name = entry.key.toString();
    EXPECT_EQ(llvm::count_if(table, [&](const MeasuredSchedule &each) { return each.key == entry.key; }), 1)
        << name;
    ShapeClass shape{
        entry.key.kind, entry.key.headDim, entry.key.valueDim, 32, entry.key.elementBits, {}, {}, {}};
    shape.mask = entry.key.mask;
    shape.score = entry.key.score;
    ScheduleOverrides overrides;
    overrides.family = entry.key.family;
    overrides.shortLengths = entry.key.isShort;
    ScheduleChoice choice = choose(shape, overrides);
    EXPECT_TRUE(choice.candidates.back().getTile() == entry.best.tile) << name;
    EXPECT_EQ(choice.candidates.back().exactMaximum, entry.best.exactMaximum) << name;
    EXPECT_NE(choice.candidates.back().evidence, "") << name;
    EXPECT_TRUE(llvm::any_of(entry.candidates, [&](const MeasuredTile &tile) {
      return tile.isSame(entry.best);
    })) << name;
  }
}

/// The class of an attention, from its regions.
TEST_F(MeasuredSchedulesTest, ClassifiesRegions) {
  auto classify = [&](const std::string &regions) {
    std::string text =
        "func.func @f(%q: tensor<1x2x?x64xbf16>, %bias: tensor<2xf32>) -> tensor<1x2x?x64xbf16> "
        "{\n%o, %l = attn.attention %q, %q, %q captures(%bias : tensor<2xf32>) " +
        regions +
        " : (tensor<1x2x?x64xbf16>, tensor<1x2x?x64xbf16>, tensor<1x2x?x64xbf16>) -> "
        "(tensor<1x2x?x64xbf16>, tensor<1x2x?xf32>)\nreturn %o : tensor<1x2x?x64xbf16>\n}";
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text;
    ShapeClass shape = makeShape(64);
    if (module)
      module->walk([&](AttentionOp op) { shape = ShapeClass::get(op, KernelKind::forward); });
    return std::pair(shape.mask, shape.score);
  };
  auto score = [](const std::string &operations) {
    return "score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {\n"
           "%c = arith.constant 2.0 : f32\n%c0 = arith.constant 0 : index\n" +
           operations + "\nattn.yield %r : f32 }";
  };
  auto mask = [](const std::string &operations) {
    return "mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {\n" + operations +
           "\nattn.yield %r : i1 }";
  };
  using Pair = std::pair<MaskClass, ScoreClass>;
  std::string scaled = score("%r = arith.mulf %s, %c : f32");
  EXPECT_EQ(classify(scaled), Pair(MaskClass::none, ScoreClass::arithmetic));
  // A function of the head alone is not of pairs.
  EXPECT_EQ(classify(score("%x = tensor.extract %bias[%h] : tensor<2xf32>\n%e = math.exp2 %x : f32\n"
                           "%r = arith.mulf %s, %e : f32")),
            Pair(MaskClass::none, ScoreClass::arithmetic));
  EXPECT_EQ(classify(score("%t = math.tanh %s : f32\n%r = arith.mulf %t, %c : f32")),
            Pair(MaskClass::none, ScoreClass::functions));
  EXPECT_EQ(classify(score("%r = arith.divf %s, %c : f32")), Pair(MaskClass::none, ScoreClass::functions));
  // Through a conditional.
  EXPECT_EQ(classify(score("%is = arith.cmpi eq, %h, %c0 : index\n%v = scf.if %is -> f32 {\n"
                           "%n = arith.negf %s : f32\nscf.yield %n : f32 } else { scf.yield %c : f32 }\n"
                           "%r = math.exp %v : f32")),
            Pair(MaskClass::none, ScoreClass::functions));
  std::string causal = mask("%r = arith.cmpi sle, %kv_idx, %q_idx : index");
  EXPECT_EQ(classify(scaled + causal), Pair(MaskClass::comparison, ScoreClass::arithmetic));
  EXPECT_EQ(classify(causal), Pair(MaskClass::comparison, ScoreClass::none));
  EXPECT_EQ(classify(mask("%x = arith.cmpi sle, %kv_idx, %q_idx : index\n%d = arith.subi %q_idx, %kv_idx : "
                          "index\n%w = arith.constant 9 : index\n%y = arith.cmpi slt, %d, %w : index\n"
                          "%r = arith.andi %x, %y : i1")),
            Pair(MaskClass::formula, ScoreClass::none));
}
} // namespace
