//===- RelativeColumns.cpp - --attn-tile-relative-columns --------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialect/AttnTileDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Matchers.h"
#include "passes/Passes.h"

using namespace mlir;
using namespace attn;
using namespace attn::tile;
using arith::CmpIPredicate;

namespace attn {
#define GEN_PASS_DEF_RELATIVECOLUMNSPASS
#include "passes/Passes.h.inc"
} // namespace attn

/// How far beyond the position of a query another one is known not to overflow: the host refuses lengths
/// within 1023 of 2^31 - 1, of which the rows of a tile that are beyond the length take up to 256.
static constexpr int64_t kRoom = 1023 - 256;

/// The predicate with its operands exchanged, of those that order signed numbers.
static std::optional<CmpIPredicate> exchange(CmpIPredicate predicate) {
  switch (predicate) {
  case CmpIPredicate::slt:
    return CmpIPredicate::sgt;
  case CmpIPredicate::sle:
    return CmpIPredicate::sge;
  case CmpIPredicate::sgt:
    return CmpIPredicate::slt;
  case CmpIPredicate::sge:
    return CmpIPredicate::sle;
  default:
    return std::nullopt;
  }
}

namespace {
/// `key predicate limit + offset`, where key is the position of the element's key.
struct Comparison {
  arith::CmpIOp op;
  CmpIPredicate predicate;
  Value limit;
  bool isQuery; ///< `limit` is the position of the element's query.
  int64_t offset;
};

/// The comparisons that a map makes of the positions of keys, if it uses its columns for nothing else.
class KeyComparisons {
public:
  explicit KeyComparisons(MapOp map) : body(map.getBody().front()) {
    for (Operation *user : getColumn().getUsers())
      if (!addKey(user))
        return;
    isComplete = first && !comparisons.empty();
  }

  explicit operator bool() const { return isComplete; }
  /// The position of the key of column 0.
  Value getFirst() const { return first; }
  ArrayRef<Comparison> get() const { return comparisons; }

private:
  Value getColumn() { return body.getArgument(1); }
  bool isInside(Value value) { return body.getParentOp()->isAncestor(value.getParentBlock()->getParentOp()); }

  /// Whether all elements of a row have the same `value`.
  bool isOfRow(Value value) {
    if (!isInside(value) || value == body.getArgument(0) || ofRow.contains(value))
      return true;
    Operation *op = value.getDefiningOp();
    if (!op || op->getNumRegions() != 0 || !isPure(op) ||
        !llvm::all_of(op->getOperands(), [&](Value operand) { return isOfRow(operand); }))
      return false;
    // Each once: what is used twice at each of many levels would be looked at without an end.
    ofRow.insert(value);
    return true;
  }

  /// A position of a query: not negative, since positions of blocks are not.
  bool isQuery(Value value) {
    if (auto cast = value.getDefiningOp<arith::IndexCastOp>())
      value = cast.getIn();
    auto sum = value.getDefiningOp<arith::AddIOp>();
    Value row = body.getArgument(0);
    return sum && bitEnumContainsAll(sum.getOverflowFlags(), arith::IntegerOverflowFlags::nsw) &&
           llvm::is_contained(sum->getOperands(), row) &&
           llvm::any_of(sum->getOperands(), [&](Value operand) { return !isInside(operand); });
  }

  bool addKey(Operation *op) {
    auto key = dyn_cast<arith::AddIOp>(op);
    if (!key || key.getLhs() == key.getRhs())
      return false;
    Value begin = key.getLhs() == getColumn() ? key.getRhs() : key.getLhs();
    if (isInside(begin) || (first && first != begin))
      return false;
    first = begin;
    return addUsers(key);
  }

  /// `key` as it is, or in 32 bits (`NarrowIndices.h`), which hold it.
  bool addUsers(Value key) {
    return llvm::all_of(key.getUsers(), [&](Operation *user) {
      if (auto cast = dyn_cast<arith::IndexCastOp>(user); cast && cast.getType().isInteger(32))
        return addUsers(cast);
      auto difference = dyn_cast<arith::SubIOp>(user);
      return difference ? addDifference(difference, key) : addComparison(user, key);
    });
  }

