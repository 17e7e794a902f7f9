//===- AttnRegions.cpp - verifiers of regions and what is in them ------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialect/AttnRegions.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/CallInterfaces.h"

using namespace mlir;
using namespace attn;

/// (A6), (A8): what a region may hold. Types are checked too, so that lowerings meet scalars only.
static LogicalResult verifyRegionOps(Operation *op, Region &region, StringRef name) {
  auto isScalar = [](Type type) { return type.isIntOrIndexOrFloat(); };
  WalkResult result = region.walk<WalkOrder::PreOrder>([&](Operation *nested) {
    StringRef dialect = nested->getName().getDialectNamespace();
    bool allowed = isa<YieldOp, YieldRangesOp, QLenOp, KvLenOp, AccumulateGradientOp, scf::IfOp, scf::YieldOp,
                       tensor::ExtractOp>(nested) ||
                   dialect == "arith" || dialect == "math" || dialect == "index" ||
                   isa<CallOpInterface>(nested);
    if (!allowed) {
      op->emitOpError("expected the ")
          << name
          << " region to hold arith, math and index operations, scf.if, tensor.extract, "
             "attn.q_len and attn.kv_len, got '"
          << nested->getName() << "' [A6]";
      return WalkResult::interrupt();
    }
    bool scalarOperands = isa<tensor::ExtractOp, AccumulateGradientOp, CallOpInterface>(nested) ||
                          llvm::all_of(nested->getOperandTypes(), isScalar);
    if (!scalarOperands || !llvm::all_of(nested->getResultTypes(), isScalar)) {
      op->emitOpError("expected '") << nested->getName() << "' in the " << name
                                    << " region to have scalar operands and results [A6]";
      return WalkResult::interrupt();
    }
    APInt constant;
    if (name != "ranges" && nested->getNumResults() == 1 && nested->getResult(0).getType().isIndex() &&
        matchPattern(nested, m_ConstantInt(&constant)) && !constant.isSignedIntN(32) &&
        !constant.isIntN(32)) {
      op->emitOpError("expected index constants from -2^31 to 2^32 - 1 in the ")
          << name << " region, since indices have 32 bits there, got " << constant.getSExtValue() << " [A8]";
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

/// (A5), (B3), (O4), (BL1): the arguments of a region are `fixed`, then the captures.
static LogicalResult verifyRegion(Operation *op, ValueRange captures, Region &region, StringRef name,
                                  ArrayRef<Type> fixed, StringRef label) {
  if (region.empty())
    return success();
  SmallVector<Type> expected(fixed);
  llvm::append_range(expected, captures.getTypes());
  if (region.getArgumentTypes() != TypeRange(expected))
    return op->emitOpError("expected the ")
           << name << " region to take (" << TypeRange(expected) << "), got ("
           << TypeRange(region.getArgumentTypes()) << ") [" << label << "]";
  return verifyRegionOps(op, region, name);
}

static LogicalResult verifyYield(Operation *op, Region &region, StringRef name, Type type, StringRef label) {
  if (region.empty())
    return success();
  auto yield = dyn_cast<YieldOp>(region.front().back());
  if (!yield)
    return op->emitOpError("expected the ") << name << " region to end in attn.yield [" << label << "]";
  if (yield.getValue().getType() != type)
    return op->emitOpError("expected the ") << name << " region to yield " << type << ", got "
                                            << yield.getValue().getType() << " [" << label << "]";
  return success();
}

LogicalResult attn::verifyMask(Operation *op, ValueRange captures, Region &mask, StringRef label) {
  Type index = IndexType::get(op->getContext());
  Type i1 = IntegerType::get(op->getContext(), 1);
  return failure(failed(verifyRegion(op, captures, mask, "mask", {index, index, index, index}, label)) ||
                 failed(verifyYield(op, mask, "mask", i1, label)));
}

LogicalResult attn::verifyRanges(Operation *op, ValueRange captures, Region &ranges, StringRef label) {
  Type index = IndexType::get(op->getContext());
  if (failed(verifyRegion(op, captures, ranges, "ranges", {index, index, index, index}, label)))
    return failure();
  if (!ranges.empty() && !isa<YieldRangesOp>(ranges.front().back()))
    return op->emitOpError("expected the ranges region to end in attn.yield_ranges [") << label << "]";
  return success();
}

LogicalResult attn::verifyScoreAndMask(AttentionOpInterface op) {
  if (op.getBlockLists() && op.getMask().empty())
    return op->emitOpError("expected a mask region where there are block lists [A10]");
  Type index = IndexType::get(op.getContext());
  Type compute = op.getComputeType();
  return failure(failed(verifyRegion(op, op.getCaptures(), op.getScore(), "score",
                                     {compute, index, index, index, index}, "A5")) ||
                 failed(verifyYield(op, op.getScore(), "score", compute, "A5")) ||
                 failed(verifyMask(op, op.getCaptures(), op.getMask(), "A5")));
}

LogicalResult attn::verifyGradient(AttentionOpInterface op, Region &gradient) {
  if (gradient.empty())
    return success();
  if (op.getScore().empty())
    return op->emitOpError("expected no gradient region without a score region [B3]");
  Type index = IndexType::get(op.getContext());
  Type compute = op.getComputeType();
  return failure(failed(verifyRegion(op, op.getCaptures(), gradient, "gradient",
                                     {compute, compute, index, index, index, index}, "B3")) ||
                 failed(verifyYield(op, gradient, "gradient", compute, "B3")));
}

//===----------------------------------------------------------------------===//
// The operations inside regions
//===----------------------------------------------------------------------===//

/// (L1)
static LogicalResult verifyLengthOp(Operation *op) {
  if (op->getParentOfType<AttentionOpInterface>() || op->getParentOfType<BlockListsOp>())
    return success();
  return op->emitOpError("expected to stand in a region of an attention operation [L1]");
}

LogicalResult QLenOp::verify() { return verifyLengthOp(*this); }
LogicalResult KvLenOp::verify() { return verifyLengthOp(*this); }

LogicalResult YieldRangesOp::verify() {
  if (getVisitedBegins().size() != getVisitedEnds().size() ||
      getMaskedBegins().size() != getMaskedEnds().size())
    return emitOpError("expected as many ends as begins [R1]");
  return success();
}

LogicalResult AccumulateGradientOp::verify() {
  auto argument = dyn_cast<BlockArgument>(getCapture());
  auto attention = (*this)->getParentOfType<AttentionOpInterface>();
  auto isGradientRegion = [&](Region *region) {
    if (auto backward = dyn_cast_or_null<AttentionBackwardOp>(attention.getOperation()))
      return region == &backward.getGradient();
    auto online = dyn_cast_or_null<OnlineAttentionOp>(attention.getOperation());
    return online && region == &online.getGradient();
  };
  if (!argument || !isGradientRegion(argument.getOwner()->getParent()) ||
      argument.getArgNumber() < GradientArgs::numFixed || !hasGradient(argument.getType()))
    return emitOpError("expected a floating capture of the enclosing gradient region [G1]");
  auto tensor = dyn_cast<RankedTensorType>(argument.getType());
  size_t rank = tensor ? tensor.getRank() : 0;
  if (getIndices().size() != rank)
    return emitOpError("expected ") << rank << " indices, got " << getIndices().size() << " [G2]";
  if (getValue().getType() != attention.getComputeType())
    return emitOpError("expected a value of type ")
           << attention.getComputeType() << ", got " << getValue().getType() << " [G3]";
  return success();
}
