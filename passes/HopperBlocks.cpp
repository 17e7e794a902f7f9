//===- HopperBlocks.cpp - the blocks of keys that a tile of the hopper family visits ===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/HopperForward.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace mlir;
using namespace attn;

/// Blocks that would need more comparisons than this are not told apart: all count as masked.
static constexpr size_t kMaxComparisons = 32;

/// `value` as the sum of `argument` and a constant, or nothing.
static std::optional<int64_t> getDistance(Value value, Value argument) {
  if (value == argument)
    return 0;
  auto sum = value.getDefiningOp<arith::AddIOp>();
  std::optional<int64_t> constant = sum ? getConstantIntValue(sum.getRhs()) : std::nullopt;
  return sum && sum.getLhs() == argument ? constant : std::nullopt;
}

/// Whether at most one block of keys that a tile of queries visits is masked: where the keys end (`masked`
/// has no range for it), or between the first column that a row of the tile drops and the last one that a
/// row keeps, if both are as far from the tile for all tiles.
static bool masksOneBlock(YieldRangesOp yield, int64_t blockM, int64_t blockN) {
  if (yield.getMaskedBegins().size() != 1)
    return yield.getMaskedBegins().empty();
  Block *block = yield->getBlock();
  Value begin = block->getArgument(2), end = block->getArgument(3);
  std::optional<int64_t> first = getDistance(yield.getMaskedBegins().front(), begin);
  std::optional<int64_t> last = getDistance(yield.getVisitedEnds().front(), end);
  if (!yield.getMaskedEnds().front().getDefiningOp<KvLenOp>() || !first || !last)
    return false;
  int64_t most = 0;
  for (int64_t offset = 0, step = std::gcd(blockM, blockN); offset < blockN; offset += step)
    most = std::max(most, llvm::divideCeilSigned(offset + blockM + *last, blockN) -
                              llvm::divideFloorSigned(offset + *first, blockN));
  return most <= 1;
}

void HopperForwardKernel::findFullBetween(VisitedBlocks &blocks, const BlockRanges &ranges) {
  Value filled = named(roundDown(kvLen), "kv_filled");
  if (ranges.all) {
    blocks.full = {blocks.visited.front().first, filled};
    return;
  }
  if (blocks.visited.size() != 1)
    return;
  auto yield = cast<YieldRangesOp>(op.getRanges().front().getTerminator());
  SmallVector<Value> begins{filled}, ends;
  for (auto [begin, end, range] :
       llvm::zip_equal(yield.getMaskedBegins(), yield.getMaskedEnds(), ranges.masked)) {
    if (end.getDefiningOp<KvLenOp>())
      begins.push_back(roundDown(arith::MaxSIOp::create(b, range.first, index(0))));
    else if (getConstantIntValue(begin) == 0)
      ends.push_back(roundUp(clampToKeys(range.second)));
    else
      return;
  }
  auto [first, end] = blocks.visited.front();
  if (!ends.empty()) {
    for (Value masked : ends)
      first = arith::MaxSIOp::create(b, first, masked);
    first = named(arith::MinSIOp::create(b, first, end), "full_begin");
  }
  Value last = end;
  for (Value masked : begins)
    last = arith::MinSIOp::create(b, last, masked);
  blocks.full = {first, named(arith::MaxSIOp::create(b, first, last), "full_end")};
  blocks.hasMasked = !masksOneBlock(yield, blockM(), blockN());
}

