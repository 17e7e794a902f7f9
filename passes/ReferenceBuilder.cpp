//===- ReferenceBuilder.cpp - builds the loops of the reference lowering ----===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/ReferenceBuilder.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/TypeUtilities.h"
#include <map>

using namespace mlir;
using namespace attn;

//===----------------------------------------------------------------------===//
// ReferenceBuilder
//===----------------------------------------------------------------------===//

ReferenceBuilder::ReferenceBuilder(Operation *op, Type elementType, const ReferenceOptions &options)
    : ImplicitLocOpBuilder(op->getLoc(), op), element(elementType), options(options) {
  compute = options.computeType == ReferenceOptions::ComputeType::f64 ? getF64Type()
                                                                      : attn::getComputeType(elementType);
}

Value ReferenceBuilder::constant(double value) {
  return arith::ConstantOp::create(*this, getFloatAttr(compute, value));
}
Value ReferenceBuilder::index(int64_t value) { return arith::ConstantIndexOp::create(*this, value); }
Value ReferenceBuilder::add(Value lhs, Value rhs) { return arith::AddFOp::create(*this, lhs, rhs); }
Value ReferenceBuilder::sub(Value lhs, Value rhs) { return arith::SubFOp::create(*this, lhs, rhs); }
Value ReferenceBuilder::mul(Value lhs, Value rhs) { return arith::MulFOp::create(*this, lhs, rhs); }
Value ReferenceBuilder::div(Value lhs, Value rhs) { return arith::DivFOp::create(*this, lhs, rhs); }
Value ReferenceBuilder::max(Value lhs, Value rhs) { return arith::MaximumFOp::create(*this, lhs, rhs); }
Value ReferenceBuilder::exp(Value value) { return math::ExpOp::create(*this, value); }
Value ReferenceBuilder::log(Value value) { return math::LogOp::create(*this, value); }
Value ReferenceBuilder::isMinusInfinity(Value value) {
  return arith::CmpFOp::create(*this, arith::CmpFPredicate::OEQ, value, constant(-INFINITY));
}
Value ReferenceBuilder::select(Value condition, Value ifTrue, Value ifFalse) {
  return arith::SelectOp::create(*this, condition, ifTrue, ifFalse);
}
Value ReferenceBuilder::widen(Value value) { return convertFloat(*this, getLoc(), value, compute); }
Value ReferenceBuilder::round(Value value) {
  return options.roundIntermediates ? widen(convertFloat(*this, getLoc(), value, element)) : value;
}

Value ReferenceBuilder::empty(ArrayRef<OpFoldResult> sizes, Type type) {
  return tensor::EmptyOp::create(*this, sizes, type ? type : compute);
}

Value ReferenceBuilder::zeros(ArrayRef<OpFoldResult> sizes) {
  return linalg::FillOp::create(*this, constant(0.0), empty(sizes)).getResult(0);
}

Value ReferenceBuilder::generic(ArrayRef<Access> ins, const Access &out,
                                function_ref<Value(ValueRange)> body) {
  SmallVector<Access> accesses(ins);
  accesses.push_back(out);
  // Names of loops may have gaps; positions have none.
  std::map<unsigned, unsigned> positions;
  for (const Access &access : accesses)
    for (unsigned loop : access.loops)
      positions[loop] = 0;
  for (auto [position, entry] : llvm::enumerate(positions))
    entry.second = position;
  auto positionOf = [&](unsigned loop) { return positions[loop]; };
  SmallVector<AffineMap> maps;
  for (const Access &access : accesses)
    maps.push_back(AffineMap::getMultiDimMapWithTargets(
        positions.size(), llvm::map_to_vector(access.loops, positionOf), getContext()));
  SmallVector<utils::IteratorType> iterators(positions.size(), utils::IteratorType::reduction);
  for (unsigned loop : out.loops)
    iterators[positions[loop]] = utils::IteratorType::parallel;
  SmallVector<Value> inputs = llvm::map_to_vector(ins, [](const Access &access) { return access.tensor; });
  auto op = linalg::GenericOp::create(
      *this, TypeRange(out.tensor.getType()), inputs, ValueRange(out.tensor), maps, iterators,
      [&](OpBuilder &, Location, ValueRange arguments) { linalg::YieldOp::create(*this, body(arguments)); });
  return op.getResult(0);
}

Value ReferenceBuilder::convert(Value value, Type elementType) {
  if (getElementTypeOrSelf(value.getType()) == elementType)
    return value;
  auto tensor = dyn_cast<RankedTensorType>(value.getType());
  if (!tensor)
    return convertFloat(*this, getLoc(), value, elementType);
  auto loops = llvm::to_vector<4>(llvm::seq<unsigned>(0, tensor.getRank()));
  Value out = empty(tensor::getMixedSizes(*this, getLoc(), value), elementType);
  return generic({{value, loops}}, {out, loops},
                 [&](ValueRange v) { return convertFloat(*this, getLoc(), v[0], elementType); });
}

