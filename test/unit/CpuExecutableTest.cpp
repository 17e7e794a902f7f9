//===- CpuExecutableTest.cpp - modules compiled and run on this machine ------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/jit/CpuExecutable.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Parser/Parser.h"
#include "passes/Targets.h"
#include "runtime/jit/HostTarget.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"
#include <cfloat>
#include <cmath>
#include <random>
#include <thread>

using namespace mlir;
using namespace attn;

namespace {
/// A row-major tensor in memory whose rows may be `pad` elements longer than they seem; starts as NaN or -1.
template <typename T>
struct Tensor {
  Tensor(Type elementType, SmallVector<int64_t> shape, int64_t pad = 0)
      : ref{nullptr, shape, shape, elementType} {
    int64_t stride = 1;
    for (int64_t dim = shape.size() - 1; dim >= 0; --dim) {
      ref.strides[dim] = stride;
      stride *= shape[dim] + (dim + 1 == static_cast<int64_t>(shape.size()) ? pad : 0);
    }
    values.resize(std::max<int64_t>(stride, 1), std::is_floating_point_v<T> ? T(NAN) : T(-1));
    ref.data = values.data();
  }
  T &at(int64_t i, int64_t j) { return values[i * ref.strides[0] + j]; }
  void fillNormal(unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (T &value : values)
      value = normal(random);
  }

  BufferRef ref;
  std::vector<T> values;
};

struct CpuExecutableTest : testing::Test {
  CpuExecutableTest() {
    context.loadDialect<AttnDialect, arith::ArithDialect, bufferization::BufferizationDialect,
                        func::FuncDialect, linalg::LinalgDialect, math::MathDialect, memref::MemRefDialect,
                        scf::SCFDialect, tensor::TensorDialect, vector::VectorDialect>();
    context.printOpOnDiagnostic(false);
  }

  llvm::Expected<std::unique_ptr<CpuExecutable>> tryCompile(StringRef text, CpuCompileOptions options = {}) {
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    if (!module)
      return llvm::createStringError("the test's module does not parse");
    return CpuExecutable::compile(*module, options);
  }
  std::unique_ptr<CpuExecutable> compile(StringRef text, CpuCompileOptions options = {}) {
    return llvm::cantFail(tryCompile(text, options));
  }
  /// All CPU architectures that this machine runs.
  SmallVector<Arch> getArchs() {
    SmallVector<Arch> archs;
    for (Arch arch : {Arch::x86_64, Arch::x86_64_v3, Arch::x86_64_v4, Arch::aarch64})
      if (canRunOnHost(arch))
        archs.push_back(arch);
    return archs;
  }
  CpuCompileOptions forArch(Arch arch) {
    CpuCompileOptions options;
    options.target = getNamedTarget(&context, arch);
    return options;
  }
  static std::string messageOf(llvm::Error error) { return llvm::toString(std::move(error)); }

  MLIRContext context;
  Builder b{&context};
};

#define EXPECT_RUNS(error)                                                                                   \
  do {                                                                                                       \
    if (llvm::Error e = (error))                                                                             \
      FAIL() << llvm::toString(std::move(e));                                                                \
  } while (false)

template <typename T>
void expectErrorContaining(llvm::Expected<T> result, StringRef part) {
  ASSERT_FALSE(static_cast<bool>(result));
  std::string message = llvm::toString(result.takeError());
  EXPECT_TRUE(StringRef(message).contains(part)) << message;
  EXPECT_FALSE(StringRef(message).contains('\n')) << message;
}

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
// Small floats
//===----------------------------------------------------------------------===//

uint32_t bitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}
float floatOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

/// Values whose rounding to a smaller type is of interest, and random bits.
std::vector<float> getRoundingCases() {
  std::vector<float> cases = {0.0f, -0.0f, 1.0f,     -1.0f,    INFINITY, -INFINITY,
                              NAN,  -NAN,  65504.0f, 65519.0f, 65520.0f};
  for (uint32_t bits : {0x3f808000u, 0x3f818000u, 0x3f808001u, 0x3f807fffu, 0x7f7fffffu, 0x7f7f8000u,
                        0x7f7f7fffu, 0x00000001u, 0x00008000u, 0x00018000u, 0x007fffffu, 0x7f800001u,
                        0xff800001u, 0x7fffffffu, 0x33000000u, 0x33000001u, 0x387fc000u, 0x387fe000u})
    cases.push_back(floatOf(bits));
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i)
    cases.push_back(floatOf(random()));
  return cases;
}

