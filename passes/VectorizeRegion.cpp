//===- VectorizeRegion.cpp - evaluates a region for a vector of pairs at once ===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/VectorizeRegion.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/APInt.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;
using namespace attn;

static bool isVarying(Value value) { return isa<VectorType>(value.getType()); }

/// The vector type that holds a varying value of `scalar` type.
static VectorType getVaryingType(Type scalar, int64_t lanes) {
  if (isa<IndexType>(scalar))
    scalar = IntegerType::get(scalar.getContext(), 32);
  return VectorType::get({lanes}, scalar);
}

RegionVectorizer::RegionVectorizer(Region &region, const RegionContext &context, int64_t lanes,
                                   bool alwaysSpeculative)
    : region(region), context(context), lanes(lanes), speculative(alwaysSpeculative) {
  unsigned numFixed = region.getNumArguments() - context.captures.size();
  for (auto [index, capture] : llvm::enumerate(context.captures))
    values[region.getArgument(numFixed + index)] = capture;
}

Value RegionVectorizer::broadcast(ImplicitLocOpBuilder &builder, Value value) {
  if (isVarying(value))
    return value;
  if (isa<IndexType>(value.getType()))
    value = arith::IndexCastOp::create(builder, builder.getI32Type(), value);
  return vector::BroadcastOp::create(builder, VectorType::get({lanes}, value.getType()), value);
}

Value RegionVectorizer::lookup(Value value) const {
  Value known = values.lookup(value);
  assert(known && "operand evaluated before its definition");
  return known;
}

Value RegionVectorizer::lookupVector(ImplicitLocOpBuilder &builder, Value value) {
  return broadcast(builder, lookup(value));
}

//===----------------------------------------------------------------------===//
// Levels
//===----------------------------------------------------------------------===//

/// Whether `op` can be evaluated now: everything that it and the operations nested in it read from outside is
/// known, and none of them accumulates a gradient.
bool RegionVectorizer::isKnown(Operation *op) const {
  llvm::SetVector<Value> used(op->operand_begin(), op->operand_end());
  getUsedValuesDefinedAbove(op->getRegions(), used);
  return llvm::all_of(used, [&](Value value) { return values.contains(value); }) &&
         !op->walk([](AccumulateGradientOp) { return WalkResult::interrupt(); }).wasInterrupted();
}

void RegionVectorizer::advance(ImplicitLocOpBuilder &builder) {
  // What is hoisted here is evaluated even where the innermost loop does not run.
  llvm::SaveAndRestore hoisting(speculative, true);
  for (Operation &op : region.front().without_terminator())
    if (!done.contains(&op) && isKnown(&op)) {
      evaluate(builder, &op);
      done.insert(&op);
    }
}

SmallVector<Value> RegionVectorizer::finish(ImplicitLocOpBuilder &builder) {
  llvm::DenseMap<Value, Value> hoisted = values;
  for (Operation &op : region.front().without_terminator())
    if (!done.contains(&op))
      evaluate(builder, &op);
  SmallVector<Value> results = llvm::map_to_vector(region.front().getTerminator()->getOperands(),
                                                   [&](Value value) { return lookup(value); });
  values = std::move(hoisted);
  return results;
}