ReferenceBuilder::Values ReferenceBuilder::loop(Value end, Value step, ValueRange inits,
                                                function_ref<Values(Value, ValueRange)> body) {
  auto forOp = scf::ForOp::create(*this, index(0), end, step, inits);
  InsertionGuard guard(*this);
  Block *block = forOp.getBody();
  if (!block->empty()) // the builder has put a terminator into a loop without results
    block->getTerminator()->erase();
  setInsertionPointToEnd(block);
  scf::YieldOp::create(*this, body(forOp.getInductionVar(), forOp.getRegionIterArgs()));
  return Values(forOp.getResults());
}

ReferenceBuilder::Values ReferenceBuilder::ifElse(Value condition, TypeRange types,
                                                  function_ref<Values()> thenBody,
                                                  function_ref<Values()> elseBody) {
  auto ifOp = scf::IfOp::create(*this, types, condition, /*addThenBlock=*/true, /*addElseBlock=*/true);
  InsertionGuard guard(*this);
  setInsertionPointToEnd(ifOp.thenBlock());
  scf::YieldOp::create(*this, thenBody());
  setInsertionPointToEnd(ifOp.elseBlock());
  scf::YieldOp::create(*this, elseBody());
  return Values(ifOp.getResults());
}

Value ReferenceBuilder::operand(Value value) {
  auto cast = value.getDefiningOp<UnrealizedConversionCastOp>();
  return cast && options.f64Boundary ? cast.getInputs().front() : value;
}

void ReferenceBuilder::replaceResult(Value result, Value value) {
  auto type = cast<RankedTensorType>(result.getType());
  auto shaped = type.clone(getElementTypeOrSelf(value));
  if (value.getType() != shaped) // static against dynamic sizes
    value = tensor::CastOp::create(*this, shaped, value);
  if (shaped != type)
    value = UnrealizedConversionCastOp::create(*this, type, value).getResult(0);
  result.replaceAllUsesWith(value);
}

//===----------------------------------------------------------------------===//
// ReferenceAttention
//===----------------------------------------------------------------------===//

ReferenceAttention::ReferenceAttention(ReferenceBuilder &b, AttentionOpInterface op)
    : query(b.operand(op.getQuery())), key(b.operand(op.getKey())), value(b.operand(op.getValue())),
      captures(llvm::map_to_vector(op.getCaptures(), [&](Value capture) { return b.operand(capture); })),
      querySizes(tensor::getMixedSizes(b, b.getLoc(), query)),
      keySizes(tensor::getMixedSizes(b, b.getLoc(), key)),
      valueSizes(tensor::getMixedSizes(b, b.getLoc(), value)), scale(b.constant(op.getScaleOrDefault())),
      b(b), op(op) {
  Value queryLength = getValueOrCreateConstantIndexOp(b, b.getLoc(), querySizes[2]);
  Value keyLength = getValueOrCreateConstantIndexOp(b, b.getLoc(), keySizes[2]);
  inlining.queryLength = [=](OpBuilder &, Location, Value) { return queryLength; };
  inlining.keyLength = [=](OpBuilder &, Location, Value) { return keyLength; };
  inlining.widenToF64 = b.widensRegions();
}

ReferenceBuilder::Values
ReferenceAttention::forEachChunk(ValueRange inits,
                                 function_ref<ReferenceBuilder::Values(Chunk, ValueRange)> body) {
  auto size = [&](OpFoldResult size) { return getValueOrCreateConstantIndexOp(b, b.getLoc(), size); };
  Value batches = size(querySizes[0]), heads = size(querySizes[1]), keyHeads = size(keySizes[1]);
  Value length = size(querySizes[2]);
  Value one = b.index(1), chunkRows = b.index(b.getOptions().chunkRows);
  return b.loop(batches, one, inits, [&](Value batch, ValueRange values) {
    return b.loop(heads, one, values, [&](Value head, ValueRange values) {
      // Here, where there is a head, and so a key head to divide by.
      Value group = arith::DivUIOp::create(b, heads, keyHeads);
      Value keyHead = arith::DivUIOp::create(b, head, group);
      return b.loop(length, chunkRows, values, [&](Value begin, ValueRange values) {
        Value rows = arith::MinUIOp::create(b, chunkRows, arith::SubIOp::create(b, length, begin));
        return body({batch, head, keyHead, begin, rows}, values);
      });
    });
  });
}

