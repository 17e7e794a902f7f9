//===- TileBackwardKeys.cpp - the kernel of the kinds fused and dkdv ---------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A block of the grid keeps block_n keys and streams the queries of all heads of its group.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/TileBackward.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace attn;
using namespace attn::tile;

namespace {
class KeyKernel : public BackwardKernel {
public:
  KeyKernel(ImplicitLocOpBuilder &host, OnlineAttentionOp op, StringRef name,
            const TileLoweringOptions &options);
  void build();

private:
  Value allocateQuerySum();
  bool sumsQuery() { return op.getKind() == KernelKind::fused; }
  void allocateStorage();
  void copyBlock(Value queryBegin, Value stage);
  void leaveOutNonFinite(Value queryBegin, Value queryTile, Value dOutTile);
  void step(const StreamedBlock &block);
  void subtractLargeLse();
  void computeProbabilities(Value queryBegin, bool isMasked);
  std::pair<Value, Value> findNonFinite(const StreamedBlock &block, Value masked);
  void differentiate(Value queryBegin, bool selects);

  /// Whether the probabilities wait in shared memory, rounded, for the gradients of the scores: there are not
  /// registers enough for both. Not where the gradients need the scores, too, or nothing is rounded.
  bool roundsProbabilities = false;
  /// Whether derivatives of scores are computed with the scores, and wait there, too, times the probability:
  /// they are all of the score that the gradient needs, which is a factor times its cotangent.
  bool storesFactors = false;
  /// Whether the gradient of a score is its cotangent, or such a factor times it: nothing of dropped pairs is
  /// in it but what is not finite in the products of d_out.
  bool hasPlainGradient = false;

  Value querySum; // of the host
  Value dQuerySum, dKeyOut, dValueOut;
  Value isRagged;
  // Storage.
  Value keyTile, valueTile, queryRing, dOutRing, probabilitiesTile, dScoresTile;
  Value probabilities, factors, dKey, dValue, dQuery;
};
} // namespace

KeyKernel::KeyKernel(ImplicitLocOpBuilder &host, OnlineAttentionOp op, StringRef name,
                     const TileLoweringOptions &options)
    : BackwardKernel(host, op, name, options) {
  if (sumsQuery()) {
    querySum = allocateQuerySum();
    dQuerySum = addParameter(querySum, "d_query_sum");
  }
  dKeyOut = addResult("d_key");
  dValueOut = addResult("d_value");
  addCaptureGradients();
  if (elementType.isF32())
    return;
  Region &gradient = op.getGradient();
  bool needsScore = !gradient.empty() && !gradient.getArgument(GradientArgs::score).use_empty();
  // In f16 a factor times a probability may be too large, or so small that little of it is left.
  storesFactors = needsScore && elementType.isBF16() && isLinearIn(gradient, GradientArgs::cotangent);
  roundsProbabilities = !needsScore || storesFactors;
  bool isIdentity = gradient.empty() || (llvm::hasSingleElement(gradient.front()) &&
                                         gradient.front().getTerminator()->getOperand(0) ==
                                             gradient.getArgument(GradientArgs::cotangent));
  hasPlainGradient = storesFactors || isIdentity;
}

/// A zeroed f32 number for each element of the blocks of queries, in whatever order their fragments have.
Value KeyKernel::allocateQuerySum() {
  auto size = [&](int64_t position) -> Value { return tensor::DimOp::create(host, op.getQuery(), position); };
  Value numBlocks =
      arith::CeilDivSIOp::create(host, size(2), arith::ConstantIndexOp::create(host, blockM()).getResult());
  int64_t dynamic = ShapedType::kDynamic;
  auto type = MemRefType::get({dynamic, dynamic, dynamic, blockM() * paddedHeadDim}, host.getF32Type());
  Value sum = memref::AllocOp::create(host, type, ValueRange{size(0), size(1), numBlocks});
  named(sum, "d_query_sum");
  fillWithZero(host, sum);
  return sum;
}

