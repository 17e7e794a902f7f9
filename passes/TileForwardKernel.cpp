//===- TileForwardKernel.cpp - what the forward kernels of a GPU share -------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/TileForwardKernel.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/ScoreBounds.h"

using namespace mlir;
using namespace attn;
using namespace attn::tile;

ForwardTileKernel::ForwardTileKernel(ImplicitLocOpBuilder &host, OnlineAttentionOp op, StringRef name,
                                     const TileLoweringOptions &options)
    : OnlineTileKernel(host, op, name, options), host(host), scale(op.getScaleOrDefault()) {
  takeFactors();
  approximateTanh();
}

//===----------------------------------------------------------------------===//
// What is known of the score region
//===----------------------------------------------------------------------===//

/// Sums of exponentials of 2 up to this one are far from the ends of f32.
static constexpr double kMaxExponent = 80;

/// A constant that the score region multiplies its argument by goes into the scale, and one that it
/// multiplies its result by into the exponent: neither costs an instruction then. The scale and an addition
/// become one instruction.
void ForwardTileKernel::takeFactors() {
  if (op.getScore().empty()) {
    if (scale > 0)
      scoreFactor = scale;
    return;
  }
  auto isUsable = [](double factor) { return factor >= 0x1p-60 && factor <= 0x1p60; };
  Block &region = op.getScore().front();
  Value argument = region.getArgument(0);
  double factor;
  while (argument.hasOneUse()) {
    Operation *user = *argument.user_begin();
    if (user->getNumResults() != 1 || takeConstantFactor(user->getResult(0), factor) != argument ||
        !isUsable(std::abs(scale * factor)))
      break;
    scale *= factor;
    user->getResult(0).replaceAllUsesWith(argument);
    user->erase();
  }
  if (argument.hasOneUse() && isa<arith::AddFOp, arith::SubFOp>(*argument.user_begin())) {
    Operation *user = *argument.user_begin();
    bool isSub = isa<arith::SubFOp>(user), isFirst = user->getOperand(0) == argument;
    ImplicitLocOpBuilder builder(user->getLoc(), user);
    Value factor = arith::ConstantOp::create(
        builder, builder.getF32FloatAttr(static_cast<float>(isSub && !isFirst ? -scale : scale)));
    Value other = user->getOperand(isFirst ? 1 : 0);
    if (isSub && isFirst)
      other = arith::NegFOp::create(builder, other);
    user->getResult(0).replaceAllUsesWith(math::FmaOp::create(builder, argument, factor, other));
    user->erase();
    scale = 1;
  }
  Operation *yield = region.getTerminator();
  if (Value source = takeConstantFactor(yield->getOperand(0), factor); source && isUsable(factor)) {
    scoreFactor = factor;
    yield->setOperand(0, source);
  }
  // f16 holds no such exponentials, and in f32 the rounding of the exponents would show.
  FloatInterval bounds = getFloatInterval(yield->getOperand(0));
  isBounded = elementType.isBF16() &&
              std::max(-bounds.low, bounds.high) * scoreFactor * llvm::numbers::log2e <= kMaxExponent;
}

/// tanh(x) = x (a + b x^2 + c x^4), the least relative error up to |x| = kNear: 3.0e-4. It grows with x
/// everywhere, since c > 0 and 9 b^2 < 20 a c; so what is out of that range shows in what is computed of it.
static constexpr double kNear = 0.8, kTanh[] = {0.99969676, -0.324574, 0.09357487};

