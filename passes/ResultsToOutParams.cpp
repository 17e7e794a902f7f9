//===- ResultsToOutParams.cpp - the calling convention of compiled functions --===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/BufferTypes.h"
#include "passes/Passes.h"

using namespace mlir;

namespace attn {
#define GEN_PASS_DEF_RESULTSTOOUTPARAMSPASS
#include "passes/Passes.h.inc"
} // namespace attn

MemRefType attn::getBoundaryBufferType(RankedTensorType type) {
  SmallVector<int64_t> strides(type.getRank(), ShapedType::kDynamic);
  if (!strides.empty())
    strides.back() = 1;
  auto layout = StridedLayoutAttr::get(type.getContext(), ShapedType::kDynamic, strides);
  return MemRefType::get(type.getShape(), type.getElementType(), layout);
}

namespace {
/// The size of a dimension of an argument, divided and rounded up; a constant, where there is no argument.
struct ArgumentSize {
  BlockArgument argument;
  int64_t dim, divisor = 1;
};
} // namespace

/// What has the size of a dimension of `value`, a tensor or buffer. Knows what lowered attention computes its
/// results with.
static std::optional<ArgumentSize> findSize(Value value, int64_t dim) {
  auto findDynamic = [&](ValueRange sizes) -> std::optional<ArgumentSize> {
    ArrayRef<int64_t> shape = cast<ShapedType>(value.getType()).getShape();
    if (!ShapedType::isDynamic(shape[dim]))
      return ArgumentSize{{}, shape[dim]};
    Operation *size = sizes[llvm::count_if(shape.take_front(dim), ShapedType::isDynamic)].getDefiningOp();
    int64_t divisor = 1;
    if (auto division = dyn_cast_or_null<arith::CeilDivSIOp>(size))
      if (std::optional<int64_t> constant = getConstantIntValue(division.getRhs())) {
        divisor = *constant;
        size = division.getLhs().getDefiningOp();
      }
    auto divide = [&](std::optional<ArgumentSize> found) -> std::optional<ArgumentSize> {
      if (found && divisor > 1 && (found->divisor > 1 || !found->argument))
        return std::nullopt;
      if (found)
        found->divisor *= divisor;
      return found;
    };
    if (auto known = dyn_cast_or_null<tensor::DimOp>(size))
      if (std::optional<int64_t> index = known.getConstantIndex())
        return divide(findSize(known.getSource(), *index));
    if (auto known = dyn_cast_or_null<memref::DimOp>(size))
      if (std::optional<int64_t> index = known.getConstantIndex())
        return divide(findSize(known.getSource(), *index));
    return std::nullopt;
  };
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    if (isa<func::FuncOp>(argument.getOwner()->getParentOp()))
      return ArgumentSize{argument, dim};
    return std::nullopt;
  }
  Operation *op = value.getDefiningOp();
  if (isa<bufferization::ToTensorOp, bufferization::ToBufferOp, tensor::CastOp, memref::CastOp>(op))
    return findSize(op->getOperand(0), dim);
  if (auto alloc = dyn_cast<memref::AllocOp>(op))
    return findDynamic(alloc.getDynamicSizes());
  if (auto empty = dyn_cast<tensor::EmptyOp>(op))
    return findDynamic(empty.getDynamicSizes());
  if (auto destination = dyn_cast<DestinationStyleOpInterface>(op))
    return findSize(destination.getTiedOpOperand(cast<OpResult>(value))->get(), dim);
  return std::nullopt;
}

static ArrayAttr describeSizes(OpBuilder &b, Value value) {
  SmallVector<Attribute> sizes;
  for (auto [dim, size] : llvm::enumerate(cast<RankedTensorType>(value.getType()).getShape())) {
    if (!ShapedType::isDynamic(size))
      sizes.push_back(b.getI64IntegerAttr(size));
    else if (auto source = findSize(value, static_cast<int64_t>(dim)); source && !source->argument)
      sizes.push_back(b.getI64IntegerAttr(source->dim));
    else if (source) {
      SmallVector<int64_t> numbers{source->argument.getArgNumber(), source->dim};
      if (source->divisor > 1)
        numbers.push_back(source->divisor);
      sizes.push_back(b.getI64ArrayAttr(numbers));
    } else
      sizes.push_back(b.getArrayAttr({}));
  }
  return b.getArrayAttr(sizes);
}

/// Appends a buffer argument for each tensor result and writes the result there instead of returning it.
static LogicalResult convertFunction(func::FuncOp function) {
  auto returnOp = dyn_cast<func::ReturnOp>(function.getBody().back().getTerminator());
  if (!returnOp || !function.getBody().hasOneBlock())
    return function.emitOpError(
        "has more than one block; attention functions are straight-line code with scf inside");

  OpBuilder b(returnOp);
  BitVector isTensor(function.getNumResults());
  for (auto [i, value] : llvm::enumerate(returnOp.getOperands())) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!type)
      continue;
    isTensor.set(i);
    NamedAttrList attributes(function.getResultAttrDict(i));
    attributes.set(attn::getResultAttrName(), describeSizes(b, value));
    if (failed(function.insertArgument(function.getNumArguments(), attn::getBoundaryBufferType(type),
                                       attributes.getDictionary(b.getContext()), value.getLoc())))
      return failure();
    auto write = bufferization::MaterializeInDestinationOp::create(b, value.getLoc(), TypeRange(), value,
                                                                   function.getArguments().back());
    // No other access to the buffer exists, and nobody but this operation writes to it.
    write.setRestrict(true);
    write.setWritable(true);
  }
  returnOp->eraseOperands(isTensor);
  return function.eraseResults(isTensor);
}

namespace {
struct ResultsToOutParams : attn::impl::ResultsToOutParamsPassBase<ResultsToOutParams> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    for (auto function : module.getOps<func::FuncOp>()) {
      if (function.isPrivate() || function.isExternal())
        continue;
      if (llvm::any_of(llvm::concat<const Type>(function.getArgumentTypes(), function.getResultTypes()),
                       llvm::IsaPred<UnrankedTensorType>)) {
        function.emitOpError(
            "takes or returns a tensor without a rank; public functions need ranked tensors");
        return signalPassFailure();
      }
      bool returnsTensor = llvm::any_of(function.getResultTypes(), llvm::IsaPred<TensorType>);
      std::optional<SymbolTable::UseRange> uses = SymbolTable::getSymbolUses(function, module);
      if (returnsTensor && uses && !uses->empty()) {
        uses->begin()->getUser()->emitOpError()
            << "refers to @" << function.getSymName()
            << ", a public function that returns tensors; inline the call or make the function private";
        return signalPassFailure();
      }
      for (BlockArgument argument : function.getArguments())
        if (isa<TensorType>(argument.getType()))
          function.setArgAttr(argument.getArgNumber(), bufferization::BufferizationDialect::kWritableAttrName,
                              BoolAttr::get(&getContext(), false));
      if (returnsTensor && failed(convertFunction(function)))
        return signalPassFailure();
    }
  }
};
} // namespace
