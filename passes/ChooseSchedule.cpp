//===- ChooseSchedule.cpp - the schedule of an online attention --------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/ChooseSchedule.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/DenseBias.h"
#include "passes/KeyWindow.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace attn;

static MaskClass classifyMask(AttentionOpInterface op) {
  if (op.getMask().empty())
    return MaskClass::none;
  if (op.getBlockLists())
    return MaskClass::listed;
  int comparisons = 0;
  op.getMask().walk([&](Operation *inner) {
    comparisons += isa<arith::CmpIOp, arith::CmpFOp>(inner) ? 1 : isa<tensor::ExtractOp>(inner) ? 2 : 0;
  });
  return comparisons == 1 ? MaskClass::comparison : MaskClass::formula;
}

static ScoreClass classifyScore(Region &score) {
  if (score.empty())
    return ScoreClass::none;
  llvm::DenseSet<Value> ofPairs{score.getArgument(ScoreArgs::score), score.getArgument(ScoreArgs::key)};
  auto result = ScoreClass::arithmetic;
  score.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (llvm::none_of(op->getOperands(), [&](Value operand) { return ofPairs.contains(operand); }))
      return;
    // With the results of the conditionals around it.
    for (Operation *user = op; score.isAncestor(user->getParentRegion()); user = user->getParentOp())
      ofPairs.insert_range(user->getResults());
    bool isFunction = isa_and_present<math::MathDialect>(op->getDialect()) &&
                      !isa<math::FmaOp, math::AbsFOp, math::CopySignOp>(op);
    if (isFunction || isa<arith::DivFOp, arith::RemFOp>(op))
      result = ScoreClass::functions;
  });
  return result;
}

ShapeClass ShapeClass::get(AttentionOpInterface op, KernelKind kind) {
  auto known = [](int64_t size) {
    return ShapedType::isDynamic(size) ? std::nullopt : std::optional<int64_t>(size);
  };
  ArrayRef<int64_t> query = op.getQuery().getType().getShape();
  ArrayRef<int64_t> heads =
      kind == KernelKind::dkdv || kind == KernelKind::fused ? op.getKey().getType().getShape() : query;
  ShapeClass shape{kind,
                   op.getHeadDim(),
                   op.getValueDim(),
                   op.getComputeType().getWidth(),
                   op.getElementType().getIntOrFloatBitWidth(),
                   {},
                   {},
                   {},
                   classifyMask(op),
                   classifyScore(op.getScore()),
                   findKeyWindow(op),
                   kind == KernelKind::forward && findDenseBias(op)};
  int64_t product;
  if (known(query[0]) && known(heads[1]) && !llvm::MulOverflow(query[0], heads[1], product))
    shape.batchTimesHeads = product;
  shape.qLen = known(query[2]);
  shape.kvLen = known(op.getKey().getType().getDimSize(2));
  return shape;
}

void ScheduleOverrides::setLists(AttentionOpInterface op) {
  if (DenseI64ArrayAttr blocks = op.getBlocksAttr()) {
    listBlockM = blocks[0];
    listBlockN = blocks[1];
  }
}

std::string ScheduleOverrides::getListsRejection(int64_t tileM, int64_t tileN) const {
  if (listBlockM == 0 || (listBlockM % tileM == 0 && listBlockN % tileN == 0))
    return "";
  return llvm::formatv("does not divide the {0} x {1} of the block lists", listBlockM, listBlockN);
}

namespace {
/// The register tile of a matrix product: rows x vectors accumulators, the vectors of a row of b and one
/// broadcast.
struct RegisterTile {
  int64_t rows, vectors;
};
} // namespace

static RegisterTile chooseRegisterTile(TargetAttr target) {
  // 8 x 2 + 2 + 1 of 32 registers, 4 x 2 + 2 + 1 of 16. Both have accumulators enough to hide the latency of
  // two FMA units (4 cycles x 2), and at least 1.3 FMAs for each load.
  return target.getVectorRegisters() >= 32 ? RegisterTile{8, 2} : RegisterTile{4, 2};
}

/// Bytes of the tiles of one work item.
static void measure(ScheduleCandidate &candidate, const ShapeClass &shape) {
  // Far above any limit, and far below an overflow.
  static constexpr int64_t largest = 1 << 20;
  int64_t bytes = shape.computeBits / 8, m = std::min(candidate.blockM, largest),
          n = std::min(candidate.blockN, largest), d = shape.headDim, c = shape.valueDim;
  switch (shape.kind) {
  case KernelKind::forward:
    candidate.hotBytes = bytes * (m * n + std::max(d, c) * (m + n));
    candidate.totalBytes = bytes * (m * n + (d + c) * (m + n));
    break;
  case KernelKind::dq:
    candidate.hotBytes = bytes * (2 * m * n + std::max(d, c) * (m + n));
    candidate.totalBytes = bytes * (2 * m * n + (d + c) * (m + n) + d * m);
    break;
  case KernelKind::dkdv:
  case KernelKind::fused:
    candidate.hotBytes = bytes * (2 * m * n + std::max(d, c) * (m + n));
    candidate.totalBytes = bytes * (2 * m * n + (d + c) * (m + n) + (d + c) * n);
    break;
  }
}

