//===- BlockLists.cpp - evaluating the blocks of a mask ----------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/BlockLists.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/BlockRanges.h"

using namespace mlir;
using namespace attn;

static BlockState evaluatePairs(ImplicitLocOpBuilder &b, BlockListsOp op, Value batch, Value head,
                                const BlockSide &queries, const BlockSide &keys, ValueRange captures,
                                const RegionInlining &inlining) {
  using Body = function_ref<BlockState(Value, BlockState)>;
  auto name = [&](BlockArgument argument, StringRef text) {
    argument.setLoc(NameLoc::get(b.getStringAttr(text), b.getLoc()));
  };
  auto loop = [&](const BlockSide &side, StringRef what, BlockState initial, Body body) -> BlockState {
    OpBuilder::InsertionGuard guard(b);
    Value step = arith::ConstantIndexOp::create(b, side.step);
    auto nest = scf::ForOp::create(b, side.first, side.end, step, ValueRange{initial.any, initial.all});
    name(cast<BlockArgument>(nest.getInductionVar()), what);
    name(nest.getRegionIterArg(0), "any_kept");
    name(nest.getRegionIterArg(1), "all_kept");
    b.setInsertionPointToStart(nest.getBody());
    BlockState state = body(nest.getInductionVar(), {nest.getRegionIterArg(0), nest.getRegionIterArg(1)});
    scf::YieldOp::create(b, ValueRange{state.any, state.all});
    return {nest.getResult(0), nest.getResult(1)};
  };
  BlockState none{arith::ConstantIntOp::create(b, 0, 1), arith::ConstantIntOp::create(b, 1, 1)};
  // What depends on the key alone is the same for all queries of a thread.
  return loop(keys, "kv_idx", none, [&](Value key, BlockState outer) {
    return loop(queries, "q_idx", outer, [&](Value query, BlockState state) -> BlockState {
      SmallVector<Value> arguments{batch, head, query, key};
      llvm::append_range(arguments, captures);
      Value keep = inlineRegion(b, op.getMask(), arguments, inlining);
      return {arith::OrIOp::create(b, state.any, keep), arith::AndIOp::create(b, state.all, keep)};
    });
  });
}

BlockState attn::evaluateBlock(ImplicitLocOpBuilder &b, BlockListsOp op, Value batch, Value head,
                               const BlockSide &queries, const BlockSide &keys, ValueRange captures,
                               const RegionInlining &inlining, function_ref<BlockState(BlockState)> combine) {
  if (op.getRanges().empty())
    return combine(evaluatePairs(b, op, batch, head, queries, keys, captures, inlining));
  SmallVector<Value> arguments{batch, head, queries.begin, queries.end};
  llvm::append_range(arguments, captures);
  auto yield = cast<YieldRangesOp>(op.getRanges().front().getTerminator());
  BlockRanges ranges = BlockRanges::get(yield, inlineRanges(b, op.getRanges(), arguments, inlining));
  Value isVisited = meetsAny(b, ranges.visited, keys.begin, keys.end),
        isMasked = meetsAny(b, ranges.masked, keys.begin, keys.end);
  Type i1 = b.getI1Type();
  auto branch = scf::IfOp::create(b, TypeRange{i1, i1}, arith::AndIOp::create(b, isVisited, isMasked),
                                  /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  BlockState state = combine(evaluatePairs(b, op, batch, head, queries, keys, captures, inlining));
  scf::YieldOp::create(b, ValueRange{state.any, state.all});
  b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(b, ValueRange{isVisited, isVisited});
  return {branch.getResult(0), branch.getResult(1)};
}

Value attn::allocateLists(ImplicitLocOpBuilder &host, BlockListsOp op) {
  RankedTensorType type = op.getLists().getType();
  SmallVector<Value> sizes;
  for (int64_t dim = 0; dim < 4; ++dim) {
    if (!type.isDynamicDim(dim))
      continue;
    Value size = tensor::DimOp::create(host, dim == 3 ? op.getKey() : op.getQuery(), dim == 3 ? 2 : dim);
    if (dim >= 2)
      size = arith::CeilDivSIOp::create(
          host, size, arith::ConstantIndexOp::create(host, op.getBlocks()[dim - 2]).getResult());
    sizes.push_back(size);
  }
  return memref::AllocOp::create(host, MemRefType::get(type.getShape(), type.getElementType()), sizes);
}
