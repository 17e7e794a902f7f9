//===- TileBackward.cpp - the backward kernels of the portable GPU family ----===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// FlashAttention-2 (Dao 2023): a block of the grid keeps block_n keys and streams the queries of all heads of
// its group in blocks of block_m. Per tile of the score matrix, with x = scale * q k^T:
//
//   s = score(x)   p = exp(s - lse)   d_s = p * (d_out v^T - delta)   d_x = gradient(d_s, x)
//   d_value += p^T d_out   d_key += scale * d_x^T q   d_query += scale * d_x k
//
// p and d_x are left operands with rows and columns exchanged, so they go through shared memory. The sums of
// d_query of all blocks of keys meet in an f32 workspace, by atomic additions; a second kernel rounds them.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/TileKernel.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace attn;
using namespace attn::tile;

//===----------------------------------------------------------------------===//
// Buffers of the host
//===----------------------------------------------------------------------===//

/// A new buffer of `shape`, whose open sizes are those of `like`.
static Value allocate(ImplicitLocOpBuilder &host, ArrayRef<int64_t> shape, Type elementType, Value like,
                      bool zeroed) {
  SmallVector<Value> dynamicSizes;
  for (auto [position, size] : llvm::enumerate(shape))
    if (ShapedType::isDynamic(size))
      dynamicSizes.push_back(tensor::DimOp::create(host, like, position));
  Value buffer = memref::AllocOp::create(host, MemRefType::get(shape, elementType), dynamicSizes);
  if (zeroed) {
    Value zero = arith::ConstantOp::create(host, cast<TypedAttr>(host.getZeroAttr(elementType)));
    linalg::FillOp::create(host, zero, buffer);
  }
  return buffer;
}

static Value allocateLike(ImplicitLocOpBuilder &host, Value result, Value like, bool zeroed = false) {
  auto type = cast<RankedTensorType>(result.getType());
  return allocate(host, type.getShape(), type.getElementType(), like, zeroed);
}

static void replaceWithBuffer(ImplicitLocOpBuilder &host, Value result, Value buffer) {
  result.replaceAllUsesWith(bufferization::ToTensorOp::create(host, result.getType(), buffer,
                                                              /*restrict=*/true, /*writable=*/true));
}

/// ceildiv(size 2, block) * size 1 * size 0 of a (batch, heads, length, …) tensor.
static Value getNumBlocks(ImplicitLocOpBuilder &host, Value tensor, int64_t block) {
  auto size = [&](int64_t position) -> Value { return tensor::DimOp::create(host, tensor, position); };
  Value blocks =
      arith::CeilDivSIOp::create(host, size(2), arith::ConstantIndexOp::create(host, block).getResult());
  Value heads = arith::MulIOp::create(host, size(0), size(1));
  return arith::MulIOp::create(host, blocks, heads);
}

//===----------------------------------------------------------------------===//
// The main kernel
//===----------------------------------------------------------------------===//

namespace {
/// The gradient of a capture at an index that is the same for a whole head.
struct HeadSum {
  Value sum, buffer;
  SmallVector<Value> indices;
};

class FusedKernel : public OnlineTileKernel {
public:
  FusedKernel(ImplicitLocOpBuilder &host, OnlineAttentionOp op, StringRef name,
              const TileLoweringOptions &options);
  void build();

  /// Of the host: the sum of d_query over blocks of keys, without the scale.
  Value querySum;

private:
  void allocateStorage();
  void beginHead();
  void endHead();
  void step(Value queryBegin, Value masked);
  void differentiateTile(Value queryBegin, bool isMasked);
  Value getGradientBuffer(AccumulateGradientOp gradient);
  Value evaluateForHead(Value regionValue);
  void scaleFragment(Value fragment, double factor);