/// `value` rounded by LLVM's software floating point, as the bits of a `semantics` number.
uint16_t roundTo(const llvm::fltSemantics &semantics, float value) {
  llvm::APFloat number(value);
  bool losesInfo;
  number.convert(semantics, llvm::APFloat::rmNearestTiesToEven, &losesInfo);
  return number.bitcastToAPInt().getZExtValue();
}

TEST_F(CpuExecutableTest, SmallFloats) {
  std::vector<float> cases = getRoundingCases();
  int64_t n = cases.size();
  for (Arch arch : getArchs()) {
    for (FloatType type : {FloatType(b.getBF16Type()), FloatType(b.getF16Type())}) {
      std::string name = type.isBF16() ? "bf16" : "f16";
      std::string text = R"mlir(
        func.func @round(%x: tensor<?xf32>) -> tensor<?xT> {
          %c0 = arith.constant 0 : index
          %n = tensor.dim %x, %c0 : tensor<?xf32>
          %empty = tensor.empty(%n) : tensor<?xT>
          %r = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
                               iterator_types = ["parallel"]} ins(%x : tensor<?xf32>) outs(%empty : tensor<?xT>) {
          ^bb0(%a: f32, %b: T):
            %t = arith.truncf %a : f32 to T
            linalg.yield %t : T
          } -> tensor<?xT>
          return %r : tensor<?xT>
        }
        func.func @widen(%x: tensor<65536xT>) -> tensor<65536xf32> {
          %empty = tensor.empty() : tensor<65536xf32>
          %r = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
                               iterator_types = ["parallel"]} ins(%x : tensor<65536xT>) outs(%empty : tensor<65536xf32>) {
          ^bb0(%a: T, %b: f32):
            %t = arith.extf %a : T to f32
            linalg.yield %t : f32
          } -> tensor<65536xf32>
          return %r : tensor<65536xf32>
        }
        func.func @sum(%x: tensor<65536xT>) -> tensor<65536xT> {
          %empty = tensor.empty() : tensor<65536xT>
          %r = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
                               iterator_types = ["parallel"]} ins(%x : tensor<65536xT>) outs(%empty : tensor<65536xT>) {
          ^bb0(%a: T, %b: T):
            %one = arith.constant 1.0 : T
            %t = arith.addf %a, %one : T
            %e = math.exp %t : T
            linalg.yield %e : T
          } -> tensor<65536xT>
          return %r : tensor<65536xT>
        })mlir";
      for (size_t at; (at = text.find("xT>")) != std::string::npos;)
        text.replace(at + 1, 1, name);
      for (const char *place : {": T)", ": T,", ": T\n", " T to ", " to T\n"})
        for (size_t at; (at = text.find(place)) != std::string::npos;)
          text.replace(at + StringRef(place).find('T'), 1, name);
      auto executable = compile(text, forArch(arch));
      SCOPED_TRACE(stringifyArch(arch).str() + " " + name);

      Tensor<float> x(b.getF32Type(), {n});
      x.values = cases;
      x.ref.data = x.values.data();
      Tensor<uint16_t> rounded(type, {n});
      EXPECT_RUNS(executable->run("round", {x.ref}, {rounded.ref}));
      for (int64_t i = 0; i < n; ++i) {
        uint16_t expected = roundTo(type.getFloatSemantics(), cases[i]);
        if (std::isnan(cases[i]))
          ASSERT_TRUE(llvm::APFloat(type.getFloatSemantics(), llvm::APInt(16, rounded.values[i])).isNaN())
              << std::hex << bitsOf(cases[i]) << " " << rounded.values[i];
        else
          ASSERT_EQ(rounded.values[i], expected) << std::hex << bitsOf(cases[i]);
      }

      Tensor<uint16_t> all(type, {65536}), sums(type, {65536});
      Tensor<float> widened(b.getF32Type(), {65536});
      for (int64_t i = 0; i < 65536; ++i)
        all.values[i] = i;
      EXPECT_RUNS(executable->run("widen", {all.ref}, {widened.ref}));
      EXPECT_RUNS(executable->run("sum", {all.ref}, {sums.ref}));
      for (int64_t i = 0; i < 65536; ++i) {
        llvm::APFloat number(type.getFloatSemantics(), llvm::APInt(16, i));
        float expected = number.convertToFloat();
        if (std::isnan(expected)) {
          ASSERT_TRUE(std::isnan(widened.values[i])) << i;
          ASSERT_TRUE(llvm::APFloat(type.getFloatSemantics(), llvm::APInt(16, sums.values[i])).isNaN()) << i;
          continue;
        }
        ASSERT_EQ(bitsOf(widened.values[i]), bitsOf(expected)) << i;
        // The sum and the exponential are each rounded to the small type.
        uint16_t sum = roundTo(type.getFloatSemantics(), expected + 1.0f);
        float power =
            std::exp(llvm::APFloat(type.getFloatSemantics(), llvm::APInt(16, sum)).convertToFloat());
        if (power < 0x1p-125f)
          power = 0;
        ASSERT_LE(std::abs(sums.values[i] - roundTo(type.getFloatSemantics(), power)), 1) << i;
      }
    }
  }
}

