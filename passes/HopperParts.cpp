//===- HopperParts.cpp - the split forward kernel of the hopper GPU family ---===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For few queries and long keys (FlashDecoding): a block of the grid computes a part of the keys for the
// queries of all heads that share them, which stay in registers. What limits it is memory, so a consumer
// waits for its products; two blocks share a multiprocessor where they have one consumer each, and the
// products of one run while the other is at its probabilities.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "passes/HopperKernel.h"

using namespace mlir;
using namespace attn;
using namespace attn::tile;

static Value getNumParts(ImplicitLocOpBuilder &host, OnlineAttentionOp op) {
  if (Value splits = op.getSplits())
    return splits;
  return arith::ConstantIndexOp::create(host, op.getSchedule().getKvSplits());
}

namespace {
class HopperPartsKernel : public HopperKernel {
public:
  /// What a single part computes is all there is, and goes to `whole`, if that is not null.
  HopperPartsKernel(ImplicitLocOpBuilder &host, OnlineAttentionOp op, StringRef name,
                    const TileLoweringOptions &options, const MergeTarget *whole);
  void build();

private:
  void decodeWork();
  /// The visited blocks of the part; producer and consumers go through the same.
  void forEachBlock(function_ref<void(const StreamedBlock &)> body);
  void consume();
  void step(const StreamedBlock &block);
  void finalise();
  void store(Value out, Value lse, Value part);

  Value hostParts, hostOut, hostLse, partOuts, partLses, out, lse;
  /// Which part, of how many; the rows of all blocks of a head, and the queries of this block.
  Value split, parts, rows, numBlocks, queryBegin, queryEnd, blockRows;
};
} // namespace

HopperPartsKernel::HopperPartsKernel(ImplicitLocOpBuilder &host, OnlineAttentionOp op, StringRef name,
                                     const TileLoweringOptions &options, const MergeTarget *whole)
    : HopperKernel(host, op, name, options), hostParts(getNumParts(host, op)) {
  Value stored = whole ? arith::MulIOp::create(host, hostParts, whole->isSplit).getResult() : hostParts;
  hostOut = named(allocateResult(host, op.getResult(0), op.getQuery(), stored), "part_outs");
  hostLse = named(allocateResult(host, op.getResult(1), op.getQuery(), stored), "part_lses");
  partOuts = addParameter(hostOut, "part_outs");
  partLses = addParameter(hostLse, "part_lses");
  if (whole) {
    out = addParameter(whole->out, "out");
    lse = addParameter(whole->lse, "lse");
  }
  parts = named(addParameter(hostParts, "parts"), "parts");
  addProgress();
  addKeyMaps();
}

void HopperPartsKernel::decodeWork() {
  Value work = gpu::BlockIdOp::create(b, gpu::Dimension::x);
  split = takeDigit(work, parts, "split");
  std::tie(queryBegin, queryEnd) = decodeRows(work, rows, numBlocks);
}

void HopperPartsKernel::forEachBlock(function_ref<void(const StreamedBlock &)> body) {
  BlockRanges ranges = evaluateRanges(batch, head, queryBegin, queryEnd);
  Streamed keys{"kv", index(0), kvLen, blockN(), split, parts};
  auto nothing = [](Value, Value) {};
  forEachVisitedBlock(ranges, keys, nothing, body);
}

/// From the keys and values of a block to the output.
void HopperPartsKernel::step(const StreamedBlock &block) {
  startScores(wait(keys, "key_tile"));
  MmaWaitOp::create(b, 0, ValueRange{scores, queryTile});
  release(keys);
  applyScore(block.begin);
  if (block.masked)
    ifThen(block.masked, [&] { applyMask(block.begin); });
  ifThen(isLess(kvLen, add(block.begin, index(blockN()))), [&] { applyLength(block.begin); });
  if (isBounded) {
    softmax();
  } else {
    softmaxLazily();
    rescaleWhereGrown();
  }
  ConvertOp::create(b, scores, probabilities);
  startOutput(wait(values, "value_tile"));
  MmaWaitOp::create(b, 0, ValueRange{output, probabilities});
  release(values);
}

void HopperPartsKernel::finalise() {
  if (dropsPairs())
    checkOutput();
  normaliseOutput();
  computeLse();
  if (dropsPairs())
    noteMarked(markRows(blockRows, /*isFixed=*/Value(), /*keys=*/Value()));
  auto storePart = [&] { store(partOuts, partLses, split); };
  if (!out)
    return storePart();
  ifThenElse(isLess(index(1), parts), storePart, [&] { store(out, lse, /*part=*/Value()); });
}

void HopperPartsKernel::store(Value out, Value lse, Value part) {
  SmallVector<Value> place{batch, head, begin};
  if (part)
    place.insert(place.begin(), part);
  // Parts are contiguous: their rows may be none of 16 bytes.
  bool aligned = options.aligned && (!part || valueDim % 4 == 0);
  StoreOp::create(b, output, /*via=*/Value(), out, place, blockRows, aligned, packed);
  StoreRowsOp::create(b, rowMax, lse, place, blockRows, packed);
}

