//===- ChooseScheduleTest.cpp - schedules and split counts ------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/ChooseScheduleFixture.h"

using namespace mlir;
using namespace attn;

namespace {
constexpr KernelKind kKinds[] = {KernelKind::forward, KernelKind::dq, KernelKind::dkdv};
constexpr Arch kCpus[] = {Arch::x86_64, Arch::x86_64_v3, Arch::x86_64_v4, Arch::aarch64};

/// The blocked dimension lies along vector lanes, the streamed one does not.
int64_t getLanes(KernelKind kind, ScheduleAttr schedule) {
  return kind == KernelKind::dkdv ? schedule.getBlockN() : schedule.getBlockM();
}
int64_t getRows(KernelKind kind, ScheduleAttr schedule) {
  return kind == KernelKind::dkdv ? schedule.getBlockM() : schedule.getBlockN();
}
} // namespace

//===----------------------------------------------------------------------===//
// Every choice
//===----------------------------------------------------------------------===//

TEST_F(ChooseScheduleTest, FitsEveryTargetDimensionAndKind) {
  for (Arch arch : kCpus)
    for (int64_t l2Bytes : {1, 65536, 1048576, 1 << 30})
      for (KernelKind kind : kKinds)
        for (unsigned bits : {32, 64})
          for (int64_t headDim : {1, 16, 64, 128, 127, 512})
            for (int64_t valueDim : {1, 64, 512})
              for (std::optional<int64_t> length :
                   {std::optional<int64_t>(), std::optional<int64_t>(0), std::optional<int64_t>(1),
                    std::optional<int64_t>(17), std::optional<int64_t>(4096),
                    std::optional<int64_t>(INT64_MAX)}) {
                ShapeClass shape = makeShape(kind, headDim, valueDim, bits);
                shape.qLen = shape.kvLen = length;
                ScheduleChoice choice = choose(shape, cpu(arch, l2Bytes));
                ScheduleAttr schedule = choice.schedule;
                // (S2), and what the matrix product asserts of its rows.
                ASSERT_EQ(getLanes(kind, schedule) %
                              (schedule.getVectorLength() * schedule.getRegisterVectors()),
                          0);
                ASSERT_GE(schedule.getBlockM(), 1);
                ASSERT_GE(schedule.getBlockN(), 1);
                ASSERT_LE(getLanes(kind, schedule), 64);
                ASSERT_LE(getRows(kind, schedule), 128);
                ASSERT_EQ(schedule.getVectorLength() * bits, cpu(arch).getVectorBits());
                ASSERT_EQ(schedule.getKvSplits(), 1);
                // The accumulators, the vectors of one row and a broadcast are in registers at once.
                ASSERT_LE(schedule.getRegisterRows() * schedule.getRegisterVectors() +
                              schedule.getRegisterVectors() + 1,
                          cpu(arch).getVectorRegisters());
                ASSERT_EQ(choice.candidates.back().blockM, schedule.getBlockM());
                ASSERT_EQ(choice.candidates.back().blockN, schedule.getBlockN());
                ASSERT_EQ(choice.candidates.back().rejection, "");
              }
}

TEST_F(ChooseScheduleTest, GivesTheSameAnswerAgain) {
  ShapeClass shape = makeShape(KernelKind::dkdv, 128, 96);
  EXPECT_EQ(choose(shape, cpu(Arch::x86_64_v3)).schedule, choose(shape, cpu(Arch::x86_64_v3)).schedule);
}

TEST_F(ChooseScheduleTest, UsesTheRegistersOfTheTarget) {
  ScheduleAttr avx512 = choose(makeShape(KernelKind::forward), cpu(Arch::x86_64_v4)).schedule;
  EXPECT_EQ(avx512.getVectorLength(), 16);
  EXPECT_EQ(avx512.getRegisterRows(), 8);
  EXPECT_EQ(avx512.getRegisterVectors(), 2);
  ScheduleAttr avx2 = choose(makeShape(KernelKind::forward), cpu(Arch::x86_64_v3)).schedule;
  EXPECT_EQ(avx2.getVectorLength(), 8);
  EXPECT_EQ(avx2.getRegisterRows(), 4);
  EXPECT_EQ(avx2.getRegisterVectors(), 2);
  EXPECT_EQ(
      choose(makeShape(KernelKind::forward, 64, 64, 64), cpu(Arch::x86_64_v3)).schedule.getVectorLength(), 4);
}

