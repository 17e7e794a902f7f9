//===- MaskPicture.h - draws the blocks of a mask ----------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TOOLS_COMMON_MASKPICTURE_H
#define ATTN_TOOLS_COMMON_MASKPICTURE_H

#include "tools/common/MaskBlocks.h"
#include "llvm/Support/raw_ostream.h"

namespace attn {

/// A side of blocks, a power of two, at which the score matrix takes at most `maxBlocks` columns and rows.
int64_t chooseMaskBlock(int64_t qLen, int64_t kvLen, int64_t maxBlocks = 64);

/// One character a block, queries downwards and keys to the right, then a legend.
void printMaskText(llvm::raw_ostream &os, const MaskBlocks &blocks, llvm::StringRef title);

/// The same as an SVG image.
void printMaskSvg(llvm::raw_ostream &os, const MaskBlocks &blocks, llvm::StringRef title);

} // namespace attn

#endif // ATTN_TOOLS_COMMON_MASKPICTURE_H
