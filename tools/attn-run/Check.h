//===- Check.h - compares results with the f64 reference ---------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TOOLS_ATTNRUN_CHECK_H
#define ATTN_TOOLS_ATTNRUN_CHECK_H

#include "tools/common/Contract.h"
#include "tools/common/Program.h"

namespace attn {

/// Compares results of the entry, which `ours` has computed, with those of the f64 reference and of the
/// standard computation, and prints for each the error, the bound of the numeric contract and whether it
/// holds. True if all hold.
llvm::Expected<bool> checkResults(llvm::raw_ostream &os, const EntryPoint &entry, Computation ours,
                                  llvm::ArrayRef<HostTensor> inputs, llvm::ArrayRef<HostTensor> results,
                                  const ProgramOptions &options);

} // namespace attn

#endif // ATTN_TOOLS_ATTNRUN_CHECK_H