ReferenceAttention::Scores ReferenceAttention::buildScores(Chunk chunk) {
  enum { i, j, c };
  SmallVector<OpFoldResult> sizes = {chunk.rows, keySizes[2]};
  Value product =
      buildProduct({rowsOf(query, chunk), {i, c}}, {keysOf(key, chunk), {j, c}}, {b.zeros(sizes), {i, j}});
  Value scaled = b.generic({{product, {i, j}}}, {b.empty(sizes), {i, j}},
                           [&](ValueRange v) { return b.mul(b.round(v[0]), scale); });
  if (op.getScore().empty() && op.getMask().empty())
    return {scaled, scaled};

  Value score = b.generic({{scaled, {i, j}}}, {b.empty(sizes), {i, j}}, [&](ValueRange v) -> Value {
    Value queryIndex = arith::AddIOp::create(b, chunk.begin, linalg::IndexOp::create(b, i));
    ReferenceBuilder::Values position = {chunk.batch, chunk.head, queryIndex, linalg::IndexOp::create(b, j)};
    llvm::append_range(position, captures);
    auto buildScore = [&]() -> ReferenceBuilder::Values {
      if (op.getScore().empty())
        return {v[0]};
      ReferenceBuilder::Values arguments = {v[0]};
      llvm::append_range(arguments, position);
      return {inlineRegion(b, op.getScore(), arguments, inlining)};
    };
    if (op.getMask().empty())
      return buildScore().front();
    // Under a branch, not a select: a dropped pair must not read its captures, whose indices may be out of
    // bounds there.
    Value keep = inlineRegion(b, op.getMask(), position, inlining);
    return b
        .ifElse(keep, b.compute, buildScore,
                [&]() -> ReferenceBuilder::Values { return {b.constant(-INFINITY)}; })
        .front();
  });
  return {scaled, score};
}

Value ReferenceAttention::buildProduct(const Access &lhs, const Access &rhs, const Access &out, Value score) {
  SmallVector<Access> ins = {lhs, rhs};
  if (score)
    ins.push_back({score, {0, 1}});
  return b.generic(ins, out, [&](ValueRange v) {
    Value product = b.mul(b.widen(v[0]), b.widen(v[1]));
    if (score) // a pair without weight adds 0 even to an infinite or NaN operand
      product = b.select(b.isMinusInfinity(v[2]), b.constant(0.0), product);
    return b.add(v.back(), product);
  });
}

//===----------------------------------------------------------------------===//
// Slices
//===----------------------------------------------------------------------===//

/// The part of a `(batch, heads, length, …)` tensor at one batch entry and head.
static void getSlice(ReferenceBuilder &b, Value tensor, Value batch, Value head, OpFoldResult begin,
                     OpFoldResult length, SmallVectorImpl<OpFoldResult> &offsets,
                     SmallVectorImpl<OpFoldResult> &sizes, SmallVectorImpl<OpFoldResult> &strides) {
  auto type = cast<RankedTensorType>(tensor.getType());
  offsets.assign({batch, head, begin});
  sizes.assign({b.getIndexAttr(1), b.getIndexAttr(1), length});
  if (type.getRank() == 4) {
    offsets.push_back(b.getIndexAttr(0));
    sizes.push_back(b.getIndexAttr(type.getDimSize(3)));
  }
  strides.assign(type.getRank(), b.getIndexAttr(1));
}

/// Of such a tensor there is no slice: upstream takes an offset of 0 in a dimension of 0 for out of bounds.
static bool isEmpty(RankedTensorType type) { return llvm::is_contained(type.getShape(), 0); }

static Value extract(ReferenceBuilder &b, Value tensor, Value batch, Value head, OpFoldResult begin,
                     OpFoldResult length) {
  SmallVector<OpFoldResult> offsets, sizes, strides;
  getSlice(b, tensor, batch, head, begin, length, offsets, sizes, strides);
  auto type = cast<RankedTensorType>(tensor.getType());
  if (isEmpty(type))
    return tensor::EmptyOp::create(b, ArrayRef(sizes).drop_front(2), type.getElementType());
  RankedTensorType reduced =
      tensor::ExtractSliceOp::inferCanonicalRankReducedResultType(type.getRank() - 2, type, sizes);
  return tensor::ExtractSliceOp::create(b, reduced, tensor, offsets, sizes, strides);
}

static Value insert(ReferenceBuilder &b, Value tile, Value tensor, Value batch, Value head,
                    OpFoldResult begin, OpFoldResult length) {
  if (isEmpty(cast<RankedTensorType>(tensor.getType())))
    return tensor;
  SmallVector<OpFoldResult> offsets, sizes, strides;
  getSlice(b, tensor, batch, head, begin, length, offsets, sizes, strides);
  return tensor::InsertSliceOp::create(b, tile, tensor, offsets, sizes, strides);
}

Value ReferenceAttention::rowsOf(Value tensor, Chunk chunk) {
  return extract(b, tensor, chunk.batch, chunk.head, chunk.begin, chunk.rows);
}
Value ReferenceAttention::keysOf(Value tensor, Chunk chunk) {
  return extract(b, tensor, chunk.batch, chunk.keyHead, b.getIndexAttr(0), keySizes[2]);
}
Value ReferenceAttention::insertRows(Value tile, Value tensor, Chunk chunk) {
  return insert(b, tile, tensor, chunk.batch, chunk.head, chunk.begin, chunk.rows);
}
Value ReferenceAttention::insertKeys(Value tile, Value tensor, Chunk chunk) {
  return insert(b, tile, tensor, chunk.batch, chunk.keyHead, b.getIndexAttr(0), keySizes[2]);
}
