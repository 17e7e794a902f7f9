//===- RandomAttention.h - a random attention for each seed ------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Functions for differential tests: shapes, element types, score and mask regions built from a grammar,
// schedule and target all follow from a seed, the same on every machine.
//
// What the grammar leaves out, and why: a score is a smooth function of q·k (no floor, no comparison), since
// where one rounding decides between two branches no bound on the error holds. Reads of captures and
// arithmetic on indices are exact, and may decide.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TEST_UNIT_RANDOMATTENTION_H
#define ATTN_TEST_UNIT_RANDOMATTENTION_H

#include "tools/common/Program.h"

/// Sizes that one compiled function is run with.
struct RunSizes {
  int64_t batch, qHeads, kvHeads, qLen, kvLen;
};

/// A dimension of an argument: `factor` times a size of the run plus `constant`.
struct Dimension {
  enum Of { none, batch, qHeads, kvHeads, qLen, kvLen, bothLens, longerLen, qBlocks };
  Of of = none;
  int64_t constant = 0;
  int64_t get(const RunSizes &sizes) const;
};

/// Values of an argument.
enum class Values {
  normal,        ///< standard normal
  large,         ///< four times that: softmax saturates
  aroundOne,     ///< uniform in [0.5, 1.5]
  small,         ///< uniform in [-0.25, 0.25]
  withInfinity,  ///< standard normal, and -inf for every fourth
  lengths,       ///< whole numbers from 0 to kv_len
  documents,     ///< whole numbers from 0 to 3, sorted along the last dimension
  smallIntegers, ///< whole numbers from -3 to 3
  bits,          ///< 0 or 1
};

struct ArgumentSpec {
  std::string name, elementType;
  llvm::SmallVector<Dimension> dims;
  bool isScalar = false;
  Values values = Values::normal;
};

struct RandomAttention {
  /// A module with the function @f, which returns out and lse.
  std::string text;
  bool withDLse;
  /// The first three are query, key and value.
  std::vector<ArgumentSpec> arguments;
  std::vector<RunSizes> runs;
  std::string elementType;
  int64_t valueDim;
  /// A key and a query that the mask drops and that hold NaN, in every tensor; -1 for none.
  int64_t poisonedKey = -1, poisonedQuery = -1;
  attn::ProgramOptions options;

  /// The text, and what it does not say: sizes, schedule, target.
  std::string describe() const;
};

RandomAttention makeRandomAttention(uint64_t seed);

#endif // ATTN_TEST_UNIT_RANDOMATTENTION_H
