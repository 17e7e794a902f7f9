//===- ChooseHopperSchedule.cpp - tiles of the hopper GPU family -------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialect/AttnTileDialect.h"
#include "passes/MeasuredSchedules.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace attn;
using llvm::formatv;

/// Queries and keys, in the order of their usual speed where they fit. A consumer warpgroup has 64 queries.
static constexpr std::pair<int64_t, int64_t> kTiles[] = {{192, 128}, {128, 128}, {128, 112},
                                                         {128, 96},  {128, 80},  {128, 64}};

/// Tiles of keys and of values that are loaded ahead; and at most, where keys are computed in parts.
static constexpr int64_t kStages = 2, kMaxPartsStages = 4;

HopperRegisters attn::getHopperRegisters(int64_t consumers) {
  // What ptxas needs beside accumulators and probabilities, found by compiling: one more 16-column step of
  // keys spills, or makes it wait for each product (C7511, C7512).
  // The block of a single consumer shares its multiprocessor with another one.
  if (consumers == 1)
    return {216, 40, 152};
  return consumers == 3 ? HopperRegisters{160, 32, 128} : HopperRegisters{232, 40, 204};
}

int64_t attn::getHopperConsumers(ScheduleAttr schedule) { return schedule.getWarps() / 4 - 1; }

/// Bytes of a tile in panels of 64 columns.
static int64_t getPanelBytes(int64_t rows, int64_t columns) { return rows * llvm::alignTo(columns, 64) * 2; }

static int64_t getSharedBytes(int64_t blockM, int64_t blockN, int64_t headDim, int64_t valueDim,
                              int64_t queryStages, int64_t biasStages) {
  auto slotBarriers = tile::PipelineType::getSlotBarrierBytes;
  return queryStages * (getPanelBytes(blockM, headDim) + slotBarriers(/*stored=*/true)) +
         biasStages * (getPanelBytes(blockM, blockN) + slotBarriers(/*stored=*/false)) +
         kStages * (getPanelBytes(blockN, headDim) + getPanelBytes(blockN, valueDim) +
                    2 * slotBarriers(/*stored=*/false)) +
         tile::WorkQueueType::kBytes;
}

int64_t attn::getHopperQueryStages(ScheduleAttr schedule, int64_t headDim, int64_t valueDim,
                                   TargetAttr target) {
  return getSharedBytes(schedule.getBlockM(), schedule.getBlockN(), headDim, valueDim, 2,
                        schedule.getBiasStages()) <= target.getMaxSharedMemory()
             ? 2
             : 1;
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
  // It would compute rows again that show what dropped pairs hold: one more kernel, for a short call.
  if (overrides.hasFewRows && shape.isMasked())
    return "under a mask warps that divide the keys of few rows need no second kernel";
  if (int64_t columns = std::max(shape.headDim, shape.valueDim); columns > 256)
    return formatv("its tiles have at most 256 columns, not {0}", columns);
  return "";
}