  ImplicitLocOpBuilder &host;
  SmallVector<Value> hostResults; // without d_query
  Value lse, delta, dOut, dQuerySum, dKeyOut, dValueOut;
  SmallVector<Value> captureGradients;
  // The block of the grid, and the head that it streams.
  Value batch, head, kvHead, begin, isRagged;
  // Storage.
  Value keyTile, valueTile, queryTile, dOutTile, probabilitiesTile, dScoresTile;
  Value scores, dScores, dKey, dValue, dQuery, rowLse, rowDelta;
  llvm::DenseMap<Operation *, HeadSum> headSums;
};
} // namespace

FusedKernel::FusedKernel(ImplicitLocOpBuilder &host, OnlineAttentionOp op, StringRef name,
                         const TileLoweringOptions &options)
    : OnlineTileKernel(host, op, name, options), host(host) {
  lse = addTensor(op.getLse(), "lse");
  delta = addTensor(op.getDelta(), "delta");
  dOut = addTensor(op.getDOut(), "d_out");
  querySum = allocate(host, op.getQuery().getType().getShape(), host.getF32Type(), op.getQuery(),
                      /*zeroed=*/true);
  dQuerySum = addParameter(querySum, "d_query_sum");
  hostResults = {allocateLike(host, op.getResult(1), op.getKey()),
                 allocateLike(host, op.getResult(2), op.getValue())};
  dKeyOut = addParameter(hostResults[0], "d_key");
  dValueOut = addParameter(hostResults[1], "d_value");
  for (unsigned number : op.getDifferentiableCaptures()) {
    OpResult gradient = op.getCaptureGradient(number);
    hostResults.push_back(allocateLike(host, gradient, op.getShapeSource(gradient), /*zeroed=*/true));
    captureGradients.push_back(addParameter(hostResults.back(), "d_capture_" + std::to_string(number)));
  }
}

void FusedKernel::allocateStorage() {
  ArrayRef<int64_t> grid = warpGrid;
  keyTile = sharedTile("key_tile", blockN(), paddedHeadDim, elementType);
  valueTile = sharedTile("value_tile", blockN(), paddedValueDim, elementType);
  queryTile = sharedTile("query_tile", blockM(), paddedHeadDim, elementType);
  dOutTile = sharedTile("d_out_tile", blockM(), paddedValueDim, elementType);
  probabilitiesTile = sharedTile("probabilities_tile", blockM(), blockN(), elementType);
  dScoresTile = sharedTile("d_scores_tile", blockM(), blockN(), elementType);
  FragmentType scoresType = accumulatorType(blockM(), blockN(), grid);
  scores = fragment("scores", scoresType);
  dScores = fragment("d_scores", scoresType);
  rowLse = fragment("row_lse", scoresType.getRowsType());
  rowDelta = fragment("row_delta", scoresType.getRowsType());
  dKey = fragment("d_key_sum", accumulatorType(blockN(), paddedHeadDim, grid));
  dValue = fragment("d_value_sum", accumulatorType(blockN(), paddedValueDim, grid));
  dQuery = fragment("d_query", accumulatorType(blockM(), paddedHeadDim, grid));
}

void FusedKernel::scaleFragment(Value fragment, double factor) {
  map({}, fragment, [&](ValueRange, ValueRange elements) -> SmallVector<Value> {
    return {arith::MulFOp::create(b, elements[0], f32(factor))};
  });
}

//===----------------------------------------------------------------------===//
// Gradients of captures
//===----------------------------------------------------------------------===//

Value FusedKernel::getGradientBuffer(AccumulateGradientOp gradient) {
  unsigned capture = op.getCaptureNumber(cast<BlockArgument>(gradient.getCapture()));
  unsigned firstResult = op->getNumResults() - captureGradients.size();
  return captureGradients[op.getCaptureGradient(capture).getResultNumber() - firstResult];
}