void HopperPartsKernel::consume() {
  allocateAccumulators();
  SmallVector<int64_t> warps{4 * consumers, 1};
  queryTile = fragment("query_rows", FragmentType::get(b.getContext(), {blockM(), paddedHeadDim}, elementType,
                                                       Layout::operand_a, warps));
  blockRows = named(sub(rows, begin), "q_rows");
  LoadOperandOp::create(b, query, ValueRange{batch, head, begin}, blockRows, queryTile, options.aligned,
                        packed);
  initialiseRows();
  forEachBlock([&](const StreamedBlock &block) { step(block); });
  ReleaseKernelsOp::create(b);
  finalise();
}

void HopperPartsKernel::build() {
  bool packs = packsHeads(op);
  rows = qLen;
  if (packs) {
    packed = group;
    rows = named(mul(qLen, group), "rows");
  }
  numBlocks = named(ceilDiv(rows, blockM()), "num_blocks");
  decodeWork();
  addKeyPipelines();
  WarpSpecializeOp roles = addRoles();
  fillRole(b, roles.getConsumer(), [&] { consume(); });
  fillRole(b, roles.getProducer(), [&] {
    forEachBlock([&](const StreamedBlock &block) {
      load(keyMap, keys, {batch, kvHead, block.begin}, "key_slot");
      load(valueMap, values, {batch, kvHead, block.begin}, "value_slot");
    });
  });
  if (packs && !op.getSplits()) // a number that follows from the sizes is that of few rows
    requireShort(host, getNumForwardRows(host, op, packs), "queries in the heads of a group");
  Value blocks = getNumForwardBlocks(host, op, packs);
  launch(arith::MulIOp::create(host, blocks, hostParts));
  replaceWithBuffer(host, op.getResult(0), hostOut);
  replaceWithBuffer(host, op.getResult(1), hostLse);
}

/// The attention of all keys at once that a merge computes from parts.
static OnlineAttentionOp cloneWhole(ImplicitLocOpBuilder &host, OnlineAttentionOp op, MergeOp merge) {
  auto whole = OnlineAttentionOp::create(
      host, merge.getResultTypes(), op.getKind(), op.getQuery(), op.getKey(), op.getValue(), Value(), Value(),
      Value(), op.getCaptures(), op.getBlockLists(), op.getScaleAttr(), op.getBlocksAttr(),
      op.getSchedule().withKvSplits(1), /*splits=*/Value(), op.getTf32());
  for (auto [from, to] : llvm::zip_equal(op->getRegions(), whole->getRegions())) {
    IRMapping mapping;
    from.cloneInto(&to, mapping);
  }
  return whole;
}

/// What merges all parts of `op`, and nothing else; null without such an operation.
static MergeOp findMerge(OnlineAttentionOp op) {
  MergeOp merge;
  for (Operation *user : op->getUsers()) {
    auto found = dyn_cast<MergeOp>(user);
    if (!found || (merge && merge != found) || found.getPartOuts().size() != 1 || !found.isStacked())
      return {};
    merge = found;
  }
  return merge;
}

LogicalResult attn::lowerPartsToHopper(OnlineAttentionOp op, const TileLoweringOptions &options) {
  ImplicitLocOpBuilder host(op.getLoc(), op);
  std::string name = (op->getParentOfType<FunctionOpInterface>().getName() + "_forward").str();
  MergeOp merge = findMerge(op);
  // A kernel folds factors of the score region: the one that repairs starts from the region as it was.
  OnlineAttentionOp whole;
  MergeTarget target;
  if (merge) {
    whole = cloneWhole(host, op, merge);
    target.out = allocateResult(host, merge.getOut(), op.getQuery());
    target.lse = allocateResult(host, merge.getLse(), op.getQuery());
    Value one = arith::ConstantIndexOp::create(host, 1);
    Value more = arith::SubIOp::create(host, getNumParts(host, op), one);
    target.isSplit = arith::MinSIOp::create(host, more, one);
  }
  HopperPartsKernel kernel(host, op, name + "_parts", options, merge ? &target : nullptr);
  Value progress = kernel.getHostProgress();
  if (progress && !merge)
    return op.emitOpError(
        "expected its parts to be merged by an attn.merge of nothing else, since rows of the "
        "result are computed again; compile with family = portable");
  kernel.build();
  LogicalResult lowered = success();
  if (merge) {
    host.setInsertionPointAfter(merge);
    lowerMergeToTile(merge, target);
    if (progress)
      lowered = lowerMarkedRows(host, whole, options, target.out, target.lse, progress, name + "_repair");
    whole.erase();
  }
  op.erase();
  return lowered;
}
