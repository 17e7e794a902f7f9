//===- DenseBias.cpp - a captured tensor with an element for each pair -------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/DenseBias.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/OperationSupport.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace attn;

/// Whether a value of the region is the same for all pairs of a head, and needs no memory.
static bool isOnceAHead(Value value, Region &score) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return argument == score.getArgument(ScoreArgs::batch) || argument == score.getArgument(ScoreArgs::head);
  Operation *op = value.getDefiningOp();
  return op->getParentRegion() == &score && op->getNumRegions() == 0 && isPure(op) &&
         !isa<tensor::ExtractOp>(op) &&
         llvm::all_of(op->getOperands(), [&](Value operand) { return isOnceAHead(operand, score); });
}

static bool isComputedOf(Value value, Value argument) {
  Operation *op = value.getDefiningOp();
  return value == argument || (op && llvm::any_of(op->getOperands(), [&](Value operand) {
                                 return isComputedOf(operand, argument);
                               }));
}

/// Whether two values are computed alike.
static bool isSame(Value x, Value y) {
  auto isSameOperand = [](Value a, Value b) { return success(isSame(a, b)); };
  Operation *a = x.getDefiningOp(), *b = y.getDefiningOp();
  return x == y || (a && b &&
                    OperationEquivalence::isEquivalentTo(a, b, isSameOperand, /*markEquivalent=*/nullptr,
                                                         OperationEquivalence::IgnoreLocations));
}

std::optional<DenseBias> attn::findDenseBias(AttentionOpInterface op, std::string *reason) {
  Region &score = op.getScore();
  if (score.empty())
    return std::nullopt;
  std::optional<DenseBias> found;
  std::string problem;
  score.walk([&](tensor::ExtractOp read) {
    SmallVector<Value> leading(read.getIndices());
    auto tensor = dyn_cast<BlockArgument>(read.getTensor());
    Value query = score.getArgument(ScoreArgs::query), key = score.getArgument(ScoreArgs::key);
    if (!tensor || !llvm::is_contained(leading, query) || !llvm::is_contained(leading, key))
      return;
    unsigned capture = tensor.getArgNumber() - ScoreArgs::numFixed;
    Type element = read.getType();
    bool isOfPairs = leading.pop_back_val() == key && leading.pop_back_val() == query;
    if (isOfPairs && found && found->capture == capture && llvm::equal(found->leading, leading, isSame))
      return;
    auto differs = [&](unsigned argument) {
      return llvm::any_of(leading,
                          [&](Value index) { return isComputedOf(index, score.getArgument(argument)); });
    };
    if (!isOfPairs)
      problem = llvm::formatv("capture {0} is not read at [..., q_idx, kv_idx]", capture);
    else if (found)
      problem = "several are read";
    else if (!element.isF16() && !element.isBF16())
      problem = llvm::formatv("capture {0} is of {1}, not of f16 or bf16", capture, element);
    else if (leading.size() > 2)
      problem = llvm::formatv("capture {0} has more than four dimensions", capture);
    else if (llvm::any_of(leading, [&](Value index) { return !isOnceAHead(index, score); }))
      problem = llvm::formatv("which matrix of capture {0} is read does not follow from batch entry and head",
                              capture);
    else
      found = DenseBias{capture, leading, differs(ScoreArgs::batch), differs(ScoreArgs::head)};
  });
  if (reason)
    *reason = problem;
  return problem.empty() ? found : std::nullopt;
}

BiasPlan attn::describeBias(AttentionOpInterface op, ScheduleAttr schedule) {
  BiasPlan plan;
  std::optional<DenseBias> bias = findDenseBias(op, &plan.reason);
  plan.hasBias = bias || !plan.reason.empty();
  plan.isTiled = bias && schedule.getBiasStages() > 0;
  if (plan.isTiled)
    plan.text =
        llvm::formatv("tiles of capture {0}, in {1} stage{2}, by the tensor memory accelerator",
                      bias->capture, schedule.getBiasStages(), schedule.getBiasStages() == 1 ? "" : "s");
  else
    plan.text = "elements, loaded one by one";
  if (bias && !plan.isTiled)
    plan.reason = "its base and strides may be no multiples of 16 bytes, or keys are computed in parts";
  return plan;
}
