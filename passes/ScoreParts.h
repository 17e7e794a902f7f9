//===- ScoreParts.h - a score as a sum of what is known of it ---*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PASSES_SCOREPARTS_H
#define ATTN_PASSES_SCOREPARTS_H

#include "mlir/IR/Region.h"
#include <memory>
#include <optional>

namespace attn {

/// The score of a pair (query, key), for any key k of reference, as
///
///     factor * s + slope * (key - k) + position(k) + pair
///
/// where factor, slope and position use neither s, the region's first argument, nor the key, except that
/// position is evaluated at k. Each is a region with the arguments of the score region; null is 0.
///
/// ALiBi, s + slopes[h] * (key - query), has the factor 1, slopes[h] for its slope, and slopes[h] * (k -
/// query) for its position: of all that, only the product of a slope and a number is left to be computed of
/// each pair.
struct ScoreParts {
  std::unique_ptr<mlir::Region> factor, slope, position, pair;
};

/// Nothing where `pair` would be all of the score.
///
/// Indices are integers of 32 bits that wrap around in a region. Here they are taken for numbers where a sum
/// of so few of them does not overflow for lengths up to 2^21.
std::optional<ScoreParts> splitScore(mlir::Region &score);

/// Whether a score may grow without bounds from key to key, whatever q and k are, in a way that is not known:
/// it is computed with the number of the key, and not affine in it.
bool growsWithKey(mlir::Region &score);

} // namespace attn

#endif // ATTN_PASSES_SCOREPARTS_H
