//===- CudaDriverTest.cpp - the driver's functions and device memory ---------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/CudaDriver.h"
#include "runtime/DeviceBuffer.h"
#include "test/unit/FakeCudaDriver.h"
#include "gtest/gtest.h"

using namespace attn;
using attn::test::FakeCuda;

namespace {
TEST(DeviceBuffer, IsFreedOnceByItsOwner) {
  FakeCuda::reset();
  const CudaDriver &driver = FakeCuda::getDriver();
  {
    StatusOr<DeviceBuffer> buffer = DeviceBuffer::allocate(driver, 1000),
                           empty = DeviceBuffer::allocate(driver, 0);
    ASSERT_TRUE(buffer.ok() && empty.ok());
    EXPECT_EQ(FakeCuda::get().allocations, 1);
    EXPECT_EQ(empty->getData(), nullptr);
    EXPECT_TRUE(empty->fill(0, nullptr).ok() && empty->copyFrom(nullptr).ok() && empty->copyTo(nullptr).ok());
    EXPECT_TRUE(FakeCuda::get().memsets.empty());
    DeviceBuffer moved = std::move(*buffer);
    EXPECT_EQ(buffer->getData(), nullptr);
    EXPECT_TRUE(moved.fill(0xff, nullptr).ok());
    ASSERT_EQ(FakeCuda::get().memsets.size(), 1u);
    EXPECT_EQ(FakeCuda::get().memsets[0].bytes, 1000u);
  }
  EXPECT_EQ(FakeCuda::get().frees, 1);
  FakeCuda::get().memAllocResult = 2;
  StatusOr<DeviceBuffer> none = DeviceBuffer::allocate(driver, 77);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.getMessage().find("no device memory for 77 bytes: cuMemAlloc failed"), 0u)
      << none.getMessage();
  EXPECT_EQ(FakeCuda::get().frees, 1);
  FakeCuda::reset();
}

TEST(CudaDriver, MissingLibraryIsNamed) {
  StatusOr<CudaDriver> driver = CudaDriver::open("libcuda-that-is-not-there.so.1");
  ASSERT_FALSE(driver.ok());
  EXPECT_EQ(driver.getMessage(), "the CUDA driver is missing: libcuda-that-is-not-there.so.1: cannot open "
                                 "shared object file: No such file "
                                 "or directory (looked for libcuda-that-is-not-there.so.1 where the dynamic "
                                 "linker looks: LD_LIBRARY_PATH, "
                                 "/etc/ld.so.cache, /lib, /usr/lib); it comes with NVIDIA's display driver");
  StatusOr<CudaDriver> other = CudaDriver::open("libm.so.6");
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.getMessage(),
            "the CUDA driver libm.so.6 has no function cuInit, expected one of CUDA 11.4 or later");
}

TEST(CudaDriver, Architectures) {
  EXPECT_EQ(getArchName(8, 0), "sm_80");
  EXPECT_EQ(getArchName(8, 9), "sm_89");
  EXPECT_EQ(getArchName(9, 0), "sm_90a");
  EXPECT_EQ(getArchName(12, 0), "sm_120a");
}
} // namespace