//===----------------------------------------------------------------------===//
// The cache decides
//===----------------------------------------------------------------------===//

TEST_F(ChooseScheduleTest, TakesTheLargestTileThatStaysInHalfOfTheCache) {
  ScheduleAttr large = choose(makeShape(KernelKind::forward), cpu(Arch::x86_64_v4, 1 << 20)).schedule;
  EXPECT_EQ(large.getBlockM(), 64);
  EXPECT_EQ(large.getBlockN(), 128);

  // 4 * (64 * 128 + 64 * (64 + 128)) = 81920 bytes are hot: one byte less of cache and the tile shrinks.
  ScheduleAttr exact = choose(makeShape(KernelKind::forward), cpu(Arch::x86_64_v4, 2 * 81920)).schedule;
  EXPECT_EQ(exact.getBlockN(), 128);
  ScheduleChoice less = choose(makeShape(KernelKind::forward), cpu(Arch::x86_64_v4, 2 * 81920 - 2));
  ASSERT_EQ(less.candidates.size(), 2u);
  EXPECT_EQ(less.candidates[0].hotBytes, 81920);
  EXPECT_EQ(less.candidates[0].rejection,
            "81920 bytes used in each step exceed half of the L2 cache, 81919 bytes");
  EXPECT_EQ(less.candidates[1].rejection, "");
  EXPECT_EQ(less.schedule.getBlockM(), 64);
  EXPECT_EQ(less.schedule.getBlockN(), 64);
}

TEST_F(ChooseScheduleTest, TakesTheSmallestTileWhereNoneFits) {
  for (KernelKind kind : kKinds) {
    ScheduleChoice choice = choose(makeShape(kind, 512, 512), cpu(Arch::x86_64, 2));
    EXPECT_GT(choice.candidates.size(), 3u);
    for (const ScheduleCandidate &candidate : llvm::drop_end(choice.candidates)) {
      EXPECT_NE(candidate.rejection, "");
      EXPECT_GT(candidate.hotBytes, choice.candidates.back().hotBytes);
      EXPECT_GE(candidate.totalBytes, candidate.hotBytes);
    }
    EXPECT_EQ(getLanes(kind, choice.schedule), 8) << "two vectors of four";
    EXPECT_EQ(getRows(kind, choice.schedule), 8);
  }
}

TEST_F(ChooseScheduleTest, GradientsHaveTwoScoreTiles) {
  // 4 * (2 * 64 * 128 + 64 * (64 + 128)), and the score tile of forward counts once.
  EXPECT_EQ(choose(makeShape(KernelKind::dq), cpu(Arch::x86_64_v4)).candidates.back().hotBytes, 114688);
  EXPECT_EQ(choose(makeShape(KernelKind::forward), cpu(Arch::x86_64_v4)).candidates.back().hotBytes, 81920);
}

//===----------------------------------------------------------------------===//
// Lengths
//===----------------------------------------------------------------------===//

TEST_F(ChooseScheduleTest, DoesNotPadShortStaticLengths) {
  ShapeClass shape = makeShape(KernelKind::forward);
  shape.qLen = 1; // decoding
  ScheduleAttr decode = choose(shape, cpu(Arch::x86_64_v3)).schedule;
  EXPECT_EQ(decode.getBlockM(), 16) << "two vectors of eight";
  EXPECT_EQ(decode.getBlockN(), 128) << "the keys are unknown";

  shape.qLen = 17;
  shape.kvLen = 5;
  ScheduleAttr small = choose(shape, cpu(Arch::x86_64_v3)).schedule;
  EXPECT_EQ(small.getBlockM(), 32);
  EXPECT_EQ(small.getBlockN(), 8) << "two register tiles of four rows";

  shape.kind = KernelKind::dkdv;
  ScheduleAttr keys = choose(shape, cpu(Arch::x86_64_v3)).schedule;
  EXPECT_EQ(keys.getBlockN(), 16) << "keys lie along the lanes";
  EXPECT_EQ(keys.getBlockM(), 20);
}

