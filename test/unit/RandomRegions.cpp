//===- RandomRegions.cpp - random score and mask regions ---------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RandomRegions.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

using namespace llvm;

std::string getTypeText(const ArgumentSpec &argument, GetShape getShape) {
  return argument.isScalar ? argument.elementType
                           : "tensor<" + getShape(argument) + argument.elementType + ">";
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

std::string RegionWriter::define(const Text &expression) {
  Text name = "%x" + std::to_string(numValues++);
  body += std::string(6 + 2 * depthOfBranches, ' ') + name + " = " + expression + "\n";
  return name;
}

std::string RegionWriter::integer(int64_t value) {
  return define("arith.constant " + std::to_string(value) + " : index");
}

std::string RegionWriter::real(double value) {
  Text text;
  raw_string_ostream(text) << format("%.3e", value);
  return define("arith.constant " + text + " : " + compute);
}

std::string RegionWriter::compare(const char *predicate, const Text &lhs, const Text &rhs) {
  return random.chance(20) ? define("index.cmp " + Text(predicate) + "(" + lhs + ", " + rhs + ")")
                           : define("arith.cmpi " + Text(predicate) + ", " + lhs + ", " + rhs + " : index");
}

/// `name` is add, sub, mul, floordiv, rem, max or min, on index.
std::string RegionWriter::arithmetic(const char *name, const Text &lhs, const Text &rhs) {
  Text operation = name;
  bool isSigned = operation != "add" && operation != "sub" && operation != "mul";
  if (random.chance(20))
    return define("index." + operation + (isSigned ? "s " : " ") + lhs + ", " + rhs);
  return define("arith." + operation + (isSigned ? "si " : "i ") + lhs + ", " + rhs + " : index");
}

std::string RegionWriter::unary(const char *name, const Text &value) {
  return define(Text(name) + " " + value + " : " + compute);
}

std::string RegionWriter::binary(const char *name, const Text &lhs, const Text &rhs) {
  return define(Text(name) + " " + lhs + ", " + rhs + " : " + compute);
}

std::string RegionWriter::onePlusSquare(const Text &value) {
  return binary("arith.addf", real(1), binary("arith.mulf", value, value));
}

std::string RegionWriter::select(const Text &condition, const Text &onTrue, const Text &onFalse) {
  return define("arith.select " + condition + ", " + onTrue + ", " + onFalse + " : " + compute);
}

std::string RegionWriter::branch(const Text &condition, function_ref<Text()> onTrue,
                                 function_ref<Text()> onFalse, const Text &type) {
  Text before = std::move(body);
  Text indent(6 + 2 * depthOfBranches, ' ');
  auto write = [&](function_ref<Text()> write) {
    body.clear();
    ++depthOfBranches;
    Text result = write();
    --depthOfBranches;
    return body + indent + "  scf.yield " + result + " : " + type + "\n";
  };
  Text text = "scf.if " + condition + " -> (" + type + ") {\n" + write(onTrue) + indent + "} else {\n";
  text += write(onFalse) + indent + "}";
  body = std::move(before);
  return define(text);
}

//===----------------------------------------------------------------------===//
// Captures
//===----------------------------------------------------------------------===//

std::string RegionWriter::addCapture(const char *elementType, ArrayRef<Dimension> dims, bool isScalar,
                                     Values values) {
  Text name = "c" + std::to_string(arguments.size() - 3);
  arguments.push_back({name, elementType, SmallVector<Dimension>(dims), isScalar, values});
  return name;
}

std::string RegionWriter::read(const Text &capture, ArrayRef<Text> indices) {
  const ArgumentSpec &argument =
      *find_if(arguments, [&](const ArgumentSpec &candidate) { return candidate.name == capture; });
  if (argument.isScalar)
    return "%" + capture;
  return define("tensor.extract %" + capture + "[" + join(indices, ", ") +
                "] : " + getTypeText(argument, getShape));
}

std::string RegionWriter::toCompute(const Text &value, const Text &type) {
  if (type == compute)
    return value;
  const char *conversion = type[0] == 'i' ? "arith.sitofp " : type == "f64" ? "arith.truncf " : "arith.extf ";
  return define(conversion + value + " : " + type + " to " + compute);
}

std::string RegionWriter::toIndex(const Text &value, const Text &type) {
  if (type == "index")
    return value;
  return random.chance(20) ? define("index.casts " + value + " : " + type + " to index")
                           : define("arith.index_cast " + value + " : " + type + " to index");
}

Dimension RegionWriter::getDimension(Index index) {
  switch (index) {
  case Index::batch:
    return {Dimension::batch, 0};
  case Index::head:
  case Index::headPair:
    return {Dimension::qHeads, 0};
  case Index::query:
  case Index::backward:
    return {Dimension::qLen, 0};
  case Index::key:
  case Index::first:
    return {Dimension::kvLen, 0};
  case Index::distance:
    return {Dimension::bothLens, 0};
  case Index::eitherWay:
    return {Dimension::longerLen, 0};
  case Index::queryBlock:
    return {Dimension::qBlocks, 0};
  case Index::remainder:
    return {Dimension::none, 7};
  case Index::clamped:
    return {Dimension::none, 17};
  }
  llvm_unreachable("unknown index");
}

std::string RegionWriter::writeIndex(Index index) {
  auto difference = [&] { return arithmetic("sub", "%i", "%j"); };
  switch (index) {
  case Index::batch:
    return "%b";
  case Index::head:
    return "%h";
  case Index::query:
    return "%i";
  case Index::key:
    return "%j";
  case Index::first:
    return integer(0);
  case Index::distance: {
    Text last = arithmetic("sub", define("attn.kv_len %b"), integer(1));
    return arithmetic("add", difference(), last);
  }
  case Index::backward:
    needsCausal = true;
    return difference();
  case Index::eitherWay:
    return random.chance(50) ? "%i" : "%j";
  case Index::queryBlock:
    return define("arith.floordivsi %i, " + integer(16) + " : index");
  case Index::headPair:
    return define("arith.divui %h, " + integer(2) + " : index");
  case Index::remainder:
    return arithmetic("rem", "%j", integer(7));
  case Index::clamped: {
    Text low = arithmetic("max", difference(), integer(-8));
    return arithmetic("add", arithmetic("min", low, integer(8)), integer(8));
  }
  }
  llvm_unreachable("unknown index");
}

std::string RegionWriter::readReal(Values values) {
  auto readAgain = [&](const RealCapture &capture) {
    SmallVector<Text> indices =
        map_to_vector(capture.indices, [&](Index index) { return writeIndex(index); });
    return toCompute(read(capture.name, indices), capture.elementType);
  };
  // The gradient of a capture is the sum over all of its reads.
  bool again = random.chance(20);
  if (again && !realCaptures.empty() && realCaptures.back().values == values)
    return readAgain(realCaptures.back());

  static constexpr const char *types[] = {"f32", "f32", "f32", "f32", "bf16", "f16", "f64", "i8", "i32"};
  static constexpr Index kinds[] = {Index::batch,    Index::head,      Index::head,      Index::query,
                                    Index::query,    Index::key,       Index::key,       Index::first,
                                    Index::distance, Index::backward,  Index::eitherWay, Index::queryBlock,
                                    Index::headPair, Index::remainder, Index::clamped};
  RealCapture capture;
  capture.elementType = random.oneOf(types);
  capture.values = values;
  bool isInteger = capture.elementType[0] == 'i';
  // Whole numbers are neither around 1 nor infinite.
  if (isInteger && values != Values::normal && values != Values::small) {
    isInteger = false;
    capture.elementType = "f32";
  }
  static constexpr int64_t ranks[] = {0, 1, 1, 1, 2, 2, 2, 3, 4};
  bool isScalar = random.chance(15);
  int64_t rank = isScalar ? 0 : random.oneOf(ranks);
  for (int64_t dim = 0; dim < rank; ++dim)
    capture.indices.push_back(rank == 4 ? static_cast<Index>(dim) : random.oneOf(kinds));
  SmallVector<Dimension> dims =
      map_to_vector(capture.indices, [&](Index index) { return getDimension(index); });
  capture.name =
      addCapture(capture.elementType.c_str(), dims, isScalar, isInteger ? Values::smallIntegers : values);
  realCaptures.push_back(capture);
  Text number = readAgain(capture);
  if (isInteger)
    number = binary("arith.mulf", number, real(0.125));
  return number;
}

std::string RegionWriter::readLength() {
  static constexpr const char *types[] = {"i32", "i32", "i64", "index", "i16"};
  const char *type = random.oneOf(types);
  switch (random.below(4)) {
  case 0:
    return toIndex(read(addCapture(type, {}, /*isScalar=*/true, Values::lengths), {}), type);
  case 1:
    return toIndex(read(addCapture(type, {{Dimension::qHeads, 0}}, false, Values::lengths), {"%h"}), type);
  case 2:
    return toIndex(
        read(addCapture(type, {{Dimension::batch, 0}, {Dimension::qHeads, 0}}, false, Values::lengths),
             {"%b", "%h"}),
        type);
  default:
    return toIndex(read(addCapture(type, {{Dimension::batch, 0}}, false, Values::lengths), {"%b"}), type);
  }
}

std::string RegionWriter::readBit() {
  switch (random.below(4)) {
  case 0:
    return read(addCapture("i1", {}, /*isScalar=*/true, Values::bits), {});
  case 1:
    return read(addCapture("i1", {{Dimension::qHeads, 0}}, false, Values::bits), {"%h"});
  case 2:
    return read(addCapture("i1", {{Dimension::batch, 0}, {Dimension::kvLen, 0}}, false, Values::bits),
                {"%b", "%j"});
  default:
    return read(addCapture("i1", {{Dimension::qLen, 0}, {Dimension::kvLen, 0}}, false, Values::bits),
                {"%i", "%j"});
  }
}

//===----------------------------------------------------------------------===//
// Scores
//===----------------------------------------------------------------------===//

/// A function of `value` whose derivative is continuous and moderate.
std::string RegionWriter::smooth(const Text &value) {
  static constexpr const char *bounded[] = {"math.tanh", "math.sin", "math.cos",
                                            "math.atan", "math.erf", "math.erfc"};
  static constexpr const char *ofBounded[] = {"math.exp",  "math.exp2", "math.expm1",
                                              "math.sinh", "math.cosh", "math.tan"};
  static constexpr const char *ofPositive[] = {"math.sqrt",  "math.rsqrt", "math.log",  "math.log2",
                                               "math.log10", "math.log1p", "math.cbrt", "math.acosh"};
  switch (random.below(9)) {
  case 0:
  case 1:
    return unary(random.oneOf(bounded), value);
  case 2:
    return unary(random.oneOf(ofBounded), unary("math.tanh", value));
  case 3: {
    const char *function = random.oneOf(ofPositive);
    return unary(function, onePlusSquare(value));
  }
  case 4: { // sigmoid
    Text exponential = unary("math.exp", unary("arith.negf", value));
    return binary("arith.divf", real(1), binary("arith.addf", real(1), exponential));
  }
  case 5: { // the square of the positive part
    Text positive = binary("arith.maximumf", unary("math.tanh", value), real(0));
    return binary("arith.mulf", positive, positive);
  }
  case 6: {
    Text bounded = unary("math.sin", value);
    return binary("arith.mulf", bounded, unary("math.absf", bounded));
  }
  case 7:
    return binary("math.powf", onePlusSquare(value), real(0.1 + 0.1 * static_cast<double>(random.below(9))));
  default:
    return binary("math.atan2", value, real(2));
  }
}

/// A condition that is the same for a whole block.
std::string RegionWriter::uniformCondition() {
  switch (random.below(5)) {
  case 0:
    return compare("eq", arithmetic("rem", "%h", integer(2)), integer(0));
  case 1:
    return compare("sgt", "%b", integer(0));
  case 2:
    return compare("slt", define("attn.kv_len %b"), integer(40));
  case 3:
    return read(addCapture("i1", {}, /*isScalar=*/true, Values::bits), {});
  default:
    return compare("sle", define("attn.q_len %b"), define("attn.kv_len %b"));
  }
}

std::string RegionWriter::biasByDistance(const Text &score) {
  Text distance = arithmetic("sub", "%j", "%i");
  if (random.chance(40)) {
    Text narrow = define("arith.index_cast " + distance + " : index to i32");
    if (random.chance(40))
      narrow = define("math.absi " + narrow + " : i32");
    distance = define("arith.sitofp " + narrow + " : i32 to " + compute);
  } else {
    distance = define("arith.index_cast " + distance + " : index to i64");
    distance = define("arith.sitofp " + distance + " : i64 to " + compute);
  }
  Text slope = binary("arith.mulf", readReal(Values::small), real(0.25));
  return random.chance(50) ? define("math.fma " + slope + ", " + distance + ", " + score + " : " + compute)
                           : binary("arith.addf", score, binary("arith.mulf", slope, distance));
}

std::string RegionWriter::changeInBranch(const Text &score) {
  bool isUniform = random.chance(40);
  Text condition = isUniform ? uniformCondition() : comparison();
  auto changed = [&]() -> Text {
    if (random.chance(30)) { // in bounds only where the branch is taken
      Text guard = compare("sle", "%j", "%i");
      return branch(
          guard,
          [&] {
            Text table = addCapture("f32", {{Dimension::qLen, 0}}, false, Values::small);
            Text distance = arithmetic("sub", "%i", "%j");
            return binary("arith.addf", score, toCompute(read(table, {distance}), "f32"));
          },
          [&] { return score; }, compute);
    }
    return changeScore(score);
  };
  auto unchanged = [&]() -> Text { return random.chance(50) ? score : changeScore(score); };
  return branch(condition, changed, unchanged, compute);
}

std::string RegionWriter::changeScore(const Text &score) {
  switch (random.below(depthOfBranches < 2 ? 14 : 11)) {
  case 0: { // soft cap
    Text cap = real(static_cast<double>(3 + random.below(40)));
    return binary("arith.mulf", cap, unary("math.tanh", binary("arith.divf", score, cap)));
  }
  case 1: {
    Text cap = binary("arith.mulf", readReal(Values::aroundOne), real(10));
    return binary("arith.mulf", cap, unary("math.tanh", binary("arith.divf", score, cap)));
  }
  case 2:
  case 3:
    return binary("arith.addf", score, readReal(Values::normal));
  case 4:
    return binary("arith.mulf", score, readReal(Values::aroundOne));
  case 5:
  case 6:
    return biasByDistance(score);
  case 7:
    return binary("arith.addf", score, smooth(score));
  case 8: {
    Text number = readReal(Values::normal);
    return binary("arith.subf", score, smooth(number));
  }
  case 9: { // what decides is exact
    Text number = readReal(Values::normal);
    Text bounded = binary("arith.minimumf", unary("math.absf", number), real(1.5));
    Text sign = binary("math.copysign", bounded, number);
    return binary("arith.addf", score, sign);
  }
  case 10:
    return select(readBit(), score, binary("arith.subf", score, real(1.5)));
  default:
    return changeInBranch(score);
  }
}

std::string RegionWriter::writeScore() {
  body.clear();
  Text score = "%s";
  for (int64_t changes = 1 + random.below(3); changes > 0; --changes)
    score = changeScore(score);
  if (random.chance(3)) // the gradient of query and key is 0
    score = readReal(Values::normal);
  // A score of -inf drops its pair like a mask.
  if (random.chance(15))
    score = binary("arith.addf", score, readReal(Values::withInfinity));
  else if (random.chance(15))
    score = select(comparison(), score,
                   define("arith.constant " + Text(compute == "f64" ? "0xFFF0000000000000" : "0xFF800000") +
                          " : " + compute));
  return body + "      attn.yield " + score + " : " + compute + "\n";
}

//===----------------------------------------------------------------------===//
// Masks
//===----------------------------------------------------------------------===//

std::string RegionWriter::comparison() {
  static constexpr int64_t sizes[] = {1, 2, 5, 16, 33, 64, 100};
  int64_t size = random.oneOf(sizes);
  auto difference = [&] { return arithmetic("sub", "%i", "%j"); };
  auto aligned = [&] {
    Text offset = arithmetic("sub", define("attn.kv_len %b"), define("attn.q_len %b"));
    return arithmetic("add", "%i", offset);
  };
  static constexpr const char *predicates[] = {"slt", "sle", "sgt", "sge"};
  const char *predicate = random.oneOf(predicates);
  switch (random.below(15)) {
  case 0:
  case 1:
    return compare("sle", "%j", "%i");
  case 2:
    return compare("sle", "%j", aligned());
  case 3:
    return compare(predicate, difference(), integer(size));
  case 4:
    return compare(predicate, arithmetic("add", "%j", integer(size)), aligned());
  case 5:
    return compare("slt", "%j", readLength());
  case 6:
    return compare(predicate, difference(), readLength());
  case 7: { // chunks
    Text chunk = integer(size);
    return compare(random.chance(70) ? "eq" : "sle", arithmetic("floordiv", "%j", chunk),
                   arithmetic("floordiv", "%i", chunk));
  }
  case 8: { // dilated
    int64_t step = 2 + random.below(5);
    return compare("eq", arithmetic("rem", difference(), integer(step)), integer(random.below(2)));
  }
  case 9:
    return compare("slt", "%j", integer(random.below(6)));
  case 10: { // documents
    Text documents =
        addCapture("i32", {{Dimension::batch, 0}, {Dimension::longerLen, 0}}, false, Values::documents);
    Text ofQuery = read(documents, {"%b", "%i"}), ofKey = read(documents, {"%b", "%j"});
    return define("arith.cmpi eq, " + ofQuery + ", " + ofKey + " : i32");
  }
  case 11:
    return readBit();
  case 12: // a slope
    return compare(predicate, arithmetic("mul", "%j", integer(2)), arithmetic("add", "%i", integer(size)));
  case 13: { // a hash, which wraps in 32 bits
    Text first = arithmetic("mul", random.chance(50) ? "%i" : "%h", integer(2654435761));
    Text hash = arithmetic("mul", arithmetic("add", first, "%j"), integer(2246822519));
    Text bit = define("arith.shrui " + hash + ", " + integer(31) + " : index");
    return compare("eq", bit, integer(0));
  }
  default:
    return compare(predicate, random.chance(50) ? "%i" : "%j", integer(size));
  }
}

std::string RegionWriter::formula(int depth) {
  switch (depth == 0 ? 0 : random.below(8)) {
  case 1:
  case 2: {
    Text lhs = formula(depth - 1), rhs = formula(depth - 1);
    return define("arith.andi " + lhs + ", " + rhs + " : i1");
  }
  case 3: {
    Text lhs = formula(depth - 1), rhs = formula(depth - 1);
    return define("arith.ori " + lhs + ", " + rhs + " : i1");
  }
  case 4: {
    Text operand = formula(depth - 1), isTrue = define("arith.constant true");
    return define("arith.xori " + operand + ", " + isTrue + " : i1");
  }
  case 5: {
    Text condition = uniformCondition(), lhs = formula(depth - 1), rhs = formula(depth - 1);
    return define("arith.select " + condition + ", " + lhs + ", " + rhs + " : i1");
  }
  case 6: {
    Text condition = random.chance(70) ? uniformCondition() : comparison();
    return branch(condition, [&] { return formula(depth - 1); }, [&] { return formula(depth - 1); }, "i1");
  }
  default:
    return comparison();
  }
}

std::string RegionWriter::writeMask(int64_t droppedKey, int64_t droppedQuery) {
  body.clear();
  Text keep = formula(2);
  auto restrict = [&](const Text &condition) {
    keep = define("arith.andi " + keep + ", " + condition + " : i1");
  };
  if (needsCausal)
    restrict(compare("sle", "%j", "%i"));
  if (droppedKey >= 0)
    restrict(compare("ne", "%j", integer(droppedKey)));
  if (droppedQuery >= 0)
    restrict(compare("ne", "%i", integer(droppedQuery)));
  return body + "      attn.yield " + keep + " : i1\n";
}
