//===- GpuPeak.h - what a GPU can do at most ----------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TOOLS_COMMON_GPUPEAK_H
#define ATTN_TOOLS_COMMON_GPUPEAK_H

#include "dialect/AttnDialect.h"

namespace attn {

/// Figures of the data sheet of one GPU of an architecture; FLOP are of dense products that are added in f32.
struct GpuPeak {
  const char *name; ///< "H200 SXM"
  int64_t multiprocessors;
  double clock;              ///< Hz, at which the sheet counts
  double tensorFlops;        ///< per second, of f16 and bf16 on tensor cores
  double f32Flops;           ///< per second, of fused multiply-adds
  double bytesPerSecond;     ///< of the memory
  int64_t sharedBytes;       ///< of a multiprocessor; a block takes 1 KB of it beside what it asks for
  int64_t threads;           ///< of a multiprocessor
  int64_t registers = 65536; ///< of a multiprocessor

  /// Exponentials per second: 16 a clock in each multiprocessor, in all of these architectures (CUDA C++
  /// Programming Guide, "Throughput of Native Arithmetic Instructions").
  double getExponentials() const { return 16 * clock * static_cast<double>(multiprocessors); }
};

GpuPeak getGpuPeak(Arch arch);

} // namespace attn

#endif // ATTN_TOOLS_COMMON_GPUPEAK_H
