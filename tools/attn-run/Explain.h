//===- Explain.h - what the compiler chose, and what it costs ----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TOOLS_ATTNRUN_EXPLAIN_H
#define ATTN_TOOLS_ATTNRUN_EXPLAIN_H

#include "tools/common/Program.h"
#include "tools/common/Sizes.h"

namespace attn {

/// Prints, for each planned attention of the entry: its shapes, the schedule and the candidates that lost,
/// the ranges of keys that a block visits as formulas, how many blocks that is for these inputs, and the
/// work, the bytes and the bound that follow. Of a GPU, which need not be here, also what a call launches.
llvm::Error explain(llvm::raw_ostream &os, const EntryPoint &entry, const SizeResolver &sizes,
                    llvm::ArrayRef<HostTensor> inputs, const ProgramOptions &options);

} // namespace attn

#endif // ATTN_TOOLS_ATTNRUN_EXPLAIN_H
