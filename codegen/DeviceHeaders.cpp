//===- DeviceHeaders.cpp - the headers that emitted kernels include ---------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "codegen/DeviceHeaders.h"

using namespace attn::cuda;

static const EmbeddedHeader headers[] = {
#include "codegen/DeviceHeaders.inc"
};

llvm::ArrayRef<EmbeddedHeader> attn::cuda::getDeviceHeaders() { return headers; }
