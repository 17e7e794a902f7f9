//===- TileForward.cpp - the forward kernel of the portable GPU family -------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// FlashAttention-2 (Dao 2023): a block of the grid keeps block_m queries and streams the keys in blocks of
// block_n. Warps divide the rows, so that the softmax of a row stays in four lanes, and the probabilities are
// the left operand of the second product in the registers where the first left them. (Where the output has
// too many columns for the registers of a warp, warps divide these, too, and what they know of a row, and the
// probabilities, go through shared memory.) One tile of keys and one of values: the keys of the next block
// are copied while the softmax runs, the values while the scores are computed.
//
// Where a tile has few rows (decoding), memory is what limits it. Then each warp is by itself (`key_warps`):
// it has all rows, streams a part of the keys through two tiles of its own, of which one is always on its
// way, and no warp waits for another until they merge their results (FlashDecoding, inside a block).
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/Targets.h"
#include "passes/TileForwardKernel.h"
#include "passes/WorkIndex.h"

using namespace mlir;
using namespace attn;
using namespace attn::tile;

namespace {
/// What another kernel wrote, on the host's side, and marked: see lowerMarkedForwardToTile.
struct MarkedResults {
  Value out, lse, progress;
};

class ForwardKernel : public ForwardTileKernel {
public:
  /// Computes the tiles that are marked in `marked`, where it is given, again.
  ForwardKernel(ImplicitLocOpBuilder &host, OnlineAttentionOp op, StringRef name,
                const TileLoweringOptions &options, const MarkedResults *marked = nullptr);
  void build();

private:
  void allocateStorage();
  void computeTile(Value work);
  Value isMarked(Value work);
  void forEachMarkedTile();
  void clearProgress(Value grid);
  void computeOutput(const BlockRanges &ranges, const Streamed &keys);
  void computeOutputSelecting(const BlockRanges &ranges, const Streamed &keys);
  void copyBlock(Value begin, Value stage);
  void step(const StreamedBlock &block);
  void stepOfWarp(const StreamedBlock &block);
  void updateOutput(const StreamedBlock &block);
  void barrier();
  void applyMasks(const StreamedBlock &block);
  Value leavesOutValues(const StreamedBlock &block);
  void copyFiniteValues(const StreamedBlock &block);
  void addKeptNonFinite(const StreamedBlock &block);
  void finalise();

  /// Whether pairs of blocks that are computed may be dropped.
  bool dropsPairs(const BlockRanges &ranges) {
    return scoresMayDrop() || (!ranges.all && (ranges.listed || !ranges.masked.empty()));
  }
  /// Whether probabilities go through shared memory to the second product.
  bool sharesProbabilities() { return elementType.isF32() || queryGrid[1] > 1; }
  /// Whether warps divide the keys: tiles but that of the queries are of a warp then.
  bool dividesKeys() { return keyWarps() > 1; }

  bool isRepair;
  Value hostOut, hostLse, out, lse, progress;
  /// How many parts the keys are computed in, and which one; null where the results are those of all keys.
  Value hostParts, split;
  /// The rows of all blocks of a head: its queries, or where tiles are packed those of `packed` heads.
  Value rows, numBlocks;
  // Storage.
  Value queryTile, keyTile, valueTile, probabilitiesTile, probabilities;
  /// Where warps divide the keys: the tiles of all, which warp it is, and what they merge.
  Value keyTiles, valueTiles, warp, mergedOutput, mergedLse, lses;
  /// Whether the output is computed the second time; null where no pair is dropped.
  Value isCareful;
};
} // namespace

ForwardKernel::ForwardKernel(ImplicitLocOpBuilder &host, OnlineAttentionOp op, StringRef name,
                             const TileLoweringOptions &options, const MarkedResults *marked)
    : ForwardTileKernel(host, op, name, options), isRepair(marked) {
  if (op.isSplit())
    hostParts = op.getSplits()
                    ? Value(op.getSplits())
                    : arith::ConstantIndexOp::create(host, op.getSchedule().getKvSplits()).getResult();
  hostOut = marked ? marked->out : allocateResult(host, op.getResult(0), op.getQuery(), hostParts);
  hostLse = marked ? marked->lse : allocateResult(host, op.getResult(1), op.getQuery(), hostParts);
  if (hostParts) {
    named(hostOut, "part_outs");
    named(hostLse, "part_lses");
  }
  out = addParameter(hostOut, "out");
  lse = addParameter(hostLse, "lse");
  if (marked)
    progress = addParameter(marked->progress, "progress");
}

