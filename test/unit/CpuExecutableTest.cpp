//===- CpuExecutableTest.cpp - modules compiled and run on this machine ------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CpuExecutableTest.h"
#include <thread>

using namespace mlir;
using namespace attn;

namespace {
//===----------------------------------------------------------------------===//
// Whole functions
//===----------------------------------------------------------------------===//

constexpr StringLiteral kMatmul = R"mlir(
func.func @matmul(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = tensor.dim %a, %c0 : tensor<?x?xf32>
  %n = tensor.dim %b, %c1 : tensor<?x?xf32>
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty(%m, %n) : tensor<?x?xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<?x?xf32>) -> tensor<?x?xf32>
  %r = linalg.matmul ins(%a, %b : tensor<?x?xf32>, tensor<?x?xf32>) outs(%init : tensor<?x?xf32>) -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
})mlir";

TEST_F(CpuExecutableTest, Matmul) {
  for (Arch arch : getArchs()) {
    auto executable = compile(kMatmul, forArch(arch));
    for (auto [m, k, n] :
         {std::array<int64_t, 3>{1, 1, 1}, {17, 5, 31}, {64, 64, 64}, {3, 0, 7}, {0, 3, 5}}) {
      Tensor<float> a(b.getF32Type(), {m, k}, 3), x(b.getF32Type(), {k, n}), r(b.getF32Type(), {m, n}, 2);
      a.fillNormal(1);
      x.fillNormal(2);
      std::vector<float> aBefore = a.values;
      EXPECT_RUNS(executable->run("matmul", {a.ref, x.ref}, {r.ref}));
      EXPECT_EQ(std::memcmp(aBefore.data(), a.values.data(), aBefore.size() * 4), 0)
          << "an input was written";
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          double sum = 0;
          for (int64_t c = 0; c < k; ++c)
            sum += double(a.at(i, c)) * x.at(c, j);
          ASSERT_NEAR(r.at(i, j), sum, 1e-4) << stringifyArch(arch).str() << " " << i << " " << j;
        }
        ASSERT_TRUE(std::isnan(r.at(i, n))) << "padding was written";
      }
    }
  }
}

/// Work of a loop over blocks of rows, each with a buffer on the stack, a value from outside and a nested
/// parallel loop.
constexpr StringLiteral kForall = R"mlir(
func.func @f(%x: tensor<?x?xf32>, %offset: f32, %step: index) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = tensor.dim %x, %c0 : tensor<?x?xf32>
  %n = tensor.dim %x, %c1 : tensor<?x?xf32>
  %in = bufferization.to_buffer %x read_only : tensor<?x?xf32> to memref<?x?xf32, strided<[?, 1], offset: ?>>
  %out = memref.alloc(%m, %n) : memref<?x?xf32>
  scf.forall (%i, %j) = (0, 0) to (%m, %n) step (1, %step) {
    %tmp = memref.alloca() : memref<1xf32>
    %left = arith.subi %n, %j : index
    %size = arith.minsi %left, %step : index
    scf.forall (%k) in (%size) {
      %column = arith.addi %j, %k : index
      %value = memref.load %in[%i, %column] : memref<?x?xf32, strided<[?, 1], offset: ?>>
      %moved = arith.addf %value, %offset : f32
      memref.store %moved, %tmp[%c0] : memref<1xf32>
      %again = memref.load %tmp[%c0] : memref<1xf32>
      memref.store %again, %out[%i, %column] : memref<?x?xf32>
    }
  }
  %r = bufferization.to_tensor %out restrict writable : memref<?x?xf32> to tensor<?x?xf32>
  return %r : tensor<?x?xf32>
})mlir";

TEST_F(CpuExecutableTest, ParallelLoop) {
  for (int numThreads : {1, 2, 5}) {
    CpuCompileOptions options;
    options.numThreads = numThreads;
    auto executable = compile(kForall, options);
    for (auto [m, n, step] :
         {std::array<int64_t, 3>{1, 1, 1}, {7, 13, 4}, {128, 61, 16}, {0, 5, 3}, {5, 0, 3}}) {
      Tensor<float> x(b.getF32Type(), {m, n}), r(b.getF32Type(), {m, n}, 1);
      x.fillNormal(3);
      float offset = 0.5;
      EXPECT_RUNS(executable->run(
          "f", {x.ref, ScalarRef{&offset, b.getF32Type()}, ScalarRef{&step, b.getIndexType()}}, {r.ref}));
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j)
          ASSERT_EQ(r.at(i, j), x.at(i, j) + offset) << i << " " << j;
    }
  }
}

