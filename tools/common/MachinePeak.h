//===- MachinePeak.h - what this machine can do at most ----------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TOOLS_COMMON_MACHINEPEAK_H
#define ATTN_TOOLS_COMMON_MACHINEPEAK_H

#include "tools/common/Program.h"

namespace attn {

/// Packed fused multiply-adds in registers alone, as wide as the target's vectors, compiled as attention is:
/// what one core reaches if nothing but arithmetic limits it.
class FmaPeak {
public:
  static llvm::Expected<FmaPeak> create(mlir::MLIRContext *context, mlir::Type elementType,
                                        const ProgramOptions &options);
  /// FLOP/s of one thread over a run of about a millisecond. A machine's clock drifts: what is compared with
  /// it should be measured right before or after.
  double measure();
  int64_t getVectorLength() const { return vectorLength; }

private:
  std::unique_ptr<Program> program;
  HostTensor iterations, result;
  int64_t vectorLength = 0;
};

/// Bytes that one core reads from memory in a second: the best of a few passes over a buffer larger than the
/// caches.
double measureReadBandwidth();

struct MachinePeak {
  double flopsPerSecond = 0; ///< of one core
  double bytesPerSecond = 0;
};
/// Both, in about a tenth of a second.
llvm::Expected<MachinePeak> measureMachine(mlir::Type elementType, const ProgramOptions &options);

} // namespace attn

#endif // ATTN_TOOLS_COMMON_MACHINEPEAK_H
