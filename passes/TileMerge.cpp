//===- TileMerge.cpp - the kernel that merges parts on a GPU -----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A warp merges a row, lanes along the columns: whole lines are read and written. Of a stack, where rows may
// be few and parts many, up to four warps do, so that more loads are under way. Nothing is exchanged: each
// thread computes the weights of its row.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/TileKernel.h"

using namespace mlir;
using namespace attn;
using namespace attn::tile;

static constexpr int64_t kWarps = 4, kLanes = 32;
/// Loads of a thread, and parts, that are under way at once; few parts, for which more would be idle.
static constexpr int64_t kMaxLoads = 64, kMaxUnroll = 16, kFewParts = 2;

/// Pairs whose tensors the arguments of a kernel, 4096 bytes, have room for.
static constexpr size_t kMaxPairs = 32;

namespace {
class MergeKernel : public TileKernel {
public:
  MergeKernel(ImplicitLocOpBuilder &host, MergeOp op, StringRef name, std::optional<MergeTarget> target);
  void build();

private:
  using UpdateFn = function_ref<SmallVector<Value>(Value lse, Value partOut, Value part, ValueRange carried)>;
  /// Passes `carried` through `update` for each part, in order; those of a stack `unroll` at a time, so that
  /// as many loads are under way.
  SmallVector<Value> forEachPart(ArrayRef<Value> carried, ArrayRef<StringRef> names, int64_t unroll,
                                 UpdateFn update);
  Value load(Value buffer, Value part, std::optional<Value> column = std::nullopt);
  void mergeRow(int64_t maxUnroll);

  ImplicitLocOpBuilder &host;
  MergeOp op;
  SmallVector<Value> partOuts, partLses;
  Value hostOut, hostLse, isSplit, out, lse;
  Value batch, head, row, lane;
  /// Threads of a row, and rows of a block.
  int64_t rowThreads, blockRows;
};
} // namespace

/// Warps of a row.
static int64_t getRowWarps(MergeOp op) {
  return op.isStacked() ? std::clamp<int64_t>(op.getOut().getType().getDimSize(3) / kLanes, 1, kWarps) : 1;
}

MergeKernel::MergeKernel(ImplicitLocOpBuilder &host, MergeOp op, StringRef name,
                         std::optional<MergeTarget> target)
    : TileKernel(host, name,
                 KernelAttr::get(op.getContext(), kWarps / getRowWarps(op) * getRowWarps(op),
                                 /*blocks_per_multiprocessor=*/1, /*shared_bytes=*/0, /*optimization=*/3)),
      host(host), op(op), rowThreads(kLanes * getRowWarps(op)), blockRows(kWarps / getRowWarps(op)) {
  // The sizes of the result are those of the first part, behind the dimension of a stack.
  Value first = op.getPartOuts().front();
  auto allocate = [&](Value result) -> Value {
    auto type = cast<RankedTensorType>(result.getType());
    SmallVector<Value> sizes;
    for (int64_t position = 0; position < type.getRank(); ++position)
      if (type.isDynamicDim(position))
        sizes.push_back(tensor::DimOp::create(host, first, position + (op.isStacked() ? 1 : 0)));
    return memref::AllocOp::create(host, MemRefType::get(type.getShape(), type.getElementType()), sizes);
  };
  for (auto [number, part] : llvm::enumerate(llvm::zip_equal(op.getPartOuts(), op.getPartLses()))) {
    std::string suffix = op.isStacked() ? "s" : "_" + std::to_string(number);
    partOuts.push_back(addTensor(std::get<0>(part), "part_out" + suffix));
    partLses.push_back(addTensor(std::get<1>(part), "part_lse" + suffix));
  }
  hostOut = target ? target->out : allocate(op.getOut());
  hostLse = target ? target->lse : allocate(op.getLse());
  if (target)
    isSplit = target->isSplit;
  out = addParameter(hostOut, "out");
  lse = addParameter(hostLse, "lse");
}

