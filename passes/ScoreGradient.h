//===- ScoreGradient.h - reverse mode on a score region ---------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Conventions, where a derivative leaves a choice:
//
// - At a tie of a minimum or maximum the second operand has the gradient: that of max(s, 0) is 0 at s = 0.
//   That of |s| and of copysign is 0 at 0.
// - Where the derivative is infinite at a finite value it is taken to be 0: sqrt and cbrt at 0, asin and acos
//   at ±1, acosh at 1, atan2 at (0, 0), and powf at 0 with an exponent below 1. The derivative of powf by its
//   exponent is 0 where the base is not positive.
// - floor, ceil, round, roundeven, trunc, conversions to integers and comparisons are piecewise constant: no
//   gradient. remf has that of x - trunc(x / y) * y for the same quotient.
// - Explicit narrowing (truncf) passes the gradient through; a gradient is never narrower than the compute
// type.
//
// What a `select` does not choose adds exactly 0, even where its derivative is infinite or NaN: the gradient
// is computed without regard to the condition, and selected last. A branch of `scf.if` that is not taken is
// not evaluated.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PASSES_SCOREGRADIENT_H
#define ATTN_PASSES_SCOREGRADIENT_H

#include "dialect/AttnDialect.h"

namespace attn {
/// Fills the gradient region of `op` with the derivative of its score region. Reports the first operation
/// without one that a gradient reaches, and then leaves the gradient region empty.
mlir::LogicalResult buildScoreGradient(AttentionBackwardOp op);
} // namespace attn

#endif // ATTN_PASSES_SCOREGRADIENT_H
