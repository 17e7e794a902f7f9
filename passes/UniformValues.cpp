//===- UniformValues.cpp - mask values that are one for a whole block -------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/UniformValues.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Index/IR/IndexOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;
using namespace attn;

UniformValues::UniformValues(OpBuilder &builder, Block &mask, Block &ranges)
    : builder(builder), mask(mask), ranges(ranges) {
  mapping.map(mask.getArgument(MaskArgs::batch), ranges.getArgument(RangesArgs::batch));
  mapping.map(mask.getArgument(MaskArgs::head), ranges.getArgument(RangesArgs::head));
  mapping.map(mask.getArguments().drop_front(MaskArgs::numFixed),
              ranges.getArguments().drop_front(RangesArgs::numFixed));
}

//===----------------------------------------------------------------------===//
// Which values are uniform
//===----------------------------------------------------------------------===//

UniformValues::Facts UniformValues::getFacts(Value value) {
  if (Operation *op = value.getDefiningOp())
    return getFacts(op);
  bool isIndex = value == mask.getArgument(MaskArgs::query) || value == mask.getArgument(MaskArgs::key);
  return {!isIndex, /*usesLength=*/false, /*mayFail=*/false, /*canHoist=*/true};
}

UniformValues::Facts UniformValues::getFacts(Operation *op) {
  auto it = facts.find(op);
  if (it != facts.end())
    return it->second;
  Facts computed = computeFacts(op);
  facts.insert({op, computed});
  return computed;
}

UniformValues::Facts UniformValues::computeFacts(Operation *op) {
  StringRef dialect = op->getName().getDialectNamespace();
  bool isLength = isa<QLenOp, KvLenOp>(op), isRead = isa<tensor::ExtractOp>(op);
  Facts result;
  result.isUniform = isLength || isRead || isa<scf::IfOp, scf::YieldOp>(op) || dialect == "arith" ||
                     dialect == "math" || dialect == "index";
  result.usesLength = isLength;
  result.mayFail = isRead || !isSpeculatable(op);
  result.canHoist = true;

  for (Region &region : op->getRegions()) {
    for (Operation &nested : region.getOps()) {
      Facts inner = getFacts(&nested);
      result.isUniform &= inner.isUniform;
      result.usesLength |= inner.usesLength;
      result.mayFail |= inner.mayFail;
    }
  }
  llvm::SetVector<Value> used(op->operand_begin(), op->operand_end());
  getUsedValuesDefinedAbove(op->getRegions(), used);
  for (Value value : used) {
    Facts operand = getFacts(value);
    result.isUniform &= operand.isUniform;
    result.usesLength |= operand.usesLength;
    result.canHoist &= operand.canHoist;
  }
  // A read out of bounds or a division by zero must not run where the mask would not run it: outside of the
  // condition that it stands under, or where there is no pair at all because a length is 0.
  if (result.mayFail && (result.usesLength || op->getBlock() != &mask))
    result.canHoist = false;
  result.canHoist &= !dependsOnIndexWidth(op);
  return result;
}

static bool fits32(const ConstantIntRanges &range) {
  return range.smin().isSignedIntN(32) && range.smax().isSignedIntN(32);
}

ConstantIntRanges UniformValues::getUsualRange(Value value) {
  auto it = usualRanges.find(value);
  if (it != usualRanges.end())
    return it->second;

  unsigned width = ConstantIntRanges::getStorageBitwidth(value.getType());
  ConstantIntRanges range = ConstantIntRanges::maxRange(width);
  if (width > 21) {
    bool isNonNegative = isa<BlockArgument>(value) || isa_and_present<QLenOp, KvLenOp>(value.getDefiningOp());
    APInt limit(width, 1 << 20);
    range = ConstantIntRanges::fromSigned(isNonNegative ? APInt(width, 0) : -limit, limit);
  }
  if (auto inferable = dyn_cast_or_null<InferIntRangeInterface>(value.getDefiningOp());
      inferable &&
      llvm::all_of(inferable->getOperandTypes(), [](Type type) { return type.isIntOrIndex(); })) {
    SmallVector<ConstantIntRanges> operands =
        llvm::map_to_vector(inferable->getOperands(), [&](Value operand) { return getUsualRange(operand); });
    inferable.inferResultRanges(operands, [&](Value result, const ConstantIntRanges &inferred) {
      if (result == value)
        range = inferred;
    });
  }
  usualRanges.insert({value, range});
  return range;
}