SmallVector<Value> MergeKernel::forEachPart(ArrayRef<Value> carried, ArrayRef<StringRef> names,
                                            int64_t unroll, UpdateFn update) {
  if (!op.isStacked()) {
    SmallVector<Value> values(carried);
    for (auto [partOut, partLse] : llvm::zip_equal(partOuts, partLses))
      values = update(load(partLse, Value()), partOut, Value(), values);
    return values;
  }
  Value parts = dim(partLses.front(), 0, "parts");
  auto outer = scf::ForOp::create(b, index(0), parts, index(unroll), carried);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(outer.getBody());
  Value first = outer.getInductionVar();
  auto loop = scf::ForOp::create(b, first, add(first, index(unroll)), index(1), outer.getRegionIterArgs());
  loop->setAttr("unroll", b.getUnitAttr());
  scf::YieldOp::create(b, loop.getResults());
  for (auto [position, name] : llvm::enumerate(names))
    for (scf::ForOp each : {outer, loop})
      each.getBody()->getArgument(position).setLoc(
          NameLoc::get(b.getStringAttr(each == outer && position == 0 ? "first" : name), b.getLoc()));
  b.setInsertionPointToStart(loop.getBody());
  Value part = loop.getInductionVar();
  // The last ones may be beyond the end.
  Value partLse =
      arith::SelectOp::create(b, isLess(part, parts), load(partLses.front(), part), f32(-INFINITY));
  scf::YieldOp::create(b, update(partLse, partOuts.front(), part, loop.getRegionIterArgs()));
  return outer.getResults();
}

Value MergeKernel::load(Value buffer, Value part, std::optional<Value> column) {
  SmallVector<Value> place{batch, head, row};
  if (part)
    place.insert(place.begin(), part);
  if (column)
    place.push_back(*column);
  Value element = memref::LoadOp::create(b, buffer, place);
  if (!element.getType().isF32())
    element = arith::ExtFOp::create(b, b.getF32Type(), element);
  return element;
}

void MergeKernel::mergeRow(int64_t maxUnroll) {
  Value minusInfinity = f32(-INFINITY), zero = f32(0);
  auto isMinusInfinity = [&](Value value) -> Value {
    return arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, value, minusInfinity);
  };
  Value max = forEachPart(minusInfinity, {"part", "max_lse"}, maxUnroll,
                          [&](Value partLse, Value, Value, ValueRange carried) -> SmallVector<Value> {
                            return {arith::MaxNumFOp::create(b, carried[0], partLse)};
                          })
                  .front();

  // The sum of the weights, then that of each column that the lane has.
  int64_t valueDim = op.getOut().getType().getDimSize(3);
  SmallVector<Value> columns, carried{zero};
  SmallVector<StringRef> names{"part", "weight_sum"};
  for (int64_t first = 0; first < valueDim; first += rowThreads) {
    columns.push_back(named(add(lane, index(first)), "column"));
    carried.push_back(zero);
    names.push_back("sum");
  }
  SmallVector<Value> sums =
      forEachPart(carried, names, std::clamp<int64_t>(kMaxLoads / columns.size(), 1, maxUnroll),
                  [&](Value partLse, Value partOut, Value part, ValueRange carried) -> SmallVector<Value> {
                    // A part without a key counts nothing, whatever its out is.
                    Value isEmpty = isMinusInfinity(partLse);
                    Value weight = math::ExpOp::create(b, arith::SubFOp::create(b, partLse, max));
                    weight = named(arith::SelectOp::create(b, isEmpty, zero, weight), "weight");
                    SmallVector<Value> next{arith::AddFOp::create(b, carried[0], weight)};
                    for (auto [column, sum] : llvm::zip_equal(columns, carried.drop_front())) {
                      Value product = arith::MulFOp::create(b, weight, load(partOut, part, column));
                      product = arith::SelectOp::create(b, isEmpty, zero, product);
                      next.push_back(arith::AddFOp::create(b, sum, product));
                    }
                    return next;
                  });

  // Not where lse is a NaN in all parts: the maximum passes those over, and the sum does not.
  Value total = sums.front(), isEmpty = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, total, zero);
  for (auto [position, column] : llvm::enumerate(columns))
    ifThen(isLess(column, index(valueDim)), [&, column = column, sum = sums[position + 1]] {
      Value merged = arith::SelectOp::create(b, isEmpty, zero, arith::DivFOp::create(b, sum, total));
      Type type = op.getOut().getType().getElementType();
      if (!type.isF32())
        merged = arith::TruncFOp::create(b, type, merged);
      memref::StoreOp::create(b, merged, out, ValueRange{batch, head, row, column});
    });
  ifThen(arith::CmpIOp::create(b, arith::CmpIPredicate::eq, lane, index(0)), [&] {
    Value merged = arith::AddFOp::create(b, max, math::LogOp::create(b, total));
    merged = arith::SelectOp::create(b, isEmpty, minusInfinity, merged);
    memref::StoreOp::create(b, merged, lse, ValueRange{batch, head, row});
  });
}

