//===- GpuPeak.cpp - what a GPU can do at most --------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/common/GpuPeak.h"
#include "llvm/Support/ErrorHandling.h"

using namespace attn;

GpuPeak attn::getGpuPeak(Arch arch) {
  constexpr int64_t kilobyte = 1024;
  switch (arch) {
  case Arch::sm_80:
    return {"A100 SXM 80 GB", 108, 1.41e9, 312e12, 19.5e12, 2.04e12, 164 * kilobyte, 2048};
  case Arch::sm_86:
    return {"A40", 84, 1.74e9, 149.7e12, 37.4e12, 0.696e12, 100 * kilobyte, 1536};
  case Arch::sm_89:
    return {"GeForce RTX 4090", 128, 2.52e9, 165.2e12, 82.6e12, 1.008e12, 100 * kilobyte, 1536};
  case Arch::sm_90a:
    return {"H200 SXM", 132, 1.83e9, 989.4e12, 66.9e12, 4.8e12, 228 * kilobyte, 2048};
  case Arch::sm_100a:
    return {"B200", 148, 1.86e9, 2250e12, 75e12, 7.7e12, 228 * kilobyte, 2048};
  case Arch::sm_120a:
    return {"GeForce RTX 5090", 170, 2.41e9, 209.5e12, 104.8e12, 1.792e12, 100 * kilobyte, 1536};
  case Arch::x86_64:
  case Arch::x86_64_v3:
  case Arch::x86_64_v4:
  case Arch::aarch64:
    break;
  }
  llvm_unreachable("not a GPU");
}
