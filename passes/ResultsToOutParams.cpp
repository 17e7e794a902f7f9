//===- ResultsToOutParams.cpp - the calling convention of compiled functions --===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
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
    if (failed(function.insertArgument(function.getNumArguments(), attn::getBoundaryBufferType(type),
                                       function.getResultAttrDict(i), value.getLoc())))
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
