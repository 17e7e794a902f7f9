//===- GpuDeviceTest.cpp - compiling and launching on a real GPU ------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/Environment.h"
#include "runtime/Launch.h"
#include "test/unit/TemporaryDirectory.h"
#include "gtest/gtest.h"
#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

using namespace attn;
using attn::test::TemporaryDirectory;

namespace {
using Clock = std::chrono::steady_clock;

double getMilliseconds(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

const char *const source = R"(
#include "attn/test.cuh"
// partial[row] = sum of the row; counter += rows
extern "C" __global__ void sum_rows(float scale, const Tensor<float, 2> in, Tensor<float, 1> partial,
                                    Tensor<int, 0> counter, long long big, int one) {
  extern __shared__ float shared[];
  int row = blockIdx.x;
  float sum = 0;
  for (int i = threadIdx.x; i < in.sizes[1]; i += blockDim.x) sum += in.data[row * in.strides[0] + i];
  shared[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 1; i < blockDim.x; ++i) sum += shared[i];
    partial.data[row] = sum * scale * (big == (1ll << 40) + 1 && one == 1 ? 1.0f : 0.0f);
    atomicAdd(counter.data, 1);
  }
}
// out = in + partial of the row, if every row was counted
extern "C" __global__ void add_sums(const Tensor<float, 2> in, const Tensor<float, 1> partial,
                                    const Tensor<int, 0> counter, Tensor<float, 2> out) {
  int row = blockIdx.x;
  for (int i = threadIdx.x; i < out.sizes[1]; i += blockDim.x)
    out.data[row * out.strides[0] + i] =
        *counter.data == out.sizes[0] ? in.data[row * in.strides[0] + i] + partial.data[row] : -1.0f;
}
)";

const char *const header = R"(
template <typename T, int R> struct Tensor { T *data; long long strides[R]; int sizes[R]; };
template <typename T> struct Tensor<T, 0> { T *data; };
)";

LaunchPlan makePlan() {
  LaunchPlan plan;
  plan.name = "add_row_sums";
  plan.parameters = {{"in", ElementType::F32, false, {anySize(0, 0), anySize(0, 1)}},
                     {"scale", ElementType::F32, true, {}}};
  plan.results = {{"out", ElementType::F32, {Expr::dim(0, 0), Expr::dim(0, 1)}}};
  plan.modules = {{"all", source}};
  LaunchSpec sum;
  sum.kernel = "sum_rows";
  sum.grid[0] = Expr::dim(0, 0);
  sum.threads = 128;
  sum.dynamicSharedBytes = 90000; // more than a kernel gets without asking
  sum.arguments = {ArgumentSpec::parameter(1),
                   ArgumentSpec::parameter(0),
                   ArgumentSpec::workspace(0),
                   ArgumentSpec::workspace(1),
                   ArgumentSpec::expression(Expr::add(int64_t(1) << 40, 1), ElementType::I64),
                   ArgumentSpec::expression(Expr::min(1, Expr::multiprocessors()))};
  LaunchSpec add;
  add.kernel = "add_sums";
  add.grid[0] = Expr::dim(0, 0);
  add.threads = 128;
  add.arguments = {ArgumentSpec::parameter(0), ArgumentSpec::workspace(0), ArgumentSpec::workspace(1),
                   ArgumentSpec::result(0)};
  plan.variants = {
      {"only",
       Expr(1),
       {{"partial", ElementType::F32, {Expr::dim(0, 0)}, false}, {"counter", ElementType::I32, {}, true}},
       {sum, add}}};
  return plan;
}

struct GpuDevice : testing::Test {
  void SetUp() override {
    StatusOr<const CudaDriver *> found = CudaDriver::get();
    if (!found.ok())
      GTEST_SKIP() << found.getMessage();
    driver = *found;
    makeRuntime();
    cuda::Context context = nullptr;
    expect(driver->primaryContextRetain(&context, 0));
    expect(driver->contextSetCurrent(context));
    expect(driver->memAlloc(&in, maxElements * 4));
    expect(driver->memAlloc(&out, maxElements * 4));
    expect(driver->streamCreate(&stream, /*non-blocking=*/1));
  }

  void TearDown() override {
    if (!driver)
      return;
    expect(driver->memFree(in));
    expect(driver->memFree(out));
    expect(driver->streamDestroy(stream));
  }

