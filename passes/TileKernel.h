//===- TileKernel.h - what the GPU kernels of an online attention share ------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PASSES_TILEKERNEL_H
#define ATTN_PASSES_TILEKERNEL_H

#include "dialect/AttnDialect.h"
#include "dialect/AttnTileDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "passes/BlockRanges.h"
#include "passes/RegionUtils.h"

namespace attn {

struct TileLoweringOptions {
  /// Whether bases and strides of all tensors are multiples of 16 bytes, so that rows are copied by 16-byte
  /// accesses.
  bool aligned = true;
};

/// Builds one kernel: the `gpu.func` in a `gpu.module` of its own, and the launch on the host's side. Values
/// that the emitted code should call by a name carry it as the name of their location.
class TileKernel {
public:
  /// The kernel is called `name`, made unique. `host` stands where the launch goes.
  TileKernel(mlir::ImplicitLocOpBuilder &host, llvm::StringRef name, tile::KernelAttr resources);

  /// Declares a parameter of the kernel that the launch gives `value`, a buffer or a scalar of the host.
  mlir::Value addParameter(mlir::Value value, llvm::StringRef name);

  /// The same for a tensor of the host, as a buffer that is only read.
  mlir::Value addTensor(mlir::Value tensor, llvm::StringRef name);

  /// The same as the tensor memory accelerator copies it, in boxes of so many rows.
  mlir::Value addTensorMap(mlir::Value tensor, int64_t rows, llvm::StringRef name);

  /// Ends the kernel and launches `blocks` blocks of it.
  void launch(mlir::Value blocks);

  //===--------------------------------------------------------------------===//
  // Scalars
  //===--------------------------------------------------------------------===//

  mlir::Value index(int64_t value) { return mlir::arith::ConstantIndexOp::create(b, value); }
  mlir::Value f32(double value);
  mlir::Value dim(mlir::Value buffer, int64_t position, llvm::StringRef name);
  /// Gives the operation that computes `value` a name for the emitted code.
  static mlir::Value named(mlir::Value value, llvm::StringRef name);
  mlir::Value ceilDiv(mlir::Value value, int64_t divisor);
  /// A division by it is a plain one in the emitted code.
  mlir::Value atLeastOne(mlir::Value size) { return mlir::arith::MaxSIOp::create(b, size, index(1)); }
  // The host refuses lengths that leave no room for a block: positions of blocks do not overflow.
  mlir::Value add(mlir::Value lhs, mlir::Value rhs) {
    return mlir::arith::AddIOp::create(b, lhs, rhs, mlir::arith::IntegerOverflowFlags::nsw);
  }
  mlir::Value sub(mlir::Value lhs, mlir::Value rhs) {
    return mlir::arith::SubIOp::create(b, lhs, rhs, mlir::arith::IntegerOverflowFlags::nsw);
  }
  mlir::Value mul(mlir::Value lhs, mlir::Value rhs) {
    return mlir::arith::MulIOp::create(b, lhs, rhs, mlir::arith::IntegerOverflowFlags::nsw);
  }
  mlir::Value isLess(mlir::Value lhs, mlir::Value rhs);
  /// Takes the least significant digit of a mixed-radix work index.
  mlir::Value takeDigit(mlir::Value &work, mlir::Value base, llvm::StringRef name);
  void ifThen(mlir::Value condition, llvm::function_ref<void()> body);
  void ifThenElse(mlir::Value condition, llvm::function_ref<void()> body,
                  llvm::function_ref<void()> otherwise);

  //===--------------------------------------------------------------------===//
  // Storage
  //===--------------------------------------------------------------------===//

  mlir::TypedValue<tile::SharedType> sharedTile(llvm::StringRef name, int64_t rows, int64_t columns,
                                                mlir::Type elementType);
  mlir::TypedValue<tile::SharedType> sharedRing(llvm::StringRef name, int64_t stages, int64_t rows,
                                                int64_t columns, mlir::Type elementType);
  mlir::Value ringSlot(mlir::Value ring, mlir::Value stage, llvm::StringRef name);
  mlir::TypedValue<tile::FragmentType> fragment(llvm::StringRef name, tile::FragmentType type);
  tile::FragmentType accumulatorType(int64_t rows, int64_t columns, llvm::ArrayRef<int64_t> warps);

  /// Computes elements of `outs` in place: `body(indices, elements)`, with the elements of ins and outs.
  tile::MapOp map(mlir::ValueRange ins, mlir::ValueRange outs,
                  llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::ValueRange, mlir::ValueRange)> body,
                  bool relative = false);

