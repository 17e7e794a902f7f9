//===- NarrowIndices.h - the indices of a region in 32 bits -----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PASSES_NARROWINDICES_H
#define ATTN_PASSES_NARROWINDICES_H

#include "dialect/AttnDialect.h"

namespace attn {

/// Makes the arithmetic on `index` of a score, mask or gradient region one on `i32`, which wraps: the numeric
/// contract has indices of 32 bits, and they would have 64 where a kernel computes them once for a block or
/// the reference one by one. What is left of `index` are positions, lengths, captures and what addresses
/// them.
///
/// A captured index, or an integer of more bits that is cast to index, is saturated, so that a "no limit"
/// stays one. Constants are taken modulo 2^32.
///
/// For example
///
///     %hash = arith.muli %q_idx, %c : index
///     %bit = index.shru %hash, %c31
///
/// becomes
///
///     %q = arith.index_cast %q_idx : index to i32
///     %hash = arith.muli %q, %c_i32 : i32
///     %bit = arith.shrui %hash, %c31_i32 : i32
void narrowIndices(mlir::Region &region, unsigned numCaptures);

/// The same for the score, mask and gradient of an operation.
void narrowIndices(AttentionOpInterface op);

} // namespace attn

#endif // ATTN_PASSES_NARROWINDICES_H
