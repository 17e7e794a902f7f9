//===- Plan.h - the plan of an entry point, for tools that show it -----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TOOLS_COMMON_PLAN_H
#define ATTN_TOOLS_COMMON_PLAN_H

#include "tools/common/MaskBlocks.h"
#include "tools/common/Program.h"
#include "tools/common/Sizes.h"
#include <memory>

namespace attn {

/// Tiles of the score matrices of all batch entries and heads.
struct BlockCounts {
  double total = 0, visited = 0, partial = 0;
  double visitedPairs = 0, totalPairs = 0;
  bool isMost = false; ///< whether fewer are visited: those of them that the mask leaves empty are not
};

/// What one planned attention costs for given inputs.
struct AttentionCost {
  BlockCounts blocks;
  double flops = 0, flopsUnmasked = 0; ///< of the matrix products
  double compulsoryBytes = 0;          ///< every operand and result once
  double streamedBytes = 0;            ///< what blocks read again and again
  double tileBytes = 0;                ///< of one work item
};

/// A copy of an entry point with its attention planned.
class PlannedEntry {
public:
  static llvm::Expected<PlannedEntry> create(const EntryPoint &entry, const SizeResolver &sizes,
                                             const ProgramOptions &options);

  llvm::SmallVector<OnlineAttentionOp> getOps() const;
  const SizeResolver &getSizes() const { return *sizes; }
  TargetAttr getTarget() const { return target; }

  /// Evaluates the ranges of `op` for all blocks of one head.
  llvm::Error setPlanned(OnlineAttentionOp op, MaskBlocks &blocks, int64_t batch, int64_t head,
                         llvm::ArrayRef<HostTensor> inputs) const;

  llvm::Expected<AttentionCost> getCost(OnlineAttentionOp op, llvm::ArrayRef<HostTensor> inputs) const;

private:
  llvm::Expected<HostTensor> runRanges(const Program &program, OnlineAttentionOp op, int64_t batch,
                                       int64_t head, int64_t block, llvm::ArrayRef<HostTensor> inputs) const;
  llvm::Expected<Program> compileRanges(OnlineAttentionOp op) const;
  /// A size of an operand; an error where it does not follow from the inputs.
  llvm::Expected<int64_t> getSize(mlir::Value tensor, unsigned dim, llvm::StringRef what) const;

  std::unique_ptr<EntryPoint> planned;
  std::unique_ptr<SizeResolver> sizes;
  TargetAttr target;
  ProgramOptions probeOptions;
};

/// Evaluates the mask of an attention op of the entry for one head, in blocks.
llvm::Expected<MaskBlocks> evaluateMask(const EntryPoint &entry, AttentionOpInterface op,
                                        const SizeResolver &sizes, llvm::ArrayRef<HostTensor> inputs,
                                        int64_t batch, int64_t head, int64_t blockM, int64_t blockN,
                                        const ProgramOptions &options);

} // namespace attn

#endif // ATTN_TOOLS_COMMON_PLAN_H
