//===- ScoreGradient.cpp - reverse mode on a score region -------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The gradient region begins with a copy of the score region; behind it stand, in reverse order, the
// derivatives of its operations. An `scf.if` is mirrored by another one under the same condition: each branch
// recomputes what it needs, and yields the gradients of the values from outside that it reads. What no
// gradient needs is cleaned away at the end.
//
// *Active* values are those that depend, through floating operations, on the score's argument or on a
// floating capture. Bits of an active value are active too, so that arithmetic on them is refused where a
// gradient would have to pass.
//
//===----------------------------------------------------------------------===//

#include "passes/ScoreGradient.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Transforms/CSE.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "passes/Cotangents.h"
#include "passes/RegionUtils.h"

using namespace mlir;
using namespace attn;

namespace {
class ScoreDifferentiator {
public:
  explicit ScoreDifferentiator(AttentionBackwardOp op)
      : op(op), builder(op.getContext()), compute(op.getComputeType()) {}

  LogicalResult run();

private:
  void markActive(Operation &op);
  LogicalResult sweep(ArrayRef<Operation *> primals, Cotangents &cotangents);
  LogicalResult differentiate(Operation *primal, Cotangents &cotangents);
  LogicalResult differentiateIf(scf::IfOp primal, Cotangents &cotangents);
  LogicalResult differentiateBranch(Region &primal, Region &mirror,
                                    ArrayRef<std::pair<unsigned, Cotangent>> seeds, Cotangents &outer);
  void accumulateRead(tensor::ExtractOp read, const Cotangent &cotangent);
  SmallVector<Operation *> cloneBody(Block &block, IRMapping &mapping);

  AttentionBackwardOp op;
  OpBuilder builder;
  FloatType compute;
  DenseSet<Value> active;
};
} // namespace

//===----------------------------------------------------------------------===//
// Activity
//===----------------------------------------------------------------------===//

/// Clones the operations of a block to where the builder is and marks which are active.
SmallVector<Operation *> ScoreDifferentiator::cloneBody(Block &block, IRMapping &mapping) {
  SmallVector<Operation *> clones;
  for (Operation &nested : block.without_terminator()) {
    clones.push_back(builder.clone(nested, mapping));
    markActive(*clones.back());
  }
  return clones;
}

void ScoreDifferentiator::markActive(Operation &op) {
  if (auto ifOp = dyn_cast<scf::IfOp>(op)) {
    for (Region &region : ifOp->getRegions()) {
      if (region.empty())
        continue;
      for (Operation &nested : region.front())
        markActive(nested);
      for (auto [result, yielded] :
           llvm::zip(ifOp.getResults(), region.front().getTerminator()->getOperands()))
        if (active.contains(yielded))
          active.insert(result);
    }
    return;
  }
  bool isRead = isa<tensor::ExtractOp>(op) && isa<FloatType>(op.getResult(0).getType());
  bool isActive = llvm::any_of(op.getOperands(), [&](Value operand) { return active.contains(operand); });
  if (!isRead && (!isActive || isPiecewiseConstant(&op)))
    return;
  for (Value result : op.getResults())
    if (!result.getType().isInteger(1))
      active.insert(result);
}

//===----------------------------------------------------------------------===//
// The reverse sweep
//===----------------------------------------------------------------------===//

LogicalResult ScoreDifferentiator::sweep(ArrayRef<Operation *> primals, Cotangents &cotangents) {
  for (Operation *primal : llvm::reverse(primals))
    if (failed(differentiate(primal, cotangents)))
      return failure();
  return success();
}

LogicalResult ScoreDifferentiator::differentiate(Operation *primal, Cotangents &cotangents) {
  if (auto ifOp = dyn_cast<scf::IfOp>(primal))
    return differentiateIf(ifOp, cotangents);
  for (OpResult result : primal->getResults()) {
    auto it = cotangents.find(result);
    if (it == cotangents.end())
      continue;
    Cotangent cotangent = it->second;
    if (auto read = dyn_cast<tensor::ExtractOp>(primal)) {
      accumulateRead(read, cotangent);
      continue;
    }
    DerivativeBuilder rule(builder, result, cotangent, active, compute, cotangents);
    // A rule has no say over integers: these are active only where they are bits of an active value.
    bool usesBits = llvm::any_of(primal->getOperands(), [&](Value operand) {
      return active.contains(operand) && !isa<FloatType>(operand.getType());
    });
    if (usesBits || failed(applyDerivativeRule(primal, rule)))
      return primal->emitOpError(
          "has no derivative; write the score without it, or a gradient region by hand");
  }
  return success();
}

void ScoreDifferentiator::accumulateRead(tensor::ExtractOp read, const Cotangent &cotangent) {
  Location loc = read.getLoc();
  Value gradient = convertFloat(builder, loc, materialize(builder, loc, cotangent), compute);
  AccumulateGradientOp::create(builder, loc, gradient, read.getTensor(), read.getIndices());
}