void ForwardKernel::allocateStorage() {
  ArrayRef<int64_t> grid = queryGrid;
  if (dividesKeys()) {
    queryTile = fragment("query_rows", FragmentType::get(b.getContext(), {blockM(), paddedHeadDim},
                                                         elementType, Layout::operand_a, grid));
    int64_t tiles = 2 * keyWarps();
    keyTiles = sharedRing("key_tiles", tiles, blockN(), paddedHeadDim, elementType);
    valueTiles = sharedRing("value_tiles", tiles, blockN(), paddedValueDim, elementType);
    auto type = SharedType::get(b.getContext(), {keyWarps() * blockM()}, b.getF32Type());
    lses = SharedAllocOp::create(b, type, b.getStringAttr("lses"), /*offset=*/IntegerAttr());
    FragmentType merged = accumulatorType(blockM(), paddedValueDim, {1, keyWarps()});
    mergedOutput = fragment("merged", merged);
    mergedLse = fragment("merged_lse", merged.getRowsType());
  } else {
    queryTile = sharedTile("query_tile", blockM(), paddedHeadDim, elementType);
    keyTile = sharedTile("key_tile", blockN(), paddedHeadDim, elementType);
    valueTile = sharedTile("value_tile", blockN(), paddedValueDim, elementType);
  }
  FragmentType scoresType = accumulatorType(blockM(), blockN(), grid);
  scores = fragment("scores", scoresType);
  if (sharesProbabilities()) {
    probabilitiesTile = sharedTile("probabilities_tile", blockM(), blockN(), elementType);
    if (grid[1] > 1) // their tile is free whenever rows are combined
      scratch =
          SharedReuseOp::create(b, SharedType::get(b.getContext(), {grid[1] * blockM()}, b.getF32Type()),
                                probabilitiesTile, b.getStringAttr("row_parts"));
  } else {
    probabilities =
        fragment("probabilities", FragmentType::get(b.getContext(), scoresType.getShape(), elementType,
                                                    Layout::operand_a, scoresType.getWarps()));
  }
  output = fragment("output", accumulatorType(blockM(), paddedValueDim, grid));
  allocateRows(scoresType);
}

/// Of those who share tiles.
void ForwardKernel::barrier() {
  if (dividesKeys())
    WarpBarrierOp::create(b);
  else
    gpu::BarrierOp::create(b);
}

/// Starts copying the keys and values from `begin` on to the tiles number `stage` of the warp.
void ForwardKernel::copyBlock(Value begin, Value stage) {
  Value slot = named(add(mul(warp, index(2)), stage), "slot");
  ifThen(isLess(begin, kvLen), [&] {
    copyRows(key, batch, kvHead, begin, kvLen, ringSlot(keyTiles, slot, "next_keys"));
    copyRows(value, batch, kvHead, begin, kvLen, ringSlot(valueTiles, slot, "next_values"));
  });
  CopyCommitOp::create(b);
}

void ForwardKernel::stepOfWarp(const StreamedBlock &block) {
  // All lanes are done with the block before, where the next one goes.
  barrier();
  copyBlock(block.next, named(sub(index(1), block.stage), "next_stage"));
  CopyWaitOp::create(b, 1);
  barrier();
  Value slot = named(add(mul(warp, index(2)), block.stage), "slot");
  keyTile = ringSlot(keyTiles, slot, "key_tile");
  valueTile = ringSlot(valueTiles, slot, "value_tile");
  if (Value leavesOut = leavesOutValues(block))
    ifThen(leavesOut, [&] {
      copyFiniteValues(block);
      barrier();
    });
  FillOp::create(b, scores, f32(0));
  mma(scores, queryTile, keyTile, /*transposeA=*/false, /*transposeB=*/true);
  updateOutput(block);
}

