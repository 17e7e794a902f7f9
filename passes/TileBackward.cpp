//===- TileBackward.cpp - the backward kernels of the portable GPU family ----===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// FlashAttention-2 (Dao 2023): a block of the grid keeps block_n keys and streams the queries of all heads of
// its group in blocks of block_m. Per tile of the score matrix, with x = scale * q k^T:
//
//   s = score(x)   p = exp(s - lse)   d_s = p * (d_out v^T - delta)   d_x = gradient(d_s, x)
//   d_value += p^T d_out   d_key += scale * d_x^T q   d_query += scale * d_x k
//
// p and d_x are left operands with rows and columns exchanged, so they go through shared memory; there the
// rounded p waits for d_s, too. The sums of d_query of all blocks of keys meet in an f32 workspace, by atomic
// additions; a second kernel rounds them.
//
// Where results may not depend on the order of additions, that kernel leaves d_query out, and another one
// keeps block_m queries and streams the keys.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/TileKernel.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace attn;
using namespace attn::tile;

//===----------------------------------------------------------------------===//
// The main kernel
//===----------------------------------------------------------------------===//

namespace {
/// The gradient of a capture at an index that is the same for a whole head.
struct HeadSum {
  Value sum, buffer;
  SmallVector<Value> indices;
};

/// The kernel of the kinds `fused` and `dkdv`, and what that of `dq` has in common with it.
class FusedKernel : public OnlineTileKernel {
public:
  FusedKernel(ImplicitLocOpBuilder &host, OnlineAttentionOp op, StringRef name,
              const TileLoweringOptions &options);
  void build();
  /// Launches the kernel that rounds the sums of d_query.
  void roundQuery(StringRef name) {
    roundQuerySum(host, op, querySum, cast<FragmentType>(dQuery.getType()), name, options);
  }

protected:
  Value allocateQuerySum();
  bool sumsQuery() { return op.getKind() == KernelKind::fused; }
  void replaceResults();
  void allocateStorage();
  void beginHead();
  void endHead();
  void copyBlock(Value queryBegin, Value stage);
  void step(const StreamedBlock &block);
  void loadRowLse(ValueRange place, Value rows);
  Value getProbability(Value product, Value score, Value lse);
  void subtractLargeLse();
  Value isKept(Value queryIndex, Value keyIndex);
  void computeProbabilities(Value queryBegin, bool isMasked);
  void differentiateTile(Value queryBegin, bool isMasked);

  /// Whether the probabilities wait in shared memory, rounded, for the gradients of the scores: there are not
  /// registers enough for both. Not where a region needs the scores, too, or nothing is rounded.
  bool roundsProbabilities() { return op.getScore().empty() && !elementType.isF32(); }
  Value getGradientBuffer(AccumulateGradientOp gradient);
  RegionInlining getGradientInlining(Value keep);
  Value evaluateForHead(Value regionValue);
  void scaleFragment(Value fragment, double factor);

  ImplicitLocOpBuilder &host;
  Value querySum;                 // of the host
  SmallVector<Value> hostResults; // without a d_query that is summed
  Value lse, delta, dOut, dQuerySum, dQueryOut, dKeyOut, dValueOut;
  SmallVector<Value> captureGradients;
  // The block of keys, which is that of the grid except for dq, and the head.
  Value batch, head, kvHead, begin, isRagged;
  // Storage.
  Value keyTile, valueTile, queryRing, dOutRing, probabilitiesTile, dScoresTile;
  Value scores, probabilities, dScores, dKey, dValue, dQuery, rowLse, rowDelta;
  llvm::DenseMap<Operation *, HeadSum> headSums;
};
} // namespace

FusedKernel::FusedKernel(ImplicitLocOpBuilder &host, OnlineAttentionOp op, StringRef name,
                         const TileLoweringOptions &options)
    : OnlineTileKernel(host, op, name, options), host(host) {
  lse = addTensor(op.getLse(), "lse");
  delta = addTensor(op.getDelta(), "delta");
  dOut = addTensor(op.getDOut(), "d_out");
  auto addResult = [&](unsigned number, StringRef name) {
    OpResult result = op->getResult(number);
    hostResults.push_back(allocateResult(host, result, this->op.getShapeSource(result)));
    return addParameter(hostResults.back(), name);
  };
  if (sumsQuery()) {
    querySum = allocateQuerySum();
    dQuerySum = addParameter(querySum, "d_query_sum");
  }
  if (op.getKind() == KernelKind::dq) {
    dQueryOut = addResult(0, "d_query");
  } else {
    dKeyOut = addResult(sumsQuery() ? 1 : 0, "d_key");
    dValueOut = addResult(sumsQuery() ? 2 : 1, "d_value");
  }
  for (unsigned number : op.getDifferentiableCaptures()) {
    OpResult gradient = op.getCaptureGradient(number);
    if (!gradient)
      continue;
    hostResults.push_back(allocateResult(host, gradient, op.getShapeSource(gradient)));
    fillWithZero(host, hostResults.back());
    captureGradients.push_back(addParameter(hostResults.back(), "d_capture_" + std::to_string(number)));
  }
}