void KeyKernel::allocateStorage() {
  int64_t stages = op.getSchedule().getStages();
  keyTile = sharedTile("key_tile", blockN(), paddedHeadDim, elementType);
  valueTile = sharedTile("value_tile", blockN(), paddedValueDim, elementType);
  queryRing = sharedRing("query_ring", stages, blockM(), paddedHeadDim, elementType);
  dOutRing = sharedRing("d_out_ring", stages, blockM(), paddedValueDim, elementType);
  probabilitiesTile = sharedTile("probabilities_tile", blockM(), blockN(), elementType);
  dScoresTile = sharedTile("d_scores_tile", blockM(), blockN(), elementType);
  FragmentType scoresType = accumulatorType(blockM(), blockN(), queryGrid);
  scores = fragment("scores", scoresType);
  if (roundsProbabilities)
    probabilities = fragment("probabilities", scoresType);
  else
    dScores = fragment("d_scores", scoresType);
  if (storesFactors)
    factors = fragment("factors", scoresType);
  rowLse = fragment("row_lse", scoresType.getRowsType());
  rowDelta = fragment("row_delta", scoresType.getRowsType());
  if (!op.getMask().empty() || scoresMayDrop())
    rowSum = fragment("row_sum", scoresType.getRowsType());
  dKey = fragment("d_key_sum", accumulatorType(blockN(), paddedHeadDim, keyGrid));
  dValue = fragment("d_value_sum", accumulatorType(blockN(), paddedValueDim, keyGrid));
  if (sumsQuery())
    dQuery = fragment("d_query", accumulatorType(blockM(), paddedHeadDim, queryGrid));
}

//===----------------------------------------------------------------------===//
// One tile
//===----------------------------------------------------------------------===//

/// The product that the multiply-add of computeProbabilities takes lse from is rounded, which with a large
/// lse would give exponents far above 0. There the difference is taken first, of scores as the forward
/// rounded them; what is left to getProbability is an lse of 0.
void KeyKernel::subtractLargeLse() {
  double scale = op.getScaleOrDefault();
  if (scale == 0)
    return;
  auto compare = [&](arith::CmpFPredicate predicate, Value lse, double number) -> Value {
    return arith::CmpFOp::create(b, predicate, math::AbsFOp::create(b, lse), f32(number));
  };
  Value areLarge = any(rowLse, [&](ValueRange elements) -> Value {
    return arith::AndIOp::create(b, compare(arith::CmpFPredicate::OGT, elements[0], 0x1p25),
                                 compare(arith::CmpFPredicate::ONE, elements[0], INFINITY));
  });
  ifThen(named(areLarge, "are_large"), [&] {
    map(rowLse, scores, [&](ValueRange, ValueRange elements) -> SmallVector<Value> {
      Value score = arith::MulFOp::create(b, elements[1], f32(scale));
      Value difference = arith::SubFOp::create(b, score, elements[0]);
      return {arith::MulFOp::create(b, difference, f32(1 / scale))};
    });
    map({}, rowLse, [&](ValueRange, ValueRange elements) -> SmallVector<Value> {
      Value isEmpty = compare(arith::CmpFPredicate::OEQ, elements[0], INFINITY);
      return {arith::SelectOp::create(b, isEmpty, elements[0], f32(0))};
    });
  });
}

/// Turns q k^T into probabilities, in place.
void KeyKernel::computeProbabilities(Value queryBegin, bool isMasked) {
  SmallVector<Value> outs{scores};
  if (storesFactors)
    outs.push_back(factors);
  mapScores(rowLse, outs, [&](ValueRange indices, ValueRange elements) -> SmallVector<Value> {
    if (!op.getScore().empty()) {
      Pair pair = computePair(queryBegin, indices, elements[1], elements[0], isMasked, /*mayBeNaN=*/false);
      if (storesFactors)
        return {pair.p, inlineGradient(pair, pair.p)};
      return {pair.p};
    }
    // One multiply-add an element.
    Value lse = arith::MulFOp::create(b, arith::NegFOp::create(b, elements[0]), f32(llvm::numbers::log2e));
    Value exponent =
        math::FmaOp::create(b, elements[1], f32(op.getScaleOrDefault() * llvm::numbers::log2e), lse);
    Value p = math::Exp2Op::create(b, exponent, arith::FastMathFlags::afn);
    if (!isMasked)
      return {p};
    Value keep = isKept(named(add(queryBegin, indices[0]), "q_idx"), named(add(begin, indices[1]), "kv_idx"));
    return {select(keep, p)};
  });
  // In each branch: behind both, a value for each element would wait in a register.
  StoreSharedOp::create(b, scores, probabilitiesTile);
  if (storesFactors)
    StoreSharedOp::create(b, factors, dScoresTile);
}

