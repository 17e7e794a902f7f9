//===- MaskBlocks.cpp - which blocks of a score matrix a mask keeps -----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/common/MaskBlocks.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/NarrowIndices.h"
#include "passes/RegionUtils.h"

using namespace mlir;
using namespace attn;

//===----------------------------------------------------------------------===//
// Probes: functions that stop before an attention op and look at its regions
//===----------------------------------------------------------------------===//

namespace {
/// A copy of a function's body before an operation, with index arguments added.
struct Probe {
  func::FuncOp function;
  ImplicitLocOpBuilder builder;
  IRMapping mapping;
  SmallVector<Value> extra;

  Probe(func::FuncOp original, Operation *until, StringRef name, unsigned numExtra)
      : builder(until->getLoc(), original.getContext()) {
    // An op of a dialect that no parsed file has used yet cannot be built.
    original.getContext()->loadDialect<arith::ArithDialect, scf::SCFDialect, tensor::TensorDialect>();
    Type index = builder.getIndexType();
    SmallVector<Type> inputs(original.getArgumentTypes());
    inputs.append(numExtra, index);
    builder.setInsertionPointAfter(original);
    function = func::FuncOp::create(builder, name, builder.getFunctionType(inputs, {}));
    Block *body = function.addEntryBlock();
    mapping.map(original.getArguments(), body->getArguments().take_front(original.getNumArguments()));
    for (Value value : body->getArguments().take_back(numExtra))
      extra.push_back(value);
    builder.setInsertionPointToStart(body);
    for (Operation &op : *until->getBlock()) {
      if (&op == until)
        break;
      builder.clone(op, mapping);
    }
  }

  Value constant(int64_t value) { return arith::ConstantIndexOp::create(builder, value); }
  Value toI64(Value value) { return arith::IndexCastOp::create(builder, builder.getI64Type(), value); }
  Value getSize(Value tensor, int64_t dim) {
    return tensor::DimOp::create(builder, mapping.lookup(tensor), dim);
  }

  SmallVector<Value> getCaptures(AttentionOpInterface op) {
    return llvm::map_to_vector(op.getCaptures(), [&](Value value) { return mapping.lookup(value); });
  }

  func::FuncOp finish(ValueRange results) {
    func::ReturnOp::create(builder, results);
    // Other attention before this one need not be computed to look at its regions.
    SmallVector<Operation *> ops;
    for (Operation &op : function.getBody().front().without_terminator())
      ops.push_back(&op);
    for (Operation *op : llvm::reverse(ops))
      if (isOpTriviallyDead(op))
        op->erase();
    function.setFunctionType(builder.getFunctionType(function.getArgumentTypes(), results.getTypes()));
    return function;
  }
};
} // namespace

func::FuncOp attn::buildMaskCounts(func::FuncOp original, Operation *attention) {
  auto op = cast<AttentionOpInterface>(attention);
  Probe probe(original, attention, kMaskCountsName, 4);
  OwningOpRef<Operation *> narrow(attention->clone());
  narrowIndices(cast<AttentionOpInterface>(*narrow));
  ImplicitLocOpBuilder &b = probe.builder;
  Value batch = probe.extra[0], head = probe.extra[1], blockM = probe.extra[2], blockN = probe.extra[3];
  Value qLen = probe.getSize(op.getQuery(), 2), kvLen = probe.getSize(op.getKey(), 2);
  Value zero = probe.constant(0), one = probe.constant(1);
  Value rows = arith::CeilDivSIOp::create(b, qLen, blockM),
        columns = arith::CeilDivSIOp::create(b, kvLen, blockN);
  Type i64 = b.getI64Type();
  Value none = arith::ConstantIntOp::create(b, i64, 0);
  SmallVector<Value> captures = probe.getCaptures(op);

  RegionInlining inlining;
  inlining.queryLength = [&](OpBuilder &, Location, Value) { return qLen; };
  inlining.keyLength = [&](OpBuilder &, Location, Value) { return kvLen; };

  /// A loop with one value that is carried from iteration to iteration.
  using Body = llvm::function_ref<Value(Value index, Value carried)>;
  auto loop = [&](Value begin, Value end, Value initial, Body body) -> Value {
    OpBuilder::InsertionGuard guard(b);
    auto nest = scf::ForOp::create(b, begin, end, one, initial);
    b.setInsertionPointToStart(nest.getBody());
    scf::YieldOp::create(b, body(nest.getInductionVar(), nest.getRegionIterArg(0)));
    return nest.getResult(0);
  };
  auto blockOf = [&](Value index, Value size, Value length) {
    Value begin = arith::MulIOp::create(b, index, size);
    Value end = arith::MinSIOp::create(b, arith::AddIOp::create(b, begin, size), length);
    return std::pair<Value, Value>(begin, end);
  };

  Value counts = tensor::EmptyOp::create(b, ArrayRef<int64_t>{ShapedType::kDynamic, ShapedType::kDynamic},
                                         i64, ValueRange{rows, columns});
  counts = loop(zero, rows, counts, [&](Value row, Value rowCounts) {
    auto [qBegin, qEnd] = blockOf(row, blockM, qLen);
    return loop(zero, columns, rowCounts,
                [&, qBegin = qBegin, qEnd = qEnd](Value column, Value blockCounts) -> Value {
                  auto [kBegin, kEnd] = blockOf(column, blockN, kvLen);
                  Value count =
                      loop(qBegin, qEnd, none, [&, kBegin = kBegin, kEnd = kEnd](Value query, Value sum) {
                        return loop(kBegin, kEnd, sum, [&](Value key, Value rowSum) -> Value {
                          SmallVector<Value> arguments{batch, head, query, key};
                          llvm::append_range(arguments, captures);
                          Value keep = inlineRegion(b, cast<AttentionOpInterface>(*narrow).getMask(),
                                                    arguments, inlining);
                          return arith::AddIOp::create(b, rowSum, arith::ExtUIOp::create(b, i64, keep));
                        });
                      });
                  return tensor::InsertOp::create(b, count, blockCounts, ValueRange{row, column});
                });
  });
  return probe.finish(counts);
}