std::optional<ScheduleCandidate> attn::makeHopperCandidate(const ShapeClass &shape, TargetAttr target,
                                                           const ScheduleOverrides &overrides, int64_t blockM,
                                                           int64_t blockN) {
  bool isTile =
      blockM % 64 == 0 && blockM >= 128 && blockM <= 192 && blockN % 16 == 0 && blockN >= 16 && blockN <= 256;
  if (!isTile)
    return std::nullopt;
  int64_t d = llvm::alignTo(shape.headDim, 16), c = llvm::alignTo(shape.valueDim, 16);
  int64_t consumers = blockM / 64;
  int64_t most = shape.hasBias ? overrides.biasStages.value_or(2) : 0;
  int64_t least = shape.hasBias && !overrides.biasStages ? 1 : most;
  auto getShared = [&](int64_t queryStages, int64_t biasStages) {
    return getSharedBytes(blockM, blockN, d, c, queryStages, biasStages);
  };
  // A second place for a bias before one for queries, whose tile of the output is stored from there: with
  // head_dim 128 that is 6 to 10% faster on an H200. Elements are loaded where a tile is given beside which
  // there is no place.
  bool isGiven = overrides.tile || overrides.blockM || overrides.blockN;
  auto chooseBiasStages = [&] {
    for (int64_t biasStages = most; biasStages >= least; --biasStages)
      if (getShared(/*queryStages=*/1, biasStages) <= target.getMaxSharedMemory())
        return biasStages;
    return isGiven && !overrides.biasStages ? 0 : least;
  };
  int64_t biasStages = chooseBiasStages(), shared = getShared(2, biasStages);
  if (shared > target.getMaxSharedMemory())
    shared = getShared(1, biasStages);
  // Of a thread: scores, the same as probabilities of 16 bits, and the output.
  int64_t registers = blockN / 2 + blockN / 4 + c / 2;
  ScheduleCandidate candidate{blockM, blockN, shared, shared, overrides.getListsRejection(blockM, blockN)};
  candidate.warps = 4 * (consumers + 1);
  candidate.blocksPerMultiprocessor = 1;
  candidate.accumulatorRegisters = registers;
  candidate.stages = kStages;
  candidate.family = ScheduleFamily::hopper;
  candidate.exactMaximum = overrides.exactMaximum;
  candidate.biasStages = biasStages;
  int64_t limit = getHopperRegisters(consumers).accumulators;
  if (!candidate.rejection.empty())
    return candidate;
  if (shared > target.getMaxSharedMemory())
    candidate.rejection =
        formatv("{0} bytes of shared memory exceed {1}", shared, target.getMaxSharedMemory());
  else if (registers > limit)
    candidate.rejection =
        formatv("{0} registers of accumulators and probabilities a thread exceed {1}", registers, limit);
  return candidate;
}

/// Blocks that share a multiprocessor, so that the products of one run while another is at its probabilities.
static int64_t getPartsBlocks(int64_t blockM) { return blockM == 64 ? 2 : 1; }

static int64_t getPartsStageBytes(const ShapeClass &shape, int64_t blockN) {
  return getPanelBytes(blockN, llvm::alignTo(shape.headDim, 16)) +
         getPanelBytes(blockN, llvm::alignTo(shape.valueDim, 16)) +
         2 * tile::PipelineType::getSlotBarrierBytes(/*stored=*/false);
}

std::optional<ScheduleCandidate> attn::makeHopperPartsCandidate(const ShapeClass &shape, TargetAttr target,
                                                                const ScheduleOverrides &overrides,
                                                                int64_t blockM, int64_t blockN,
                                                                int64_t stages) {
  bool isTile = (blockM == 64 || blockM == 128) && blockN % 16 == 0 && blockN >= 16 && blockN <= 256 &&
                stages >= 2 && stages <= kMaxPartsStages;
  if (!isTile)
    return std::nullopt;
  int64_t d = llvm::alignTo(shape.headDim, 16), c = llvm::alignTo(shape.valueDim, 16);
  int64_t consumers = blockM / 64;
  int64_t shared = stages * getPartsStageBytes(shape, blockN);
  // Of a thread: queries, scores, the same as probabilities of 16 bits, and the output.
  int64_t registers = d / 4 + blockN / 2 + blockN / 4 + c / 2;
  ScheduleCandidate candidate{blockM, blockN, shared, shared, ""};
  candidate.warps = 4 * (consumers + 1);
  candidate.blocksPerMultiprocessor = getPartsBlocks(blockM);
  candidate.accumulatorRegisters = registers;
  candidate.stages = stages;
  candidate.family = ScheduleFamily::hopper;
  candidate.exactMaximum = true;
  int64_t limit = getHopperRegisters(consumers).accumulators;
  int64_t room = target.getMaxSharedMemory() / candidate.blocksPerMultiprocessor;
  if (shared > room)
    candidate.rejection = formatv("{0} bytes of shared memory exceed {1}", shared, room);
  else if (registers > limit)
    candidate.rejection = formatv(
        "{0} registers of queries, accumulators and probabilities a thread exceed {1}", registers, limit);
  return candidate;
}

