//===- Differentiate.cpp - from attention to its gradients ------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Differentiate.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/TypeUtilities.h"
#include "passes/Passes.h"
#include "passes/ScoreGradient.h"

namespace attn {
#define GEN_PASS_DEF_DIFFERENTIATEPASS
#include "passes/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace attn;

static std::string getBackwardName(func::FuncOp func) { return (func.getName() + "_backward").str(); }

static bool hasAttention(func::FuncOp func) {
  return func.walk([](AttentionOp) { return WalkResult::interrupt(); }).wasInterrupted();
}

/// Whether the value is computed from arguments of the function.
static bool dependsOnArguments(Value value) {
  llvm::SetVector<Value> needed;
  needed.insert(value);
  for (size_t i = 0; i < needed.size(); ++i) {
    Operation *op = needed[i].getDefiningOp();
    if (!op)
      return true;
    op->walk([&](Operation *nested) {
      for (Value operand : nested->getOperands())
        if (nested == op || !op->isAncestor(operand.getParentBlock()->getParentOp()))
          needed.insert(operand);
    });
  }
  return false;
}

/// (D1) to (D3): the attention of a function that can be differentiated.
static FailureOr<AttentionOp> findAttention(func::FuncOp func) {
  if (func.isExternal() || !func.getBody().hasOneBlock())
    return func.emitError("cannot differentiate '")
           << func.getName() << "': expected a body of one block [D1]";
  AttentionOp attention;
  for (Operation &op : func.getBody().front()) {
    auto found = dyn_cast<AttentionOp>(op);
    if (found && attention)
      return op.emitError("cannot differentiate '")
             << func.getName() << "': expected one attn.attention, got a second one [D1]";
    if (found)
      attention = found;
    else if (!isPure(&op) && !isa<func::ReturnOp>(op))
      return op.emitError("cannot differentiate '")
             << func.getName() << "': expected nothing but pure operations, got '" << op.getName()
             << "' [D1]";
  }
  if (!attention)
    return func.emitError("cannot differentiate '")
           << func.getName() << "': expected one attn.attention in its body, got none [D1]";

  auto expectArgument = [&](Value operand, const Twine &name, bool mayBeConstant) -> LogicalResult {
    if (isa<BlockArgument>(operand) || (mayBeConstant && !dependsOnArguments(operand)))
      return success();
    return attention.emitError("cannot differentiate '")
           << func.getName() << "': expected " << name
           << " to be an argument of the function, got the result of '" << operand.getDefiningOp()->getName()
           << "' [D2]";
  };
  if (failed(expectArgument(attention.getQuery(), "query", false)) ||
      failed(expectArgument(attention.getKey(), "key", false)) ||
      failed(expectArgument(attention.getValue(), "value", false)))
    return failure();
  for (auto [index, capture] : llvm::enumerate(attention.getCaptures()))
    if (hasGradient(capture.getType()) &&
        failed(expectArgument(capture, "floating capture " + Twine(index), true)))
      return failure();

  Operation *terminator = func.getBody().front().getTerminator();
  unsigned outs = llvm::count(terminator->getOperands(), attention.getOut());
  unsigned lses = llvm::count(terminator->getOperands(), attention.getLse());
  if (outs != 1 || lses > 1 || outs + lses != terminator->getNumOperands())
    return terminator->emitError("cannot differentiate '")
           << func.getName()
           << "': expected it to return out, or out and lse, of its attention and nothing else [D3]";
  return attention;
}

FailureOr<func::FuncOp> attn::buildBackwardFunction(func::FuncOp func) {
  FailureOr<AttentionOp> found = findAttention(func);
  if (failed(found))
    return failure();
  AttentionOp attention = *found;
  std::string name = getBackwardName(func);
  if (SymbolTable::lookupSymbolIn(func->getParentOp(), name))
    return func.emitError("cannot differentiate '")
           << func.getName() << "': there is a '" << name << "' already";

  Block &body = func.getBody().front();
  bool hasLseGradient = llvm::is_contained(body.getTerminator()->getOperands(), attention.getLse());
  Type outType = attention.getOut().getType(), lseType = attention.getLse().getType();
  SmallVector<Type> inputs(func.getArgumentTypes());
  llvm::append_values(inputs, outType, lseType, outType);
  if (hasLseGradient)
    inputs.push_back(lseType);

  // The gradient of a constant has no one to go to.
  SmallVector<Type> resultTypes = {attention.getQuery().getType(), attention.getKey().getType(),
                                   attention.getValue().getType()};
  SmallVector<unsigned> returned = {0, 1, 2};
  for (unsigned capture : attention.getDifferentiableCaptures()) {
    if (isa<BlockArgument>(attention.getCaptures()[capture]))
      returned.push_back(resultTypes.size());
    resultTypes.push_back(attention.getCaptureGradientType(capture));
  }
  SmallVector<Type> returnedTypes =
      llvm::map_to_vector(returned, [&](unsigned number) { return resultTypes[number]; });

  OpBuilder builder(func->getContext());
  builder.setInsertionPointAfter(func);
  Location loc = attention.getLoc();
  auto backwardFunc =
      func::FuncOp::create(builder, func.getLoc(), name, builder.getFunctionType(inputs, returnedTypes));
  backwardFunc.setVisibility(func.getVisibility());
  for (unsigned argument = 0; argument < func.getNumArguments(); ++argument)
    backwardFunc.setArgAttrs(argument, func.getArgAttrDict(argument));
  Block *block = backwardFunc.addEntryBlock();
  for (auto [from, to] : llvm::zip(func.getArguments(), block->getArguments()))
    to.setLoc(from.getLoc());
  builder.setInsertionPointToStart(block);
  IRMapping mapping;
  mapping.map(func.getArguments(), block->getArguments().take_front(func.getNumArguments()));
  for (Operation &op : body.without_terminator())
    if (&op != attention)
      builder.clone(op, mapping);

  auto given = block->getArguments().drop_front(func.getNumArguments());
  auto map = [&](Value value) { return mapping.lookup(value); };
  auto backward = AttentionBackwardOp::create(
      builder, loc, resultTypes[0], resultTypes[1], resultTypes[2], ArrayRef(resultTypes).drop_front(3),
      map(attention.getQuery()), map(attention.getKey()), map(attention.getValue()), /*out=*/given[0],
      /*lse=*/given[1],
      /*d_out=*/given[2], /*d_lse=*/hasLseGradient ? Value(given[3]) : Value(),
      llvm::map_to_vector(attention.getCaptures(), map),
      attention.getBlockLists() ? map(attention.getBlockLists()) : Value(), attention.getScaleAttr(),
      attention.getBlocksAttr(), attention.getTf32());
  IRMapping regions;
  attention.getScore().cloneInto(&backward.getScore(), regions);
  attention.getMask().cloneInto(&backward.getMask(), regions);
  func::ReturnOp::create(builder, loc, llvm::map_to_vector(returned, [&](unsigned i) -> Value {
                           return backward.getResult(i);
                         }));
  // What only returned values or the old attention needed is dead now.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*block)))
    if (isOpTriviallyDead(&op))
      op.erase();

  if (!backward.getScore().empty() && failed(buildScoreGradient(backward))) {
    backwardFunc.erase();
    return failure();
  }
  return backwardFunc;
}

namespace {
struct Differentiate : attn::impl::DifferentiatePassBase<Differentiate> {
  using DifferentiatePassBase::DifferentiatePassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    WalkResult filled = module.walk([](AttentionBackwardOp op) {
      bool lacksGradient = !op.getScore().empty() && op.getGradient().empty();
      return lacksGradient && failed(buildScoreGradient(op)) ? WalkResult::interrupt()
                                                             : WalkResult::advance();
    });
    if (filled.wasInterrupted())
      return signalPassFailure();

    SmallVector<func::FuncOp> chosen;
    for (const std::string &name : functions) {
      auto func = dyn_cast_if_present<func::FuncOp>(SymbolTable::lookupSymbolIn(module, name));
      if (!func) {
        module.emitError("expected a function '") << name << "' to differentiate";
        return signalPassFailure();
      }
      chosen.push_back(func);
    }
    if (functions.empty())
      for (func::FuncOp func : module.getOps<func::FuncOp>())
        if (func.isPublic() && hasAttention(func) &&
            !SymbolTable::lookupSymbolIn(module, getBackwardName(func)))
          chosen.push_back(func);
    for (func::FuncOp func : chosen)
      if (failed(buildBackwardFunction(func)))
        return signalPassFailure();
  }
};
} // namespace
