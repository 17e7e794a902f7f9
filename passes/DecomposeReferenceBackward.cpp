//===- DecomposeReferenceBackward.cpp - the gradients of the reference ------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Keeps dK, dV and the gradients of captures in the compute type until the last chunk has added to them. The
// gradient of the score is computed pair by pair in scf loops, since `attn.accumulate_gradient` writes
// wherever it is told to.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/TypeUtilities.h"
#include "passes/ReferenceBuilder.h"

using namespace mlir;
using namespace attn;

using Values = ReferenceBuilder::Values;

namespace {
/// Order of the values that go around the loop over chunks, which is that of the results; the gradients of
/// the captures follow.
enum { dQueryResult, dKeyResult, dValueResult, numFixedResults };

struct Backward {
  Backward(AttentionBackwardOp op, const ReferenceOptions &options)
      : op(op), b(op, op.getElementType(), options), attention(b, op), out(b.operand(op.getOut())),
        lse(b.operand(op.getLse())), dOut(b.operand(op.getDOut())),
        dLse(op.getDLse() ? b.operand(op.getDLse()) : Value()) {
    attention.inlining.accumulateGradient = [this](OpBuilder &builder, Location loc, Value value,
                                                   unsigned capture, ValueRange indices,
                                                   MutableArrayRef<Value> state) {
      Value &gradient = state[this->op.getCaptureGradient(capture).getResultNumber() - numFixedResults];
      Value before = tensor::ExtractOp::create(builder, loc, gradient, indices);
      gradient = tensor::InsertOp::create(builder, loc, arith::AddFOp::create(builder, loc, before, value),
                                          gradient, indices);
    };
  }

  void run();
  Values buildChunk(ReferenceAttention::Chunk chunk, ValueRange results);
  Values buildScoreGradient(ReferenceAttention::Chunk chunk, Value scaled, Value s, Value p, Value dP,
                            Value delta, ValueRange dCaptures);

  AttentionBackwardOp op;
  ReferenceBuilder b;
  ReferenceAttention attention;
  Value out, lse, dOut, dLse;
};
} // namespace

Values Backward::buildChunk(ReferenceAttention::Chunk chunk, ValueRange results) {
  enum { i, j, c };
  SmallVector<OpFoldResult> row = {chunk.rows}, tile = {chunk.rows, attention.keySizes[2]};
  Value q = attention.rowsOf(attention.query, chunk), dO = attention.rowsOf(dOut, chunk);
  Value k = attention.keysOf(attention.key, chunk), v = attention.keysOf(attention.value, chunk);
  Value rowLse = attention.rowsOf(lse, chunk);

  Value delta = b.generic({{dO, {i, c}}, {attention.rowsOf(out, chunk), {i, c}}}, {b.zeros(row), {i}},
                          [&](ValueRange v) { return b.add(v[2], b.mul(b.widen(v[0]), b.widen(v[1]))); });
  if (dLse)
    delta = b.generic({{delta, {i}}, {attention.rowsOf(dLse, chunk), {i}}}, {b.empty(row), {i}},
                      [&](ValueRange v) { return b.sub(v[0], b.widen(v[1])); });

  // A row without lse has no pair: its scores become -inf, which drops them from everything below.
  auto [scaled, score] = attention.buildScores(chunk);
  Value s = b.generic({{score, {i, j}}, {rowLse, {i}}}, {b.empty(tile), {i, j}}, [&](ValueRange v) {
    return b.select(b.isMinusInfinity(b.widen(v[1])), b.constant(-INFINITY), v[0]);
  });
  Value p = b.generic({{s, {i, j}}, {rowLse, {i}}}, {b.empty(tile), {i, j}}, [&](ValueRange v) {
    return b.select(b.isMinusInfinity(v[0]), b.constant(0.0), b.round(b.exp(b.sub(v[0], b.widen(v[1])))));
  });
  Value dP = attention.buildProduct({dO, {i, c}}, {v, {j, c}}, {b.zeros(tile), {i, j}});

  Values gradients = buildScoreGradient(chunk, scaled, s, p, dP, delta, results.drop_front(numFixedResults));
  Value dX = gradients.front();

  // The scale of d_x * scale * key is applied to the sums, here and in `run`.
  Value dQ = attention.buildProduct({dX, {i, j}}, {k, {j, c}},
                                    {b.zeros({chunk.rows, attention.querySizes[3]}), {i, c}}, s);
  dQ = b.generic({{dQ, {i, c}}}, {b.empty({chunk.rows, attention.querySizes[3]}), {i, c}},
                 [&](ValueRange v) { return b.mul(v[0], attention.scale); });
  Value dK = attention.buildProduct({dX, {i, j}}, {q, {i, c}},
                                    {attention.keysOf(results[dKeyResult], chunk), {j, c}}, s);
  Value dV = attention.buildProduct({p, {i, j}}, {dO, {i, c}},
                                    {attention.keysOf(results[dValueResult], chunk), {j, c}}, s);

  Value dQuery = b.convert(dQ, b.resultElement(b.element));
  Values updated = {attention.insertRows(dQuery, results[dQueryResult], chunk),
                    attention.insertKeys(dK, results[dKeyResult], chunk),
                    attention.insertKeys(dV, results[dValueResult], chunk)};
  llvm::append_range(updated, ArrayRef(gradients).drop_front());
  return updated;
}

