//===- TileForward.cpp - the forward kernel of the portable GPU family -------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// FlashAttention-2 (Dao 2023): a block of the grid keeps block_m queries and streams the keys in blocks of
// block_n. Warps divide the rows, so that the softmax of a row stays in four lanes, and the probabilities are
// the left operand of the second product in the registers where the first left them. (Where the output has
// too many columns for the registers of a warp, warps divide these, too, and what they know of a row, and the
// probabilities, go through shared memory.) One tile of keys and one of values: the keys of the next block
// are copied while the softmax runs, the values while the scores are computed.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/ScoreBounds.h"
#include "passes/TileKernel.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace attn;
using namespace attn::tile;

namespace {
class ForwardKernel : public OnlineTileKernel {
public:
  ForwardKernel(ImplicitLocOpBuilder &host, OnlineAttentionOp op, StringRef name,
                const TileLoweringOptions &options);
  void build();

private:
  void allocateStorage();
  void step(const StreamedBlock &block);
  void applyRegions(const StreamedBlock &block);
  void softmax();
  void addBlockSum();
  void finalise();

  void takeFactors();
  void approximateTanh();
  /// Whether probabilities go through shared memory to the second product.
  bool sharesProbabilities() { return elementType.isF32() || queryGrid[1] > 1; }
  /// Whether scores stay q k^T, and the scale is a factor of the exponent.
  bool foldsScale() { return op.getScore().empty() && scale > 0; }
  Value exp2(Value exponent);
  /// `max`, but 0 for a row without a key so far: -inf - -inf would be a NaN.
  Value getFinite(Value max) { return arith::SelectOp::create(b, isEmpty(max, f32(-INFINITY)), f32(0), max); }
  /// What scores are multiplied by to be exponents of 2.
  Value toBase2() { return f32(scoreFactor * llvm::numbers::log2e); }
  Value isEmpty(Value rowValue, Value empty) {
    return arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, rowValue, empty);
  }

  ImplicitLocOpBuilder &host;
  /// What q k^T is multiplied by before the score region, and the numbers in `scores` to be scores.
  double scale, scoreFactor = 1;
  /// Whether the scores are so small that their exponentials need no maximum: `scores` are exponents of 2
  /// then.
  bool isBounded = false;
  /// A score region for |q k^T| <= nearBound, in place of which a cheaper one is right for q k^T itself; may
  /// be null.
  std::unique_ptr<Region> nearScore;
  double nearBound = 0;
  Value hostOut, hostLse, out, lse;
  /// How many parts the keys are computed in; null where the results are those of all keys.
  Value hostParts;
  // The block of the grid.
  Value split, batch, head, kvHead, begin;
  /// The rows of all blocks of a head: its queries, or where tiles are packed those of `packed` heads.
  Value rows, packed;
  // Storage.
  Value queryTile, keyTile, valueTile, probabilitiesTile;
  /// Where warp columns combine what they have of a row; null where there is one.
  Value scratch;
  Value scores, probabilities, output, rowMax, rowShift, rowSum, blockSum, rescale;
};
} // namespace

ForwardKernel::ForwardKernel(ImplicitLocOpBuilder &host, OnlineAttentionOp op, StringRef name,
                             const TileLoweringOptions &options)
    : OnlineTileKernel(host, op, name, options), host(host), scale(op.getScaleOrDefault()) {
  takeFactors();
  approximateTanh();
  if (op.isSplit())
    hostParts = op.getSplits()
                    ? Value(op.getSplits())
                    : arith::ConstantIndexOp::create(host, op.getSchedule().getKvSplits()).getResult();
  hostOut = allocateResult(host, op.getResult(0), op.getQuery(), hostParts);
  hostLse = allocateResult(host, op.getResult(1), op.getQuery(), hostParts);
  if (hostParts) {
    named(hostOut, "part_outs");
    named(hostLse, "part_lses");
  }
  out = addParameter(hostOut, "out");
  lse = addParameter(hostLse, "lse");
}