/// Whether a block that may drop pairs has rows of d_out that are not finite, which their delta tells; and,
/// for plain gradients, whether those of its scores have to be selected, because these rows or the products
/// with them would show in dropped pairs. Where none ever is, those beyond the lengths are selected. (Delta
/// and a product that are finite differ by a finite number, unless both are near the largest f32.)
std::pair<Value, Value> KeyKernel::findNonFinite(const StreamedBlock &block, Value masked) {
  if (!mayDrop(block))
    return {Value(), masked};
  auto look = [&]() -> SmallVector<Value> {
    Value hasDOut = anyNonFinite(rowDelta);
    if (!hasPlainGradient)
      return {hasDOut, hasDOut};
    return {hasDOut, arith::OrIOp::create(b, hasDOut, anyNonFinite(scores, rowSum))};
  };
  SmallVector<Value> found;
  if (scoresMayDrop()) {
    found = look();
  } else {
    auto build = [&](bool isMasked) {
      return [&, isMasked](OpBuilder &builder, Location) {
        OpBuilder::InsertionGuard guard(b);
        b.restoreInsertionPoint(builder.saveInsertionPoint());
        Value none = isMasked ? Value() : arith::ConstantIntOp::create(b, false, /*width=*/1).getResult();
        scf::YieldOp::create(b, isMasked ? look() : SmallVector<Value>{none, none});
      };
    };
    llvm::append_range(found, scf::IfOp::create(b, masked, build(true), build(false)).getResults());
  }
  return {named(found[0], "is_non_finite"), named(found[1], "selects")};
}

/// Turns d_out v^T into d_x, in place.
void KeyKernel::differentiate(Value queryBegin, bool selects) {
  SmallVector<Value> ins{probabilities, rowDelta};
  if (storesFactors)
    ins = {factors, rowDelta};
  if (storesFactors && selects) { // a factor may be 0 where a pair is kept
    LoadSharedOp::create(b, probabilitiesTile, probabilities);
    ins.insert(ins.begin(), probabilities);
  }
  mapScores(ins, scores, [&](ValueRange indices, ValueRange elements) -> SmallVector<Value> {
    Pair pair;
    pair.p = elements.front();
    if (selects)
      pair.keep = isNot(pair.p, 0);
    Value delta = elements.drop_back().back(), factor = elements.drop_back(2).back();
    Value dS = arith::MulFOp::create(b, factor, arith::SubFOp::create(b, elements.back(), delta));
    if (hasPlainGradient)
      return {select(pair.keep, dS)};
    pair.x = f32(0); // which it does not need
    pair.queryIndex = named(add(queryBegin, indices[0]), "q_idx");
    pair.keyIndex = named(add(begin, indices[1]), "kv_idx");
    return {inlineGradient(pair, dS)};
  });
}

/// Starts copying a block of queries and of their output gradients; none where it begins past the last query.
void KeyKernel::copyBlock(Value queryBegin, Value stage) {
  ifThen(isLess(queryBegin, qLen), [&] {
    copyRows(query, batch, head, queryBegin, qLen, ringSlot(queryRing, stage, "query_tile"));
    copyRows(dOut, batch, head, queryBegin, qLen, ringSlot(dOutRing, stage, "d_out_tile"));
  });
  CopyCommitOp::create(b);
}