/// tanh(x) is computed by a unit that also computes the exponentials, and is what holds up a kernel with a
/// soft cap. Where `afn` allows an approximation, small scores get a polynomial, which has a smaller error
/// than tanh.approx, 4.9e-4.
void ForwardTileKernel::approximateTanh() {
  if (op.getScore().empty())
    return;
  auto isApproximate = [](Operation *user) {
    auto tanh = dyn_cast<math::TanhOp>(user);
    return tanh && bitEnumContainsAll(tanh.getFastmath(), arith::FastMathFlags::afn);
  };
  Value argument = op.getScore().getArgument(0);
  if (argument.use_empty() || !llvm::all_of(argument.getUsers(), isApproximate))
    return;
  // The last term must not vanish (nor overflow): the polynomial would turn back beyond its range, which no
  // sum shows.
  for (double factor : {1.0, scoreFactor * llvm::numbers::log2e})
    if (double last = std::abs(factor * kTanh[2] * std::pow(scale, 5)); last < 0x1p-100 || last > 0x1p100)
      return;
  nearScore = std::make_unique<Region>();
  IRMapping mapping;
  op.getScore().cloneInto(nearScore.get(), mapping);
  nearBound = kNear / std::abs(scale);
  for (Operation *user : llvm::make_early_inc_range(nearScore->getArgument(0).getUsers())) {
    // It yields the exponent itself where nothing else is done to it.
    bool isYielded = isBounded && nearScore->front().getTerminator()->getOperand(0) == user->getResult(0);
    double factor = isYielded ? scoreFactor * llvm::numbers::log2e : 1;
    if (isYielded)
      farExponent = std::abs(factor) * kNear *
                    (kTanh[0] + kTanh[1] * std::pow(kNear, 2) + kTanh[2] * std::pow(kNear, 4));
    ImplicitLocOpBuilder region(user->getLoc(), user);
    auto getCoefficient = [&](int term) { return factor * kTanh[term] * std::pow(scale, 2 * term + 1); };
    auto constant = [&](double number) -> Value {
      return arith::ConstantOp::create(region, region.getF32FloatAttr(static_cast<float>(number)));
    };
    // As a square and a constant: with head_dim 128 a kernel is faster than by Horner's rule, by 1 to 3 % on
    // an H200.
    double sign = factor * scale < 0 ? -1 : 1, root = std::sqrt(sign * getCoefficient(2)),
           middle = sign * getCoefficient(1) / (2 * root);
    Value x = user->getOperand(0), square = arith::MulFOp::create(region, x, x);
    Value inner = math::FmaOp::create(region, square, constant(root), constant(middle));
    Value signedInner = sign < 0 ? arith::NegFOp::create(region, inner).getResult() : inner;
    Value series =
        math::FmaOp::create(region, signedInner, inner, constant(getCoefficient(0) - sign * middle * middle));
    user->getResult(0).replaceAllUsesWith(arith::MulFOp::create(region, x, series));
    user->erase();
  }
}

//===----------------------------------------------------------------------===//
// Score and mask
//===----------------------------------------------------------------------===//

/// The query head, the query and the key of a score.
std::pair<Value, Value> ForwardTileKernel::decodeRows(Value work, Value rows, Value numBlocks) {
  Value position = takeDigit(work, numBlocks, "position");
  if (packed) {
    kvHead = takeDigit(work, kvHeads, "kv_head");
    head = named(mul(kvHead, group), "head");
  } else {
    head = takeDigit(work, qHeads, "head");
    kvHead = named(arith::DivSIOp::create(b, head, group), "kv_head");
  }
  batch = named(work, "batch");
  // The last blocks first: under a causal mask they are the longest.
  Value block = named(sub(sub(numBlocks, index(1)), position), "block");
  begin = named(mul(block, index(blockM())), packed ? "row_begin" : "q_begin");
  Value end = arith::MinSIOp::create(b, add(begin, index(blockM())), rows);
  Value queryBegin = packed ? arith::DivSIOp::create(b, begin, group) : begin;
  return {queryBegin, named(packed ? arith::CeilDivSIOp::create(b, end, group) : end, "q_end")};
}

std::tuple<Value, Value, Value> ForwardTileKernel::getPair(Value keyBegin, ValueRange indices) {
  Value row = add(begin, indices[0]);
  Value queryIndex = named(packed ? arith::DivSIOp::create(b, row, packed) : row, "q_idx");
  Value queryHead = head;
  if (packed)
    queryHead = named(add(head, arith::RemSIOp::create(b, row, packed)), "q_head");
  return {queryHead, queryIndex, named(add(keyBegin, indices[1]), "kv_idx")};
}

Value ForwardTileKernel::multiply(Value value, double factor) {
  return factor == 1 ? value : arith::MulFOp::create(b, value, f32(factor)).getResult();
}

