//===- ScoreBoundsTest.cpp - between which numbers a score lies -------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/ScoreBounds.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"
#include <cmath>

using namespace mlir;
using namespace attn;

namespace {
struct Case {
  /// Operations of f32 %x and %y, and i1 %c, that end in %r; %t is tanh(%x), %two and %nan are constants.
  const char *operations;
  double low, high;
};

constexpr double kInf = INFINITY;
constexpr Case kCases[] = {
    {"%r = arith.addf %x, %two : f32", -kInf, kInf},
    {"%r = arith.mulf %t, %two : f32", -2, 2},
    {"%r = arith.addf %t, %two : f32", 1, 3},
    {"%r = arith.subf %two, %t : f32", 1, 3},
    {"%r = arith.negf %two : f32", -2, -2},
    {"%r = math.absf %t : f32", 0, 1},
    {"%a = arith.addf %t, %two : f32\n %r = math.absf %a : f32", 1, 3},
    {"%r = arith.select %c, %t, %two : f32", -1, 2},
    {"%r = arith.minimumf %t, %two : f32", -1, 1},
    {"%r = arith.maximumf %x, %two : f32", 2, kInf},
    // A number against what may be none.
    {"%r = arith.minnumf %x, %two : f32", -kInf, 2},
    {"%r = arith.maxnumf %x, %two : f32", 2, kInf},
    {"%a = arith.maxnumf %x, %two : f32\n %r = arith.minnumf %a, %four : f32", 2, 4},
    {"%r = arith.minnumf %x, %t : f32", -kInf, kInf},
    {"%r = arith.maxnumf %x, %t : f32", -kInf, kInf},
    {"%r = arith.minnumf %t, %nan : f32", -kInf, kInf},
    {"%r = math.clampf %x to [%two, %four] : f32", 2, 4},
    // 0 * infinity may be any number, as far as an interval knows.
    {"%a = arith.subf %two, %two : f32\n %r = arith.mulf %x, %a : f32", -kInf, kInf},
    {"%r = math.exp %t : f32", -kInf, kInf},
    {"%a = math.sin %x : f32\n %b = math.cos %y : f32\n %e = math.erf %y : f32\n %s = arith.addf %a, %b : "
     "f32\n"
     "%r = arith.addf %s, %e : f32",
     -3, 3},
};

TEST(ScoreBoundsTest, AreSoundAndTight) {
  MLIRContext context;
  context.loadDialect<arith::ArithDialect, func::FuncDialect, math::MathDialect>();
  for (const Case &test : kCases) {
    std::string text = "func.func @f(%x: f32, %y: f32, %c: i1) -> f32 {\n"
                       "%t = math.tanh %x : f32\n"
                       "%two = arith.constant 2.0 : f32\n"
                       "%four = arith.constant 4.0 : f32\n"
                       "%nan = arith.constant 0x7FC00000 : f32\n" +
                       std::string(test.operations) + "\nreturn %r : f32\n}\n";
    auto module = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(module) << test.operations;
    func::ReturnOp result;
    module->walk([&](func::ReturnOp op) { result = op; });
    FloatInterval interval = getFloatInterval(result.getOperand(0));
    EXPECT_EQ(interval.low, test.low) << test.operations;
    EXPECT_EQ(interval.high, test.high) << test.operations;
  }
}
} // namespace
