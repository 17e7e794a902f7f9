//===- ChooseGpuSchedule.cpp - tiles of the portable GPU family --------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/ChooseSchedule.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace attn;

namespace {
struct Tile {
  int64_t blockM, blockN, warps, blocksPerMultiprocessor;
};
} // namespace

/// Registers that a thread may spend on accumulators: 255, less the operands of a product and addresses.
static constexpr int64_t kMaxAccumulatorRegisters = 208;

/// In the order of their speed where they fit.
static constexpr Tile kForwardTiles[] = {{128, 64, 4, 2}, {128, 64, 8, 1}, {64, 64, 4, 2},
                                         {64, 32, 4, 1},  {64, 16, 4, 1},  {32, 16, 2, 1}};

FailureOr<ScheduleChoice> attn::chooseGpuSchedule(function_ref<InFlightDiagnostic()> emitError,
                                                  const ShapeClass &shape, TargetAttr target,
                                                  const ScheduleOverrides &overrides) {
  if (overrides.order == LoopOrder::key_outer)
    return emitError() << "expected order = query_outer for a GPU, got key_outer";
  int64_t bytes = shape.elementBits / 8;
  int64_t headDim = llvm::alignTo(shape.headDim, 16), valueDim = llvm::alignTo(shape.valueDim, 16);
  ScheduleChoice choice;
  for (Tile tile : kForwardTiles) {
    if (overrides.blockM)
      tile.blockM = overrides.blockM;
    if (overrides.blockN)
      tile.blockN = overrides.blockN;
    if (tile.blockM % (16 * tile.warps) != 0 || tile.blockN % 16 != 0)
      continue;
    int64_t shared = bytes * (tile.blockM * headDim + tile.blockN * (headDim + valueDim));
    if (shape.elementBits == 32) // the probabilities go through shared memory
      shared += bytes * tile.blockM * tile.blockN;
    int64_t registers = tile.blockM * (tile.blockN + valueDim) / (32 * tile.warps);
    ScheduleCandidate candidate{tile.blockM, tile.blockN, shared, shared, ""};
    if (shared > target.getMaxSharedMemory())
      candidate.rejection = llvm::formatv("{0} bytes of shared memory exceed the {1} of a block", shared,
                                          target.getMaxSharedMemory());
    else if (registers > kMaxAccumulatorRegisters)
      candidate.rejection = llvm::formatv("{0} registers of accumulators a thread exceed {1}", registers,
                                          kMaxAccumulatorRegisters);
    choice.candidates.push_back(candidate);
    if (!candidate.rejection.empty())
      continue;
    choice.schedule = ScheduleAttr::getChecked(
        emitError, target.getContext(), tile.blockM, tile.blockN, overrides.order, /*kv_splits=*/int64_t{1},
        /*vector_length=*/int64_t{1}, /*register_rows=*/int64_t{1}, /*register_vectors=*/int64_t{1},
        tile.warps, tile.blocksPerMultiprocessor);
    if (!choice.schedule)
      return failure();
    return choice;
  }
  if (choice.candidates.empty())
    return emitError() << "expected block_m to be a multiple of 16 for each warp and block_n of 16, got "
                       << overrides.blockM << " and " << overrides.blockN;
  return emitError() << "no tile fits " << target << ": with block_m = " << choice.candidates.back().blockM
                     << " and block_n = " << choice.candidates.back().blockN << ", "
                     << choice.candidates.back().rejection << "; choose a smaller head_dim";
}
