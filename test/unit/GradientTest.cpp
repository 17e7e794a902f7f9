//===- GradientTest.cpp - gradients against finite differences --------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For each operation that a score may use: the gradients of a small f64 attention, differentiated by
// --attn-differentiate and run through the reference lowering, against central differences of the forward.
// The inputs follow from a seed:
// --gtest_random_seed=N repeats a run.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Math/IR/Math.h"
#include "passes/Passes.h"
#include "test/unit/F64Module.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/Regex.h"
#include "gtest/gtest.h"
#include <set>

using namespace mlir;
using namespace attn;

//===----------------------------------------------------------------------===//
// Cases
//===----------------------------------------------------------------------===//

namespace {
/// A score. Its body reads %x, a function of s between `low` and `high`, and may read %y, an element of the
/// captured tensor %t, and the captured scalar %g, both between `captureLow` and `captureHigh`. It ends in
/// %r.
struct ScoreCase {
  const char *name;
  const char *body;
  double low = -1.5, high = 1.5;
  double captureLow = -1.5, captureHigh = 1.5;
};

std::ostream &operator<<(std::ostream &os, const ScoreCase &score) { return os << score.name; }
} // namespace

static const ScoreCase kCases[] = {
    // arith
    {"addf", "%r = arith.addf %x, %y : f64"},
    {"subf", "%r = arith.subf %y, %x : f64"},
    {"mulf", "%r = arith.mulf %x, %y : f64"},
    {"mulf_square", "%r = arith.mulf %x, %x : f64"},
    {"divf", "%r = arith.divf %x, %y : f64", -1.5, 1.5, 0.5, 2.0},
    {"divf_reversed", "%r = arith.divf %y, %x : f64", 0.5, 2.0},
    {"negf", "%r = arith.negf %x : f64"},
    {"remf", "%r = arith.remf %x, %y : f64", -3.0, 3.0, 0.4, 0.9},
    {"maximumf", "%r = arith.maximumf %x, %y : f64"},
    {"minimumf", "%r = arith.minimumf %x, %y : f64"},
    {"maxnumf", "%r = arith.maxnumf %x, %y : f64"},
    {"minnumf", "%r = arith.minnumf %x, %y : f64"},
    {"maxnumf_nan", R"(%nan = arith.constant 0x7FF8000000000000 : f64
                       %l = arith.maxnumf %nan, %x : f64
                       %r = arith.minnumf %l, %nan : f64)"},
    {"select", R"(%c = arith.cmpf olt, %x, %y : f64
                  %xx = arith.mulf %x, %x : f64
                  %r = arith.select %c, %xx, %y : f64)"},
    {"extf", R"(%n = arith.constant 0.5 : f32
                %w = arith.extf %n : f32 to f64
                %r = arith.mulf %x, %w : f64)"},
    {"sitofp", R"(%f = arith.constant 5.0 : f64
                  %m = arith.mulf %x, %f : f64
                  %int = arith.fptosi %m : f64 to i32
                  %u = arith.sitofp %int : i32 to f64
                  %r = arith.mulf %x, %u : f64)"},
    {"uitofp", R"(%int = arith.index_cast %j : index to i32
                  %u = arith.uitofp %int : i32 to f64
                  %k = arith.fptoui %x : f64 to i32
                  %v = arith.uitofp %k : i32 to f64
                  %w = arith.addf %u, %v : f64
                  %r = arith.mulf %x, %w : f64)",
     0.5, 1.5},
    // math: exponentials, logarithms, powers
    {"exp", "%r = math.exp %x : f64"},
    {"exp2", "%r = math.exp2 %x : f64"},
    {"expm1", "%r = math.expm1 %x : f64"},
    {"log", "%r = math.log %x : f64", 0.3, 3.0},
    {"log2", "%r = math.log2 %x : f64", 0.3, 3.0},
    {"log10", "%r = math.log10 %x : f64", 0.3, 3.0},
    {"log1p", "%r = math.log1p %x : f64", -0.6, 2.0},
    {"powf", "%r = math.powf %x, %y : f64", 0.3, 2.0},
    {"powf_constant", R"(%e = arith.constant 3.0 : f64
                         %r = math.powf %x, %e : f64)"},
    {"fpowi", R"(%e = arith.constant 3 : i32
                 %r = math.fpowi %x, %e : f64, i32)",
     0.3, 2.0},
    {"fpowi_zero", R"(%int = arith.index_cast %h : index to i32
                      %p = math.fpowi %x, %int : f64, i32
                      %r = arith.mulf %p, %x : f64)",
     0.3, 2.0},
    {"sqrt", "%r = math.sqrt %x : f64", 0.3, 3.0},
    {"rsqrt", "%r = math.rsqrt %x : f64", 0.3, 3.0},
    {"cbrt", "%r = math.cbrt %x : f64", 0.3, 3.0},
    // math: circular and hyperbolic functions
    {"sin", "%r = math.sin %x : f64"},
    {"cos", "%r = math.cos %x : f64"},
    {"tan", "%r = math.tan %x : f64", -1.2, 1.2},
    {"asin", "%r = math.asin %x : f64", -0.9, 0.9},
    {"acos", "%r = math.acos %x : f64", -0.9, 0.9},
    {"atan", "%r = math.atan %x : f64"},
    {"atan2", "%r = math.atan2 %x, %y : f64"},
    {"sinh", "%r = math.sinh %x : f64"},
    {"cosh", "%r = math.cosh %x : f64"},
    {"tanh", "%r = math.tanh %x : f64"},
    {"asinh", "%r = math.asinh %x : f64"},
    {"acosh", "%r = math.acosh %x : f64", 1.2, 3.0},
    {"atanh", "%r = math.atanh %x : f64", -0.9, 0.9},
    {"erf", "%r = math.erf %x : f64"},
    {"erfc", "%r = math.erfc %x : f64"},
    // math: piecewise functions
    {"absf", "%r = math.absf %x : f64"},
    {"copysign", "%r = math.copysign %x, %y : f64"},
    {"fma", "%r = math.fma %x, %y, %g : f64"},
    {"floor_ceil", R"(%f = math.floor %x : f64
                      %c = math.ceil %x : f64
                      %m = arith.addf %f, %c : f64
                      %r = arith.mulf %x, %m : f64)"},
    {"round_trunc", R"(%f = math.round %x : f64
                       %e = math.roundeven %x : f64
                       %t1 = math.trunc %x : f64
                       %m = arith.addf %f, %e : f64
                       %n = arith.addf %m, %t1 : f64
                       %r = arith.mulf %x, %n : f64)",
     -3.0, 3.0},
    {"classification", R"(%c = math.isfinite %x : f64
                          %n = math.isnan %x : f64
                          %p = arith.select %c, %x, %y : f64
                          %r = arith.select %n, %y, %p : f64)"},
    // Captures
    {"scalar", "%r = arith.mulf %x, %g : f64"},
    {"scalar_soft_cap", R"(%d = arith.divf %x, %g : f64
                           %t1 = math.tanh %d : f64
                           %r = arith.mulf %t1, %g : f64)",
     -1.5, 1.5, 0.5, 1.5},
    {"constant", "%r = arith.addf %y, %g : f64"},
    {"read_twice", R"(%a = arith.mulf %y, %y : f64
                      %c0 = arith.constant 0 : index
                      %e = tensor.extract %t[%c0, %c0] : tensor<2x?xf64>
                      %m = arith.mulf %a, %e : f64
                      %r = arith.addf %x, %m : f64)"},
    {"read_one", R"(%c1 = arith.constant 1 : index
                    %e = tensor.extract %t[%h, %c1] : tensor<2x?xf64>
                    %r = arith.mulf %x, %e : f64)"},
    // Control flow
    {"if", R"(%c = arith.cmpi slt, %j, %i : index
              %r = scf.if %c -> f64 {
                %m = arith.mulf %x, %y : f64
                scf.yield %m : f64
              } else {
                scf.yield %x : f64
              })"},
    {"if_read", R"(%c = arith.cmpi slt, %j, %i : index
                   %p, %o = scf.if %c -> (f64, f64) {
                     %e = tensor.extract %t[%h, %i] : tensor<2x?xf64>
                     %m = arith.mulf %x, %e : f64
                     %n = arith.mulf %e, %g : f64
                     scf.yield %m, %n : f64, f64
                   } else {
                     %e = tensor.extract %t[%h, %j] : tensor<2x?xf64>
                     %m = math.exp %e : f64
                     scf.yield %m, %x : f64, f64
                   }
                   %r = arith.mulf %p, %o : f64)"},
    {"if_nested", R"(%q1 = math.exp %x : f64
                     %c = arith.cmpf ogt, %x, %y : f64
                     %p = scf.if %c -> f64 {
                       %l = arith.mulf %q1, %y : f64
                       %d = arith.cmpi eq, %i, %j : index
                       %k = scf.if %d -> f64 {
                         %e = tensor.extract %t[%h, %i] : tensor<2x?xf64>
                         %m = arith.mulf %l, %e : f64
                         scf.yield %m : f64
                       } else {
                         %m = math.sin %l : f64
                         scf.yield %m : f64
                       }
                       %o = arith.mulf %k, %q1 : f64
                       scf.yield %o : f64
                     } else {
                       scf.yield %g : f64
                     }
                     %r = arith.addf %p, %x : f64)"},
    // What is not chosen has no say, whatever its derivative.
    {"unchosen_log", R"(%z = arith.constant 0.0 : f64
                        %low = arith.constant 0.3 : f64
                        %c = arith.cmpf ogt, %x, %low : f64
                        %p = arith.select %c, %x, %z : f64
                        %l = math.log %p : f64
                        %m = math.rsqrt %p : f64
                        %n = arith.mulf %l, %m : f64
                        %r = arith.select %c, %n, %y : f64)"},
    {"unchosen_overflow", R"(%k = arith.constant 1.0e3 : f64
                             %m = arith.mulf %x, %k : f64
                             %e = math.exp %m : f64
                             %ee = arith.mulf %e, %e : f64
                             %z = arith.constant 0.0 : f64
                             %c = arith.cmpf olt, %x, %z : f64
                             %r = arith.select %c, %ee, %x : f64)"},
    {"unchosen_shared", R"(%z = arith.constant 0.0 : f64
                           %low = arith.constant 0.3 : f64
                           %half = arith.constant 0.5 : f64
                           %c1 = arith.cmpf ogt, %x, %low : f64
                           %c2 = arith.cmpf ogt, %x, %half : f64
                           %p = arith.select %c1, %x, %z : f64
                           %l = math.log %p : f64
                           %a = arith.select %c1, %l, %y : f64
                           %b1 = arith.select %c2, %l, %g : f64
                           %r = arith.mulf %a, %b1 : f64)"},
    {"unchosen_if", R"(%z = arith.constant 0.0 : f64
                       %low = arith.constant 0.3 : f64
                       %half = arith.constant 0.5 : f64
                       %c = arith.cmpf ogt, %x, %low : f64
                       %p = arith.select %c, %x, %z : f64
                       %l = math.log %p : f64
                       %r = scf.if %c -> f64 {
                         %d = arith.cmpf ogt, %x, %half : f64
                         %m = arith.select %d, %l, %y : f64
                         scf.yield %m : f64
                       } else {
                         scf.yield %x : f64
                       })"},
};

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

