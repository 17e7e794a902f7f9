//===- SizeFormula.cpp - sizes of tensors as functions of those of arguments -===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/SizeFormula.h"
#include "dialect/AttnDialect.h"
#include "mlir/Dialect/Affine/IR/ValueBoundsOpInterfaceImpl.h"
#include "mlir/Dialect/Arith/IR/ValueBoundsOpInterfaceImpl.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Linalg/IR/ValueBoundsOpInterfaceImpl.h"
#include "mlir/Dialect/MemRef/IR/ValueBoundsOpInterfaceImpl.h"
#include "mlir/Dialect/SCF/IR/ValueBoundsOpInterfaceImpl.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Tensor/IR/ValueBoundsOpInterfaceImpl.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/ValueBoundsOpInterface.h"

using namespace mlir;
using namespace attn;

namespace {
template <typename OpTy>
struct AttentionBounds : ValueBoundsOpInterface::ExternalModel<AttentionBounds<OpTy>, OpTy> {
  void populateBoundsForShapedValueDim(Operation *op, Value value, int64_t dim,
                                       ValueBoundsConstraintSet &bounds) const {
    Value source = cast<OpTy>(op).getShapeSource(cast<OpResult>(value));
    // A leading dimension of splits is one that the source lacks.
    int64_t leading = 0;
    if constexpr (std::is_same_v<OpTy, OnlineAttentionOp>) {
      auto online = cast<OpTy>(op);
      leading = online.isSplit() ? 1 : 0;
      if (dim < leading) {
        if (Value splits = online.getSplits())
          bounds.bound(value)[dim] == bounds.getExpr(splits);
        else
          bounds.bound(value)[dim] == online.getSchedule().getKvSplits();
        return;
      }
    }
    bounds.bound(value)[dim] == bounds.getExpr(source, dim - leading);
  }
};

struct BlockListsBounds : ValueBoundsOpInterface::ExternalModel<BlockListsBounds, BlockListsOp> {
  void populateBoundsForShapedValueDim(Operation *op, Value value, int64_t dim,
                                       ValueBoundsConstraintSet &bounds) const {
    auto lists = cast<BlockListsOp>(op);
    if (dim >= 2)
      bounds.bound(value)[dim] ==
          bounds.getExpr(dim == 2 ? lists.getQuery() : lists.getKey(), 2).ceilDiv(lists.getBlocks()[dim - 2]);
    else
      bounds.bound(value)[dim] == bounds.getExpr(lists.getQuery(), dim);
  }
};

struct MergeBounds : ValueBoundsOpInterface::ExternalModel<MergeBounds, MergeOp> {
  void populateBoundsForShapedValueDim(Operation *op, Value value, int64_t dim,
                                       ValueBoundsConstraintSet &bounds) const {
    auto merge = cast<MergeOp>(op);
    bounds.bound(value)[dim] ==
        bounds.getExpr(merge.getPartOuts().front(), dim + (merge.isStacked() ? 1 : 0));
  }
};

template <typename OpTy>
struct GivenSizes : ValueBoundsOpInterface::ExternalModel<GivenSizes<OpTy>, OpTy> {
  void populateBoundsForShapedValueDim(Operation *op, Value value, int64_t dim,
                                       ValueBoundsConstraintSet &bounds) const {
    unsigned index = cast<RankedTensorType>(value.getType()).getDynamicDimIndex(dim);
    bounds.bound(value)[dim] ==
        bounds.getExpr(op->getOperand(op->getNumOperands() - getNumSizes(op) + index));
  }
  static unsigned getNumSizes(Operation *op) {
    return cast<RankedTensorType>(op->getResult(0).getType()).getNumDynamicDims();
  }
};

/// Of `bufferization.to_tensor` and `to_buffer`, which is what kernels are between, and of `attn.delta`.
template <typename OpTy>
struct SameSizes : ValueBoundsOpInterface::ExternalModel<SameSizes<OpTy>, OpTy> {
  void populateBoundsForShapedValueDim(Operation *op, Value value, int64_t dim,
                                       ValueBoundsConstraintSet &bounds) const {
    bounds.bound(value)[dim] == bounds.getExpr(op->getOperand(0), dim);
  }
};
} // namespace

