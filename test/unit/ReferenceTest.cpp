//===- ReferenceTest.cpp - the reference lowering against plain loops -------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The oracle is checked against the formulas of AttnOps.td, written down a second time as loops in C++: a
// bf16 attention in f64 from end to end, with everything in the input that must not show: NaN and infinity in
// keys and values that no row may see, captured reads far out of bounds there, rows without a key, empty
// lengths.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "test/unit/F64Module.h"
#include "gtest/gtest.h"
#include <cmath>

using namespace mlir;
using namespace attn;

/// Causal to the bottom right; keys with a negative id are padding. The score is soft-capped with a bias by
/// id, and drops pairs of the last row and the first key by itself.
static constexpr const char *kModule = R"(
!q = tensor<?x?x?x4xbf16>
!v = tensor<?x?x?x3xbf16>
!r = tensor<?x?x?xf32>
func.func @f(%q: !q, %k: !q, %v: !v, %ids: tensor<?xi64>, %bias: tensor<?xf32>, %cap: f32) -> (!v, !r) {
  %out, %lse = attn.attention %q, %k, %v captures(%ids : tensor<?xi64>, %bias : tensor<?xf32>, %cap : f32)
    score(%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %d = arith.divf %s, %cap : f32
      %t = math.tanh %d : f32
      %c = arith.mulf %t, %cap : f32
      %id = tensor.extract %ids[%j] : tensor<?xi64>
      %at = arith.index_cast %id : i64 to index
      %e = tensor.extract %bias[%at] : tensor<?xf32>
      %x = arith.addf %c, %e : f32
      %one = arith.constant 1 : index
      %zero = arith.constant 0 : index
      %n = attn.q_len %b
      %last = arith.subi %n, %one : index
      %is_last = arith.cmpi eq, %i, %last : index
      %is_first = arith.cmpi eq, %j, %zero : index
      %drop = arith.andi %is_last, %is_first : i1
      %inf = arith.constant 0xFF800000 : f32
      %r = arith.select %drop, %inf, %x : f32
      attn.yield %r : f32
    } mask(%b: index, %h: index, %i: index, %j: index) {
      %id = tensor.extract %ids[%j] : tensor<?xi64>
      %zero = arith.constant 0 : i64
      %real = arith.cmpi sge, %id, %zero : i64
      %m = attn.q_len %b
      %n = attn.kv_len %b
      %offset = arith.subi %n, %m : index
      %limit = arith.addi %i, %offset : index
      %causal = arith.cmpi sle, %j, %limit : index
      %keep = arith.andi %real, %causal : i1
      attn.yield %keep : i1
    } : (!q, !q, !v) -> (!v, !r)
  return %out, %lse : !v, !r
}
)";

namespace {
struct Sizes {
  int64_t batch, qHeads, kvHeads, qLen, kvLen;
};

struct Reference : testing::TestWithParam<Sizes> {
  static void SetUpTestSuite() {
    module = new F64Module;
    message = module->compile(kModule, [](OpPassManager &pm) {
      DecomposeReferencePassOptions reference;
      reference.computeType = "f64";
      reference.f64Boundary = true;
      reference.chunkRows = 8;
      pm.addPass(createDifferentiatePass());
      pm.addPass(createDecomposeReferencePass(reference));
    });
  }
  static void TearDownTestSuite() { delete module; }
  static F64Module *module;
  static std::string message;
};
F64Module *Reference::module = nullptr;
std::string Reference::message;
} // namespace

static void expectNear(F64Array &got, F64Array &expected, const char *name) {
  for (size_t i = 0; i < expected.data.size(); ++i) {
    if (std::isinf(expected.data[i]))
      EXPECT_EQ(got.data[i], expected.data[i]) << name << ", element " << i;
    else
      EXPECT_NEAR(got.data[i], expected.data[i], 1e-12) << name << ", element " << i;
  }
}