/// What a value of the gradient region is for a whole head; null where it depends on the pair.
Value FusedKernel::evaluateForHead(Value regionValue) {
  if (auto argument = dyn_cast<BlockArgument>(regionValue)) {
    switch (argument.getArgNumber()) {
    case GradientArgs::batch:
      return batch;
    case GradientArgs::head:
      return head;
    case GradientArgs::cotangent:
    case GradientArgs::score:
    case GradientArgs::query:
    case GradientArgs::key:
      return {};
    default:
      return captures[argument.getArgNumber() - GradientArgs::numFixed];
    }
  }
  Operation *definition = regionValue.getDefiningOp();
  if (definition->getNumRegions() != 0 || !isPure(definition) || isa<tensor::ExtractOp>(definition))
    return {};
  IRMapping mapping;
  for (Value operand : definition->getOperands()) {
    Value known = evaluateForHead(operand);
    if (!known)
      return {};
    mapping.map(operand, known);
  }
  return b.clone(*definition, mapping)->getResult(cast<OpResult>(regionValue).getResultNumber());
}

void FusedKernel::beginHead() {
  headSums.clear();
  unsigned number = 0;
  op.getGradient().walk([&](AccumulateGradientOp gradient) {
    SmallVector<Value> indices =
        llvm::map_to_vector(gradient.getIndices(), [&](Value index) { return evaluateForHead(index); });
    if (llvm::is_contained(indices, Value()))
      return;
    auto warps = cast<FragmentType>(scores.getType()).getWarps();
    auto type = FragmentType::get(b.getContext(), {}, b.getF32Type(), Layout::thread, warps);
    Value sum = fragment("sum_" + std::to_string(number++), type);
    FillOp::create(b, sum, f32(0));
    headSums[gradient] = {sum, getGradientBuffer(gradient), indices};
  });
}

void FusedKernel::endHead() {
  op.getGradient().walk([&](AccumulateGradientOp gradient) {
    if (auto found = headSums.find(gradient); found != headSums.end())
      FlushSumOp::create(b, found->second.sum, found->second.buffer, found->second.indices);
  });
}

//===----------------------------------------------------------------------===//
// One tile
//===----------------------------------------------------------------------===//

/// Turns q k^T into probabilities and d_out v^T into d_x, in place.
void FusedKernel::differentiateTile(Value queryBegin, bool isMasked) {
  double scale = op.getScaleOrDefault();
  bool hasScore = !op.getScore().empty();
  map({rowLse, rowDelta}, {scores, dScores},
      [&](ValueRange indices, ValueRange elements) -> SmallVector<Value> {
        Value lse = elements[0], delta = elements[1], product = elements[2], dP = elements[3];
        Value queryIndex = named(add(queryBegin, indices[0]), "q_idx");
        Value keyIndex = named(add(begin, indices[1]), "kv_idx");

        Value x = arith::MulFOp::create(b, product, f32(scale)), s = x;
        if (hasScore)
          s = inlineScore(x, batch, head, queryIndex, keyIndex);
        // lse is +inf for rows without a key or a query: their probabilities are 0.
        Value exponent;
        if (!hasScore && !elementType.isF32())
          exponent = math::FmaOp::create(
              b, product, f32(scale * llvm::numbers::log2e),
              arith::MulFOp::create(b, arith::NegFOp::create(b, lse), f32(llvm::numbers::log2e)));
        else
          exponent = arith::MulFOp::create(b, arith::SubFOp::create(b, s, lse), f32(llvm::numbers::log2e));
        auto flags = elementType.isF32() ? arith::FastMathFlags::none : arith::FastMathFlags::afn;
        Value p = math::Exp2Op::create(b, exponent, flags);

        Value keep;
        auto also = [&](Value condition) {
          keep = keep ? arith::AndIOp::create(b, keep, condition).getResult() : condition;
        };
        if (hasScore) // what the gradient region makes of a score of -inf is not wanted
          also(arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, p, f32(0)));
        if (isMasked) {
          also(isLess(keyIndex, kvLen));
          if (!op.getMask().empty())
            also(inlineMask(batch, head, queryIndex, keyIndex));
        }
        auto select = [&](Value value) -> Value {
          return keep ? arith::SelectOp::create(b, keep, value, f32(0)).getResult() : value;
        };
        p = select(p);
        Value dS = arith::MulFOp::create(b, p, arith::SubFOp::create(b, dP, delta));
        if (!hasScore)
          return {p, select(dS)};

        RegionInlining inlining = getInlining(/*speculative=*/true);
        // The clones of the accumulations come in the order of the originals.
        SmallVector<AccumulateGradientOp> gradients;
        op.getGradient().walk([&](AccumulateGradientOp gradient) { gradients.push_back(gradient); });
        size_t next = 0;
        inlining.accumulateGradient = [&](OpBuilder &builder, Location loc, Value value, unsigned,
                                          ValueRange at, MutableArrayRef<Value>) {
          AccumulateGradientOp gradient = gradients[next++];
          Value zero = arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(0));
          if (keep)
            value = arith::SelectOp::create(builder, loc, keep, value, zero);
          if (auto sum = headSums.find(gradient); sum != headSums.end()) {
            AccumulateOp::create(builder, loc, value, sum->second.sum);
            return;
          }
          // Where the pair is dropped the index may be out of bounds, and the value is exactly 0.
          Value isNonZero = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::UNE, value, zero);
          Value buffer = getGradientBuffer(gradient);
          SmallVector<Value> place(at);
          scf::IfOp::create(builder, loc, isNonZero, [&](OpBuilder &then, Location loc) {
            memref::AtomicRMWOp::create(then, loc, arith::AtomicRMWKind::addf, value, buffer, place);
            scf::YieldOp::create(then, loc);
          });
        };
        SmallVector<Value> arguments{dS, x, batch, head, queryIndex, keyIndex};
        llvm::append_range(arguments, captures);
        Value dX = inlineRegion(b, op.getGradient(), arguments, inlining);
        return {p, select(dX)};
      });
}

