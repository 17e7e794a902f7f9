//===- DenseBias.h - a captured tensor with an element for each pair --------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PASSES_DENSEBIAS_H
#define ATTN_PASSES_DENSEBIAS_H

#include "dialect/AttnDialect.h"

namespace attn {

/// A captured tensor of which the score region reads `bias[leading..., q_idx, kv_idx]`, whatever it does with
/// it: a kernel may copy tiles of it, as it does of keys.
struct DenseBias {
  /// Its number among the captures.
  unsigned capture;
  /// The indices before the query's: values of the score region, computed of batch entry and head alone.
  llvm::SmallVector<mlir::Value> leading;
  /// Whether these differ between batch entries, and between heads.
  bool isOfBatch, isOfHead;
};

/// Nothing where there is none, or where its tiles are none that the tensor memory accelerator copies;
/// `reason` says why then.
std::optional<DenseBias> findDenseBias(AttentionOpInterface op, std::string *reason = nullptr);

/// What becomes of the bias of a forward of the hopper family, for remarks and reports.
struct BiasPlan {
  bool hasBias = false, isTiled = false;
  std::string text, reason;
  /// Both, for a report of a plan with several variants.
  std::string getLine() const {
    return isTiled ? text + ", where the variant tiled_bias is taken" : text + ": " + reason;
  }
};
BiasPlan describeBias(AttentionOpInterface op, ScheduleAttr schedule);

} // namespace attn

#endif // ATTN_PASSES_DENSEBIAS_H