//===----------------------------------------------------------------------===//
// Numbers given by hand
//===----------------------------------------------------------------------===//

TEST_F(ChooseScheduleTest, AppliesOverrides) {
  for (KernelKind kind : kKinds) {
    ScheduleOverrides overrides;
    overrides.blockM = 96;
    overrides.blockN = 160;
    // Taken as they are, whatever the cache holds.
    ScheduleChoice choice = choose(makeShape(kind), cpu(Arch::x86_64_v4, 2), overrides);
    EXPECT_EQ(choice.schedule.getBlockM(), 96);
    EXPECT_EQ(choice.schedule.getBlockN(), 160);
    EXPECT_EQ(choice.candidates.size(), 1u);
  }
  ScheduleOverrides lanesOnly;
  lanesOnly.blockM = 256;
  ScheduleChoice choice = choose(makeShape(KernelKind::forward), cpu(Arch::x86_64_v4, 1 << 18), lanesOnly);
  EXPECT_EQ(choice.schedule.getBlockM(), 256);
  EXPECT_EQ(choice.schedule.getBlockN(), 32) << "256 x 128 and 256 x 64 exceed 128 KiB";
  ScheduleOverrides order;
  order.order = LoopOrder::key_outer;
  EXPECT_EQ(choose(makeShape(KernelKind::forward), cpu(Arch::x86_64_v4), order).schedule.getOrder(),
            LoopOrder::key_outer);
}

TEST_F(ChooseScheduleTest, RefusesWhatCannotBe) {
  ScheduleOverrides overrides;
  overrides.blockM = 40;
  EXPECT_EQ(chooseError(makeShape(KernelKind::forward), cpu(Arch::x86_64_v4), overrides),
            "expected block_m to be a multiple of 32 (2 vectors of 16), got 40");
  overrides.blockM = 0;
  overrides.blockN = 24;
  EXPECT_EQ(choose(makeShape(KernelKind::forward), cpu(Arch::x86_64_v4), overrides).schedule.getBlockN(), 24);
  EXPECT_EQ(chooseError(makeShape(KernelKind::dkdv), cpu(Arch::x86_64_v4), overrides),
            "expected block_n to be a multiple of 32 (2 vectors of 16), got 24");
  overrides.blockN = -32;
  EXPECT_EQ(chooseError(makeShape(KernelKind::forward), cpu(Arch::x86_64_v4), overrides),
            "expected block_n from 1 to 2^31 - 1, got -32 [S1]");
}

/// Whatever the head_dim, some tile fits the shared memory and the registers of every GPU.
TEST_F(ChooseScheduleTest, FitsEveryGpu) {
  for (Arch arch : {Arch::sm_80, Arch::sm_86, Arch::sm_89, Arch::sm_90a, Arch::sm_100a, Arch::sm_120a})
    for (KernelKind kind : {KernelKind::forward, KernelKind::fused})
      for (unsigned elementBits : {16u, 32u})
        for (int64_t headDim = 1; headDim <= (kind == KernelKind::forward ? 512 : 256); ++headDim)
          for (int64_t valueDim : {headDim, int64_t(64), kind == KernelKind::forward ? int64_t(512) : 256}) {
            ShapeClass shape = makeShape(kind, headDim, valueDim);
            shape.elementBits = elementBits;
            TargetAttr target = getNamedTarget(&context, arch);
            ScheduleChoice choice = choose(shape, target);
            EXPECT_LE(choice.candidates.back().totalBytes * choice.schedule.getBlocksPerMultiprocessor(),
                      target.getMaxSharedMemory());
            EXPECT_EQ(choice.schedule.getBlockM() % 16, 0);
          }
}