void ForwardKernel::step(const StreamedBlock &block) {
  // All keys are there; all threads are done with the values of the block before.
  CopyWaitOp::create(b, 0);
  gpu::BarrierOp::create(b);
  Value leavesOut = leavesOutValues(block);
  auto copyValues = [&] { copyRows(value, batch, kvHead, block.begin, kvLen, valueTile); };
  auto copyFinite = [&] { copyFiniteValues(block); };
  // A branch that is never taken costs, too: on an H200 1 to 2 % less for wide heads where it stands here,
  // and for others where it stands behind the products.
  bool copiesTwice = paddedValueDim <= 128;
  if (!leavesOut || copiesTwice)
    copyValues();
  else
    ifThenElse(leavesOut, copyFinite, copyValues);
  CopyCommitOp::create(b);
  FillOp::create(b, scores, f32(0));
  mma(scores, queryTile, keyTile, /*transposeA=*/false, /*transposeB=*/true);

  // All values are there; all threads are done with the keys.
  CopyWaitOp::create(b, 0);
  gpu::BarrierOp::create(b);
  ifThen(isLess(block.next, kvLen), [&] { copyRows(key, batch, kvHead, block.next, kvLen, keyTile); });
  CopyCommitOp::create(b);
  if (leavesOut && copiesTwice)
    ifThen(leavesOut, [&] { // over the values that are there
      copyFiniteValues(block);
      gpu::BarrierOp::create(b);
    });
  updateOutput(block);
}

/// From the scores of a block to the output.
void ForwardKernel::updateOutput(const StreamedBlock &block) {
  applyScore(block.begin);
  applyMasks(block);
  softmax();
  if (!isBounded)
    rescaleOutput();
  if (sharesProbabilities()) {
    StoreSharedOp::create(b, scores, probabilitiesTile);
    gpu::BarrierOp::create(b);
    mma(output, probabilitiesTile, valueTile);
  } else {
    ConvertOp::create(b, scores, probabilities);
    mma(output, probabilities, valueTile);
  }
}

void ForwardKernel::applyMasks(const StreamedBlock &block) {
  if (block.masked)
    ifThen(block.masked, [&] { applyMask(block.begin); });
  ifThen(isLess(kvLen, add(block.begin, index(blockN()))), [&] { applyLength(block.begin); });
}

/// The second time infinities and NaNs are left out of the values of blocks with pairs that may be dropped:
/// whether that is so, null where it never is.
Value ForwardKernel::leavesOutValues(const StreamedBlock &block) {
  if (!isCareful || scoresMayDrop())
    return isCareful;
  return arith::AndIOp::create(b, isCareful, block.masked);
}

void ForwardKernel::copyFiniteValues(const StreamedBlock &block) {
  Value valueRows = named(sub(kvLen, block.begin), "kv_rows");
  CopyFiniteOp::create(b, value, ValueRange{batch, kvHead, block.begin}, valueRows, valueTile,
                       /*by_warp=*/dividesKeys());
}

/// Adds the infinities and NaNs that step() left out of the block, where pairs are kept.
void ForwardKernel::addKeptNonFinite(const StreamedBlock &block) {
  // All threads are done with the tiles.
  barrier();
  if (dividesKeys()) {
    Value slot = mul(warp, index(2));
    keyTile = ringSlot(keyTiles, slot, "key_tile");
    valueTile = ringSlot(valueTiles, slot, "value_tile");
  }
  copyRows(value, batch, kvHead, block.begin, kvLen, valueTile);
  if (scoresMayDrop())
    copyRows(key, batch, kvHead, block.begin, kvLen, keyTile);
  CopyCommitOp::create(b);
  CopyWaitOp::create(b, 0);
  barrier();
  FillOp::create(b, scores, f32(0));
  if (scoresMayDrop()) {
    mma(scores, queryTile, keyTile, /*transposeA=*/false, /*transposeB=*/true);
    applyScore(block.begin);
  }
  applyMasks(block);
  map({}, scores, [&](ValueRange, ValueRange elements) -> SmallVector<Value> {
    return {arith::SelectOp::create(b, isEmpty(elements[0], f32(-INFINITY)), f32(0), f32(1))};
  });
  if (sharesProbabilities()) {
    StoreSharedOp::create(b, scores, probabilitiesTile);
    gpu::BarrierOp::create(b);
  }
  AddNonFiniteOp::create(b, output, sharesProbabilities() ? probabilitiesTile : scores, valueTile);
}

