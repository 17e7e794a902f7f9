//===- RandomRegions.h - random score and mask regions -----------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TEST_UNIT_RANDOMREGIONS_H
#define ATTN_TEST_UNIT_RANDOMREGIONS_H

#include "RandomAttention.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <random>

/// Numbers that are the same with every standard library, which the distributions of <random> are not.
class Random {
public:
  explicit Random(uint64_t seed) : engine(seed) {}
  int64_t below(int64_t limit) { return static_cast<int64_t>(engine() % static_cast<uint64_t>(limit)); }
  bool chance(int64_t percent) { return below(100) < percent; }
  template <typename T, size_t n>
  T oneOf(const T (&choices)[n]) {
    return choices[below(n)];
  }

private:
  std::mt19937_64 engine;
};

using GetShape = llvm::function_ref<std::string(const ArgumentSpec &)>;

/// "tensor<?x4xf32>", or "f32" for a scalar.
std::string getTypeText(const ArgumentSpec &argument, GetShape getShape);

/// Writes regions as text. Their captures are added to the arguments.
class RegionWriter {
public:
  RegionWriter(Random &random, std::string compute, std::vector<ArgumentSpec> &arguments, GetShape getShape)
      : random(random), compute(std::move(compute)), arguments(arguments), getShape(getShape) {}

  /// The bodies, each ending in its attn.yield. The score comes first: it may need a mask, since some of its
  /// reads are in bounds only where a causal mask keeps the pair.
  std::string writeScore();
  bool needsMask() const { return needsCausal; }
  /// Drops `droppedKey` and `droppedQuery`, where they are not negative, whatever else it does.
  std::string writeMask(int64_t droppedKey, int64_t droppedQuery);

private:
  using Text = std::string;

  /// How one dimension of a capture is indexed.
  enum class Index {
    batch,
    head,
    query,
    key,
    first,      ///< element 0 of kv_len: there only where there is a key
    distance,   ///< query - key + kv_len - 1
    backward,   ///< query - key, in bounds under a causal mask
    eitherWay,  ///< query or key, of the longer length
    queryBlock, ///< query floordiv 16
    headPair,   ///< head floordiv 2
    remainder,  ///< key mod 7
    clamped,    ///< query - key within ±8, plus 8
  };
  struct RealCapture {
    Text name, elementType;
    llvm::SmallVector<Index> indices;
    Values values;
  };

  //===--- values ---===//
  Text define(const Text &expression);
  Text integer(int64_t value);
  Text real(double value);
  Text compare(const char *predicate, const Text &lhs, const Text &rhs);
  Text arithmetic(const char *name, const Text &lhs, const Text &rhs);
  Text unary(const char *name, const Text &value);
  Text binary(const char *name, const Text &lhs, const Text &rhs);
  Text onePlusSquare(const Text &value);
  Text select(const Text &condition, const Text &onTrue, const Text &onFalse);
  /// scf.if with one result.
  Text branch(const Text &condition, llvm::function_ref<Text()> onTrue, llvm::function_ref<Text()> onFalse,
              const Text &type);

  //===--- captures ---===//
  Text addCapture(const char *elementType, llvm::ArrayRef<Dimension> dims, bool isScalar, Values values);
  Text read(const Text &capture, llvm::ArrayRef<Text> indices);
  Text toCompute(const Text &value, const Text &type);
  Text toIndex(const Text &value, const Text &type);
  Dimension getDimension(Index index);
  Text writeIndex(Index index);
  /// A number, of the compute type, read from a capture.
  Text readReal(Values values);
  /// A length as an index: of the batch entry, of the head, or one for all.
  Text readLength();
  Text readBit();

  //===--- scores ---===//
  Text smooth(const Text &value);
  Text changeScore(const Text &score);
  Text changeInBranch(const Text &score);
  Text biasByDistance(const Text &score);
  Text uniformCondition();

  //===--- masks ---===//
  Text comparison();
  Text formula(int depth);

  Random &random;
  std::string compute;
  std::vector<ArgumentSpec> &arguments;
  GetShape getShape;
  std::string body;
  std::vector<RealCapture> realCaptures;
  unsigned numValues = 0, depthOfBranches = 0;
  bool needsCausal = false;
};

#endif // ATTN_TEST_UNIT_RANDOMREGIONS_H
