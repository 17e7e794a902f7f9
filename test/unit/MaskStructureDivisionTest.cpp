//===- MaskStructureDivisionTest.cpp - the ranges of masks of chunks --------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A block may meet several chunks, `index floordiv c`, and a comparison may cut off a part of each: between
// what is left of them nothing is to be visited.
//
//===----------------------------------------------------------------------===//

#include "test/unit/MaskStructureFixture.h"
#include <random>

using namespace mlir;
using namespace attn;

namespace {
constexpr int64_t kBlockSizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};

/// What the masks below are made of, for chunks of `size`.
std::string getPieces(int64_t size) {
  std::string pieces = R"(
    %c = arith.constant $ : index
    %twice = arith.constant $$ : index
    %next_size = arith.constant $+ : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %c6 = arith.constant 6 : index
    %q_chunk = arith.floordivsi %q, %c : index
    %kv_chunk = arith.floordivsi %kv, %c : index
    %distance = arith.subi %q, %kv : index
    %magnitude = math.absi %distance : index
    %q_len = attn.q_len %b
    %kv_len = attn.kv_len %b
    %shift = arith.subi %kv_len, %q_len : index
    %q_shifted = arith.addi %q, %shift : index
    %same = arith.cmpi eq, %q_chunk, %kv_chunk : index
    %later = arith.cmpi sgt, %kv, %q : index
    %near = arith.cmpi sle, %magnitude, %c2 : index
    %far = arith.cmpi sge, %distance, %c2 : index
    %from_index = arith.cmpi sge, %distance, %index : index
  )";
  auto replace = [&](StringRef from, int64_t value) {
    for (size_t at; (at = pieces.find(from)) != std::string::npos;)
      pieces.replace(at, from.size(), std::to_string(value));
  };
  replace("$$", 2 * size);
  replace("$+", size + 1);
  replace("$", size);
  return pieces;
}

