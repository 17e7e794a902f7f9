//===- WriteResultsInPlace.cpp - compute results in the caller's buffers -----===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Replacing a buffer changes the layout in its type, and with it the types of its views. The change is
// planned over all uses first and made only if every one of them can follow it.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Utils/Utils.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Interfaces/CallInterfaces.h"
#include "passes/Passes.h"

using namespace mlir;

namespace attn {
#define GEN_PASS_DEF_WRITERESULTSINPLACEPASS
#include "passes/Passes.h.inc"
} // namespace attn

//===----------------------------------------------------------------------===//
// Change of a buffer's layout
//===----------------------------------------------------------------------===//

/// The type of a view once its source has type `source`; null where there is no such view.
static MemRefType inferViewType(Operation *view, MemRefType source) {
  if (auto subview = dyn_cast<memref::SubViewOp>(view)) {
    if (subview.getType().getRank() == source.getRank())
      return memref::SubViewOp::inferResultType(source, subview.getMixedOffsets(), subview.getMixedSizes(),
                                                subview.getMixedStrides());
    return memref::SubViewOp::inferRankReducedResultType(subview.getType().getShape(), source,
                                                         subview.getMixedOffsets(), subview.getMixedSizes(),
                                                         subview.getMixedStrides());
  }
  if (auto expand = dyn_cast<memref::ExpandShapeOp>(view)) {
    FailureOr<MemRefType> type = memref::ExpandShapeOp::computeExpandedType(
        source, expand.getType().getShape(), expand.getReassociationIndices());
    return failed(type) ? MemRefType() : *type;
  }
  if (auto cast = dyn_cast<memref::CastOp>(view)) {
    auto type = dyn_cast<MemRefType>(cast.getType());
    if (!type)
      return {};
    // Never to the strides of the old type: a cast from dynamic strides to any other is legal, and wrong.
    auto shaped =
        MemRefType::get(type.getShape(), type.getElementType(), source.getLayout(), type.getMemorySpace());
    return memref::CastOp::areCastCompatible(source, shaped) ? shaped : MemRefType();
  }
  return {};
}

/// Collects in `types` the new type of each view of `buffer`, if that is to be of type `type`, and in `users`
/// what uses the buffer or a view. Fails where a user cannot follow: it passes the buffer on to code or
/// values not seen here.
static LogicalResult planLayoutChange(Value buffer, MemRefType type,
                                      SmallVectorImpl<std::pair<Value, MemRefType>> &types,
                                      SmallVectorImpl<Operation *> &users) {
  types.push_back({buffer, type});
  for (Operation *user : buffer.getUsers()) {
    users.push_back(user);
    if (isa<CallOpInterface>(user) || user->hasTrait<OpTrait::IsTerminator>())
      return failure();
    if (llvm::none_of(user->getResultTypes(), llvm::IsaPred<BaseMemRefType>))
      continue;
    MemRefType viewType = inferViewType(user, type);
    if (!viewType || failed(planLayoutChange(user->getResult(0), viewType, types, users)))
      return failure();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

/// Makes the source of a `copy` into an output buffer that buffer itself, if the source is an allocation of
/// this function that is done with by then.
static void writeInPlace(memref::CopyOp copy) {
  auto output = dyn_cast<BlockArgument>(copy.getTarget());
  auto function = copy->getParentOfType<func::FuncOp>();
  if (!output || !output.hasOneUse() || copy->getParentOp() != function ||
      output.getOwner() != copy->getBlock())
    return;
  Value source = copy.getSource();
  while (auto cast = source.getDefiningOp<memref::CastOp>())
    source = cast.getSource();
  auto alloc = source.getDefiningOp<memref::AllocOp>();
  if (!alloc || alloc->getBlock() != copy->getBlock())
    return;

  MemRefType allocType = alloc.getType();
  auto outputType = cast<MemRefType>(output.getType());
  auto newType = MemRefType::get(allocType.getShape(), allocType.getElementType(), outputType.getLayout());
  SmallVector<std::pair<Value, MemRefType>> types;
  SmallVector<Operation *> users;
  if (!memref::CastOp::areCastCompatible(outputType, newType) ||
      failed(planLayoutChange(source, newType, types, users)))
    return;
  for (Operation *user : users) {
    Operation *ancestor = copy->getBlock()->findAncestorOpInBlock(*user);
    if (!ancestor || (ancestor != copy && !ancestor->isBeforeInBlock(copy)))
      return;
  }

  Value copied = copy.getSource();
  copy.erase();
  while (copied != source && copied.use_empty()) {
    auto cast = copied.getDefiningOp<memref::CastOp>();
    copied = cast.getSource();
    llvm::erase_if(types, [&](const auto &entry) { return entry.first == cast.getResult(); });
    cast.erase();
  }
  for (auto [view, type] : types)
    view.setType(type);
  OpBuilder b(alloc);
  Value replacement = output;
  if (newType != outputType)
    replacement = memref::CastOp::create(b, alloc.getLoc(), newType, output);
  alloc.replaceAllUsesWith(replacement);
  alloc.erase();
}

namespace {
struct WriteResultsInPlace : attn::impl::WriteResultsInPlacePassBase<WriteResultsInPlace> {
  void runOnOperation() override {
    SmallVector<memref::CopyOp> copies;
    getOperation().walk([&](memref::CopyOp copy) { copies.push_back(copy); });
    for (memref::CopyOp copy : copies)
      writeInPlace(copy);
  }
};
} // namespace