/// Leaves infinities and NaNs out of the right operands of the products that follow. Those of d_out show in
/// the probabilities instead, where pairs are kept.
void KeyKernel::leaveOutNonFinite(Value queryBegin, Value queryTile, Value dOutTile) {
  if (!elementType.isF32()) // those are still there
    LoadSharedOp::create(b, probabilitiesTile, scores);
  LoadRowsOp::create(b, delta, ValueRange{batch, head, queryBegin}, sub(qLen, queryBegin), f32(0), rowDelta);
  map(rowDelta, scores, [&](ValueRange, ValueRange elements) -> SmallVector<Value> {
    // The delta of a row with such a d_out is one, too.
    Value p = elements[1], isDropped = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, p, f32(0));
    return {arith::SelectOp::create(b, isDropped, p, math::FmaOp::create(b, elements[0], f32(0), p))};
  });
  StoreSharedOp::create(b, scores, probabilitiesTile);
  copyFinite(dOut, head, queryBegin, qLen, dOutTile);
  copyFinite(query, head, queryBegin, qLen, queryTile);
  if (sumsQuery())
    copyFinite(key, kvHead, begin, kvLen, keyTile);
  gpu::BarrierOp::create(b);
}

void KeyKernel::step(const StreamedBlock &block) {
  bool isSingle = op.getSchedule().getStages() == 1;
  Value stage = isSingle ? index(0) : block.stage;
  Value queryTile = ringSlot(queryRing, stage, "query_tile"),
        dOutTile = ringSlot(dOutRing, stage, "d_out_tile");
  Value rows = named(sub(qLen, block.begin), "q_rows");
  Value masked = isMasked(block, isRagged, rows), isNonFinite;
  SmallVector<Value> place{batch, head, block.begin};
  // The block is there; all threads are done with the probabilities and gradients of the one before.
  CopyWaitOp::create(b, 0);
  gpu::BarrierOp::create(b);

  loadRowLse(place, rows);
  FillOp::create(b, scores, f32(0));
  mma(scores, queryTile, keyTile, /*transposeA=*/false, /*transposeB=*/true);
  if (roundsProbabilities) {
    if (op.getScore().empty())
      subtractLargeLse();
    // A row whose lse is a NaN has it in scores of -inf, too.
    Value mayShow = scoresMayDrop() ? arith::OrIOp::create(b, masked, anyNaN(rowLse)).getResult() : masked;
    Value hasScores = withAndWithoutMask(block, mayShow, scores,
                                         [&](bool isMasked) { computeProbabilities(block.begin, isMasked); });
    LoadRowsOp::create(b, delta, place, rows, f32(0), rowDelta);
    FillOp::create(b, scores, f32(0));
    mma(scores, dOutTile, valueTile, /*transposeA=*/false, /*transposeB=*/true);
    if (storesFactors)
      LoadSharedOp::create(b, dScoresTile, factors);
    else
      LoadSharedOp::create(b, probabilitiesTile, probabilities);
    auto [hasDOut, selects] = findNonFinite(block, masked);
    if (hasPlainGradient)
      ifThenElse(
          selects, [&] { differentiate(block.begin, /*selects=*/true); },
          [&] { differentiate(block.begin, /*selects=*/false); });
    else
      differentiate(block.begin, /*selects=*/true);
    if (hasScores)
      isNonFinite = arith::OrIOp::create(b, hasScores, hasDOut);
    StoreSharedOp::create(b, scores, dScoresTile);
  } else {
    LoadRowsOp::create(b, delta, place, rows, f32(0), rowDelta);
    FillOp::create(b, dScores, f32(0));
    mma(dScores, dOutTile, valueTile, /*transposeA=*/false, /*transposeB=*/true);
    isNonFinite = withAndWithoutMask(block, masked, {scores, rowDelta},
                                     [&](bool isMasked) { differentiateTile(block.begin, isMasked); });
    StoreSharedOp::create(b, scores, probabilitiesTile);
    StoreSharedOp::create(b, dScores, dScoresTile);
  }
  Value hasNonFinite = synchronise(isNonFinite);

  // Later than at the top of the loop: the products above would wait for the same shared memory.
  if (!isSingle)
    copyBlock(block.next, sub(index(1), block.stage));
  if (hasNonFinite)
    ifThen(hasNonFinite, [&] { leaveOutNonFinite(block.begin, queryTile, dOutTile); });
  mma(dValue, probabilitiesTile, dOutTile, /*transposeA=*/true);
  mma(dKey, dScoresTile, queryTile, /*transposeA=*/true);
  if (isSingle) {
    gpu::BarrierOp::create(b);
    copyBlock(block.next, stage);
  }
  if (!sumsQuery())
    return;
  FillOp::create(b, dQuery, f32(0));
  mma(dQuery, dScoresTile, keyTile);
  if (hasNonFinite)
    ifThen(hasNonFinite, [&] {
      gpu::BarrierOp::create(b);
      copyRows(key, batch, kvHead, begin, kvLen, keyTile); // for the scores of the next block
      CopyCommitOp::create(b);
    });
  place.back() = named(arith::DivSIOp::create(b, block.begin, index(blockM())), "q_block");
  AtomicAddOp::create(b, dQuery, dQuerySum, place, rows, /*opaque=*/true);
}