  /// As a new process would, but for what the driver and NVRTC keep.
  void makeRuntime() {
    StatusOr<Environment> environment = readEnvironment();
    ASSERT_TRUE(environment.ok());
    environment->cacheDirectory = directory.getPath();
    KernelCompilerOptions options = KernelCompilerOptions::fromEnvironment(*environment);
    options.headers = {{"attn/test.cuh", header}};
    runtime = *GpuRuntime::create(std::make_shared<KernelCompiler>(options));
    StatusOr<std::unique_ptr<GpuExecutable>> created = GpuExecutable::create(runtime, makePlan(), 0);
    ASSERT_TRUE(created.ok()) << created.getMessage();
    executable = std::move(*created);
  }

  void expect(cuda::Result result) {
    EXPECT_TRUE(driver->check(result, "the driver").ok()) << driver->check(result, "the driver").getMessage();
  }

  /// Fills `in` with values that differ from call to call, and `out` with NaN.
  void fill() {
    ++salt;
    std::vector<float> values(rows * stride);
    for (int64_t i = 0; i < rows * stride; ++i)
      values[i] = static_cast<float>((i + salt) % 7);
    expect(driver->memcpyHtoD(in, values.data(), values.size() * 4));
    std::fill(values.begin(), values.end(), __builtin_nanf(""));
    expect(driver->memcpyHtoD(out, values.data(), values.size() * 4));
    expect(driver->contextSynchronize());
  }

  Status launch() {
    int64_t sizes[] = {rows, columns}, inStrides[] = {stride, 1}, outStrides[] = {columns, 1};
    float scale = 0.5f;
    return executable->launch({{reinterpret_cast<void *>(in), ElementType::F32, 2, sizes, inStrides, 0},
                               {&scale, ElementType::F32, 0, nullptr, nullptr, 0}},
                              {{reinterpret_cast<void *>(out), ElementType::F32, 2, sizes, outStrides, 0}},
                              stream);
  }

  void expectResult() {
    expect(driver->streamSynchronize(stream));
    std::vector<float> values(rows * columns);
    expect(driver->memcpyDtoH(values.data(), out, values.size() * 4));
    for (int64_t row = 0; row < rows; ++row) {
      float sum = 0;
      for (int64_t i = 0; i < columns; ++i)
        sum += static_cast<float>((row * stride + i + salt) % 7);
      for (int64_t i = 0; i < columns; ++i)
        ASSERT_EQ(values[row * columns + i], static_cast<float>((row * stride + i + salt) % 7) + sum * 0.5f)
            << row << ", " << i;
    }
  }

  const int64_t maxElements = 1 << 20;
  const CudaDriver *driver = nullptr;
  TemporaryDirectory directory;
  std::shared_ptr<GpuRuntime> runtime;
  std::unique_ptr<GpuExecutable> executable;
  cuda::DevicePointer in = 0, out = 0;
  cuda::Stream stream = nullptr;
  int64_t rows = 37, columns = 1001, stride = 1024;
  int64_t salt = 0;
};

TEST_F(GpuDevice, IsAsTheDriverSays) {
  const DeviceInfo &info = executable->getDevice();
  printf("%s: %s, %d multiprocessors, %ld + %ld bytes of shared memory, %ld MB of L2, %ld GB\n",
         info.name.c_str(), getArchName(info.major, info.minor).c_str(), info.multiprocessors,
         long(info.maxSharedBytesPerBlock), long(info.sharedBytesPerMultiprocessor), long(info.l2Bytes >> 20),
         long(info.memoryBytes >> 30));
  EXPECT_GE(info.maxSharedBytesPerBlock, 48 << 10);
  EXPECT_GE(info.multiprocessors, 1);
}

TEST_F(GpuDevice, CompilesAndLaunches) {
  auto begin = Clock::now();
  fill();
  Status status = launch();
  ASSERT_TRUE(status.ok()) << status.getMessage();
  printf("first call, nothing cached: %.1f ms\n", getMilliseconds(begin));
  expectResult();
  for (auto [newRows, newColumns] :
       {std::pair(1, 1), std::pair(500, 1024), std::pair(0, 5), std::pair(300, 0)}) {
    rows = newRows;
    columns = newColumns;
    fill();
    ASSERT_TRUE(launch().ok());
    expectResult();
  }
  rows = 37;
  begin = Clock::now();
  makeRuntime();
  ASSERT_TRUE(launch().ok());
  printf("first call, cached on disk: %.1f ms\n", getMilliseconds(begin));
}

