//===- MaskStructureRandomTest.cpp - the ranges of random masks -----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/MaskStructureFixture.h"
#include <random>

using namespace mlir;
using namespace attn;

namespace {
/// Writes the text of a random mask.
class RandomMask {
public:
  explicit RandomMask(unsigned seed) : random(seed) {}

  std::string get() {
    std::string keep = boolean(3);
    line("arith.andi " + keep + ", " + line("arith.constant true") + " : i1", "%keep");
    return text;
  }

private:
  unsigned pick(unsigned count) { return random() % count; }

  std::string line(const std::string &op, std::string name = "") {
    if (name.empty())
      name = "%r" + std::to_string(next++);
    text += name + " = " + op + "\n";
    return name;
  }

  std::string constant(int64_t value) { return line("arith.constant " + std::to_string(value) + " : index"); }

  std::string integer(unsigned depth) {
    if (depth == 0 || pick(3) == 0) {
      switch (pick(10)) {
      case 0:
      case 1:
      case 2:
        return "%q";
      case 3:
      case 4:
      case 5:
        return "%kv";
      case 6:
        return constant(int64_t(pick(16)) - 4);
      case 7:
        return pick(2) ? "%index" : line("arith.index_cast %i32 : i32 to index");
      case 8:
        return line(pick(2) ? "attn.q_len %b" : "attn.kv_len %b");
      default:
        return line("arith.index_cast " + line("tensor.extract %lengths[%b] : tensor<2xi32>") +
                    " : i32 to index");
      }
    }
    auto binary = [&](const char *op, const std::string &lhs, const std::string &rhs) {
      bool isTyped = !StringRef(op).starts_with("index.");
      return line(std::string(op) + " " + lhs + ", " + rhs + (isTyped ? " : index" : ""));
    };
    static const char *const divisions[] = {"arith.floordivsi", "arith.remsi",     "arith.divsi",
                                            "arith.ceildivsi",  "index.floordivs", "index.rems"};
    switch (pick(9)) {
    case 0:
    case 1:
      return binary("arith.addi", integer(depth - 1), integer(depth - 1));
    case 2:
    case 3:
      return binary(pick(2) ? "arith.subi" : "index.sub", integer(depth - 1), integer(depth - 1));
    case 4:
      return binary("arith.muli", integer(depth - 1), constant(int64_t(pick(5)) - 2));
    case 5:
      // Unsigned, a negative dividend would be near 2^64 and what is added to it overflow.
      if (pick(4) == 0)
        return binary(pick(2) ? "arith.divui" : "arith.remui", pick(2) ? "%q" : "%kv", constant(pick(7) + 1));
      return binary(divisions[pick(6)], integer(depth - 1), constant(pick(7) + 1));
    case 6:
      return binary(pick(2) ? "arith.maxsi" : "arith.minsi", integer(depth - 1), integer(depth - 1));
    case 7:
      return line("arith.select " + boolean(depth - 1) + ", " + integer(depth - 1) + ", " +
                  integer(depth - 1) + " : index");
    default:
      return pick(2) ? line("math.absi " + integer(depth - 1) + " : index")
                     : binary("arith.shrsi", integer(depth - 1), constant(pick(4)));
    }
  }

  std::string boolean(unsigned depth) {
    static const char *const predicates[] = {"sle", "slt", "sge", "sgt", "eq",
                                             "ne",  "ult", "ule", "ugt", "uge"};
    static const char *const operations[] = {"arith.andi", "arith.ori", "arith.xori"};
    if (depth == 0 || pick(3) == 0) {
      switch (pick(12)) {
      case 0:
        return line("arith.cmpi slt, %h, " + constant(1) + " : index");
      case 1:
        return line("arith.cmpi eq, " + line("tensor.extract %documents[%b, %q] : tensor<2x48xi32>") + ", " +
                    line("tensor.extract %documents[%b, %kv] : tensor<2x48xi32>") + " : i32");
      default:
        return line("arith.cmpi " + std::string(predicates[pick(pick(2) ? 6 : 10)]) + ", " + integer(2) +
                    ", " + integer(2) + " : index");
      }
    }
    switch (pick(6)) {
    case 0:
      return line("arith.xori " + boolean(depth - 1) + ", " + line("arith.constant true") + " : i1");
    case 1:
      return line("arith.select " + boolean(depth - 1) + ", " + boolean(depth - 1) + ", " +
                  boolean(depth - 1) + " : i1");
    case 2: {
      std::string condition = boolean(depth - 1), name = "%r" + std::to_string(next++);
      text += name + " = scf.if " + condition + " -> i1 {\n";
      text += "scf.yield " + boolean(depth - 1) + " : i1\n} else {\n";
      text += "scf.yield " + boolean(depth - 1) + " : i1\n}\n";
      return name;
    }
    default:
      return line(std::string(operations[pick(3)]) + " " + boolean(depth - 1) + ", " + boolean(depth - 1) +
                  " : i1");
    }
  }

  std::mt19937 random;
  std::string text;
  unsigned next = 0;
};

TEST_F(MaskStructureTest, Random) {
  constexpr unsigned numMasks = 600;
  unsigned numExact = 0;
  for (unsigned seed = 0; seed < numMasks; ++seed) {
    std::string body = RandomMask(seed).get();
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + body);
    parse(body);
    if (HasFailure())
      return;
    numExact += structures[0].isExact && structures[1].isExact;
    check({3, 3, 3, {5, 17}}, {0, 1, 13, 22});
    check({-2, -2, 11, {0, 40}}, {7, 24});
    if (HasFailure())
      return;
  }
  RecordProperty("exact", numExact);
  EXPECT_GT(numExact, numMasks / 4) << "most masks of the grammar are affine";
}
} // namespace
