//===- DecomposeReference.cpp - attention to plain linalg, the oracle -------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/TypeUtilities.h"
#include "passes/NarrowIndices.h"
#include "passes/Passes.h"
#include "passes/ReferenceBuilder.h"

namespace attn {
#define GEN_PASS_DEF_DECOMPOSEREFERENCEPASS
#include "passes/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace attn;

using Values = ReferenceBuilder::Values;

//===----------------------------------------------------------------------===//
// attn.attention
//===----------------------------------------------------------------------===//

void attn::decomposeAttention(AttentionOp op, const ReferenceOptions &options) {
  ReferenceBuilder b(op, op.getElementType(), options);
  ReferenceAttention attention(b, op);
  enum { i, j, c };

  SmallVector<OpFoldResult> rowSizes(ArrayRef(attention.querySizes).take_front(3)), outSizes = rowSizes;
  outSizes.push_back(attention.valueSizes[3]);
  Type outElement = b.resultElement(b.element),
       lseElement = b.resultElement(op.getLse().getType().getElementType());
  Values inits = {b.empty(outSizes, outElement), b.empty(rowSizes, lseElement)};

  Values results =
      attention.forEachChunk(inits, [&](ReferenceAttention::Chunk chunk, ValueRange results) -> Values {
        Value s = attention.buildScores(chunk).score;
        SmallVector<OpFoldResult> row = {chunk.rows}, tile = {chunk.rows, attention.keySizes[2]};

        Value lowest = linalg::FillOp::create(b, b.constant(-INFINITY), b.empty(row)).getResult(0);
        Value m = b.generic({{s, {i, j}}}, {lowest, {i}}, [&](ValueRange v) { return b.max(v[0], v[1]); });
        Value e = b.generic({{s, {i, j}}, {m, {i}}}, {b.empty(tile), {i, j}}, [&](ValueRange v) {
          return b.select(b.isMinusInfinity(v[0]), b.constant(0.0), b.exp(b.sub(v[0], v[1])));
        });
        Value l =
            b.generic({{e, {i, j}}}, {b.zeros(row), {i}}, [&](ValueRange v) { return b.add(v[0], v[1]); });
        // In a row without a key l is 0, but there every pair is dropped by its score of -inf.
        Value p = b.generic({{e, {i, j}}, {l, {i}}}, {b.empty(tile), {i, j}},
                            [&](ValueRange v) { return b.round(b.div(v[0], v[1])); });
        Value out = attention.buildProduct({p, {i, j}}, {attention.keysOf(attention.value, chunk), {j, c}},
                                           {b.zeros({chunk.rows, attention.valueSizes[3]}), {i, c}}, s);
        // Of a row without a key: -inf + log(0) = -inf.
        Value lse = b.generic({{m, {i}}, {l, {i}}}, {b.empty(row), {i}},
                              [&](ValueRange v) { return b.add(v[0], b.log(v[1])); });
        return {attention.insertRows(b.convert(out, outElement), results[0], chunk),
                attention.insertRows(b.convert(lse, lseElement), results[1], chunk)};
      });
  b.replaceResult(op.getOut(), results[0]);
  b.replaceResult(op.getLse(), results[1]);
  op.erase();
}

//===----------------------------------------------------------------------===//
// attn.merge
//===----------------------------------------------------------------------===//

void attn::decomposeMerge(MergeOp op, const ReferenceOptions &options) {
  ReferenceBuilder b(op, op.getOut().getType().getElementType(), options);
  // Loops over the rows, over the parts of a stack, and over value_dim.
  enum { batch, head, query, part, c };
  SmallVector<unsigned, 4> row = {batch, head, query}, all = {batch, head, query, c};
  auto partsOf = [&](SmallVector<unsigned, 4> loops) {
    if (op.isStacked())
      loops.insert(loops.begin(), part);
    return loops;
  };
  SmallVector<Access> outs, lses, weights;
  for (auto [out, lse] : llvm::zip(op.getPartOuts(), op.getPartLses())) {
    outs.push_back({b.operand(out), partsOf(all)});
    lses.push_back({b.operand(lse), partsOf(row)});
  }
  SmallVector<OpFoldResult> outSizes = tensor::getMixedSizes(b, b.getLoc(), outs.front().tensor);
  SmallVector<OpFoldResult> partRowSizes(ArrayRef(outSizes).drop_back());
  outSizes.erase(outSizes.begin(), outSizes.end() - 4);
  SmallVector<OpFoldResult> rowSizes(ArrayRef(outSizes).drop_back());

  // One loop nest, whatever the number of parts: a pair is an input of its own, the parts of a stack are a
  // reduction.
  Value lowest = linalg::FillOp::create(b, b.constant(-INFINITY), b.empty(rowSizes)).getResult(0);
  Value m = b.generic(lses, {lowest, row}, [&](ValueRange v) {
    Value m = v.back();
    for (Value lse : v.drop_back())
      m = b.max(m, b.widen(lse));
    return m;
  });
  // Relative to the largest lse, not to the new one, whose rounding they would all have.
  for (const Access &lse : lses)
    weights.push_back({b.generic({lse, {m, row}}, {b.empty(partRowSizes), lse.loops},
                                 [&](ValueRange v) {
                                   Value lse = b.widen(v[0]);
                                   return b.select(b.isMinusInfinity(lse), b.constant(0.0),
                                                   b.exp(b.sub(lse, v[1])));
                                 }),
                       lse.loops});
  Value sum = b.generic(weights, {b.zeros(rowSizes), row}, [&](ValueRange v) {
    Value sum = v.back();
    for (Value weight : v.drop_back())
      sum = b.add(sum, weight);
    return sum;
  });
  // Of a row without a key: -inf + log(0) = -inf.
  Value lse = b.generic({{m, row}, {sum, row}}, {b.empty(rowSizes), row},
                        [&](ValueRange v) { return b.add(v[0], b.log(v[1])); });

  SmallVector<Access> ins(outs);
  llvm::append_range(ins, lses);
  llvm::append_range(ins, weights);
  Value weighted = b.generic(ins, {b.zeros(outSizes), all}, [&](ValueRange v) {
    size_t count = outs.size();
    Value sum = v.back();
    for (size_t i = 0; i < count; ++i) {
      Value isEmpty = b.isMinusInfinity(b.widen(v[count + i]));
      Value product = b.mul(v[2 * count + i], b.widen(v[i]));
      sum = b.add(sum, b.select(isEmpty, b.constant(0.0), product));
    }
    return sum;
  });
  Type outElement = b.resultElement(b.element);
  Value out = b.generic({{weighted, all}, {m, row}, {sum, row}}, {b.empty(outSizes, outElement), all},
                        [&](ValueRange v) {
                          Value mean = b.select(b.isMinusInfinity(v[1]), b.constant(0.0), b.div(v[0], v[2]));
                          return convertFloat(b, b.getLoc(), mean, outElement);
                        });
  b.replaceResult(op.getOut(), out);
  b.replaceResult(op.getLse(), b.convert(lse, b.resultElement(op.getLse().getType().getElementType())));
  op.erase();
}

//===----------------------------------------------------------------------===//
// The f64 boundary
//===----------------------------------------------------------------------===//

/// The f64 form of a floating scalar or tensor type, null for other types.
static Type getF64Form(Type type) {
  Type f64 = Float64Type::get(type.getContext());
  if (auto tensor = dyn_cast<RankedTensorType>(type))
    return isa<FloatType>(tensor.getElementType()) ? tensor.clone(f64) : Type();
  return isa<FloatType>(type) ? f64 : Type();
}

/// Changes the floating arguments and results of `func` to f64. Casts stand between them and the body; the
/// reference looks through those in front of its operands.
static void buildF64Boundary(func::FuncOp func) {
  auto toF64 = [](Type type) {
    Type form = getF64Form(type);
    return form ? form : type;
  };
  OpBuilder builder = OpBuilder::atBlockBegin(&func.getBody().front());
  auto cast = [&](Value value, Type type) {
    return UnrealizedConversionCastOp::create(builder, value.getLoc(), type, value).getResult(0);
  };
  for (BlockArgument argument : func.getArguments()) {
    Type type = argument.getType(), wide = toF64(type);
    if (wide == type)
      continue;
    argument.setType(wide);
    Value narrow = cast(argument, type);
    argument.replaceAllUsesExcept(narrow, narrow.getDefiningOp());
  }
  func.walk([&](func::ReturnOp op) {
    builder.setInsertionPoint(op);
    for (OpOperand &operand : op->getOpOperands())
      if (Type wide = toF64(operand.get().getType()); wide != operand.get().getType())
        operand.set(cast(operand.get(), wide));
  });
  FunctionType type = func.getFunctionType();
  func.setFunctionType(FunctionType::get(func.getContext(), llvm::map_to_vector(type.getInputs(), toF64),
                                         llvm::map_to_vector(type.getResults(), toF64)));
}

/// Cancels the casts that meet and makes conversions of the rest, which feed or follow other operations.
static void lowerBoundaryCasts(func::FuncOp func, const ReferenceOptions &options) {
  SmallVector<UnrealizedConversionCastOp> casts;
  func.walk([&](UnrealizedConversionCastOp cast) { casts.push_back(cast); });
  for (UnrealizedConversionCastOp cast : casts) {
    auto source = cast.getInputs().front().getDefiningOp<UnrealizedConversionCastOp>();
    if (source && source.getInputs().front().getType() == cast.getType(0))
      cast.getResult(0).replaceAllUsesWith(source.getInputs().front());
  }
  for (UnrealizedConversionCastOp cast : llvm::reverse(casts)) {
    if (!cast.use_empty()) {
      Value input = cast.getInputs().front();
      ReferenceBuilder b(cast, getElementTypeOrSelf(input), options);
      cast.getResult(0).replaceAllUsesWith(b.convert(input, getElementTypeOrSelf(cast.getType(0))));
    }
    cast.erase();
  }
}

//===----------------------------------------------------------------------===//
// Driver
//===----------------------------------------------------------------------===//

static LogicalResult verifyReference(Operation *op, Type elementType, const ReferenceOptions &options) {
  if (isa<Float8E4M3FNType>(elementType))
    return op->emitOpError("has no reference for ") << elementType << " tensors; use f16, bf16, f32 or f64";
  if (options.computeType == ReferenceOptions::ComputeType::f32 && elementType.isF64())
    return op->emitOpError("is on f64 tensors, which compute-type=f32 would narrow; use compute-type=f64");
  return verifyInlinable(op);
}

static LogicalResult verifyOptions(Operation *op, const ReferenceOptions &options) {
  if (options.f64Boundary && options.computeType != ReferenceOptions::ComputeType::f64)
    return op->emitError("an f64 boundary needs compute-type=f64");
  if (options.chunkRows < 1)
    return op->emitError("expected chunk-rows of at least 1, got ") << options.chunkRows;
  return success();
}

LogicalResult attn::decomposeReference(func::FuncOp func, const ReferenceOptions &options) {
  if (failed(verifyOptions(func, options)))
    return failure();
  SmallVector<Operation *> ops;
  WalkResult result = func.walk([&](Operation *op) {
    Type elementType;
    if (isa<AttentionOp, AttentionBackwardOp>(op))
      elementType = cast<AttentionOpInterface>(op).getElementType();
    else if (auto merge = dyn_cast<MergeOp>(op))
      elementType = merge.getOut().getType().getElementType();
    else
      return WalkResult::advance();
    if (failed(verifyReference(op, elementType, options)))
      return WalkResult::interrupt();
    auto backward = dyn_cast<AttentionBackwardOp>(op);
    if (backward && !backward.getScore().empty() && backward.getGradient().empty()) {
      op->emitOpError("expected a gradient region beside its score; run --attn-differentiate first");
      return WalkResult::interrupt();
    }
    ops.push_back(op);
    return WalkResult::advance();
  });
  if (result.wasInterrupted())
    return failure();

  if (options.f64Boundary && !func.isExternal())
    buildF64Boundary(func);
  for (Operation *op : ops) {
    if (auto attention = dyn_cast<AttentionOpInterface>(op))
      narrowIndices(attention);
    if (auto attention = dyn_cast<AttentionOp>(op))
      decomposeAttention(attention, options);
    else if (auto backward = dyn_cast<AttentionBackwardOp>(op))
      decomposeAttentionBackward(backward, options);
    else
      decomposeMerge(cast<MergeOp>(op), options);
  }
  // The reference evaluates the mask of every pair; lists that are returned stay.
  SmallVector<BlockListsOp> lists;
  func.walk([&](BlockListsOp op) { lists.push_back(op); });
  for (BlockListsOp op : lists)
    if (op.use_empty())
      op.erase();
  if (options.f64Boundary)
    lowerBoundaryCasts(func, options);
  return success();
}

FailureOr<func::FuncOp> attn::buildReferenceFunction(func::FuncOp func, StringRef name,
                                                     const ReferenceOptions &options) {
  if (SymbolTable::lookupSymbolIn(func->getParentOp(), name))
    return func.emitError("expected no symbol '") << name << "' beside the function, to name its reference";
  OpBuilder builder(func->getContext());
  builder.setInsertionPointAfter(func);
  auto clone = cast<func::FuncOp>(builder.clone(*func));
  clone.setSymName(name);
  if (succeeded(decomposeReference(clone, options)))
    return clone;
  clone.erase();
  return failure();
}

namespace {
struct DecomposeReference : attn::impl::DecomposeReferencePassBase<DecomposeReference> {
  using DecomposeReferencePassBase::DecomposeReferencePassBase;

  void runOnOperation() override {
    ReferenceOptions options;
    if (computeType == "f32")
      options.computeType = ReferenceOptions::ComputeType::f32;
    else if (computeType == "f64")
      options.computeType = ReferenceOptions::ComputeType::f64;
    else if (computeType != "own") {
      getOperation().emitError("expected compute-type to be own, f32 or f64, got '") << computeType << "'";
      return signalPassFailure();
    }
    options.roundIntermediates = roundIntermediates;
    options.f64Boundary = f64Boundary;
    options.chunkRows = chunkRows;

    for (func::FuncOp func : llvm::to_vector(getOperation().getOps<func::FuncOp>())) {
      LogicalResult result =
          suffix.empty() || func.isExternal()
              ? decomposeReference(func, options)
              : LogicalResult(buildReferenceFunction(func, (func.getName() + suffix).str(), options));
      if (failed(result))
        return signalPassFailure();
    }
  }
};
} // namespace
