//===- AttnCanonicalize.cpp - canonicalization of attention and its gradients -===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialect/AttnDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace attn;

static void eraseRegion(PatternRewriter &rewriter, Region &region) {
  for (Block &block : llvm::make_early_inc_range(region))
    rewriter.eraseBlock(&block);
}

static Value getYielded(Region &region) { return cast<YieldOp>(region.front().getTerminator()).getValue(); }

/// A tensor of the type of `result` that holds `number` everywhere.
static Value buildSplat(PatternRewriter &rewriter, AttentionOpInterface op, OpResult result, double number) {
  auto type = cast<RankedTensorType>(result.getType());
  SmallVector<Value> dynamicDims;
  for (auto [dim, size] : llvm::enumerate(type.getShape()))
    if (ShapedType::isDynamic(size))
      dynamicDims.push_back(tensor::DimOp::create(rewriter, op.getLoc(), op.getShapeSource(result), dim));
  auto element = cast<FloatType>(type.getElementType());
  Value value = arith::ConstantOp::create(rewriter, op.getLoc(), rewriter.getFloatAttr(element, number));
  return tensor::SplatOp::create(rewriter, op.getLoc(), value, type, dynamicDims);
}

namespace {
/// A score that yields its argument is no score. A gradient that is not the identity is a custom one, and
/// stays.
template <typename OpTy>
struct DropIdentityScore : OpRewritePattern<OpTy> {
  using OpRewritePattern<OpTy>::OpRewritePattern;
  LogicalResult matchAndRewrite(OpTy op, PatternRewriter &rewriter) const override {
    Region &score = op.getScore();
    if (score.empty() || getYielded(score) != score.getArgument(ScoreArgs::score))
      return failure();
    if constexpr (std::is_same_v<OpTy, AttentionBackwardOp>) {
      Region &gradient = op.getGradient();
      if (!gradient.empty() && (getYielded(gradient) != gradient.getArgument(GradientArgs::cotangent) ||
                                !llvm::hasSingleElement(gradient.front())))
        return failure();
      rewriter.modifyOpInPlace(op, [&] { eraseRegion(rewriter, gradient); });
    }
    rewriter.modifyOpInPlace(op, [&] { eraseRegion(rewriter, score); });
    return success();
  }
};

/// A mask that keeps every pair is no mask; one that keeps none leaves out = 0 and lse = -inf, or gradients
/// of 0.
template <typename OpTy>
struct FoldConstantMask : OpRewritePattern<OpTy> {
  using OpRewritePattern<OpTy>::OpRewritePattern;
  LogicalResult matchAndRewrite(OpTy op, PatternRewriter &rewriter) const override {
    Region &mask = op.getMask();
    APInt keep;
    if (mask.empty() || !matchPattern(getYielded(mask), m_ConstantInt(&keep)))
      return failure();
    if (keep.isOne()) {
      rewriter.modifyOpInPlace(op, [&] {
        eraseRegion(rewriter, mask);
        op.getBlockListsMutable().clear();
        op.removeBlocksAttr();
      });
      return success();
    }
    // Lowerings refuse f8E4M3FN, whatever the mask: folding would hide that.
    if (isa<Float8E4M3FNType>(op.getElementType()))
      return failure();
    SmallVector<Value> constants;
    for (OpResult result : op->getResults()) {
      bool isLse = std::is_same_v<OpTy, AttentionOp> && result.getResultNumber() == 1;
      constants.push_back(buildSplat(rewriter, op, result, isLse ? -INFINITY : 0.0));
    }
    rewriter.replaceOp(op, constants);
    return success();
  }
};

/// Drops captures that no region reads, with their gradients, which are 0, and merges those that are the same
/// value. Not where they have gradients: each is that of its own reads.
template <typename OpTy>
struct DropCaptures : OpRewritePattern<OpTy> {
  using OpRewritePattern<OpTy>::OpRewritePattern;
  LogicalResult matchAndRewrite(OpTy op, PatternRewriter &rewriter) const override;

private:
  static OpTy dropResults(OpTy op, const llvm::BitVector &dropped, PatternRewriter &rewriter);
};
} // namespace

template <typename OpTy>
LogicalResult DropCaptures<OpTy>::matchAndRewrite(OpTy op, PatternRewriter &rewriter) const {
  size_t count = op.getCaptures().size();
  auto regions = llvm::make_filter_range(op->getRegions(), [](Region &region) { return !region.empty(); });
  llvm::BitVector dropped(count), droppedResults(op->getNumResults());
  llvm::SmallDenseMap<Value, unsigned> first;
  for (auto [index, capture] : llvm::enumerate(op.getCaptures())) {
    bool isUnused = llvm::all_of(
        regions, [&, i = index](Region &region) { return op.getCaptureArgument(region, i).use_empty(); });
    OpResult gradient = op.getCaptureGradient(index);
    if (isUnused) {
      dropped.set(index);
      if (gradient)
        droppedResults.set(gradient.getResultNumber());
      continue;
    }
    auto [it, isFirst] = first.try_emplace(capture, index);
    if (isFirst || gradient)
      continue;
    dropped.set(index);
    for (Region &region : regions)
      rewriter.replaceAllUsesWith(op.getCaptureArgument(region, index),
                                  op.getCaptureArgument(region, it->second));
  }
  if (dropped.none())
    return failure();

  if (droppedResults.any())
    op = dropResults(op, droppedResults, rewriter);
  rewriter.modifyOpInPlace(op, [&] {
    for (unsigned index = count; index-- > 0;) {
      if (!dropped.test(index))
        continue;
      for (Region &region : op->getRegions())
        if (!region.empty())
          region.eraseArgument(op.getCaptureArgument(region, index).getArgNumber());
      op.getCapturesMutable().erase(index);
    }
  });
  return success();
}

/// Replaces gradients by zeros, and the operation by one without these results.
template <typename OpTy>
OpTy DropCaptures<OpTy>::dropResults(OpTy op, const llvm::BitVector &dropped, PatternRewriter &rewriter) {
  SmallVector<Type> types;
  for (OpResult result : op->getResults())
    if (!dropped.test(result.getResultNumber()))
      types.push_back(result.getType());
  Operation *copy = Operation::create(op.getLoc(), op->getName(), types, op->getOperands(),
                                      op->getDiscardableAttrDictionary(), op->getPropertiesStorage(),
                                      op->getSuccessors(), op->getNumRegions());
  rewriter.insert(copy);
  for (auto [from, to] : llvm::zip(op->getRegions(), copy->getRegions()))
    rewriter.inlineRegionBefore(from, to, to.end());
  SmallVector<Value> replacements;
  auto kept = copy->getResults().begin();
  for (OpResult result : op->getResults())
    replacements.push_back(dropped.test(result.getResultNumber()) ? buildSplat(rewriter, op, result, 0.0)
                                                                  : Value(*kept++));
  rewriter.replaceOp(op, replacements);
  return cast<OpTy>(copy);
}

template <typename OpTy>
static void addPatterns(RewritePatternSet &patterns) {
  patterns.add<DropIdentityScore<OpTy>, FoldConstantMask<OpTy>, DropCaptures<OpTy>>(patterns.getContext());
}

void AttentionOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *) {
  addPatterns<AttentionOp>(patterns);
}

void AttentionBackwardOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *) {
  addPatterns<AttentionBackwardOp>(patterns);
}