func::FuncOp attn::buildRangesProbe(func::FuncOp original, Operation *onlineAttention) {
  auto op = cast<OnlineAttentionOp>(onlineAttention);
  Probe probe(original, op, kRangesProbeName, 3);
  ImplicitLocOpBuilder &b = probe.builder;
  Value qLen = probe.getSize(op.getQuery(), 2), kvLen = probe.getSize(op.getKey(), 2);
  Value length = op.blocksKeys() ? kvLen : qLen;
  Value zero = probe.constant(0), one = probe.constant(1);
  Value rows = arith::CeilDivSIOp::create(b, length, probe.extra[2]);

  auto yield = cast<YieldRangesOp>(op.getRanges().front().getTerminator());
  unsigned numRanges = yield.getVisitedBegins().size() + yield.getMaskedBegins().size();
  Value ranges = tensor::EmptyOp::create(b, ArrayRef<int64_t>{ShapedType::kDynamic, numRanges, 2},
                                         b.getI64Type(), ValueRange{rows});
  auto loop = scf::ForOp::create(b, zero, rows, one, ranges);
  b.setInsertionPointToStart(loop.getBody());
  Value begin = arith::MulIOp::create(b, loop.getInductionVar(), probe.extra[2]);
  Value end = arith::MinSIOp::create(b, arith::AddIOp::create(b, begin, probe.extra[2]), length);
  SmallVector<Value> arguments{probe.extra[0], probe.extra[1], begin, end};
  llvm::append_range(arguments, probe.getCaptures(op));
  RegionInlining inlining;
  inlining.queryLength = [&](OpBuilder &, Location, Value) { return qLen; };
  inlining.keyLength = [&](OpBuilder &, Location, Value) { return kvLen; };
  SmallVector<Value> bounds = inlineRanges(b, op.getRanges(), arguments, inlining);

  Value result = loop.getRegionIterArg(0);
  unsigned position = 0;
  auto store = [&](ArrayRef<Value> begins, ArrayRef<Value> ends) {
    for (auto [first, last] : llvm::zip(begins, ends)) {
      Value index = probe.constant(position++);
      for (auto [side, bound] : {std::pair<Value, Value>{zero, first}, {one, last}})
        result = tensor::InsertOp::create(b, probe.toI64(bound), result,
                                          ValueRange{loop.getInductionVar(), index, side});
    }
  };
  size_t numVisited = yield.getVisitedBegins().size(), numMasked = yield.getMaskedBegins().size();
  ArrayRef<Value> visited = ArrayRef(bounds).take_front(2 * numVisited);
  ArrayRef<Value> masked = ArrayRef(bounds).drop_front(2 * numVisited);
  store(visited.take_front(numVisited), visited.drop_front(numVisited));
  store(masked.take_front(numMasked), masked.drop_front(numMasked));
  scf::YieldOp::create(b, result);
  b.setInsertionPointAfter(loop);
  return probe.finish(loop.getResults());
}

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

int64_t MaskBlocks::getNumPairs(int64_t row, int64_t column) const {
  return std::min(blockM, qLen - row * blockM) * std::min(blockN, kvLen - column * blockN);
}

