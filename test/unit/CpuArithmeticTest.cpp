//===- CpuArithmeticTest.cpp - small floats and functions on this machine ----===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CpuExecutableTest.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/Support/FormatVariadic.h"
#include <cfloat>

using namespace mlir;
using namespace attn;

namespace {
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
} // namespace
