//===- AttnCanonicalize.cpp - canonicalization of attn.attention -------------===//
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

static YieldOp getYield(Region &region) { return cast<YieldOp>(region.front().getTerminator()); }

namespace {
/// A score that yields its argument is no score.
struct DropIdentityScore : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AttentionOp op, PatternRewriter &rewriter) const override {
    Region &score = op.getScore();
    if (score.empty() || getYield(score).getValue() != score.getArgument(ScoreArgs::score))
      return failure();
    rewriter.modifyOpInPlace(op, [&] { eraseRegion(rewriter, score); });
    return success();
  }
};

/// A mask that keeps every pair is no mask; one that keeps none leaves out = 0 and lse = -inf.
struct FoldConstantMask : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AttentionOp op, PatternRewriter &rewriter) const override {
    Region &mask = op.getMask();
    APInt keep;
    if (mask.empty() || !matchPattern(getYield(mask).getValue(), m_ConstantInt(&keep)))
      return failure();
    if (keep.isOne()) {
      rewriter.modifyOpInPlace(op, [&] { eraseRegion(rewriter, mask); });
      return success();
    }
    // Lowerings refuse f8E4M3FN, whatever the mask: folding would hide that.
    if (isa<Float8E4M3FNType>(op.getElementType()))
      return failure();
    auto splat = [&](TypedValue<RankedTensorType> result, double number) -> Value {
      RankedTensorType type = result.getType();
      SmallVector<Value> dynamicDims;
      for (auto [dim, size] : llvm::enumerate(type.getShape()))
        if (ShapedType::isDynamic(size))
          dynamicDims.push_back(tensor::DimOp::create(rewriter, op.getLoc(), op.getQuery(), dim));
      auto element = cast<FloatType>(type.getElementType());
      Value value = arith::ConstantOp::create(rewriter, op.getLoc(), rewriter.getFloatAttr(element, number));
      return tensor::SplatOp::create(rewriter, op.getLoc(), value, type, dynamicDims);
    };
    Value out = splat(op.getOut(), 0.0);
    Value lse = splat(op.getLse(), -INFINITY);
    rewriter.replaceOp(op, {out, lse});
    return success();
  }
};

/// Drops captures that no region reads and merges those that are the same value.
struct DropUnusedCaptures : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AttentionOp op, PatternRewriter &rewriter) const override {
    size_t count = op.getCaptures().size();
    SmallVector<std::pair<Region *, unsigned>> regions;
    if (!op.getScore().empty())
      regions.emplace_back(&op.getScore(), ScoreArgs::numFixed);
    if (!op.getMask().empty())
      regions.emplace_back(&op.getMask(), MaskArgs::numFixed);

    llvm::BitVector dropped(count);
    llvm::SmallDenseMap<Value, unsigned> first;
    for (auto [index, capture] : llvm::enumerate(op.getCaptures())) {
      auto [it, inserted] = first.try_emplace(capture, index);
      bool unused = llvm::all_of(
          regions, [&, i = index](auto r) { return r.first->getArgument(r.second + i).use_empty(); });
      if (inserted && !unused)
        continue;
      dropped.set(index);
      if (inserted) {
        first.erase(it);
        continue;
      }
      for (auto [region, numFixed] : regions)
        rewriter.replaceAllUsesWith(region->getArgument(numFixed + index),
                                    region->getArgument(numFixed + it->second));
    }
    if (dropped.none())
      return failure();
    rewriter.modifyOpInPlace(op, [&] {
      for (unsigned index = count; index-- > 0;) {
        if (!dropped.test(index))
          continue;
        op.getCapturesMutable().erase(index);
        for (auto [region, numFixed] : regions)
          region->eraseArgument(numFixed + index);
      }
    });
    return success();
  }
};
} // namespace

void AttentionOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<DropIdentityScore, FoldConstantMask, DropUnusedCaptures>(context);
}
