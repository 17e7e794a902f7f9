//===- ScoreBounds.h - between which numbers a score lies --------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PASSES_SCOREBOUNDS_H
#define ATTN_PASSES_SCOREBOUNDS_H

#include "mlir/IR/Value.h"

namespace attn {

/// A closed interval; its ends may be infinite. A value that is no number is in every interval.
struct FloatInterval {
  double low, high;
};

/// Numbers between which a floating value of a region lies, whatever its arguments are: tanh(x) is between -1
/// and 1, 30 * tanh(x) between -30 and 30.
FloatInterval getFloatInterval(mlir::Value value);

} // namespace attn

#endif // ATTN_PASSES_SCOREBOUNDS_H