/// Two query heads on one key head, more keys than queries, a causal mask aligned to the bottom right, and
/// one row without any key (the first).
static std::string buildModule(const ScoreCase &score) {
  std::string text;
  llvm::raw_string_ostream os(text);
  double middle = (score.low + score.high) / 2, half = (score.high - score.low) / 2;
  os << R"(
func.func @f(%q: tensor<1x2x?x2xf64>, %k: tensor<1x1x?x2xf64>, %v: tensor<1x1x?x3xf64>, %t: tensor<2x?xf64>, %g: f64)
    -> (tensor<1x2x?x3xf64>, tensor<1x2x?xf64>) {
  %out, %lse = attn.attention %q, %k, %v captures(%t : tensor<2x?xf64>, %g : f64) scale(0.5)
    score(%s: f64, %b: index, %h: index, %i: index, %j: index) {
      %middle = arith.constant )"
     << llvm::format("%e", middle) << R"( : f64
      %half_range = arith.constant )"
     << llvm::format("%e", half) << R"( : f64
      %scaled = arith.mulf %s, %half_range : f64
      %x = arith.addf %scaled, %middle : f64
      %y = tensor.extract %t[%h, %j] : tensor<2x?xf64>
      )"
     << score.body << R"(
      attn.yield %r : f64
    } mask(%b: index, %h: index, %i: index, %j: index) {
      %c0 = arith.constant 0 : index
      %some = arith.cmpi ne, %i, %c0 : index
      %n = attn.kv_len %b
      %m = attn.q_len %b
      %offset = arith.subi %n, %m : index
      %last = arith.addi %i, %offset : index
      %causal = arith.cmpi sle, %j, %last : index
      %keep = arith.andi %causal, %some : i1
      attn.yield %keep : i1
    } : (tensor<1x2x?x2xf64>, tensor<1x1x?x2xf64>, tensor<1x1x?x3xf64>) -> (tensor<1x2x?x3xf64>, tensor<1x2x?xf64>)
  return %out, %lse : tensor<1x2x?x3xf64>, tensor<1x2x?xf64>
}
)";
  return text;
}