TEST_P(Reference, MatchesLoops) {
  ASSERT_EQ(message, "");
  auto [batch, qHeads, kvHeads, qLen, kvLen] = GetParam();
  const int64_t group = kvHeads ? qHeads / kvHeads : 1, headDim = 4, valueDim = 3, numIds = 5;
  const double scale = 0.5, infinity = INFINITY;
  std::mt19937 random(batch * 1000 + qLen * 10 + kvLen);
  F64Array q({batch, qHeads, qLen, headDim}, random, -3, 3),
      k({batch, kvHeads, kvLen, headDim}, random, -3, 3);
  F64Array v({batch, kvHeads, kvLen, valueDim}, random, -1, 1), bias({numIds}, random, -1, 1), cap({}, 2.5);
  F64Array dOut({batch, qHeads, qLen, valueDim}, random, -1, 1), dLse({batch, qHeads, qLen}, random, -1, 1);
  // The first key is padding where there is a bottom right corner above it: then the first row has no key.
  std::vector<int64_t> ids(kvLen);
  for (int64_t j = 0; j < kvLen; ++j)
    ids[j] = j % 7 == 3 || (j == 0 && qLen > 1) ? -(int64_t(1) << 40) : j % numIds;
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < kvHeads; ++h)
      for (int64_t j = 0; j < kvLen; ++j)
        if (ids[j] < 0) {
          k.at({b, h, j, 1}) = std::nan("");
          v.at({b, h, j, 2}) = infinity;
        }

  F64Array out(dOut.shape), lse(dLse.shape), dQ(q.shape), dK(k.shape), dV(v.shape), dBias(bias.shape),
      dCap({});
  auto dot = [](F64Array &x, F64Array &y, int64_t b, int64_t hx, int64_t i, int64_t hy, int64_t j) {
    double sum = 0;
    for (int64_t c = 0; c < x.shape[3]; ++c)
      sum += x.at({b, hx, i, c}) * y.at({b, hy, j, c});
    return sum;
  };
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < qHeads; ++h)
      for (int64_t i = 0; i < qLen; ++i) {
        struct Pair {
          int64_t key;
          double tanh, x, score;
        };
        std::vector<Pair> pairs;
        int64_t hk = h / group;
        double sum = 0;
        for (int64_t j = 0; j < kvLen && j <= i + kvLen - qLen; ++j) {
          if (ids[j] < 0 || (i == qLen - 1 && j == 0))
            continue;
          double x = scale * dot(q, k, b, h, i, hk, j), t = std::tanh(x / cap.data[0]);
          pairs.push_back({j, t, x, t * cap.data[0] + bias.data[ids[j]]});
          sum += std::exp(pairs.back().score);
        }
        lse.at({b, h, i}) = std::log(sum);
        for (Pair &pair : pairs)
          for (int64_t c = 0; c < valueDim; ++c)
            out.at({b, h, i, c}) += std::exp(pair.score) / sum * v.at({b, hk, pair.key, c});
        double delta = -dLse.at({b, h, i});
        for (int64_t c = 0; c < valueDim; ++c)
          delta += dOut.at({b, h, i, c}) * out.at({b, h, i, c});
        for (Pair &pair : pairs) {
          int64_t j = pair.key;
          double p = std::exp(pair.score) / sum, dS = p * (dot(dOut, v, b, h, i, hk, j) - delta);
          double slope = 1 - pair.tanh * pair.tanh;
          dBias.data[ids[j]] += dS;
          dCap.data[0] += dS * (pair.tanh - slope * pair.x / cap.data[0]);
          for (int64_t c = 0; c < headDim; ++c) {
            dQ.at({b, h, i, c}) += dS * slope * scale * k.at({b, hk, j, c});
            dK.at({b, hk, j, c}) += dS * slope * scale * q.at({b, h, i, c});
          }
          for (int64_t c = 0; c < valueDim; ++c)
            dV.at({b, hk, j, c}) += p * dOut.at({b, h, i, c});
        }
      }

  BufferRef idsRef;
  idsRef.data = ids.data();
  idsRef.shape = {kvLen};
  idsRef.strides = {1};
  idsRef.elementType = IntegerType::get(module->getContext(), 64);
  std::vector<Argument> arguments = {module->tensor(q),    module->tensor(k),  module->tensor(v), idsRef,
                                     module->tensor(bias), module->scalar(cap)};
  std::vector<F64Array> results = {out, lse};
  ASSERT_EQ(module->run("f", arguments, results), "");
  expectNear(results[0], out, "out");
  expectNear(results[1], lse, "lse");
  for (F64Array *array : {&out, &lse, &dOut, &dLse})
    arguments.push_back(module->tensor(*array));
  std::vector<F64Array> gradients = {dQ, dK, dV, dBias, dCap};
  ASSERT_EQ(module->run("f_backward", arguments, gradients), "");
  expectNear(gradients[0], dQ, "d_query");
  expectNear(gradients[1], dK, "d_key");
  expectNear(gradients[2], dV, "d_value");
  expectNear(gradients[3], dBias, "d_bias");
  expectNear(gradients[4], dCap, "d_cap");
}