  bool addComparison(Operation *op, Value key) {
    auto compare = dyn_cast<arith::CmpIOp>(op);
    if (!compare)
      return false;
    bool isLeft = compare.getLhs() == key;
    Value limit = isLeft ? compare.getRhs() : compare.getLhs();
    std::optional<CmpIPredicate> exchanged = exchange(compare.getPredicate());
    if (!exchanged || !isOfRow(limit))
      return false;
    CmpIPredicate predicate = isLeft ? compare.getPredicate() : *exchanged;
    comparisons.push_back({compare, predicate, limit, isQuery(limit), /*offset=*/0});
    return true;
  }

  /// Of q - k or k - q, compared with a constant: neither overflows, nor do q minus the constant and q plus
  /// it.
  bool addDifference(arith::SubIOp difference, Value key) {
    bool isNegated = difference.getRhs() == key;
    Value query = isNegated ? difference.getLhs() : difference.getRhs();
    return isQuery(query) && llvm::all_of(difference->getUsers(), [&](Operation *user) {
             auto compare = dyn_cast<arith::CmpIOp>(user);
             if (!compare)
               return false;
             bool isLeft = compare.getLhs() == difference;
             APInt constant;
             std::optional<CmpIPredicate> exchanged = exchange(compare.getPredicate());
             if (!exchanged ||
                 !matchPattern(isLeft ? compare.getRhs() : compare.getLhs(), m_ConstantInt(&constant)))
               return false;
             int64_t number = constant.getSExtValue(), offset = isNegated ? -number : number;
             if (offset > kRoom || offset < -std::numeric_limits<int32_t>::max())
               return false;
             CmpIPredicate predicate = isLeft == isNegated ? *exchanged : compare.getPredicate();
             comparisons.push_back({compare, predicate, query, /*isQuery=*/true, offset});
             return true;
           });
  }

  Block &body;
  Value first;
  llvm::SmallDenseSet<Value> ofRow;
  SmallVector<Comparison> comparisons;
  bool isComplete = false;
};

struct RelativeColumnsPass : attn::impl::RelativeColumnsPassBase<RelativeColumnsPass> {
  void runOnOperation() override {
    getOperation()->walk([&](WarpSpecializeOp roles) {
      roles.getConsumer().walk([&](MapOp map) {
        if (map.getRelative() || getNumIndexArgs(map) != 2)
          return;
        if (KeyComparisons comparisons(map); comparisons)
          makeRelative(map, comparisons);
      });
    });
  }

  static void makeRelative(MapOp map, const KeyComparisons &comparisons) {
    ImplicitLocOpBuilder b(map.getLoc(), map);
    auto named = [&](Value value, StringRef name) {
      value.setLoc(NameLoc::get(b.getStringAttr(name), map.getLoc()));
      return value;
    };
    constexpr auto nsw = arith::IntegerOverflowFlags::nsw;
    auto isAccumulator = [](Value value) {
      return cast<FragmentType>(value.getType()).getLayout() == Layout::accumulator;
    };
    Value whole = *llvm::find_if(map->getOperands(), isAccumulator);
    Value column = named(FirstColumnOp::create(b, b.getIndexType(), whole), "thread_column");
    Value first = named(arith::AddIOp::create(b, comparisons.getFirst(), column, nsw), "first_key");

    map.setRelative(true);
    for (const Comparison &comparison : comparisons.get()) {
      arith::CmpIOp op = comparison.op;
      b.setInsertionPoint(op);
      auto constant = [&](int64_t value) { return arith::ConstantIndexOp::create(b, value).getResult(); };
      Value limit = comparison.limit;
      if (!limit.getType().isIndex())
        limit = arith::IndexCastOp::create(b, b.getIndexType(), limit);
      if (comparison.offset)
        limit = arith::AddIOp::create(b, limit, constant(comparison.offset), nsw);
      // Keys have no negative positions: all limits below 0 are as good as -1, which leaves room to subtract.
      if (!comparison.isQuery || comparison.offset < 0)
        limit = arith::MaxSIOp::create(b, limit, constant(-1));
      limit = arith::SubIOp::create(b, limit, first, nsw);
      Value holds = arith::CmpIOp::create(b, comparison.predicate, map.getBody().getArgument(1), limit);
      holds.setLoc(op.getLoc());
      op.replaceAllUsesWith(holds);
      op.erase();
    }
  }
};
} // namespace