TEST_F(CpuExecutableTest, CallsFromSeveralThreads) {
  auto executable = compile(kForall);
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller)
    callers.emplace_back([&, caller] {
      for (int round = 0; round < 50; ++round) {
        Tensor<float> x(b.getF32Type(), {33, 17}), r(b.getF32Type(), {33, 17});
        x.fillNormal(caller);
        float offset = caller;
        int64_t step = 5;
        EXPECT_RUNS(executable->run(
            "f", {x.ref, ScalarRef{&offset, b.getF32Type()}, ScalarRef{&step, b.getIndexType()}}, {r.ref}));
        for (int64_t i = 0; i < 33 * 17; ++i)
          ASSERT_EQ(r.values[i], x.values[i] + offset);
      }
    });
  for (std::thread &caller : callers)
    caller.join();
}

TEST_F(CpuExecutableTest, ArgumentsAndTheSameValueAsResults) {
  auto executable = compile(R"mlir(
    func.func @f(%x: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<f32>) {
      %c0 = arith.constant 0 : index
      %n = tensor.dim %x, %c0 : tensor<?xf32>
      %two = arith.constant 2.0 : f32
      %empty = tensor.empty(%n) : tensor<?xf32>
      %filled = linalg.fill ins(%two : f32) outs(%empty : tensor<?xf32>) -> tensor<?xf32>
      %scalar = tensor.from_elements %two : tensor<f32>
      return %x, %filled, %filled, %scalar : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<f32>
    })mlir");
  Type f32 = b.getF32Type();
  Tensor<float> x(f32, {5}), copy(f32, {5}), first(f32, {5}), second(f32, {5}), scalar(f32, {});
  x.fillNormal(4);
  EXPECT_RUNS(executable->run("f", {x.ref}, {copy.ref, first.ref, second.ref, scalar.ref}));
  EXPECT_EQ(copy.values, x.values);
  EXPECT_EQ(first.values, std::vector<float>(5, 2.0f));
  EXPECT_EQ(second.values, std::vector<float>(5, 2.0f));
  EXPECT_EQ(scalar.values, std::vector<float>(1, 2.0f));
}

TEST_F(CpuExecutableTest, FunctionNamedLikeOneOfLibm) {
  auto executable = compile(R"mlir(
    func.func @log1p(%x: tensor<1xf64>) -> tensor<1xf64> {
      %c0 = arith.constant 0 : index
      %s = tensor.extract %x[%c0] : tensor<1xf64>
      %r = math.exp %s : f64
      %t = tensor.from_elements %r : tensor<1xf64>
      return %t : tensor<1xf64>
    })mlir");
  Tensor<double> x(b.getF64Type(), {1}), r(b.getF64Type(), {1});
  x.values[0] = 1;
  EXPECT_RUNS(executable->run("log1p", {x.ref}, {r.ref}));
  EXPECT_DOUBLE_EQ(r.values[0], std::exp(1.0));
}

//===----------------------------------------------------------------------===//
// Machine code
//===----------------------------------------------------------------------===//

TEST_F(CpuExecutableTest, AssemblyHasPackedFmaOfTheTargetsWidth) {
  constexpr StringLiteral outerProduct = R"mlir(
    func.func @f(%a: tensor<?x8xf32>, %b: tensor<?x32xf32>) -> tensor<8x32xf32> {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %zero = arith.constant 0.0 : f32
      %n = tensor.dim %a, %c0 : tensor<?x8xf32>
      %init = arith.constant dense<0.0> : vector<8x32xf32>
      %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %init) -> vector<8x32xf32> {
        %u = vector.transfer_read %a[%i, %c0], %zero {in_bounds = [true]} : tensor<?x8xf32>, vector<8xf32>
        %v = vector.transfer_read %b[%i, %c0], %zero {in_bounds = [true]} : tensor<?x32xf32>, vector<32xf32>
        %next = vector.outerproduct %u, %v, %acc {kind = #vector.kind<add>} : vector<8xf32>, vector<32xf32>
        scf.yield %next : vector<8x32xf32>
      }
      %empty = tensor.empty() : tensor<8x32xf32>
      %t = vector.transfer_write %r, %empty[%c0, %c0] {in_bounds = [true, true]} : vector<8x32xf32>, tensor<8x32xf32>
      return %t : tensor<8x32xf32>
    })mlir";
  for (Arch arch : {Arch::x86_64_v3, Arch::x86_64_v4}) {
    if (!canRunOnHost(arch))
      GTEST_SKIP() << "this machine has no " << stringifyArch(arch).str();
    CpuCompileOptions options = forArch(arch);
    options.keepAssembly = true;
    auto executable = compile(outerProduct, options);
    StringRef assembly = llvm::cantFail(executable->getAssembly());
    size_t numFmas = assembly.count("vfmadd231ps");
    EXPECT_EQ(numFmas, arch == Arch::x86_64_v4 ? 16u : 32u) << assembly.str();
    EXPECT_EQ(assembly.contains("zmm"), arch == Arch::x86_64_v4);
    EXPECT_FALSE(assembly.contains("vmulps")) << "a product and a sum were not fused";

    Tensor<float> a(b.getF32Type(), {7, 8}), x(b.getF32Type(), {7, 32}), r(b.getF32Type(), {8, 32});
    a.fillNormal(5);
    x.fillNormal(6);
    EXPECT_RUNS(executable->run("f", {a.ref, x.ref}, {r.ref}));
    for (int64_t i = 0; i < 8; ++i)
      for (int64_t j = 0; j < 32; ++j) {
        double sum = 0;
        for (int64_t c = 0; c < 7; ++c)
          sum += double(a.at(c, i)) * x.at(c, j);
        ASSERT_NEAR(r.at(i, j), sum, 1e-5);
      }
  }
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