bool UniformValues::dependsOnIndexWidth(Operation *op) {
  auto isIndex = [](Type type) { return type.isIndex(); };
  if (op->getNumResults() != 1 || op->getNumOperands() == 0 || !llvm::all_of(op->getOperandTypes(), isIndex))
    return false;
  if (isa<arith::AddIOp, arith::SubIOp, arith::MulIOp, arith::ShLIOp, index::AddOp, index::SubOp,
          index::MulOp, index::ShlOp>(op))
    return !fits32(getUsualRange(op->getResult(0)));
  if (isa<arith::DivUIOp, arith::RemUIOp, arith::ShRUIOp, arith::CeilDivUIOp, arith::IndexCastUIOp,
          index::DivUOp, index::RemUOp, index::ShrUOp, index::CeilDivUOp, index::CastUOp>(op))
    return llvm::any_of(op->getOperands(), [&](Value operand) {
      ConstantIntRanges range = getUsualRange(operand);
      return range.smin().isNegative() || !fits32(range);
    });
  return false;
}

//===----------------------------------------------------------------------===//
// Clones and their ranges
//===----------------------------------------------------------------------===//

Value UniformValues::getOrClone(Value value) {
  assert(isUniform(value) && "a value that differs within a block");
  if (Value mapped = mapping.lookupOrNull(value))
    return mapped;
  Operation *op = value.getDefiningOp();
  if (isa<QLenOp, KvLenOp>(op) && op->getOperand(0) == mask.getArgument(MaskArgs::batch))
    return isa<QLenOp>(op) ? getQueryLength() : getKeyLength();

  llvm::SetVector<Value> used(op->operand_begin(), op->operand_end());
  getUsedValuesDefinedAbove(op->getRegions(), used);
  for (Value operand : used)
    mapping.map(operand, getOrClone(operand));
  Operation *clone = builder.clone(*op, mapping);
  SmallVector<Value> folded;
  if (succeeded(builder.tryFold(clone, folded)) && !folded.empty())
    mapping.map(op->getResults(), folded);
  return mapping.lookup(value);
}

IntegerValueRange UniformValues::getRange(Value value) {
  auto it = valueRanges.find(value);
  if (it != valueRanges.end())
    return it->second;

  Operation *op = value.getDefiningOp();
  IntegerValueRange range = IntegerValueRange::getMaxRange(value);
  auto argument = dyn_cast<BlockArgument>(value);
  if ((argument && argument.getArgNumber() < RangesArgs::numFixed) || isa_and_present<QLenOp, KvLenOp>(op)) {
    // Lengths, and with them the bounds of a block, are below 2^31; so are batch entries and heads.
    unsigned width = ConstantIntRanges::getStorageBitwidth(value.getType());
    range = ConstantIntRanges::fromUnsigned(APInt(width, 0), APInt::getSignedMaxValue(32).zext(width));
  } else if (auto inferable = dyn_cast_or_null<InferIntRangeInterface>(op)) {
    SmallVector<IntegerValueRange> operands =
        llvm::map_to_vector(op->getOperands(), [&](Value operand) { return getRange(operand); });
    inferable.inferResultRangesFromOptional(operands, [&](Value result, const IntegerValueRange &inferred) {
      if (result == value && !inferred.isUninitialized())
        range = inferred;
    });
  }
  valueRanges.insert({value, range});
  return range;
}
