//===- LowerBlockLists.cpp - --attn-lower-block-lists ------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/BlockLists.h"
#include "passes/BlockRanges.h"
#include "passes/BufferTypes.h"
#include "passes/NarrowIndices.h"
#include "passes/Passes.h"
#include "passes/WorkIndex.h"

using namespace mlir;
using namespace attn;

namespace attn {
#define GEN_PASS_DEF_LOWERBLOCKLISTSPASS
#include "passes/Passes.h.inc"
} // namespace attn

namespace {
class BlockListsLowering {
public:
  BlockListsLowering(BlockListsOp op) : op(op), b(op.getLoc(), op) {}
  void run();

private:
  /// The block that a list goes through: its batch entry, head, row and column.
  struct Place {
    Value batch, head, row, column;
  };
  void linkRows();
  void linkColumns();
  /// Runs `getState` for the blocks of each row, or each column, from the last one on, and stores which are
  /// next.
  void linkBlocks(bool alongColumn, function_ref<BlockState(const Place &)> getState);

  Value index(int64_t value) { return arith::ConstantIndexOp::create(b, value); }
  Value add(Value lhs, Value rhs) { return arith::AddIOp::create(b, lhs, rhs); }
  Value sub(Value lhs, Value rhs) { return arith::SubIOp::create(b, lhs, rhs); }
  Value mul(Value lhs, Value rhs) { return arith::MulIOp::create(b, lhs, rhs); }

  BlockListsOp op;
  ImplicitLocOpBuilder b;
  Value lists, qLen, kvLen;
  SmallVector<Value> captures;
  RegionInlining inlining;
};
} // namespace

void BlockListsLowering::linkBlocks(bool alongColumn, function_ref<BlockState(const Place &)> getState) {
  SmallVector<Value> sizes;
  for (int64_t dim = 0; dim < 4; ++dim)
    sizes.push_back(b.createOrFold<memref::DimOp>(lists, dim));
  Value numLines = sizes[alongColumn ? 3 : 2], numBlocks = sizes[alongColumn ? 2 : 3], one = index(1);
  Value total = mul(mul(sizes[0], sizes[1]), numLines);
  auto forall = scf::ForallOp::create(b, ArrayRef<OpFoldResult>{total}, ValueRange(), std::nullopt);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(forall.getBody());
  Value work = forall.getInductionVar(0);
  Value line = takeDigit(b, work, numLines), head = takeDigit(b, work, sizes[1]), batch = work;
  auto loop = scf::ForOp::create(b, index(0), numBlocks, one, ValueRange{numBlocks, numBlocks});
  b.setInsertionPointToStart(loop.getBody());
  Value block = sub(sub(numBlocks, one), loop.getInductionVar());
  Place place{batch, head, line, block};
  if (alongColumn)
    std::swap(place.row, place.column);
  BlockState state = getState(place);
  Value isPartial = arith::AndIOp::create(
      b, state.any, arith::XOrIOp::create(b, state.all, arith::ConstantIntOp::create(b, 1, 1)));
  SmallVector<Value> next;
  for (auto [kind, isKind] : {std::pair(BlockKind::partial, isPartial), {BlockKind::full, state.all}}) {
    next.push_back(arith::SelectOp::create(b, isKind, block, loop.getRegionIterArg(next.size())));
    memref::StoreOp::create(b, arith::IndexCastOp::create(b, b.getI32Type(), next.back()), lists,
                            ValueRange{place.batch, place.head, place.row, place.column,
                                       index(getListNumber(alongColumn, kind))});
  }
  scf::YieldOp::create(b, next);
}

void BlockListsLowering::linkRows() {
  linkBlocks(/*alongColumn=*/false, [&](const Place &place) {
    auto getSide = [&](Value block, int64_t size, Value length) {
      Value begin = mul(block, index(size));
      return BlockSide{begin, arith::MinSIOp::create(b, add(begin, index(size)), length), begin, 1};
    };
    return evaluateBlock(b, op, place.batch, place.head, getSide(place.row, op.getBlocks()[0], qLen),
                         getSide(place.column, op.getBlocks()[1], kvLen), captures, inlining,
                         [](BlockState state) { return state; });
  });
}

void BlockListsLowering::linkColumns() {
  linkBlocks(/*alongColumn=*/true, [&](const Place &place) -> BlockState {
    auto isNextOf = [&](BlockKind kind) -> Value {
      Value next = memref::LoadOp::create(b, lists,
                                          ValueRange{place.batch, place.head, place.row, place.column,
                                                     index(getListNumber(/*alongColumn=*/false, kind))});
      return arith::CmpIOp::create(b, arith::CmpIPredicate::eq,
                                   arith::IndexCastOp::create(b, b.getIndexType(), next), place.column);
    };
    Value isFull = isNextOf(BlockKind::full);
    return {arith::OrIOp::create(b, isNextOf(BlockKind::partial), isFull), isFull};
  });
}

void BlockListsLowering::run() {
  narrowIndices(op.getMask(), op.getCaptures().size());
  lists = allocateLists(b, op);
  qLen = tensor::DimOp::create(b, op.getQuery(), 2);
  kvLen = tensor::DimOp::create(b, op.getKey(), 2);
  for (Value capture : op.getCaptures()) {
    if (auto type = dyn_cast<RankedTensorType>(capture.getType()))
      capture =
          bufferization::ToBufferOp::create(b, getBoundaryBufferType(type), capture, /*read_only=*/true);
    captures.push_back(capture);
  }
  inlining.queryLength = [&](OpBuilder &, Location, Value) { return qLen; };
  inlining.keyLength = [&](OpBuilder &, Location, Value) { return kvLen; };
  inlining.readCapture = [](OpBuilder &builder, Location loc, Value buffer, ValueRange indices) -> Value {
    return memref::LoadOp::create(builder, loc, buffer, indices);
  };
  linkRows();
  linkColumns();
  op.getLists().replaceAllUsesWith(bufferization::ToTensorOp::create(b, op.getLists().getType(), lists,
                                                                     /*restrict=*/true,
                                                                     /*writable=*/true));
  op.erase();
}

namespace {
struct LowerBlockListsPass : attn::impl::LowerBlockListsPassBase<LowerBlockListsPass> {
  void runOnOperation() override {
    SmallVector<BlockListsOp> ops;
    getOperation()->walk([&](BlockListsOp op) { ops.push_back(op); });
    for (BlockListsOp op : ops) {
      if (failed(verifyInlinable(op)))
        return signalPassFailure();
      BlockListsLowering(op).run();
    }
  }
};
} // namespace
