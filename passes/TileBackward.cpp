//===- TileBackward.cpp - what the backward kernels have in common -----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/TileBackward.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/ConstantFactors.h"
#include "passes/ScoreBounds.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace attn;
using namespace attn::tile;

BackwardKernel::BackwardKernel(ImplicitLocOpBuilder &host, OnlineAttentionOp op, StringRef name,
                               const TileLoweringOptions &options)
    : OnlineTileKernel(host, op, name, options), host(host) {
  lse = addTensor(op.getLse(), "lse");
  delta = addTensor(op.getDelta(), "delta");
  dOut = addTensor(op.getDOut(), "d_out");
}

Value BackwardKernel::addResult(StringRef name) {
  unsigned first = op.getKind() == KernelKind::fused ? 1 : 0;
  OpResult result = op->getResult(first + hostResults.size());
  hostResults.push_back(allocateResult(host, result, op.getShapeSource(result)));
  return addParameter(hostResults.back(), name);
}

void BackwardKernel::addCaptureGradients() {
  for (unsigned number : op.getDifferentiableCaptures()) {
    if (!op.getCaptureGradient(number))
      continue;
    captureGradients.push_back(addResult("d_capture_" + std::to_string(number)));
    fillWithZero(host, hostResults.back());
  }
}

void BackwardKernel::replaceResults() {
  for (auto [result, buffer] : llvm::zip(op.getResults().take_back(hostResults.size()), hostResults))
    replaceWithBuffer(host, result, buffer);
}

void BackwardKernel::scaleFragment(Value fragment, double factor) {
  map({}, fragment, [&](ValueRange, ValueRange elements) -> SmallVector<Value> {
    return {arith::MulFOp::create(b, elements[0], f32(factor))};
  });
}

//===----------------------------------------------------------------------===//
// Gradients of captures
//===----------------------------------------------------------------------===//

Value BackwardKernel::getGradientBuffer(AccumulateGradientOp gradient) {
  unsigned capture = op.getCaptureNumber(cast<BlockArgument>(gradient.getCapture()));
  unsigned firstResult = op->getNumResults() - captureGradients.size();
  return captureGradients[op.getCaptureGradient(capture).getResultNumber() - firstResult];
}