/// Sums of exponentials of 2 up to this one are far from the ends of f32.
static constexpr double kMaxExponent = 80;

/// The constant that `value` is `factor` times; 1 without one.
static double takeFactor(Value value, Value &factor) {
  factor = value;
  Operation *op = value.getDefiningOp();
  FloatAttr constant;
  if (!isa_and_nonnull<arith::MulFOp, arith::DivFOp>(op) ||
      !matchPattern(op->getOperand(1), m_Constant(&constant)) || !constant.getType().isF32())
    return 1;
  double number = constant.getValueAsDouble();
  factor = op->getOperand(0);
  return isa<arith::MulFOp>(op) ? number : 1 / number;
}

/// A constant that the score region multiplies its argument by goes into the scale, and one that it
/// multiplies its result by into the exponent: neither costs an instruction then. The scale and an addition
/// become one instruction.
void ForwardKernel::takeFactors() {
  if (op.getScore().empty()) {
    if (scale > 0)
      scoreFactor = scale;
    return;
  }
  auto isUsable = [](double factor) { return factor >= 0x1p-60 && factor <= 0x1p60; };
  Block &region = op.getScore().front();
  Value argument = region.getArgument(0), source;
  while (argument.hasOneUse()) {
    Operation *user = *argument.user_begin();
    double factor = user->getNumResults() == 1 ? takeFactor(user->getResult(0), source) : 1;
    if (user->getNumResults() != 1 || source != argument || !isUsable(std::abs(scale * factor)))
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
  double factor = takeFactor(yield->getOperand(0), source);
  if (isUsable(factor)) {
    scoreFactor = factor;
    yield->setOperand(0, source);
  }
  // f16 holds no such exponentials, and in f32 the rounding of the exponents would show.
  FloatInterval bounds = getFloatInterval(yield->getOperand(0));
  isBounded = elementType.isBF16() &&
              std::max(-bounds.low, bounds.high) * scoreFactor * llvm::numbers::log2e <= kMaxExponent;
}

/// tanh(x) is computed by a unit that also computes the exponentials, and is what holds up a kernel with a
/// soft cap. Where `afn` allows an approximation, blocks of small scores get a polynomial, with a relative
/// error of 3.0e-4 up to |x| = 0.8; that of tanh.approx is 4.9e-4.
void ForwardKernel::approximateTanh() {
  if (op.getScore().empty())
    return;
  auto isApproximate = [](Operation *user) {
    auto tanh = dyn_cast<math::TanhOp>(user);
    return tanh && bitEnumContainsAll(tanh.getFastmath(), arith::FastMathFlags::afn);
  };
  Value argument = op.getScore().getArgument(0);
  if (argument.use_empty() || !llvm::all_of(argument.getUsers(), isApproximate))
    return;
  nearScore = std::make_unique<Region>();
  IRMapping mapping;
  op.getScore().cloneInto(nearScore.get(), mapping);
  nearBound = 0.8 / std::abs(scale);
  for (Operation *user : llvm::make_early_inc_range(nearScore->getArgument(0).getUsers())) {
    // It yields the exponent itself where nothing else is done to it.
    bool isYielded = isBounded && nearScore->front().getTerminator()->getOperand(0) == user->getResult(0);
    double factor = isYielded ? scoreFactor * llvm::numbers::log2e : 1;
    ImplicitLocOpBuilder region(user->getLoc(), user);
    auto coefficient = [&](double number, int power) -> Value {
      return arith::ConstantOp::create(
          region, region.getF32FloatAttr(static_cast<float>(factor * number * std::pow(scale, power))));
    };
    Value x = user->getOperand(0), square = arith::MulFOp::create(region, x, x);
    Value series = math::FmaOp::create(region, square, coefficient(0.09357487, 5), coefficient(-0.324574, 3));
    series = math::FmaOp::create(region, square, series, coefficient(0.99969676, 1));
    user->getResult(0).replaceAllUsesWith(arith::MulFOp::create(region, x, series));
    user->erase();
  }
}

void ForwardKernel::allocateStorage() {
  ArrayRef<int64_t> grid = queryGrid;
  queryTile = sharedTile("query_tile", blockM(), paddedHeadDim, elementType);
  keyTile = sharedTile("key_tile", blockN(), paddedHeadDim, elementType);
  valueTile = sharedTile("value_tile", blockN(), paddedValueDim, elementType);
  FragmentType scoresType = accumulatorType(blockM(), blockN(), grid);
  scores = fragment("scores", scoresType);
  if (sharesProbabilities()) {
    probabilitiesTile = sharedTile("probabilities_tile", blockM(), blockN(), elementType);
    if (grid[1] > 1) // their tile is free whenever rows are combined
      scratch =
          SharedReuseOp::create(b, SharedType::get(b.getContext(), {grid[1] * blockM()}, b.getF32Type()),
                                probabilitiesTile, b.getStringAttr("row_parts"));
  } else {
    probabilities =
        fragment("probabilities", FragmentType::get(b.getContext(), scoresType.getShape(), elementType,
                                                    Layout::operand_a, scoresType.getWarps()));
  }
  output = fragment("output", accumulatorType(blockM(), paddedValueDim, grid));
  rowMax = fragment("row_max", scoresType.getRowsType());
  if (!elementType.isF32() && !isBounded)
    rowShift = fragment("row_shift", scoresType.getRowsType());
  rowSum = fragment("row_sum", scoresType.getRowsType());
  blockSum = fragment("block_sum", scoresType.getRowsType());
  rescale = fragment("rescale", scoresType.getRowsType());
}

Value ForwardKernel::exp2(Value exponent) {
  // The hardware's exp2 has a relative error of 2^-22, far below the rounding of the probabilities to 16
  // bits or tf32; where they are not rounded the accurate one is called.
  auto flags = elementType.isF32() && !op.getTf32() ? arith::FastMathFlags::none : arith::FastMathFlags::afn;
  return math::Exp2Op::create(b, exponent, flags);
}

void ForwardKernel::step(const StreamedBlock &block) {
  // All keys are there; all threads are done with the values of the block before.
  CopyWaitOp::create(b, 0);
  gpu::BarrierOp::create(b);
  copyRows(value, batch, kvHead, block.begin, kvLen, valueTile);
  CopyCommitOp::create(b);
  FillOp::create(b, scores, f32(0));
  mma(scores, queryTile, keyTile, /*transposeA=*/false, /*transposeB=*/true);

  // All values are there; all threads are done with the keys.
  CopyWaitOp::create(b, 0);
  gpu::BarrierOp::create(b);
  ifThen(isLess(block.next, kvLen), [&] { copyRows(key, batch, kvHead, block.next, kvLen, keyTile); });
  CopyCommitOp::create(b);
  applyRegions(block);
  softmax();
  if (sharesProbabilities()) {
    StoreSharedOp::create(b, scores, probabilitiesTile);
    gpu::BarrierOp::create(b);
    mma(output, probabilitiesTile, valueTile);
  } else {
    ConvertOp::create(b, scores, probabilities);
    mma(output, probabilities, valueTile);
  }
}

/// Scale, score and mask of a block of scores.
void ForwardKernel::applyRegions(const StreamedBlock &block) {
  auto getKeyIndex = [&](ValueRange indices) { return named(add(block.begin, indices[1]), "kv_idx"); };
  /// The query head, the query and the key of a score.
  auto getPair = [&](ValueRange indices) {
    Value row = add(begin, indices[0]);
    Value queryIndex = named(packed ? arith::DivSIOp::create(b, row, packed) : row, "q_idx");
    Value queryHead = head;
    if (packed)
      queryHead = named(add(head, arith::RemSIOp::create(b, row, packed)), "q_head");
    return std::tuple(queryHead, queryIndex, getKeyIndex(indices));
  };
  auto multiply = [&](Value value, double factor) -> Value {
    return factor == 1 ? value : arith::MulFOp::create(b, value, f32(factor)).getResult();
  };
  auto applyScore = [&](Region &region, double scale, double factor) {
    map({}, scores, [&](ValueRange indices, ValueRange elements) -> SmallVector<Value> {
      Value score = multiply(elements[0], scale);
      if (!region.empty()) {
        auto [queryHead, queryIndex, keyIndex] = getPair(indices);
        score = inlineScore(region, score, batch, queryHead, queryIndex, keyIndex);
      }
      return {multiply(score, factor)};
    });
  };
  double factor = isBounded ? scoreFactor * llvm::numbers::log2e : 1;
  if (nearScore) {
    Value isFar = any(scores, [&](ValueRange elements) -> Value {
      return arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, math::AbsFOp::create(b, elements[0]),
                                   f32(nearBound));
    });
    bool isExponent =
        isBounded && op.getScore().front().getTerminator()->getOperand(0).getDefiningOp<math::TanhOp>();
    ifThenElse(
        named(isFar, "is_far"), [&] { applyScore(op.getScore(), scale, factor); },
        [&] { applyScore(*nearScore, 1, isExponent ? 1 : factor); });
  } else if (!foldsScale()) {
    applyScore(op.getScore(), scale, factor);
  }
  auto mask = [&](Value isMasked, function_ref<Value(ValueRange)> isKept) {
    ifThen(isMasked, [&] {
      map({}, scores, [&](ValueRange indices, ValueRange elements) -> SmallVector<Value> {
        return {arith::SelectOp::create(b, isKept(indices), elements[0], f32(-INFINITY))};
      });
    });
  };
  if (block.masked)
    mask(block.masked, [&](ValueRange indices) {
      auto [queryHead, queryIndex, keyIndex] = getPair(indices);
      return inlineMask(batch, queryHead, queryIndex, keyIndex);
    });
  mask(isLess(kvLen, add(block.begin, index(blockN()))),
       [&](ValueRange indices) { return isLess(getKeyIndex(indices), kvLen); });
}