Value ForwardTileKernel::applyPart(Region &part, Value score, Value keyBegin, ValueRange indices,
                                   Value biasElement) {
  auto [queryHead, queryIndex, keyIndex] = getPair(keyBegin, indices);
  RegionInlining inlining = getInlining();
  if (biasElement)
    inlining.readCapture = [&, readOther = inlining.readCapture, queryIndex = queryIndex,
                            keyIndex = keyIndex](OpBuilder &builder, Location loc, Value capture,
                                                 ValueRange at) -> Value {
      bool isBias = capture == captures[denseBias->capture] && at.size() >= 2 && at.back() == keyIndex &&
                    at.drop_back().back() == queryIndex;
      return isBias ? biasElement : readOther(builder, loc, capture, at);
    };
  return inlineScore(part, score, batch, queryHead, queryIndex, keyIndex, inlining);
}

void ForwardTileKernel::mapScores(Region &region, Value keyBegin, double scale, double factor) {
  SmallVector<Value> ins;
  if (bias)
    ins.push_back(bias);
  map(ins, scores, [&](ValueRange indices, ValueRange elements) -> SmallVector<Value> {
    Value score = multiply(elements.back(), scale);
    if (!region.empty())
      score = applyPart(region, score, keyBegin, indices, bias ? elements.front() : Value());
    return {multiply(score, factor)};
  });
}

void ForwardTileKernel::mapNearScores(Value keyBegin) {
  bool isExponent = farExponent != 0 || !isBounded;
  mapScores(*nearScore, keyBegin, 1, isExponent ? 1 : scoreFactor * llvm::numbers::log2e);
}

void ForwardTileKernel::applyScore(Value keyBegin) {
  auto applyWhole = [&] {
    mapScores(op.getScore(), keyBegin, scale, isBounded ? scoreFactor * llvm::numbers::log2e : 1);
  };
  if (nearScore && looksForNearScores) {
    Value isFar = any(scores, [&](ValueRange elements) -> Value {
      return arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, math::AbsFOp::create(b, elements[0]),
                                   f32(nearBound));
    });
    ifThenElse(named(isFar, "is_far"), applyWhole, [&] { mapNearScores(keyBegin); });
  } else if (!foldsScale()) {
    applyWhole();
  }
}

void ForwardTileKernel::keepWhere(function_ref<Value(ValueRange)> isKept) {
  map({}, scores, [&](ValueRange indices, ValueRange elements) -> SmallVector<Value> {
    return {arith::SelectOp::create(b, isKept(indices), elements[0], f32(-INFINITY))};
  });
}

void ForwardTileKernel::applyMask(Value keyBegin) {
  keepWhere([&](ValueRange indices) {
    auto [queryHead, queryIndex, keyIndex] = getPair(keyBegin, indices);
    return inlineMask(batch, queryHead, queryIndex, keyIndex);
  });
}

void ForwardTileKernel::applyLength(Value keyBegin) {
  keepWhere([&](ValueRange indices) { return isLess(named(add(keyBegin, indices[1]), "kv_idx"), kvLen); });
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

void ForwardTileKernel::allocateRows(FragmentType scoresType, bool isLazy) {
  rowMax = fragment("row_max", scoresType.getRowsType());
  if (!elementType.isF32() && !isBounded)
    rowShift = fragment("row_shift", scoresType.getRowsType());
  if (isLazy && !isBounded)
    blockMax = fragment("block_max", scoresType.getRowsType());
  rowSum = fragment("row_sum", scoresType.getRowsType());
  blockSum = fragment("block_sum", scoresType.getRowsType());
  rescale = fragment("rescale", scoresType.getRowsType());
}

void ForwardTileKernel::initialiseRows() {
  FillOp::create(b, output, f32(0));
  FillOp::create(b, rowMax, f32(isBounded ? 0 : -INFINITY));
  FillOp::create(b, rowSum, f32(0));
  if (leavesLarge)
    FillOp::create(b, rowShift, f32(0));
  if (isBounded)
    FillOp::create(b, rescale, f32(1));
}

Value ForwardTileKernel::isEmpty(Value rowValue, Value empty) {
  return arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, rowValue, empty);
}

