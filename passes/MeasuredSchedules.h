//===- MeasuredSchedules.h - the table that attn-bench --tune writes ---------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// MeasuredSchedules.json is the table, with all that was measured as its evidence. It is part of the program:
// which schedule is chosen does not depend on any file at run time.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PASSES_MEASUREDSCHEDULES_H
#define ATTN_PASSES_MEASUREDSCHEDULES_H

#include "passes/ChooseSchedule.h"
#include "llvm/Support/Error.h"
#include <vector>

namespace attn {

/// What a measurement stands for.
struct ScheduleClass {
  Arch arch;
  ScheduleFamily family;
  KernelKind kind;
  unsigned elementBits;
  int64_t headDim, valueDim; ///< Padded to 16.
  MaskClass mask;
  ScoreClass score;
  bool isShort; ///< Of at most kShortLength queries; of the hopper family's forward only.

  static ScheduleClass get(const ShapeClass &shape, TargetAttr target, const ScheduleOverrides &overrides,
                           ScheduleFamily family);
  bool operator==(const ScheduleClass &other) const;
  /// "hopper forward of sm_90a, 16 bits, head_dim 64, value_dim 64, mask comparison, score none, long
  /// lengths".
  std::string toString() const;
};

struct MeasuredTile {
  GpuTile tile;
  bool exactMaximum = false;
  double speed = 0;      ///< TFLOP/s; the geometric mean where there are several lengths.
  double spread = 0;     ///< The distance of the quartiles, relative to the median; the largest.
  int64_t registers = 0; ///< Of a thread.
  std::string rejection; ///< Why it was not timed, or not believed.

  bool isSame(const MeasuredTile &other) const {
    return tile == other.tile && exactMaximum == other.exactMaximum;
  }
  /// "128 x 96, exact maximum"; with warps, blocks and stages where the family is the portable one.
  std::string toString(ScheduleFamily family) const;
};

struct MeasuredSchedule {
  ScheduleClass key;
  MeasuredTile best;
  /// What the rule would take; where it takes the best, the fastest other, which may have been faster by less
  /// than the spread.
  MeasuredTile other;
  std::string device, driver, date, cases;
  std::vector<MeasuredTile> candidates;

  /// "742.1 TFLOP/s against 701.3 of 128 x 96 (bf16, NVIDIA H200, 2026-11-30)".
  std::string getSummary() const;
};

/// As `writeMeasured` writes it.
llvm::Expected<std::vector<MeasuredSchedule>> readMeasured(llvm::StringRef text);
void writeMeasured(llvm::raw_ostream &os, llvm::ArrayRef<MeasuredSchedule> schedules);

/// The entry of the table of `overrides` for this class; null where there is none, with the reason, and where
/// numbers are given by hand.
const MeasuredSchedule *findMeasured(const ShapeClass &shape, TargetAttr target,
                                     const ScheduleOverrides &overrides, ScheduleFamily family,
                                     std::string &reason);

} // namespace attn

#endif // ATTN_PASSES_MEASUREDSCHEDULES_H