/// Turns scores into probabilities; updates the maximum, the sum and the output of each row.
void ForwardKernel::softmax() {
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
    return {exp2(arith::MulFOp::create(b, growth, toBase2()))};
  });
  if (elementType.isF32()) {
    map(rowMax, scores, [&](ValueRange, ValueRange elements) -> SmallVector<Value> {
      Value difference = arith::SubFOp::create(b, elements[1], getFinite(elements[0]));
      return {exp2(arith::MulFOp::create(b, difference, toBase2()))};
    });
  } else {
    // One multiply-add an element. Its product with the maximum is rounded, by the same amount for all of the
    // row: a factor of all its probabilities. Where that could be large the maximum is subtracted first,
    // exactly.
    map(rowMax, rowShift, [&](ValueRange, ValueRange elements) -> SmallVector<Value> {
      return {arith::MulFOp::create(b, getFinite(elements[0]), toBase2())};
    });
    Value areLarge = any(rowShift, [&](ValueRange elements) -> Value {
      return arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, math::AbsFOp::create(b, elements[0]),
                                   f32(0x1p26));
    });
    ifThen(named(areLarge, "are_large"), [&] {
      map(rowMax, scores, [&](ValueRange, ValueRange elements) -> SmallVector<Value> {
        return {arith::SubFOp::create(b, elements[1], getFinite(elements[0]))};
      });
      FillOp::create(b, rowShift, f32(0));
    });
    map(rowShift, scores, [&](ValueRange, ValueRange elements) -> SmallVector<Value> {
      return {exp2(math::FmaOp::create(b, elements[1], toBase2(), arith::NegFOp::create(b, elements[0])))};
    });
  }
  addBlockSum();
  map(rescale, output, [&](ValueRange, ValueRange elements) -> SmallVector<Value> {
    return {arith::MulFOp::create(b, elements[1], elements[0])};
  });
}

