//===- ChooseHopperScheduleTest.cpp - schedules of the hopper GPU family ----===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/ChooseScheduleFixture.h"

using namespace mlir;
using namespace attn;

/// A consumer warpgroup has 64 queries; keys are as many as shared memory and registers hold.
TEST_F(ChooseScheduleTest, TakesTheFastestHopperTileThatFits) {
  TargetAttr gpu = getNamedTarget(&context, Arch::sm_90a);
  auto tile = [&](int64_t headDim, int64_t valueDim) {
    ShapeClass shape = makeShape(KernelKind::forward, headDim, valueDim);
    shape.elementBits = 16;
    ScheduleChoice choice = choose(shape, gpu);
    ScheduleAttr schedule = choice.schedule;
    EXPECT_EQ(schedule.getFamily(), ScheduleFamily::hopper);
    EXPECT_TRUE(schedule.getFixedMaximum());
    EXPECT_EQ(schedule.getWarps(), schedule.getBlockM() / 16 + 4) << "and a warpgroup that loads";
    EXPECT_LE(choice.candidates.back().totalBytes, gpu.getMaxSharedMemory());
    EXPECT_EQ(choice.candidates.back().family, ScheduleFamily::hopper);
    EXPECT_EQ(choice.hopperRejection, "");
    return std::tuple(schedule.getBlockM(), schedule.getBlockN(), schedule.getWarps(), schedule.getStages());
  };
  EXPECT_EQ(tile(64, 64), std::tuple(192, 128, 16, 2));
  EXPECT_EQ(tile(128, 128), std::tuple(128, 128, 12, 2));
  EXPECT_EQ(tile(192, 192), std::tuple(128, 112, 12, 2));
  EXPECT_EQ(tile(192, 128), std::tuple(128, 128, 12, 2));
  EXPECT_EQ(tile(256, 256), std::tuple(128, 80, 12, 2));
  for (int64_t headDim = 1; headDim <= 256; ++headDim)
    for (int64_t valueDim : {headDim, int64_t(1), int64_t(256)})
      tile(headDim, valueDim);

  ShapeClass shape = makeShape(KernelKind::forward, 64, 64);
  shape.elementBits = 16;
  ScheduleOverrides overrides;
  // Few queries under a mask have smaller tiles.
  overrides.shortLengths = true;
  EXPECT_EQ(choose(shape, gpu, overrides).schedule.getBlockM(), 192);
  shape.mask = MaskClass::comparison;
  EXPECT_EQ(choose(shape, gpu, overrides).schedule.getBlockM(), 128);
  overrides.shortLengths = false;
  EXPECT_EQ(choose(shape, gpu, overrides).schedule.getBlockM(), 192);
  // Tiles divide the blocks of block lists.
  auto listed = [&](int64_t listBlockM, int64_t listBlockN) {
    overrides.listBlockM = listBlockM;
    overrides.listBlockN = listBlockN;
    ScheduleAttr schedule = choose(shape, gpu, overrides).schedule;
    EXPECT_EQ(schedule.getFamily(), ScheduleFamily::hopper);
    return std::tuple(schedule.getBlockM(), schedule.getBlockN());
  };
  EXPECT_EQ(listed(128, 128), std::tuple(128, 128));
  EXPECT_EQ(listed(256, 64), std::tuple(128, 64));
  EXPECT_EQ(listed(384, 128), std::tuple(192, 128));
  shape = makeShape(KernelKind::forward, 256, 256);
  shape.elementBits = 16;
  EXPECT_EQ(listed(128, 128), std::tuple(128, 64));

  shape = makeShape(KernelKind::forward);
  shape.elementBits = 16;
  overrides = {};
  overrides.exactMaximum = true;
  EXPECT_FALSE(choose(shape, gpu, overrides).schedule.getFixedMaximum());
  overrides.blockM = 128;
  overrides.blockN = 48;
  EXPECT_EQ(choose(shape, gpu, overrides).schedule.getFamily(), ScheduleFamily::hopper);
  overrides.blockM = 64; // one consumer warpgroup
  EXPECT_EQ(choose(shape, gpu, overrides).schedule.getFamily(), ScheduleFamily::portable);
}

/// Keys in parts: two blocks of a warpgroup share a multiprocessor, or one has two warpgroups; copies of at
/// least one tile are always under way.
TEST_F(ChooseScheduleTest, ChoosesHopperTilesForParts) {
  TargetAttr gpu = getNamedTarget(&context, Arch::sm_90a);
  ShapeClass shape = makeShape(KernelKind::forward);
  shape.elementBits = 16;
  ScheduleOverrides overrides;
  overrides.splitsKeys = true;
  auto expectTile = [&](int64_t dim, GpuTile expected) {
    shape.headDim = shape.valueDim = dim;
    ScheduleChoice choice = choose(shape, gpu, overrides);
    EXPECT_EQ(choice.schedule.getFamily(), ScheduleFamily::hopper) << dim;
    EXPECT_TRUE(choice.candidates.back().getTile() == expected)
        << dim << ": " << choice.candidates.back().blockM << " x " << choice.candidates.back().blockN;
    // The same by hand.
    ScheduleOverrides given = overrides;
    given.family = ScheduleFamily::hopper;
    given.tile = expected;
    EXPECT_EQ(choose(shape, gpu, given).schedule, choice.schedule);
    given.tile->warps += 4;
    EXPECT_NE(chooseError(shape, gpu, given).find("blocks a multiprocessor of a tile of"), std::string::npos);
  };
  expectTile(32, {64, 128, 8, 2, 3}); // panels have 64 columns
  expectTile(64, {64, 128, 8, 2, 3});
  expectTile(128, {64, 64, 8, 2, 3});
  expectTile(160, {64, 32, 8, 2, 4});
  overrides.hasManyRows = true;
  expectTile(64, {128, 128, 12, 1, 4});
  expectTile(128, {128, 128, 12, 1, 3});
  expectTile(192, {128, 64, 12, 1, 4});
  overrides.hasManyRows = false;
  shape.headDim = shape.valueDim = 192;
  EXPECT_EQ(choose(shape, gpu, overrides).schedule.getFamily(), ScheduleFamily::portable);
  overrides.family = ScheduleFamily::hopper;
  EXPECT_NE(chooseError(shape, gpu, overrides).find(" a thread exceed "), std::string::npos);
  overrides.blockM = 192;
  EXPECT_EQ(chooseError(shape, gpu, overrides),
            "has no kernel of the hopper family: expected block_m of 64 or 128 and block_n of a multiple "
            "of 16 up to 256; compile with family = auto or portable");
}