Value ForwardTileKernel::getFinite(Value max) {
  return arith::SelectOp::create(b, isEmpty(max, f32(-INFINITY)), f32(0), max);
}

Value ForwardTileKernel::exp2(Value exponent) {
  // The hardware's exp2 has a relative error of 2^-22, far below the rounding of the probabilities to 16
  // bits or tf32.
  return math::Exp2Op::create(b, exponent, arith::FastMathFlags::afn);
}

Value ForwardTileKernel::exp(Value difference) {
  if (!elementType.isF32() || op.getTf32())
    return exp2(arith::MulFOp::create(b, difference, toBase2()));
  // Nothing rounds the probabilities but this. An exp2 would round the product with log2 e, too.
  return math::ExpOp::create(b, arith::MulFOp::create(b, difference, f32(scoreFactor)));
}

void ForwardTileKernel::softmax() {
  if (isBounded) {
    map({}, scores,
        [&](ValueRange, ValueRange elements) -> SmallVector<Value> { return {exp2(elements[0])}; });
    addBlockSum();
    return;
  }
  map(rowMax, rescale, [&](ValueRange, ValueRange elements) -> SmallVector<Value> { return {elements[0]}; });
  RowReduceOp::create(b, Combine::max, scores, rowMax, scratch, /*partial=*/false);

  map(rowMax, rescale, [&](ValueRange, ValueRange elements) -> SmallVector<Value> {
    Value growth = arith::SubFOp::create(b, elements[1], getFinite(elements[0]));
    return {exp(growth)};
  });
  exponentiate();
  addBlockSum();
}

/// The rounding of a maximum, in units of exponents, is less than 4 up to here.
static constexpr double kMaxShift = 0x1p26;

/// A maximum may be exceeded by this power of 2.
static constexpr double kMaxGrowth = 8;

void ForwardTileKernel::softmaxLazily(Value firstKey) {
  map(rowMax, blockMax, [&](ValueRange, ValueRange elements) -> SmallVector<Value> { return {elements[0]}; });
  RowReduceOp::create(b, Combine::max, scores, blockMax, scratch, /*partial=*/false);
  if (firstKey)
    raiseMaximum(firstKey);
  map(blockMax, {rowMax, rescale}, [&](ValueRange, ValueRange elements) -> SmallVector<Value> {
    Value next = elements[0], old = elements[1];
    auto growth = [&](Value from, Value to) -> Value {
      return arith::MulFOp::create(b, arith::SubFOp::create(b, to, from), toBase2());
    };
    Value grows = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, growth(old, next), f32(kMaxGrowth));
    Value max = arith::SelectOp::create(b, grows, next, old);
    Value factor = exp2(growth(getFinite(max), old));
    return {max, arith::SelectOp::create(b, grows, factor, f32(1))};
  });
  exponentiate();
  addBlockSum();
}

/// Whether a part of a score is one for all rows of a tile.
static bool isUniform(Region &part) { return part.getArgument(ScoreArgs::query).use_empty(); }

void ForwardTileKernel::fixMaximum() {
  if (isBounded)
    return;
  map({}, {rowMax, rowShift}, [&](ValueRange, ValueRange elements) -> SmallVector<Value> {
    // A row that has seen no key yet starts from 0.
    Value max = getFinite(elements[0]);
    return {max, arith::MulFOp::create(b, max, toBase2())};
  });
  if (!parts)
    return;
  // In units of exponents.
  double unit = scoreFactor * llvm::numbers::log2e;
  auto rows = [&](std::unique_ptr<Region> &part, StringRef name, double factor) -> Value {
    if (!part || isUniform(*part))
      return {};
    Value rows = fragment(name, cast<FragmentType>(rowMax.getType()));
    map({}, rows, [&](ValueRange indices, ValueRange) -> SmallVector<Value> {
      return {multiply(applyPart(*part, f32(0), index(0), {indices[0], index(0)}), factor)};
    });
    return rows;
  };
  rowFactor = rows(parts->factor, "row_factor", scale * unit);
  rowSlope = rows(parts->slope, "row_slope", unit);
  rowBase = fragment("row_base", cast<FragmentType>(rowMax.getType()));
  if (!parts->slope)
    computeBase(index(0), index(0));
}