/// Inlines the gradient region for a pair; what it adds to captures counts where `keep` holds.
RegionInlining BackwardKernel::getGradientInlining(Value keep) {
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
Value BackwardKernel::evaluateForHead(Value regionValue) {
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

void BackwardKernel::beginHead() {
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

void BackwardKernel::endHead() {
  op.getGradient().walk([&](AccumulateGradientOp gradient) {
    if (auto found = headSums.find(gradient); found != headSums.end())
      FlushSumOp::create(b, found->second.sum, found->second.buffer, found->second.indices);
  });
}

//===----------------------------------------------------------------------===//
// One tile
//===----------------------------------------------------------------------===//

void BackwardKernel::loadRowLse(ValueRange place, Value rows) {
  LoadRowsOp::create(b, lse, place, rows, f32(-INFINITY), rowLse);
  map({}, rowLse, [&](ValueRange, ValueRange elements) -> SmallVector<Value> {
    Value isEmpty = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, elements[0], f32(-INFINITY));
    return {arith::SelectOp::create(b, isEmpty, f32(INFINITY), elements[0])};
  });
}

void BackwardKernel::mapScores(ValueRange ins, ValueRange outs,
                               function_ref<SmallVector<Value>(ValueRange, ValueRange)> body) {
  MapOp scoresMap = map(ins, outs, body);
  if (areScoresModerate() && isContinuous(op.getScore()))
    mergeConstantFactors(scoresMap.getBody());
}

/// Whether scores may be rounded otherwise than the forward rounded those that lse is of, and their products
/// with log2 e before lse is subtracted: all exponents are off by no more than a quarter of the unit of the
/// elements.
bool BackwardKernel::areScoresModerate() {
  if (elementType.isF32() || op.getScore().empty())
    return false;
  FloatInterval bounds = getFloatInterval(op.getScore().front().getTerminator()->getOperand(0));
  return std::max(-bounds.low, bounds.high) <= (elementType.isF16() ? 0x1p9 : 0x1p12);
}

Value BackwardKernel::getProbability(Value score, Value lse) {
  auto multiply = [&](Value x, Value y) -> Value { return arith::MulFOp::create(b, x, y); };
  auto subtract = [&](Value x, Value y) -> Value { return arith::SubFOp::create(b, x, y); };
  if (areScoresModerate()) { // one multiply-add an element
    Value log2e = f32(llvm::numbers::log2e), shift = multiply(arith::NegFOp::create(b, lse), log2e);
    return math::Exp2Op::create(b, math::FmaOp::create(b, score, log2e, shift), arith::FastMathFlags::afn);
  }
  Value difference = subtract(score, lse);
  if (!elementType.isF32() || op.getTf32())
    return math::Exp2Op::create(b, multiply(difference, f32(llvm::numbers::log2e)),
                                arith::FastMathFlags::afn);
  // A probability is relatively as wrong as its exponent is absolutely, and where a row has many keys all its
  // exponents are large: what the difference rounds away (Knuth's two-sum) is made up for. Not exp2: that
  // rounds the product with log2 e, too, and its own error is twice that of exp, and the same for all keys.
  Value back = subtract(difference, score);
  Value lost = subtract(subtract(score, subtract(difference, back)), arith::AddFOp::create(b, lse, back));
  Value p = math::ExpOp::create(b, difference);
  // Of a row without a key what is lost is no number.
  Value isZero = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, p, f32(0));
  return arith::SelectOp::create(b, isZero, p, math::FmaOp::create(b, p, lost, p));
}

Value BackwardKernel::isKept(Value queryIndex, Value keyIndex) {
  Value keep = isLess(keyIndex, kvLen);
  if (!op.getMask().empty())
    keep = arith::AndIOp::create(b, keep, inlineMask(batch, head, queryIndex, keyIndex));
  // A key that every query drops may be a NaN, and that times a row of zeros is one.
  if (!op.getMask().empty() || !op.getScore().empty())
    keep = arith::AndIOp::create(b, keep, isLess(queryIndex, qLen));
  return keep;
}

Value BackwardKernel::isMasked(const StreamedBlock &block, Value isRagged, Value queryRows) {
  Value masked = isRagged;
  if (block.masked)
    masked = arith::OrIOp::create(b, block.masked, masked);
  if (!op.getScore().empty())
    masked = arith::OrIOp::create(b, masked, isLess(queryRows, index(blockM())));
  return masked;
}

Value BackwardKernel::withAndWithoutMask(const StreamedBlock &block, Value isMasked, ArrayRef<Value> tested,
                                         function_ref<void(bool)> body) {
  auto buildBranch = [&](bool isMasked) {
    return [&, isMasked](OpBuilder &builder, Location loc) {
      OpBuilder::InsertionGuard guard(b);
      b.restoreInsertionPoint(builder.saveInsertionPoint());
      SmallVector<Value> found;
      if (mayDrop(block)) {
        Value any;
        for (Value fragment : tested) {
          bool isRows = fragment == rowDelta;
          // Without a mask only a score drops a pair; one that passes a NaN on does not where there is any.
          if (!isMasked && !(isRows ? scoresMayDrop() : scoresMayDropNaN()))
            continue;
          Value here = isRows ? anyNonFinite(fragment) : anyNonFinite(fragment, rowSum);
          any = any ? arith::OrIOp::create(b, any, here).getResult() : here;
        }
        found.push_back(any ? any : arith::ConstantIntOp::create(b, false, /*width=*/1).getResult());
      }
      body(isMasked);
      scf::YieldOp::create(b, found);
    };
  };
  auto branch = scf::IfOp::create(b, isMasked, buildBranch(true), buildBranch(false));
  return mayDrop(block) ? named(branch.getResult(0), "is_non_finite") : Value();
}

Value BackwardKernel::synchronise(Value condition) {
  if (condition)
    return named(holdsInBlock(condition), "has_non_finite");
  gpu::BarrierOp::create(b);
  return {};
}

void BackwardKernel::copyFinite(Value buffer, Value head, Value begin, Value length, Value tile) {
  Value rows = named(sub(length, begin), length == qLen ? "q_rows" : "kv_rows");
  CopyFiniteOp::create(b, buffer, ValueRange{batch, head, begin}, rows, tile, /*by_warp=*/false);
}

BackwardKernel::Pair BackwardKernel::computePair(Value queryBegin, ValueRange indices, Value product,
                                                 Value lse, bool isMasked, bool mayBeNaN) {
  Pair pair;
  pair.queryIndex = named(add(queryBegin, indices[0]), "q_idx");
  pair.keyIndex = named(add(begin, indices[1]), "kv_idx");
  pair.x = pair.score = arith::MulFOp::create(b, product, f32(op.getScaleOrDefault()));
  bool hasScore = !op.getScore().empty();
  if (hasScore)
    pair.score = inlineScore(op.getScore(), pair.x, batch, head, pair.queryIndex, pair.keyIndex);
  pair.p = getProbability(pair.score, lse);
  if (isMasked)
    pair.keep = isKept(pair.queryIndex, pair.keyIndex);
  if (hasScore) { // what the gradient region makes of a score of -inf is not wanted
    Value isPositive = scoresMayDrop() ? isNot(pair.score, -INFINITY) : isNot(pair.p, 0);
    pair.keep = pair.keep ? arith::AndIOp::create(b, pair.keep, isPositive).getResult() : isPositive;
  }
  if (isMasked || mayBeNaN)
    pair.p = select(pair.keep, pair.p);
  return pair;
}

Value BackwardKernel::isNot(Value value, double number) {
  return arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, value, f32(number));
}

Value BackwardKernel::select(Value keep, Value value) {
  return keep ? arith::SelectOp::create(b, keep, value, f32(0)).getResult() : value;
}

Value BackwardKernel::inlineGradient(const Pair &pair, Value cotangent) {
  SmallVector<Value> arguments{cotangent, pair.x, batch, head, pair.queryIndex, pair.keyIndex};
  llvm::append_range(arguments, captures);
  return select(pair.keep, inlineRegion(b, op.getGradient(), arguments, getGradientInlining(pair.keep)));
}

void BackwardKernel::differentiateTile(Value queryBegin, bool isMasked) {
  mapScores({rowLse, rowDelta}, {scores, dScores},
            [&](ValueRange indices, ValueRange elements) -> SmallVector<Value> {
              Value lse = elements[0], delta = elements[1], product = elements[2], dP = elements[3];
              Pair pair = computePair(queryBegin, indices, product, lse, isMasked, scoresMayDrop());
              Value dS = arith::MulFOp::create(b, pair.p, arith::SubFOp::create(b, dP, delta));
              return {pair.p, op.getScore().empty() ? select(pair.keep, dS) : inlineGradient(pair, dS)};
            });
}

void attn::lowerBackwardToTile(OnlineAttentionOp op, const TileLoweringOptions &options) {
  ImplicitLocOpBuilder host(op.getLoc(), op);
  StringRef function = op->getParentOfType<FunctionOpInterface>().getName();
  std::string name = (function + "_" + stringifyKernelKind(op.getKind())).str();
  auto build = op.getKind() == KernelKind::dq ? buildQueryKernel : buildKeyKernel;
  build(host, op, name, options);
  op.erase();
}
