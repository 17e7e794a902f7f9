//===- LoadColumns.cpp - --attn-tile-load-columns ----------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialect/AttnTileDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "passes/Passes.h"
#include "passes/RegionUtils.h"

using namespace mlir;
using namespace attn;
using namespace attn::tile;

namespace attn {
#define GEN_PASS_DEF_LOADCOLUMNSPASS
#include "passes/Passes.h.inc"
} // namespace attn

/// Of a thread, for addresses and bounds: kernels of the hopper family with more in fragments spill.
static constexpr int64_t kOtherRegisters = 24;

/// What the last index of `load` adds to the column of an element of `over`, if that and the other indices
/// are the same for all elements.
static Value getFirstPosition(memref::LoadOp load, Operation *over) {
  auto isInside = [&](Value value) { return over->isAncestor(value.getParentBlock()->getParentOp()); };
  if (load.getIndices().empty() || llvm::any_of(load.getIndices().drop_back(), isInside))
    return {};
  auto sum = load.getIndices().back().getDefiningOp<arith::AddIOp>();
  Value column = over->getRegion(0).getArgument(1);
  for (unsigned i : {0, 1})
    if (sum && sum->getOperand(i) == column && !isInside(sum->getOperand(1 - i)))
      return sum->getOperand(1 - i);
  return {};
}

/// Where loads of `indices` for `over` start: before the wait for the product that `over` works on.
static Operation *getEarliest(Operation *over, ValueRange indices) {
  for (Operation *op = over->getPrevNode(); op; op = op->getPrevNode()) {
    if (llvm::any_of(indices, [&](Value index) { return index.getDefiningOp() == op; }))
      break;
    if (isa<MmaWaitOp>(op))
      return op;
  }
  return over;
}

/// A name for the fragment of a load: that of the value, if it has one.
static std::string getColumnsName(memref::LoadOp load) {
  auto name = dyn_cast<NameLoc>(load.getLoc());
  std::string prefix = name ? name.getName().str() + "_" : "";
  bool isIdentifier = llvm::all_of(prefix, [](char c) { return llvm::isAlnum(c) || c == '_'; });
  return (isIdentifier && (prefix.empty() || !llvm::isDigit(prefix[0])) ? prefix : "") + "columns";
}

/// 32-bit registers that a thread has left beside the fragments of its kernel and the columns that others
/// than `over` have in the same iteration: ptxas has their loads on the way at once.
static int64_t getFreeRegisters(Operation *over) {
  auto function = over->getParentOfType<gpu::GPUFuncOp>();
  int64_t most = 255;
  if (auto roles = over->getParentOfType<WarpSpecializeOp>())
    most = roles.getConsumerRegisters();
  else if (auto kernel = function->getAttrOfType<KernelAttr>(AttnTileDialect::getKernelAttrName()))
    most = std::min(most, 65536 / (32 * kernel.getWarps() * kernel.getBlocksPerMultiprocessor()));
  int64_t held = kOtherRegisters;
  function.walk([&](FragmentAllocOp alloc) {
    if (!alloc.getType().isColumns())
      held += alloc.getType().getRegisters();
  });
  for (Operation *at = over; !isa<gpu::GPUFuncOp, LoopLikeOpInterface>(at); at = at->getParentOp())
    for (FragmentAllocOp alloc : at->getBlock()->getOps<FragmentAllocOp>())
      if (alloc.getType().isColumns())
        held += alloc.getType().getRegisters();
  return most - held;
}

namespace {
struct LoadColumnsPass : attn::impl::LoadColumnsPassBase<LoadColumnsPass> {
  void runOnOperation() override {
    SmallVector<Operation *> elementwise;
    getOperation()->walk([&](Operation *op) {
      if (isa<MapOp, AnyOp>(op) && getNumIndexArgs(op) == 2)
        elementwise.push_back(op);
    });
    for (Operation *op : elementwise) {
      auto map = dyn_cast<MapOp>(op);
      if (map && map.getRelative())
        continue;
      int64_t free = getFreeRegisters(op);
      op->walk([&](memref::LoadOp load) { loadColumns(load, op, free); });
    }
  }

  void loadColumns(memref::LoadOp load, Operation *over, int64_t &free) {
    Type element = load.getType();
    Value first = getFirstPosition(load, over);
    if (!first || !isOnlyRead(load.getMemRef()) || !element.isIntOrFloat() ||
        element.getIntOrFloatBitWidth() > 32)
      return;
    auto isAccumulator = [](Type type) {
      return cast<FragmentType>(type).getLayout() == Layout::accumulator;
    };
    auto whole = cast<FragmentType>(*llvm::find_if(over->getOperandTypes(), isAccumulator));
    SmallVector<Value> indices(load.getIndices());
    indices.back() = first;

    FragmentType type = whole.getColumnsType(element);
    if (type.getRegisters() > free)
      return;
    free -= type.getRegisters();
    ImplicitLocOpBuilder b(over->getLoc(), getEarliest(over, indices));
    Value columns = FragmentAllocOp::create(b, type, b.getStringAttr(getColumnsName(load)));
    LoadColumnsOp::create(b, load.getMemRef(), indices, columns);

    Block &body = over->getRegion(0).front();
    unsigned numIns = isa<MapOp>(over) ? cast<MapOp>(over).getIns().size() : over->getNumOperands();
    if (auto map = dyn_cast<MapOp>(over))
      map.getInsMutable().append(columns);
    else
      cast<AnyOp>(over).getInsMutable().append(columns);
    BlockArgument value = body.insertArgument(getNumIndexArgs(over) + numIns, element, load.getLoc());
    load.replaceAllUsesWith(Value(value));
    load.erase();
  }
};
} // namespace