/// Scores that grow with their key would outgrow the maximum of the first block: it gets as much more as they
/// may grow from there on, or down from there.
void ForwardTileKernel::raiseMaximum(Value firstKey) {
  auto toFloat = [&](Value keys) -> Value {
    keys =
        arith::IndexCastOp::create(b, b.getI32Type(), arith::MaxSIOp::create(b, keys, index(0)).getResult());
    return arith::SIToFPOp::create(b, b.getF32Type(), keys);
  };
  Value after = toFloat(sub(kvLen, add(firstKey, index(blockN())))), before = toFloat(firstKey);
  named(after, "keys_after");
  named(before, "keys_before");
  map({}, blockMax, [&](ValueRange indices, ValueRange elements) -> SmallVector<Value> {
    Value slope = applyPart(*parts->slope, f32(0), index(0), {indices[0], index(0)});
    Value rises = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, slope, f32(0));
    Value keys = arith::SelectOp::create(b, rises, after, before);
    return {math::FmaOp::create(b, math::AbsFOp::create(b, slope), keys, elements[0])};
  });
}

/// Where exponents start from: what they are without what elements add, in the column `column` of the keys
/// from `keyBegin` on.
void ForwardTileKernel::computeBase(Value keyBegin, Value column) {
  map(rowMax, rowBase, [&](ValueRange indices, ValueRange elements) -> SmallVector<Value> {
    // The difference comes first: both may be large.
    Value base = arith::NegFOp::create(b, elements[0]);
    if (parts->position) {
      Value position = applyPart(*parts->position, f32(0), keyBegin, {indices[0], column});
      base = arith::SubFOp::create(b, position, elements[0]);
    }
    return {arith::MulFOp::create(b, base, toBase2())};
  });
}

/// A multiply-add each is left of what is proportional to q k^T, and of what is to the number of the key.
void ForwardTileKernel::exponentiateParts(Value keyBegin) {
  if (parts->slope) {
    Value column = named(FirstColumnOp::create(b, b.getIndexType(), scores), "thread_column");
    computeBase(keyBegin, column);
    keyBegin = named(add(keyBegin, column), "thread_begin");
  }
  SmallVector<Value> ins{rowBase};
  for (Value more : {rowFactor, rowSlope, bias})
    if (more)
      ins.push_back(more);
  double unit = scoreFactor * llvm::numbers::log2e;
  map(
      ins, scores,
      [&](ValueRange indices, ValueRange elements) -> SmallVector<Value> {
        Value score = elements.back(), exponent = elements[0];
        Value biasElement = bias ? elements.drop_back().back() : Value();
        elements = elements.drop_front();
        auto take = [&](Region &part, double factor, StringRef name) -> Value {
          if (isUniform(part))
            return named(multiply(applyPart(part, f32(0), index(0), {index(0), index(0)}), factor), name);
          Value taken = elements.front();
          elements = elements.drop_front();
          return taken;
        };
        Value factor = parts->factor ? take(*parts->factor, scale * unit, "exponent_factor") : Value();
        if (parts->slope) {
          Value column = arith::IndexCastOp::create(b, b.getI32Type(), indices[1]);
          column = arith::SIToFPOp::create(b, b.getF32Type(), column);
          exponent = math::FmaOp::create(b, take(*parts->slope, unit, "exponent_slope"), column, exponent);
        }
        if (parts->factor)
          exponent = math::FmaOp::create(b, score, factor, exponent);
        if (parts->pair) {
          Value pair = applyPart(*parts->pair, multiply(score, scale), keyBegin, indices, biasElement);
          exponent = math::FmaOp::create(b, pair, f32(unit), exponent);
        }
        return {exp2(exponent)};
      },
      /*relative=*/parts->slope != nullptr);
}

void ForwardTileKernel::softmaxFixed(Value keyBegin) {
  if (isBounded) {
    mapNearScores(keyBegin);
    return softmax();
  }
  if (parts) {
    exponentiateParts(keyBegin);
  } else {
    applyScore(keyBegin);
    map(rowShift, scores, [&](ValueRange, ValueRange elements) -> SmallVector<Value> {
      return {exponent(elements[1], elements[0])};
    });
  }
  FillOp::create(b, blockSum, f32(0));
  RowReduceOp::create(b, Combine::add, scores, blockSum, /*scratch=*/Value(), /*partial=*/true);
  map(blockSum, rowSum, [&](ValueRange, ValueRange elements) -> SmallVector<Value> {
    return {arith::AddFOp::create(b, elements[1], elements[0])};
  });
}

