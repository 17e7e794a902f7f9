//===- DeviceHeaders.h - the headers that emitted kernels include -----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_CODEGEN_DEVICEHEADERS_H
#define ATTN_CODEGEN_DEVICEHEADERS_H

#include "llvm/ADT/ArrayRef.h"

namespace attn::cuda {

struct EmbeddedHeader {
  const char *name; ///< As in an #include: "attn/portable.cuh".
  const char *text;
};

/// The files of codegen/device as they were when this was built, by name.
llvm::ArrayRef<EmbeddedHeader> getDeviceHeaders();

} // namespace attn::cuda

#endif // ATTN_CODEGEN_DEVICEHEADERS_H
