//===- CpuTile.h - loops and matrix products over tiles for the CPU ----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A tile is a small static buffer in the compute type. Its last dimension is `lanes` wide: vectors run along
// the blocked dimension of the attention (queries for forward and dq, keys for dkdv). The other operand of
// every product is then read one element at a time and broadcast, so neither keys nor values are ever
// transposed, and the statistics of a row of scores are plain vector operations, without a reduction across
// lanes.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PASSES_CPUTILE_H
#define ATTN_PASSES_CPUTILE_H

#include "dialect/AttnDialect.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace attn {

/// A product sums in parts of this depth, one after the other. Each addition rounds at the size of the
/// running sum, so one long chain of them is less exact than the sum of several short ones: over 64 elements
/// its error now and then exceeds the bound of the numeric contract, which parts of 32 halve. A static depth
/// is cut into parts; a dynamic one is that of a block, a part by itself.
inline constexpr int64_t kPartDepth = 32;

/// A block of rows of one head of a 4-D tensor: rows [begin, begin + count) of `buffer[batch, head]`.
struct RowBlock {
  mlir::Value buffer, batch, head, begin, count;
};

class TileBuilder {
public:
  TileBuilder(mlir::ImplicitLocOpBuilder &builder, mlir::FloatType compute, ScheduleAttr schedule)
      : b(builder), compute(compute), schedule(schedule) {}

  mlir::ImplicitLocOpBuilder &b;
  mlir::FloatType compute;
  ScheduleAttr schedule;

  int64_t vectorLength() const { return schedule.getVectorLength(); }
  mlir::VectorType vectorType() const { return mlir::VectorType::get({vectorLength()}, compute); }
  /// `size` rounded up to whole register tiles of rows.
  int64_t paddedRows(int64_t size) const { return llvm::alignTo(size, schedule.getRegisterRows()); }

  //===--- constants and arithmetic ---===//
  mlir::Value index(int64_t value);
  mlir::Value scalar(double value);
  mlir::Value splat(double value);
  /// The integers start, start + 1, … as i32 lanes, none above `last`. Lanes past the end of a block repeat
  /// its last row, so that they read nothing out of bounds; their results are not stored.
  mlir::Value laneIndices(mlir::Value start, mlir::Value last);
  mlir::Value isMinusInfinity(mlir::Value value);
  mlir::Value select(mlir::Value condition, mlir::Value onTrue, mlir::Value onFalse);
  mlir::Value ceilDiv(mlir::Value value, int64_t divisor);

  //===--- loops ---===//
  void loop(mlir::Value begin, mlir::Value end, int64_t step, llvm::function_ref<void(mlir::Value)> body);
  llvm::SmallVector<mlir::Value>
  loop(mlir::Value begin, mlir::Value end, int64_t step, mlir::ValueRange initial,
       llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value, mlir::ValueRange)> body);
  /// Runs `body` until it yields true; whether it did.
  mlir::Value findAny(mlir::Value begin, mlir::Value end, int64_t step,
                      llvm::function_ref<mlir::Value(mlir::Value)> body);
  void ifThen(mlir::Value condition, llvm::function_ref<void()> body);
  void ifElse(mlir::Value condition, llvm::function_ref<void()> onTrue, llvm::function_ref<void()> onFalse);

  //===--- tiles ---===//
  /// A tile on the stack, aligned to a cache line. The name is kept in its location
  /// (--mlir-use-nameloc-as-prefix).
  mlir::Value allocate(llvm::StringRef name, llvm::ArrayRef<int64_t> shape);
  mlir::Value loadVector(mlir::Value tile, mlir::ValueRange indices);
  void storeVector(mlir::Value value, mlir::Value tile, mlir::ValueRange indices);
  void fill(mlir::Value tile, double value);

  /// tile[r, c] = rows[r, c] for r < count, c < width; 0 in the other columns, and in the rows that complete
  /// a register tile.
  void packRows(const RowBlock &rows, int64_t width, mlir::Value tile);
  /// tile[c, r] = rows[r, c] for r < count, c < width; 0 in the other lanes.
  void packTransposed(const RowBlock &rows, int64_t width, mlir::Value tile);
  /// Whether the first `rows` rows of a tile hold an infinity or a NaN.
  mlir::Value hasNonFinite(mlir::Value tile, mlir::Value rows);
  /// rows[r, c] = tile[c, r] for r < count, c < width, rounded to the buffer's type.
  void storeTransposed(mlir::Value tile, const RowBlock &rows, int64_t width);

  /// c[i, l] = init + sum over k < depth of a[i, k] * b[k, l], or of a[k, i] * b[k, l] with `aTransposed`.
  struct Product {
    mlir::Value a;
    bool aTransposed;
    mlir::Value b;
    mlir::Value c;
    /// Rows of c that are needed; whole register tiles of them are computed.
    mlir::Value rows;
    mlir::Value depth;
    /// Null: init = 0. A 1-D tile: init = c[i, l] * factors[l].
    mlir::Value factors;
    bool accumulate;
    /// Where it is set and holds, an element of b that is 0 adds nothing, whatever a is: a is not finite
    /// there, and 0 * inf would be NaN.
    mlir::Value skipZeros = {};
  };
  void product(const Product &p);

private:
  void product(const Product &p, bool skipsZeros);
  mlir::Value toCompute(mlir::Value value);
};

} // namespace attn

#endif // ATTN_PASSES_CPUTILE_H