/// Adds the probabilities of a block: first to each other, so that there is one addition a block to a sum
/// that may be long.
void ForwardKernel::addBlockSum() {
  FillOp::create(b, blockSum, f32(0));
  RowReduceOp::create(b, Combine::add, scores, blockSum, /*scratch=*/Value(), /*partial=*/true);
  map({rescale, blockSum}, rowSum, [&](ValueRange, ValueRange elements) -> SmallVector<Value> {
    return {math::FmaOp::create(b, elements[2], elements[0], elements[1])};
  });
}

/// Normalises the output and stores it and lse.
void ForwardKernel::finalise() {
  if (scratch) // all threads are done with the probabilities
    gpu::BarrierOp::create(b);
  RowCombineOp::create(b, Combine::add, rowSum, scratch);
  // A division a row; a multiplication more does not show in an output rounded to 16 bits.
  if (!elementType.isF32())
    map(rowSum, rescale, [&](ValueRange, ValueRange elements) -> SmallVector<Value> {
      return {arith::DivFOp::create(b, f32(1), elements[0])};
    });
  map({rowSum, rescale}, output, [&](ValueRange, ValueRange elements) -> SmallVector<Value> {
    Value sum = elements[0], o = elements[2];
    Value normalised = elementType.isF32() ? arith::DivFOp::create(b, o, sum).getResult()
                                           : arith::MulFOp::create(b, o, elements[1]).getResult();
    return {arith::SelectOp::create(b, isEmpty(sum, f32(0)), f32(0), normalised)};
  });
  map(rowSum, rowMax, [&](ValueRange, ValueRange elements) -> SmallVector<Value> {
    Value sum = elements[0], max = elements[1];
    Value logSum = math::LogOp::create(b, sum);
    Value l = math::FmaOp::create(b, max, f32(scoreFactor), logSum);
    return {arith::SelectOp::create(b, isEmpty(sum, f32(0)), f32(-INFINITY), l)};
  });
  Value blockRows = named(sub(rows, begin), "q_rows");
  SmallVector<Value> place{batch, head, begin};
  if (split)
    place.insert(place.begin(), split);
  auto outElement = cast<MemRefType>(out.getType()).getElementType();
  auto stagingType = SharedType::get(b.getContext(), {blockM(), paddedValueDim}, cast<FloatType>(outElement));
  Value staging;
  if (stagingType.getBytes() <= cast<SharedType>(queryTile.getType()).getBytes())
    staging = SharedReuseOp::create(b, stagingType, queryTile, b.getStringAttr("output_tile"));
  // Parts are contiguous: their rows may be none of 16 bytes.
  bool aligned = options.aligned && (!hostParts || valueDim % 4 == 0);
  StoreOp::create(b, output, staging, out, place, blockRows, aligned, packed);
  StoreRowsOp::create(b, rowMax, lse, place, blockRows, packed);
}