/// The output before it is normalised, and the maximum and the sum of each row.
void ForwardKernel::computeOutput(const BlockRanges &ranges, const Streamed &keys) {
  initialiseRows();
  if (dividesKeys())
    barrier(); // all lanes are done with the tiles, where the output is computed again
  forEachVisitedBlock(
      ranges, keys,
      [&](Value first, Value stage) {
        if (dividesKeys())
          return copyBlock(first, stage);
        ifThen(isLess(first, kvLen), [&] { copyRows(key, batch, kvHead, first, kvLen, keyTile); });
        CopyCommitOp::create(b);
      },
      [&](const StreamedBlock &block) { dividesKeys() ? stepOfWarp(block) : step(block); });
  CopyWaitOp::create(b, 0);
}

/// The same where pairs may be dropped: what their values hold must not show, but 0 times an infinity or a
/// NaN is a NaN. Where the output shows any all is computed again, without those in blocks with such pairs;
/// then those of kept pairs are added. The loop over the blocks has no registers for more.
void ForwardKernel::computeOutputSelecting(const BlockRanges &ranges, const Streamed &keys) {
  auto constant = [](OpBuilder &builder, Location loc, bool value) -> Value {
    return arith::ConstantIntOp::create(builder, loc, value, 1);
  };
  auto loop = scf::WhileOp::create(
      b, TypeRange(), constant(b, b.getLoc(), false),
      [&](OpBuilder &builder, Location loc, ValueRange carried) {
        OpBuilder::InsertionGuard guard(b);
        b.restoreInsertionPoint(builder.saveInsertionPoint());
        isCareful = carried[0];
        computeOutput(ranges, keys);
        ifThen(isCareful, [&] {
          forEachVisitedBlock(
              ranges, keys, [](Value, Value) {},
              [&](const StreamedBlock &block) {
                if (scoresMayDrop())
                  return addKeptNonFinite(block);
                ifThen(block.masked, [&] { addKeptNonFinite(block); });
              });
        });
        Value isFirst = arith::XOrIOp::create(b, isCareful, constant(b, loc, true));
        Value hasNonFinite = anyNonFinite(output, blockSum);
        hasNonFinite = named(dividesKeys() ? hasNonFinite : holdsInBlock(hasNonFinite), "has_non_finite");
        scf::ConditionOp::create(b, arith::AndIOp::create(b, isFirst, hasNonFinite), ValueRange());
        builder.restoreInsertionPoint(b.saveInsertionPoint());
      },
      [&](OpBuilder &builder, Location loc, ValueRange) {
        scf::YieldOp::create(builder, loc, constant(builder, loc, true));
      });
  loop.getBeforeArguments()[0].setLoc(NameLoc::get(b.getStringAttr("is_careful"), b.getLoc()));
}

/// Normalises the output and stores it and lse.
void ForwardKernel::finalise() {
  if (scratch) // all threads are done with the probabilities
    gpu::BarrierOp::create(b);
  normaliseOutput();
  computeLse();
  if (dividesKeys()) {
    auto type = SharedType::get(b.getContext(), {keyWarps() * blockM() * paddedValueDim}, b.getF32Type());
    Value scratch = SharedReuseOp::create(b, type, valueTiles, b.getStringAttr("outputs"));
    MergeWarpsOp::create(b, output, rowMax, mergedOutput, mergedLse, scratch, lses);
    output = mergedOutput;
    rowMax = mergedLse;
  }
  Value blockRows = named(sub(rows, begin), "q_rows");
  SmallVector<Value> place{batch, head, begin};
  if (split)
    place.insert(place.begin(), split);
  auto outElement = cast<MemRefType>(out.getType()).getElementType();
  auto stagingType = SharedType::get(b.getContext(), {blockM(), paddedValueDim}, cast<FloatType>(outElement));
  Value staging;
  if (!dividesKeys() && stagingType.getBytes() <= cast<SharedType>(queryTile.getType()).getBytes())
    staging = SharedReuseOp::create(b, stagingType, queryTile, b.getStringAttr("output_tile"));
  // Parts are contiguous: their rows may be none of 16 bytes.
  bool aligned = options.aligned && (!hostParts || valueDim % 4 == 0);
  StoreOp::create(b, output, staging, out, place, blockRows, aligned, packed);
  StoreRowsOp::create(b, rowMax, lse, place, blockRows, packed);
}