const char *const kMasks[] = {
    // The chunk alone, and cut off by one side of a distance.
    "%keep = arith.andi %same, %same : i1",
    "%keep = arith.andi %same, %later : i1",
    "%keep = arith.andi %same, %near : i1",
    "%keep = arith.andi %same, %far : i1",
    "%keep = arith.andi %same, %from_index : i1",
    "%x = arith.cmpi sgt, %kv, %q_shifted : index\n%keep = arith.andi %same, %x : i1",
    "%x = arith.cmpi sle, %kv, %q_shifted : index\n%keep = arith.andi %same, %x : i1",
    "%x = arith.cmpi sge, %kv, %index : index\n%keep = arith.andi %same, %x : i1",
    "%s = arith.addi %q, %kv : index\n%x = arith.cmpi sge, %s, %c6 : index\n%keep = arith.andi %same, %x : "
    "i1",
    // Under or, xor and not.
    "%x = arith.andi %same, %later : i1\n%keep = arith.ori %x, %near : i1",
    "%x = arith.andi %same, %later : i1\n%y = arith.cmpi slt, %kv, %c3 : index\n%keep = arith.ori %x, %y : "
    "i1",
    "%keep = arith.xori %same, %later : i1",
    "%x = arith.cmpi ne, %q_chunk, %kv_chunk : index\n%keep = arith.andi %x, %near : i1",
    "%x = arith.cmpi ne, %q_chunk, %kv_chunk : index\n%keep = arith.ori %x, %far : i1",
    // Other relations of the chunks.
    "%keep = arith.cmpi sle, %kv_chunk, %q_chunk : index",
    "%x = arith.cmpi sle, %kv_chunk, %q_chunk : index\n%keep = arith.andi %x, %later : i1",
    "%x = arith.cmpi slt, %kv_chunk, %q_chunk : index\n%keep = arith.andi %x, %near : i1",
    "%d = arith.subi %q_chunk, %kv_chunk : index\n%x = arith.cmpi eq, %d, %c1 : index\n"
    "%keep = arith.andi %x, %near : i1",
    "%d = arith.subi %q_chunk, %kv_chunk : index\n%a = math.absi %d : index\n"
    "%x = arith.cmpi sle, %a, %c1 : index\n%keep = arith.andi %x, %later : i1",
    "%d = arith.subi %q_chunk, %kv_chunk : index\n%x = arith.cmpi eq, %d, %index : index\n"
    "%keep = arith.andi %x, %from_index : i1",
    // Chunks that begin elsewhere, by a constant, a captured number and the lengths.
    "%o = arith.addi %kv, %c2 : index\n%oc = arith.floordivsi %o, %c : index\n"
    "%x = arith.cmpi eq, %oc, %q_chunk : index\n%keep = arith.andi %x, %later : i1",
    "%o = arith.addi %kv, %index : index\n%oc = arith.floordivsi %o, %c : index\n"
    "%x = arith.cmpi eq, %oc, %q_chunk : index\n%keep = arith.andi %x, %near : i1",
    "%oc = arith.floordivsi %q_shifted, %c : index\n%x = arith.cmpi eq, %oc, %kv_chunk : index\n"
    "%y = arith.cmpi sgt, %kv, %q_shifted : index\n%keep = arith.andi %x, %y : i1",
    "%o = arith.addi %kv, %c2 : index\n%oc = arith.floordivsi %o, %c : index\n"
    "%x = arith.cmpi eq, %oc, %q_chunk : index\n%keep = arith.andi %x, %same : i1",
    // From the beginning of the chunk of one index.
    "%s = arith.muli %q_chunk, %c : index\n%x = arith.cmpi sge, %kv, %s : index\n%keep = arith.andi %x, %far "
    ": i1",
    "%s = arith.muli %kv_chunk, %c : index\n%x = arith.cmpi sle, %s, %q : index\n"
    "%keep = arith.andi %x, %later : i1",
    // Two sizes of chunks: nested, next to each other, and one for each index.
    "%qt = arith.floordivsi %q, %twice : index\n%kt = arith.floordivsi %kv, %twice : index\n"
    "%x = arith.cmpi eq, %qt, %kt : index\n%n = arith.cmpi ne, %q_chunk, %kv_chunk : index\n"
    "%keep = arith.andi %x, %n : i1",
    "%qt = arith.floordivsi %q, %twice : index\n%kt = arith.floordivsi %kv, %twice : index\n"
    "%x = arith.cmpi eq, %qt, %kt : index\n%n = arith.cmpi ne, %q_chunk, %kv_chunk : index\n"
    "%y = arith.andi %x, %n : i1\n%keep = arith.andi %y, %later : i1",
    "%qn = arith.floordivsi %q, %next_size : index\n%kn = arith.floordivsi %kv, %next_size : index\n"
    "%x = arith.cmpi eq, %qn, %kn : index\n%keep = arith.andi %x, %same : i1",
    "%qn = arith.floordivsi %q, %next_size : index\n%kn = arith.floordivsi %kv, %next_size : index\n"
    "%x = arith.cmpi eq, %qn, %kn : index\n%y = arith.andi %x, %same : i1\n%keep = arith.andi %y, %later : "
    "i1",
    "%kt = arith.floordivsi %kv, %twice : index\n%x = arith.cmpi eq, %q_chunk, %kt : index\n"
    "%keep = arith.andi %x, %later : i1",
    "%kt = arith.floordivsi %kv, %twice : index\n%x = arith.cmpi sle, %q_chunk, %kt : index\n"
    "%keep = arith.andi %x, %from_index : i1",
    // Chunks against single indices, and of distances.
    "%keep = arith.cmpi sle, %kv, %q_chunk : index",
    "%x = arith.cmpi eq, %kv_chunk, %q : index\n%keep = arith.andi %x, %from_index : i1",
    "%d = arith.floordivsi %distance, %c : index\n%keep = arith.cmpi eq, %d, %index : index",
    "%s = arith.addi %q, %q_chunk : index\n%keep = arith.cmpi sle, %kv, %s : index",
    "%s = arith.addi %q, %q_chunk : index\n%x = arith.cmpi sle, %kv, %s : index\n%keep = arith.andi %x, "
    "%later : i1",
};

