//===- Fill.h - values for inputs that no file gives -------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TOOLS_COMMON_FILL_H
#define ATTN_TOOLS_COMMON_FILL_H

#include "runtime/jit/EntryPoint.h"
#include "tools/common/HostTensor.h"
#include "tools/common/Sizes.h"

namespace attn {

/// How to make the values of one tensor. The text form is what `--fill ARG=…` takes:
///
///   normal            standard normal (floating types)
///   uniform:LO:HI     uniform in [LO, HI); whole numbers in [LO, HI] for integer types
///   constant:X        X everywhere
///   range             0, 1, 2, … along the last dimension
///   sorted:LO:HI      uniform, then sorted along the last dimension: document numbers
///   slopes            2^(-8 (i + 1) / n) along the last dimension of n elements: the slopes of ALiBi
struct Fill {
  enum Kind { normal, uniform, constant, range, sorted, slopes };
  Kind kind = normal;
  double low = 0, high = 0;
};

llvm::Expected<Fill> parseFill(llvm::StringRef text);
std::string formatFill(const Fill &fill);

/// What an argument gets where the user says nothing: floating types normal; integers read at a position of a
/// query or of a key are sorted in [0, 3] (document numbers); other integers uniform in [0, kv_len]
/// (lengths); i1 uniform.
Fill chooseFill(const EntryPoint &entry, unsigned argument, const SizeResolver &sizes);

/// The same values for the same seed, argument and shape, on any machine.
HostTensor makeFilled(mlir::Type elementType, llvm::ArrayRef<int64_t> shape, const Fill &fill, uint64_t seed,
                      unsigned argument);

} // namespace attn

#endif // ATTN_TOOLS_COMMON_FILL_H