TEST_F(CpuExecutableTest, RefusesWrongArguments) {
  auto executable = compile(R"mlir(
    func.func @f(%x: tensor<?x4xf32>, %s: f32) -> tensor<?x4xf32> {
      return %x : tensor<?x4xf32>
    })mlir");
  Type f32 = b.getF32Type();
  float s = 1;
  ScalarRef scalar{&s, f32};
  Tensor<float> x(f32, {2, 4}), r(f32, {2, 4});
  auto run = [&](ArrayRef<Argument> arguments, ArrayRef<BufferRef> results) {
    return messageOf(executable->run("f", arguments, results));
  };
  EXPECT_EQ(run({x.ref, scalar}, {r.ref}), "");
  EXPECT_EQ(messageOf(executable->run("g", {}, {})), "there is no public function @g");
  EXPECT_EQ(run({x.ref}, {r.ref}), "@f: expected 2 arguments, got 1");
  EXPECT_EQ(run({x.ref, scalar}, {}), "@f: expected buffers for 1 results, got 0");
  EXPECT_EQ(run({scalar, scalar}, {r.ref}),
            "argument 0 of @f: expected a tensor of type tensor<?x4xf32>, got a scalar");
  EXPECT_EQ(run({x.ref, x.ref}, {r.ref}), "argument 1 of @f: expected a scalar of type f32, got a tensor");
  EXPECT_EQ(run({x.ref, ScalarRef{&s, b.getI32Type()}}, {r.ref}),
            "argument 1 of @f: expected a scalar of type f32, got i32");
  EXPECT_EQ(run({x.ref, ScalarRef{nullptr, f32}}, {r.ref}), "argument 1 of @f: has no data");

  auto changed = [&](auto change) {
    BufferRef ref = x.ref;
    change(ref);
    return run({ref, scalar}, {r.ref});
  };
  EXPECT_EQ(changed([&](BufferRef &ref) { ref.elementType = b.getBF16Type(); }),
            "argument 0 of @f: expected elements of type f32, got bf16");
  EXPECT_EQ(changed([](BufferRef &ref) { ref.shape = {8}; }),
            "argument 0 of @f: expected 2 dimensions, got 1 sizes and 2 strides");
  EXPECT_EQ(changed([](BufferRef &ref) { ref.shape = {2, 3}; }),
            "argument 0 of @f: expected size 4 in dimension 1, got 3");
  EXPECT_EQ(changed([](BufferRef &ref) { ref.shape = {-1, 4}; }),
            "argument 0 of @f: expected a size from 0 to 2147483647 in dimension 0, got -1");
  EXPECT_EQ(changed([](BufferRef &ref) { ref.shape[0] = int64_t(1) << 31; }),
            "argument 0 of @f: expected a size from 0 to 2147483647 in dimension 0, got 2147483648");
  EXPECT_EQ(
      changed([](BufferRef &ref) { ref.strides = {8, 2}; }),
      "argument 0 of @f: expected a last stride of 1, got 2; copy it so that rows are consecutive elements");
  EXPECT_EQ(changed([](BufferRef &ref) { ref.data = nullptr; }),
            "argument 0 of @f: has elements, but no data");
  EXPECT_EQ(changed([](BufferRef &ref) { ref.data = static_cast<char *>(ref.data) + 1; }),
            "argument 0 of @f: expected data aligned to its elements of 4 bytes");
  BufferRef wrong = r.ref;
  wrong.elementType = b.getF64Type();
  EXPECT_EQ(run({x.ref, scalar}, {wrong}), "result 0 of @f: expected elements of type f32, got f64");
}