VisitedBlocks HopperForwardKernel::getVisitedBlocks() {
  Value queryEnd = named(arith::MinSIOp::create(b, add(begin, index(blockM())), qLen), "q_end");
  BlockRanges ranges = evaluateRanges(batch, head, begin, queryEnd);
  VisitedBlocks blocks;
  Value zero = index(0);
  if (ranges.listed) {
    blocks.listed = ranges.listed;
    blocks.hasMasked = true;
    // The lists do not count the keys that are not there.
    Value filled = roundDown(kvLen);
    Value rest = arith::SelectOp::create(b, ranges.listed->isFull(b, filled), filled, kvEnd);
    blocks.masked.emplace_back(named(rest, "kv_filled"), kvEnd);
    blocks.firstFull = named(nextFull(blocks, zero), "first_full");
    blocks.hasFirstFull = named(isLess(blocks.firstFull, kvEnd), "has_full");
    return blocks;
  }
  auto addRange = [&](SmallVectorImpl<BlockRanges::Range> &to, BlockRanges::Range range, StringRef name) {
    Value first = arith::MaxSIOp::create(b, range.first, zero);
    Value last = clampToKeys(range.second);
    Value end = arith::SelectOp::create(b, isLess(first, last), roundUp(last), zero);
    to.emplace_back(named(roundDown(first), (name + "_begin").str()), named(end, (name + "_end").str()));
  };
  if (ranges.all)
    blocks.visited.emplace_back(zero, kvEnd);
  for (BlockRanges::Range range : ranges.visited)
    addRange(blocks.visited, range, "visited");
  blocks.hasMasked = !ranges.masked.empty();
  findFullBetween(blocks, ranges);
  if (blocks.full) {
    blocks.firstFull = blocks.full->first;
    blocks.hasFirstFull = named(isLess(blocks.firstFull, blocks.full->second), "has_full");
    return blocks;
  }
  size_t numMasked = ranges.masked.size();
  if (blocks.visited.size() * numMasked * numMasked > kMaxComparisons) {
    blocks.hasFull = false;
    blocks.masked.emplace_back(zero, kvEnd);
    blocks.firstFull = kvEnd;
    blocks.hasFirstFull = arith::ConstantIntOp::create(b, 0, 1);
    return blocks;
  }
  for (BlockRanges::Range range : ranges.masked)
    addRange(blocks.masked, range, "masked");
  blocks.masked.emplace_back(named(roundDown(kvLen), "kv_filled"), kvEnd);
  blocks.firstFull = nextFull(blocks, zero);
  blocks.hasFirstFull = named(isLess(blocks.firstFull, kvEnd), "has_full");
  return blocks;
}

Value HopperForwardKernel::nextVisited(const VisitedBlocks &blocks, Value from) {
  Value found;
  for (auto [first, end] : blocks.visited) {
    Value position = named(arith::MaxSIOp::create(b, from, first), "visited_from");
    position = named(arith::SelectOp::create(b, isLess(position, end), position, kvEnd), "next_visited");
    found = found ? arith::MinSIOp::create(b, found, position).getResult() : position;
  }
  return found ? found : kvEnd;
}

Value HopperForwardKernel::nextMasked(const VisitedBlocks &blocks, Value from) {
  if (blocks.full) {
    auto [begin, end] = *blocks.full;
    if (from == begin)
      return end;
    Value after = arith::MaxSIOp::create(b, from, end);
    if (begin != blocks.visited.front().first)
      after = arith::SelectOp::create(b, isLess(from, begin), from, after);
    return named(after, "next_masked");
  }
  Value found = kvEnd;
  if (blocks.listed) {
    found = blocks.listed->getNext(b, from, BlockKind::partial);
    Value rest = blocks.masked.back().first;
    rest = arith::SelectOp::create(b, isLess(rest, from), kvEnd, rest);
    return named(arith::MinSIOp::create(b, found, rest), "next_masked");
  }
  for (auto [first, end] : blocks.visited)
    for (auto [maskedFirst, maskedEnd] : blocks.masked) {
      Value position =
          arith::MaxSIOp::create(b, from, arith::MaxSIOp::create(b, first, maskedFirst).getResult());
      named(position, "masked_from");
      Value both = named(arith::MinSIOp::create(b, end, maskedEnd), "masked_until");
      position = arith::SelectOp::create(b, isLess(position, both), position, kvEnd);
      found = named(arith::MinSIOp::create(b, found, position), "next_masked");
    }
  return found;
}

Value HopperForwardKernel::nextFull(const VisitedBlocks &blocks, Value from) {
  if (blocks.full)
    return from;
  if (blocks.listed) {
    Value found = blocks.listed->getNext(b, from, BlockKind::full);
    return named(arith::SelectOp::create(b, isLess(found, blocks.masked.back().first), found, kvEnd),
                 "next_full");
  }
  Value position = nextVisited(blocks, from);
  // Each round leaves at least one more range behind; after the last one there is nothing.
  auto skip = [&](BlockRanges::Range range) {
    Value isAfter = arith::CmpIOp::create(b, arith::CmpIPredicate::sge, position, range.first);
    Value isIn = arith::AndIOp::create(b, isAfter, isLess(position, range.second));
    position =
        named(arith::SelectOp::create(b, isIn, nextVisited(blocks, range.second), position), "next_full");
  };
  ArrayRef<BlockRanges::Range> ranges = ArrayRef(blocks.masked).drop_back();
  for (size_t round = 0; round < ranges.size(); ++round)
    for (BlockRanges::Range range : ranges)
      skip(range);
  skip(blocks.masked.back());
  return position;
}

