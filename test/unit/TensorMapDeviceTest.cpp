//===- TensorMapDeviceTest.cpp - copies through tensor maps on a real GPU ---===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/Environment.h"
#include "runtime/Launch.h"
#include "test/unit/TemporaryDirectory.h"
#include "gtest/gtest.h"
#include <array>

using namespace attn;
using attn::test::TemporaryDirectory;

namespace {
constexpr int boxRows = 128, boxColumns = 64;

/// Copies the box at (column, row, head, batch) and writes it without the swizzle.
const char *const source = R"(
struct alignas(64) TensorMap { unsigned char opaque[128]; };
struct Tensor1 { unsigned short *data; long long strides[1]; int sizes[1]; };
extern "C" __global__ void copy_box(int column, const __grid_constant__ TensorMap map, int row, int head, int batch,
                                    const Tensor1 out) {
  __shared__ alignas(1024) unsigned short box[128 * 64];
  __shared__ alignas(8) unsigned long long barrier;
  const unsigned box_address = unsigned(__cvta_generic_to_shared(box));
  const unsigned barrier_address = unsigned(__cvta_generic_to_shared(&barrier));
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier_address));
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier_address), "n"(128 * 64 * 2));
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(box_address),
                 "l"(&map), "r"(column), "r"(row), "r"(head), "r"(batch), "r"(barrier_address)
                 : "memory");
  }
  __syncthreads();
  unsigned done = 0;
  while (!done)
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(barrier_address) : "memory");
  for (int i = threadIdx.x; i < 128 * 64; i += blockDim.x) {
    const int r = i / 64, c = i % 64;
    out.data[i] = box[r * 64 + (c / 8 ^ r % 8) * 8 + c % 8];
  }
}
)";

LaunchPlan makePlan() {
  LaunchPlan plan;
  plan.name = "copy_box";
  plan.parameters = {
      {"in", ElementType::BF16, false, {anySize(0, 0), anySize(0, 1), anySize(0, 2), anySize(0, 3)}}};
  for (const char *name : {"column", "row", "head", "batch"})
    plan.parameters.push_back({name, ElementType::I32, true, {}});
  plan.results = {{"out", ElementType::I16, {boxRows * boxColumns}}};
  plan.modules = {{"all", source}};
  LaunchSpec launch;
  launch.kernel = "copy_box";
  launch.threads = 128;
  launch.arguments = {
      ArgumentSpec::parameter(1), ArgumentSpec::tensorMap(ArgumentSpec::parameter(0), boxRows, boxColumns),
      ArgumentSpec::parameter(2), ArgumentSpec::parameter(3),
      ArgumentSpec::parameter(4), ArgumentSpec::result(0)};
  plan.variants = {{"only", Expr(1), {}, {launch}}};
  return plan;
}

struct TensorMapDevice : testing::Test {
  void SetUp() override {
    StatusOr<const CudaDriver *> found = CudaDriver::get();
    if (!found.ok())
      GTEST_SKIP() << found.getMessage();
    driver = *found;
    StatusOr<DeviceInfo> device = driver->query(0);
    ASSERT_TRUE(device.ok()) << device.getMessage();
    if (device->major < 9)
      GTEST_SKIP() << device->name << " has no tensor memory accelerator";
    StatusOr<Environment> environment = readEnvironment();
    ASSERT_TRUE(environment.ok());
    environment->cacheDirectory = directory.getPath();
    runtime = *GpuRuntime::create(
        std::make_shared<KernelCompiler>(KernelCompilerOptions::fromEnvironment(*environment)));
    StatusOr<std::unique_ptr<GpuExecutable>> created = GpuExecutable::create(runtime, makePlan(), 0);
    ASSERT_TRUE(created.ok()) << created.getMessage();
    executable = std::move(*created);
    cuda::Context context = nullptr;
    expect(driver->primaryContextRetain(&context, 0));
    expect(driver->contextSetCurrent(context));
    expect(driver->memAlloc(&in, elements * 2));
    expect(driver->memAlloc(&out, boxRows * boxColumns * 2));
    expect(driver->streamCreate(&stream, /*non-blocking=*/1));
    std::vector<uint16_t> values(elements);
    for (int64_t i = 0; i < elements; ++i)
      values[i] = getValue(i);
    expect(driver->memcpyHtoD(in, values.data(), elements * 2));
  }

  void TearDown() override {
    if (!in)
      return;
    expect(driver->memFree(in));
    expect(driver->memFree(out));
    expect(driver->streamDestroy(stream));
  }

  void expect(cuda::Result result) {
    EXPECT_TRUE(driver->check(result, "the driver").ok()) << driver->check(result, "the driver").getMessage();
  }

  /// Bits are copied as they are: all of them, NaNs too, but never those of zero.
  static uint16_t getValue(int64_t i) { return static_cast<uint16_t>(i % 65521 + 1); }

  using Four = std::array<int64_t, 4>;