/// Where a warp would have too many columns of the output, several share them.
TEST_F(ChooseScheduleTest, DividesManyColumnsAmongWarps) {
  auto choice = [&](Arch arch, int64_t headDim, int64_t valueDim, unsigned elementBits) {
    ShapeClass shape = makeShape(KernelKind::forward, headDim, valueDim);
    shape.elementBits = elementBits;
    ScheduleAttr schedule = choose(shape, getNamedTarget(&context, arch)).schedule;
    EXPECT_EQ(schedule.getFamily(), ScheduleFamily::portable);
    WarpGrid grid = getWarpGrids(KernelKind::forward, elementBits, schedule).queries;
    return std::tuple(schedule.getBlockM(), schedule.getBlockN(), grid.rows, grid.columns);
  };
  EXPECT_EQ(choice(Arch::sm_90a, 512, 512, 16), std::tuple(64, 64, 4, 2));
  EXPECT_EQ(choice(Arch::sm_80, 512, 512, 16), std::tuple(64, 32, 4, 2));
  EXPECT_EQ(choice(Arch::sm_86, 512, 512, 16), std::tuple(32, 32, 2, 2));
  EXPECT_EQ(choice(Arch::sm_86, 512, 512, 32), std::tuple(16, 16, 1, 2));
  EXPECT_EQ(choice(Arch::sm_86, 512, 64, 16), std::tuple(64, 16, 4, 1));

  ShapeClass shape = makeShape(KernelKind::fused, 512, 512);
  shape.elementBits = 16;
  EXPECT_NE(chooseError(shape, getNamedTarget(&context, Arch::sm_90a), ScheduleOverrides())
                .find("no tile of the fused kernel fits #attn.target<arch = sm_90a"),
            std::string::npos);
}

TEST_F(ChooseScheduleTest, TakesTheFastestGpuTileThatFits) {
  auto tile = [&](Arch arch, int64_t headDim) {
    ShapeClass shape = makeShape(KernelKind::forward, headDim, headDim);
    shape.elementBits = 16;
    ScheduleOverrides overrides;
    overrides.family = ScheduleFamily::portable;
    ScheduleAttr schedule = choose(shape, getNamedTarget(&context, arch), overrides).schedule;
    EXPECT_EQ(schedule.getFamily(), ScheduleFamily::portable);
    EXPECT_FALSE(schedule.getFixedMaximum());
    return std::tuple(schedule.getBlockM(), schedule.getBlockN(), schedule.getWarps());
  };
  EXPECT_EQ(tile(Arch::sm_90a, 64), std::tuple(128, 128, 4));
  EXPECT_EQ(tile(Arch::sm_86, 64), std::tuple(128, 128, 4));
  EXPECT_EQ(tile(Arch::sm_90a, 128), std::tuple(128, 64, 4));
  EXPECT_EQ(tile(Arch::sm_86, 128), std::tuple(128, 32, 4));
  EXPECT_EQ(tile(Arch::sm_90a, 256), std::tuple(64, 64, 4));
  EXPECT_EQ(tile(Arch::sm_80, 256), std::tuple(128, 64, 8));
}

TEST_F(ChooseScheduleTest, TakesFewKeysForGradientsOfNarrowWindows) {
  auto blockN = [&](int64_t headDim, std::optional<int64_t> window, unsigned elementBits = 16) {
    ShapeClass shape = makeShape(KernelKind::fused, headDim, headDim);
    shape.elementBits = elementBits;
    shape.mask = MaskClass::formula;
    shape.window = window;
    return choose(shape, getNamedTarget(&context, Arch::sm_90a)).schedule.getBlockN();
  };
  EXPECT_EQ(blockN(128, 1024), 64);
  EXPECT_EQ(blockN(128, 2048), 64);
  EXPECT_EQ(blockN(128, 4096), 128);
  EXPECT_EQ(blockN(128, std::nullopt), 128);
  EXPECT_EQ(blockN(64, 1024), 128);
  EXPECT_EQ(blockN(128, 1024, 32), blockN(128, std::nullopt, 32));
}

