//===- TileForwardKernel.h - what the forward kernels of a GPU share ---------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PASSES_TILEFORWARDKERNEL_H
#define ATTN_PASSES_TILEFORWARDKERNEL_H

#include "passes/DenseBias.h"
#include "passes/ScoreParts.h"
#include "passes/TileKernel.h"
#include "llvm/Support/MathExtras.h"

namespace attn {

/// A forward kernel of any schedule family: how a block of scores becomes probabilities, and what is known of
/// a row in between. The families load tiles, multiply them and order all that in their own ways.
class ForwardTileKernel : public OnlineTileKernel {
protected:
  ForwardTileKernel(mlir::ImplicitLocOpBuilder &host, OnlineAttentionOp op, llvm::StringRef name,
                    const TileLoweringOptions &options);

  /// Declares what a row keeps from block to block, for `scores` of a type and softmax() or softmaxLazily().
  void allocateRows(tile::FragmentType scoresType, bool isLazy = false);
  void initialiseRows();

  /// Scale and score region of the keys from `keyBegin` on. What is left for the exponent is `toBase2`.
  void applyScore(mlir::Value keyBegin);
  /// The same for scores that are known to be small, or taken to be.
  void mapNearScores(mlir::Value keyBegin);
  /// Drops the pairs that the mask region, and those that the key length excludes.
  void applyMask(mlir::Value keyBegin);
  void applyLength(mlir::Value keyBegin);

  /// Turns scores into probabilities; updates the maximum and the sum of each row. The output is to be
  /// multiplied by `rescale` then, unless the scores are bounded.
  void softmax();
  /// The same, but the maximum stays what it is until scores exceed it by so much that their exponentials
  /// might not fit: it only has to be near the true one. `rescale` is 1 in most blocks then.
  /// Where the block is the first one, `firstKey` is where it begins.
  void softmaxLazily(mlir::Value firstKey = {});
  /// Once before softmaxFixed(): what the maximum of a row is so far stays its reference.
  void fixMaximum();
  /// The same for scores without a mask, before the score region, with that reference: wrong where they
  /// outgrow it, which the sum of the row tells in the end.
  void softmaxFixed(mlir::Value keyBegin);
  /// Whether the warp has a row that may be wrong, one of the first `validRows`: scores outgrew the
  /// reference, or the output is not finite (see checkOutput). `isFixed` says whether softmaxFixed() was used
  /// at all, and a row has no more than `keys`.
  mlir::Value anyOutgrown(mlir::Value validRows, mlir::Value isFixed, mlir::Value keys);
  /// Whether pairs may be dropped whose values must not show in the output.
  bool dropsPairs() { return !op.getMask().empty() || scoresMayDrop(); }
  /// Before the output is normalised: sums it up row by row, to see in a row's sum whether all are finite.
  void checkOutput();
  /// Finds batch, heads and `begin` of the tile number `work`; `rows` are those of all blocks of a head,
  /// which has `numBlocks`. Returns the queries of the tile, from the first to beyond the last.
  std::pair<mlir::Value, mlir::Value> decodeRows(mlir::Value work, mlir::Value rows, mlir::Value numBlocks);

  /// Makes lse a NaN in rows that are to be computed again: where the output is not finite, and, if not null,
  /// where scores outgrew the reference. The result says whether the warp has such a row, one of the first
  /// `validRows`.
  mlir::Value markRows(mlir::Value validRows, mlir::Value isFixed, mlir::Value keys);
  void exponentiate();
  void addBlockSum();
  void rescaleOutput();
  /// Makes `output` the output, and `rowSum` that of whole rows.
  void normaliseOutput();
  /// Makes `rowMax` lse.
  void computeLse();

  /// Whether scores stay q k^T, and the scale is a factor of the exponent.
  bool foldsScale() { return op.getScore().empty() && scale > 0; }
  mlir::Value exp2(mlir::Value exponent);
  /// The exponential of a difference of what is in `scores`.
  mlir::Value exp(mlir::Value difference);
  /// `max`, but 0 for a row without a key so far: -inf - -inf would be a NaN.
  mlir::Value getFinite(mlir::Value max);
  /// Whether rows whose maximum is too large to be multiplied first are left to be computed again.
  bool leavesLarge = false;
  /// Whether the sum of a block is that of two sequences, for which there must be registers. With a
  /// polynomial for each score that is 2 % faster on an H200 where there are two warpgroups, and slower where
  /// there are three.
  bool interleavesSums = false;
  /// What scores are multiplied by to be exponents of 2.
  mlir::Value toBase2() { return f32(scoreFactor * llvm::numbers::log2e); }
  mlir::Value isEmpty(mlir::Value rowValue, mlir::Value empty);
  mlir::Value isNan(mlir::Value number);

