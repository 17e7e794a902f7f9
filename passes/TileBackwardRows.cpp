//===- TileBackwardRows.cpp - what comes before and after a backward ---------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two kernels that work on rows of queries: delta = rowsum(d_out * out), and the rounding of the sums of
// d_query.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "passes/TileKernel.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace attn;
using namespace attn::tile;

namespace {
/// The block of rows that a block of the grid has.
struct RowBlock {
  Value batch, head, block, begin, rows;
};
} // namespace

static RowBlock takeRows(TileKernel &kernel, Value buffer, int64_t blockSize) {
  ImplicitLocOpBuilder &b = kernel.b;
  Value length = kernel.dim(buffer, 2, "q_len"), heads = kernel.dim(buffer, 1, "heads");
  Value numBlocks = TileKernel::named(kernel.ceilDiv(length, blockSize), "num_blocks");
  Value work = gpu::BlockIdOp::create(b, gpu::Dimension::x);
  RowBlock block;
  block.block = TileKernel::named(arith::RemSIOp::create(b, work, numBlocks), "block");
  Value headAndBatch = TileKernel::named(arith::DivSIOp::create(b, work, numBlocks), "head_and_batch");
  block.head = TileKernel::named(arith::RemSIOp::create(b, headAndBatch, heads), "head");
  block.batch = TileKernel::named(arith::DivSIOp::create(b, headAndBatch, heads), "batch");
  block.begin = TileKernel::named(kernel.mul(block.block, kernel.index(blockSize)), "q_begin");
  block.rows = TileKernel::named(kernel.sub(length, block.begin), "q_rows");
  return block;
}

/// Rows of a block of the delta kernel, 16 a warp: two tiles of them fit any GPU.
static int64_t chooseDeltaRows(int64_t rowBytes) {
  static constexpr int64_t kMaxTileBytes = 32 << 10;
  int64_t rows = 64;
  while (rows > 16 && rows * rowBytes > kMaxTileBytes)
    rows /= 2;
  return rows;
}

void attn::roundQuerySum(ImplicitLocOpBuilder &host, OnlineAttentionOp op, Value sum, FragmentType type,
                         StringRef name, const TileLoweringOptions &options) {
  auto resources =
      KernelAttr::get(op.getContext(), op.getSchedule().getWarps(), /*blocks_per_multiprocessor=*/1,
                      /*shared_bytes=*/0, /*optimization=*/3);
  TileKernel kernel(host, name, resources);
  ImplicitLocOpBuilder &b = kernel.b;
  int64_t blockM = type.getShape()[0];
  Value result = allocateResult(host, op.getResult(0), op.getQuery());
  Value source = kernel.addParameter(sum, "d_query_sum"), target = kernel.addParameter(result, "d_query");
  Value staging = kernel.sharedTile("d_query_tile", blockM, type.getShape()[1], op.getElementType());
  Value fragment = kernel.fragment("d_query_rows", type);
  auto [batch, head, block, begin, rows] = takeRows(kernel, target, blockM);
  LoadOp::create(b, source, ValueRange{batch, head, block}, rows, fragment, /*opaque=*/true);
  kernel.map({}, fragment, [&](ValueRange, ValueRange elements) -> SmallVector<Value> {
    return {arith::MulFOp::create(b, elements[0], kernel.f32(op.getScaleOrDefault()))};
  });
  StoreOp::create(b, fragment, staging, target, ValueRange{batch, head, begin}, rows, options.aligned);
  kernel.launch(getNumBlocks(host, op.getQuery(), blockM));
  replaceWithBuffer(host, op.getResult(0), result);
}

void attn::lowerDeltaToTile(DeltaOp op, const TileLoweringOptions &options) {
  ImplicitLocOpBuilder host(op.getLoc(), op);
  StringRef function = op->getParentOfType<FunctionOpInterface>().getName();
  RankedTensorType type = op.getOut().getType();
  int64_t columns = llvm::alignTo(type.getDimSize(3), 16);
  int64_t rowsOfABlock = chooseDeltaRows(columns * type.getElementTypeBitWidth() / 8),
          warps = rowsOfABlock / 16;
  TileKernel kernel(host, (function + "_delta").str(),
                    KernelAttr::get(op.getContext(), warps, /*blocks_per_multiprocessor=*/2,
                                    /*shared_bytes=*/0,
                                    /*optimization=*/3));
  ImplicitLocOpBuilder &b = kernel.b;
  Value result = allocateResult(host, op.getDelta(), op.getOut());
  Value dOut = kernel.addTensor(op.getDOut(), "d_out"), out = kernel.addTensor(op.getOut(), "out");
  Value dLse = op.getDLse() ? kernel.addTensor(op.getDLse(), "d_lse") : Value();
  Value target = kernel.addParameter(result, "delta");

  Value dOutTile = kernel.sharedTile("d_out_tile", rowsOfABlock, columns, type.getElementType());
  Value outTile = kernel.sharedTile("out_tile", rowsOfABlock, columns, type.getElementType());
  FragmentType rowsType = kernel.accumulatorType(rowsOfABlock, columns, {warps, 1}).getRowsType();
  Value sum = kernel.fragment("row_delta", rowsType);
  auto [batch, head, block, begin, rows] = takeRows(kernel, out, rowsOfABlock);
  SmallVector<Value> place{batch, head, begin};
  CopyAsyncOp::create(b, dOut, place, rows, dOutTile, options.aligned);
  CopyAsyncOp::create(b, out, place, rows, outTile, options.aligned);
  CopyCommitOp::create(b);
  FillOp::create(b, sum, kernel.f32(0));
  CopyWaitOp::create(b, 0);
  gpu::BarrierOp::create(b);
  RowDotOp::create(b, dOutTile, outTile, sum);
  RowCombineOp::create(b, Combine::add, sum, /*scratch=*/Value());
  if (dLse) {
    Value rowDLse = kernel.fragment("row_d_lse", rowsType);
    LoadRowsOp::create(b, dLse, place, rows, kernel.f32(0), rowDLse);
    kernel.map(rowDLse, sum, [&](ValueRange, ValueRange elements) -> SmallVector<Value> {
      return {arith::SubFOp::create(b, elements[1], elements[0])};
    });
  }
  StoreRowsOp::create(b, sum, target, place, rows);
  kernel.launch(getNumBlocks(host, op.getOut(), rowsOfABlock));
  replaceWithBuffer(host, op.getDelta(), result);
  op.erase();
}
