//===- ScoreParts.cpp - a score as a sum of what is known of it --------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/ScoreParts.h"
#include "dialect/AttnDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Matchers.h"
#include "passes/RegionUtils.h"

using namespace mlir;
using namespace attn;

/// Sums of more than so many indices of up to 2^21 may need more than 32 bits.
static constexpr int64_t kMaxMagnitude = 1 << 10;

using Values = llvm::DenseSet<Value>;

/// These values, and all that are computed with them, in the regions of operations too.
static Values findUses(Block &block, ArrayRef<Value> values) {
  Values found(values.begin(), values.end());
  for (Operation &op : block) {
    bool uses = false;
    op.walk<WalkOrder::PreOrder>([&](Operation *nested) {
      if (llvm::none_of(nested->getOperands(), [&](Value value) { return found.contains(value); }))
        return;
      found.insert(nested->result_begin(), nested->result_end());
      uses = true;
    });
    if (uses)
      found.insert(op.result_begin(), op.result_end());
  }
  return found;
}

namespace {
/// factor * s + position, which grows by slope from a key to the next. Null is 0.
struct AffineScore {
  Value factor, slope, position;
};

/// An integer that grows by `slope` from a key to the next, in magnitude at most `magnitude` indices.
struct AffineIndex {
  int64_t slope, magnitude;
};

/// Works on a region of its own, to which it adds what computes the parts.
class ScoreSplitter {
public:
  explicit ScoreSplitter(Region &score);
  std::optional<ScoreParts> split();

private:
  std::optional<AffineIndex> getIndex(Value value);
  std::optional<AffineIndex> computeIndex(Value value);
  std::optional<AffineScore> getAffine(Value value);
  std::optional<AffineScore> computeAffine(Value value);
  AffineScore scale(const AffineScore &affine, function_ref<Value(Value)> apply, Value scaled);
  AffineScore add(const AffineScore &x, const AffineScore &y, Value sum);
  AffineScore negate(const AffineScore &affine);
  Value add(Value x, Value y);
  Value negate(Value x) { return x ? Value(arith::NegFOp::create(b, x)) : x; }
  Value multiply(Value x, Value y);
  std::pair<AffineScore, Value> splitSum(Value value);
  std::unique_ptr<Region> getRegion(Value yielded);

  Region region;
  Block &block;
  ImplicitLocOpBuilder b;
  Value score, key;
  /// What depends on s; on s or the key.
  Values ofScore, varying;
  /// What is known of values so far: one may be used many times.
  llvm::DenseMap<Value, std::optional<AffineIndex>> indices;
  llvm::DenseMap<Value, std::optional<AffineScore>> scores;
};
} // namespace

static Region &clone(Region &region, Region &into) {
  IRMapping mapping;
  region.cloneInto(&into, mapping);
  return into;
}

ScoreSplitter::ScoreSplitter(Region &scoreRegion)
    : block(clone(scoreRegion, region).front()), b(scoreRegion.getLoc(), block.getTerminator()),
      score(block.getArgument(ScoreArgs::score)), key(block.getArgument(ScoreArgs::key)),
      ofScore(findUses(block, score)), varying(findUses(block, {score, key})) {}

/// What a constant of 32 bits is.
static std::optional<int64_t> getNumber(Value value) {
  APInt constant;
  if (matchPattern(value, m_ConstantInt(&constant)) && constant.isSignedIntN(32))
    return constant.getSExtValue();
  return std::nullopt;
}

std::optional<AffineIndex> ScoreSplitter::getIndex(Value value) {
  if (auto known = indices.find(value); known != indices.end())
    return known->second;
  return indices[value] = computeIndex(value);
}