/// A zeroed f32 number for each element of the blocks of queries, in whatever order their fragments have.
Value FusedKernel::allocateQuerySum() {
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

void FusedKernel::allocateStorage() {
  int64_t stages = op.getSchedule().getStages();
  keyTile = sharedTile("key_tile", blockN(), paddedHeadDim, elementType);
  valueTile = sharedTile("value_tile", blockN(), paddedValueDim, elementType);
  queryRing = sharedRing("query_ring", stages, blockM(), paddedHeadDim, elementType);
  dOutRing = sharedRing("d_out_ring", stages, blockM(), paddedValueDim, elementType);
  probabilitiesTile = sharedTile("probabilities_tile", blockM(), blockN(), elementType);
  dScoresTile = sharedTile("d_scores_tile", blockM(), blockN(), elementType);
  FragmentType scoresType = accumulatorType(blockM(), blockN(), queryGrid);
  scores = fragment("scores", scoresType);
  if (roundsProbabilities())
    probabilities = fragment("probabilities", scoresType);
  else
    dScores = fragment("d_scores", scoresType);
  rowLse = fragment("row_lse", scoresType.getRowsType());
  rowDelta = fragment("row_delta", scoresType.getRowsType());
  dKey = fragment("d_key_sum", accumulatorType(blockN(), paddedHeadDim, keyGrid));
  dValue = fragment("d_value_sum", accumulatorType(blockN(), paddedValueDim, keyGrid));
  if (sumsQuery())
    dQuery = fragment("d_query", accumulatorType(blockM(), paddedHeadDim, queryGrid));
}

void FusedKernel::scaleFragment(Value fragment, double factor) {
  map({}, fragment, [&](ValueRange, ValueRange elements) -> SmallVector<Value> {
    return {arith::MulFOp::create(b, elements[0], f32(factor))};
  });
}

//===----------------------------------------------------------------------===//
// Gradients of captures
//===----------------------------------------------------------------------===//

Value FusedKernel::getGradientBuffer(AccumulateGradientOp gradient) {
  unsigned capture = op.getCaptureNumber(cast<BlockArgument>(gradient.getCapture()));
  unsigned firstResult = op->getNumResults() - captureGradients.size();
  return captureGradients[op.getCaptureGradient(capture).getResultNumber() - firstResult];
}

/// Inlines the gradient region for a pair; what it adds to captures counts where `keep` holds.
RegionInlining FusedKernel::getGradientInlining(Value keep) {
  RegionInlining inlining = getInlining();
  // The accumulations are inlined in the order of the originals.
  SmallVector<AccumulateGradientOp> gradients;
  op.getGradient().walk([&](AccumulateGradientOp gradient) { gradients.push_back(gradient); });
  inlining.accumulateGradient = [this, keep, gradients,
                                 next = size_t(0)](OpBuilder &builder, Location loc, Value value, unsigned,
                                                   ValueRange at, MutableArrayRef<Value>) mutable {
    if (captureGradients.empty()) // dq adds them
      return;
    AccumulateGradientOp gradient = gradients[next++];
    Value zero = arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(0));
    value = arith::SelectOp::create(builder, loc, keep, value, zero);
    if (auto sum = headSums.find(gradient); sum != headSums.end()) {
      AccumulateOp::create(builder, loc, value, sum->second.sum);
      return;
    }
    // Where the pair is dropped the index may be out of bounds, and the value is exactly 0.
    Value isNonZero = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::UNE, value, zero);
    Value buffer = getGradientBuffer(gradient);
    SmallVector<Value> place(at);
    scf::IfOp::create(builder, loc, isNonZero, [&](OpBuilder &then, Location loc) {
      memref::AtomicRMWOp::create(then, loc, arith::AtomicRMWKind::addf, value, buffer, place);
      scf::YieldOp::create(then, loc);
    });
  };
  return inlining;
}

