//===- ChooseGpuSchedule.cpp - tiles of the portable GPU family --------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/MeasuredSchedules.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace attn;
using llvm::formatv;

/// In the order of their usual speed where they fit, as measured on an H200. Those with more warps than 16
/// rows each divide the columns, too: many columns have more accumulators than the registers of a warp hold.
static constexpr GpuTile kForwardTiles[] = {
    {128, 128, 4, 2, 1}, {128, 64, 4, 2, 1}, {128, 32, 4, 2, 1}, {64, 64, 4, 2, 1}, {128, 64, 8, 1, 1},
    {64, 64, 4, 1, 1},   {128, 32, 8, 1, 1}, {64, 32, 4, 1, 1},  {64, 16, 4, 1, 1}, {32, 16, 2, 1, 1},
    {64, 64, 8, 1, 1},   {64, 32, 8, 1, 1},  {32, 32, 4, 1, 1},  {32, 16, 4, 1, 1}, {16, 16, 2, 1, 1}};
/// Before these where the keys are computed in parts: copies of many small blocks are in flight at once, and
/// few rows of a tile are empty.
static constexpr GpuTile kSplitTiles[] = {{64, 64, 4, 3, 1}, {64, 64, 4, 2, 1}};
/// Before those where a tile is to have few rows: each warp streams keys of its own, and the next ones are
/// always on their way.
static constexpr GpuTile kFewRowsTiles[] = {{16, 32, 4, 3, 2, 4},
                                            {16, 32, 4, 2, 2, 4},
                                            {16, 32, 4, 1, 2, 4},
                                            {16, 16, 4, 1, 2, 4},
                                            {16, 16, 2, 1, 2, 2}};
/// The resident block is of keys, the streamed one of queries.
static constexpr GpuTile kFusedTiles[] = {{64, 128, 4, 2, 2}, {64, 128, 8, 1, 2}, {64, 64, 4, 2, 1},
                                          {64, 64, 8, 1, 2},  {64, 64, 8, 1, 1},  {32, 64, 8, 1, 1},
                                          {32, 32, 4, 1, 1},  {16, 32, 2, 1, 1},  {16, 16, 2, 1, 1}};
/// Before these for windows of up to kNarrowWindow keys: 128 keys visit 64 queries more than 64 do. With 64
/// columns the first of those is still faster.
static constexpr GpuTile kWindowTile = {64, 64, 4, 2, 2};
static constexpr int64_t kNarrowWindow = 2048;
/// The same the other way round, for dq.
static constexpr GpuTile kQueryTiles[] = {{128, 64, 8, 1, 2}, {64, 64, 4, 2, 1}, {64, 64, 4, 1, 2},
                                          {64, 64, 4, 1, 1},  {64, 32, 4, 1, 1}, {32, 32, 4, 1, 1},
                                          {32, 16, 2, 1, 1},  {16, 32, 2, 1, 1}, {16, 16, 2, 1, 1}};

bool GpuTile::operator==(const GpuTile &other) const {
  auto tie = [](const GpuTile &tile) {
    return std::tie(tile.blockM, tile.blockN, tile.warps, tile.blocksPerMultiprocessor, tile.stages,
                    tile.keyWarps);
  };
  return tie(*this) == tie(other);
}

static ArrayRef<GpuTile> getTiles(KernelKind kind) {
  switch (kind) {
  case KernelKind::forward:
    return kForwardTiles;
  case KernelKind::dq:
    return kQueryTiles;
  case KernelKind::dkdv:
  case KernelKind::fused:
    return kFusedTiles;
  }
  llvm_unreachable("unhandled kernel kind");
}

/// Columns of one warp that a product needs.
static int64_t getProductColumns(unsigned elementBits) { return elementBits == 32 ? 8 : 16; }

/// The grid of warps of an accumulator of `rows` x `columns`, where warps divide both: about 32 rows a warp.
static WarpGrid divide(int64_t rows, int64_t columns, int64_t warps, unsigned elementBits) {
  int64_t warpRows = std::clamp<int64_t>(rows / 32, 1, std::max<int64_t>(warps / 2, 1));
  while (columns % (getProductColumns(elementBits) * (warps / warpRows)) != 0 && 2 * warpRows <= rows / 16 &&
         2 * warpRows <= warps)
    warpRows *= 2;
  return {warpRows, warps / warpRows};
}