/// The gradient of the scaled dot products, then the updated gradients of the captures.
Values Backward::buildScoreGradient(ReferenceAttention::Chunk chunk, Value scaled, Value s, Value p, Value dP,
                                    Value delta, ValueRange dCaptures) {
  Values inits = {b.empty({chunk.rows, attention.keySizes[2]})};
  llvm::append_range(inits, dCaptures);
  Value one = b.index(1), keyLength = getValueOrCreateConstantIndexOp(b, b.getLoc(), attention.keySizes[2]);
  return b.loop(chunk.rows, one, inits, [&](Value i, ValueRange values) {
    return b.loop(keyLength, one, values, [&](Value j, ValueRange values) -> Values {
      auto at = [&](Value tensor, ValueRange indices) -> Value {
        return tensor::ExtractOp::create(b, tensor, indices);
      };
      Values branchResults = {b.constant(0.0)};
      llvm::append_range(branchResults, values.drop_front());
      Values results = b.ifElse(
          b.isMinusInfinity(at(s, {i, j})), ValueRange(branchResults).getTypes(),
          [&] { return branchResults; },
          [&]() -> Values {
            Value dS = b.mul(at(p, {i, j}), b.sub(b.round(at(dP, {i, j})), at(delta, {i})));
            Values state(values.drop_front());
            Value dX = dS;
            if (!op.getGradient().empty()) {
              Value queryIndex = arith::AddIOp::create(b, chunk.begin, i);
              Values arguments = {dS, at(scaled, {i, j}), chunk.batch, chunk.head, queryIndex, j};
              llvm::append_range(arguments, attention.captures);
              dX = inlineRegion(b, op.getGradient(), arguments, attention.inlining, state);
            }
            state.insert(state.begin(), b.round(dX));
            return state;
          });
      results.front() = tensor::InsertOp::create(b, results.front(), values[0], ValueRange{i, j});
      return results;
    });
  });
}

void Backward::run() {
  Values inits = {b.empty(attention.querySizes, b.resultElement(b.element)), b.zeros(attention.keySizes),
                  b.zeros(attention.valueSizes)};
  for (unsigned number : op.getDifferentiableCaptures()) {
    Value capture = attention.captures[number];
    inits.push_back(b.zeros(isa<RankedTensorType>(capture.getType())
                                ? tensor::getMixedSizes(b, b.getLoc(), capture)
                                : SmallVector<OpFoldResult>()));
  }

  Values results = attention.forEachChunk(
      inits, [&](ReferenceAttention::Chunk chunk, ValueRange values) { return buildChunk(chunk, values); });

  SmallVector<unsigned, 4> all = {0, 1, 2, 3};
  results[dKeyResult] = b.generic({{results[dKeyResult], all}}, {b.empty(attention.keySizes), all},
                                  [&](ValueRange v) { return b.mul(v[0], attention.scale); });
  for (auto [result, value] : llvm::zip_equal(op.getResults(), results))
    b.replaceResult(result, b.convert(value, b.resultElement(getElementTypeOrSelf(result.getType()))));
  op.erase();
}

void attn::decomposeAttentionBackward(AttentionBackwardOp op, const ReferenceOptions &options) {
  Backward(op, options).run();
}