/// What a value of the gradient region is for a whole head; null where it depends on the pair.
Value FusedKernel::evaluateForHead(Value regionValue) {
  if (auto argument = dyn_cast<BlockArgument>(regionValue)) {
    switch (argument.getArgNumber()) {
    case GradientArgs::batch:
      return batch;
    case GradientArgs::head:
      return head;
    case GradientArgs::cotangent:
    case GradientArgs::score:
    case GradientArgs::query:
    case GradientArgs::key:
      return {};
    default:
      return captures[argument.getArgNumber() - GradientArgs::numFixed];
    }
  }
  Operation *definition = regionValue.getDefiningOp();
  if (definition->getNumRegions() != 0 || !isPure(definition) || isa<tensor::ExtractOp>(definition))
    return {};
  IRMapping mapping;
  for (Value operand : definition->getOperands()) {
    Value known = evaluateForHead(operand);
    if (!known)
      return {};
    mapping.map(operand, known);
  }
  return b.clone(*definition, mapping)->getResult(cast<OpResult>(regionValue).getResultNumber());
}

void FusedKernel::beginHead() {
  headSums.clear();
  if (captureGradients.empty())
    return;
  unsigned number = 0;
  op.getGradient().walk([&](AccumulateGradientOp gradient) {
    SmallVector<Value> indices =
        llvm::map_to_vector(gradient.getIndices(), [&](Value index) { return evaluateForHead(index); });
    if (llvm::is_contained(indices, Value()))
      return;
    auto warps = cast<FragmentType>(scores.getType()).getWarps();
    auto type = FragmentType::get(b.getContext(), {}, b.getF32Type(), Layout::thread, warps);
    Value sum = fragment("sum_" + std::to_string(number++), type);
    FillOp::create(b, sum, f32(0));
    headSums[gradient] = {sum, getGradientBuffer(gradient), indices};
  });
}

void FusedKernel::endHead() {
  op.getGradient().walk([&](AccumulateGradientOp gradient) {
    if (auto found = headSums.find(gradient); found != headSums.end())
      FlushSumOp::create(b, found->second.sum, found->second.buffer, found->second.indices);
  });
}

//===----------------------------------------------------------------------===//
// One tile
//===----------------------------------------------------------------------===//

/// exp(score - lse). lse is +inf for rows without a key or a query: their probabilities are 0.
Value FusedKernel::getProbability(Value product, Value score, Value lse) {
  auto multiply = [&](Value x, Value y) -> Value { return arith::MulFOp::create(b, x, y); };
  auto subtract = [&](Value x, Value y) -> Value { return arith::SubFOp::create(b, x, y); };
  auto fma = [&](Value x, Value y, Value z) -> Value { return math::FmaOp::create(b, x, y, z); };
  Value log2e = f32(llvm::numbers::log2e);
  if (roundsProbabilities()) // one multiply-add an element
    return math::Exp2Op::create(b,
                                fma(product, f32(op.getScaleOrDefault() * llvm::numbers::log2e),
                                    multiply(arith::NegFOp::create(b, lse), log2e)),
                                arith::FastMathFlags::afn);
  Value difference = subtract(score, lse), exponent = multiply(difference, log2e);
  if (!elementType.isF32() || op.getTf32())
    return math::Exp2Op::create(b, exponent, arith::FastMathFlags::afn);
  // A probability is relatively as wrong as its exponent is absolutely, and where a row has many keys all its
  // exponents are large: what the difference (Knuth's two-sum), the product and the constant round away is
  // made up for.
  Value back = subtract(difference, score);
  Value lost = subtract(subtract(score, subtract(difference, back)), arith::AddFOp::create(b, lse, back));
  Value low = fma(difference, log2e, arith::NegFOp::create(b, exponent));
  low = fma(lost, log2e,
            fma(difference, f32(llvm::numbers::log2e - static_cast<float>(llvm::numbers::log2e)), low));
  Value p = math::Exp2Op::create(b, exponent);
  // exp2(low) is 1 + low ln 2. Of a row without a key all that is no number.
  Value isZero = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, p, f32(0));
  return arith::SelectOp::create(b, isZero, p, fma(multiply(p, f32(llvm::numbers::ln2)), low, p));
}