Value HopperForwardKernel::forEachBlock(const VisitedBlocks &blocks, function_ref<Value(Value, Value)> first,
                                        function_ref<Value(Value, bool, Value)> body,
                                        function_ref<void(Value)> full, function_ref<Value(Value)> last,
                                        function_ref<Value()> none) {
  Value zero = index(0), step = index(blockN());
  Value visitedBegin = blocks.full ? blocks.visited.front().first : zero, visitedEnd = getVisitedEnd(blocks);
  Value firstMasked = nextMasked(blocks, visitedBegin);
  if (firstMasked != getFullEnd(blocks))
    named(firstMasked, "first_masked");
  Value startsMasked = named(isLess(firstMasked, visitedEnd), "starts_masked");
  Value begin = firstMasked;
  if (blocks.hasFull)
    begin = named(arith::SelectOp::create(b, startsMasked, firstMasked, blocks.firstFull), "kv_first");
  SmallVector<Type> results(none ? 1 : 0, b.getIndexType());
  Value isAny = isLess(blocks.full ? visitedBegin : begin, visitedEnd);
  auto isVisited = scf::IfOp::create(b, results, isAny, /*withElseRegion=*/bool(none));
  OpBuilder::InsertionGuard guard(b);
  auto fill = [&](Block *block, function_ref<Value()> body) {
    b.setInsertionPointToStart(block);
    Value result = body();
    if (none)
      scf::YieldOp::create(b, result);
  };
  fill(isVisited.thenBlock(), [&] {
    Value second = named(add(begin, step), "kv_second"), kvMasked, kvFull;
    auto findMasked = [&] { kvMasked = named(nextMasked(blocks, second), "kv_masked"); };
    auto findFull = [&] {
      Value from = arith::SelectOp::create(b, startsMasked, blocks.full ? blocks.firstFull : zero, second);
      kvFull = named(nextFull(blocks, from), "kv_full");
    };
    if (blocks.listed) {
      findMasked();
      findFull();
    }
    Value carried = first(begin, startsMasked);
    auto loop = [&](Value from, bool isMasked, Value carried) -> Value {
      Value end = isMasked ? visitedEnd : getFullEnd(blocks);
      SmallVector<Value> initial{from};
      if (carried)
        initial.push_back(carried);
      auto whileOp = scf::WhileOp::create(
          b, ValueRange(initial).getTypes(), initial,
          [&](OpBuilder &builder, Location loc, ValueRange arguments) {
            Value goesOn = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, arguments[0], end);
            scf::ConditionOp::create(builder, loc, goesOn, arguments);
          },
          [&](OpBuilder &builder, Location, ValueRange arguments) {
            OpBuilder::InsertionGuard guard(b);
            b.restoreInsertionPoint(builder.saveInsertionPoint());
            SmallVector<Value> yielded;
            auto findNext = [&] {
              Value from = named(add(arguments[0], step), "kv_after");
              yielded.push_back(isMasked ? nextMasked(blocks, from) : nextFull(blocks, from));
            };
            if (blocks.listed)
              findNext();
            Value next = body(arguments[0], isMasked, carried ? arguments[1] : Value());
            if (!blocks.listed)
              findNext();
            if (next)
              yielded.push_back(next);
            scf::YieldOp::create(b, yielded);
            builder.restoreInsertionPoint(b.saveInsertionPoint());
          });
      for (Region *region : {&whileOp.getBefore(), &whileOp.getAfter()}) {
        region->getArgument(0).setLoc(NameLoc::get(b.getStringAttr("kv_begin"), b.getLoc()));
        if (carried)
          region->getArgument(1).setLoc(NameLoc::get(b.getStringAttr("kv_last"), b.getLoc()));
      }
      return carried ? whileOp.getResult(1) : Value();
    };
    if (blocks.hasMasked) {
      if (!blocks.listed)
        findMasked();
      carried = loop(kvMasked, /*isMasked=*/true, carried);
    }
    if (blocks.hasFull) {
      if (!blocks.listed)
        findFull();
      full(kvFull);
      carried = loop(kvFull, /*isMasked=*/false, carried);
    }
    return last(carried);
  });
  if (!none)
    return {};
  fill(isVisited.elseBlock(), none);
  return isVisited.getResult(0);
}
