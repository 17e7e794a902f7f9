//===- MathApproximation.h - f32 functions as vectorisable arithmetic -------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PASSES_MATHAPPROXIMATION_H
#define ATTN_PASSES_MATHAPPROXIMATION_H

namespace mlir {
class RewritePatternSet;
}

namespace attn {
/// exp, exp2, log, log2 and tanh of f32 scalars and vectors, within 1.5 units in the last place for all
/// inputs. Results of exp and exp2 below 2^-125 are 0, so that exp of -inf is 0 exactly; every other special
/// value is IEEE's.
void populateMathApproximationPatterns(mlir::RewritePatternSet &patterns);
} // namespace attn

#endif // ATTN_PASSES_MATHAPPROXIMATION_H
