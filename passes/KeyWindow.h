//===- KeyWindow.h - how many keys a mask keeps for a query -------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PASSES_KEYWINDOW_H
#define ATTN_PASSES_KEYWINDOW_H

#include "dialect/AttnDialect.h"

namespace attn {

/// The number of keys that a mask keeps for any query at most, where comparisons of both indices with
/// constants bound it: 1024 for `q_idx - kv_idx < 1024 && kv_idx <= q_idx`.
std::optional<int64_t> findKeyWindow(AttentionOpInterface op);

} // namespace attn

#endif // ATTN_PASSES_KEYWINDOW_H
