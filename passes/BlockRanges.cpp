//===- BlockRanges.cpp - the ranges of one block, in a kernel ----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/BlockRanges.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace attn;

static Value divide(ImplicitLocOpBuilder &b, Value position, int64_t size) {
  return arith::DivSIOp::create(b, position, arith::ConstantIndexOp::create(b, size).getResult());
}

ListedBlocks ListedBlocks::get(ImplicitLocOpBuilder &b, OnlineAttentionOp op, Value lists, Value batch,
                               Value head, Value begin) {
  ArrayRef<int64_t> shape = op.getBlockLists().getType().getShape();
  ArrayRef<int64_t> blocks = op.getBlocksAttr().asArrayRef();
  Value zero = arith::ConstantIndexOp::create(b, 0);
  ListedBlocks listed;
  listed.lists = lists;
  listed.batch = shape[0] == 1 ? zero : batch;
  listed.head = shape[1] == 1 ? zero : head;
  listed.blocksKeys = op.blocksKeys();
  listed.block = divide(b, begin, blocks[listed.blocksKeys ? 1 : 0]);
  listed.streamedSize = blocks[listed.blocksKeys ? 0 : 1];
  return listed;
}

Value ListedBlocks::getBlock(ImplicitLocOpBuilder &b, Value position) const {
  return divide(b, position, streamedSize);
}

Value ListedBlocks::load(ImplicitLocOpBuilder &b, Value streamedBlock, BlockKind kind) const {
  Value row = block, column = streamedBlock;
  if (blocksKeys)
    std::swap(row, column);
  Value number = arith::ConstantIndexOp::create(b, getListNumber(blocksKeys, kind));
  Value next = memref::LoadOp::create(b, lists, ValueRange{batch, head, row, column, number});
  return arith::IndexCastOp::create(b, b.getIndexType(), next);
}

Value ListedBlocks::getNext(ImplicitLocOpBuilder &b, Value position, BlockKind kind) const {
  Value begin = arith::MulIOp::create(b, load(b, getBlock(b, position), kind),
                                      arith::ConstantIndexOp::create(b, streamedSize).getResult(),
                                      arith::IntegerOverflowFlags::nsw);
  return arith::MaxSIOp::create(b, position, begin);
}

Value ListedBlocks::isFull(ImplicitLocOpBuilder &b, Value position) const {
  Value number = getBlock(b, position);
  return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, load(b, number, BlockKind::full), number);
}

BlockRanges BlockRanges::get(YieldRangesOp yield, ValueRange bounds) {
  BlockRanges ranges;
  size_t next = 0;
  auto take = [&](size_t count, SmallVectorImpl<Range> &into) {
    for (size_t i = 0; i < count; ++i)
      into.emplace_back(bounds[next + i], bounds[next + count + i]);
    next += 2 * count;
  };
  take(yield.getVisitedBegins().size(), ranges.visited);
  take(yield.getMaskedBegins().size(), ranges.masked);
  ranges.inexact = yield.getInexact();
  return ranges;
}

Value attn::meetsAny(ImplicitLocOpBuilder &b, ArrayRef<BlockRanges::Range> ranges, Value begin, Value end) {
  Value any;
  for (auto [first, last] : ranges) {
    // max(first, begin) < min(last, end): also false for a range that is empty itself.
    Value meets = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, arith::MaxSIOp::create(b, first, begin),
                                        arith::MinSIOp::create(b, last, end));
    any = any ? arith::OrIOp::create(b, any, meets).getResult() : meets;
  }
  return any ? any : arith::ConstantIntOp::create(b, 0, 1);
}
