//===- ChooseSchedule.h - the schedule of an online attention ----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PASSES_CHOOSESCHEDULE_H
#define ATTN_PASSES_CHOOSESCHEDULE_H

#include "dialect/AttnDialect.h"
#include <optional>
#include <string>

namespace attn {
struct MeasuredSchedule;

/// How a mask is described: not at all, by one comparison (causal), by a formula, or by block lists, too.
enum class MaskClass { none, comparison, formula, listed };
/// What is computed of each score, beside what depends on its row alone: nothing, arithmetic, or also
/// functions and divisions.
enum class ScoreClass { none, arithmetic, functions };

/// What the choice depends on. Lengths that are not static are unknown.
struct ShapeClass {
  KernelKind kind;
  int64_t headDim, valueDim;
  unsigned computeBits, elementBits;
  std::optional<int64_t> batchTimesHeads, qLen, kvLen;
  MaskClass mask = MaskClass::none;
  ScoreClass score = ScoreClass::none;
  /// How many keys a query keeps at most, where the mask bounds that by a constant.
  std::optional<int64_t> window = {};
  /// Whether a forward may copy tiles of a dense bias (DenseBias.h).
  bool hasBias = false;

  bool isMasked() const { return mask != MaskClass::none; }
  static ShapeClass get(AttentionOpInterface op, KernelKind kind);
};

/// How a kernel of a GPU divides its work.
struct GpuTile {
  int64_t blockM, blockN, warps, blocksPerMultiprocessor, stages, keyWarps = 1;

  bool operator==(const GpuTile &other) const;
};

/// What `attn-bench --tune` measured (MeasuredSchedules.h).
llvm::ArrayRef<MeasuredSchedule> getMeasuredSchedules();

/// Numbers given by hand; 0 leaves the choice open.
struct ScheduleOverrides {
  int64_t blockM = 0, blockN = 0;
  LoopOrder order = LoopOrder::query_outer;
  /// The blocks of the block lists, which tiles have to divide; 0 without lists.
  int64_t listBlockM = 0, listBlockN = 0;
  /// For a GPU: most keys in a block; 0 without a limit.
  int64_t maxBlockN = 0;
  /// For a GPU: a tile for few queries, whose keys are computed in parts.
  bool splitsKeys = false;
  /// For a GPU: a tile whose rows are few; for the hopper family: one for more rows than a warpgroup has.
  bool hasFewRows = false, hasManyRows = false;
  /// For the hopper family: a tile for calls of no more than kShortLength queries.
  bool shortLengths = false;
  /// For a GPU: whether bases and strides of all tensors are multiples of 16 bytes.
  bool aligned = true;
  /// For a GPU; the fastest that can be, where it is left open.
  std::optional<ScheduleFamily> family;
  /// For the hopper family: probabilities are relative to the true maximum of their row.
  bool exactMaximum = false;
  /// For the hopper family: places for tiles of a dense bias, where it is not left open.
  std::optional<int64_t> biasStages;
  /// For a GPU: the only tile that is considered; the family is given, too.
  std::optional<GpuTile> tile;
  /// What is preferred to the rule, which lists tiles in the order of their usual speed.
  llvm::ArrayRef<MeasuredSchedule> measured = getMeasuredSchedules();

  void setLists(AttentionOpInterface op);
  /// Why a tile does not go with the block lists; empty where it does.
  std::string getListsRejection(int64_t tileM, int64_t tileN) const;
};

/// Up to so many queries a masked forward has few full blocks, and tiles of fewer queries visit fewer others:
/// on an H200 with head_dim 64, causal, those of 128 are 15 % faster than those of 192 at 1024 queries, and
/// as fast at 2048.
inline constexpr int64_t kShortLength = 1536;

struct ScheduleCandidate {
  int64_t blockM, blockN;
  /// CPU: tiles that every block of the inner loop touches again, and all tiles of one work item, in bytes.
  /// GPU: both are the shared memory of a block.
  int64_t hotBytes, totalBytes;
  /// Why it lost; empty for the one chosen.
  std::string rejection;
  /// Of a GPU: the rest of the tile, and registers that a thread holds accumulators in.
  int64_t warps = 0, blocksPerMultiprocessor = 0, accumulatorRegisters = 0, stages = 1, keyWarps = 1;
  ScheduleFamily family = ScheduleFamily::portable;
  bool exactMaximum = false;
  int64_t biasStages = 0;
  /// "742.1 TFLOP/s against 701.3 of …" where it was measured to be the best.
  std::string evidence = "";