static WarpGrids getWarpGrids(KernelKind kind, unsigned elementBits, const GpuTile &tile) {
  if (tile.keyWarps > 1)
    return {{1, 1}, {1, 1}, tile.keyWarps};
  // The softmax of a row stays in one warp if it can. A backward has no reductions, and with two warp columns
  // or more each warp reads less of the operands.
  if (kind == KernelKind::forward) {
    WarpGrid grid{std::min(tile.warps, tile.blockM / 16), 1};
    grid.columns = tile.warps / grid.rows;
    return {grid, grid};
  }
  return {divide(tile.blockM, tile.blockN, tile.warps, elementBits),
          divide(tile.blockN, tile.blockN, tile.warps, elementBits)};
}

static GpuTile getTile(ScheduleAttr schedule) {
  return {schedule.getBlockM(), schedule.getBlockN(),
          schedule.getWarps(),  schedule.getBlocksPerMultiprocessor(),
          schedule.getStages(), schedule.getKeyWarps()};
}

WarpGrids attn::getWarpGrids(KernelKind kind, unsigned elementBits, ScheduleAttr schedule) {
  if (schedule.getFamily() == ScheduleFamily::hopper) {
    WarpGrid grid{4 * getHopperConsumers(schedule), 1};
    return {grid, grid};
  }
  return ::getWarpGrids(kind, elementBits, getTile(schedule));
}

/// The columns of a tile that `grids` divide.
static int64_t padDim(int64_t dim, unsigned elementBits, const WarpGrids &grids) {
  // The chunks of 16 bytes of a row are permuted in groups of 8, 4 or 2
  // (codegen/device/attn/shared_tile.cuh).
  auto canAdvance = [&](int64_t columns, int64_t warpColumns) {
    if (columns % (16 * warpColumns) != 0)
      return false;
    int64_t part = columns / warpColumns, chunkElements = 128 / elementBits, chunks = columns / chunkElements;
    int64_t permuted = chunks % 8 == 0 ? 8 : chunks % 4 == 0 ? 4 : 2;
    return warpColumns == 1 || part / chunkElements % permuted == 0 || llvm::isPowerOf2_64(part);
  };
  int64_t columns = llvm::alignTo(dim, grids.keyWarps > 1 ? 32 : 16); // merge_warps: whole lines of banks
  while (!canAdvance(columns, grids.queries.columns) || !canAdvance(columns, grids.keys.columns))
    columns += 16;
  return columns;
}

PaddedDims attn::padDims(KernelKind kind, int64_t headDim, int64_t valueDim, unsigned elementBits,
                         const WarpGrids &grids) {
  // The forward has no accumulator of head_dim columns.
  return {kind == KernelKind::forward ? static_cast<int64_t>(llvm::alignTo(headDim, 16))
                                      : padDim(headDim, elementBits, grids),
          padDim(valueDim, elementBits, grids)};
}

/// Shared memory of a block, and registers that a thread holds accumulators in.
static std::pair<int64_t, int64_t> measure(const ShapeClass &shape, const GpuTile &tile) {
  WarpGrids grids = ::getWarpGrids(shape.kind, shape.elementBits, tile);
  auto [d, c] = padDims(shape.kind, shape.headDim, shape.valueDim, shape.elementBits, grids);
  int64_t m = tile.blockM, n = tile.blockN, threads = 32 * tile.warps, bytes = shape.elementBits / 8;
  // With the lse of each row and warp; and each warp keeps all of the queries in registers.
  if (tile.keyWarps > 1)
    return {tile.keyWarps * (bytes * tile.stages * n * (d + c) + 4 * m), m * (n + c) / 32 + m * d / 64};
  if (shape.kind == KernelKind::forward) {
    // In f32, and from one warp column to another, the probabilities go through shared memory.
    int64_t scores = shape.elementBits == 32 || grids.queries.columns > 1 ? m * n : 0;
    return {bytes * (m * d + n * (d + c) + scores), m * (n + c) / threads};
  }
  if (shape.kind == KernelKind::dq)
    return {bytes * ((m + tile.stages * n) * (d + c) + m * n), m * (2 * n + d) / threads};
  // The scores are dead where the gradient of the queries is computed.
  return {bytes * ((tile.stages * m + n) * (d + c) + 2 * m * n),
          (n * (d + c) + m * std::max(n, d)) / threads};
}

