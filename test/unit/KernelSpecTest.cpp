//===- KernelSpecTest.cpp - expressions, JSON and validity of launch plans --===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/KernelSpec.h"
#include "gtest/gtest.h"
#include <climits>
#include <functional>

using namespace attn;

namespace {
/// What `expr` is for one parameter of sizes (2, 3, 1000), or the message.
std::string evaluateText(const Expr &expr) {
  int64_t sizes[] = {2, 3, 1000}, strides[] = {3000, 1000, 1};
  TensorRef tensor{reinterpret_cast<void *>(uintptr_t(4096 + 16)), ElementType::BF16, 3, sizes, strides, 0};
  StatusOr<int64_t> value = evaluate(expr, {&tensor, &tensor, 132});
  return value.ok() ? std::to_string(*value) : value.getMessage();
}

TEST(Expr, Evaluates) {
  EXPECT_EQ(evaluateText(7), "7");
  EXPECT_EQ(evaluateText(Expr::dim(0, 2)), "1000");
  EXPECT_EQ(evaluateText(Expr::multiprocessors()), "132");
  EXPECT_EQ(evaluateText(Expr::add(2, 3)), "5");
  EXPECT_EQ(evaluateText(Expr::sub(2, 3)), "-1");
  EXPECT_EQ(evaluateText(Expr::mul(2, 3)), "6");
  EXPECT_EQ(evaluateText(Expr::min(2, 3)), "2");
  EXPECT_EQ(evaluateText(Expr::max(2, 3)), "3");
  EXPECT_EQ(evaluateText(Expr::equal(2, 2)), "1");
  EXPECT_EQ(evaluateText(Expr::equal(2, 3)), "0");
  EXPECT_EQ(evaluateText(Expr::less(2, 2)), "0");
  EXPECT_EQ(evaluateText(Expr::less(2, 3)), "1");
  EXPECT_EQ(evaluateText(Expr::lessEqual(2, 2)), "1");
  EXPECT_EQ(evaluateText(Expr::lessEqual(3, 2)), "0");
  EXPECT_EQ(evaluateText(Expr::mul(Expr::ceilDiv(Expr::dim(0, 2), 128), Expr::dim(0, 1))), "24");
}

TEST(Expr, DividesTowardTheNamedDirection) {
  for (int64_t a = -9; a <= 9; ++a)
    for (int64_t b = 1; b <= 4; ++b) {
      int64_t floor = 0;
      while (floor * b > a)
        --floor;
      while ((floor + 1) * b <= a)
        ++floor;
      EXPECT_EQ(evaluateText(Expr::floorDiv(a, b)), std::to_string(floor));
      EXPECT_EQ(evaluateText(Expr::ceilDiv(a, b)), std::to_string(floor + (floor * b != a)));
      EXPECT_EQ(evaluateText(Expr::mod(a, b)), std::to_string(a - floor * b));
    }
}

TEST(Expr, OverflowAndDivisionByZeroAreErrors) {
  EXPECT_EQ(evaluateText(Expr::add(INT64_MAX, 1)), "overflows 64 bits");
  EXPECT_EQ(evaluateText(Expr::sub(INT64_MIN, 1)), "overflows 64 bits");
  EXPECT_EQ(evaluateText(Expr::mul(Expr::mul(int64_t(1) << 40, int64_t(1) << 22), 2)), "overflows 64 bits");
  EXPECT_EQ(evaluateText(Expr::add(INT64_MAX, 0)), std::to_string(INT64_MAX));
  for (int64_t divisor : {0, -1}) {
    EXPECT_EQ(evaluateText(Expr::ceilDiv(1, divisor)), "divides by a number that is not positive");
    EXPECT_EQ(evaluateText(Expr::floorDiv(INT64_MIN, divisor)), "divides by a number that is not positive");
    EXPECT_EQ(evaluateText(Expr::mod(1, divisor)), "divides by a number that is not positive");
  }
}

TEST(Expr, Alignment) {
  // The address is a multiple of 16 only; the strides are 6000 and 2000 bytes, multiples of 16 both.
  EXPECT_EQ(evaluateText(Expr::parameterAligned(0, 16)), "1");
  EXPECT_EQ(evaluateText(Expr::resultAligned(0, 16)), "1");
  EXPECT_EQ(evaluateText(Expr::parameterAligned(0, 32)), "0");
  int64_t sizes[] = {1, 3, 1000}, strides[] = {7, 1001, 1};
  TensorRef tensor{nullptr, ElementType::BF16, 3, sizes, strides, 0};
  EXPECT_EQ(*evaluate(Expr::parameterAligned(0, 2), {&tensor, nullptr, 1}), 1);
  EXPECT_EQ(*evaluate(Expr::parameterAligned(0, 4), {&tensor, nullptr, 1}), 0);
  strides[1] = 1008; // the stride of a dimension of size 1 is never used
  EXPECT_EQ(*evaluate(Expr::parameterAligned(0, 16), {&tensor, nullptr, 1}), 1);
  strides[0] = -8;
  EXPECT_EQ(*evaluate(Expr::parameterAligned(0, 16), {&tensor, nullptr, 1}), 1);
  strides[1] = -1008;
  EXPECT_EQ(*evaluate(Expr::parameterAligned(0, 16), {&tensor, nullptr, 1}), 0);
}

/// Uses every field and every kind of expression.
LaunchPlan makePlan() {
  LaunchPlan plan;
  plan.name = "causal";
  plan.parameters = {
      {"query", ElementType::BF16, false, {anySize(0, 0), 16, anySize(0, 2), 128}},
      {"key", ElementType::BF16, false, {Expr::dim(0, 0), anySize(1, 1), anySize(1, 2), 128}},
      {"scale", ElementType::F32, true, {}},
      {"slopes", ElementType::F32, false, {}},
  };
  plan.results = {{"out", ElementType::BF16, {Expr::dim(0, 0), 16, Expr::dim(0, 2), 128}, true}};
  plan.requirements = {{Expr::equal(Expr::mod(16, Expr::dim(1, 1)), 0),
                        "the query heads must be a multiple of the key heads"}};
  plan.modules = {{"forward", "// \"quoted\"\n#include \"attn/portable.cuh\"\n"}, {"combine", ""}};
  VariantSpec aligned{
      "aligned",
      Expr::min(Expr::parameterAligned(0, 16), Expr::max(Expr::resultAligned(0, 16), 0)),
      {{"partial", ElementType::F32, {Expr::multiprocessors(), Expr::sub(Expr::dim(0, 2), -5)}, true},
       {"part_out", ElementType::F16, {1, 2, Expr::dim(0, 2), 48}, false},
       {"counter", ElementType::I32, {2}, true, true}},
      {}};
  LaunchSpec launch;
  launch.module = 1;
  launch.kernel = "causal_forward";
  launch.grid = {Expr::mul(Expr::ceilDiv(Expr::dim(0, 2), 128), Expr::add(Expr::dim(0, 0), 1)),
                 Expr::floorDiv(Expr::dim(0, 2), 2), Expr(1)};
  launch.threads = 128;
  launch.dynamicSharedBytes = 232448;
  launch.startsEarly = true;
  launch.arguments = {ArgumentSpec::parameter(0),
                      ArgumentSpec::parameter(2),
                      ArgumentSpec::result(0),
                      ArgumentSpec::workspace(0),
                      ArgumentSpec::expression(Expr::less(Expr::dim(1, 2), 4)),
                      ArgumentSpec::expression(Expr::lessEqual(-3, 4), ElementType::I64),
                      ArgumentSpec::tensorMap(ArgumentSpec::parameter(1), 128, 64),
                      ArgumentSpec::tensorMap(ArgumentSpec::result(0), 96, 64),
                      ArgumentSpec::tensorMap(ArgumentSpec::workspace(1), 256, 64)};
  aligned.launches = {launch};
  plan.variants = {aligned, {"any", Expr(1), {}, {}}};
  return plan;
}

TEST(LaunchPlan, JsonRoundTrip) {
  std::string json = toJson(makePlan());
  StatusOr<LaunchPlan> parsed = parseLaunchPlan(json);
  ASSERT_TRUE(parsed.ok()) << parsed.getMessage();
  EXPECT_EQ(toJson(*parsed), json);
  // What the text says is what the plan said: a field that is neither written nor read would pass the above.
  EXPECT_EQ(parsed->parameters[1].sizes, makePlan().parameters[1].sizes);
  EXPECT_EQ(parsed->variants[0].condition, makePlan().variants[0].condition);
  const LaunchSpec &launch = parsed->variants[0].launches[0], expected = makePlan().variants[0].launches[0];
  EXPECT_EQ(launch.grid, expected.grid);
  EXPECT_EQ(launch.module, 1);
  EXPECT_EQ(launch.threads, 128);
  EXPECT_EQ(launch.dynamicSharedBytes, 232448);
  EXPECT_TRUE(launch.startsEarly);
  EXPECT_EQ(launch.arguments[5].type, ElementType::I64);
  EXPECT_EQ(launch.arguments[5].expr, expected.arguments[5].expr);
  for (size_t i : {6, 7, 8}) {
    EXPECT_EQ(launch.arguments[i].kind, ArgumentSpec::Kind::TensorMap);
    EXPECT_EQ(launch.arguments[i].tensor, expected.arguments[i].tensor);
    EXPECT_EQ(launch.arguments[i].index, expected.arguments[i].index);
    EXPECT_EQ(launch.arguments[i].boxRows, expected.arguments[i].boxRows);
    EXPECT_EQ(launch.arguments[i].boxColumns, 64);
  }
  EXPECT_TRUE(parsed->parameters[2].isScalar);
  EXPECT_FALSE(parsed->parameters[3].isScalar);
  EXPECT_TRUE(parsed->variants[0].workspaces[0].zeroed);
  EXPECT_FALSE(parsed->variants[0].workspaces[0].leftZero);
  EXPECT_TRUE(parsed->variants[0].workspaces[2].leftZero);
  EXPECT_TRUE(parsed->results[0].zeroed);
  EXPECT_EQ(parsed->modules[0].source, makePlan().modules[0].source);
}

TEST(LaunchPlan, EveryTruncationOfTheJsonIsAnError) {
  std::string json = toJson(makePlan());
  for (size_t length = 0; length + 2 < json.size(); length += 7)
    EXPECT_FALSE(parseLaunchPlan(json.substr(0, length)).ok()) << length;
}

/// The message for the plan's JSON with the first `from` replaced.
std::string parseWith(const std::string &from, const std::string &to) {
  std::string json = toJson(makePlan());
  size_t begin = json.find(from);
  EXPECT_NE(begin, std::string::npos) << from;
  StatusOr<LaunchPlan> parsed = parseLaunchPlan(json.replace(begin, from.size(), to));
  return parsed.ok() ? "" : parsed.getMessage();
}

TEST(LaunchPlan, JsonOfTheWrongShapeIsAnError) {
  EXPECT_EQ(parseWith("\"threads\": 128", "\"threads\": \"many\""),
            "launch plan: 'variants[0].launches[0].threads': expected an integer of 64 bits");
  EXPECT_EQ(parseWith("\"threads\": 128", "\"threads\": 4294967297"),
            "launch plan: 'variants[0].launches[0].threads': expected an integer of 32 bits");
  EXPECT_EQ(parseWith("\"threads\": 128", "\"threads\": 18446744073709551615"),
            "launch plan: 'variants[0].launches[0].threads': expected an integer of 64 bits");
  EXPECT_EQ(parseWith("\"threads\": 128", "\"thread\": 128"),
            "launch plan: 'variants[0].launches[0].threads': expected this field");
  EXPECT_EQ(parseWith("\"bf16\"", "\"bf17\""), "launch plan: 'parameters[0].type': expected an element type");
  EXPECT_EQ(parseWith("\"multiprocessors\"", "\"processors\""),
            "launch plan: 'variants[0].workspaces[0].sizes[0]': expected an expression");
  EXPECT_EQ(parseWith("\"parameter_aligned\"", "\"aligned\""),
            "launch plan: 'variants[0].condition.min[0]': expected an expression");
  EXPECT_EQ(parseWith("\"parameter\": 1", "\"scalar\": 1"),
            "launch plan: 'variants[0].launches[0].arguments[6]': expected a tensor to map");
  EXPECT_EQ(parseWith("        128,\n        64\n", "128\n"),
            "launch plan: 'variants[0].launches[0].arguments[6]': expected the rows and columns of a box");
  EXPECT_EQ(parseLaunchPlan("[]").getMessage(), "launch plan: 'name': expected this field");
  std::string deep;
  for (int i = 0; i < 100000; ++i)
    deep += "{\"add\": [1, ";
  EXPECT_FALSE(parseLaunchPlan(deep).ok());
}

TEST(LaunchPlan, Validation) {
  ASSERT_TRUE(validate(makePlan()).ok());
  auto messageWith = [](const std::function<void(LaunchPlan &)> &change) {
    LaunchPlan plan = makePlan();
    change(plan);
    Status status = validate(plan);
    return status.ok() ? "" : status.getMessage();
  };
  using Plan = LaunchPlan;
  EXPECT_EQ(
      messageWith([](Plan &plan) { plan.modules[0].name = "../x"; }),
      "launch plan 'causal': module name '../x': expected letters, digits, '_', '-' and '.', not first");
  EXPECT_EQ(messageWith([](Plan &plan) { plan.variants.clear(); }),
            "launch plan 'causal': there is no variant");
  EXPECT_EQ(messageWith([](Plan &plan) { plan.results[0].sizes[0] = Expr::dim(4, 0); }),
            "launch plan 'causal': a size of result 'out': there is no parameter 4");
  EXPECT_EQ(messageWith([](Plan &plan) { plan.results[0].sizes[0] = Expr::dim(2, 0); }),
            "launch plan 'causal': a size of result 'out': parameter 'scale' has no dimension 0");
  EXPECT_EQ(messageWith([](Plan &plan) { plan.variants[0].condition = Expr::parameterAligned(0, 12); }),
            "launch plan 'causal': the condition of variant 'aligned': an alignment of 12 bytes, expected a "
            "power of "
            "two up to 256");
  EXPECT_EQ(messageWith([](Plan &plan) { plan.variants[0].condition = Expr::resultAligned(1, 16); }),
            "launch plan 'causal': the condition of variant 'aligned': there is no result 1");
  EXPECT_EQ(messageWith([](Plan &plan) { plan.variants[0].launches[0].module = 2; }),
            "launch plan 'causal': kernel 'causal_forward' of variant 'aligned': there is no module 2");
  EXPECT_EQ(messageWith([](Plan &plan) { plan.variants[0].launches[0].threads = 1025; }),
            "launch plan 'causal': kernel 'causal_forward' of variant 'aligned' has 1025 threads, expected 1 "
            "to 1024");
  EXPECT_EQ(messageWith([](Plan &plan) { plan.variants[0].launches[0].arguments[3].index = 3; }),
            "launch plan 'causal': kernel 'causal_forward' of variant 'aligned' takes workspace 3, which "
            "there is not");
  EXPECT_EQ(
      messageWith([](Plan &plan) { plan.variants[0].launches[0].arguments[4].type = ElementType::F32; }),
      "launch plan 'causal': kernel 'causal_forward' of variant 'aligned' takes an expression as f32, "
      "expected "
      "i32 or i64");
  auto messageWithMap = [&](const ArgumentSpec &argument) {
    return messageWith([&](Plan &plan) { plan.variants[0].launches[0].arguments[0] = argument; });
  };
  const std::string taking = "launch plan 'causal': kernel 'causal_forward' of variant 'aligned' takes ";
  EXPECT_EQ(messageWithMap(ArgumentSpec::tensorMap(ArgumentSpec::workspace(1), 1, 64)), "");
  EXPECT_EQ(messageWithMap(ArgumentSpec::tensorMap(ArgumentSpec::workspace(3), 1, 64)),
            taking + "workspace 3, which there is not");
  EXPECT_EQ(messageWithMap(ArgumentSpec::tensorMap(ArgumentSpec::expression(0), 1, 64)),
            taking + "a tensor map of something else than a tensor");
  EXPECT_EQ(messageWithMap(ArgumentSpec::tensorMap(ArgumentSpec::workspace(0), 1, 64)),
            taking +
                "a tensor map of 'partial', which has 2 dimensions of f32, expected 2 to 4 of f16 or bf16");
  EXPECT_EQ(messageWithMap(ArgumentSpec::tensorMap(ArgumentSpec::parameter(2), 1, 64)),
            taking +
                "a tensor map of 'scale', which has 0 dimensions of f32, expected 2 to 4 of f16 or bf16");
  for (auto [rows, columns] : {std::pair(0, 64), {257, 64}, {128, 32}, {128, 128}})
    EXPECT_EQ(messageWithMap(ArgumentSpec::tensorMap(ArgumentSpec::parameter(0), rows, columns)),
              taking + "a tensor map of 'query' in boxes of " + std::to_string(rows) + " x " +
                  std::to_string(columns) + ", expected 1 to 256 rows and columns of 128 bytes in all");
  EXPECT_EQ(messageWith([](Plan &plan) { plan.variants[0].condition.operands.pop_back(); }),
            "launch plan 'causal': the condition of variant 'aligned': 'min' has 1 operands, expected 2");
  EXPECT_EQ(messageWith([](Plan &plan) { plan.parameters[0].sizes.resize(9); }),
            "launch plan 'causal': parameter 'query' has 9 dimensions, expected at most 8");
  EXPECT_EQ(messageWith([](Plan &plan) { plan.variants[0].workspaces[2].zeroed = false; }),
            "launch plan 'causal': workspace 'counter' of variant 'aligned' is left zero, expected it to be "
            "zeroed, too");
  EXPECT_EQ(messageWith([](Plan &plan) {
              plan.variants[0].launches[0].arguments.assign(100, ArgumentSpec::parameter(0));
            }),
            "launch plan 'causal': kernel 'causal_forward' of variant 'aligned' takes 5600 bytes of "
            "arguments, expected "
            "at most 4096");
}

TEST(LaunchPlan, TensorMapsCountWithPadding) {
  // 128 bytes, and up to 64 of padding.
  LaunchPlan plan = makePlan();
  std::vector<ArgumentSpec> &arguments = plan.variants[0].launches[0].arguments;
  arguments.assign(21, ArgumentSpec::tensorMap(ArgumentSpec::parameter(0), 128, 64));
  EXPECT_TRUE(validate(plan).ok());
  arguments.push_back(ArgumentSpec::tensorMap(ArgumentSpec::parameter(0), 128, 64));
  EXPECT_EQ(validate(plan).getMessage(),
            "launch plan 'causal': kernel 'causal_forward' of variant 'aligned' takes 4224 bytes of "
            "arguments, expected at most 4096");
}

TEST(LaunchPlan, ExpressionsReadAsText) {
  LaunchPlan plan = makePlan();
  EXPECT_EQ(toString(plan.variants[0].launches[0].grid[0], plan),
            "ceildiv(query.size(2), 128) * (query.size(0) + 1)");
  EXPECT_EQ(toString(Expr::sub(Expr::sub(8, 4), Expr::sub(2, 1)), plan), "8 - 4 - (2 - 1)");
  EXPECT_EQ(toString(Expr::min(Expr::min(1, 2), Expr::max(3, Expr::min(4, 5))), plan),
            "min(1, 2, max(3, min(4, 5)))");
  EXPECT_EQ(toString(plan.variants[0].condition, plan), "min(query.aligned(16), max(out.aligned(16), 0))");
  EXPECT_EQ(toString(plan.variants[0].workspaces[0].sizes[0], plan), "multiprocessors");
}

TEST(LaunchPlan, TensorLayout) {
  // As a compiler lays them out.
  struct Tensor1 {
    void *data;
    long long strides[1];
    int sizes[1];
  };
  struct Tensor4 {
    void *data;
    long long strides[4];
    int sizes[4];
  };
  EXPECT_EQ(getTensorLayout(0).bytes, int64_t(sizeof(void *)));
  EXPECT_EQ(getTensorLayout(1).bytes, int64_t(sizeof(Tensor1)));
  EXPECT_EQ(getTensorLayout(4).bytes, int64_t(sizeof(Tensor4)));
  EXPECT_EQ(getTensorLayout(4).alignment, int64_t(alignof(Tensor4)));
}
} // namespace