void attn::registerSizeInterfaces(DialectRegistry &registry) {
  affine::registerValueBoundsOpInterfaceExternalModels(registry);
  arith::registerValueBoundsOpInterfaceExternalModels(registry);
  linalg::registerValueBoundsOpInterfaceExternalModels(registry);
  scf::registerValueBoundsOpInterfaceExternalModels(registry);
  memref::registerValueBoundsOpInterfaceExternalModels(registry);
  tensor::registerValueBoundsOpInterfaceExternalModels(registry);
  registry.addExtension(+[](MLIRContext *context, AttnDialect *) {
    AttentionOp::attachInterface<AttentionBounds<AttentionOp>>(*context);
    AttentionBackwardOp::attachInterface<AttentionBounds<AttentionBackwardOp>>(*context);
    OnlineAttentionOp::attachInterface<AttentionBounds<OnlineAttentionOp>>(*context);
    BlockListsOp::attachInterface<BlockListsBounds>(*context);
    MergeOp::attachInterface<MergeBounds>(*context);
    DeltaOp::attachInterface<SameSizes<DeltaOp>>(*context);
  });
  registry.addExtension(+[](MLIRContext *context, tensor::TensorDialect *) {
    tensor::SplatOp::attachInterface<GivenSizes<tensor::SplatOp>>(*context);
    tensor::GenerateOp::attachInterface<GivenSizes<tensor::GenerateOp>>(*context);
  });
  registry.addExtension(+[](MLIRContext *context, bufferization::BufferizationDialect *) {
    bufferization::ToTensorOp::attachInterface<SameSizes<bufferization::ToTensorOp>>(*context);
    bufferization::ToBufferOp::attachInterface<SameSizes<bufferization::ToBufferOp>>(*context);
  });
}

static bool isFunctionArgument(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  return argument && isa<FunctionOpInterface>(argument.getOwner()->getParentOp());
}

static llvm::Error makeError(const Twine &reason) {
  return llvm::createStringError("does not follow from the sizes of the arguments, since " + reason +
                                 "; give its type a static size");
}

llvm::Expected<SizeFormula> SizeFormula::compute(Value tensor, int64_t dim) {
  auto type = cast<RankedTensorType>(tensor.getType());
  MLIRContext *context = type.getContext();
  SizeFormula formula;
  if (!type.isDynamicDim(dim)) {
    formula.map = AffineMap::getConstantMap(type.getDimSize(dim), context);
    return formula;
  }
  DialectRegistry registry;
  registerSizeInterfaces(registry);
  context->appendDialectRegistry(registry);

  // Stops at what is given, and at what nobody can look behind.
  auto stop = [](Value value, std::optional<int64_t>, ValueBoundsConstraintSet &) {
    if (isFunctionArgument(value))
      return true;
    Operation *op = value.getDefiningOp();
    return op && !op->hasTrait<OpTrait::ConstantLike>() &&
           !isa<ValueBoundsOpInterface, DestinationStyleOpInterface>(op);
  };
  ValueDimList operands;
  if (failed(ValueBoundsConstraintSet::computeBound(formula.map, operands, presburger::BoundType::EQ,
                                                    {tensor, dim}, stop))) {
    Operation *op = tensor.getDefiningOp();
    return makeError("it is no linear function of them" +
                     (op ? " ('" + op->getName().getStringRef() + "' makes the tensor)" : Twine()).str());
  }
  for (auto [value, operandDim] : operands) {
    if (!isFunctionArgument(value)) {
      Operation *op = value.getDefiningOp();
      return makeError(op ? "it depends on what '" + op->getName().getStringRef() + "' computes"
                          : Twine("it depends on a loop"));
    }
    formula.operands.emplace_back(cast<BlockArgument>(value).getArgNumber(), operandDim);
  }
  return formula;
}

std::optional<int64_t> SizeFormula::evaluate(LookupFn lookup) const {
  SmallVector<Attribute> values;
  Builder builder(map.getContext());
  for (const Operand &operand : operands) {
    std::optional<int64_t> value = lookup(operand);
    if (!value)
      return std::nullopt;
    values.push_back(builder.getIndexAttr(*value));
  }
  SmallVector<Attribute> results;
  if (failed(map.constantFold(values, results)))
    return std::nullopt;
  return cast<IntegerAttr>(results.front()).getInt();
}