TEST_F(GpuDevice, IsCapturedAtTheFirstCall) {
  // In the strictest mode: nothing that a capture forbids may happen, though this call compiles and loads.
  cuda::Graph graph = nullptr;
  cuda::GraphExec instance = nullptr;
  expect(driver->streamBeginCapture(stream, cuda::CaptureGlobal));
  Status status = launch();
  ASSERT_TRUE(status.ok()) << status.getMessage();
  ASSERT_TRUE(launch().ok());
  expect(driver->streamEndCapture(stream, &graph));
  ASSERT_NE(graph, nullptr);
  expect(driver->graphInstantiate(&instance, graph, 0));
  executable.reset(); // the graph does not need it
  for (int replay = 0; replay < 3; ++replay) {
    fill();
    expect(driver->graphLaunch(instance, stream));
    expectResult();
  }
  expect(driver->graphExecDestroy(instance));
  expect(driver->graphDestroy(graph));
}

TEST_F(GpuDevice, LaunchesCostLittleMoreThanTheDriver) {
  ASSERT_TRUE(launch().ok());
  rows = columns = 1;
  auto measure = [&](auto call) {
    std::vector<double> times;
    for (int round = 0; round < 20; ++round) {
      expect(driver->streamSynchronize(stream));
      auto begin = Clock::now();
      for (int i = 0; i < 50; ++i)
        call();
      times.push_back(getMilliseconds(begin) * 1000 / 50);
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  };
  double call = measure([&] { ASSERT_TRUE(launch().ok()); });

  // What the driver alone takes for the same: kernels of as many bytes of arguments, and a memset.
  StatusOr<CompiledModule> compiled =
      runtime->getCompiler().compile("add_row_sums", makePlan().modules[0], executable->getArch());
  ASSERT_TRUE(compiled.ok());
  cuda::Module module = nullptr;
  cuda::Function sum = nullptr, add = nullptr;
  expect(driver->moduleLoadData(&module, compiled->getCubin().data()));
  expect(driver->moduleGetFunction(&sum, module, "sum_rows"));
  expect(driver->moduleGetFunction(&add, module, "add_sums"));
  expect(driver->functionSetAttribute(sum, cuda::MaxDynamicSharedBytes, 90000));
  char arguments[256] = {}; // of tensors without rows and columns
  auto launchAlone = [&](cuda::Function function, unsigned sharedBytes, size_t bytes) {
    void *extra[] = {reinterpret_cast<void *>(1), arguments, reinterpret_cast<void *>(2), &bytes, nullptr};
    expect(driver->launchKernel(function, 1, 1, 1, 128, 1, 1, sharedBytes, stream, nullptr, extra));
  };
  std::vector<float> zeros(1024);
  expect(driver->memcpyHtoD(in, zeros.data(), 4096));
  for (size_t offset : {size_t(8), size_t(40), size_t(64)}) // data of in, partial and counter of sum_rows
    memcpy(arguments + offset, &in, 8);
  double sumAlone = measure([&] { launchAlone(sum, 90000, 84); });
  double memsetAlone = measure([&] { expect(driver->memsetD8Async(in, 0, 4, stream)); });
  memset(arguments, 0, sizeof(arguments));
  for (size_t offset : {size_t(0), size_t(32), size_t(56), size_t(64)})
    memcpy(arguments + offset, &in, 8);
  double addAlone = measure([&] { launchAlone(add, 0, 96); });
  double together = measure([&] {
    expect(driver->memsetD8Async(in, 0, 4, stream));
    launchAlone(add, 0, 96);
    launchAlone(add, 0, 96);
  });
  double query = measure([&] {
    StatusOr<ContextScope> scope = ContextScope::enter(*driver, 0);
    int status = 0;
    uint64_t id = 0;
    expect(driver->streamGetCaptureInfo(stream, &status, &id));
  });
  expect(driver->streamSynchronize(stream));
  expect(driver->moduleUnload(module));
  printf("a call of two kernels and a memset takes %.2f us of the CPU; in the driver alone %.2f us, in "
         "kernels of %.2f "
         "and %.2f us and a memset of %.2f us; to ask for the state takes %.2f us\n",
         call, together, sumAlone, addAlone, memsetAlone, query);
  EXPECT_LT(call - together, 5);
}

TEST_F(GpuDevice, ThreadsMayLaunchAtOnce) {
  ASSERT_TRUE(launch().ok());
  fill();
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] { // with no context
      for (int j = 0; j < 50; ++j)
        EXPECT_TRUE(launch().ok());
    });
  for (std::thread &thread : threads)
    thread.join();
  expectResult();
}
} // namespace
