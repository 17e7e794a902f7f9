//===- Guard.h - a condition that something holds under ---------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PASSES_GUARD_H
#define ATTN_PASSES_GUARD_H

#include "mlir/IR/Value.h"

namespace attn {
/// An i1, and which of its values something holds under: a gradient counts, a pair is kept.
struct Guard {
  mlir::Value condition;
  bool whenTrue;
  bool operator==(const Guard &other) const {
    return condition == other.condition && whenTrue == other.whenTrue;
  }
};
} // namespace attn

#endif // ATTN_PASSES_GUARD_H