static const std::vector<std::vector<int64_t>> kInputShapes = {
    {1, 2, 3, 2}, {1, 1, 4, 2}, {1, 1, 4, 3}, {2, 4}, {}};
static const std::vector<std::vector<int64_t>> kResultShapes = {{1, 2, 3, 3}, {1, 2, 3}};

class GradientTest : public testing::TestWithParam<ScoreCase> {
protected:
  std::vector<Argument> makeArguments(std::vector<F64Array> &arrays) {
    std::vector<Argument> arguments;
    for (F64Array &array : arrays)
      arguments.push_back(array.shape.empty() ? module.scalar(array) : module.tensor(array));
    return arguments;
  }

  static std::vector<F64Array> makeResults(const std::vector<std::vector<int64_t>> &shapes) {
    return std::vector<F64Array>(shapes.begin(), shapes.end());
  }

  /// A linear function of out and of the finite lse.
  double getLoss(const std::vector<Argument> &arguments, const std::vector<F64Array> &weights) {
    std::vector<F64Array> results = makeResults(kResultShapes);
    EXPECT_EQ(module.run("f", arguments, results), "");
    double loss = 0;
    for (size_t i = 0; i < results.size(); ++i)
      for (size_t j = 0; j < results[i].data.size(); ++j)
        loss += std::isinf(results[i].data[j]) ? 0.0 : results[i].data[j] * weights[i].data[j];
    return loss;
  }