/// A smaller buffer would be written past its end, a larger one filled in part.
TEST_F(CpuExecutableTest, RefusesResultsOfOtherSizes) {
  auto executable = compile(R"mlir(
    func.func @slice(%x: tensor<?x4xf32>, %n: index) -> tensor<?x4xf32> {
      %part = tensor.extract_slice %x[0, 0] [%n, 4] [1, 1] : tensor<?x4xf32> to tensor<?x4xf32>
      return %part : tensor<?x4xf32>
    }
    func.func @attention(%q: tensor<1x2x?x4xf32>, %k: tensor<1x1x?x4xf32>) -> (tensor<1x2x?x4xf32>, tensor<1x2x?xf32>) {
      %out, %lse = attn.attention %q, %k, %k
        : (tensor<1x2x?x4xf32>, tensor<1x1x?x4xf32>, tensor<1x1x?x4xf32>) -> (tensor<1x2x?x4xf32>, tensor<1x2x?xf32>)
      return %out, %lse : tensor<1x2x?x4xf32>, tensor<1x2x?xf32>
    })mlir");
  Type f32 = b.getF32Type();
  Tensor<float> x(f32, {5, 4}), two(f32, {2, 4}), three(f32, {3, 4});
  int64_t n = 3;
  ScalarRef scalar{&n, b.getIndexType()};
  EXPECT_RUNS(executable->run("slice", {x.ref, scalar}, {three.ref}));
  EXPECT_EQ(messageOf(executable->run("slice", {x.ref, scalar}, {two.ref})),
            "result 0 of @slice: expected size 3 in dimension 0 for these arguments, got 2");

  Tensor<float> q(f32, {1, 2, 7, 4}), k(f32, {1, 1, 9, 4}), out(f32, {1, 2, 7, 4}), lse(f32, {1, 2, 7}),
      ofKeys(f32, {1, 2, 9});
  q.fillNormal(1);
  k.fillNormal(2);
  EXPECT_RUNS(executable->run("attention", {q.ref, k.ref}, {out.ref, lse.ref}));
  EXPECT_EQ(messageOf(executable->run("attention", {q.ref, k.ref}, {out.ref, ofKeys.ref})),
            "result 1 of @attention: expected size 7 in dimension 2 for these arguments, got 9");
}

TEST_F(CpuExecutableTest, RefusesWhatItCannotCompile) {
  EXPECT_EQ(messageOf(tryCompile(kMatmul, forArch(Arch::sm_90a)).takeError()),
            "target sm_90a is not a CPU; expected host, x86-64, x86-64-v3, x86-64-v4 or aarch64");
  expectErrorContaining(
      tryCompile("func.func @f(%x: tensor<*xf32>) -> tensor<*xf32> { return %x : tensor<*xf32> }"),
      "takes or returns a tensor without a rank");
  expectErrorContaining(tryCompile(R"mlir(
    func.func @f(%x: tensor<4xf8E4M3FN>) -> tensor<4xf32> {
      %c0 = arith.constant 0 : index
      %s = tensor.extract %x[%c0] : tensor<4xf8E4M3FN>
      %w = arith.extf %s : f8E4M3FN to f32
      %r = tensor.splat %w : tensor<4xf32>
      return %r : tensor<4xf32>
    })mlir"),
                        "'arith.extf' is left at the end of the CPU pipeline");
  expectErrorContaining(tryCompile(R"mlir(
    func.func private @use(memref<?xf32>)
    func.func @f(%x: memref<?xf32>, %n: index) {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      scf.for %i = %c0 to %n step %c1 {
        %tmp = memref.alloca(%i) : memref<?xf32>
        %v = memref.load %x[%i] : memref<?xf32>
        memref.store %v, %tmp[%c0] : memref<?xf32>
        func.call @use(%tmp) : (memref<?xf32>) -> ()
      }
      return
    })mlir"),
                        "would grow the stack in every iteration");
}

TEST_F(CpuExecutableTest, RefusesCallsOfUnknownFunctions) {
  expectErrorContaining(tryCompile(R"mlir(
    func.func private @nowhere(f32) -> f32
    func.func @f(%x: f32, %out: memref<f32>) {
      %y = call @nowhere(%x) : (f32) -> f32
      memref.store %y, %out[] : memref<f32>
      return
    })mlir"),
                        "nowhere");
}

TEST_F(CpuExecutableTest, NamesOfTargets) {
  EXPECT_EQ(llvm::cantFail(parseTarget(&context, "host")), getHostTarget(&context));
  EXPECT_TRUE(canRunOnHost(getHostTarget(&context).getArch()));
  TargetAttr v3 = llvm::cantFail(parseTarget(&context, "x86-64-v3"));
  EXPECT_EQ(v3.getArch(), Arch::x86_64_v3);
  EXPECT_EQ(v3.getVectorBits(), 256);
  EXPECT_EQ(llvm::cantFail(parseTarget(&context, "x86_64_v4")).getArch(), Arch::x86_64_v4);
  EXPECT_EQ(messageOf(parseTarget(&context, "vax").takeError()),
            "unknown target 'vax', expected host, x86-64, x86-64-v3, x86-64-v4 or aarch64, or a GPU's sm_…");
}
} // namespace
