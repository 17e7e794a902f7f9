//===- KeyWindow.cpp - how many keys a mask keeps for a query ---------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Schedules are chosen of what an operation says, by tools too, without any IR being built. That is what
// MaskFormula does, for numbers that are not known before a call: here only constants count.
//
//===----------------------------------------------------------------------===//

#include "passes/KeyWindow.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace attn;

namespace {
/// A multiple of q_idx and one of kv_idx, and a number.
struct LinearIndex {
  int64_t query = 0, key = 0, number = 0;
};
/// What q_idx - kv_idx of a kept pair is at least, and at most.
struct DistanceBounds {
  std::optional<int64_t> least, most;
};
} // namespace

/// Masks are small; but what is used twice at each of many levels would be evaluated without an end.
static constexpr unsigned kMaxDepth = 8;

static std::optional<LinearIndex> evaluateIndex(Value value, unsigned depth = 0) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    if (argument.getArgNumber() == MaskArgs::query)
      return LinearIndex{1, 0, 0};
    if (argument.getArgNumber() == MaskArgs::key)
      return LinearIndex{0, 1, 0};
    return std::nullopt;
  }
  APInt number;
  if (matchPattern(value, m_ConstantInt(&number)) && number.getSignificantBits() <= 32)
    return LinearIndex{0, 0, number.getSExtValue()};
  Operation *op = value.getDefiningOp();
  if (depth == kMaxDepth || !isa<arith::AddIOp, arith::SubIOp, arith::IndexCastOp>(op))
    return std::nullopt;
  std::optional<LinearIndex> lhs = evaluateIndex(op->getOperand(0), depth + 1);
  if (!lhs || isa<arith::IndexCastOp>(op))
    return lhs;
  std::optional<LinearIndex> rhs = evaluateIndex(op->getOperand(1), depth + 1);
  if (!rhs)
    return std::nullopt;
  int64_t sign = isa<arith::SubIOp>(op) ? -1 : 1;
  return LinearIndex{lhs->query + sign * rhs->query, lhs->key + sign * rhs->key,
                     lhs->number + sign * rhs->number};
}

/// By those comparisons that all have to hold.
static DistanceBounds boundDistance(Value keep, unsigned depth = 0) {
  if (auto both = keep.getDefiningOp<arith::AndIOp>(); both && depth < kMaxDepth) {
    DistanceBounds bounds = boundDistance(both.getLhs(), depth + 1),
                   rhs = boundDistance(both.getRhs(), depth + 1);
    if (rhs.least)
      bounds.least = std::max(bounds.least.value_or(*rhs.least), *rhs.least);
    if (rhs.most)
      bounds.most = std::min(bounds.most.value_or(*rhs.most), *rhs.most);
    return bounds;
  }
  auto compare = keep.getDefiningOp<arith::CmpIOp>();
  if (!compare)
    return {};
  using Predicate = arith::CmpIPredicate;
  Predicate predicate = compare.getPredicate();
  bool isStrict = predicate == Predicate::slt || predicate == Predicate::sgt,
       isLess = predicate == Predicate::slt || predicate == Predicate::sle;
  if (!isStrict && !isLess && predicate != Predicate::sge)
    return {};
  std::optional<LinearIndex> smaller = evaluateIndex(compare->getOperand(isLess ? 0 : 1)),
                             larger = evaluateIndex(compare->getOperand(isLess ? 1 : 0));
  if (!smaller || !larger)
    return {};
  int64_t query = larger->query - smaller->query, key = larger->key - smaller->key,
          number = larger->number - smaller->number - (isStrict ? 1 : 0);
  // query * q_idx + key * kv_idx + number is at least 0.
  if (query == 1 && key == -1)
    return {-number, std::nullopt};
  if (query == -1 && key == 1)
    return {std::nullopt, number};
  return {};
}

std::optional<int64_t> attn::findKeyWindow(AttentionOpInterface op) {
  if (op.getMask().empty() || !op.getMask().hasOneBlock())
    return std::nullopt;
  DistanceBounds bounds = boundDistance(op.getMask().front().getTerminator()->getOperand(0));
  if (!bounds.least || !bounds.most)
    return std::nullopt;
  return std::max<int64_t>(*bounds.most - *bounds.least + 1, 0);
}