  F64Module module;
};

TEST_P(GradientTest, MatchesFiniteDifferences) {
  const ScoreCase &score = GetParam();
  ASSERT_EQ(module.compile(buildModule(score),
                           [](OpPassManager &pm) {
                             DecomposeReferencePassOptions reference;
                             reference.chunkRows = 2;
                             pm.addPass(createDifferentiatePass());
                             pm.addPass(createDecomposeReferencePass(reference));
                           }),
            "");

  unsigned seed = GTEST_FLAG_GET(random_seed);
  SCOPED_TRACE("repeat with --gtest_random_seed=" + std::to_string(seed));
  std::mt19937 random(seed);
  // |q·k| * 0.5 < 1, so that the score's argument keeps to its range.
  std::vector<F64Array> inputs, weights;
  for (size_t i = 0; i < kInputShapes.size(); ++i)
    inputs.emplace_back(kInputShapes[i], random, i < 3 ? -1.0 : score.captureLow,
                        i < 3 ? 1.0 : score.captureHigh);
  for (const std::vector<int64_t> &shape : kResultShapes)
    weights.emplace_back(shape, random, -1.0, 1.0);

  std::vector<Argument> arguments = makeArguments(inputs);
  std::vector<F64Array> results = makeResults(kResultShapes), gradients = makeResults(kInputShapes);
  ASSERT_EQ(module.run("f", arguments, results), "");
  std::vector<Argument> all = arguments;
  for (std::vector<F64Array> *arrays : {&results, &weights})
    for (F64Array &array : *arrays)
      all.push_back(module.tensor(array));
  ASSERT_EQ(module.run("f_backward", all, gradients), "");

  const double step = 1e-5;
  for (size_t input = 0; input < inputs.size(); ++input) {
    std::vector<double> differences;
    double largest = 0;
    for (double &value : inputs[input].data) {
      double saved = value;
      value = saved + step;
      double above = getLoss(arguments, weights);
      value = saved - step;
      double below = getLoss(arguments, weights);
      value = saved;
      differences.push_back((above - below) / (2 * step));
      largest = std::max(largest, std::abs(differences.back()));
    }
    // The differences are wrong by about step² times the third derivative, and the rounding of the loss over
    // the step.
    double tolerance = 1e-6 * std::max(largest, 1e-3);
    for (size_t i = 0; i < differences.size(); ++i)
      EXPECT_NEAR(gradients[input].data[i], differences[i], tolerance)
          << "input " << input << ", element " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Scores, GradientTest, testing::ValuesIn(kCases),
                         [](const testing::TestParamInfo<ScoreCase> &info) {
                           return std::string(info.param.name);
                         });

/// Every arith and math operation is in a case above, or here with the reason why not.
TEST(GradientCases, CoverEveryOperation) {
  static const char *const exempt[] = {
      // Integers, whose results carry no gradient.
      "arith.addi", "arith.addui_extended", "arith.ceildivsi", "arith.ceildivui", "arith.divsi",
      "arith.divui", "arith.extsi", "arith.extui", "arith.floordivsi", "arith.index_castui", "arith.maxsi",
      "arith.maxui", "arith.minsi", "arith.minui", "arith.muli", "arith.ori", "arith.mulsi_extended",
      "arith.mului_extended", "arith.remsi", "arith.remui", "arith.shli", "arith.shrsi", "arith.shrui",
      "arith.subi", "arith.trunci", "arith.xori", "math.absi", "math.ctlz", "math.ctpop", "math.cttz",
      "math.ipowi",
      // No derivative: an error (test/Passes/attn-differentiate-invalid.mlir).
      "arith.bitcast", "arith.scaling_extf", "arith.scaling_truncf",
      // Rounds, so that differences say nothing (test/Passes/attn-differentiate.mlir).
      "arith.truncf",
      // Without a lowering for the CPU (test/Passes/attn-differentiate.mlir).
      "math.clampf", "math.isinf", "math.isnormal", "math.sincos"};
  std::set<std::string> covered(std::begin(exempt), std::end(exempt));
  llvm::Regex operation("((arith|math)\\.[a-z0-9_]+)(.*)", llvm::Regex::Newline);
  for (const ScoreCase &score : kCases) {
    std::string text = buildModule(score);
    SmallVector<StringRef> matches;
    for (StringRef rest = text; operation.match(rest, &matches);
         rest = rest.drop_front(matches[1].end() - rest.begin()))
      covered.insert(matches[1].str());
  }
  MLIRContext context;
  context.loadDialect<arith::ArithDialect, math::MathDialect>();
  for (RegisteredOperationName name : context.getRegisteredOperations())
    if (name.getDialectNamespace() == "arith" || name.getDialectNamespace() == "math")
      EXPECT_TRUE(covered.count(name.getStringRef().str())) << name.getStringRef().str() << " has no case";
}