/// Sums from kMinSum to kMaxSum are right: no exponential was too large or too small to count.
static constexpr double kMaxSum = 0x1p100, kMinSum = 0x1p-40;

/// What of a row says that it is wrong, beside its output.
SmallVector<Value> ForwardTileKernel::getRowStatistics() {
  return isBounded ? SmallVector<Value>{rowSum} : SmallVector<Value>{rowSum, rowShift};
}

Value ForwardTileKernel::isOutgrown(ValueRange statistics, Value isFixed, Value keys) {
  auto compare = [&](arith::CmpFPredicate predicate, Value limit) -> Value {
    return arith::CmpFOp::create(b, predicate, statistics[0], limit);
  };
  auto either = [&](Value x, Value y) -> Value { return arith::OrIOp::create(b, x, y); };
  Value isWrong;
  if (isBounded) {
    // No score was above the range of the polynomial, its probability alone would be more; those below it,
    // which are taken for less than they are, would have added no more than 2^-9 of the sum.
    Value count = arith::IndexCastOp::create(b, b.getI32Type(), keys);
    count = arith::SIToFPOp::create(b, b.getF32Type(), count);
    Value least = arith::MulFOp::create(b, count, f32(std::exp2(9 - farExponent)));
    isWrong = either(compare(arith::CmpFPredicate::UGE, f32(std::exp2(farExponent))),
                     compare(arith::CmpFPredicate::OLT, least));
  } else {
    isWrong = either(compare(arith::CmpFPredicate::UGE, f32(kMaxSum)),
                     compare(arith::CmpFPredicate::OLT, f32(kMinSum)));
    if (!leavesLarge)
      isWrong = either(isWrong, isBeyond(statistics[1], kMaxShift));
  }
  isWrong = arith::AndIOp::create(b, isWrong, isFixed);
  return leavesLarge ? either(isWrong, isBeyond(statistics[1], kMaxShift)) : isWrong;
}

Value ForwardTileKernel::anyOutgrown(Value validRows, Value isFixed, Value keys) {
  SmallVector<Value> ins{rowCheck};
  llvm::append_range(ins, getRowStatistics());
  return anyAt(ins, [&](ValueRange indices, ValueRange elements) -> Value {
    Value isWrong =
        arith::OrIOp::create(b, isNotFinite(elements[0]), isOutgrown(elements.drop_front(), isFixed, keys));
    return arith::AndIOp::create(b, isWrong, isLess(indices[0], validRows));
  });
}

void ForwardTileKernel::checkOutput() {
  rowCheck = fragment("row_check", cast<FragmentType>(rowSum.getType()));
  FillOp::create(b, rowCheck, f32(0));
  RowReduceOp::create(b, Combine::add, output, rowCheck, /*scratch=*/Value(), /*partial=*/true);
  RowCombineOp::create(b, Combine::add, rowCheck, scratch);
}

Value ForwardTileKernel::markRows(Value validRows, Value isFixed, Value keys) {
  SmallVector<Value> ins{rowCheck};
  if (isFixed)
    llvm::append_range(ins, getRowStatistics());
  map(ins, rowMax, [&](ValueRange, ValueRange elements) -> SmallVector<Value> {
    Value isWrong = isNotFinite(elements[0]);
    if (isFixed)
      isWrong = arith::OrIOp::create(b, isWrong, isOutgrown(elements.drop_front(), isFixed, keys));
    return {arith::SelectOp::create(b, isWrong, f32(NAN), elements.back())};
  });
  return named(anyAt(rowMax,
                     [&](ValueRange indices, ValueRange elements) -> Value {
                       return arith::AndIOp::create(b, isNan(elements[0]), isLess(indices[0], validRows));
                     }),
               "is_marked");
}

