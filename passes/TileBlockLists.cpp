//===- TileBlockLists.cpp - the kernels of block lists ------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two kernels. In the first a block of the grid evaluates a block of the mask, each thread some of its pairs,
// and stores whether it is empty, partial or full. In the second a thread of its own follows the row and the
// column of each block to the next ones that are partial and full.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/BlockLists.h"
#include "passes/TileKernel.h"

using namespace mlir;
using namespace attn;
using namespace attn::tile;

static constexpr int64_t kWarps = 8, kThreads = 32 * kWarps;

/// What the first kernel stores of a block.
enum State : int64_t { empty, partial, full };

namespace {
/// The batch entry and head that a list is for, and a block in it.
struct Place {
  Value batch, head, row, column;
  SmallVector<Value> indices() const { return {batch, head, row, column}; }
};
} // namespace

static Place takePlace(TileKernel &kernel, Value work, Value buffer) {
  Place place;
  place.column = kernel.takeDigit(work, kernel.dim(buffer, 3, "key_blocks"), "key_block");
  place.row = kernel.takeDigit(work, kernel.dim(buffer, 2, "query_blocks"), "query_block");
  place.head = kernel.takeDigit(work, kernel.dim(buffer, 1, "heads"), "head");
  place.batch = TileKernel::named(work, "batch");
  return place;
}

/// The number of blocks of all lists, on the host.
static Value getNumBlocks(ImplicitLocOpBuilder &host, Value lists) {
  Value product;
  for (int64_t dim = 0; dim < 4; ++dim) {
    Value size = host.createOrFold<memref::DimOp>(lists, dim);
    product = product ? arith::MulIOp::create(host, product, size).getResult() : size;
  }
  return product;
}

static Value allocateStates(ImplicitLocOpBuilder &host, Value lists) {
  auto type = cast<MemRefType>(lists.getType());
  SmallVector<Value> sizes(lists.getDefiningOp<memref::AllocOp>().getDynamicSizes());
  Value states = memref::AllocOp::create(
      host, MemRefType::get(type.getShape().take_front(4), type.getElementType()), sizes);
  return TileKernel::named(states, "block_states");
}

static KernelAttr getResources(MLIRContext *context) {
  return KernelAttr::get(context, kWarps, /*blocks_per_multiprocessor=*/4, /*shared_bytes=*/0,
                         /*optimization=*/3);
}

static Value vote(ImplicitLocOpBuilder &b, gpu::AllReduceOperation operation, Value value) {
  auto attribute = gpu::AllReduceOperationAttr::get(b.getContext(), operation);
  return gpu::AllReduceOp::create(b, value, attribute, /*uniform=*/true);
}

/// The first kernel.
static void buildStates(ImplicitLocOpBuilder &host, BlockListsOp op, StringRef name, Value hostStates) {
  TileKernel kernel(host, name, getResources(op.getContext()));
  ImplicitLocOpBuilder &b = kernel.b;
  auto addLength = [&](Value tensor, StringRef what) {
    return kernel.addParameter(tensor::DimOp::create(host, tensor, 2), what);
  };
  Value qLen = addLength(op.getQuery(), "q_len"), kvLen = addLength(op.getKey(), "kv_len");
  SmallVector<Value> captures;
  for (auto [number, capture] : llvm::enumerate(op.getCaptures())) {
    std::string captureName = "capture_" + std::to_string(number);
    captures.push_back(isa<RankedTensorType>(capture.getType()) ? kernel.addTensor(capture, captureName)
                                                                : kernel.addParameter(capture, captureName));
  }
  Value states = kernel.addParameter(hostStates, "block_states");

  Value block = gpu::BlockIdOp::create(b, gpu::Dimension::x),
        thread = gpu::ThreadIdOp::create(b, gpu::Dimension::x);
  Place place = takePlace(kernel, block, states);
  // Neighbours in a warp have neighbouring keys.
  int64_t m = op.getBlocks()[0], n = op.getBlocks()[1], columns = std::min(kThreads, n & -n);
  auto getSide = [&](Value number, int64_t size, Value length, Value offset, int64_t step, StringRef prefix) {
    Value begin = TileKernel::named(kernel.mul(number, kernel.index(size)), (prefix + "_begin").str());
    Value end = arith::MinSIOp::create(b, kernel.add(begin, kernel.index(size)), length);
    Value first = kernel.add(begin, offset);
    return BlockSide{begin, TileKernel::named(end, (prefix + "_end").str()), first, step};
  };
  Value width = kernel.index(columns);
  BlockSide queries =
      getSide(place.row, m, qLen, arith::DivSIOp::create(b, thread, width), kThreads / columns, "q");
  BlockSide keys = getSide(place.column, n, kvLen, arith::RemSIOp::create(b, thread, width), columns, "kv");
  BlockState state = evaluateBlock(
      b, op, place.batch, place.head, queries, keys, captures, getTileInlining(qLen, kvLen),
      [&](BlockState state) -> BlockState {
        return {TileKernel::named(vote(b, gpu::AllReduceOperation::OR, state.any), "is_any_kept"),
                TileKernel::named(vote(b, gpu::AllReduceOperation::AND, state.all), "are_all_kept")};
      });
  Value isFirst = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, thread, kernel.index(0));
  kernel.ifThen(isFirst, [&] {
    auto constant = [&](State state) -> Value { return arith::ConstantIntOp::create(b, state, 32); };
    Value kept = arith::SelectOp::create(b, state.all, constant(State::full), constant(State::partial));
    Value known = arith::SelectOp::create(b, state.any, kept, constant(State::empty));
    memref::StoreOp::create(b, TileKernel::named(known, "state"), states, place.indices());
  });
  kernel.launch(getNumBlocks(host, hostStates));
}