std::optional<AffineIndex> ScoreSplitter::computeIndex(Value value) {
  // Narrow ones wrap at lengths that there are.
  if (Type type = value.getType(); !type.isIndex() && type.getIntOrFloatBitWidth() < 32)
    return std::nullopt;
  if (value == key)
    return AffineIndex{1, 1};
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    if (argument.getArgNumber() < ScoreArgs::numFixed)
      return AffineIndex{0, 1};
    return std::nullopt;
  }
  if (std::optional<int64_t> constant = getNumber(value))
    return AffineIndex{0, (std::abs(*constant) >> 21) + 1};
  Operation *op = value.getDefiningOp();
  if (isa<QLenOp, KvLenOp>(op))
    return AffineIndex{0, 1};
  if (isa<arith::IndexCastOp, arith::ExtSIOp, arith::TruncIOp>(op))
    return getIndex(op->getOperand(0));
  if (!isa<arith::AddIOp, arith::SubIOp, arith::MulIOp>(op))
    return std::nullopt;
  std::optional<AffineIndex> x = getIndex(op->getOperand(0)), y = getIndex(op->getOperand(1)), result;
  if (!x || !y)
    return std::nullopt;
  if (isa<arith::AddIOp>(op)) {
    result = {x->slope + y->slope, x->magnitude + y->magnitude};
  } else if (isa<arith::SubIOp>(op)) {
    result = {x->slope - y->slope, x->magnitude + y->magnitude};
  } else {
    std::optional<int64_t> left = getNumber(op->getOperand(0)), right = getNumber(op->getOperand(1));
    const AffineIndex &multiplied = right ? *x : *y;
    if (std::optional<int64_t> factor = right ? right : left)
      result = {multiplied.slope * *factor, multiplied.magnitude * std::abs(*factor)};
  }
  return result && result->magnitude <= kMaxMagnitude ? result : std::nullopt;
}

Value ScoreSplitter::add(Value x, Value y) {
  return x && y ? Value(arith::AddFOp::create(b, x, y)) : x ? x : y;
}

Value ScoreSplitter::multiply(Value x, Value y) {
  Value product = arith::MulFOp::create(b, x, y);
  for (Values *uses : {&ofScore, &varying})
    if (uses->contains(x) || uses->contains(y))
      uses->insert(product);
  return product;
}

/// Parts of the sum of two, which is `sum`.
AffineScore ScoreSplitter::add(const AffineScore &x, const AffineScore &y, Value sum) {
  AffineScore result{add(x.factor, y.factor), add(x.slope, y.slope), {}};
  result.position = result.factor ? add(x.position, y.position) : sum;
  return result;
}

/// Parts of a multiple, which is `scaled`; `apply` multiplies.
AffineScore ScoreSplitter::scale(const AffineScore &affine, function_ref<Value(Value)> apply, Value scaled) {
  auto multiple = [&](Value part) { return part ? apply(part) : part; };
  AffineScore result{multiple(affine.factor), multiple(affine.slope), {}};
  result.position = result.factor ? multiple(affine.position) : scaled;
  return result;
}

AffineScore ScoreSplitter::negate(const AffineScore &affine) {
  auto negatePart = [&](Value part) { return negate(part); };
  return scale(affine, negatePart, affine.factor ? Value() : negate(affine.position));
}

std::optional<AffineScore> ScoreSplitter::getAffine(Value value) {
  if (auto known = scores.find(value); known != scores.end())
    return known->second;
  return scores[value] = computeAffine(value);
}