void ForwardKernel::build() {
  bool packs = hostParts && packsHeads(op);
  rows = qLen;
  if (packs) {
    packed = group;
    rows = named(mul(qLen, group), "rows");
  }
  allocateStorage();
  // The last blocks first: under a causal mask they are the longest.
  Value numBlocks = named(ceilDiv(rows, blockM()), "num_blocks");
  Value work = gpu::BlockIdOp::create(b, gpu::Dimension::x);
  Value parts;
  if (hostParts) {
    parts = dim(out, 0, "parts");
    split = takeDigit(work, parts, "split");
  }
  Value position = takeDigit(work, numBlocks, "position");
  if (packs) {
    kvHead = takeDigit(work, kvHeads, "kv_head");
    head = named(mul(kvHead, group), "head");
  } else {
    head = takeDigit(work, qHeads, "head");
    kvHead = named(arith::DivSIOp::create(b, head, group), "kv_head");
  }
  batch = named(work, "batch");
  Value block = named(sub(sub(numBlocks, index(1)), position), "block");
  begin = named(mul(block, index(blockM())), packs ? "row_begin" : "q_begin");
  Value end = arith::MinSIOp::create(b, add(begin, index(blockM())), rows);
  Value queryBegin = packs ? arith::DivSIOp::create(b, begin, group) : begin;
  Value queryEnd = named(packs ? arith::CeilDivSIOp::create(b, end, group) : end, "q_end");

  CopyAsyncOp::create(b, query, ValueRange{batch, head, begin}, named(sub(rows, begin), "q_rows"), queryTile,
                      options.aligned, packed);
  FillOp::create(b, output, f32(0));
  FillOp::create(b, rowMax, f32(isBounded ? 0 : -INFINITY));
  FillOp::create(b, rowSum, f32(0));
  if (isBounded)
    FillOp::create(b, rescale, f32(1));
  Streamed keys{"kv", index(0), kvLen, blockN(), split, parts};
  forEachVisitedBlock(
      evaluateRanges(batch, head, queryBegin, queryEnd), keys,
      [&](Value first, Value) {
        ifThen(isLess(first, kvLen), [&] { copyRows(key, batch, kvHead, first, kvLen, keyTile); });
        CopyCommitOp::create(b);
      },
      [&](const StreamedBlock &block) { step(block); });
  CopyWaitOp::create(b, 0);
  finalise();

  if (packs && !op.getSplits()) // a number that follows from the sizes is that of few rows
    requireShort(host, getNumForwardRows(host, op, packs), "queries in the heads of a group");
  Value blocks = getNumForwardBlocks(host, op, packs);
  launch(hostParts ? arith::MulIOp::create(host, blocks, hostParts).getResult() : blocks);
  replaceWithBuffer(host, op.getResult(0), hostOut);
  replaceWithBuffer(host, op.getResult(1), hostLse);
}

