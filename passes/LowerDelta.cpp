//===- LowerDelta.cpp - --attn-lower-delta -----------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "passes/CpuTile.h"
#include "passes/Passes.h"
#include "passes/RegionUtils.h"

using namespace mlir;
using namespace attn;

namespace attn {
#define GEN_PASS_DEF_LOWERDELTAPASS
#include "passes/Passes.h.inc"
} // namespace attn

/// The sum is that of the kernels' products, in the same parts and with the same multiply-add (which is fused
/// only where the target can): where a row gives all its weight to one key, out is the value of that key, and
/// d_out * v^T - delta has to be 0 to the last bit.
static Value buildDelta(ImplicitLocOpBuilder &b, DeltaOp op) {
  RankedTensorType rowType = op.getDelta().getType();
  Type compute = rowType.getElementType();
  SmallVector<Value> dynamicDims;
  for (int64_t dim = 0; dim < 3; ++dim)
    if (rowType.isDynamicDim(dim))
      dynamicDims.push_back(tensor::DimOp::create(b, op.getOut(), dim));
  Value empty = tensor::EmptyOp::create(b, rowType.getShape(), compute, dynamicDims);
  Value zero = arith::ConstantOp::create(b, cast<TypedAttr>(b.getZeroAttr(compute)));
  auto index = [&](int64_t value) -> Value { return arith::ConstantIndexOp::create(b, value); };
  Value first = index(0), last = index(op.getOut().getType().getDimSize(3)), one = index(1),
        partDepth = index(kPartDepth);

  auto buildRow = [&](OpBuilder &builder, Location loc, ValueRange args) {
    ImplicitLocOpBuilder b(loc, builder);
    SmallVector<Value> row;
    for (int64_t dim = 0; dim < 3; ++dim)
      row.push_back(linalg::IndexOp::create(b, dim));
    auto single = VectorType::get({1}, compute);
    auto read = [&](Value tensor, Value column) -> Value {
      SmallVector<Value> position = row;
      position.push_back(column);
      Value element = tensor::ExtractOp::create(b, tensor, position);
      return vector::BroadcastOp::create(b, single, convertFloat(b, loc, element, compute));
    };
    auto sum = [&](Value begin, Value end, Value step, function_ref<Value(Value, Value)> add) -> Value {
      auto loop = scf::ForOp::create(b, begin, end, step, zero);
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(loop.getBody());
      scf::YieldOp::create(b, add(loop.getInductionVar(), loop.getRegionIterArg(0)));
      return loop.getResult(0);
    };
    Value total = sum(first, last, partDepth, [&](Value begin, Value total) -> Value {
      Value end = arith::MinSIOp::create(b, arith::AddIOp::create(b, begin, partDepth), last);
      Value part = sum(begin, end, one, [&](Value column, Value part) -> Value {
        Value next = vector::FMAOp::create(b, read(op.getDOut(), column), read(op.getOut(), column),
                                           vector::BroadcastOp::create(b, single, part));
        return vector::ExtractOp::create(b, next, 0);
      });
      return arith::AddFOp::create(b, total, part);
    });
    if (op.getDLse())
      total = arith::SubFOp::create(b, total, args[0]);
    linalg::YieldOp::create(b, total);
  };
  SmallVector<Value> ins;
  if (op.getDLse())
    ins.push_back(op.getDLse());
  SmallVector<AffineMap> maps(ins.size() + 1, AffineMap::getMultiDimIdentityMap(3, b.getContext()));
  SmallVector<utils::IteratorType> iterators(3, utils::IteratorType::parallel);
  return linalg::GenericOp::create(b, TypeRange(rowType), ins, empty, maps, iterators, buildRow).getResult(0);
}

namespace {
struct LowerDeltaPass : attn::impl::LowerDeltaPassBase<LowerDeltaPass> {
  void runOnOperation() override {
    SmallVector<DeltaOp> ops;
    getOperation()->walk([&](DeltaOp op) { ops.push_back(op); });
    for (DeltaOp op : ops) {
      ImplicitLocOpBuilder b(op.getLoc(), op);
      op.replaceAllUsesWith(buildDelta(b, op));
      op.erase();
    }
  }
};
} // namespace
