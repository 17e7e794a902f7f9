//===- TileBackward.h - what the backward kernels have in common -*- C++ -*-===//
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
// p and d_x are left operands with rows and columns exchanged, so they go through shared memory; there the
// rounded p waits for d_s, too. The sums of d_query of all blocks of keys meet in an f32 workspace, by atomic
// additions; a second kernel rounds them.
//
// Where results may not depend on the order of additions, that kernel leaves d_query out, and another one
// keeps block_m queries and streams the keys.
//
// A pair that is dropped has p = d_x = 0. What its rows hold must not show, but 0 times an infinity or a NaN
// is a NaN: where a tile with such pairs has any, they are left out of the right operands of the last three
// products. Of kept pairs they show all the same: d_x is not finite then, and p is made a NaN where the row's
// delta is none (which it also is for an infinity of a kept value, or of the gradient of lse). A region of
// the score that makes a finite score of an infinity hides it.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PASSES_TILEBACKWARD_H
#define ATTN_PASSES_TILEBACKWARD_H

#include "passes/TileKernel.h"

namespace attn {

/// What the kernels have in common: inputs and results, and the work on one tile of scores.
class BackwardKernel : public OnlineTileKernel {
protected:
  /// Declares the inputs; results are declared by the kernels.
  BackwardKernel(mlir::ImplicitLocOpBuilder &host, OnlineAttentionOp op, llvm::StringRef name,
                 const TileLoweringOptions &options);
  /// Declares the next result that the kernel writes, and those of all captures, which come last.
  mlir::Value addResult(llvm::StringRef name);
  void addCaptureGradients();
  void replaceResults();

  /// Around the blocks of one head: sums of the gradients of captures that are the same for a whole head.
  void beginHead();
  void endHead();

  /// lse, +inf for rows without a key or a query: their probabilities are 0 then.
  void loadRowLse(mlir::ValueRange place, mlir::Value rows);
  /// Neither dropped by the mask nor beyond the lengths.
  mlir::Value isKept(mlir::Value queryIndex, mlir::Value keyIndex);
  /// Like map, of scores: with few products by constants where what comes out is rounded to 16 bits.
  void mapScores(mlir::ValueRange ins, mlir::ValueRange outs,
                 llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::ValueRange, mlir::ValueRange)> body);
  bool areScoresModerate();
  /// exp(score - lse).
  mlir::Value getProbability(mlir::Value score, mlir::Value lse);
  /// Whether a tile may have pairs within the lengths that are dropped.
  bool mayDrop(const StreamedBlock &block) { return block.masked || scoresMayDrop(); }
  /// Whether pairs of the tile have to be selected, because the mask may drop some or they may lie beyond the
  /// lengths. Of a row beyond the last query the region of the gradient is not wanted; else its zeros do.
  mlir::Value isMasked(const StreamedBlock &block, mlir::Value isRagged, mlir::Value queryRows);
  /// Runs `body(isMasked)`. Returns whether the tile, as it is before, has rows that must not show in dropped
  /// pairs: queries and keys, which the scores tell, and with `row_delta` those of d_out. Null where no pair
  /// ever is dropped.
  mlir::Value withAndWithoutMask(const StreamedBlock &block, mlir::Value isMasked,
                                 llvm::ArrayRef<mlir::Value> tested, llvm::function_ref<void(bool)> body);
  /// The barrier between probabilities and the products with them. Returns whether the condition holds for
  /// any thread of the block; null where that is.
  mlir::Value synchronise(mlir::Value condition);
  /// Copies a block of rows into a tile, with 0 for what is not finite.
  void copyFinite(mlir::Value buffer, mlir::Value head, mlir::Value begin, mlir::Value length,
                  mlir::Value tile);
  /// Turns q k^T into probabilities and d_out v^T into d_x, in place.
  void differentiateTile(mlir::Value queryBegin, bool isMasked);

  /// A pair of a tile, with its score before and after the score region, and its probability.
  struct Pair {
    mlir::Value queryIndex, keyIndex, x, score, p;
    /// Whether the pair is kept and its score more than -inf; null where all are.
    mlir::Value keep;
  };
  /// With `mayBeNaN` the lse may be one, and the score -inf.
  Pair computePair(mlir::Value queryBegin, mlir::ValueRange indices, mlir::Value product, mlir::Value lse,
                   bool isMasked, bool mayBeNaN);
  mlir::Value isNot(mlir::Value value, double number);
  /// The value where `keep` holds, or is null, and 0 elsewhere.
  mlir::Value select(mlir::Value keep, mlir::Value value);
  /// What the gradient region makes of the cotangent of a score.
  mlir::Value inlineGradient(const Pair &pair, mlir::Value cotangent);
  void scaleFragment(mlir::Value fragment, double factor);

  mlir::ImplicitLocOpBuilder &host;
  mlir::Value lse, delta, dOut;
  // The head, and the block of keys that the tile is of.
  mlir::Value batch, head, kvHead, begin;
  mlir::Value scores, dScores, rowLse, rowDelta, rowSum;

private:
  /// The gradient of a capture at an index that is the same for a whole head.
  struct HeadSum {
    mlir::Value sum, buffer;
    llvm::SmallVector<mlir::Value> indices;
  };

  mlir::Value getGradientBuffer(AccumulateGradientOp gradient);
  RegionInlining getGradientInlining(mlir::Value keep);
  mlir::Value evaluateForHead(mlir::Value regionValue);

  /// The last results of the operation, as buffers of the host; a d_query that is summed comes before them.
  llvm::SmallVector<mlir::Value> hostResults, captureGradients;
  llvm::DenseMap<mlir::Operation *, HeadSum> headSums;
};

/// The kernels by kind: fused and dkdv, and dq. They append the host's work.
void buildKeyKernel(mlir::ImplicitLocOpBuilder &host, OnlineAttentionOp op, llvm::StringRef name,
                    const TileLoweringOptions &options);
void buildQueryKernel(mlir::ImplicitLocOpBuilder &host, OnlineAttentionOp op, llvm::StringRef name,
                      const TileLoweringOptions &options);

} // namespace attn

#endif // ATTN_PASSES_TILEBACKWARD_H
