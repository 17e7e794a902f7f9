//===- PrintMask.h - shows which blocks a mask keeps -------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TOOLS_ATTNRUN_PRINTMASK_H
#define ATTN_TOOLS_ATTNRUN_PRINTMASK_H

#include "tools/common/Program.h"
#include "tools/common/Sizes.h"

namespace attn {

struct MaskRequest {
  std::string file;  ///< an SVG file, or empty for the terminal
  int64_t block = 0; ///< side of a block; 0 fits about 64 columns
  int64_t batch = 0, head = 0;
};

/// Evaluates the mask of the entry's first attention op exactly, compares it with the planned ranges, and
/// draws it. False if the plan is wrong.
llvm::Expected<bool> printMask(llvm::raw_ostream &os, const EntryPoint &entry, const SizeResolver &sizes,
                               llvm::ArrayRef<HostTensor> inputs, const MaskRequest &request,
                               const ProgramOptions &options);

} // namespace attn

#endif // ATTN_TOOLS_ATTNRUN_PRINTMASK_H
