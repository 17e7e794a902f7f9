//===- BlockRanges.cpp - the ranges of one block, in a kernel ----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/BlockRanges.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace attn;

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
