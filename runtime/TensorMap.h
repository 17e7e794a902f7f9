//===- TensorMap.h - tensors as the tensor memory accelerator sees them -----===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_RUNTIME_TENSORMAP_H
#define ATTN_RUNTIME_TENSORMAP_H

#include "runtime/CudaDriver.h"
#include "runtime/KernelSpec.h"

namespace attn {

/// Writes the `tensorMapBytes` of the map of a (batch, heads, length, dim) tensor of f16 or bf16,
/// or of one that lacks dimensions in front of the last two, which the accelerator copies in boxes of
/// `boxRows` x `boxColumns`; `name` is for messages. All zero, which is no map, for a tensor without
/// elements. Neither allocates nor puts anything on a stream.
Status encodeTensorMap(const CudaDriver &driver, const std::string &name, const TensorRef &tensor,
                       int32_t boxRows, int32_t boxColumns, unsigned char *map);

} // namespace attn

#endif // ATTN_RUNTIME_TENSORMAP_H
