//===- ChooseHopperSchedule.cpp - tiles of the hopper GPU family -------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialect/AttnTileDialect.h"
#include "passes/ChooseSchedule.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace attn;
using llvm::formatv;

namespace {
struct HopperTile {
  int64_t blockM, blockN;
};
} // namespace

/// In the order of their speed where they fit. A consumer warpgroup has 64 queries.
static constexpr HopperTile kTiles[] = {{192, 128}, {128, 128}, {128, 112}, {128, 96}, {128, 80}, {128, 64}};

/// Tiles of keys and of values that are loaded ahead.
static constexpr int64_t kStages = 2;

HopperRegisters attn::getHopperRegisters(int64_t consumers) {
  // What ptxas needs beside accumulators and probabilities, found by compiling: one more 16-column step of
  // keys spills, or makes it wait for each product (C7511, C7512).
  return consumers == 3 ? HopperRegisters{160, 32, 128} : HopperRegisters{232, 40, 204};
}

int64_t attn::getHopperConsumers(ScheduleAttr schedule) { return schedule.getWarps() / 4 - 1; }

/// Bytes of a tile in panels of 64 columns.
static int64_t getPanelBytes(int64_t rows, int64_t columns) { return rows * llvm::alignTo(columns, 64) * 2; }

static int64_t getSharedBytes(const HopperTile &tile, int64_t headDim, int64_t valueDim,
                              int64_t queryStages) {
  constexpr int64_t slotBarriers = 16;
  return queryStages * (getPanelBytes(tile.blockM, headDim) + slotBarriers) +
         kStages *
             (getPanelBytes(tile.blockN, headDim) + getPanelBytes(tile.blockN, valueDim) + 2 * slotBarriers) +
         tile::WorkQueueType::kBytes;
}

int64_t attn::getHopperQueryStages(ScheduleAttr schedule, int64_t headDim, int64_t valueDim,
                                   TargetAttr target) {
  HopperTile tile{schedule.getBlockM(), schedule.getBlockN()};
  return getSharedBytes(tile, headDim, valueDim, 2) <= target.getMaxSharedMemory() ? 2 : 1;
}

std::string attn::getHopperRejection(const ShapeClass &shape, TargetAttr target,
                                     const ScheduleOverrides &overrides) {
  if (target.getArch() != Arch::sm_90a)
    return formatv("wgmma is of sm_90a, not of {0}", stringifyArch(target.getArch()));
  if (shape.kind != KernelKind::forward)
    return "it has no gradient kernels";
  if (shape.elementBits != 16)
    return formatv("its products are of elements of 16 bits, not of {0}", shape.elementBits);
  if (!overrides.aligned)
    return "the tensor memory accelerator needs bases and strides of a multiple of 16 bytes";
  if (overrides.splitsKeys)
    return "it does not compute keys in parts";
  if (int64_t columns = std::max(shape.headDim, shape.valueDim); columns > 256)
    return formatv("its tiles have at most 256 columns, not {0}", columns);
  return "";
}

bool attn::chooseHopperSchedule(const ShapeClass &shape, TargetAttr target,
                                const ScheduleOverrides &overrides, ScheduleChoice &choice) {
  int64_t d = llvm::alignTo(shape.headDim, 16), c = llvm::alignTo(shape.valueDim, 16);
  for (HopperTile tile : kTiles) {
    if (overrides.shortLengths && shape.isMasked && tile.blockM > 128)
      continue;
    if (overrides.blockM)
      tile.blockM = overrides.blockM;
    if (overrides.blockN)
      tile.blockN = overrides.blockN;
    bool isTile = tile.blockM % 64 == 0 && tile.blockM >= 128 && tile.blockM <= 192 &&
                  tile.blockN % 16 == 0 && tile.blockN >= 16 && tile.blockN <= 256;
    if (!isTile)
      continue;
    int64_t consumers = tile.blockM / 64;
    int64_t shared = getSharedBytes(tile, d, c, 2);
    if (shared > target.getMaxSharedMemory())
      shared = getSharedBytes(tile, d, c, 1);
    // Of a thread: scores, the same as probabilities of 16 bits, and the output.
    int64_t registers = tile.blockN / 2 + tile.blockN / 4 + c / 2;
    ScheduleCandidate candidate{tile.blockM, tile.blockN, shared, shared, ""};
    candidate.warps = 4 * (consumers + 1);
    candidate.blocksPerMultiprocessor = 1;
    candidate.accumulatorRegisters = registers;
    candidate.family = ScheduleFamily::hopper;
    int64_t limit = getHopperRegisters(consumers).accumulators;
    if (std::string mismatch = overrides.getListsRejection(tile.blockM, tile.blockN); !mismatch.empty())
      candidate.rejection = std::move(mismatch);
    else if (shared > target.getMaxSharedMemory())
      candidate.rejection =
          formatv("{0} bytes of shared memory exceed {1}", shared, target.getMaxSharedMemory());
    else if (registers > limit)
      candidate.rejection =
          formatv("{0} registers of accumulators and probabilities a thread exceed {1}", registers, limit);
    choice.candidates.push_back(candidate);
    if (!candidate.rejection.empty())
      continue;
    choice.schedule = ScheduleAttr::get(target.getContext(), tile.blockM, tile.blockN, overrides.order,
                                        /*kv_splits=*/1, /*vector_length=*/1, /*register_rows=*/1,
                                        /*register_vectors=*/1, candidate.warps,
                                        /*blocks_per_multiprocessor=*/1, kStages, ScheduleFamily::hopper,
                                        /*fixed_maximum=*/!overrides.exactMaximum, /*key_warps=*/1);
    return true;
  }
  return false;
}
