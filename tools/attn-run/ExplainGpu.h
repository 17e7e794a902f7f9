//===- ExplainGpu.h - what --explain says of a GPU ----------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TOOLS_ATTNRUN_EXPLAINGPU_H
#define ATTN_TOOLS_ATTNRUN_EXPLAINGPU_H

#include "tools/attn-run/Table.h"
#include "tools/common/Plan.h"

namespace attn {

/// The tile, the candidates that lost, and the shared memory and the registers of accumulators that it takes.
void printGpuSchedule(Table &table, OnlineAttentionOp op, TargetAttr target,
                      const LoweringSettings &lowering);

/// What products, exponentials and memory take at the figures of a data sheet.
void printGpuBound(Table &table, OnlineAttentionOp op, TargetAttr target, const AttentionCost &cost);

/// Variants, kernels and workspaces of a call of these sizes. Registers are those that NVRTC says, where it
/// is.
llvm::Error printLaunchPlan(llvm::raw_ostream &os, const EntryPoint &entry, const SizeResolver &sizes,
                            TargetAttr target, const ProgramOptions &options);

} // namespace attn

#endif // ATTN_TOOLS_ATTNRUN_EXPLAINGPU_H