TEST_F(ChooseScheduleTest, TakesSmallGpuTilesForPartsOfTheKeys) {
  auto tile = [&](Arch arch, int64_t headDim) {
    ShapeClass shape = makeShape(KernelKind::forward, headDim, headDim);
    shape.elementBits = 16;
    ScheduleOverrides overrides;
    overrides.splitsKeys = true;
    overrides.family = ScheduleFamily::portable;
    ScheduleAttr schedule = choose(shape, getNamedTarget(&context, arch), overrides).schedule;
    return std::tuple(schedule.getBlockM(), schedule.getBlockN(), schedule.getBlocksPerMultiprocessor());
  };
  EXPECT_EQ(tile(Arch::sm_90a, 128), std::tuple(64, 64, 3));
  EXPECT_EQ(tile(Arch::sm_86, 128), std::tuple(64, 64, 2));
  EXPECT_EQ(tile(Arch::sm_90a, 256), std::tuple(64, 64, 2));
}

TEST_F(ChooseScheduleTest, LetsWarpsDivideTheKeysOfFewRows) {
  auto tile = [&](Arch arch, int64_t dim, unsigned elementBits = 16) {
    ShapeClass shape = makeShape(KernelKind::forward, dim, dim);
    shape.elementBits = elementBits;
    ScheduleOverrides overrides;
    overrides.splitsKeys = overrides.hasFewRows = true;
    overrides.family = ScheduleFamily::portable;
    ScheduleAttr schedule = choose(shape, getNamedTarget(&context, arch), overrides).schedule;
    return std::tuple(schedule.getBlockN(), schedule.getKeyWarps(), schedule.getBlocksPerMultiprocessor());
  };
  EXPECT_EQ(tile(Arch::sm_90a, 64), std::tuple(32, 4, 3));
  EXPECT_EQ(tile(Arch::sm_90a, 128), std::tuple(32, 4, 1));
  EXPECT_EQ(tile(Arch::sm_90a, 192), std::tuple(32, 4, 1));
  EXPECT_EQ(tile(Arch::sm_90a, 256), std::tuple(16, 4, 1));
  EXPECT_EQ(tile(Arch::sm_86, 128), std::tuple(16, 4, 1));
  EXPECT_EQ(tile(Arch::sm_86, 256), std::tuple(16, 2, 1));
  // Too many registers, and elements of 32 bits.
  EXPECT_EQ(std::get<1>(tile(Arch::sm_90a, 512)), 1);
  EXPECT_EQ(std::get<1>(tile(Arch::sm_90a, 64, 32)), 1);
}

TEST_F(ChooseScheduleTest, RefusesGpuTilesThatCannotBe) {
  TargetAttr gpu = getNamedTarget(&context, Arch::sm_90a);
  ShapeClass shape = makeShape(KernelKind::forward);
  ScheduleOverrides overrides;
  overrides.order = LoopOrder::key_outer;
  EXPECT_EQ(chooseError(shape, gpu, overrides), "expected order = query_outer for a GPU, got key_outer");
  overrides = ScheduleOverrides();
  overrides.blockM = 40;
  EXPECT_EQ(chooseError(shape, gpu, overrides),
            "expected block_m to be a multiple of 16 for each warp and block_n of 16, got 40 and 0");
}

//===----------------------------------------------------------------------===//
// Block lists
//===----------------------------------------------------------------------===//

