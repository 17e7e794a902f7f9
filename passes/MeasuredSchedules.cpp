//===- MeasuredSchedules.cpp - the table that attn-bench --tune writes -------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/MeasuredSchedules.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace attn;
using llvm::formatv;
namespace json = llvm::json;

static constexpr StringLiteral kMasks[] = {"none", "comparison", "formula", "listed"};
static constexpr StringLiteral kScores[] = {"none", "arithmetic", "functions"};

//===----------------------------------------------------------------------===//
// Classes and summaries
//===----------------------------------------------------------------------===//

ScheduleClass ScheduleClass::get(const ShapeClass &shape, TargetAttr target,
                                 const ScheduleOverrides &overrides, ScheduleFamily family) {
  return {target.getArch(),
          family,
          shape.kind,
          shape.elementBits,
          static_cast<int64_t>(llvm::alignTo(shape.headDim, 16)),
          static_cast<int64_t>(llvm::alignTo(shape.valueDim, 16)),
          shape.mask,
          shape.score,
          overrides.shortLengths && family == ScheduleFamily::hopper};
}

bool ScheduleClass::operator==(const ScheduleClass &other) const {
  auto tie = [](const ScheduleClass &key) {
    return std::tie(key.arch, key.family, key.kind, key.elementBits, key.headDim, key.valueDim, key.mask,
                    key.score, key.isShort);
  };
  return tie(*this) == tie(other);
}

std::string ScheduleClass::toString() const {
  return formatv("{0} {1} of {2}, {3} bits, head_dim {4}, value_dim {5}, mask {6}, score {7}, {8} lengths",
                 stringifyScheduleFamily(family), stringifyKernelKind(kind), stringifyArch(arch), elementBits,
                 headDim, valueDim, kMasks[static_cast<int>(mask)], kScores[static_cast<int>(score)],
                 isShort ? "short" : "long");
}

std::string MeasuredTile::toString(ScheduleFamily family) const {
  std::string text = formatv("{0} x {1}", tile.blockM, tile.blockN);
  if (family == ScheduleFamily::portable)
    text +=
        formatv(", {0} warps, {1} blocks, {2} stages", tile.warps, tile.blocksPerMultiprocessor, tile.stages);
  return text + (exactMaximum ? ", exact maximum" : "");
}

std::string MeasuredSchedule::getSummary() const {
  return formatv("{0:F1} TFLOP/s {1} {2:F1} of {3} ({4}, {5}, {6})", best.speed,
                 best.speed < other.speed ? "kept, within the spread, against" : "against", other.speed,
                 other.toString(key.family), key.elementBits == 16 ? "bf16" : "f32", device, date);
}

const MeasuredSchedule *attn::findMeasured(const ShapeClass &shape, TargetAttr target,
                                           const ScheduleOverrides &overrides, ScheduleFamily family,
                                           std::string &reason) {
  if (overrides.blockM || overrides.blockN || overrides.tile)
    return nullptr;
  if (family == ScheduleFamily::hopper && shape.hasBias && overrides.biasStages != 0) {
    reason = "not measured: tiles of a dense bias";
    return nullptr;
  }
  ScheduleClass key = ScheduleClass::get(shape, target, overrides, family);
  const auto *found =
      llvm::find_if(overrides.measured, [&](const MeasuredSchedule &entry) { return entry.key == key; });
  if (found != overrides.measured.end()) {
    reason.clear();
    return found;
  }
  reason = "not measured: " + key.toString();
  return nullptr;
}

//===----------------------------------------------------------------------===//
// The table as text
//===----------------------------------------------------------------------===//

static json::Value toJson(const GpuTile &tile) {
  return json::Array{tile.blockM, tile.blockN,  tile.warps, tile.blocksPerMultiprocessor,
                     tile.stages, tile.keyWarps};
}

static std::string toText(const MeasuredTile &measured) {
  std::string text = formatv(R"({{"tile": {0})", toJson(measured.tile));
  if (measured.exactMaximum)
    text += R"(, "exact_maximum": true)";
  if (measured.registers)
    text += formatv(R"(, "registers": {0})", measured.registers);
  if (measured.rejection.empty())
    text += formatv(R"(, "tflops": {0:F1}, "spread": {1:F4})", measured.speed, measured.spread);
  else
    text += formatv(R"(, "rejected": {0})", json::Value(measured.rejection));
  return text + "}";
}