/// The product that the multiply-add of getProbability takes lse from is rounded, which with a large lse
/// would give exponents far above 0. There the difference is taken first, of scores as the forward rounded
/// them; what is left to getProbability is an lse of 0.
void FusedKernel::subtractLargeLse() {
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

Value FusedKernel::isKept(Value queryIndex, Value keyIndex) {
  Value keep = isLess(keyIndex, kvLen);
  if (!op.getMask().empty())
    keep = arith::AndIOp::create(b, keep, inlineMask(batch, head, queryIndex, keyIndex));
  return keep;
}

/// Turns q k^T into probabilities, in place.
void FusedKernel::computeProbabilities(Value queryBegin, bool isMasked) {
  map(rowLse, scores, [&](ValueRange indices, ValueRange elements) -> SmallVector<Value> {
    Value p = getProbability(elements[1], {}, elements[0]);
    if (!isMasked)
      return {p};
    Value keep = isKept(named(add(queryBegin, indices[0]), "q_idx"), named(add(begin, indices[1]), "kv_idx"));
    return {arith::SelectOp::create(b, keep, p, f32(0))};
  });
}

/// Turns q k^T into probabilities and d_out v^T into d_x, in place.
void FusedKernel::differentiateTile(Value queryBegin, bool isMasked) {
  bool hasScore = !op.getScore().empty();
  map({rowLse, rowDelta}, {scores, dScores},
      [&](ValueRange indices, ValueRange elements) -> SmallVector<Value> {
        Value lse = elements[0], delta = elements[1], product = elements[2], dP = elements[3];
        Value queryIndex = named(add(queryBegin, indices[0]), "q_idx");
        Value keyIndex = named(add(begin, indices[1]), "kv_idx");
        Value x = arith::MulFOp::create(b, product, f32(op.getScaleOrDefault())), s = x;
        if (hasScore)
          s = inlineScore(op.getScore(), x, batch, head, queryIndex, keyIndex);
        Value p = getProbability(product, s, lse);
        Value keep;
        if (isMasked)
          keep = isKept(queryIndex, keyIndex);
        if (hasScore) { // what the gradient region makes of a score of -inf is not wanted
          Value isPositive = arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, p, f32(0));
          keep = keep ? arith::AndIOp::create(b, keep, isPositive).getResult() : isPositive;
        }
        auto select = [&](Value value) -> Value {
          return keep ? arith::SelectOp::create(b, keep, value, f32(0)).getResult() : value;
        };
        p = select(p);
        Value dS = arith::MulFOp::create(b, p, arith::SubFOp::create(b, dP, delta));
        if (!hasScore)
          return {p, select(dS)};
        SmallVector<Value> arguments{dS, x, batch, head, queryIndex, keyIndex};
        llvm::append_range(arguments, captures);
        return {p, select(inlineRegion(b, op.getGradient(), arguments, getGradientInlining(keep)))};
      });
}

/// Starts copying a block of queries and of their output gradients; none where it begins past the last query.
void FusedKernel::copyBlock(Value queryBegin, Value stage) {
  ifThen(isLess(queryBegin, qLen), [&] {
    copyRows(query, batch, head, queryBegin, qLen, ringSlot(queryRing, stage, "query_tile"));
    copyRows(dOut, batch, head, queryBegin, qLen, ringSlot(dOutRing, stage, "d_out_tile"));
  });
  CopyCommitOp::create(b);
}

/// lse, +inf for rows without a key or a query: their probabilities are 0 then.
void FusedKernel::loadRowLse(ValueRange place, Value rows) {
  LoadRowsOp::create(b, lse, place, rows, f32(-INFINITY), rowLse);
  map({}, rowLse, [&](ValueRange, ValueRange elements) -> SmallVector<Value> {
    Value isEmpty = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, elements[0], f32(-INFINITY));
    return {arith::SelectOp::create(b, isEmpty, f32(INFINITY), elements[0])};
  });
}

