//===- Npy.h - tensors in NumPy's .npy files ----------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TOOLS_COMMON_NPY_H
#define ATTN_TOOLS_COMMON_NPY_H

#include "tools/common/HostTensor.h"
#include "llvm/Support/Error.h"

namespace attn {

/// Reads a .npy file of format version 1, 2 or 3, in C or Fortran order, little-endian:
///
/// | descr | element type |
/// |---|---|
/// | `<f8` `<f4` `<f2` | f64 f32 f16 |
/// | `<V2` `|V2` | bf16: what np.save writes for ml_dtypes.bfloat16, and for `bits.view('V2')` |
/// | `|i1` `<i2` `<i4` `<i8` | i8 i16 i32 i64 |
/// | `|u1` `<u2` `<u4` `<u8` | the same: MLIR's integers are signless, the bits are kept |
/// | `|b1` | i1 |
///
/// The file has to be a regular one and hold exactly one array. Its elements are read straight into the
/// tensor, so that a large file takes its size in memory once. An error names the file, what was expected and
/// what was found.
llvm::Expected<HostTensor> readNpy(llvm::StringRef path, mlir::MLIRContext *context);

/// Writes `tensor` so that np.load reads it, as the types of the table (an index as `<i8`, bf16 as `<V2`).
/// The file appears whole or not at all.
llvm::Error writeNpy(llvm::StringRef path, const HostTensor &tensor);

} // namespace attn

#endif // ATTN_TOOLS_COMMON_NPY_H