INSTANTIATE_TEST_SUITE_P(Sizes, Reference,
                         testing::Values(Sizes{1, 1, 1, 1, 1}, Sizes{1, 1, 1, 0, 5}, Sizes{2, 2, 1, 5, 0},
                                         Sizes{0, 2, 2, 3, 3}, Sizes{2, 0, 0, 3, 3}, Sizes{2, 6, 2, 8, 8},
                                         Sizes{1, 2, 2, 7, 19}, Sizes{1, 3, 1, 17, 9}, Sizes{1, 4, 4, 9, 31}),
                         [](const testing::TestParamInfo<Sizes> &info) {
                           const Sizes &s = info.param;
                           return "b" + std::to_string(s.batch) + "_h" + std::to_string(s.qHeads) + "_" +
                                  std::to_string(s.kvHeads) + "_" + std::to_string(s.qLen) + "x" +
                                  std::to_string(s.kvLen);
                         });

TEST(ReferenceMerge, CombinesTwoSetsOfKeys) {
  F64Module module;
  ASSERT_EQ(module.compile(R"(
    func.func @f(%a: tensor<1x1x?x2xf64>, %la: tensor<1x1x?xf64>, %b: tensor<1x1x?x2xf64>, %lb: tensor<1x1x?xf64>)
        -> (tensor<1x1x?x2xf64>, tensor<1x1x?xf64>) {
      %out, %lse = attn.merge (%a, %la), (%b, %lb) : tensor<1x1x?x2xf64>, tensor<1x1x?xf64> -> tensor<1x1x?x2xf64>, tensor<1x1x?xf64>
      return %out, %lse : tensor<1x1x?x2xf64>, tensor<1x1x?xf64>
    })",
                           [](OpPassManager &pm) { pm.addPass(createDecomposeReferencePass()); }),
            "");
  // Both sides, each side alone beside NaN, none, and a difference that no exponential holds.
  double infinity = INFINITY, nan = std::nan("");
  F64Array a({1, 1, 5, 2}), b({1, 1, 5, 2}), la({1, 1, 5}), lb({1, 1, 5});
  a.data = {1, 2, 3, 4, nan, infinity, nan, nan, 5, 6};
  b.data = {3, 6, infinity, nan, 7, 8, infinity, nan, 9, 10};
  la.data = {0, 1, -infinity, -infinity, 2000};
  lb.data = {std::log(3.0), -infinity, 2, -infinity, -2000};
  std::vector<F64Array> results = {a, la};
  ASSERT_EQ(
      module.run("f", {module.tensor(a), module.tensor(la), module.tensor(b), module.tensor(lb)}, results),
      "");
  F64Array out({1, 1, 5, 2}), lse({1, 1, 5});
  out.data = {2.5, 5, 3, 4, 7, 8, 0, 0, 5, 6};
  lse.data = {std::log(4.0), 1, 2, -infinity, 2000};
  expectNear(results[0], out, "out");
  expectNear(results[1], lse, "lse");
}