void FusedKernel::step(const StreamedBlock &block) {
  bool isSingle = op.getSchedule().getStages() == 1;
  Value stage = isSingle ? index(0) : block.stage;
  Value queryTile = ringSlot(queryRing, stage, "query_tile"),
        dOutTile = ringSlot(dOutRing, stage, "d_out_tile");
  Value masked = block.masked ? arith::OrIOp::create(b, block.masked, isRagged).getResult() : isRagged;
  Value rows = named(sub(qLen, block.begin), "q_rows");
  SmallVector<Value> place{batch, head, block.begin};
  // The block is there; all threads are done with the probabilities and gradients of the one before.
  CopyWaitOp::create(b, 0);
  gpu::BarrierOp::create(b);

  loadRowLse(place, rows);
  FillOp::create(b, scores, f32(0));
  mma(scores, queryTile, keyTile, /*transposeA=*/false, /*transposeB=*/true);
  if (roundsProbabilities()) {
    subtractLargeLse();
    ifThenElse(
        masked, [&] { computeProbabilities(block.begin, true); },
        [&] { computeProbabilities(block.begin, false); });
    StoreSharedOp::create(b, scores, probabilitiesTile);
    LoadRowsOp::create(b, delta, place, rows, f32(0), rowDelta);
    FillOp::create(b, scores, f32(0));
    mma(scores, dOutTile, valueTile, /*transposeA=*/false, /*transposeB=*/true);
    LoadSharedOp::create(b, probabilitiesTile, probabilities);
    auto differentiate = [&](bool isMasked) {
      map({probabilities, rowDelta}, scores, [&](ValueRange, ValueRange elements) -> SmallVector<Value> {
        // The operands come in the order of their layouts: the accumulator of the ins, its rows, the outs.
        Value p = elements[0],
              dS = arith::MulFOp::create(b, p, arith::SubFOp::create(b, elements[2], elements[1]));
        if (!isMasked)
          return {dS};
        // What a dropped pair has for a value may be infinite.
        Value isDropped = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, p, f32(0));
        return {arith::SelectOp::create(b, isDropped, f32(0), dS)};
      });
    };
    ifThenElse(masked, [&] { differentiate(true); }, [&] { differentiate(false); });
    StoreSharedOp::create(b, scores, dScoresTile);
  } else {
    LoadRowsOp::create(b, delta, place, rows, f32(0), rowDelta);
    FillOp::create(b, dScores, f32(0));
    mma(dScores, dOutTile, valueTile, /*transposeA=*/false, /*transposeB=*/true);
    ifThenElse(
        masked, [&] { differentiateTile(block.begin, true); },
        [&] { differentiateTile(block.begin, false); });
    StoreSharedOp::create(b, scores, probabilitiesTile);
    StoreSharedOp::create(b, dScores, dScoresTile);
  }
  gpu::BarrierOp::create(b);

  // Later than at the top of the loop: the products above would wait for the same shared memory.
  if (!isSingle)
    copyBlock(block.next, sub(index(1), block.stage));
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
  place.back() = named(arith::DivSIOp::create(b, block.begin, index(blockM())), "q_block");
  AtomicAddOp::create(b, dQuery, dQuerySum, place, rows, /*opaque=*/true);
}

void FusedKernel::build() {
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
}

void FusedKernel::replaceResults() {
  for (auto [result, buffer] : llvm::zip_equal(op.getResults().drop_front(sumsQuery() ? 1 : 0), hostResults))
    replaceWithBuffer(host, result, buffer);
}

//===----------------------------------------------------------------------===//
// The kernel of the queries alone
//===----------------------------------------------------------------------===//

namespace {
class QueryKernel : public FusedKernel {
public:
  using FusedKernel::FusedKernel;
  void build();

private:
  void allocateStorage();
  void copyBlock(Value keyBegin, Value stage);
  void step(Value queryBegin, const StreamedBlock &block);
  Value takeStage(Value stage) { return op.getSchedule().getStages() == 1 ? index(0) : stage; }

  Value queryTile, dOutTile, keyRing, valueRing;
};
} // namespace

void QueryKernel::allocateStorage() {
  int64_t stages = op.getSchedule().getStages();
  queryTile = sharedTile("query_tile", blockM(), paddedHeadDim, elementType);
  dOutTile = sharedTile("d_out_tile", blockM(), paddedValueDim, elementType);
  keyRing = sharedRing("key_ring", stages, blockN(), paddedHeadDim, elementType);
  valueRing = sharedRing("value_ring", stages, blockN(), paddedValueDim, elementType);
  dScoresTile = sharedTile("d_scores_tile", blockM(), blockN(), elementType);
  FragmentType scoresType = accumulatorType(blockM(), blockN(), queryGrid);
  scores = fragment("scores", scoresType);
  dScores = fragment("d_scores", scoresType);
  rowLse = fragment("row_lse", scoresType.getRowsType());
  rowDelta = fragment("row_delta", scoresType.getRowsType());
  dQuery = fragment("d_query_sum", accumulatorType(blockM(), paddedHeadDim, queryGrid));
}