/// Every mask, every size of chunks and of blocks.
TEST_F(MaskStructureTest, Chunks) {
  const BlockSizes sizes[] = {{9, 1}, {5, 1}, {8, 3}, {1, 1}};
  for (int64_t chunk = 1; chunk <= 7; ++chunk) {
    for (const char *mask : kMasks) {
      SCOPED_TRACE("chunks of " + std::to_string(chunk) + "\n" + mask);
      parse(getPieces(chunk) + mask + "\n");
      for (BlockSizes size : sizes) {
        SCOPED_TRACE("blocks of " + std::to_string(size.blocked) + " and " + std::to_string(size.streamed));
        build(size);
        for (const MaskStructure &structure : structures)
          EXPECT_TRUE(structure.isExact) << structure.reason;
        for (int64_t index : {0, 2, -3})
          check({index, 0, 0, {5, 17}}, {0, 1, 8, 19}, ArrayRef(kBlockSizes).take_front(size.blocked));
      }
    }
  }
}

/// Writes the text of a random formula over comparisons of the indices and their chunks. No comparison has a
/// remainder of one index, which its difference to the beginning of its chunk would be.
class RandomFormula {
public:
  RandomFormula(unsigned seed, unsigned numComparisons) : random(seed), numComparisons(numComparisons) {}

  std::string get() {
    std::string keep = boolean(numComparisons);
    return text + "%keep = arith.andi " + keep + ", " + keep + " : i1\n";
  }

private:
  unsigned pick(unsigned count) { return random() % count; }

  std::string line(const std::string &op) {
    std::string name = "%r" + std::to_string(next++);
    text += name + " = " + op + "\n";
    return name;
  }

  std::string constant(int64_t value) { return line("arith.constant " + std::to_string(value) + " : index"); }

  std::string uniform() {
    switch (pick(5)) {
    case 0:
      return "%index";
    case 1:
      return line("arith.subi " + line("attn.kv_len %b") + ", " + line("attn.q_len %b") + " : index");
    default:
      return constant(int64_t(pick(9)) - 4);
    }
  }

  /// The index, its chunk, or the beginning of its chunk.
  std::string integer(const std::string &index) {
    std::string shifted = pick(2) ? index : line("arith.addi " + index + ", " + uniform() + " : index");
    if (pick(3) == 0)
      return shifted;
    std::string size = constant(pick(6) + 2);
    std::string chunk = line("arith.floordivsi " + shifted + ", " + size + " : index");
    return pick(3) ? chunk : line("arith.muli " + chunk + ", " + size + " : index");
  }

  std::string comparison() {
    static const char *const predicates[] = {"sle", "slt", "sge", "sgt", "eq", "ne"};
    std::string lhs = integer("%q"), rhs = integer("%kv");
    if (pick(4) == 0)
      rhs = line("arith.addi " + rhs + ", " + uniform() + " : index");
    if (pick(6) == 0)
      (pick(2) ? lhs : rhs) = uniform();
    return line("arith.cmpi " + std::string(predicates[pick(6)]) + ", " + lhs + ", " + rhs + " : index");
  }

  std::string boolean(unsigned count) {
    if (count == 1)
      return comparison();
    static const char *const operations[] = {"arith.andi", "arith.andi", "arith.ori", "arith.xori"};
    std::string lhs = comparison(), rhs = boolean(count - 1);
    if (pick(3) == 0)
      rhs = line("arith.xori " + rhs + ", " + line("arith.constant true") + " : i1");
    return line(std::string(operations[pick(4)]) + " " + lhs + ", " + rhs + " : i1");
  }

  std::mt19937 random;
  unsigned numComparisons;
  std::string text;
  unsigned next = 0;
};

/// Nothing empty is visited.
TEST_F(MaskStructureTest, RandomChunks) {
  constexpr unsigned numMasks = 300;
  for (unsigned numComparisons : {2, 3}) {
    for (unsigned seed = 0; seed < numMasks; ++seed) {
      std::string body = RandomFormula(seed, numComparisons).get();
      SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + body);
      parse(body, {4, 1});
      for (const MaskStructure &structure : structures)
        EXPECT_TRUE(structure.isExact) << structure.reason;
      for (int64_t index : {3, -2})
        check({index, 0, 0, {5, 17}}, {1, 7, 18}, ArrayRef(kBlockSizes).take_front(4));
      if (HasFailure())
        return;
    }
  }
}
} // namespace