void ForwardKernel::computeTile(Value work) {
  Value parts;
  if (hostParts) {
    parts = dim(out, 0, "parts");
    split = takeDigit(work, parts, "split");
  }
  if (dividesKeys()) {
    Value thread = gpu::ThreadIdOp::create(b, gpu::Dimension::x);
    warp = named(arith::DivSIOp::create(b, thread, index(32)), "warp");
  }
  auto [queryBegin, queryEnd] = decodeRows(work, rows, numBlocks);

  Value queryRows = named(sub(rows, begin), "q_rows");
  if (dividesKeys())
    LoadOperandOp::create(b, query, ValueRange{batch, head, begin}, queryRows, queryTile, options.aligned,
                          packed);
  else
    CopyAsyncOp::create(b, query, ValueRange{batch, head, begin}, queryRows, queryTile, options.aligned,
                        /*by_warp=*/false, packed);
  BlockRanges ranges = evaluateRanges(batch, head, queryBegin, queryEnd);
  Streamed keys{"kv", index(0), kvLen, blockN(), split, parts, warp, keyWarps()};
  if (dropsPairs(ranges))
    computeOutputSelecting(ranges, keys);
  else
    computeOutput(ranges, keys);
  if (hostParts && canAwaitKernels(op))
    ReleaseKernelsOp::create(b);
  finalise();
}

/// Whether a row of lse is a NaN in a tile. All threads look, and have the result.
Value ForwardKernel::isMarked(Value work) {
  Value position = attn::takeDigit(b, work, atLeastOne(numBlocks)),
        head = attn::takeDigit(b, work, atLeastOne(qHeads));
  Value tileBegin = mul(sub(sub(numBlocks, index(1)), position), index(blockM()));
  auto loop = scf::ForOp::create(b, gpu::ThreadIdOp::create(b, gpu::Dimension::x), index(blockM()),
                                 gpu::BlockDimOp::create(b, gpu::Dimension::x),
                                 arith::ConstantIntOp::create(b, 0, 1).getResult());
  loop.getInductionVar().setLoc(NameLoc::get(b.getStringAttr("row"), b.getLoc()));
  loop.getRegionIterArg(0).setLoc(NameLoc::get(b.getStringAttr("found"), b.getLoc()));
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    // Behind the last row another one is read, or none.
    Value place = add(tileBegin, loop.getInductionVar());
    Value value = memref::LoadOp::create(b, lse, ValueRange{work, head, place});
    Value isMarked = arith::AndIOp::create(b, isNan(value), isLess(place, rows));
    scf::YieldOp::create(b, arith::OrIOp::create(b, isMarked, loop.getRegionIterArg(0)).getResult());
  }
  return holdsInBlock(loop.getResult(0));
}

void ForwardKernel::forEachMarkedTile() {
  Value block = gpu::BlockIdOp::create(b, gpu::Dimension::x),
        grid = gpu::GridDimOp::create(b, gpu::Dimension::x);
  Value tiles = named(mul(mul(dim(query, 0, "batches"), qHeads), numBlocks), "num_tiles");
  Value isAny = arith::CmpIOp::create(b, arith::CmpIPredicate::ne,
                                      memref::LoadOp::create(b, progress, ValueRange{index(1)}),
                                      arith::ConstantIntOp::create(b, 0, 32));
  ifThen(named(isAny, "any_marked"), [&] {
    auto loop = scf::ForOp::create(b, block, tiles, grid);
    loop.getInductionVar().setLoc(NameLoc::get(b.getStringAttr("tile"), b.getLoc()));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    // The vote also waits until all threads are done with the tile before.
    ifThen(named(isMarked(loop.getInductionVar()), "is_marked"),
           [&] { computeTile(loop.getInductionVar()); });
    b.setInsertionPointAfter(loop);
    clearProgress(grid);
  });
}

/// Leaves zeros to the next call. The last block does it, when all others have seen that rows are marked:
/// they are counted where tiles were.
void ForwardKernel::clearProgress(Value grid) {
  gpu::BarrierOp::create(b);
  Value thread = gpu::ThreadIdOp::create(b, gpu::Dimension::x);
  ifThen(arith::CmpIOp::create(b, arith::CmpIPredicate::eq, thread, index(0)), [&] {
    Value zero = arith::ConstantIntOp::create(b, 0, 32), one = arith::ConstantIntOp::create(b, 1, 32);
    Value before = memref::AtomicRMWOp::create(b, arith::AtomicRMWKind::addi, one, progress, index(0));
    named(before, "blocks_before");
    Value last = sub(grid, index(1));
    Value isLast = arith::CmpIOp::create(b, arith::CmpIPredicate::eq,
                                         arith::IndexCastOp::create(b, b.getIndexType(), before), last);
    ifThen(isLast, [&] {
      for (int64_t i = 0; i < 2; ++i)
        memref::StoreOp::create(b, zero, progress, ValueRange{index(i)});
    });
  });
}