void FusedKernel::step(Value queryBegin, Value masked) {
  // All threads are done with the tiles of the block before.
  gpu::BarrierOp::create(b);
  copyRows(query, batch, head, queryBegin, qLen, queryTile);
  copyRows(dOut, batch, head, queryBegin, qLen, dOutTile);
  CopyCommitOp::create(b);
  Value rows = named(sub(qLen, queryBegin), "q_rows");
  SmallVector<Value> place{batch, head, queryBegin};
  LoadRowsOp::create(b, lse, place, rows, f32(-INFINITY), rowLse);
  LoadRowsOp::create(b, delta, place, rows, f32(0), rowDelta);
  map({}, rowLse, [&](ValueRange, ValueRange elements) -> SmallVector<Value> {
    Value isEmpty = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, elements[0], f32(-INFINITY));
    return {arith::SelectOp::create(b, isEmpty, f32(INFINITY), elements[0])};
  });
  CopyWaitOp::create(b, 0);
  gpu::BarrierOp::create(b);

  FillOp::create(b, scores, f32(0));
  mma(scores, queryTile, keyTile, /*transposeA=*/false, /*transposeB=*/true);
  FillOp::create(b, dScores, f32(0));
  mma(dScores, dOutTile, valueTile, /*transposeA=*/false, /*transposeB=*/true);

  masked = masked ? arith::OrIOp::create(b, masked, isRagged).getResult() : isRagged;
  auto branch = scf::IfOp::create(b, masked, /*withElseRegion=*/true);
  for (bool isMasked : {true, false}) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(isMasked ? branch.thenBlock() : branch.elseBlock());
    differentiateTile(queryBegin, isMasked);
  }

  StoreSharedOp::create(b, scores, probabilitiesTile);
  StoreSharedOp::create(b, dScores, dScoresTile);
  gpu::BarrierOp::create(b);
  mma(dValue, probabilitiesTile, dOutTile, /*transposeA=*/true);
  mma(dKey, dScoresTile, queryTile, /*transposeA=*/true);
  FillOp::create(b, dQuery, f32(0));
  mma(dQuery, dScoresTile, keyTile);
  AtomicAddOp::create(b, dQuery, dQuerySum, place, rows);
}