MaskBlocks::Kind MaskBlocks::getKind(int64_t row, int64_t column) const {
  int64_t pairs = kept[row * columns + column];
  return pairs == 0 ? empty : pairs == getNumPairs(row, column) ? full : partial;
}

template <typename Predicate>
static int64_t countBlocks(const MaskBlocks &blocks, Predicate predicate) {
  int64_t count = 0;
  for (int64_t row = 0; row < blocks.rows; ++row)
    for (int64_t column = 0; column < blocks.columns; ++column)
      count += predicate(blocks.getKind(row, column), row * blocks.columns + column);
  return count;
}

int64_t MaskBlocks::count(Kind kind) const {
  return countBlocks(*this, [&](Kind exact, int64_t) { return exact == kind; });
}

int64_t MaskBlocks::countVisitedEmpty() const {
  return planned.empty() ? 0 : countBlocks(*this, [&](Kind exact, int64_t i) {
    return exact == empty && planned[i] != empty;
  });
}

int64_t MaskBlocks::countMaskedFull() const {
  return planned.empty() ? 0 : countBlocks(*this, [&](Kind exact, int64_t i) {
    return exact == full && planned[i] == partial;
  });
}

int64_t MaskBlocks::countUnsound() const {
  return planned.empty() ? 0 : countBlocks(*this, [&](Kind exact, int64_t i) {
    return (exact != empty && planned[i] == empty) || (exact != full && planned[i] == full);
  });
}

static MaskBlocks makeGrid(int64_t qLen, int64_t kvLen, int64_t blockM, int64_t blockN) {
  MaskBlocks blocks;
  blocks.qLen = qLen;
  blocks.kvLen = kvLen;
  blocks.blockM = blockM;
  blocks.blockN = blockN;
  blocks.rows = (qLen + blockM - 1) / blockM;
  blocks.columns = (kvLen + blockN - 1) / blockN;
  blocks.kept.resize(blocks.rows * blocks.columns);
  return blocks;
}

MaskBlocks attn::makeMaskBlocks(const HostTensor &counts, int64_t qLen, int64_t kvLen, int64_t blockM,
                                int64_t blockN) {
  MaskBlocks blocks = makeGrid(qLen, kvLen, blockM, blockN);
  for (auto [index, pairs] : llvm::enumerate(blocks.kept))
    pairs = static_cast<int64_t>(counts.get(index));
  return blocks;
}

MaskBlocks attn::makeUnmaskedBlocks(int64_t qLen, int64_t kvLen, int64_t blockM, int64_t blockN) {
  MaskBlocks blocks = makeGrid(qLen, kvLen, blockM, blockN);
  for (int64_t row = 0; row < blocks.rows; ++row)
    for (int64_t column = 0; column < blocks.columns; ++column)
      blocks.kept[row * blocks.columns + column] = blocks.getNumPairs(row, column);
  return blocks;
}

void attn::setPlannedBlocks(MaskBlocks &blocks, const HostTensor &ranges, unsigned numVisited,
                            bool blocksKeys) {
  blocks.planned.assign(blocks.rows * blocks.columns, MaskBlocks::empty);
  int64_t numRanges = ranges.getShape()[1];
  int64_t blockedCount = ranges.getShape()[0];
  int64_t streamBlock = blocksKeys ? blocks.blockM : blocks.blockN;
  int64_t streamLength = blocksKeys ? blocks.qLen : blocks.kvLen;
  // Ranges may overlap, be empty or reach beyond the length.
  auto mark = [&](int64_t blocked, int64_t range, auto &&set) {
    auto begin = static_cast<int64_t>(ranges.get((blocked * numRanges + range) * 2));
    auto end = static_cast<int64_t>(ranges.get((blocked * numRanges + range) * 2 + 1));
    begin = std::max<int64_t>(begin, 0);
    end = std::min(end, streamLength);
    for (int64_t stream = begin / streamBlock; begin < end && stream * streamBlock < end; ++stream)
      set(blocks.planned[blocksKeys ? stream * blocks.columns + blocked : blocked * blocks.columns + stream]);
  };
  for (int64_t blocked = 0; blocked < blockedCount; ++blocked) {
    for (int64_t range = 0; range < numVisited; ++range)
      mark(blocked, range, [](MaskBlocks::Kind &kind) { kind = MaskBlocks::full; });
    for (int64_t range = numVisited; range < numRanges; ++range)
      mark(blocked, range, [](MaskBlocks::Kind &kind) {
        if (kind == MaskBlocks::full)
          kind = MaskBlocks::partial;
      });
  }
}