TEST(ReferenceMerge, CombinesAnyNumberOfParts) {
  F64Module module;
  ASSERT_EQ(module.compile(R"(
    func.func @stack(%outs: tensor<?x1x1x?x2xf64>, %lses: tensor<?x1x1x?xf64>) -> (tensor<1x1x?x2xf64>, tensor<1x1x?xf64>) {
      %out, %lse = attn.merge (%outs, %lses)
        : tensor<?x1x1x?x2xf64>, tensor<?x1x1x?xf64> -> tensor<1x1x?x2xf64>, tensor<1x1x?xf64>
      return %out, %lse : tensor<1x1x?x2xf64>, tensor<1x1x?xf64>
    }
    func.func @pairs(%a: tensor<1x1x?x2xf64>, %la: tensor<1x1x?xf64>, %b: tensor<1x1x?x2xf64>, %lb: tensor<1x1x?xf64>,
        %c: tensor<1x1x?x2xf64>, %lc: tensor<1x1x?xf64>) -> (tensor<1x1x?x2xf64>, tensor<1x1x?xf64>) {
      %out, %lse = attn.merge (%a, %la), (%b, %lb), (%c, %lc)
        : tensor<1x1x?x2xf64>, tensor<1x1x?xf64> -> tensor<1x1x?x2xf64>, tensor<1x1x?xf64>
      return %out, %lse : tensor<1x1x?x2xf64>, tensor<1x1x?xf64>
    })",
                           [](OpPassManager &pm) { pm.addPass(createDecomposeReferencePass()); }),
            "");
  // Rows: all three parts; the middle one without a key, beside NaN; only the last; none.
  double infinity = INFINITY, nan = std::nan("");
  std::vector<double> outs[] = {{1, 2, 2, 4, nan, nan, nan, infinity},
                                {5, 4, nan, nan, infinity, nan, nan, nan},
                                {9, 0, 6, 8, 3, 5, nan, infinity}};
  std::vector<double> lses[] = {{100, -3, -infinity, -infinity},
                                {100 + std::log(2.0), -infinity, -infinity, -infinity},
                                {100, -3 + std::log(3.0), -7, -infinity}};
  F64Array out({1, 1, 4, 2}), lse({1, 1, 4});
  out.data = {5, 2.5, 5, 7, 3, 5, 0, 0};
  lse.data = {100 + std::log(4.0), -3 + std::log(4.0), -7, -infinity};

  std::vector<F64Array> results = {out, lse};
  std::vector<F64Array> parts;
  F64Array stack({3, 1, 1, 4, 2}), stackLse({3, 1, 1, 4});
  stack.data.clear();
  stackLse.data.clear();
  for (int part = 0; part < 3; ++part) {
    stack.data.insert(stack.data.end(), outs[part].begin(), outs[part].end());
    stackLse.data.insert(stackLse.data.end(), lses[part].begin(), lses[part].end());
    parts.push_back(F64Array({1, 1, 4, 2}));
    parts.back().data = outs[part];
    parts.push_back(F64Array({1, 1, 4}));
    parts.back().data = lses[part];
  }
  ASSERT_EQ(module.run("stack", {module.tensor(stack), module.tensor(stackLse)}, results), "");
  expectNear(results[0], out, "out of a stack");
  expectNear(results[1], lse, "lse of a stack");

  results = {F64Array({1, 1, 4, 2}), F64Array({1, 1, 4})};
  ASSERT_EQ(module.run("pairs",
                       {module.tensor(parts[0]), module.tensor(parts[1]), module.tensor(parts[2]),
                        module.tensor(parts[3]), module.tensor(parts[4]), module.tensor(parts[5])},
                       results),
            "");
  expectNear(results[0], out, "out of pairs");
  expectNear(results[1], lse, "lse of pairs");
}