/// Starts copying a block of keys and values; none where it begins past the last key.
void QueryKernel::copyBlock(Value keyBegin, Value stage) {
  ifThen(isLess(keyBegin, kvLen), [&] {
    copyRows(key, batch, kvHead, keyBegin, kvLen, ringSlot(keyRing, stage, "key_tile"));
    copyRows(value, batch, kvHead, keyBegin, kvLen, ringSlot(valueRing, stage, "value_tile"));
  });
  CopyCommitOp::create(b);
}

void QueryKernel::step(Value queryBegin, const StreamedBlock &block) {
  bool isSingle = op.getSchedule().getStages() == 1;
  Value stage = takeStage(block.stage);
  Value keyTile = ringSlot(keyRing, stage, "key_tile"), valueTile = ringSlot(valueRing, stage, "value_tile");
  // The block is there; all threads are done with the gradients, and the keys, of the one before.
  CopyWaitOp::create(b, 0);
  gpu::BarrierOp::create(b);
  FillOp::create(b, scores, f32(0));
  mma(scores, queryTile, keyTile, /*transposeA=*/false, /*transposeB=*/true);
  FillOp::create(b, dScores, f32(0));
  mma(dScores, dOutTile, valueTile, /*transposeA=*/false, /*transposeB=*/true);
  begin = block.begin;
  Value masked = named(isLess(kvLen, add(begin, index(blockN()))), "is_ragged");
  if (block.masked)
    masked = arith::OrIOp::create(b, block.masked, masked);
  ifThenElse(
      masked, [&] { differentiateTile(queryBegin, true); }, [&] { differentiateTile(queryBegin, false); });
  StoreSharedOp::create(b, dScores, dScoresTile);
  gpu::BarrierOp::create(b);
  if (!isSingle)
    copyBlock(block.next, sub(index(1), block.stage));
  mma(dQuery, dScoresTile, keyTile);
  if (isSingle) {
    gpu::BarrierOp::create(b);
    copyBlock(block.next, stage);
  }
}

void QueryKernel::build() {
  allocateStorage();
  // As in the forward, the last blocks first.
  Value numBlocks = named(ceilDiv(qLen, blockM()), "num_blocks");
  Value work = gpu::BlockIdOp::create(b, gpu::Dimension::x);
  Value position = takeDigit(work, numBlocks, "position");
  head = takeDigit(work, qHeads, "head");
  batch = named(work, "batch");
  kvHead = named(arith::DivSIOp::create(b, head, group), "kv_head");
  Value block = named(sub(sub(numBlocks, index(1)), position), "block");
  Value queryBegin = named(mul(block, index(blockM())), "q_begin");
  Value queryEnd = named(arith::MinSIOp::create(b, add(queryBegin, index(blockM())), qLen), "q_end");
  Value rows = named(sub(qLen, queryBegin), "q_rows");
  SmallVector<Value> place{batch, head, queryBegin};

  copyRows(query, batch, head, queryBegin, qLen, queryTile);
  copyRows(dOut, batch, head, queryBegin, qLen, dOutTile);
  loadRowLse(place, rows);
  LoadRowsOp::create(b, delta, place, rows, f32(0), rowDelta);
  FillOp::create(b, dQuery, f32(0));
  beginHead();
  forEachVisitedBlock(
      evaluateRanges(batch, head, queryBegin, queryEnd), {"kv", index(0), kvLen, blockN()},
      [&](Value first, Value stage) { copyBlock(first, takeStage(stage)); },
      [&](const StreamedBlock &block) { step(queryBegin, block); });
  endHead();
  CopyWaitOp::create(b, 0);
  scaleFragment(dQuery, op.getScaleOrDefault());
  StoreOp::create(b, dQuery, queryTile, dQueryOut, place, rows, options.aligned);
  launch(getNumBlocks(host, op.getQuery(), blockM()));
  replaceResults();
}

void attn::lowerBackwardToTile(OnlineAttentionOp op, const TileLoweringOptions &options) {
  ImplicitLocOpBuilder host(op.getLoc(), op);
  StringRef function = op->getParentOfType<FunctionOpInterface>().getName();
  std::string name = (function + "_" + stringifyKernelKind(op.getKind())).str();
  if (op.getKind() == KernelKind::dq) {
    QueryKernel(host, op, name, options).build();
  } else {
    FusedKernel kernel(host, op, name, options);
    kernel.build();
    if (op.getKind() == KernelKind::fused)
      kernel.roundQuery((function + "_d_query").str());
  }
  op.erase();
}
