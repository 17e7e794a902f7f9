//===- CallTensorsTest.cpp - tests of what stands for tensors before a call --===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/CallChecks.h"
#include "tools/common/GpuFunction.h"
#include "gtest/gtest.h"

using namespace attn;

namespace {
/// y and z of the size of x, which is free, and of that of w, 3.
LaunchPlan makePlan() {
  LaunchPlan plan;
  plan.name = "forward";
  plan.parameters = {{"x", ElementType::BF16, /*isScalar=*/false, {anySize(0, 0)}},
                     {"w", ElementType::F32, /*isScalar=*/false, {3}}};
  plan.results = {{"y", ElementType::BF16, {Expr::dim(0, 0)}}, {"z", ElementType::F32, {Expr::dim(1, 0)}}};
  return plan;
}

/// A variant is selected by tensors that are described only. None may look like a result that lies where
/// another tensor does, which calls are refused for.
TEST(CallTensors, PassTheChecksOfACall) {
  LaunchPlan plan = makePlan();
  llvm::SmallVector<int64_t> x{1000}, w{3};
  llvm::Expected<CallTensors> call = CallTensors::create(plan, {x, w});
  ASSERT_TRUE(bool(call)) << llvm::toString(call.takeError());
  Status status = checkCall(plan, call->parameters, call->results, /*device=*/0, /*multiprocessors=*/132);
  EXPECT_TRUE(status.ok()) << status.getMessage();
  EXPECT_EQ(call->results[0].sizes[0], 1000);
  EXPECT_EQ(call->results[1].sizes[0], 3);
}
} // namespace