FailureOr<ScheduleChoice> attn::chooseSchedule(function_ref<InFlightDiagnostic()> emitError,
                                               const ShapeClass &shape, TargetAttr target,
                                               const ScheduleOverrides &overrides) {
  if (target.isGpu())
    return chooseGpuSchedule(emitError, shape, target, overrides);
  RegisterTile tile = chooseRegisterTile(target);
  int64_t vectorLength = target.getVectorLength(shape.computeBits);
  int64_t laneMultiple = vectorLength * tile.vectors;
  bool lanesAreKeys = shape.kind == KernelKind::dkdv;

  std::optional<int64_t> laneLength = lanesAreKeys ? shape.kvLen : shape.qLen;
  std::optional<int64_t> rowLength = lanesAreKeys ? shape.qLen : shape.kvLen;
  int64_t lanesGiven = lanesAreKeys ? overrides.blockN : overrides.blockM;
  int64_t rowsGiven = lanesAreKeys ? overrides.blockM : overrides.blockN;
  if (lanesGiven % laneMultiple != 0)
    return emitError() << "expected " << (lanesAreKeys ? "block_n" : "block_m") << " to be a multiple of "
                       << laneMultiple << " (" << tile.vectors << " vectors of " << vectorLength << "), got "
                       << lanesGiven;

  auto longest = [](int64_t wanted, std::optional<int64_t> length, int64_t multiple) {
    int64_t needed = length ? std::clamp<int64_t>(*length, 1, wanted) : wanted;
    return static_cast<int64_t>(llvm::alignTo(needed, multiple));
  };
  ScheduleChoice choice;
  int64_t budget = target.getL2Bytes() / 2;
  static constexpr std::pair<int64_t, int64_t> sizes[] = {{64, 128}, {64, 64}, {32, 64},
                                                          {32, 32},  {16, 16}, {1, 8}};
  for (auto [lanesWanted, rowsWanted] : sizes) {
    int64_t lanes = lanesGiven ? lanesGiven : longest(lanesWanted, laneLength, laneMultiple);
    int64_t rows = rowsGiven ? rowsGiven : longest(rowsWanted, rowLength, tile.rows);
    ScheduleCandidate candidate{lanesAreKeys ? rows : lanes, lanesAreKeys ? lanes : rows, 0, 0, ""};
    auto isSame = [&](const ScheduleCandidate &other) {
      return other.blockM == candidate.blockM && other.blockN == candidate.blockN;
    };
    if (llvm::any_of(choice.candidates, isSame))
      continue;
    measure(candidate, shape);
    bool given = lanesGiven && rowsGiven;
    bool isLast = lanesWanted == std::end(sizes)[-1].first;
    if (candidate.hotBytes > budget && !given && !isLast)
      candidate.rejection = llvm::formatv(
          "{0} bytes used in each step exceed half of the L2 cache, {1} bytes", candidate.hotBytes, budget);
    if (std::string mismatch = overrides.getListsRejection(candidate.blockM, candidate.blockN);
        !mismatch.empty())
      candidate.rejection = std::move(mismatch);
    choice.candidates.push_back(candidate);
    if (candidate.rejection.empty())
      break;
  }
  ScheduleCandidate &chosen = choice.candidates.back();
  if (std::string mismatch = overrides.getListsRejection(chosen.blockM, chosen.blockN); !mismatch.empty())
    return emitError() << "a tile of block_m = " << chosen.blockM << " and block_n = " << chosen.blockN << " "
                       << mismatch << "; use lists of 128 x 128, or tiles that divide theirs";
  chosen.rejection.clear();
  choice.schedule =
      ScheduleAttr::getChecked(emitError, target.getContext(), chosen.blockM, chosen.blockN, overrides.order,
                               /*kv_splits=*/int64_t{1}, vectorLength, tile.rows, tile.vectors,
                               /*warps=*/int64_t{1}, /*blocks_per_multiprocessor=*/int64_t{1},
                               /*stages=*/int64_t{1}, ScheduleFamily::portable, /*fixed_maximum=*/false,
                               /*key_warps=*/int64_t{1}, /*bias_stages=*/int64_t{0});
  if (!choice.schedule || failed(verifyTileBytes(emitError, shape, choice.schedule)))
    return failure();
  return choice;
}

int64_t attn::getTileBytes(const ShapeClass &shape, ScheduleAttr schedule) {
  ScheduleCandidate tiles{schedule.getBlockM(), schedule.getBlockN(), 0, 0, ""};
  measure(tiles, shape);
  return tiles.totalBytes;
}

LogicalResult attn::verifyTileBytes(function_ref<InFlightDiagnostic()> emitError, const ShapeClass &shape,
                                    ScheduleAttr schedule) {
  int64_t bytes = getTileBytes(shape, schedule);
  if (bytes <= kMaxTileBytes)
    return success();
  return emitError() << "expected tiles of at most " << kMaxTileBytes << " bytes, got " << bytes
                     << " with block_m = " << schedule.getBlockM()
                     << " and block_n = " << schedule.getBlockN() << "; choose smaller blocks";
}

int64_t attn::chooseKvSplits(const ShapeClass &shape, TargetAttr target, ScheduleAttr schedule) {
  if (target.isGpu())
    return 1;
  if (!shape.batchTimesHeads || !shape.qLen || !shape.kvLen || schedule.getOrder() == LoopOrder::key_outer)
    return 1;
  int64_t blocks = llvm::divideCeil(*shape.qLen, schedule.getBlockM()), items;
  if (llvm::MulOverflow(*shape.batchTimesHeads, blocks, items) || items == 0 ||
      items >= target.getMultiprocessors())
    return 1;
  int64_t minimumPart = 4 * schedule.getBlockN();
  int64_t wanted = llvm::divideCeil(target.getMultiprocessors(), items);
  return std::clamp<int64_t>(std::min(wanted, *shape.kvLen / minimumPart), 1, kMaxKvSplits);
}