/// A scalar goes through the arguments of the function and the context of its parallel loop.
TEST_F(CpuExecutableTest, SmallScalars) {
  for (Arch arch : getArchs())
    for (StringRef name : {"bf16", "f16"}) {
      std::string text = R"mlir(
        func.func @f(%a: f32, %x: T, %n: index) -> tensor<?xf32> {
          %out = memref.alloc(%n) : memref<?xf32>
          scf.forall (%i) in (%n) {
            %wide = arith.extf %x : T to f32
            %sum = arith.addf %wide, %a : f32
            memref.store %sum, %out[%i] : memref<?xf32>
          }
          %r = bufferization.to_tensor %out restrict writable : memref<?xf32> to tensor<?xf32>
          return %r : tensor<?xf32>
        })mlir";
      for (size_t at; (at = text.find(" T")) != std::string::npos;)
        text.replace(at, 2, " " + name.str());
      auto executable = compile(text, forArch(arch));
      Type type = name == "bf16" ? Type(b.getBF16Type()) : Type(b.getF16Type());
      uint16_t minusThree = name == "bf16" ? 0xc040 : 0xc200;
      float one = 1;
      int64_t n = 3;
      Tensor<float> r(b.getF32Type(), {n});
      EXPECT_RUNS(executable->run(
          "f",
          {ScalarRef{&one, b.getF32Type()}, ScalarRef{&minusThree, type}, ScalarRef{&n, b.getIndexType()}},
          {r.ref}));
      EXPECT_EQ(r.values, std::vector<float>(3, -2.0f)) << stringifyArch(arch).str() << " " << name.str();
    }
}

//===----------------------------------------------------------------------===//
// Mathematical functions
//===----------------------------------------------------------------------===//

/// Distance of `got` from `exact` in units in the last place of f32 at `exact`; infinite for a wrong special
/// value.
double getUlps(float got, double exact) {
  float rounded = static_cast<float>(exact);
  if (std::isnan(rounded) || std::isnan(got))
    return std::isnan(rounded) && std::isnan(got) ? 0 : INFINITY;
  if (std::isinf(rounded) || std::isinf(got))
    return rounded == got ? 0 : INFINITY;
  int exponent;
  std::frexp(exact, &exponent);
  return std::fabs(got - exact) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

/// A function that computes `math.name` of each element, one at a time or 16.
std::string getElementwiseFunction(StringRef name, bool vectors) {
  constexpr const char *head = R"mlir(
    func.func @{0}_{1}(%x: tensor<?xf32>) -> tensor<?xf32> {{
      %c0 = arith.constant 0 : index
      %step = arith.constant {2} : index
      %n = tensor.dim %x, %c0 : tensor<?xf32>
      %in = bufferization.to_buffer %x read_only : tensor<?xf32> to memref<?xf32, strided<[1], offset: ?>>
      %out = memref.alloc(%n) : memref<?xf32>
      scf.for %i = %c0 to %n step %step {{)mlir";
  constexpr const char *vectorBody = R"mlir(
        %v = vector.load %in[%i] : memref<?xf32, strided<[1], offset: ?>>, vector<16xf32>
        %f = math.{0} %v : vector<16xf32>
        vector.store %f, %out[%i] : memref<?xf32>, vector<16xf32>)mlir";
  constexpr const char *scalarBody = R"mlir(
        %v = memref.load %in[%i] : memref<?xf32, strided<[1], offset: ?>>
        %f = math.{0} %v : f32
        memref.store %f, %out[%i] : memref<?xf32>)mlir";
  constexpr const char *tail = R"mlir(
      }
      %r = bufferization.to_tensor %out restrict writable : memref<?xf32> to tensor<?xf32>
      return %r : tensor<?xf32>
    })mlir";
  return llvm::formatv(head, name, vectors ? "vectors" : "scalars", vectors ? 16 : 1).str() +
         llvm::formatv(vectors ? vectorBody : scalarBody, name).str() + tail;
}