  /// Whether `body(elements)` holds for any element that the warp has.
  mlir::Value any(mlir::ValueRange ins, llvm::function_ref<mlir::Value(mlir::ValueRange)> body);
  /// The same for `body(indices, elements)`.
  mlir::Value anyAt(mlir::ValueRange ins,
                    llvm::function_ref<mlir::Value(mlir::ValueRange, mlir::ValueRange)> body);
  mlir::Value anyNaN(mlir::Value fragment);
  /// Whether any element that the warp has of a fragment is an infinity or a NaN.
  mlir::Value anyNonFinite(mlir::Value fragment);
  /// The same of an accumulator, or the sum of a row too large. Overwrites `rows`, a fragment of its rows.
  mlir::Value anyNonFinite(mlir::Value accumulator, mlir::Value rows);
  /// Whether `condition` holds for any thread of the block. A barrier.
  mlir::Value holdsInBlock(mlir::Value condition);

  mlir::ImplicitLocOpBuilder b;

private:
  mlir::ImplicitLocOpBuilder &host;
  mlir::gpu::GPUModuleOp module;
  mlir::gpu::GPUFuncOp function;
  tile::KernelAttr resources;
  llvm::SmallVector<mlir::Value> launchOperands;
};

//===----------------------------------------------------------------------===//
// What the host does for kernels
//===----------------------------------------------------------------------===//

/// A new buffer for a result, whose open sizes are those of `source`; with `parts`, one more leading
/// dimension is so long.
mlir::Value allocateResult(mlir::ImplicitLocOpBuilder &host, mlir::Value result, mlir::Value source,
                           mlir::Value parts = mlir::Value());
void fillWithZero(mlir::ImplicitLocOpBuilder &host, mlir::Value buffer);
void replaceWithBuffer(mlir::ImplicitLocOpBuilder &host, mlir::Value result, mlir::Value buffer);

/// Whether kernels may start before the one before them ends: `attn_tile.await_kernels`.
bool canAwaitKernels(mlir::Operation *op);

/// Refuses lengths for which the positions of kernels have not enough bits.
void requireShort(mlir::ImplicitLocOpBuilder &host, mlir::Value length, llvm::StringRef what);

/// How the regions are inlined in a kernel.
RegionInlining getTileInlining(mlir::Value qLen, mlir::Value kvLen);

/// Blocks of `blockSize` rows of all heads and batch entries of a (batch, heads, length, …) tensor.
mlir::Value getNumBlocks(mlir::ImplicitLocOpBuilder &host, mlir::Value tensor, int64_t blockSize);

/// A kernel that computes an online attention: its operands as buffers, and its regions inlined for one pair.
class OnlineTileKernel : public TileKernel {
public:
  OnlineTileKernel(mlir::ImplicitLocOpBuilder &host, OnlineAttentionOp op, llvm::StringRef name,
                   const TileLoweringOptions &options);

protected:
  int64_t blockM() { return op.getSchedule().getBlockM(); }
  int64_t blockN() { return op.getSchedule().getBlockN(); }
  int64_t keyWarps() { return op.getSchedule().getKeyWarps(); }

  BlockRanges evaluateRanges(mlir::Value batch, mlir::Value head, mlir::Value begin, mlir::Value end);

  /// A dimension that a kernel streams in blocks, from `begin` (a multiple of `blockSize`) to `end`; `prefix`
  /// begins the names of its positions ("kv"). With `parts`, only part number `part` of as many equal ones of
  /// the blocks that meet a visited range. With `warp`, each of `warps` warps streams its share of these:
  /// every so many-th block, so that neighbours in memory are read together, or where there are several
  /// ranges a part of its own.
  struct Streamed {
    llvm::StringRef prefix;
    mlir::Value begin, end;
    int64_t blockSize;
    mlir::Value part = {}, parts = {}, warp = {};
    int64_t warps = 1;
  };
  struct StreamedBlock {
    /// Where it begins, and where the next one does: `end` or more after the last.
    mlir::Value begin, next;
    /// Null where no block is masked.
    mlir::Value masked;
    /// 0 and 1 in turn.
    mlir::Value stage;
  };
  /// Runs `body` for every block of `streamed` that meets a visited range, in order. `prologue(begin, stage)`
  /// of the first comes before the loop; `begin` is `end` or more where there is no block.
  void forEachVisitedBlock(const BlockRanges &ranges, Streamed streamed,
                           llvm::function_ref<void(mlir::Value, mlir::Value)> prologue,
                           llvm::function_ref<void(const StreamedBlock &)> body);