  Status launch(const Four &sizes, const Four &strides, const std::array<int, 4> &place) {
    std::vector<TensorRef> parameters = {
        {reinterpret_cast<void *>(in), ElementType::BF16, 4, sizes.data(), strides.data(), 0}};
    for (const int &coordinate : place)
      parameters.push_back({const_cast<int *>(&coordinate), ElementType::I32, 0, nullptr, nullptr, 0});
    int64_t size = boxRows * boxColumns, stride = 1;
    return executable->launch(
        parameters, {{reinterpret_cast<void *>(out), ElementType::I16, 1, &size, &stride, 0}}, stream);
  }

  /// The box at `place`, (column, row, head, batch), is that of the tensor, with zeros around it.
  void expectBox(const Four &sizes, const Four &strides, const std::array<int, 4> &place) {
    std::vector<uint16_t> box(boxRows * boxColumns, 0xffff);
    expect(driver->streamSynchronize(stream));
    expect(driver->memcpyDtoH(box.data(), out, box.size() * 2));
    for (int r = 0; r < boxRows; ++r)
      for (int c = 0; c < boxColumns; ++c) {
        int64_t position[] = {place[3], place[2], place[1] + r, place[0] + c}, offset = 0;
        bool isInside = true;
        for (int i = 0; i < 4; ++i) {
          isInside &= position[i] >= 0 && position[i] < sizes[i];
          offset += sizes[i] == 1 ? 0 : position[i] * strides[i];
        }
        ASSERT_EQ(box[r * boxColumns + c], isInside ? getValue(offset) : 0)
            << "row " << r << ", column " << c;
      }
  }

  void check(const Four &sizes, const Four &strides, const std::array<int, 4> &place) {
    expect(driver->memsetD8Async(out, 0xff, boxRows * boxColumns * 2, stream));
    Status status = launch(sizes, strides, place);
    ASSERT_TRUE(status.ok()) << status.getMessage();
    expectBox(sizes, strides, place);
  }

  const int64_t elements = 1 << 20;
  const CudaDriver *driver = nullptr;
  TemporaryDirectory directory;
  std::shared_ptr<GpuRuntime> runtime;
  std::unique_ptr<GpuExecutable> executable;
  cuda::DevicePointer in = 0, out = 0;
  cuda::Stream stream = nullptr;
};

TEST_F(TensorMapDevice, CopiesBoxesAndFillsWithZeros) {
  Four sizes = {2, 3, 300, 128}, strides = {115200, 38400, 128, 1};
  for (int row : {0, 128, 256, 299, 300, 1000, -5})
    for (int column : {0, 64})
      check(sizes, strides, {column, row, 2, 1});
  check(sizes, strides, {0, 0, 3, 1});
  for (int64_t dim : {1, 32, 60, 96, 128}) // fewer columns than one box or two have
    for (int column : {0, 64})
      check({2, 3, 129, dim}, strides, {column, 2, 1, 1});
}

TEST_F(TensorMapDevice, StridesAreFree) {
  check({2, 3, 300, 64}, {57600, 64, 192, 1}, {0, 150, 2, 1});  // (batch, length, heads, dim)
  check({2, 3, 300, 64}, {64, 38400, 128, 1}, {0, 150, 2, 1});  // the batch innermost
  check({2, 3, 300, 64}, {192, 64, 384, 1}, {0, 299, 2, 1});    // the length outermost
  check({2, 3, 300, 64}, {57600, 19200, 8, 1}, {0, 100, 2, 1}); // rows overlap
  // Whatever a dimension of size 1 says.
  for (int64_t stride : {int64_t(0), int64_t(1), int64_t(-5), INT64_MAX}) {
    check({1, 3, 300, 64}, {stride, 19200, 64, 1}, {0, 100, 2, 0});
    check({2, 1, 300, 64}, {19200, stride, 64, 1}, {0, 100, 0, 1});
    check({2, 3, 1, 64}, {192, 64, stride, 1}, {0, 0, 2, 1});
    check({1, 1, 1, 1}, {stride, stride, stride, stride}, {0, 0, 0, 0});
  }
}

TEST_F(TensorMapDevice, Broadcasts) {
  check({2, 3, 300, 64}, {19200, 0, 64, 1}, {0, 100, 2, 1});
  check({2, 3, 300, 64}, {0, 19200, 64, 1}, {0, 100, 2, 1});
  check({2, 3, 300, 64}, {192, 64, 0, 1}, {0, 200, 2, 1});
  check({2, 3, 300, 64}, {0, 0, 0, 1}, {0, 200, 2, 1});
}

TEST_F(TensorMapDevice, GraphsKeepTheMap) {
  Four sizes = {2, 3, 300, 64}, strides = {57600, 19200, 64, 1};
  std::array<int, 4> place = {0, 250, 1, 1};
  cuda::Graph graph = nullptr;
  cuda::GraphExec replay = nullptr;
  expect(driver->streamBeginCapture(stream, cuda::CaptureGlobal));
  EXPECT_TRUE(launch(sizes, strides, place).ok());
  expect(driver->streamEndCapture(stream, &graph));
  expect(driver->graphInstantiate(&replay, graph, 0));
  check({1, 1, 8, 64}, {512, 512, 64, 1}, {0, 0, 0, 0});
  expect(driver->graphLaunch(replay, stream));
  expectBox(sizes, strides, place);
  expect(driver->graphExecDestroy(replay));
  expect(driver->graphDestroy(graph));
}
} // namespace
