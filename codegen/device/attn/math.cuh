//===- math.cuh - approximations and tests of floats ------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attn/ptx.cuh"

namespace attn {

/// e^x by way of 2^(x log2 e): the relative error grows with |x|, to 2^-16 for x = -80.
__device__ __forceinline__ float exp_approx(float x) { return exp2_approx(x * 1.44269504f); }

/// The natural logarithm by way of log2.
__device__ __forceinline__ float log_approx(float x) { return log2_approx(x) * 0.693147181f; }

} // namespace attn