/// A tile of the portable family, with the reason why it cannot be; none where warps cannot divide it.
static std::optional<ScheduleCandidate> makeCandidate(const ShapeClass &shape, TargetAttr target,
                                                      const ScheduleOverrides &overrides,
                                                      const GpuTile &tile) {
  if (tile.blockM < 1 || tile.blockM % 16 != 0 || tile.blockN < 1 || tile.blockN % 16 != 0)
    return std::nullopt;
  // A warp has whole products: 16 rows, and 16 columns, or 8 of those of f32.
  WarpGrids grids = ::getWarpGrids(shape.kind, shape.elementBits, tile);
  // The output of a warp has the room of its values in the end.
  if (tile.keyWarps > 1 && 4 * tile.blockM > tile.stages * tile.blockN * (shape.elementBits / 8))
    return std::nullopt;
  if (tile.blockM % (16 * grids.queries.rows) != 0 ||
      grids.queries.rows * grids.queries.columns * grids.keyWarps != tile.warps ||
      (shape.kind != KernelKind::forward && tile.blockN % (16 * grids.keys.rows) != 0) ||
      tile.blockN % (getProductColumns(shape.elementBits) * grids.queries.columns) != 0)
    return std::nullopt;
  auto [shared, registers] = measure(shape, tile);
  ScheduleCandidate candidate{tile.blockM, tile.blockN, shared, shared,
                              overrides.getListsRejection(tile.blockM, tile.blockN)};
  candidate.warps = tile.warps;
  candidate.blocksPerMultiprocessor = tile.blocksPerMultiprocessor;
  candidate.accumulatorRegisters = registers;
  candidate.stages = tile.stages;
  candidate.keyWarps = tile.keyWarps;
  int64_t limit = target.getMaxSharedMemory() / tile.blocksPerMultiprocessor;
  if (!candidate.rejection.empty())
    return candidate;
  if (shared > limit)
    candidate.rejection = formatv("{0} bytes of shared memory exceed {1}, those of a block of which {2} "
                                  "share a multiprocessor",
                                  shared, limit, tile.blocksPerMultiprocessor);
  else if (registers > kMaxAccumulatorRegisters)
    candidate.rejection =
        formatv("{0} registers of accumulators a thread exceed {1}", registers, kMaxAccumulatorRegisters);
  return candidate;
}

SmallVector<ScheduleCandidate> attn::listGpuCandidates(const ShapeClass &shape, TargetAttr target,
                                                       const ScheduleOverrides &overrides,
                                                       ScheduleFamily family, bool bothMaxima) {
  SmallVector<ScheduleCandidate> candidates;
  auto add = [&](std::optional<ScheduleCandidate> candidate) {
    if (candidate)
      candidates.push_back(*candidate);
  };
  if (family == ScheduleFamily::hopper) {
    ScheduleOverrides exact = overrides;
    exact.exactMaximum = true;
    for (int64_t blockM : {128, 192})
      for (int64_t blockN = 48; blockN <= 256; blockN += 16) {
        add(makeHopperCandidate(shape, target, overrides, blockM, blockN));
        if (bothMaxima && !overrides.exactMaximum)
          add(makeHopperCandidate(shape, target, exact, blockM, blockN));
      }
    return candidates;
  }
  bool isForward = shape.kind == KernelKind::forward;
  for (int64_t blockM : {32, 64, 128})
    for (int64_t blockN : {32, 64, 128})
      for (int64_t warps : {4, 8})
        for (int64_t blocks : {1, 2, 3})
          for (int64_t stages : {1, 2})
            if (!isForward || stages == 1) // it has a single one
              add(makeCandidate(shape, target, overrides, {blockM, blockN, warps, blocks, stages}));
  return candidates;
}