  mlir::ImplicitLocOpBuilder &host;
  /// What q k^T is multiplied by before the score region, and the numbers in `scores` to be scores.
  double scale, scoreFactor = 1;
  /// Whether the scores are so small that their exponentials need no maximum: `scores` are exponents of 2
  /// then.
  bool isBounded = false;
  /// Whether these are of an approximated tanh for which softmaxFixed() has a polynomial: the sum of a row
  /// tells where a score was out of its range.
  bool hasCheckedTanh() { return farExponent >= kMinFarExponent; }
  /// Whether applyScore() takes the polynomial in blocks whose scores are in its range.
  bool looksForNearScores = true;
  // The block of the grid. The rows of its tile are those of `packed` heads, where that is not null.
  mlir::Value batch, head, kvHead, begin, packed;
  /// Where warp columns combine what they have of a row; null where there is one.
  mlir::Value scratch;
  mlir::Value scores, output, rowMax, blockMax, rowShift, rowSum, blockSum, rescale, rowCheck;
  /// Of the score region, for softmaxFixed(); null where it is evaluated whole.
  std::optional<ScoreParts> parts;
  /// Where a kernel has tiles of it, and what of one the threads hold, an `operand_a` in the place of scores.
  /// All reads of that capture at [..., query, key] are of one matrix, or it would not have been found.
  std::optional<DenseBias> denseBias;
  mlir::Value bias;

private:
  void takeFactors();
  void approximateTanh();
  std::tuple<mlir::Value, mlir::Value, mlir::Value> getPair(mlir::Value keyBegin, mlir::ValueRange indices);
  mlir::Value exponent(mlir::Value score, mlir::Value shift);
  mlir::Value multiply(mlir::Value value, double factor);
  /// `biasElement` is that of `bias` there, where the part may read it.
  mlir::Value applyPart(mlir::Region &part, mlir::Value score, mlir::Value keyBegin, mlir::ValueRange indices,
                        mlir::Value biasElement = {});
  void raiseMaximum(mlir::Value firstKey);
  void computeBase(mlir::Value keyBegin, mlir::Value column);
  void exponentiateParts(mlir::Value keyBegin);
  mlir::Value isBeyond(mlir::Value number, double limit);
  mlir::Value isNotFinite(mlir::Value number);
  /// How precise what is done once a row has to be: the sums of a row of 16-bit elements may be off by as
  /// much as the hardware's approximations, 2^-21.
  mlir::arith::FastMathFlags getPrecision() {
    return elementType.isF32() ? mlir::arith::FastMathFlags::none : mlir::arith::FastMathFlags::afn;
  }
  llvm::SmallVector<mlir::Value> getRowStatistics();
  mlir::Value isOutgrown(mlir::ValueRange statistics, mlir::Value isFixed, mlir::Value keys);
  void mapScores(mlir::Region &region, mlir::Value keyBegin, double scale, double factor);
  void keepWhere(llvm::function_ref<mlir::Value(mlir::ValueRange)> isKept);

  /// A score region for |q k^T| <= nearBound, in place of which a cheaper one is right for q k^T itself; may
  /// be null.
  std::unique_ptr<mlir::Region> nearScore;
  double nearBound = 0;
  /// Where the scores are exponents, and the region is a multiple of tanh: the one at nearBound.
  double farExponent = 0;
  /// The sum of a row is mostly below 2 to this power.
  static constexpr double kMinFarExponent = 19;
  /// Of `parts`, for each row: factor and slope in units of exponents, and what exponents start from in the
  /// first column that the thread has.
  mlir::Value rowFactor, rowSlope, rowBase;
};

} // namespace attn

#endif // ATTN_PASSES_TILEFORWARDKERNEL_H