/// Tiles of a dense bias take shared memory.
TEST_F(ChooseScheduleTest, LeavesRoomForTilesOfABias) {
  TargetAttr gpu = getNamedTarget(&context, Arch::sm_90a);
  ScheduleOverrides overrides;
  auto tile = [&](int64_t headDim) {
    ShapeClass shape = makeShape(KernelKind::forward, headDim, headDim);
    shape.elementBits = 16;
    shape.hasBias = true;
    ScheduleChoice choice = choose(shape, gpu, overrides);
    EXPECT_EQ(choice.schedule.getFamily(), ScheduleFamily::hopper);
    EXPECT_LE(choice.candidates.back().totalBytes, gpu.getMaxSharedMemory());
    EXPECT_EQ(choice.candidates.back().biasStages, choice.schedule.getBiasStages());
    return std::tuple(choice.schedule.getBlockM(), choice.schedule.getBlockN(),
                      choice.schedule.getBiasStages(),
                      getHopperQueryStages(choice.schedule, headDim, headDim, gpu));
  };
  EXPECT_EQ(tile(64), std::tuple(192, 128, 2, 2));
  EXPECT_EQ(tile(128), std::tuple(128, 128, 2, 1));
  EXPECT_EQ(tile(192), std::tuple(128, 96, 1, 1));
  EXPECT_EQ(tile(256), std::tuple(128, 64, 2, 1));
  for (int64_t headDim = 1; headDim <= 256; ++headDim)
    EXPECT_GE(std::get<2>(tile(headDim)), 1) << headDim;
  overrides.biasStages = 0;
  EXPECT_EQ(tile(64), std::tuple(192, 128, 0, 2));
  EXPECT_EQ(tile(256), std::tuple(128, 80, 0, 1));
  overrides.biasStages = 1;
  EXPECT_EQ(tile(128), std::tuple(128, 128, 1, 2));
}

/// Where it cannot be, it is refused if asked for, and the portable one is taken if not, with the same
/// reason.
TEST_F(ChooseScheduleTest, RefusesHopperKernelsThatCannotBe) {
  ShapeClass plain = makeShape(KernelKind::forward);
  plain.elementBits = 16;
  auto expectRefused = [&](ShapeClass shape, ScheduleOverrides overrides, const std::string &reason,
                           Arch arch = Arch::sm_90a) {
    TargetAttr gpu = getNamedTarget(&context, arch);
    ScheduleChoice choice = choose(shape, gpu, overrides);
    EXPECT_EQ(choice.schedule.getFamily(), ScheduleFamily::portable) << reason;
    EXPECT_EQ(choice.hopperRejection, arch == Arch::sm_90a ? reason : "");
    overrides.family = ScheduleFamily::hopper;
    EXPECT_EQ(chooseError(shape, gpu, overrides),
              "has no kernel of the hopper family: " + reason + "; compile with family = auto or portable");
  };
  expectRefused(plain, {}, "wgmma is of sm_90a, not of sm_100a", Arch::sm_100a);
  ShapeClass shape = plain;
  shape.kind = KernelKind::fused;
  expectRefused(shape, {}, "it has no gradient kernels");
  shape = plain;
  shape.elementBits = 32;
  expectRefused(shape, {}, "its products are of elements of 16 bits, not of 32");
  shape = plain;
  shape.valueDim = 320;
  expectRefused(shape, {}, "its tiles have at most 256 columns, not 320");
  ScheduleOverrides overrides;
  overrides.aligned = false;
  expectRefused(plain, overrides,
                "the tensor memory accelerator needs bases and strides of a multiple of 16 bytes");
  overrides = {};
  overrides.splitsKeys = overrides.hasFewRows = true;
  shape = plain;
  shape.mask = MaskClass::comparison;
  expectRefused(shape, overrides,
                "under a mask warps that divide the keys of few rows need no second kernel");

  TargetAttr gpu = getNamedTarget(&context, Arch::sm_90a);
  overrides = {};
  overrides.listBlockM = 64;
  overrides.listBlockN = 128;
  EXPECT_EQ(choose(plain, gpu, overrides).schedule.getFamily(), ScheduleFamily::portable);
  overrides.family = ScheduleFamily::hopper;
  EXPECT_EQ(chooseError(plain, gpu, overrides),
            "has no kernel of the hopper family: does not divide the 64 x 128 of the block lists; compile "
            "with family = auto or portable");
  overrides = {};
  overrides.family = ScheduleFamily::hopper;
  overrides.blockM = 96;
  EXPECT_EQ(chooseError(plain, gpu, overrides),
            "has no kernel of the hopper family: expected block_m of 128 or 192 and block_n of a multiple "
            "of 16 up to 256; compile with family = auto or portable");
  overrides.blockM = 192;
  shape = plain;
  shape.headDim = shape.valueDim = 256;
  EXPECT_NE(chooseError(shape, gpu, overrides).find(" exceed "), std::string::npos);
}
