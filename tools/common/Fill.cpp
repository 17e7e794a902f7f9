//===- Fill.cpp - values for inputs that no file gives ------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/common/Fill.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/Support/Format.h"
#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace attn;

llvm::Expected<Fill> attn::parseFill(StringRef text) {
  auto [word, rest] = text.split(':');
  SmallVector<double> numbers;
  SmallVector<StringRef> parts;
  rest.split(parts, ':', -1, /*KeepEmpty=*/false);
  for (StringRef part : parts) {
    double number;
    if (part.getAsDouble(number))
      return makeError("--fill: '%s' is not a number", part.str().c_str());
    numbers.push_back(number);
  }
  struct Form {
    StringLiteral word;
    Fill::Kind kind;
    size_t numNumbers;
  };
  constexpr Form forms[] = {{"normal", Fill::normal, 0},     {"uniform", Fill::uniform, 2},
                            {"constant", Fill::constant, 1}, {"range", Fill::range, 0},
                            {"sorted", Fill::sorted, 2},     {"slopes", Fill::slopes, 0}};
  for (const Form &form : forms) {
    if (word != form.word)
      continue;
    if (numbers.size() != form.numNumbers)
      return makeError("--fill: '%s' takes %zu numbers, got %zu", word.str().c_str(), form.numNumbers,
                       numbers.size());
    Fill fill{form.kind, 0, 0};
    if (form.numNumbers > 0)
      fill.low = fill.high = numbers[0];
    if (form.numNumbers > 1)
      fill.high = numbers[1];
    if (!(fill.low <= fill.high))
      return makeError("--fill: expected a lower bound not above the upper one, got '%s'",
                       text.str().c_str());
    return fill;
  }
  return makeError(
      "--fill: expected normal, uniform:LO:HI, constant:X, range, sorted:LO:HI or slopes, got '%s'",
      text.str().c_str());
}

std::string attn::formatFill(const Fill &fill) {
  std::string text;
  llvm::raw_string_ostream os(text);
  switch (fill.kind) {
  case Fill::normal:
    os << "normal";
    break;
  case Fill::uniform:
    os << llvm::format("uniform in [%g, %g]", fill.low, fill.high);
    break;
  case Fill::constant:
    os << llvm::format("%g", fill.low);
    break;
  case Fill::range:
    os << "0, 1, 2, …";
    break;
  case Fill::sorted:
    os << llvm::format("sorted in [%g, %g]", fill.low, fill.high);
    break;
  case Fill::slopes:
    os << "ALiBi slopes";
    break;
  }
  return text;
}

/// Whether a region reads `argument` at an index that depends on the position of the query or of the key.
static bool isReadByPosition(const EntryPoint &entry, Value argument) {
  for (AttentionOpInterface op : entry.getAttentionOps()) {
    for (unsigned index = 0; index < op.getCaptures().size(); ++index) {
      if (op.getCaptures()[index] != argument)
        continue;
      auto reads = [&](Region &region, unsigned numFixed) {
        if (region.empty())
          return false;
        Block &body = region.front();
        Value capture = body.getArgument(numFixed + index);
        Value query = body.getArgument(numFixed - 2), key = body.getArgument(numFixed - 1);
        return region
            .walk([&](tensor::ExtractOp read) {
              bool byPosition =
                  llvm::is_contained(read.getIndices(), query) || llvm::is_contained(read.getIndices(), key);
              return read.getTensor() == capture && byPosition ? WalkResult::interrupt()
                                                               : WalkResult::advance();
            })
            .wasInterrupted();
      };
      if (reads(op.getScore(), ScoreArgs::numFixed) || reads(op.getMask(), MaskArgs::numFixed))
        return true;
    }
  }
  return false;
}

Fill attn::chooseFill(const EntryPoint &entry, unsigned argument, const SizeResolver &sizes) {
  Value value = entry.getFunction().getArgument(argument);
  Type elementType = getElementTypeOrSelf(value.getType());
  if (isa<FloatType>(elementType))
    return {Fill::normal, 0, 0};
  if (elementType.isInteger(1))
    return {Fill::uniform, 0, 1};
  if (isReadByPosition(entry, value))
    return {Fill::sorted, 0, 3};
  int64_t kvLen = 256;
  for (AttentionOpInterface op : entry.getAttentionOps())
    if (std::optional<int64_t> size = sizes.getSize(op.getKey(), 2)) {
      kvLen = *size;
      break;
    }
  return {Fill::uniform, 0, static_cast<double>(kvLen)};
}

namespace {
/// SplitMix64: a counter hashed, so that streams of different seeds and arguments do not overlap in practice.
/// The distributions of <random> differ between standard libraries; these do not.
class Random {
public:
  Random(uint64_t seed, uint64_t stream) : state(seed) {
    state = next() ^ (stream * 0xd1342543de82ef95ull);
    state = next();
  }
  uint64_t next() {
    uint64_t z = state += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  /// In [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  /// The polar method.
  double normal() {
    if (hasSpare) {
      hasSpare = false;
      return spare;
    }
    double x, y, r;
    do {
      x = 2 * uniform() - 1;
      y = 2 * uniform() - 1;
      r = x * x + y * y;
    } while (r >= 1 || r == 0);
    double factor = std::sqrt(-2 * std::log(r) / r);
    spare = y * factor;
    hasSpare = true;
    return x * factor;
  }

private:
  uint64_t state;
  double spare = 0;
  bool hasSpare = false;
};
} // namespace

HostTensor attn::makeFilled(Type elementType, ArrayRef<int64_t> shape, const Fill &fill, uint64_t seed,
                            unsigned argument) {
  HostTensor tensor(elementType, shape);
  int64_t count = tensor.getNumElements();
  int64_t last = shape.empty() ? 1 : shape.back();
  Random random(seed, argument + 1);
  bool isInteger = !isa<FloatType>(elementType);
  auto uniform = [&] {
    double value = random.uniform();
    return isInteger ? std::floor(fill.low + value * (fill.high - fill.low + 1))
                     : fill.low + value * (fill.high - fill.low);
  };
  for (int64_t i = 0; i < count; ++i) {
    switch (fill.kind) {
    case Fill::normal:
      tensor.set(i, random.normal());
      break;
    case Fill::uniform:
    case Fill::sorted:
      tensor.set(i, uniform());
      break;
    case Fill::constant:
      tensor.set(i, fill.low);
      break;
    case Fill::range:
      tensor.set(i, static_cast<double>(i % last));
      break;
    case Fill::slopes:
      tensor.set(i, std::exp2(-8.0 * static_cast<double>(i % last + 1) / static_cast<double>(last)));
      break;
    }
  }
  if (fill.kind == Fill::sorted && last > 0) {
    std::vector<double> row(last);
    for (int64_t begin = 0; begin < count; begin += last) {
      for (int64_t i = 0; i < last; ++i)
        row[i] = tensor.get(begin + i);
      std::sort(row.begin(), row.end());
      for (int64_t i = 0; i < last; ++i)
        tensor.set(begin + i, row[i]);
    }
  }
  return tensor;
}