std::optional<AffineScore> ScoreSplitter::computeAffine(Value value) {
  if (!varying.contains(value))
    return AffineScore{{}, {}, value};
  auto constant = [&](double number) -> Value {
    return arith::ConstantOp::create(b, b.getF32FloatAttr(static_cast<float>(number)));
  };
  if (value == score)
    return AffineScore{constant(1), {}, {}};
  Operation *op = value.getDefiningOp();
  if (!op || !value.getType().isF32())
    return std::nullopt;
  auto product = [&](Value x, Value y, Value result) -> std::optional<AffineScore> {
    if (varying.contains(y))
      std::swap(x, y);
    std::optional<AffineScore> affine = getAffine(x);
    if (varying.contains(y) || !affine)
      return std::nullopt;
    // `x * 1` folds.
    return scale(
        *affine, [&](Value part) -> Value { return b.createOrFold<arith::MulFOp>(y, part); }, result);
  };
  if (isa<arith::SIToFPOp>(op)) {
    std::optional<AffineIndex> index = getIndex(op->getOperand(0));
    if (!index)
      return std::nullopt;
    return AffineScore{{}, constant(static_cast<double>(index->slope)), value};
  }
  if (isa<arith::MulFOp>(op))
    return product(op->getOperand(0), op->getOperand(1), value);
  if (auto fma = dyn_cast<math::FmaOp>(op)) {
    std::optional<AffineScore> x = product(fma.getA(), fma.getB(), multiply(fma.getA(), fma.getB()));
    std::optional<AffineScore> y = getAffine(fma.getC());
    return x && y ? std::optional(add(*x, *y, value)) : std::nullopt;
  }
  if (!isa<arith::AddFOp, arith::SubFOp, arith::DivFOp, arith::NegFOp>(op))
    return std::nullopt;
  std::optional<AffineScore> x = getAffine(op->getOperand(0));
  if (!x)
    return std::nullopt;
  if (isa<arith::NegFOp>(op))
    return negate(*x);
  Value right = op->getOperand(1);
  if (isa<arith::DivFOp>(op)) {
    if (varying.contains(right))
      return std::nullopt;
    auto divide = [&](Value part) -> Value { return arith::DivFOp::create(b, part, right); };
    return scale(*x, divide, value);
  }
  std::optional<AffineScore> y = getAffine(right);
  if (y && isa<arith::SubFOp>(op))
    y = negate(*y);
  return y ? std::optional(add(*x, *y, value)) : std::nullopt;
}

/// A value as an affine part and another one, which may be null.
std::pair<AffineScore, Value> ScoreSplitter::splitSum(Value value) {
  if (std::optional<AffineScore> affine = getAffine(value))
    return {*affine, {}};
  Operation *op = value.getDefiningOp();
  if (!op || !value.getType().isF32() || !isa<arith::AddFOp, arith::SubFOp, math::FmaOp>(op))
    return {{}, value};
  Value x = op->getOperand(0), y = op->getOperands().back();
  if (isa<math::FmaOp>(op))
    x = multiply(x, op->getOperand(1));
  for (auto [rest, other] : {std::pair(x, y), std::pair(y, x)}) {
    std::optional<AffineScore> affine = getAffine(other);
    // Where both use s it stays in one of them.
    if (!affine || (affine->factor && ofScore.contains(rest)))
      continue;
    auto [parts, pair] = splitSum(rest);
    if (isa<arith::SubFOp>(op)) {
      if (rest == x)
        affine = negate(*affine);
      else
        std::tie(parts, pair) = std::pair(negate(parts), negate(pair));
    }
    return {add(parts, *affine, add(parts.position, affine->position)), pair};
  }
  return {{}, value};
}

/// A region that yields the value; null where that is.
std::unique_ptr<Region> ScoreSplitter::getRegion(Value yielded) {
  return yielded ? cloneYielding(region, yielded) : nullptr;
}

std::optional<ScoreParts> ScoreSplitter::split() {
  Value whole = block.getTerminator()->getOperand(0);
  auto [affine, pair] = splitSum(whole);
  if (pair == whole)
    return std::nullopt;
  return ScoreParts{getRegion(affine.factor), getRegion(affine.slope), getRegion(affine.position),
                    getRegion(pair)};
}

std::optional<ScoreParts> attn::splitScore(Region &score) { return ScoreSplitter(score).split(); }

bool attn::growsWithKey(Region &score) {
  std::optional<ScoreParts> parts = splitScore(score);
  if (parts && !parts->pair)
    return false;
  Region &pair = parts ? *parts->pair : score;
  auto usesOfKey = findUses(pair.front(), pair.getArgument(ScoreArgs::key));
  return pair
      .walk([&](Operation *op) {
        bool isNumber = isa<arith::SIToFPOp, arith::UIToFPOp>(op) && usesOfKey.contains(op->getOperand(0));
        return isNumber ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}
