//===- tma.cuh - copies by the tensor memory accelerator --------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#pragma once

namespace attn {

/// A tensor as the accelerator sees it, made by the launch. A kernel takes it as `const __grid_constant__`.
struct alignas(64) TensorMap {
  unsigned char opaque[128];
};

} // namespace attn