void FusedKernel::build() {
  allocateStorage();
  Value numBlocks = named(ceilDiv(kvLen, blockN()), "num_blocks");
  Value work = gpu::BlockIdOp::create(b, gpu::Dimension::x);
  // The first blocks first: under a causal mask they have the most queries.
  Value block = takeDigit(work, numBlocks, "block");
  kvHead = takeDigit(work, kvHeads, "kv_head");
  batch = named(work, "batch");
  begin = named(mul(block, index(blockN())), "kv_begin");
  Value end = named(arith::MinSIOp::create(b, add(begin, index(blockN())), kvLen), "kv_end");
  isRagged = named(isLess(kvLen, add(begin, index(blockN()))), "is_ragged");

  copyRows(key, batch, kvHead, begin, kvLen, keyTile);
  copyRows(value, batch, kvHead, begin, kvLen, valueTile);
  FillOp::create(b, dKey, f32(0));
  FillOp::create(b, dValue, f32(0));
  auto heads = scf::ForOp::create(b, index(0), group, index(1));
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(heads.getBody());
    head = named(add(mul(kvHead, group), heads.getInductionVar()), "head");
    beginHead();
    forEachVisitedBlock(
        evaluateRanges(batch, head, begin, end), {"q", index(0), qLen, blockM()}, [](Value) {},
        [&](Value queryBegin, Value, Value masked) { step(queryBegin, masked); });
    endHead();
  }
  CopyWaitOp::create(b, 0);
  scaleFragment(dKey, op.getScaleOrDefault());
  Value rows = named(sub(kvLen, begin), "kv_rows");
  // Through the tiles of the keys and values, which nobody reads any more.
  StoreOp::create(b, dKey, keyTile, dKeyOut, ValueRange{batch, kvHead, begin}, rows, options.aligned);
  StoreOp::create(b, dValue, valueTile, dValueOut, ValueRange{batch, kvHead, begin}, rows, options.aligned);
  launch(getNumBlocks(host, op.getKey(), blockN()));
  for (auto [result, buffer] : llvm::zip_equal(op.getResults().drop_front(), hostResults))
    replaceWithBuffer(host, result, buffer);
}

//===----------------------------------------------------------------------===//
// What comes before and after
//===----------------------------------------------------------------------===//

static constexpr int64_t kRowsOfABlock = 64, kWarpsOfABlock = 4;

/// The block of rows that a block of the grid has: batch, head, and where it begins.
static SmallVector<Value> takeRows(TileKernel &kernel, Value buffer) {
  ImplicitLocOpBuilder &b = kernel.b;
  Value length = kernel.dim(buffer, 2, "q_len"), heads = kernel.dim(buffer, 1, "heads");
  Value numBlocks = TileKernel::named(kernel.ceilDiv(length, kRowsOfABlock), "num_blocks");
  Value work = gpu::BlockIdOp::create(b, gpu::Dimension::x);
  Value block = arith::RemSIOp::create(b, work, numBlocks);
  Value headAndBatch = arith::DivSIOp::create(b, work, numBlocks);
  Value head = TileKernel::named(arith::RemSIOp::create(b, headAndBatch, heads), "head");
  Value batch = TileKernel::named(arith::DivSIOp::create(b, headAndBatch, heads), "batch");
  Value begin = TileKernel::named(kernel.mul(block, kernel.index(kRowsOfABlock)), "q_begin");
  return {batch, head, begin};
}

static KernelAttr getRowKernelResources(MLIRContext *context) {
  return KernelAttr::get(context, kWarpsOfABlock, /*blocks_per_multiprocessor=*/2, /*shared_bytes=*/0);
}

