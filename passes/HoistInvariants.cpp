//===- HoistInvariants.cpp - --attn-tile-hoist-invariants --------------------===//
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
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/LoopInvariantCodeMotionUtils.h"
#include "passes/Passes.h"
#include "passes/RegionUtils.h"

using namespace mlir;
using namespace attn;

namespace attn {
#define GEN_PASS_DEF_HOISTINVARIANTSPASS
#include "passes/Passes.h.inc"
} // namespace attn

/// Whether `op` may be computed earlier, and where it would not have been.
static bool canMove(Operation *op) {
  // The load of a kernel checks its position (codegen/device/attn/scalar.cuh).
  if (auto load = dyn_cast<memref::LoadOp>(op))
    return isOnlyRead(load.getMemRef());
  return !op->hasTrait<OpTrait::ConstantLike>() && isPure(op);
}

/// x / y, where `arcp` allows it and y is the same for all elements, becomes x * (1 / y): one division then.
static void multiplyByReciprocal(arith::DivFOp division, tile::MapOp map) {
  Value divisor = division.getRhs();
  if (!bitEnumContainsAll(division.getFastmath(), arith::FastMathFlags::arcp) ||
      map->isAncestor(divisor.getParentBlock()->getParentOp()))
    return;
  ImplicitLocOpBuilder b(division.getLoc(), division.getContext());
  b.setInsertionPointToStart(&map->getParentOfType<gpu::GPUFuncOp>().getBody().front());
  Value one = arith::ConstantOp::create(b, b.getFloatAttr(divisor.getType(), 1));
  b.setInsertionPoint(division);
  Value reciprocal = arith::DivFOp::create(b, one, divisor);
  division.replaceAllUsesWith(
      arith::MulFOp::create(b, division.getLhs(), reciprocal, division.getFastmath()).getResult());
  division.erase();
}

namespace {
struct HoistInvariantsPass : attn::impl::HoistInvariantsPassBase<HoistInvariantsPass> {
  void runOnOperation() override {
    getOperation()->walk([&](tile::MapOp map) {
      map.walk([&](arith::DivFOp division) { multiplyByReciprocal(division, map); });
      // Only what a map computes moves, from one operation around it to the next.
      llvm::SmallPtrSet<Operation *, 8> moved;
      for (Operation *around = map; !isa<gpu::GPUFuncOp>(around); around = around->getParentOp()) {
        for (Region &region : around->getRegions())
          moveLoopInvariantCode(
              &region,
              [&](Value value, Region *) {
                return !around->isAncestor(value.getParentBlock()->getParentOp());
              },
              [&](Operation *op, Region *) { return (around == map || moved.contains(op)) && canMove(op); },
              [&](Operation *op, Region *) {
                op->moveBefore(around);
                moved.insert(op);
              });
        if (moved.empty())
          return;
      }
    });
  }
};
} // namespace