Value RegionVectorizer::finishVector(ImplicitLocOpBuilder &builder) {
  SmallVector<Value> results = finish(builder);
  assert(results.size() == 1 && "expected a region of one result");
  return broadcast(builder, results.front());
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

void RegionVectorizer::evaluate(ImplicitLocOpBuilder &builder, Operation *op) {
  builder.setLoc(op->getLoc());
  if (auto length = dyn_cast<QLenOp>(op)) {
    values[length] = context.qLen;
    return;
  }
  if (auto length = dyn_cast<KvLenOp>(op)) {
    values[length] = context.kvLen;
    return;
  }
  if (auto extract = dyn_cast<tensor::ExtractOp>(op))
    return evaluateExtract(builder, extract);
  if (auto branch = dyn_cast<scf::IfOp>(op))
    return evaluateIf(builder, branch);
  if (auto gradient = dyn_cast<AccumulateGradientOp>(op))
    return evaluateAccumulate(builder, gradient);
  evaluateElementwise(builder, op);
}

static bool isIntegerDivision(Operation *op) {
  return isa<arith::DivSIOp, arith::DivUIOp, arith::CeilDivSIOp, arith::CeilDivUIOp, arith::FloorDivSIOp,
             arith::RemSIOp, arith::RemUIOp>(op);
}

/// The divisor of a division whose result is perhaps not wanted, with 1 in place of what would trap: 0, and
/// -1 under the least integer.
static Value makeHarmless(ImplicitLocOpBuilder &builder, Operation *op, Value dividend, Value divisor) {
  Type type = divisor.getType(), element = getElementTypeOrSelf(type);
  auto splat = [&](int64_t number) -> Value {
    Attribute value = builder.getIntegerAttr(element, number);
    if (auto vector = dyn_cast<VectorType>(type))
      value = DenseElementsAttr::get(vector, value);
    return arith::ConstantOp::create(builder, cast<TypedAttr>(value));
  };
  auto equals = [&](Value value, int64_t number) -> Value {
    return arith::CmpIOp::create(builder, arith::CmpIPredicate::eq, value, splat(number));
  };
  APInt constant;
  bool isConstant = matchPattern(divisor, m_ConstantInt(&constant));
  Value traps;
  if (!isConstant || constant.isZero())
    traps = equals(divisor, 0);
  if (isa<arith::DivSIOp, arith::CeilDivSIOp, arith::FloorDivSIOp, arith::RemSIOp>(op) &&
      (!isConstant || constant.isAllOnes())) {
    unsigned width =
        element.isIndex() ? IndexType::kInternalStorageBitWidth : element.getIntOrFloatBitWidth();
    int64_t least = APInt::getSignedMinValue(width).getSExtValue();
    Value overflows = arith::AndIOp::create(builder, equals(divisor, -1), equals(dividend, least));
    traps = traps ? arith::OrIOp::create(builder, traps, overflows).getResult() : overflows;
  }
  return traps ? arith::SelectOp::create(builder, traps, splat(1), divisor).getResult() : divisor;
}

void RegionVectorizer::evaluateElementwise(ImplicitLocOpBuilder &builder, Operation *op) {
  bool varying = llvm::any_of(op->getOperands(), [&](Value operand) { return isVarying(lookup(operand)); });

  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(varying ? lookupVector(builder, operand) : lookup(operand));
  if (speculative && isIntegerDivision(op))
    operands[1] = makeHarmless(builder, op, operands[0], operands[1]);

  if (!varying) {
    IRMapping mapping;
    mapping.map(op->getOperands(), operands);
    Operation *copy = builder.clone(*op, mapping);
    for (auto [result, value] : llvm::zip(op->getResults(), copy->getResults()))
      values[result] = value;
    return;
  }

  SmallVector<Type> types = llvm::map_to_vector(
      op->getResultTypes(), [&](Type type) -> Type { return getVaryingType(type, lanes); });
  // Varying indices are i32 already.
  if (isa<arith::IndexCastOp>(op)) {
    values[op->getResult(0)] = operands[0];
    return;
  }
  OperationState state(op->getLoc(), op->getName(), operands, types);
  state.propertiesAttr = op->getPropertiesAsAttribute();
  state.attributes = op->getDiscardableAttrDictionary();
  Operation *vectorized = builder.create(state);
  for (auto [result, value] : llvm::zip(op->getResults(), vectorized->getResults()))
    values[result] = value;
}

//===----------------------------------------------------------------------===//
// Reads of captures
//===----------------------------------------------------------------------===//

/// `index` clamped to [0, size), so that a read whose value is not wanted is harmless.
Value RegionVectorizer::clampToBounds(ImplicitLocOpBuilder &builder, Value index, Value size) {
  Value zero = arith::ConstantIndexOp::create(builder, 0);
  Value last = arith::SubIOp::create(builder, size, arith::ConstantIndexOp::create(builder, 1));
  if (isVarying(index)) {
    zero = broadcast(builder, zero);
    last = broadcast(builder, last);
  }
  return arith::MaxSIOp::create(builder, arith::MinSIOp::create(builder, index, last), zero);
}

void RegionVectorizer::evaluateExtract(ImplicitLocOpBuilder &builder, tensor::ExtractOp op) {
  Value memref = lookup(op.getTensor());
  auto type = cast<MemRefType>(memref.getType());
  SmallVector<Value> indices;
  for (auto [dim, index] : llvm::enumerate(op.getIndices())) {
    Value known = lookup(index);
    if (speculative)
      known = clampToBounds(builder, known, memref::DimOp::create(builder, memref, dim));
    indices.push_back(known);
  }
  if (llvm::none_of(indices, isVarying)) {
    values[op] = memref::LoadOp::create(builder, memref, indices);
    return;
  }

  // A gather from the flat buffer, with 64-bit offsets that the strides give.
  auto metadata = memref::ExtractStridedMetadataOp::create(builder, memref);
  VectorType offsetType = VectorType::get({lanes}, builder.getIndexType());
  Value uniformOffset = metadata.getOffset();
  Value varyingOffset;
  for (auto [index, stride] : llvm::zip(indices, metadata.getStrides())) {
    if (!isVarying(index)) {
      uniformOffset =
          arith::AddIOp::create(builder, uniformOffset, arith::MulIOp::create(builder, index, stride));
      continue;
    }
    Value wide = arith::IndexCastOp::create(builder, offsetType, index);
    wide = arith::MulIOp::create(builder, wide, vector::BroadcastOp::create(builder, offsetType, stride));
    varyingOffset = varyingOffset ? arith::AddIOp::create(builder, varyingOffset, wide) : wide;
  }
  // The size of the flat view bounds nothing: it only has to be there.
  Value extent = arith::ConstantIndexOp::create(builder, INT32_MAX);
  auto flatType = MemRefType::get({ShapedType::kDynamic}, type.getElementType(),
                                  StridedLayoutAttr::get(builder.getContext(), ShapedType::kDynamic, {1}));
  Value flat = memref::ReinterpretCastOp::create(builder, flatType, metadata.getBaseBuffer(),
                                                 OpFoldResult(uniformOffset), ArrayRef<OpFoldResult>{extent},
                                                 ArrayRef<OpFoldResult>{builder.getIndexAttr(1)});
  VectorType resultType = VectorType::get({lanes}, type.getElementType());
  Value all = arith::ConstantOp::create(
      builder, DenseElementsAttr::get(VectorType::get({lanes}, builder.getI1Type()), true));
  Value none = arith::ConstantOp::create(builder, cast<TypedAttr>(builder.getZeroAttr(resultType)));
  Value zero = arith::ConstantIndexOp::create(builder, 0);
  Value gathered =
      vector::GatherOp::create(builder, resultType, flat, ValueRange{zero}, varyingOffset, all, none);
  if (isa<IndexType>(type.getElementType()))
    gathered = arith::IndexCastOp::create(builder, getVaryingType(type.getElementType(), lanes), gathered);
  values[op] = gathered;
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

void RegionVectorizer::evaluateIf(ImplicitLocOpBuilder &builder, scf::IfOp op) {
  Value condition = lookup(op.getCondition());
  auto emitBranch = [&](ImplicitLocOpBuilder &inner, Region &branch) {
    SmallVector<Value> results;
    if (branch.empty())
      return results;
    for (Operation &nested : branch.front().without_terminator())
      evaluate(inner, &nested);
    for (Value result : branch.front().getTerminator()->getOperands())
      results.push_back(lookupVector(inner, result));
    return results;
  };

  if (!isVarying(condition)) {
    SmallVector<Type> types = llvm::map_to_vector(
        op.getResultTypes(), [&](Type type) -> Type { return getVaryingType(type, lanes); });
    bool hasElse = !op.getElseRegion().empty();
    auto branch =
        scf::IfOp::create(builder, types, condition, /*addThenBlock=*/true, /*addElseBlock=*/hasElse);
    auto fill = [&](Region &from, Region &to) {
      auto inner = ImplicitLocOpBuilder::atBlockEnd(op.getLoc(), &to.front());
      SmallVector<Value> results = emitBranch(inner, from);
      scf::YieldOp::create(inner, results);
    };
    fill(op.getThenRegion(), branch.getThenRegion());
    if (hasElse)
      fill(op.getElseRegion(), branch.getElseRegion());
    for (auto [result, value] : llvm::zip(op.getResults(), branch.getResults()))
      values[result] = value;
    return;
  }

  llvm::SaveAndRestore speculating(speculative, true);
  auto emitUnder = [&](Value guard, Region &branch) {
    Value both = active ? arith::AndIOp::create(builder, active, guard).getResult() : guard;
    llvm::SaveAndRestore nested(active, both);
    return emitBranch(builder, branch);
  };
  Value isTrue =
      arith::ConstantOp::create(builder, DenseElementsAttr::get(cast<VectorType>(condition.getType()), true));
  SmallVector<Value> thenResults = emitUnder(condition, op.getThenRegion());
  SmallVector<Value> elseResults;
  if (!op.getElseRegion().empty())
    elseResults = emitUnder(arith::XOrIOp::create(builder, condition, isTrue), op.getElseRegion());
  for (auto [result, onTrue, onFalse] : llvm::zip(op.getResults(), thenResults, elseResults))
    values[result] = arith::SelectOp::create(builder, condition, onTrue, onFalse);
}

void RegionVectorizer::evaluateAccumulate(ImplicitLocOpBuilder &builder, AccumulateGradientOp op) {
  assert(accumulate && "no one takes the gradients of the captures");
  Value value = lookupVector(builder, op.getValue());
  if (active) {
    Value zero = arith::ConstantOp::create(builder, cast<TypedAttr>(builder.getZeroAttr(value.getType())));
    value = arith::SelectOp::create(builder, active, value, zero);
  }
  SmallVector<Value> indices =
      llvm::map_to_vector(op.getIndices(), [&](Value index) { return lookup(index); });
  accumulate(builder, op, value, indices);
}