void MergeKernel::build() {
  requireShort(host, tensor::DimOp::create(host, op.getPartOuts().front(), op.isStacked() ? 3 : 2),
               "queries");
  if (canAwaitKernels(op))
    AwaitKernelsOp::create(b);
  Value qLen = dim(out, 2, "q_len"), heads = dim(out, 1, "heads");
  Value work = gpu::BlockIdOp::create(b, gpu::Dimension::x);
  row = takeDigit(work, named(ceilDiv(qLen, blockRows), "num_blocks"), blockRows > 1 ? "block" : "row");
  head = takeDigit(work, heads, "head");
  batch = named(work, "batch");
  Value thread = gpu::ThreadIdOp::create(b, gpu::Dimension::x);
  lane = named(arith::RemSIOp::create(b, thread, index(rowThreads)), "lane");
  if (blockRows > 1)
    row = named(add(mul(row, index(blockRows)), arith::DivSIOp::create(b, thread, index(rowThreads))), "row");
  ifThen(isLess(row, qLen), [&] {
    if (!op.isStacked())
      return mergeRow(kMaxUnroll);
    Value hasFew = isLess(dim(partLses.front(), 0, "parts"), index(kFewParts + 1));
    auto mergeFew = [&] { mergeRow(kFewParts); };
    auto mergeMany = [&] { mergeRow(kMaxUnroll); };
    ifThenElse(hasFew, mergeFew, mergeMany);
  });

  auto size = [&](int64_t position) -> Value { return memref::DimOp::create(host, hostOut, position); };
  Value blocks =
      arith::CeilDivSIOp::create(host, size(2), arith::ConstantIndexOp::create(host, blockRows).getResult());
  for (int64_t position : {0, 1})
    blocks = arith::MulIOp::create(host, blocks, size(position));
  if (isSplit)
    blocks = arith::MulIOp::create(host, blocks, isSplit);
  launch(blocks);
  replaceWithBuffer(host, op.getOut(), hostOut);
  replaceWithBuffer(host, op.getLse(), hostLse);
}

/// Merges of up to `kMaxPairs` pairs, in f32, and one of what they give.
static void mergeInGroups(MergeOp op) {
  ImplicitLocOpBuilder b(op.getLoc(), op);
  auto outType = cast<RankedTensorType>(op.getPartOuts().front().getType()).clone(b.getF32Type());
  Type types[] = {outType, op.getPartLses().front().getType()};
  SmallVector<Value> outs, lses;
  SmallVector<MergeOp> merges;
  for (size_t first = 0, size = op.getPartOuts().size(); first < size; first += kMaxPairs) {
    size_t count = std::min(kMaxPairs, size - first);
    merges.push_back(MergeOp::create(b, types, op.getPartOuts().slice(first, count),
                                     op.getPartLses().slice(first, count)));
    outs.push_back(merges.back().getOut());
    lses.push_back(merges.back().getLse());
  }
  merges.push_back(MergeOp::create(b, op.getResultTypes(), outs, lses));
  op->replaceAllUsesWith(merges.back());
  op.erase();
  for (MergeOp merge : merges)
    lowerMergeToTile(merge);
}

void attn::lowerMergeToTile(MergeOp op, std::optional<MergeTarget> target) {
  if (op.getPartOuts().size() > kMaxPairs)
    return mergeInGroups(op);
  ImplicitLocOpBuilder host(op.getLoc(), op);
  StringRef function = op->getParentOfType<FunctionOpInterface>().getName();
  MergeKernel(host, op, (function + "_merge").str(), target).build();
  op.erase();
}