/// Rounds the sum of d_query to the type of the result.
static void buildRoundQuery(ImplicitLocOpBuilder &host, OnlineAttentionOp op, StringRef name, Value querySum,
                            const TileLoweringOptions &options) {
  TileKernel kernel(host, name, getRowKernelResources(op.getContext()));
  ImplicitLocOpBuilder &b = kernel.b;
  Value result = allocateLike(host, op.getResult(0), op.getQuery());
  Value source = kernel.addParameter(querySum, "d_query_sum"),
        target = kernel.addParameter(result, "d_query");
  int64_t columns = llvm::alignTo(op.getHeadDim(), 16);
  Value staging = kernel.sharedTile("d_query_tile", kRowsOfABlock, columns, op.getElementType());
  Value fragment =
      kernel.fragment("d_query_rows", kernel.accumulatorType(kRowsOfABlock, columns, {kWarpsOfABlock, 1}));
  SmallVector<Value> place = takeRows(kernel, source);
  Value rows = TileKernel::named(kernel.sub(kernel.dim(source, 2, "q_len"), place[2]), "q_rows");
  LoadOp::create(b, source, place, rows, fragment);
  kernel.map({}, fragment, [&](ValueRange, ValueRange elements) -> SmallVector<Value> {
    return {arith::MulFOp::create(b, elements[0], kernel.f32(op.getScaleOrDefault()))};
  });
  StoreOp::create(b, fragment, staging, target, place, rows, options.aligned);
  kernel.launch(getNumBlocks(host, op.getQuery(), kRowsOfABlock));
  replaceWithBuffer(host, op.getResult(0), result);
}

void attn::lowerFusedToTile(OnlineAttentionOp op, const TileLoweringOptions &options) {
  ImplicitLocOpBuilder host(op.getLoc(), op);
  StringRef function = op->getParentOfType<FunctionOpInterface>().getName();
  FusedKernel kernel(host, op, (function + "_fused").str(), options);
  kernel.build();
  buildRoundQuery(host, op, (function + "_d_query").str(), kernel.querySum, options);
  op.erase();
}

void attn::lowerDeltaToTile(DeltaOp op, const TileLoweringOptions &options) {
  ImplicitLocOpBuilder host(op.getLoc(), op);
  StringRef function = op->getParentOfType<FunctionOpInterface>().getName();
  TileKernel kernel(host, (function + "_delta").str(), getRowKernelResources(op.getContext()));
  ImplicitLocOpBuilder &b = kernel.b;
  Value result = allocateLike(host, op.getDelta(), op.getOut());
  Value dOut = kernel.addTensor(op.getDOut(), "d_out"), out = kernel.addTensor(op.getOut(), "out");
  Value dLse = op.getDLse() ? kernel.addTensor(op.getDLse(), "d_lse") : Value();
  Value target = kernel.addParameter(result, "delta");

  RankedTensorType type = op.getOut().getType();
  int64_t columns = llvm::alignTo(type.getDimSize(3), 16);
  Value dOutTile = kernel.sharedTile("d_out_tile", kRowsOfABlock, columns, type.getElementType());
  Value outTile = kernel.sharedTile("out_tile", kRowsOfABlock, columns, type.getElementType());
  FragmentType rowsType = kernel.accumulatorType(kRowsOfABlock, columns, {kWarpsOfABlock, 1}).getRowsType();
  Value sum = kernel.fragment("row_delta", rowsType);
  SmallVector<Value> place = takeRows(kernel, out);
  Value rows = TileKernel::named(kernel.sub(kernel.dim(out, 2, "q_len"), place[2]), "q_rows");
  CopyAsyncOp::create(b, dOut, place, rows, dOutTile, options.aligned);
  CopyAsyncOp::create(b, out, place, rows, outTile, options.aligned);
  CopyCommitOp::create(b);
  FillOp::create(b, sum, kernel.f32(0));
  CopyWaitOp::create(b, 0);
  gpu::BarrierOp::create(b);
  RowDotOp::create(b, dOutTile, outTile, sum);
  RowCombineOp::create(b, Combine::add, sum);
  if (dLse) {
    Value rowDLse = kernel.fragment("row_d_lse", rowsType);
    LoadRowsOp::create(b, dLse, place, rows, kernel.f32(0), rowDLse);
    kernel.map(rowDLse, sum, [&](ValueRange, ValueRange elements) -> SmallVector<Value> {
      return {arith::SubFOp::create(b, elements[1], elements[0])};
    });
  }
  StoreRowsOp::create(b, sum, target, place, rows);
  kernel.launch(getNumBlocks(host, op.getOut(), kRowsOfABlock));
  replaceWithBuffer(host, op.getDelta(), result);
  op.erase();
}
