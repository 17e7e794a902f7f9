//===- Tune.h - searches the schedule of a GPU kernel --------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TOOLS_ATTNBENCH_TUNE_H
#define ATTN_TOOLS_ATTNBENCH_TUNE_H

#include "tools/attn-bench/Cases.h"

namespace attn {

/// For each class (MeasuredSchedules.h) that the cases are of: compiles all tiles that the family has, in
/// parallel threads; leaves out those that spill, that ptxas warns of, or whose results differ from those of
/// the tile that is chosen at present; times the rest in turns, and prints what came out. Another tile than
/// the present one is the best only where it is faster by 1 % and by more than the spread. `path` is a table
/// whose entries of these classes are replaced; empty to only print.
llvm::Error tune(mlir::MLIRContext *context, llvm::ArrayRef<BenchCase> cases, const ProgramOptions &options,
                 int repeats, llvm::StringRef path);

} // namespace attn

#endif // ATTN_TOOLS_ATTNBENCH_TUNE_H
