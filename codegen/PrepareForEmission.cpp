//===- PrepareForEmission.cpp - kernels that print operation by operation ---===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "codegen/CodegenPasses.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Index/IR/IndexOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;
using namespace attn;

namespace attn {
#define GEN_PASS_DEF_PREPAREFOREMISSIONPASS
#include "codegen/CodegenPasses.h.inc"
} // namespace attn

//===----------------------------------------------------------------------===//
// Operations of the index dialect
//===----------------------------------------------------------------------===//

namespace {
template <typename IndexOp, typename ArithOp>
struct ConvertBinary : OpRewritePattern<IndexOp> {
  using OpRewritePattern<IndexOp>::OpRewritePattern;
  LogicalResult matchAndRewrite(IndexOp op, PatternRewriter &rewriter) const override {
    rewriter.replaceOpWithNewOp<ArithOp>(op, op.getLhs(), op.getRhs());
    return success();
  }
};

template <typename IndexOp, typename ArithOp>
struct ConvertCast : OpRewritePattern<IndexOp> {
  using OpRewritePattern<IndexOp>::OpRewritePattern;
  LogicalResult matchAndRewrite(IndexOp op, PatternRewriter &rewriter) const override {
    rewriter.replaceOpWithNewOp<ArithOp>(op, op.getType(), op.getInput());
    return success();
  }
};

template <typename IndexOp>
struct ConvertConstant : OpRewritePattern<IndexOp> {
  using OpRewritePattern<IndexOp>::OpRewritePattern;
  LogicalResult matchAndRewrite(IndexOp op, PatternRewriter &rewriter) const override {
    rewriter.replaceOpWithNewOp<arith::ConstantOp>(op, op.getType(), op.getValueAttr());
    return success();
  }
};

struct ConvertCompare : OpRewritePattern<index::CmpOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(index::CmpOp op, PatternRewriter &rewriter) const override {
    std::optional<arith::CmpIPredicate> predicate =
        arith::symbolizeCmpIPredicate(index::stringifyIndexCmpPredicate(op.getPred()));
    assert(predicate && "the index dialect has the predicates of arith");
    rewriter.replaceOpWithNewOp<arith::CmpIOp>(op, *predicate, op.getLhs(), op.getRhs());
    return success();
  }
};
} // namespace

static void addIndexPatterns(RewritePatternSet &patterns) {
  patterns
      .add<ConvertBinary<index::AddOp, arith::AddIOp>, ConvertBinary<index::SubOp, arith::SubIOp>,
           ConvertBinary<index::MulOp, arith::MulIOp>, ConvertBinary<index::DivSOp, arith::DivSIOp>,
           ConvertBinary<index::DivUOp, arith::DivUIOp>, ConvertBinary<index::RemSOp, arith::RemSIOp>,
           ConvertBinary<index::RemUOp, arith::RemUIOp>, ConvertBinary<index::CeilDivSOp, arith::CeilDivSIOp>,
           ConvertBinary<index::CeilDivUOp, arith::CeilDivUIOp>,
           ConvertBinary<index::FloorDivSOp, arith::FloorDivSIOp>,
           ConvertBinary<index::MaxSOp, arith::MaxSIOp>, ConvertBinary<index::MaxUOp, arith::MaxUIOp>,
           ConvertBinary<index::MinSOp, arith::MinSIOp>, ConvertBinary<index::MinUOp, arith::MinUIOp>,
           ConvertBinary<index::ShlOp, arith::ShLIOp>, ConvertBinary<index::ShrSOp, arith::ShRSIOp>,
           ConvertBinary<index::ShrUOp, arith::ShRUIOp>, ConvertBinary<index::AndOp, arith::AndIOp>,
           ConvertBinary<index::OrOp, arith::OrIOp>, ConvertBinary<index::XOrOp, arith::XOrIOp>,
           ConvertCast<index::CastSOp, arith::IndexCastOp>, ConvertCast<index::CastUOp, arith::IndexCastUIOp>,
           ConvertConstant<index::ConstantOp>, ConvertConstant<index::BoolConstantOp>, ConvertCompare>(
          patterns.getContext());
}

//===----------------------------------------------------------------------===//
// Fused multiplication and addition
//===----------------------------------------------------------------------===//

static bool allowsContraction(arith::ArithFastMathInterface op) {
  return arith::bitEnumContainsAll(op.getFastMathFlagsAttr().getValue(), arith::FastMathFlags::contract);
}

/// The multiplication that `value` is, if it may become a part of an operation that allows it.
static arith::MulFOp getContractible(Value value) {
  auto product = value.getDefiningOp<arith::MulFOp>();
  return product && product->hasOneUse() && allowsContraction(product) && product.getType().isF32()
             ? product
             : arith::MulFOp();
}

namespace {
struct ContractAdd : OpRewritePattern<arith::AddFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::AddFOp op, PatternRewriter &rewriter) const override {
    if (!allowsContraction(op))
      return failure();
    for (auto [factors, addend] : {std::pair(op.getLhs(), op.getRhs()), std::pair(op.getRhs(), op.getLhs())})
      if (auto product = getContractible(factors)) {
        rewriter.replaceOpWithNewOp<math::FmaOp>(op, product.getLhs(), product.getRhs(), addend,
                                                 op.getFastmath());
        return success();
      }
    return failure();
  }
};

struct ContractSub : OpRewritePattern<arith::SubFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::SubFOp op, PatternRewriter &rewriter) const override {
    if (!allowsContraction(op))
      return failure();
    if (auto product = getContractible(op.getLhs())) { // a b - c
      Value negated = arith::NegFOp::create(rewriter, op.getLoc(), op.getRhs());
      rewriter.replaceOpWithNewOp<math::FmaOp>(op, product.getLhs(), product.getRhs(), negated,
                                               op.getFastmath());
      return success();
    }
    if (auto product = getContractible(op.getRhs())) { // c - a b
      Value negated = arith::NegFOp::create(rewriter, op.getLoc(), product.getLhs());
      rewriter.replaceOpWithNewOp<math::FmaOp>(op, negated, product.getRhs(), op.getLhs(), op.getFastmath());
      return success();
    }
    return failure();
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {
struct PrepareForEmission : attn::impl::PrepareForEmissionPassBase<PrepareForEmission> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    addIndexPatterns(patterns);
    patterns.add<ContractAdd, ContractSub>(&getContext());
    FrozenRewritePatternSet frozen(std::move(patterns));
    GreedyRewriteConfig config;
    // Folding would merge constants and lose the names of those that have one.
    config.enableFolding(false).enableConstantCSE(false);
    for (auto module : getOperation().getOps<gpu::GPUModuleOp>())
      if (failed(applyPatternsGreedily(module, frozen, config)))
        return signalPassFailure();
  }
};
} // namespace

void attn::buildEmissionPipeline(OpPassManager &pm) {
  pm.addPass(createPlaceSharedPass());
  pm.addPass(createPrepareForEmissionPass());
  pm.addPass(createVerifyEmittablePass());
}