void ForwardKernel::build() {
  bool packs = hostParts && packsHeads(op);
  rows = qLen;
  if (packs) {
    packed = group;
    rows = named(mul(qLen, group), "rows");
  }
  allocateStorage();
  numBlocks = named(ceilDiv(rows, blockM()), "num_blocks");
  Value blocks = getNumForwardBlocks(host, op, packs);
  if (isRepair) {
    if (canAwaitKernels(op)) // that which marks: this one starts as that one's blocks end
      AwaitKernelsOp::create(b);
    forEachMarkedTile();
    int64_t resident = getTarget(op->getParentOfType<ModuleOp>()).getMultiprocessors() *
                       op.getSchedule().getBlocksPerMultiprocessor();
    launch(arith::MinSIOp::create(host, blocks, arith::ConstantIndexOp::create(host, resident).getResult()));
    return;
  }
  computeTile(gpu::BlockIdOp::create(b, gpu::Dimension::x));
  if (packs && !op.getSplits()) // a number that follows from the sizes is that of few rows
    requireShort(host, getNumForwardRows(host, op, packs), "queries in the heads of a group");
  launch(hostParts ? arith::MulIOp::create(host, blocks, hostParts).getResult() : blocks);
  replaceWithBuffer(host, op.getResult(0), hostOut);
  replaceWithBuffer(host, op.getResult(1), hostLse);
}

bool attn::packsHeads(OnlineAttentionOp op) {
  int64_t qHeads = op.getQuery().getType().getDimSize(1), kvHeads = op.getKey().getType().getDimSize(1);
  bool isGrouped = qHeads != kvHeads || ShapedType::isDynamic(qHeads);
  return isGrouped && (op.getRanges().empty() || op.getRanges().getArgument(1).use_empty());
}

Value attn::getNumForwardRows(ImplicitLocOpBuilder &host, OnlineAttentionOp op, bool packs) {
  auto size = [&](Value tensor, int64_t position) -> Value {
    return host.createOrFold<tensor::DimOp>(tensor, position);
  };
  Value queries = size(op.getQuery(), 2);
  if (!packs)
    return queries;
  // Without heads there are no rows.
  Value kvHeads = host.createOrFold<arith::MaxSIOp>(size(op.getKey(), 1),
                                                    arith::ConstantIndexOp::create(host, 1).getResult());
  Value group = arith::DivSIOp::create(host, size(op.getQuery(), 1), kvHeads);
  return arith::MulIOp::create(host, queries, group);
}

Value attn::getNumForwardBlocks(ImplicitLocOpBuilder &host, OnlineAttentionOp op, bool packs) {
  Value blocks = arith::CeilDivSIOp::create(
      host, getNumForwardRows(host, op, packs),
      arith::ConstantIndexOp::create(host, op.getSchedule().getBlockM()).getResult());
  Value heads = packs ? op.getKey() : op.getQuery();
  for (int64_t position : {0, 1})
    blocks = arith::MulIOp::create(host, blocks, tensor::DimOp::create(host, heads, position).getResult());
  return blocks;
}

void attn::lowerForwardToTile(OnlineAttentionOp op, const TileLoweringOptions &options) {
  ImplicitLocOpBuilder host(op.getLoc(), op);
  auto function = op->getParentOfType<FunctionOpInterface>();
  StringRef name = op.isSplit() ? "_forward_parts" : "_forward";
  ForwardKernel(host, op, (function.getName() + name).str(), options).build();
  op.erase();
}

void attn::lowerMarkedForwardToTile(ImplicitLocOpBuilder &host, OnlineAttentionOp op,
                                    const TileLoweringOptions &options, Value out, Value lse, Value progress,
                                    StringRef name) {
  MarkedResults marked{out, lse, progress};
  ForwardKernel(host, op, name, options, &marked).build();
}