/// Differentiates one branch inside its mirror and leaves the gradients of values from outside in `outer`.
LogicalResult ScoreDifferentiator::differentiateBranch(Region &primal, Region &mirror,
                                                       ArrayRef<std::pair<unsigned, Cotangent>> seeds,
                                                       Cotangents &outer) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(mirror.front().getTerminator());
  IRMapping mapping;
  SmallVector<Operation *> clones = cloneBody(primal.front(), mapping);
  Cotangents cotangents;
  for (auto &[number, seed] : seeds) {
    Value yielded = mapping.lookupOrDefault(primal.front().getTerminator()->getOperand(number));
    if (active.contains(yielded))
      accumulate(builder, yielded.getLoc(), cotangents, yielded, seed);
  }
  if (failed(sweep(clones, cotangents)))
    return failure();
  for (auto &[value, cotangent] : cotangents)
    if (!mirror.isAncestor(value.getParentRegion()))
      outer.insert({value, cotangent});
  return success();
}

LogicalResult ScoreDifferentiator::differentiateIf(scf::IfOp primal, Cotangents &cotangents) {
  SmallVector<std::pair<unsigned, Cotangent>> seeds;
  for (OpResult result : primal.getResults())
    if (auto it = cotangents.find(result); it != cotangents.end())
      seeds.emplace_back(result.getResultNumber(), it->second);
  if (seeds.empty())
    return success();

  // Which gradients come out is known once both branches are built: build them into an operation without
  // results first.
  Location loc = primal.getLoc();
  auto draft = scf::IfOp::create(builder, loc, primal.getCondition(), /*withElseRegion=*/true);
  Region *draftRegions[] = {&draft.getThenRegion(), &draft.getElseRegion()};
  Region *primalRegions[] = {&primal.getThenRegion(), &primal.getElseRegion()};
  Cotangents outer[2];
  for (unsigned branch : {0, 1})
    if (failed(differentiateBranch(*primalRegions[branch], *draftRegions[branch], seeds, outer[branch])))
      return failure();

  SmallVector<Value> values;
  for (Cotangents &gradients : outer)
    for (auto &entry : gradients)
      if (!llvm::is_contained(values, entry.first))
        values.push_back(entry.first);

  // A gradient counts where its guards hold, and in no other branch. What both branches say of that becomes a
  // guard of the result; the rest is yielded beside it as one more result.
  struct Outgoing {
    Value value;
    SmallVector<Guard, 2> guards;
    bool yieldsGuard;
  };
  SmallVector<Outgoing> outgoing;
  SmallVector<Type> types;
  for (Value value : values) {
    Outgoing entry = {value, {}, false};
    auto thenIt = outer[0].find(value), elseIt = outer[1].find(value);
    bool inThen = thenIt != outer[0].end(), inElse = elseIt != outer[1].end();
    ArrayRef<Guard> guards = inThen ? thenIt->second.guards : elseIt->second.guards;
    size_t hoisted = 0;
    auto isOutside = [&](Guard guard) {
      return !draft->isAncestor(guard.condition.getParentBlock()->getParentOp());
    };
    while (hoisted < guards.size() && isOutside(guards[hoisted]))
      ++hoisted;
    if (inThen && inElse)
      hoisted = std::min(hoisted, countCommonGuards(guards, elseIt->second.guards));
    entry.guards.append(guards.begin(), guards.begin() + hoisted);
    bool hasInner = guards.size() > hoisted || (inThen && inElse && elseIt->second.guards.size() > hoisted);
    entry.yieldsGuard = hasInner;
    if (!hasInner && inThen != inElse)
      entry.guards.push_back({primal.getCondition(), inThen});
    types.push_back(getGradientType(value.getType(), compute));
    if (entry.yieldsGuard)
      types.push_back(builder.getI1Type());
    outgoing.push_back(entry);
  }

  auto mirror = scf::IfOp::create(builder, loc, types, primal.getCondition());
  Region *mirrorRegions[] = {&mirror.getThenRegion(), &mirror.getElseRegion()};
  for (unsigned branch : {0, 1}) {
    mirrorRegions[branch]->takeBody(*draftRegions[branch]);
    OpBuilder::InsertionGuard guard(builder);
    Operation *terminator = mirrorRegions[branch]->front().getTerminator();
    builder.setInsertionPoint(terminator);
    SmallVector<Value> yielded;
    for (Outgoing &entry : outgoing) {
      auto it = outer[branch].find(entry.value);
      bool isHere = it != outer[branch].end();
      Type type = getGradientType(entry.value.getType(), compute);
      yielded.push_back(isHere ? it->second.value
                               : arith::ConstantOp::create(builder, loc, builder.getFloatAttr(type, 0.0)));
      if (!entry.yieldsGuard)
        continue;
      yielded.push_back(
          isHere ? conjunction(builder, loc, ArrayRef(it->second.guards).drop_front(entry.guards.size()))
                 : arith::ConstantOp::create(builder, loc, builder.getBoolAttr(false)));
    }
    scf::YieldOp::create(builder, loc, yielded);
    terminator->erase();
  }
  draft.erase();

  unsigned number = 0;
  for (Outgoing &entry : outgoing) {
    Value gradient = mirror.getResult(number++);
    if (entry.yieldsGuard)
      entry.guards.push_back({mirror.getResult(number++), true});
    accumulate(builder, loc, cotangents, entry.value, {gradient, entry.guards});
  }
  return success();
}