FailureOr<ScheduleChoice> attn::chooseGpuSchedule(function_ref<InFlightDiagnostic()> emitError,
                                                  const ShapeClass &shape, TargetAttr target,
                                                  const ScheduleOverrides &overrides) {
  if (overrides.order == LoopOrder::key_outer)
    return emitError() << "expected order = query_outer for a GPU, got key_outer";
  bool isForward = shape.kind == KernelKind::forward;
  ScheduleChoice choice;
  std::string rejection = getHopperRejection(shape, target, overrides);
  bool isAsked = overrides.family == ScheduleFamily::hopper;
  if (overrides.family != ScheduleFamily::portable && rejection.empty() &&
      chooseHopperSchedule(shape, target, overrides, choice))
    return choice;
  if (!overrides.family && target.getArch() == Arch::sm_90a)
    choice.hopperRejection = rejection;
  if (isAsked)
    return emitError() << "has no kernel of the hopper family: "
                       << (!rejection.empty() ? rejection
                           : choice.candidates.empty()
                               ? formatv("expected block_m of {0} and block_n of a multiple of 16 up to 256",
                                         overrides.splitsKeys ? "64 or 128" : "128 or 192")
                                     .str()
                               : choice.candidates.back().rejection)
                       << "; compile with family = auto or portable";
  bool mismatches = false;
  SmallVector<GpuTile> tiles(getTiles(shape.kind));
  bool isOrdinary = !overrides.splitsKeys && !overrides.maxBlockN;
  const MeasuredSchedule *measured =
      isOrdinary ? findMeasured(shape, target, overrides, ScheduleFamily::portable, choice.ruleReason)
                 : nullptr;
  bool keepsKeys = shape.kind == KernelKind::dkdv || shape.kind == KernelKind::fused;
  if (keepsKeys && shape.window && *shape.window <= kNarrowWindow && shape.elementBits == 16 &&
      std::max(shape.headDim, shape.valueDim) > 64)
    tiles.insert(tiles.begin(), kWindowTile);
  if (measured)
    tiles.insert(tiles.begin(), measured->best.tile);
  if (isForward && overrides.splitsKeys)
    tiles.insert(tiles.begin(), std::begin(kSplitTiles), std::end(kSplitTiles));
  if (isForward && overrides.hasFewRows && shape.elementBits == 16)
    tiles.insert(tiles.begin(), std::begin(kFewRowsTiles), std::end(kFewRowsTiles));
  if (overrides.tile)
    tiles.assign(1, *overrides.tile);
  for (GpuTile tile : tiles) {
    if (overrides.blockM)
      tile.blockM = overrides.blockM;
    if (overrides.blockN)
      tile.blockN = overrides.blockN;
    if (overrides.maxBlockN && tile.blockN > overrides.maxBlockN)
      continue;
    std::optional<ScheduleCandidate> candidate = makeCandidate(shape, target, overrides, tile);
    if (!candidate)
      continue;
    mismatches |= !overrides.getListsRejection(tile.blockM, tile.blockN).empty();
    if (measured && tile == measured->best.tile) {
      candidate->evidence = measured->getSummary();
      if (!candidate->rejection.empty())
        choice.ruleReason = "the measured tile cannot be: " + candidate->rejection;
    }
    choice.candidates.push_back(*candidate);
    if (!candidate->rejection.empty())
      continue;
    choice.schedule = ScheduleAttr::getChecked(
        emitError, target.getContext(), tile.blockM, tile.blockN, overrides.order, /*kv_splits=*/int64_t{1},
        /*vector_length=*/int64_t{1}, /*register_rows=*/int64_t{1}, /*register_vectors=*/int64_t{1},
        tile.warps, tile.blocksPerMultiprocessor, tile.stages, ScheduleFamily::portable,
        /*fixed_maximum=*/false, tile.keyWarps, /*bias_stages=*/int64_t{0});
    if (!choice.schedule)
      return failure();
    return choice;
  }
  if (choice.candidates.empty())
    return emitError() << "expected block_m to be a multiple of 16 for each warp and block_n of 16, got "
                       << (overrides.tile ? overrides.tile->blockM : overrides.blockM) << " and "
                       << (overrides.tile ? overrides.tile->blockN : overrides.blockN);
  InFlightDiagnostic diagnostic = emitError();
  diagnostic << "no tile of the " << stringifyKernelKind(shape.kind) << " kernel fits " << target
             << " for head_dim = " << shape.headDim << " and value_dim = " << shape.valueDim
             << ": with block_m = " << choice.candidates.back().blockM
             << " and block_n = " << choice.candidates.back().blockN << ", "
             << choice.candidates.back().rejection;
  if (!isForward && std::max(shape.headDim, shape.valueDim) > 256)
    diagnostic << "; gradients for head_dim and value_dim of more than 256 are for the CPU";
  else
    diagnostic << "; choose a smaller head_dim or value_dim"
               << (mismatches ? ", or larger blocks of the block lists" : "");
  return diagnostic;
}