Value ForwardTileKernel::exponent(Value score, Value shift) {
  return exp2(math::FmaOp::create(b, score, toBase2(), arith::NegFOp::create(b, shift)));
}

Value ForwardTileKernel::isNan(Value number) {
  return arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, number, number);
}

Value ForwardTileKernel::isNotFinite(Value number) {
  return arith::CmpFOp::create(b, arith::CmpFPredicate::UGE, math::AbsFOp::create(b, number), f32(INFINITY));
}

Value ForwardTileKernel::isBeyond(Value number, double limit) {
  return arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, math::AbsFOp::create(b, number), f32(limit));
}

/// exp2(scores - rowMax), in units of toBase2.
void ForwardTileKernel::exponentiate() {
  if (elementType.isF32()) {
    map(rowMax, scores, [&](ValueRange, ValueRange elements) -> SmallVector<Value> {
      Value difference = arith::SubFOp::create(b, elements[1], getFinite(elements[0]));
      return {exp(difference)};
    });
  } else {
    // One multiply-add an element. Its product with the maximum is rounded, by the same amount for all of the
    // row: a factor of all its probabilities. Where that could be large the maximum is subtracted first,
    // exactly.
    map(rowMax, rowShift, [&](ValueRange, ValueRange elements) -> SmallVector<Value> {
      return {arith::MulFOp::create(b, getFinite(elements[0]), toBase2())};
    });
    if (!leavesLarge) {
      Value areLarge = any(rowShift, [&](ValueRange elements) { return isBeyond(elements[0], kMaxShift); });
      ifThen(named(areLarge, "are_large"), [&] {
        map(rowMax, scores, [&](ValueRange, ValueRange elements) -> SmallVector<Value> {
          return {arith::SubFOp::create(b, elements[1], getFinite(elements[0]))};
        });
        FillOp::create(b, rowShift, f32(0));
      });
    }
    map(rowShift, scores, [&](ValueRange, ValueRange elements) -> SmallVector<Value> {
      return {exponent(elements[1], elements[0])};
    });
  }
}

void ForwardTileKernel::rescaleOutput() {
  map(rescale, output, [&](ValueRange, ValueRange elements) -> SmallVector<Value> {
    return {arith::MulFOp::create(b, elements[1], elements[0])};
  });
}

/// Adds the probabilities of a block: first to each other, so that there is one addition a block to a sum
/// that may be long.
void ForwardTileKernel::addBlockSum() {
  FillOp::create(b, blockSum, f32(0));
  RowReduceOp::create(b, Combine::add, scores, blockSum, /*scratch=*/Value(), /*partial=*/true,
                      interleavesSums);
  map({rescale, blockSum}, rowSum, [&](ValueRange, ValueRange elements) -> SmallVector<Value> {
    return {math::FmaOp::create(b, elements[2], elements[0], elements[1])};
  });
}

void ForwardTileKernel::normaliseOutput() {
  RowCombineOp::create(b, Combine::add, rowSum, scratch);
  // A division a row; a multiplication more does not show in an output rounded to 16 bits.
  if (!elementType.isF32())
    map(rowSum, rescale, [&](ValueRange, ValueRange elements) -> SmallVector<Value> {
      return {arith::DivFOp::create(b, f32(1), elements[0], getPrecision())};
    });
  map({rowSum, rescale}, output, [&](ValueRange, ValueRange elements) -> SmallVector<Value> {
    Value sum = elements[0], o = elements[2];
    Value normalised = elementType.isF32() ? arith::DivFOp::create(b, o, sum).getResult()
                                           : arith::MulFOp::create(b, o, elements[1]).getResult();
    return {arith::SelectOp::create(b, isEmpty(sum, f32(0)), f32(0), normalised)};
  });
}

void ForwardTileKernel::computeLse() {
  map(rowSum, rowMax, [&](ValueRange, ValueRange elements) -> SmallVector<Value> {
    Value sum = elements[0], max = elements[1];
    Value logSum = math::LogOp::create(b, sum, getPrecision());
    Value l = math::FmaOp::create(b, max, f32(scoreFactor), logSum);
    return {arith::SelectOp::create(b, isEmpty(sum, f32(0)), f32(-INFINITY), l)};
  });
}