static bool chooseHopperPartsSchedule(const ShapeClass &shape, TargetAttr target,
                                      const ScheduleOverrides &overrides, ScheduleChoice &choice) {
  auto take = [&](int64_t blockM, int64_t blockN, int64_t stages) {
    std::optional<ScheduleCandidate> candidate =
        makeHopperPartsCandidate(shape, target, overrides, blockM, blockN, stages);
    if (!candidate)
      return false;
    if (overrides.tile && !(candidate->getTile() == *overrides.tile))
      candidate->rejection =
          formatv("expected {0} warps and {1} blocks a multiprocessor of a tile of {2} x {3}",
                  candidate->warps, candidate->blocksPerMultiprocessor, blockM, blockN);
    choice.candidates.push_back(*candidate);
    if (!candidate->rejection.empty())
      return false;
    choice.schedule = ScheduleAttr::get(
        target.getContext(), blockM, blockN, overrides.order, /*kv_splits=*/1, /*vector_length=*/1,
        /*register_rows=*/1, /*register_vectors=*/1, candidate->warps, candidate->blocksPerMultiprocessor,
        stages, ScheduleFamily::hopper, /*fixed_maximum=*/false, /*key_warps=*/1, /*bias_stages=*/0);
    return true;
  };
  if (overrides.tile)
    return take(overrides.tile->blockM, overrides.tile->blockN, overrides.tile->stages);
  for (int64_t blockN : {128, 64, 32}) {
    int64_t blockM = overrides.blockM ? overrides.blockM : overrides.hasManyRows ? 128 : 64;
    if (overrides.blockN)
      blockN = overrides.blockN;
    int64_t stages = target.getMaxSharedMemory() / getPartsBlocks(blockM) / getPartsStageBytes(shape, blockN);
    stages = std::min(stages, kMaxPartsStages);
    // Copies are to be under way while two tiles are read.
    if (take(blockM, blockN, std::max<int64_t>(stages, 3)))
      return true;
    if (overrides.blockN)
      break;
  }
  return false;
}

bool attn::chooseHopperSchedule(const ShapeClass &shape, TargetAttr target,
                                const ScheduleOverrides &overrides, ScheduleChoice &choice) {
  if (overrides.splitsKeys)
    return chooseHopperPartsSchedule(shape, target, overrides, choice);
  auto take = [&](int64_t blockM, int64_t blockN, const MeasuredSchedule *measured) {
    std::optional<ScheduleCandidate> candidate =
        makeHopperCandidate(shape, target, overrides, blockM, blockN);
    if (!candidate)
      return false;
    if (overrides.tile && !(candidate->getTile() == *overrides.tile))
      candidate->rejection =
          formatv("expected {0} warps, 1 block a multiprocessor and {1} stages of a tile of {2} x {3}",
                  candidate->warps, kStages, blockM, blockN);
    if (measured) {
      // What was measured with a fixed maximum says how fast that is.
      if (measured->best.exactMaximum || !overrides.exactMaximum)
        candidate->evidence = measured->getSummary();
      candidate->exactMaximum |= measured->best.exactMaximum;
    }
    choice.candidates.push_back(*candidate);
    if (!candidate->rejection.empty())
      return false;
    choice.schedule = ScheduleAttr::get(
        target.getContext(), blockM, blockN, overrides.order, /*kv_splits=*/1, /*vector_length=*/1,
        /*register_rows=*/1, /*register_vectors=*/1, candidate->warps, /*blocks_per_multiprocessor=*/1,
        kStages, ScheduleFamily::hopper, /*fixed_maximum=*/!candidate->exactMaximum, /*key_warps=*/1,
        candidate->biasStages);
    return true;
  };
  if (overrides.tile)
    return take(overrides.tile->blockM, overrides.tile->blockN, nullptr);
  if (const MeasuredSchedule *measured =
          findMeasured(shape, target, overrides, ScheduleFamily::hopper, choice.ruleReason)) {
    if (take(measured->best.tile.blockM, measured->best.tile.blockN, measured))
      return true;
    choice.ruleReason =
        "the measured tile cannot be: " +
        (choice.candidates.empty() ? "it is none of the hopper family" : choice.candidates.back().rejection);
  }
  for (auto [blockM, blockN] : kTiles) {
    if (overrides.shortLengths && shape.isMasked() && blockM > 128)
      continue;
    if (take(overrides.blockM ? overrides.blockM : blockM, overrides.blockN ? overrides.blockN : blockN,
             nullptr))
      return true;
  }
  return false;
}