//===----------------------------------------------------------------------===//
// The region
//===----------------------------------------------------------------------===//

namespace {
/// a + -b is a - b, exactly.
struct SubtractNegated : OpRewritePattern<arith::AddFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::AddFOp op, PatternRewriter &rewriter) const override {
    Value lhs = op.getLhs(), rhs = op.getRhs();
    if (lhs.getDefiningOp<arith::NegFOp>())
      std::swap(lhs, rhs);
    auto negated = rhs.getDefiningOp<arith::NegFOp>();
    if (!negated)
      return failure();
    rewriter.replaceOpWithNewOp<arith::SubFOp>(op, lhs, negated.getOperand(), op.getFastmath());
    return success();
  }
};
} // namespace

/// Folds, simplifies and merges what the sweep has built.
static void cleanGradient(AttentionBackwardOp op) {
  MLIRContext *context = op.getContext();
  RewritePatternSet patterns(context);
  patterns.add<SubtractNegated>(context);
  for (Dialect *dialect : context->getLoadedDialects())
    if (llvm::is_contained({"arith", "math", "scf", "tensor"}, dialect->getNamespace()))
      dialect->getCanonicalizationPatterns(patterns);
  for (RegisteredOperationName name : context->getRegisteredOperations())
    if (llvm::is_contained({"arith", "math", "scf", "tensor"}, name.getDialectNamespace()))
      name.getCanonicalizationPatterns(patterns, context);
  FrozenRewritePatternSet frozen(std::move(patterns));

  // The rewrites see nothing but the gradient: the other regions stay as they were written.
  Region score, mask;
  score.takeBody(op.getScore());
  mask.takeBody(op.getMask());
  IRRewriter rewriter(context);
  for (bool changed = true; changed;) {
    (void)applyPatternsGreedily(op.getGradient(), frozen);
    DominanceInfo dominance(op);
    eliminateCommonSubExpressions(rewriter, dominance, op, &changed);
  }
  op.getScore().takeBody(score);
  op.getMask().takeBody(mask);
}

LogicalResult ScoreDifferentiator::run() {
  Block &score = op.getScore().front();
  Location loc = op.getLoc();
  SmallVector<Type> types = {compute};
  llvm::append_range(types, score.getArgumentTypes());
  Block *block = builder.createBlock(&op.getGradient(), {}, types, SmallVector<Location>(types.size(), loc));

  IRMapping mapping;
  mapping.map(score.getArguments(), block->getArguments().drop_front());
  Value argument = block->getArgument(GradientArgs::score);
  auto captures = block->getArguments().drop_front(GradientArgs::numFixed);
  active.insert(argument);
  for (Value capture : captures)
    if (isa<FloatType>(capture.getType()))
      active.insert(capture);

  SmallVector<Operation *> primals = cloneBody(score, mapping);
  Cotangents cotangents;
  if (Value yielded = mapping.lookup(cast<YieldOp>(score.getTerminator()).getValue());
      active.contains(yielded))
    cotangents.insert({yielded, {block->getArgument(GradientArgs::cotangent), {}}});
  if (failed(sweep(primals, cotangents))) {
    op.getGradient().dropAllReferences();
    op.getGradient().getBlocks().clear();
    return failure();
  }

  auto take = [&](Value value) -> Value {
    auto it = cotangents.find(value);
    if (it == cotangents.end())
      return {};
    return convertFloat(builder, loc, materialize(builder, loc, it->second), compute);
  };
  for (Value capture : captures)
    if (Value gradient = isa<FloatType>(capture.getType()) ? take(capture) : Value())
      AccumulateGradientOp::create(builder, loc, gradient, capture, ValueRange());
  Value gradient = take(argument);
  if (!gradient)
    gradient = arith::ConstantOp::create(builder, loc, builder.getFloatAttr(compute, 0.0));
  YieldOp::create(builder, loc, gradient);
  cleanGradient(op);
  return success();
}

LogicalResult attn::buildScoreGradient(AttentionBackwardOp op) {
  assert(!op.getScore().empty() && op.getGradient().empty() && "expected a score without gradient");
  if (failed(verifyInlinable(op)))
    return failure();
  return ScoreDifferentiator(op).run();
}
