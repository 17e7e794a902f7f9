//===- HopperForward.h - the forward kernel of the hopper GPU family ------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PASSES_HOPPERFORWARD_H
#define ATTN_PASSES_HOPPERFORWARD_H

#include "passes/HopperKernel.h"

namespace attn {

/// The blocks of keys that a tile of queries visits, by where they begin.
struct VisitedBlocks {
  /// In whole blocks; where one is empty, it ends before any block. The last one of `masked` is the block
  /// that the keys do not fill.
  llvm::SmallVector<BlockRanges::Range> visited, masked;
  /// Where there are block lists, what is visited, and what is masked but for a last block that is full.
  std::optional<ListedBlocks> listed;
  /// Where one range is visited and masks cut only its ends: the full blocks, between masked ones.
  std::optional<BlockRanges::Range> full;
  /// The first full one, and whether there is one.
  mlir::Value firstFull, hasFirstFull;
  /// Whether there may be full blocks, and more than one that is masked.
  bool hasFull = true, hasMasked = false;
};

/// What the kernels of one forward write, on the host's side.
struct HopperResults {
  mlir::Value out, lse;
};

/// Whether a kernel keeps to the maximum of each row, or takes that of the first block of keys for all that
/// are not masked; and then one that does it right where that was wrong. Of bounded scores the maximum is
/// always 0, and what may be wrong is a polynomial.
enum class Maximum { exact, fixed, repair };

class HopperForwardKernel : public HopperKernel {
public:
  HopperForwardKernel(mlir::ImplicitLocOpBuilder &host, OnlineAttentionOp op, llvm::StringRef name,
                      const TileLoweringOptions &options, Maximum maximum, const HopperResults &results);
  bool fixesMaximum() { return maximum == Maximum::fixed; }
  /// Whether bounded scores are in the range of the polynomial as long as no sum tells otherwise, those of
  /// the first block too. Not under a mask, where rows of few keys would often look wrong.
  bool takesAllForNear() { return fixesMaximum() && isBounded && op.getMask().empty(); }
  /// `hostFlags` is for each warp of the consumers of each tile, whether a row of it is wrong; null where lse
  /// says so, or where nothing is repaired.
  void build(mlir::Value hostFlags);
  /// Remarks what is made of the score region where the maximum is fixed.
  void reportScore();

private:
  void buildRoles();
  mlir::Value isFlagged(mlir::Value tile);
  mlir::Value isAnyFlagged();
  void produce();
  void consume();
  void store();
  enum class Role { producer, consumer, storer };
  void forEachTile(Role role, llvm::function_ref<mlir::Value()> body);
  void decodeTile(mlir::Value work);
  /// What digits are taken by; `divisor` is null where the number is a constant, or registers are short.
  struct Base {
    mlir::Value number, divisor;
  };
  Base makeBase(mlir::Value number, llvm::StringRef name);
  mlir::Value divide(mlir::Value dividend, const Base &base);
  bool drawsTiles() { return !op.getMask().empty(); }
  /// Whether tiles of one block of queries follow one another, not those of one head.
  bool hasSections() { return drawsTiles() || denseBias; }
  /// Whether the entries of a batch read the same of a bias, and its heads do not.
  bool sharesBiasInBatch() { return denseBias && denseBias->isOfHead && !denseBias->isOfBatch; }
  /// Whether outputs go through the slots of their queries to the tensor memory accelerator, while consumers
  /// go on. There must be a second slot for the queries of the next tile, and an output has to fit.
  bool storesByBulk();
  /// Whether consumers have registers for what saves time between tiles. Those that go through block lists
  /// would spill.
  bool hasSpareRegisters() { return !op.getBlockLists(); }

  VisitedBlocks getVisitedBlocks();
  /// Finds `full` and what follows from it, or does nothing.
  void findFullBetween(VisitedBlocks &blocks, const BlockRanges &ranges);
  /// Where the position of a next block is not of one any more.
  mlir::Value getVisitedEnd(const VisitedBlocks &blocks) {
    return blocks.full ? blocks.visited.front().second : kvEnd;
  }
  mlir::Value getFullEnd(const VisitedBlocks &blocks) { return blocks.full ? blocks.full->second : kvEnd; }
  mlir::Value nextVisited(const VisitedBlocks &blocks, mlir::Value from);
  mlir::Value nextMasked(const VisitedBlocks &blocks, mlir::Value from);
  mlir::Value nextFull(const VisitedBlocks &blocks, mlir::Value from);
  /// Runs `first` for the first visited block, if there is one, `body` for all others, in order, and `last`
  /// after them. `carried`, what `first` returns, and then what `body` does, is given to the next.
  /// `full` comes before the full blocks, with the first of them. Where `none` is given, which then comes in
  /// their place if no block is visited, the result is an index that it or `last` returns.
  mlir::Value forEachBlock(const VisitedBlocks &blocks,
                           llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)> first,
                           llvm::function_ref<mlir::Value(mlir::Value, bool, mlir::Value)> body,
                           llvm::function_ref<void(mlir::Value)> full,
                           llvm::function_ref<mlir::Value(mlir::Value)> last,
                           llvm::function_ref<mlir::Value()> none = {});

  llvm::SmallVector<mlir::Value> getBiasIndices();
  void applyRegions(mlir::Value keyBegin, mlir::Value isMasked);
  mlir::Value countKeys(const VisitedBlocks &blocks);
  void storeFlag(mlir::Value rows, mlir::Value isFixed, mlir::Value keys);

  mlir::Value clampToKeys(mlir::Value position) { return mlir::arith::MinSIOp::create(b, position, kvLen); }
  mlir::Value roundDown(mlir::Value position) {
    return mul(mlir::arith::DivSIOp::create(b, position, index(blockN())), index(blockN()));
  }
  mlir::Value roundUp(mlir::Value position) { return mul(ceilDiv(position, blockN()), index(blockN())); }

  Maximum maximum;
  int64_t queryStages;
  HopperResults results;
  mlir::Value out, lse, flags, queryMap, biasMap, outMap;
  mlir::Value tiles, queries, biases;
  mlir::Value tile, groupDivisor, entries, numBlocks, numHeads, numTiles, kvEnd;
  Base blocks, headsOfBatch, sectionTiles, sectionHeads, lastSectionHeads;
};

} // namespace attn

#endif // ATTN_PASSES_HOPPERFORWARD_H
