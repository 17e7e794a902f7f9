//===- TensorMapTest.cpp - what the driver is asked for tensor maps ---------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/TensorMap.h"
#include "test/unit/FakeCudaDriver.h"
#include "gtest/gtest.h"
#include <algorithm>
#include <array>
#include <cstring>

using namespace attn;
using attn::test::FakeCuda;

namespace {
using Numbers = std::vector<uint64_t>;

struct TensorMap : testing::Test {
  void SetUp() override { FakeCuda::reset(); }

  /// Encodes the map of (batch, heads, length, dim), or of a tensor that lacks the first of these; returns
  /// the message.
  std::string encode(std::vector<int64_t> sizes, std::vector<int64_t> strides, uintptr_t data = 0x7000,
                     ElementType type = ElementType::BF16) {
    TensorRef tensor{reinterpret_cast<void *>(data),
                     type,
                     static_cast<int>(sizes.size()),
                     sizes.data(),
                     strides.data(),
                     0};
    memset(map, 0xff, sizeof(map));
    Status status = encodeTensorMap(driver, "key", tensor, 128, 64, map);
    return status.ok() ? "" : status.getMessage();
  }

  Numbers getStrides() { return FakeCuda::get().tensorMaps.back().strides; }

  /// Whether all bytes of the map are `value`.
  bool isFilledWith(unsigned char value) {
    return std::all_of(std::begin(map), std::end(map), [&](unsigned char byte) { return byte == value; });
  }

  CudaDriver driver = FakeCuda::getDriver();
  unsigned char map[128];
};

TEST_F(TensorMap, TellsTheDriverOfDimensionsFromTheInnermost) {
  ASSERT_EQ(encode({2, 8, 1000, 96}, {768000, 96, 768, 1}), "");
  const std::vector<FakeCuda::TensorMap> &maps = FakeCuda::get().tensorMaps;
  ASSERT_EQ(maps.size(), 1u);
  EXPECT_EQ(maps[0].type, 9);
  EXPECT_EQ(maps[0].data, reinterpret_cast<void *>(0x7000));
  EXPECT_EQ(maps[0].sizes, (Numbers{96, 1000, 8, 2}));
  EXPECT_EQ(maps[0].strides, (Numbers{1536, 192, 1536000}));
  EXPECT_EQ(maps[0].box, (std::vector<uint32_t>{64, 128, 1, 1}));
  EXPECT_EQ(maps[0].elementStrides, (std::vector<uint32_t>{1, 1, 1, 1}));
  EXPECT_EQ(maps[0].interleave, 0);
  EXPECT_EQ(maps[0].swizzle, 3);
  EXPECT_EQ(maps[0].promotion, 2);
  EXPECT_EQ(maps[0].fill, 0);
  EXPECT_TRUE(isFilledWith(1));
  ASSERT_EQ(encode({2, 8, 1000, 32}, {768000, 96, 768, 1}, 0x7000, ElementType::F16), "");
  EXPECT_EQ(maps[1].type, 6);
  // Fewer columns than the box has: the hardware fills it.
  EXPECT_EQ(maps[1].sizes[0], 32u);
  EXPECT_EQ(maps[1].box[0], 64u);
}

TEST_F(TensorMap, StridesOfSizeOneMayBeAnything) {
  for (int64_t stride : {int64_t(0), int64_t(1), int64_t(-5), INT64_MAX, INT64_MIN}) {
    ASSERT_EQ(encode({1, 1, 1, 1}, {stride, stride, stride, stride}), "") << stride;
    EXPECT_EQ(getStrides(), (Numbers{16, 16, 16})) << stride;
    ASSERT_EQ(encode({2, 1, 3, 64}, {640, stride, 128, 1}), "") << stride;
    EXPECT_EQ(getStrides(), (Numbers{256, 16, 1280})) << stride;
  }
}

TEST_F(TensorMap, BroadcastsHaveStrideZero) {
  ASSERT_EQ(encode({2, 8, 3, 64}, {0, 0, 64, 1}), "");
  EXPECT_EQ(getStrides(), (Numbers{128, 0, 0}));
}

TEST_F(TensorMap, DimensionsThatATensorLacksHaveSizeOne) {
  ASSERT_EQ(encode({1000, 96}, {104, 1}), "");
  EXPECT_EQ(FakeCuda::get().tensorMaps.back().sizes, (Numbers{96, 1000, 1, 1}));
  EXPECT_EQ(getStrides(), (Numbers{208, 16, 16}));
  ASSERT_EQ(encode({8, 1000, 96}, {104000, 104, 1}), "");
  EXPECT_EQ(FakeCuda::get().tensorMaps.back().sizes, (Numbers{96, 1000, 8, 1}));
  EXPECT_EQ(getStrides(), (Numbers{208, 208000, 16}));
  EXPECT_EQ(encode({0, 96}, {-1, 1}), "");
  EXPECT_TRUE(isFilledWith(0));
  EXPECT_NE(encode({1000, 96}, {100, 1}).find("stride 100 in dimension 0"), std::string::npos);
}

TEST_F(TensorMap, OfNothingIsAllZero) {
  for (int empty = 0; empty < 4; ++empty) {
    std::vector<int64_t> sizes = {2, 8, 3, 64};
    sizes[empty] = 0;
    // Neither the address nor a stride means anything.
    EXPECT_EQ(encode(sizes, {1, -1, 3, 1}, empty), "");
    EXPECT_TRUE(isFilledWith(0));
  }
  EXPECT_TRUE(FakeCuda::get().tensorMaps.empty());
}

TEST_F(TensorMap, WhatTheAcceleratorCannotDoIsAnError) {
  EXPECT_EQ(
      encode({2, 8, 3, 64}, {2048, 256, 60, 1}),
      "the tensor map of 'key' cannot have stride 60 in dimension 2: expected a multiple of 16 bytes, not "
      "negative and below 2^40");
  EXPECT_NE(encode({2, 8, 3, 64}, {-2048, 256, 64, 1}).find("stride -2048 in dimension 0"),
            std::string::npos);
  EXPECT_EQ(encode({2, 8, 3, 64}, {2048, (int64_t(1) << 39) - 8, 64, 1}), "");
  EXPECT_NE(encode({2, 8, 3, 64}, {2048, int64_t(1) << 39, 64, 1}).find("dimension 1"), std::string::npos);
  // Twice these many bytes overflow.
  EXPECT_NE(encode({2, 8, 3, 64}, {2048, int64_t(1) << 62, 64, 1}).find("dimension 1"), std::string::npos);
  EXPECT_NE(encode({2, 8, 3, 64}, {2048, INT64_MIN, 64, 1}).find("dimension 1"), std::string::npos);
  EXPECT_EQ(encode({2, 8, 3, 64}, {2048, 256, 64, 1}, 0x7008),
            "the tensor map of 'key' needs an address that is a multiple of 16");
  FakeCuda::get().encodeResult = 1;
  EXPECT_EQ(encode({2, 8, 3, 64}, {2048, 256, 64, 1}),
            "the tensor map of 'key' was refused: cuTensorMapEncodeTiled failed: CUDA_ERROR_FAKE (as told)");
  driver.tensorMapEncodeTiled = nullptr;
  EXPECT_EQ(
      encode({2, 8, 3, 64}, {2048, 256, 64, 1}),
      "the tensor map of 'key' needs cuTensorMapEncodeTiled, which the CUDA driver has not; expected one "
      "of CUDA 12.0 or later");
}
} // namespace