  /// Restricts visited ranges, which begin at blocks, to those of a part.
  void takePart(llvm::SmallVectorImpl<BlockRanges::Range> &visited, const Streamed &streamed);

  /// Copies a block of rows of a (batch, head, row, dim) buffer into a tile.
  void copyRows(mlir::Value buffer, mlir::Value batch, mlir::Value head, mlir::Value begin,
                mlir::Value length, mlir::Value tile);

  /// The product that fits the element type: acc += a b.
  void mma(mlir::Value acc, mlir::Value a, mlir::Value b, bool transposeA = false, bool transposeB = false);

  /// Whether the score region may make a score of finite numbers -inf.
  bool scoresMayDrop();
  /// The same of a score that is a NaN before.
  bool scoresMayDropNaN();

  /// The regions, inside a map, for the pair (query, key), which may be one that is dropped, or lie beyond
  /// the lengths: captures are read out of bounds then, which kernels may.
  mlir::Value inlineScore(mlir::Region &region, mlir::Value score, mlir::Value batch, mlir::Value head,
                          mlir::Value query, mlir::Value key) {
    return inlineScore(region, score, batch, head, query, key, getInlining());
  }
  mlir::Value inlineScore(mlir::Region &region, mlir::Value score, mlir::Value batch, mlir::Value head,
                          mlir::Value query, mlir::Value key, const RegionInlining &inlining);
  mlir::Value inlineMask(mlir::Value batch, mlir::Value head, mlir::Value query, mlir::Value key);
  RegionInlining getInlining() { return getTileInlining(qLen, kvLen); }

  OnlineAttentionOp op;
  const TileLoweringOptions &options;
  mlir::FloatType elementType;
  int64_t headDim, valueDim;
  /// How warps divide accumulators whose rows are queries, and keys.
  llvm::SmallVector<int64_t> queryGrid, keyGrid;

  /// Columns of tiles.
  int64_t paddedHeadDim, paddedValueDim;
  mlir::Value query, key, value, blockLists;
  mlir::Value batches, qHeads, kvHeads, qLen, kvLen, group;
  llvm::SmallVector<mlir::Value> captures;
};

/// Appends the host's work for the operation and replaces it.
void lowerForwardToTile(OnlineAttentionOp op, const TileLoweringOptions &options);
llvm::LogicalResult lowerForwardToHopper(OnlineAttentionOp op, const TileLoweringOptions &options);
/// The same of an operation that computes keys in parts, together with what merges them if pairs may be
/// dropped.
llvm::LogicalResult lowerPartsToHopper(OnlineAttentionOp op, const TileLoweringOptions &options);
/// Appends a kernel that computes again, into the given results, the tiles in which a row of lse is a NaN, if
/// the second number of `progress` is not 0. The operation stays, without a use of its results.
void lowerMarkedForwardToTile(mlir::ImplicitLocOpBuilder &host, OnlineAttentionOp op,
                              const TileLoweringOptions &options, mlir::Value out, mlir::Value lse,
                              mlir::Value progress, llvm::StringRef name);
void lowerBackwardToTile(OnlineAttentionOp op, const TileLoweringOptions &options);
/// Launches the kernel that rounds the sums of d_query: `sum` has fragments of `type`, in the order of their
/// registers.
void roundQuerySum(mlir::ImplicitLocOpBuilder &host, OnlineAttentionOp op, mlir::Value sum,
                   tile::FragmentType type, llvm::StringRef name, const TileLoweringOptions &options);
void lowerDeltaToTile(DeltaOp op, const TileLoweringOptions &options);
void lowerBlockListsToTile(BlockListsOp op);
/// Where a merge writes, on the host's side, and 1 or 0, whether there is more than one part: it is not
/// launched for a single one.
struct MergeTarget {
  mlir::Value out, lse, isSplit;
};
void lowerMergeToTile(MergeOp op, std::optional<MergeTarget> target = std::nullopt);

/// Whether the rows of a tile of a split forward are those of all query heads of a key head, so that the key
/// head is read once: its few queries would leave most of the tile empty otherwise. Not where the heads visit
/// different ranges.
bool packsHeads(OnlineAttentionOp op);

/// Rows of the blocks of a head of a forward, whose tiles are packed or not, and all its blocks.
mlir::Value getNumForwardRows(mlir::ImplicitLocOpBuilder &host, OnlineAttentionOp op, bool packs);
mlir::Value getNumForwardBlocks(mlir::ImplicitLocOpBuilder &host, OnlineAttentionOp op, bool packs);

} // namespace attn

#endif // ATTN_PASSES_TILEKERNEL_H