/// The second kernel.
static void buildLinks(ImplicitLocOpBuilder &host, BlockListsOp op, StringRef name, Value hostStates,
                       Value hostLists) {
  TileKernel kernel(host, name, getResources(op.getContext()));
  ImplicitLocOpBuilder &b = kernel.b;
  Value states = kernel.addParameter(hostStates, "block_states");
  Value lists = kernel.addParameter(hostLists, "block_lists");
  Value thread = gpu::ThreadIdOp::create(b, gpu::Dimension::x),
        block = gpu::BlockIdOp::create(b, gpu::Dimension::x);
  Value work = TileKernel::named(kernel.add(kernel.mul(block, kernel.index(kThreads)), thread), "number");
  Place place = takePlace(kernel, work, states);
  Type index = b.getIndexType();
  // The threads after the last block have no batch entry.
  kernel.ifThen(kernel.isLess(place.batch, kernel.dim(states, 0, "batches")), [&] {
    auto link = [&](bool alongColumn, BlockKind kind) {
      unsigned dim = alongColumn ? 2 : 3;
      Value count = kernel.dim(states, dim, alongColumn ? "query_blocks" : "key_blocks");
      auto search = scf::WhileOp::create(
          b, TypeRange{index}, ValueRange{alongColumn ? place.row : place.column},
          [&](OpBuilder &builder, Location loc, ValueRange carried) {
            ImplicitLocOpBuilder at(loc, builder);
            SmallVector<Value> indices = place.indices();
            indices[dim] = carried[0];
            Value wanted =
                arith::ConstantIntOp::create(at, kind == BlockKind::full ? State::full : State::partial, 32);
            Value isOther = arith::CmpIOp::create(at, arith::CmpIPredicate::ne,
                                                  memref::LoadOp::create(at, states, indices), wanted);
            Value isInside = arith::CmpIOp::create(at, arith::CmpIPredicate::slt, carried[0], count);
            scf::ConditionOp::create(at, arith::AndIOp::create(at, isInside, isOther), carried);
          },
          [&](OpBuilder &builder, Location loc, ValueRange carried) {
            Value one = arith::ConstantIndexOp::create(builder, loc, 1);
            Value next =
                arith::AddIOp::create(builder, loc, carried[0], one, arith::IntegerOverflowFlags::nsw);
            scf::YieldOp::create(builder, loc, next);
          });
      for (Region *region : {&search.getBefore(), &search.getAfter()})
        region->getArgument(0).setLoc(NameLoc::get(b.getStringAttr("next"), b.getLoc()));
      SmallVector<Value> indices = place.indices();
      indices.push_back(kernel.index(getListNumber(alongColumn, kind)));
      memref::StoreOp::create(b, arith::IndexCastOp::create(b, b.getI32Type(), search.getResult(0)), lists,
                              indices);
    };
    for (bool alongColumn : {false, true})
      for (BlockKind kind : {BlockKind::partial, BlockKind::full})
        link(alongColumn, kind);
  });
  kernel.launch(arith::CeilDivSIOp::create(host, getNumBlocks(host, hostLists),
                                           arith::ConstantIndexOp::create(host, kThreads).getResult()));
}

void attn::lowerBlockListsToTile(BlockListsOp op) {
  Location loc = op.getLoc();
  if (auto name = dyn_cast<NameLoc>(loc)) // not what the kernels call their values
    loc = name.getChildLoc();
  ImplicitLocOpBuilder host(loc, op);
  StringRef function = op->getParentOfType<FunctionOpInterface>().getName();
  requireShort(host, tensor::DimOp::create(host, op.getQuery(), 2), "queries");
  requireShort(host, tensor::DimOp::create(host, op.getKey(), 2), "keys");
  Value lists = TileKernel::named(allocateLists(host, op), "block_lists");
  Value states = allocateStates(host, lists);
  buildStates(host, op, (function + "_block_states").str(), states);
  buildLinks(host, op, (function + "_block_lists").str(), states, lists);
  replaceWithBuffer(host, op.getLists(), lists);
  op.erase();
}