TEST_F(CpuExecutableTest, MathFunctions) {
  struct Function {
    const char *name;
    double (*exact)(double);
    double maxUlps;
    bool flushes; // results below 2^-125 are 0
  };
  const Function functions[] = {
      {"exp", std::exp, 1.25, true},     {"exp2", std::exp2, 1.25, true},   {"log", std::log, 1.0, false},
      {"log2", std::log2, 1.5, false},   {"tanh", std::tanh, 1.5, false},   {"sin", std::sin, 1.0, false},
      {"log1p", std::log1p, 1.0, false}, {"expm1", std::expm1, 1.0, false}, {"erf", std::erf, 1.0, false},
      {"sqrt", std::sqrt, 0.5, false},   {"atan", std::atan, 1.0, false}};
  std::vector<float> inputs = {
      -INFINITY,   INFINITY,  NAN,       0.0f,   -0.0f,      1.0f,        -1.0f,       88.72283f, 88.722840f,
      -86.643394f, -87.3366f, -103.972f, 1e30f,  -1e30f,     128.0f,      127.99999f,  0x1p-126f, 0x1p-149f,
      -0x1p-149f,  FLT_MAX,   -FLT_MAX,  0.625f, 1.0000001f, 0.99999994f, 0.62499994f, -125.5f,   0x1p-127f};
  for (uint64_t bits = 0; bits < (uint64_t(1) << 32); bits += 16381)
    inputs.push_back(floatOf(bits));
  inputs.resize(llvm::alignTo(inputs.size(), 16), 1.0f);
  int64_t n = inputs.size();

  std::string text;
  for (const Function &function : functions)
    for (bool vectors : {false, true})
      text += getElementwiseFunction(function.name, vectors);
  for (Arch arch : getArchs()) {
    auto executable = compile(text, forArch(arch));
    for (const Function &function : functions)
      for (const char *form : {"_scalars", "_vectors"}) {
        std::string name = std::string(function.name) + form;
        Tensor<float> x(b.getF32Type(), {n}), r(b.getF32Type(), {n});
        std::copy(inputs.begin(), inputs.end(), x.values.begin());
        EXPECT_RUNS(executable->run(name, {x.ref}, {r.ref}));
        for (int64_t i = 0; i < n; ++i) {
          double exact = function.exact(inputs[i]);
          if (!function.flushes || exact >= 0x1p-125 || r.values[i] != 0)
            ASSERT_LE(getUlps(r.values[i], exact), function.maxUlps)
                << stringifyArch(arch).str() << " " << name << "(" << inputs[i] << ") gave " << r.values[i];
        }
        if (function.flushes)
          ASSERT_EQ(bitsOf(r.values[0]), 0u) << name << " of -inf";
      }
  }
}

TEST_F(CpuExecutableTest, MathFunctionsOfF64) {
  auto executable = compile(R"mlir(
    func.func @f(%x: tensor<4xf64>) -> tensor<4xf64> {
      %c0 = arith.constant 0 : index
      %zero = arith.constant 0.0 : f64
      %v = vector.transfer_read %x[%c0], %zero {in_bounds = [true]} : tensor<4xf64>, vector<4xf64>
      %e = math.exp %v : vector<4xf64>
      %t = math.tanh %e : vector<4xf64>
      %l = math.log %t : vector<4xf64>
      %empty = tensor.empty() : tensor<4xf64>
      %r = vector.transfer_write %l, %empty[%c0] {in_bounds = [true]} : vector<4xf64>, tensor<4xf64>
      return %r : tensor<4xf64>
    })mlir");
  Tensor<double> x(b.getF64Type(), {4}), r(b.getF64Type(), {4});
  x.values = {0.0, -3.5, 1.25, -INFINITY};
  x.ref.data = x.values.data();
  EXPECT_RUNS(executable->run("f", {x.ref}, {r.ref}));
  for (int i = 0; i < 4; ++i)
    EXPECT_DOUBLE_EQ(r.values[i], std::log(std::tanh(std::exp(x.values[i]))));
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
