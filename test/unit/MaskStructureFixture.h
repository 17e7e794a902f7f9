//===- MaskStructureFixture.h - ranges against every pair of small lengths ===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A mask and the ranges regions built from it, for blocks of queries and for blocks of keys, are evaluated by
// an interpreter for all pairs of small lengths. An index that some pair of a block keeps has to be visited,
// one that some pair drops has to be masked. Where the structure says that it is exact, every streamed block,
// wherever it begins, that meets a visited range holds a kept pair, and every one that meets a masked range a
// dropped one.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TEST_UNIT_MASKSTRUCTUREFIXTURE_H
#define ATTN_TEST_UNIT_MASKSTRUCTUREFIXTURE_H

#include "mlir/IR/BuiltinOps.h"
#include "passes/MaskStructure.h"
#include "test/unit/MaskInterpreter.h"
#include <gtest/gtest.h>

constexpr int64_t kBatch = 2, kHeads = 2, kLongest = 48;

/// The captures of every mask: three windows, a length and a document number for each position.
struct Captures {
  int64_t index = 3, i64 = 3, i32 = 3;
  std::vector<int64_t> lengths = {5, 17};

  std::vector<MaskArgument> getArguments() const;
};

/// What a test expects of the ranges besides being sound.
enum class Expect { exact, sound, unknown };

/// Of streamed blocks, beginning at any index.
struct Counts {
  int64_t visited = 0, emptyVisited = 0, full = 0, missedFull = 0;
};

class MaskStructureTest : public testing::Test {
protected:
  MaskStructureTest();

  /// Reads a mask and builds its ranges. `body` computes the i1 %keep from %b, %h, %q, %kv and the captures.
  /// What is exact for streamed blocks of 1 is so for all.
  void parse(const std::string &body, attn::BlockSizes sizes = {kLongest, 1});
  /// Builds the ranges anew for blocks of other sizes.
  void build(attn::BlockSizes sizes);

  /// Compares the ranges with the mask, for these captures and lengths, and blocks of `blockSizes`.
  void check(const Captures &captures, llvm::ArrayRef<int64_t> lengths,
             llvm::ArrayRef<int64_t> blockSizes = {1, 4, 7, 16, kLongest});

  void expect(const std::string &body, Expect expected, llvm::ArrayRef<Captures> captures = Captures(),
              attn::BlockSizes sizes = {kLongest, 1});

  std::string printRanges(bool blocksKeys);
  size_t countOps(bool blocksKeys);

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  attn::AttentionOp attention;
  mlir::OwningOpRef<mlir::Operation *> holders[2];
  mlir::Region *regions[2];
  attn::MaskStructure structures[2];
  attn::BlockSizes built;
  Counts counts;

private:
  /// One mask at one pair of lengths.
  struct Pairs {
    std::vector<MaskArgument> captures;
    int64_t b, h, qLen, kvLen;
    std::vector<char> kept;
  };
  void checkBlocks(const Pairs &pairs, MaskProgram &ranges, bool blocksKeys, int64_t blockSize);
  bool countBlocks(llvm::ArrayRef<char> anyKept, llvm::ArrayRef<char> anyDropped,
                   llvm::ArrayRef<char> visited, llvm::ArrayRef<char> masked);
};

#endif // ATTN_TEST_UNIT_MASKSTRUCTUREFIXTURE_H
