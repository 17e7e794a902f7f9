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

namespace {
/// The arguments of the region that `values` are computed of, or nothing where that takes more than pure
/// operations on indices: memory, or what only some pairs come to.
std::optional<llvm::SmallDenseSet<Value>> findArguments(ValueRange values, Region &score) {
  llvm::SmallDenseSet<Value> arguments, seen;
  SmallVector<Value> open(values);
  while (!open.empty()) {
    Value value = open.pop_back_val();
    if (!seen.insert(value).second)
      continue;
    Operation *op = value.getDefiningOp();
    if (!op) {
      arguments.insert(value);
      continue;
    }
    if (op->getParentRegion() != &score || op->getNumRegions() > 0 || !isPure(op) ||
        isa<tensor::ExtractOp>(op))
      return std::nullopt;
    llvm::append_range(open, op->getOperands());
  }
  return arguments;
}

/// Whether values are computed alike. Each pair is looked at once: what is used twice at each of many levels
/// would be compared without an end.
class Equivalence {
public:
  bool areSame(ValueRange xs, ValueRange ys) {
    return llvm::equal(xs, ys, [&](Value x, Value y) { return isSame(x, y); });
  }

private:
  bool isSame(Value x, Value y) {
    Operation *a = x.getDefiningOp(), *b = y.getDefiningOp();
    if (x == y || !a || !b || cast<OpResult>(x).getResultNumber() != cast<OpResult>(y).getResultNumber())
      return x == y;
    if (auto it = known.find({x, y}); it != known.end())
      return it->second;
    auto isSameOperand = [&](Value l, Value r) { return success(isSame(l, r)); };
    return known[{x, y}] = OperationEquivalence::isEquivalentTo(
               a, b, isSameOperand, /*markEquivalent=*/nullptr, OperationEquivalence::IgnoreLocations);
  }

  llvm::DenseMap<std::pair<Value, Value>, bool> known;
};
} // namespace

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
    if (isOfPairs && found && found->capture == capture && Equivalence().areSame(found->leading, leading))
      return;
    auto arguments = findArguments(leading, score);
    Value batch = score.getArgument(ScoreArgs::batch), head = score.getArgument(ScoreArgs::head);
    if (!isOfPairs)
      problem = llvm::formatv("capture {0} is not read at [..., q_idx, kv_idx]", capture);
    else if (found)
      problem = "several are read";
    else if (!element.isF16() && !element.isBF16())
      problem = llvm::formatv("capture {0} is of {1}, not of f16 or bf16", capture, element);
    else if (leading.size() > 2)
      problem = llvm::formatv("capture {0} has more than four dimensions", capture);
    else if (!arguments || llvm::any_of(*arguments, [&](Value x) { return x != batch && x != head; }))
      problem = llvm::formatv("which matrix of capture {0} is read does not follow from batch entry and head",
                              capture);
    else
      found = DenseBias{capture, leading, arguments->contains(batch), arguments->contains(head)};
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
    plan.reason = "its base and strides may be no multiples of 16 bytes, keys are computed in parts, no tile "
                  "has a place beside the given one, or none is asked for";
  return plan;
}