bool attn::packsHeads(OnlineAttentionOp op) {
  int64_t qHeads = op.getQuery().getType().getDimSize(1), kvHeads = op.getKey().getType().getDimSize(1);
  bool isGrouped = qHeads != kvHeads || ShapedType::isDynamic(qHeads);
  return isGrouped && (op.getRanges().empty() || op.getRanges().getArgument(1).use_empty());
}

Value attn::getNumForwardRows(ImplicitLocOpBuilder &host, OnlineAttentionOp op, bool packs) {
  auto size = [&](Value tensor, int64_t position) -> Value {
    return host.createOrFold<tensor::DimOp>(tensor, position);
  };
  Value queries = size(op.getQuery(), 2);
  if (!packs)
    return queries;
  // Without heads there are no rows.
  Value kvHeads = host.createOrFold<arith::MaxSIOp>(size(op.getKey(), 1),
                                                    arith::ConstantIndexOp::create(host, 1).getResult());
  Value group = arith::DivSIOp::create(host, size(op.getQuery(), 1), kvHeads);
  return arith::MulIOp::create(host, queries, group);
}

Value attn::getNumForwardBlocks(ImplicitLocOpBuilder &host, OnlineAttentionOp op, bool packs) {
  Value blocks = arith::CeilDivSIOp::create(
      host, getNumForwardRows(host, op, packs),
      arith::ConstantIndexOp::create(host, op.getSchedule().getBlockM()).getResult());
  Value heads = packs ? op.getKey() : op.getQuery();
  for (int64_t position : {0, 1})
    blocks = arith::MulIOp::create(host, blocks, tensor::DimOp::create(host, heads, position).getResult());
  return blocks;
}

void attn::lowerForwardToTile(OnlineAttentionOp op, const TileLoweringOptions &options) {
  ImplicitLocOpBuilder host(op.getLoc(), op);
  auto function = op->getParentOfType<FunctionOpInterface>();
  StringRef name = op.isSplit() ? "_forward_parts" : "_forward";
  ForwardKernel(host, op, (function.getName() + name).str(), options).build();
  op.erase();
}