void attn::writeMeasured(llvm::raw_ostream &os, ArrayRef<MeasuredSchedule> schedules) {
  os << "[";
  StringRef separator = "\n";
  for (const MeasuredSchedule &entry : schedules) {
    const ScheduleClass &key = entry.key;
    os << separator
       << formatv(R"({{"class": {{"arch": "{0}", "family": "{1}", "kernel": "{2}", "element_bits": {3}, )"
                  R"("head_dim": {4}, "value_dim": {5}, "mask": "{6}", "score": "{7}", "length": "{8}"},)",
                  stringifyArch(key.arch), stringifyScheduleFamily(key.family), stringifyKernelKind(key.kind),
                  key.elementBits, key.headDim, key.valueDim, kMasks[static_cast<int>(key.mask)],
                  kScores[static_cast<int>(key.score)], key.isShort ? "short" : "long")
       << "\n \"best\": " << toText(entry.best) << ",\n \"other\": " << toText(entry.other)
       << formatv(",\n \"device\": {0}, \"driver\": {1}, \"date\": {2}, \"cases\": {3},\n \"candidates\": [",
                  json::Value(entry.device), json::Value(entry.driver), json::Value(entry.date),
                  json::Value(entry.cases));
    StringRef inner = "\n  ";
    for (const MeasuredTile &candidate : entry.candidates) {
      os << inner << toText(candidate);
      inner = ",\n  ";
    }
    os << "]}";
    separator = ",\n";
  }
  os << "\n]\n";
}

namespace attn {
// Found by argument-dependent lookup of llvm::json.
static bool fromJSON(const json::Value &value, GpuTile &tile, json::Path path) {
  std::vector<int64_t> numbers;
  if (!fromJSON(value, numbers, path))
    return false;
  if (numbers.size() != 6) {
    path.report("expected 6 numbers");
    return false;
  }
  tile = {numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5]};
  return true;
}

static bool fromJSON(const json::Value &value, MeasuredTile &tile, json::Path path) {
  json::ObjectMapper o(value, path);
  return o && o.map("tile", tile.tile) && o.mapOptional("exact_maximum", tile.exactMaximum) &&
         o.mapOptional("registers", tile.registers) && o.mapOptional("tflops", tile.speed) &&
         o.mapOptional("spread", tile.spread) && o.mapOptional("rejected", tile.rejection);
}

/// An enumerator by its name.
template <typename T, typename Symbolize>
static bool mapName(json::ObjectMapper &o, StringLiteral name, T &result, Symbolize symbolize,
                    json::Path path) {
  std::string text;
  if (!o.map(name, text))
    return false;
  std::optional<T> found = symbolize(text);
  if (found)
    result = *found;
  else
    path.field(name).report("expected one of the names that are written");
  return found.has_value();
}

template <typename T>
static std::optional<T> findName(ArrayRef<StringLiteral> names, StringRef text) {
  const auto *found = llvm::find(names, text);
  return found == names.end() ? std::nullopt : std::optional(static_cast<T>(found - names.begin()));
}

static bool fromJSON(const json::Value &value, ScheduleClass &key, json::Path path) {
  json::ObjectMapper o(value, path);
  auto name = [&](StringLiteral field, auto &result, auto symbolize) {
    return mapName(o, field, result, symbolize, path);
  };
  auto findLength = [](StringRef text) { return findName<bool>({"long", "short"}, text); };
  return o && name("arch", key.arch, [](StringRef text) { return symbolizeArch(text); }) &&
         name("family", key.family, [](StringRef text) { return symbolizeScheduleFamily(text); }) &&
         name("kernel", key.kind, [](StringRef text) { return symbolizeKernelKind(text); }) &&
         name("mask", key.mask, [](StringRef text) { return findName<MaskClass>(kMasks, text); }) &&
         name("score", key.score, [](StringRef text) { return findName<ScoreClass>(kScores, text); }) &&
         name("length", key.isShort, findLength) && o.map("element_bits", key.elementBits) &&
         o.map("head_dim", key.headDim) && o.map("value_dim", key.valueDim);
}

static bool fromJSON(const json::Value &value, MeasuredSchedule &entry, json::Path path) {
  json::ObjectMapper o(value, path);
  return o && o.map("class", entry.key) && o.map("best", entry.best) && o.map("other", entry.other) &&
         o.map("device", entry.device) && o.map("driver", entry.driver) && o.map("date", entry.date) &&
         o.map("cases", entry.cases) && o.map("candidates", entry.candidates);
}
} // namespace attn

llvm::Expected<std::vector<MeasuredSchedule>> attn::readMeasured(StringRef text) {
  return json::parse<std::vector<MeasuredSchedule>>(text, "measured schedules");
}

ArrayRef<MeasuredSchedule> attn::getMeasuredSchedules() {
  static const std::vector<MeasuredSchedule> schedules = llvm::cantFail(readMeasured(
#include "passes/MeasuredSchedules.inc"
      ));
  return schedules;
}
