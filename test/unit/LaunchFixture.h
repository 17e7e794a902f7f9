//===- LaunchFixture.h - a plan and a runtime to launch it, in tests --------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TEST_UNIT_LAUNCHFIXTURE_H
#define ATTN_TEST_UNIT_LAUNCHFIXTURE_H

#include "runtime/Launch.h"
#include "test/unit/FakeCudaDriver.h"
#include "test/unit/TemporaryDirectory.h"
#include "gtest/gtest.h"
#include <cstring>
#include <utility>

namespace attn::test {
/// out[m, n] from in[m, n] and a scale, through a workspace; two variants by alignment, the first of two
/// kernels.
inline LaunchPlan makePlan() {
  LaunchPlan plan;
  plan.name = "scaled";
  plan.parameters = {{"in", ElementType::BF16, false, {anySize(0, 0), anySize(0, 1)}},
                     {"scale", ElementType::F32, true, {}},
                     {"table", ElementType::F32, false, {Expr::dim(0, 0), 3}}};
  plan.results = {{"out", ElementType::BF16, {Expr::dim(0, 0), Expr::dim(0, 1)}}};
  plan.requirements = {
      {Expr::equal(Expr::mod(Expr::dim(0, 0), 2), 0), "'in' must have an even number of rows"}};
  plan.modules = {{"first", "a"}, {"second", "b"}};
  LaunchSpec first;
  first.kernel = "reduce";
  first.grid = {Expr::ceilDiv(Expr::dim(0, 1), 128), Expr::dim(0, 0), 1};
  first.threads = 128;
  first.dynamicSharedBytes = 100000;
  first.arguments = {
      ArgumentSpec::parameter(1), ArgumentSpec::parameter(0), ArgumentSpec::workspace(1),
      ArgumentSpec::expression(Expr::multiprocessors()),
      ArgumentSpec::expression(Expr::mul(Expr::dim(0, 0), int64_t(1) << 33), ElementType::I64)};
  LaunchSpec second;
  second.module = 1;
  second.kernel = "write";
  second.grid = {Expr::multiprocessors(), 1, 1};
  second.threads = 256;
  second.arguments = {ArgumentSpec::workspace(0), ArgumentSpec::result(0)};
  plan.variants = {
      {"aligned",
       Expr::min(Expr::parameterAligned(0, 16), Expr::resultAligned(0, 16)),
       {{"counter", ElementType::I32, {}, true}, {"partial", ElementType::F32, {Expr::dim(0, 0), 5}, false}},
       {first, second}},
      {"any", Expr::less(0, Expr::dim(0, 0)), {}, {second}}};
  plan.variants[1].launches[0].arguments = {ArgumentSpec::result(0)};
  return plan;
}

/// Tensors in one array of sizes and strides.
struct TestTensor {
  std::vector<int64_t> sizes, strides;
  TensorRef ref;

  TestTensor(uintptr_t data, ElementType type, std::vector<int64_t> givenSizes,
             std::vector<int64_t> givenStrides)
      : sizes(std::move(givenSizes)), strides(std::move(givenStrides)), ref{reinterpret_cast<void *>(data),
                                                                            type,
                                                                            static_cast<int>(sizes.size()),
                                                                            sizes.data(),
                                                                            strides.data(),
                                                                            0} {}
  TestTensor(const TestTensor &) = delete;
};

struct Launch : testing::Test {
  void SetUp() override { makeRuntime(makePlan()); }

  /// The kernels come from a cache, as if another process had compiled them: there is no NVRTC here.
  void makeRuntime(const LaunchPlan &plan) {
    FakeCuda::reset();
    KernelCacheOptions cacheOptions;
    cacheOptions.directory = directory.getPath();
    KernelCompilerOptions options;
    options.nvrtcPath = "/nonexistent/libnvrtc.so";
    options.cache = std::make_shared<KernelCache>(cacheOptions);
    auto makeVersion = []() -> StatusOr<EntryFiles> { return EntryFiles{{"version", "1.0"}}; };
    (void)options.cache->getOrBuild(KernelCache::Kind::Nvrtc, "any", makeVersion);
    for (const ModuleSpec &module : plan.modules) {
      std::string key =
          makeKernelKey({module.source, options.headers, "1.0", options.options, "sm_90a", options.buildId});
      (void)options.cache->getOrBuild(KernelCache::Kind::Kernel, key, []() -> StatusOr<EntryFiles> {
        return EntryFiles{{"kernel.cu", ""},
                          {"kernel.cubin", "reduce write"},
                          {"kernel_spec.json", ""},
                          {"compile.log", ""}};
      });
    }
    runtime = *GpuRuntime::create(std::make_shared<KernelCompiler>(options), &FakeCuda::getDriver());
    StatusOr<std::unique_ptr<GpuExecutable>> created = GpuExecutable::create(runtime, plan, 0);
    ASSERT_TRUE(created.ok()) << created.getMessage();
    executable = std::move(*created);
  }

  std::vector<TensorRef> getParameters() { return {in.ref, scale, table.ref}; }

  Status launch(cuda::Stream stream = nullptr, WorkspaceRef workspace = {}) {
    return executable->launch(getParameters(), {out.ref}, stream, workspace);
  }

  std::string launchMessage() {
    Status status = launch();
    return status.ok() ? "" : status.getMessage();
  }

  TemporaryDirectory directory;
  std::shared_ptr<GpuRuntime> runtime;
  std::unique_ptr<GpuExecutable> executable;
  TestTensor in{0x7000, ElementType::BF16, {6, 1000}, {2048, 1}};
  TestTensor table{0x8000, ElementType::F32, {6, 3}, {3, 1}};
  TestTensor out{0x9000, ElementType::BF16, {6, 1000}, {1000, 1}};
  float scaleValue = 0.5f;
  TensorRef scale{&scaleValue, ElementType::F32, 0, nullptr, nullptr, 0};
};

template <typename T, int R>
struct Tensor {
  T *data;
  long long strides[R];
  int sizes[R];
};
template <typename T>
struct Tensor<T, 0> {
  T *data;
};

/// Copies the bytes of arguments to the variables that they are of.
template <typename... T>
void readArguments(const FakeCuda::Launch &launch, T &...values) {
  ASSERT_EQ(launch.arguments.size(), sizeof...(T));
  const std::string *bytes = launch.arguments.data();
  (memcpy(&values, (bytes++)->data(), sizeof(T)), ...);
}

} // namespace attn::test

#endif // ATTN_TEST_UNIT_LAUNCHFIXTURE_H
