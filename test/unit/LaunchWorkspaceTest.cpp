//===- LaunchWorkspaceTest.cpp - what a launch gets memory from, and fills ---===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/LaunchFixture.h"
#include <thread>

using namespace attn;
using namespace attn::test;

namespace {
TEST_F(Launch, AllocatesNothingAfterTheFirstCallOfASize) {
  for (int i = 0; i < 5; ++i)
    ASSERT_EQ(launchMessage(), "");
  EXPECT_EQ(FakeCuda::get().allocations, 1);
  EXPECT_EQ(FakeCuda::get().moduleLoads, 2);
  // More: once again; then less or the same: nothing.
  in.sizes[0] = out.sizes[0] = table.sizes[0] = 600;
  for (int i = 0; i < 5; ++i)
    ASSERT_EQ(launchMessage(), "");
  in.sizes[0] = out.sizes[0] = table.sizes[0] = 6;
  ASSERT_EQ(launchMessage(), "");
  EXPECT_EQ(FakeCuda::get().allocations, 2);
  EXPECT_EQ(FakeCuda::get().frees, 1);
  EXPECT_EQ(FakeCuda::get().moduleLoads, 2);
}

TEST_F(Launch, StreamsHaveWorkspacesOfTheirOwn) {
  auto getWorkspace = [&](cuda::Stream stream) {
    EXPECT_TRUE(launch(stream).ok());
    return FakeCuda::get().memsets.back().data;
  };
  auto stream = reinterpret_cast<cuda::Stream>(0x500);
  EXPECT_NE(getWorkspace(nullptr), getWorkspace(stream));
  EXPECT_EQ(getWorkspace(stream), getWorkspace(stream));
  EXPECT_EQ(getWorkspace(nullptr), getWorkspace(cuda::explicitLegacyStream));
  // One handle, but a stream for each thread.
  cuda::DevicePointer here = getWorkspace(cuda::perThreadStream), there = 0;
  std::thread([&] { there = getWorkspace(cuda::perThreadStream); }).join();
  EXPECT_NE(here, there);
}

TEST_F(Launch, CanBeCapturedAtTheFirstCall) {
  FakeCuda &fake = FakeCuda::get();
  fake.captureId = 42;
  ASSERT_EQ(launchMessage(), "");
  ASSERT_EQ(launchMessage(), "");
  EXPECT_EQ(fake.forbiddenInCapture, 0);
  EXPECT_EQ(fake.allocations, 1);
  cuda::DevicePointer captured = fake.memsets.back().data;
  in.sizes[0] = out.sizes[0] = table.sizes[0] = 600;
  ASSERT_EQ(launchMessage(), "");
  EXPECT_EQ(fake.frees, 0) << "the graph still uses the smaller workspace";
  EXPECT_EQ(fake.forbiddenInCapture, 0);
  // The graph may be replayed while others launch: they share nothing with it.
  fake.captureId = 0;
  in.sizes[0] = out.sizes[0] = table.sizes[0] = 6;
  ASSERT_EQ(launchMessage(), "");
  EXPECT_NE(fake.memsets.back().data, captured);
  fake.captureId = 43;
  ASSERT_EQ(launchMessage(), "");
  EXPECT_NE(fake.memsets.back().data, captured);
}

TEST_F(Launch, UsesTheCallersWorkspace) {
  StatusOr<int64_t> bytes = executable->getWorkspaceBytes(getParameters(), {out.ref});
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ(*bytes, 256 + 256);
  EXPECT_TRUE(launch(nullptr, {reinterpret_cast<void *>(0x20000), *bytes}).ok());
  EXPECT_EQ(FakeCuda::get().allocations, 0);
  EXPECT_EQ(FakeCuda::get().memsets[0].data, 0x20000u);
  EXPECT_EQ(launch(nullptr, {reinterpret_cast<void *>(0x20000), *bytes - 1}).getMessage(),
            "'scaled': got a workspace of 511 bytes, expected 512, aligned to 256");
  EXPECT_FALSE(launch(nullptr, {reinterpret_cast<void *>(0x20010), *bytes}).ok());
}

TEST_F(Launch, FillsResultsWithZeros) {
  LaunchPlan plan = makePlan();
  plan.results[0].zeroed = true;
  makeRuntime(plan);
  auto &memsets = FakeCuda::get().memsets; // the counter's is the first of each call
  ASSERT_EQ(launchMessage(), "");
  ASSERT_EQ(memsets.size(), 2u);
  EXPECT_EQ(memsets[1].data, 0x9000u);
  EXPECT_EQ(memsets[1].bytes, 12000u);

  // What lies between the rows is not the function's.
  memsets.clear();
  out.strides[0] = 2048;
  ASSERT_EQ(launchMessage(), "");
  ASSERT_EQ(memsets.size(), 7u);
  for (size_t row = 0; row < 6; ++row) {
    EXPECT_EQ(memsets[1 + row].data, 0x9000u + row * 4096);
    EXPECT_EQ(memsets[1 + row].bytes, 2000u);
  }

  memsets.clear();
  in.sizes[1] = out.sizes[1] = 0;
  ASSERT_EQ(launchMessage(), "");
  EXPECT_EQ(memsets.size(), 1u);
}

TEST_F(Launch, FillsOnceWhatKernelsLeaveZero) {
  LaunchPlan plan = makePlan();
  for (VariantSpec &variant : plan.variants)
    for (WorkspaceSpec &workspace : variant.workspaces)
      workspace.leftZero = workspace.name == "counter";
  makeRuntime(plan);
  FakeCuda &fake = FakeCuda::get();
  fake.argumentSizes = {{"reduce", {4, sizeof(Tensor<void, 2>), sizeof(Tensor<float, 2>), 4, 8}},
                        {"write", {sizeof(Tensor<int, 0>), sizeof(Tensor<void, 2>)}}};
  auto getCounter = [&] {
    Tensor<int, 0> counter;
    Tensor<void, 2> written;
    readArguments(fake.launches.back(), counter, written);
    return reinterpret_cast<uintptr_t>(counter.data);
  };
  ASSERT_EQ(launchMessage(), "");
  ASSERT_EQ(fake.memsets.size(), 1u);
  EXPECT_LE(fake.memsets[0].data, getCounter());
  EXPECT_GE(fake.memsets[0].data + fake.memsets[0].bytes, getCounter() + 4);
  ASSERT_EQ(launchMessage(), "");
  EXPECT_EQ(fake.memsets.size(), 1u);

  // Not so what is only known to be the call's: of a graph, which another stream may run, or of the caller.
  fake.captureId = 42;
  for (size_t call = 1; call <= 2; ++call) {
    ASSERT_EQ(launchMessage(), "");
    ASSERT_EQ(fake.memsets.size(), 1 + call);
    EXPECT_EQ(fake.memsets.back().data, getCounter());
  }
  fake.captureId = 0;
  ASSERT_EQ(launchMessage(), "");
  EXPECT_EQ(fake.memsets.size(), 3u);
  StatusOr<int64_t> bytes = executable->getWorkspaceBytes(getParameters(), {out.ref});
  ASSERT_TRUE(bytes.ok());
  ASSERT_TRUE(launch(nullptr, {reinterpret_cast<void *>(0x20000), *bytes}).ok());
  ASSERT_EQ(fake.memsets.size(), 4u);
  EXPECT_EQ(fake.memsets.back().data, getCounter());

  // Work on another stream may run at the same time.
  uintptr_t ofFirst = fake.memsets[0].data;
  auto other = reinterpret_cast<cuda::Stream>(0x77);
  for (int call = 0; call < 2; ++call) {
    ASSERT_TRUE(launch(other, {}).ok());
    ASSERT_EQ(fake.memsets.size(), 5u);
    EXPECT_NE(fake.memsets.back().data, ofFirst);
    EXPECT_LE(fake.memsets.back().data, getCounter());
    EXPECT_GE(fake.memsets.back().data + fake.memsets.back().bytes, getCounter() + 4);
  }

  // Of a call that was cut short nothing is known.
  fake.launchResult = 719;
  EXPECT_FALSE(launch(other, {}).ok());
  fake.launchResult = 0;
  ASSERT_TRUE(launch(other, {}).ok());
  ASSERT_EQ(fake.memsets.size(), 6u);
  EXPECT_EQ(fake.memsets[5].data, fake.memsets[4].data);

  // A larger workspace takes its place: its zeros are new ones.
  in.sizes[0] = out.sizes[0] = table.sizes[0] = 600;
  ASSERT_EQ(launchMessage(), "");
  ASSERT_EQ(fake.memsets.size(), 7u);
  EXPECT_LE(fake.memsets.back().data, getCounter());
  EXPECT_GE(fake.memsets.back().data + fake.memsets.back().bytes, getCounter() + 4);
}
} // namespace