  GpuTile getTile() const { return {blockM, blockN, warps, blocksPerMultiprocessor, stages, keyWarps}; }
};

struct ScheduleChoice {
  ScheduleAttr schedule;
  /// In the order in which they were considered; the last one is the chosen one.
  llvm::SmallVector<ScheduleCandidate> candidates;
  /// Why no tile of the hopper family was considered on a GPU that has it, where the family was left open.
  std::string hopperRejection;
  /// Why the choice is the rule's on a GPU; empty where it was measured, or given by hand.
  std::string ruleReason;
};

/// Chooses for a CPU target, as a pure function of its arguments: the largest tile whose hot part stays in
/// half of the L2 cache, not longer than a block of a static length needs. Vectors are the target's widest;
/// the register tile of the matrix products is what its registers hold. Fails, with a sentence, where the
/// numbers given by hand cannot be.
llvm::FailureOr<ScheduleChoice> chooseSchedule(llvm::function_ref<mlir::InFlightDiagnostic()> emitError,
                                               const ShapeClass &shape, TargetAttr target,
                                               const ScheduleOverrides &overrides);

/// Registers that a thread of a GPU may spend on accumulators: 255, less the operands of a product and
/// addresses.
inline constexpr int64_t kMaxAccumulatorRegisters = 208;

/// The same for a GPU target: the tile that was measured to be the best for this class, or else the first of
/// a list of tiles, in the order of their usual speed, whose shared memory and registers fit; those of the
/// hopper family before those of the portable one.
llvm::FailureOr<ScheduleChoice> chooseGpuSchedule(llvm::function_ref<mlir::InFlightDiagnostic()> emitError,
                                                  const ShapeClass &shape, TargetAttr target,
                                                  const ScheduleOverrides &overrides);

/// All tiles of a family that are worth comparing, with the reason why where one cannot be; the same checks
/// as those of the choice. For the hopper family with `bothMaxima` each also with an exact maximum.
llvm::SmallVector<ScheduleCandidate> listGpuCandidates(const ShapeClass &shape, TargetAttr target,
                                                       const ScheduleOverrides &overrides,
                                                       ScheduleFamily family, bool bothMaxima);

/// Why an attention cannot be computed by the hopper family; empty where it can.
std::string getHopperRejection(const ShapeClass &shape, TargetAttr target,
                               const ScheduleOverrides &overrides);
/// A tile of the hopper family, with the reason why it cannot be; none where it makes no sense.
std::optional<ScheduleCandidate> makeHopperCandidate(const ShapeClass &shape, TargetAttr target,
                                                     const ScheduleOverrides &overrides, int64_t blockM,
                                                     int64_t blockN);
/// The same of one that computes a part of the keys, in the given number of stages.
std::optional<ScheduleCandidate> makeHopperPartsCandidate(const ShapeClass &shape, TargetAttr target,
                                                          const ScheduleOverrides &overrides, int64_t blockM,
                                                          int64_t blockN, int64_t stages);
/// Adds the candidates of the hopper family, and chooses one if it can.
bool chooseHopperSchedule(const ShapeClass &shape, TargetAttr target, const ScheduleOverrides &overrides,
                          ScheduleChoice &choice);
/// The warpgroups of a schedule of the hopper family but the one that loads.
int64_t getHopperConsumers(ScheduleAttr schedule);
/// Tiles of queries in shared memory: 2, so that the next tile's are loaded ahead, where there is room.
int64_t getHopperQueryStages(ScheduleAttr schedule, int64_t headDim, int64_t valueDim, TargetAttr target);
/// How warpgroups divide the registers of a block, in registers of a thread: a consumer's, the producer's,
/// and what accumulators and probabilities may take of the consumer's.
struct HopperRegisters {
  int64_t consumer, producer, accumulators;
};
HopperRegisters getHopperRegisters(int64_t consumers);

/// How the warps of a GPU block divide an accumulator: `rows` along its rows, `columns` along its columns.
struct WarpGrid {
  int64_t rows, columns;
};
/// For accumulators whose rows are queries (the scores, out, d_query), and keys (d_key, d_value).
/// `keyWarps` is that of the schedule: a grid is that of one of so many warps then.
struct WarpGrids {
  WarpGrid queries, keys;
  int64_t keyWarps = 1;
};
WarpGrids getWarpGrids(KernelKind kind, unsigned elementBits, ScheduleAttr schedule);

/// head_dim and value_dim, padded for a GPU to whole products; where warp columns divide them, of each of
/// these, in such parts that `ldmatrix` of a shared tile of this width reaches each from the first by adding
/// to an address.
struct PaddedDims {
  int64_t head, value;
};
PaddedDims padDims(KernelKind kind, int64_t headDim, int64_t valueDim, unsigned elementBits,
                   const WarpGrids &grids);

/// Bytes of all tiles of one work item. Blocks far above any limit count as 2^20 long.
int64_t getTileBytes(const ShapeClass &shape, ScheduleAttr schedule);

/// The tiles of a work item are on the stack of its thread; this leaves half of an ordinary one.
inline constexpr int64_t kMaxTileBytes = 4 << 20;

/// Fails where the tiles of `schedule` are larger.
llvm::LogicalResult verifyTileBytes(llvm::function_ref<mlir::InFlightDiagnostic()> emitError,
                                    const ShapeClass &shape, ScheduleAttr schedule);

/// Most parts that a schedule has.
inline constexpr int64_t kMaxKvSplits = 64;

/// In how many parts the keys are computed: 1, unless there are fewer blocks of queries than cores (all sizes
/// static) and keys enough to give each part a few blocks. For a GPU it is 1: the number follows from the
/// sizes of a call (`--attn-split-kv=by-lengths`).
int64_t chooseKvSplits(const ShapeClass &shape, TargetAttr target, ScheduleAttr schedule);

} // namespace attn

#endif // ATTN_PASSES_CHOOSESCHEDULE_H