void KeyKernel::build() {
  allocateStorage();
  Value numBlocks = named(ceilDiv(kvLen, blockN()), "num_blocks");
  Value work = gpu::BlockIdOp::create(b, gpu::Dimension::x);
  // The first blocks first: under a causal mask they have the most queries.
  Value block = takeDigit(work, numBlocks, "block");
  kvHead = takeDigit(work, kvHeads, "kv_head");
  batch = named(work, "batch");
  begin = named(mul(block, index(blockN())), "kv_begin");
  Value end = named(arith::MinSIOp::create(b, add(begin, index(blockN())), kvLen), "kv_end");
  isRagged = named(isLess(kvLen, add(begin, index(blockN()))), "is_ragged");

  copyRows(key, batch, kvHead, begin, kvLen, keyTile);
  copyRows(value, batch, kvHead, begin, kvLen, valueTile);
  FillOp::create(b, dKey, f32(0));
  FillOp::create(b, dValue, f32(0));
  auto heads = scf::ForOp::create(b, index(0), group, index(1));
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(heads.getBody());
    head = named(add(mul(kvHead, group), heads.getInductionVar()), "head");
    beginHead();
    forEachVisitedBlock(
        evaluateRanges(batch, head, begin, end), {"q", index(0), qLen, blockM()},
        [&](Value first, Value stage) {
          // All threads are done with the tiles of the head before.
          gpu::BarrierOp::create(b);
          copyBlock(first, op.getSchedule().getStages() == 1 ? index(0) : stage);
        },
        [&](const StreamedBlock &block) { step(block); });
    endHead();
  }
  CopyWaitOp::create(b, 0);
  scaleFragment(dKey, op.getScaleOrDefault());
  Value rows = named(sub(kvLen, begin), "kv_rows");
  // Through the tiles of the keys and values, which nobody reads any more.
  StoreOp::create(b, dKey, keyTile, dKeyOut, ValueRange{batch, kvHead, begin}, rows, options.aligned);
  StoreOp::create(b, dValue, valueTile, dValueOut, ValueRange{batch, kvHead, begin}, rows, options.aligned);
  launch(getNumBlocks(host, op.getKey(), blockN()));
  replaceResults();
  if (sumsQuery()) {
    StringRef function = op->getParentOfType<FunctionOpInterface>().getName();
    roundQuerySum(host, op, querySum, cast<FragmentType>(dQuery.getType()), (function + "_d_query").str(),
                  options);
  }
}

void attn::buildKeyKernel(ImplicitLocOpBuilder &host, OnlineAttentionOp op, StringRef name,
                          const TileLoweringOptions &options) {
  KeyKernel(host, op, name, options).build();
}