TEST_F(ChooseScheduleTest, TilesDivideTheBlocksOfLists) {
  TargetAttr gpu = getNamedTarget(&context, Arch::sm_90a), host = cpu(Arch::x86_64_v4, 2 << 20);
  auto chooseFor = [&](KernelKind kind, TargetAttr target, int64_t block) {
    ScheduleOverrides overrides;
    overrides.listBlockM = overrides.listBlockN = block;
    return choose(makeShape(kind), target, overrides).schedule;
  };
  for (KernelKind kind : {KernelKind::forward, KernelKind::fused}) {
    EXPECT_EQ(chooseFor(kind, gpu, 128), chooseFor(kind, gpu, 0)) << "any tile divides 128";
    EXPECT_EQ(64 % chooseFor(kind, gpu, 64).getBlockM(), 0);
    EXPECT_EQ(64 % chooseFor(kind, gpu, 64).getBlockN(), 0);
  }
  for (KernelKind kind : {KernelKind::forward, KernelKind::dq, KernelKind::dkdv}) {
    EXPECT_EQ(chooseFor(kind, host, 128), chooseFor(kind, host, 0));
    EXPECT_EQ(chooseFor(kind, host, 64).getBlockM(), 64);
    EXPECT_EQ(chooseFor(kind, host, 64).getBlockN(), 64);
  }
  // Short lengths make short tiles, but not for lists.
  ShapeClass shape = makeShape(KernelKind::forward);
  shape.kvLen = 113;
  ScheduleOverrides lists;
  lists.listBlockM = lists.listBlockN = 128;
  EXPECT_EQ(choose(shape, host).schedule.getBlockN(), 120);
  EXPECT_EQ(choose(shape, host, lists).schedule.getBlockN(), 64);
}

//===----------------------------------------------------------------------===//
// Parts of the keys
//===----------------------------------------------------------------------===//

TEST_F(ChooseScheduleTest, SplitsKeysForIdleCores) {
  ShapeClass shape = makeShape(KernelKind::forward);
  shape.batchTimesHeads = 2;
  shape.qLen = 1;
  shape.kvLen = 65536;
  auto split = [&](int64_t cores, LoopOrder order = LoopOrder::query_outer) {
    return chooseKvSplits(shape, cpu(Arch::x86_64_v4, 1 << 20, cores),
                          ScheduleAttr::get(&context, 32, 128, order, 1, 16, 8, 2, 1, 1, 1,
                                            ScheduleFamily::portable, false, 1, 0));
  };
  EXPECT_EQ(split(1), 1);
  EXPECT_EQ(split(2), 1) << "as many blocks as cores";
  EXPECT_EQ(split(3), 2);
  EXPECT_EQ(split(16), 8);
  EXPECT_EQ(split(16, LoopOrder::key_outer), 1);
  EXPECT_EQ(split(1 << 20), kMaxKvSplits);

  shape.qLen = 65; // three blocks of each head
  EXPECT_EQ(split(16), 3);
  shape.qLen = 1;
  shape.kvLen = 4 * 128 * 3; // parts of at least four blocks
  EXPECT_EQ(split(16), 3);
  shape.kvLen = 100;
  EXPECT_EQ(split(16), 1);
  shape.kvLen = 0;
  EXPECT_EQ(split(16), 1);
}

TEST_F(ChooseScheduleTest, DoesNotSplitUnknownSizes) {
  ShapeClass known = makeShape(KernelKind::forward);
  known.batchTimesHeads = known.qLen = 1;
  known.kvLen = 65536;
  auto split = [&](const ShapeClass &shape) {
    return chooseKvSplits(shape, cpu(Arch::x86_64_v4, 1 << 20, 16),
                          ScheduleAttr::get(&context, 32, 128, LoopOrder::query_outer, 1, 16, 8, 2, 1, 1, 1,
                                            ScheduleFamily::portable, false, 1, 0));
  };
  EXPECT_EQ(split(known), 16);
  for (auto size : {&ShapeClass::batchTimesHeads, &ShapeClass::qLen, &ShapeClass::kvLen}) {
    ShapeClass shape = known;
    shape.*size = std::nullopt;
    EXPECT_EQ(split(shape), 1);
    shape.*size = 0;
    EXPECT_EQ(split(shape), 1);
  }
}
