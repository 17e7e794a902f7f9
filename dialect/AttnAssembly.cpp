//===- AttnAssembly.cpp - the custom syntax of the attention operations -----===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The operations with regions share one syntax:
//
//   operands captures(%x : type, …) scale(…) block_lists(%l : type) blocks(…) schedule(…)
//     score(…) {…} mask(…) {…} gradient(…) {…} ranges(…) {…} attr-dict : (operand types) -> (result types)
//
// A capture is a trailing argument of every region and is printed there under the name of the operand (the
// regions are isolated, so the name is free). A value captured again has no second name: the argument for it
// is listed, after those that every region has. It cannot be a declarative format: the captures' names must
// reach the region parser.
//
//===----------------------------------------------------------------------===//

#include "dialect/AttnDialect.h"
#include "mlir/IR/BuiltinAttributes.h"

using namespace mlir;
using namespace attn;

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

/// Names the arguments of `region`. Captures are named by the operands that they shadow, but those that
/// repeat one.
static void nameRegionArguments(Region &region, ArrayRef<StringRef> names, OpAsmSetValueNameFn setName) {
  if (region.empty())
    return;
  for (BlockArgument argument : region.getArguments())
    setName(argument, argument.getArgNumber() < names.size() ? names[argument.getArgNumber()] : "again");
}

static constexpr StringRef kScoreNames[] = {"s", "b", "h", "q_idx", "kv_idx"};
static constexpr StringRef kMaskNames[] = {"b", "h", "q_idx", "kv_idx"};
static constexpr StringRef kGradientNames[] = {"d", "s", "b", "h", "q_idx", "kv_idx"};
static constexpr StringRef kRangesNames[] = {"b", "h", "begin", "end"};

void AttentionOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getOut(), "out");
  setName(getLse(), "lse");
}

void AttentionOp::getAsmBlockArgumentNames(Region &region, OpAsmSetValueNameFn setName) {
  nameRegionArguments(region, &region == &getScore() ? ArrayRef(kScoreNames) : ArrayRef(kMaskNames), setName);
}

void AttentionBackwardOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getDQuery(), "d_query");
  setName(getDKey(), "d_key");
  setName(getDValue(), "d_value");
  for (Value gradient : getDCaptures())
    setName(gradient, "d_capture");
}

void AttentionBackwardOp::getAsmBlockArgumentNames(Region &region, OpAsmSetValueNameFn setName) {
  nameRegionArguments(region,
                      &region == &getScore()  ? ArrayRef(kScoreNames)
                      : &region == &getMask() ? ArrayRef(kMaskNames)
                                              : ArrayRef(kGradientNames),
                      setName);
}

void OnlineAttentionOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  auto getNames = [&]() -> SmallVector<StringRef> {
    switch (getKind()) {
    case KernelKind::forward:
      return {"out", "lse"};
    case KernelKind::dq:
      return {"d_query"};
    case KernelKind::dkdv:
      return {"d_key", "d_value"};
    case KernelKind::fused:
      return {"d_query", "d_key", "d_value"};
    }
    llvm_unreachable("unhandled kernel kind");
  };
  SmallVector<StringRef> names = getNames();
  for (auto [number, result] : llvm::enumerate(getResults()))
    setName(result, number < names.size() ? names[number] : "d_capture");
}

void OnlineAttentionOp::getAsmBlockArgumentNames(Region &region, OpAsmSetValueNameFn setName) {
  nameRegionArguments(region,
                      &region == &getScore()      ? ArrayRef(kScoreNames)
                      : &region == &getMask()     ? ArrayRef(kMaskNames)
                      : &region == &getGradient() ? ArrayRef(kGradientNames)
                                                  : ArrayRef(kRangesNames),
                      setName);
}

void BlockListsOp::getAsmResultNames(OpAsmSetValueNameFn setName) { setName(getLists(), "lists"); }

void BlockListsOp::getAsmBlockArgumentNames(Region &region, OpAsmSetValueNameFn setName) {
  nameRegionArguments(region, &region == &getMask() ? ArrayRef(kMaskNames) : ArrayRef(kRangesNames), setName);
}

//===----------------------------------------------------------------------===//
// The shared syntax
//===----------------------------------------------------------------------===//

namespace {
/// What was parsed between the operation's name and its types.
struct ParsedAttention {
  SmallVector<OpAsmParser::UnresolvedOperand, 8> operands;
  SmallVector<OpAsmParser::UnresolvedOperand, 4> captures;
  SmallVector<Type, 4> captureTypes;
  /// None or one.
  SmallVector<OpAsmParser::UnresolvedOperand, 1> blockLists, splits;
  SmallVector<Type, 1> blockListsTypes;
  SMLoc operandsLoc;

  /// The segments of operands behind those that are parsed first.
  int32_t numCaptures() const { return static_cast<int32_t>(captures.size()); }
  int32_t numBlockLists() const { return static_cast<int32_t>(blockLists.size()); }
};
} // namespace

/// `captures(%x : type, …)`, if it is there.
static ParseResult parseCaptures(OpAsmParser &parser, ParsedAttention &parsed) {
  if (failed(parser.parseOptionalKeyword("captures")))
    return success();
  return parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren, [&]() -> ParseResult {
    return failure(parser.parseOperand(parsed.captures.emplace_back()) ||
                   parser.parseColonType(parsed.captureTypes.emplace_back()));
  });
}

/// `block_lists(%l : type)`, if it is there.
static ParseResult parseBlockLists(OpAsmParser &parser, ParsedAttention &parsed) {
  if (failed(parser.parseOptionalKeyword("block_lists")))
    return success();
  return failure(parser.parseLParen() || parser.parseOperand(parsed.blockLists.emplace_back()) ||
                 parser.parseColonType(parsed.blockListsTypes.emplace_back()) || parser.parseRParen());
}

/// `blocks(m, n)`, if it is there.
static ParseResult parseBlocks(OpAsmParser &parser, OperationState &result) {
  if (failed(parser.parseOptionalKeyword("blocks")))
    return success();
  SmallVector<int64_t> blocks;
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren,
                                     [&] { return parser.parseInteger(blocks.emplace_back()); }))
    return failure();
  result.addAttribute("blocks", parser.getBuilder().getDenseI64ArrayAttr(blocks));
  return success();
}

/// `keyword(%s: f32, …) { … }`, if it is there. Appends a region, empty where it is not.
static ParseResult parseRegion(OpAsmParser &parser, OperationState &result, StringRef keyword,
                               const ParsedAttention &parsed) {
  Region *region = result.addRegion();
  if (failed(parser.parseOptionalKeyword(keyword)))
    return success();
  SmallVector<OpAsmParser::Argument> arguments;
  if (parser.parseArgumentList(arguments, OpAsmParser::Delimiter::Paren, /*allowType=*/true))
    return failure();
  // The last arguments of the list are for captures that repeat one.
  llvm::SmallDenseSet<std::pair<StringRef, unsigned>> seen;
  size_t numRepeated = llvm::count_if(parsed.captures, [&](const OpAsmParser::UnresolvedOperand &capture) {
    return !seen.insert({capture.name, capture.number}).second;
  });
  if (arguments.size() < numRepeated)
    return parser.emitError(parser.getCurrentLocation())
           << "expected an argument for each of the " << numRepeated << " captures that repeat one";
  SmallVector<OpAsmParser::Argument> repeated(arguments.end() - numRepeated, arguments.end());
  arguments.truncate(arguments.size() - numRepeated);
  auto next = repeated.begin();
  seen.clear();
  for (auto [capture, type] : llvm::zip_equal(parsed.captures, parsed.captureTypes)) {
    OpAsmParser::Argument argument;
    argument.ssaName = capture;
    argument.type = type;
    if (!seen.insert({capture.name, capture.number}).second) {
      argument = *next++;
      if (argument.type != type)
        return parser.emitError(argument.ssaName.location)
               << "expected an argument of type " << type << ", for the capture of " << capture.name
               << " that repeats one, got " << argument.type;
    }
    arguments.push_back(argument);
  }
  return parser.parseRegion(*region, arguments, /*enableNameShadowing=*/true);
}

/// Everything after the leading operands: captures, scale, block lists, schedule, regions, attributes.
static ParseResult parseBody(OpAsmParser &parser, OperationState &result, ParsedAttention &parsed,
                             ArrayRef<StringRef> regions, bool hasSchedule) {
  Builder &builder = parser.getBuilder();
  parsed.operandsLoc = parser.getCurrentLocation();
  if (parser.parseOperandList(parsed.operands) || parseCaptures(parser, parsed))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("scale"))) {
    double scale;
    if (parser.parseLParen() || parser.parseFloat(scale) || parser.parseRParen())
      return failure();
    result.addAttribute("scale", builder.getF64FloatAttr(scale));
  }
  if (parseBlockLists(parser, parsed) || parseBlocks(parser, result))
    return failure();
  if (hasSchedule) {
    ScheduleAttr schedule;
    if (parser.parseKeyword("schedule") || parser.parseLParen() ||
        parser.parseCustomAttributeWithFallback(schedule) || parser.parseRParen())
      return failure();
    result.addAttribute("schedule", schedule);
    if (succeeded(parser.parseOptionalKeyword("splits")) &&
        (parser.parseLParen() || parser.parseOperand(parsed.splits.emplace_back()) || parser.parseRParen()))
      return failure();
  }
  for (StringRef keyword : regions)
    if (parseRegion(parser, result, keyword, parsed))
      return failure();
  return parser.parseOptionalAttrDict(result.attributes);
}

/// `: (operand types) -> (result types)`, then resolves the operands.
static ParseResult parseTypes(OpAsmParser &parser, OperationState &result, const ParsedAttention &parsed) {
  FunctionType type;
  if (parser.parseColonType(type))
    return failure();
  result.addTypes(type.getResults());
  return failure(
      parser.resolveOperands(parsed.operands, type.getInputs(), parsed.operandsLoc, result.operands) ||
      parser.resolveOperands(parsed.captures, parsed.captureTypes, parsed.operandsLoc, result.operands) ||
      parser.resolveOperands(parsed.blockLists, parsed.blockListsTypes, parsed.operandsLoc,
                             result.operands) ||
      parser.resolveOperands(parsed.splits, parser.getBuilder().getIndexType(), result.operands));
}

static ParseResult expectOperands(OpAsmParser &parser, const ParsedAttention &parsed, ArrayRef<size_t> counts,
                                  StringRef names) {
  if (llvm::is_contained(counts, parsed.operands.size()))
    return success();
  return parser.emitError(parsed.operandsLoc)
         << "expected operands " << names << ", got " << parsed.operands.size() << " operands";
}

/// The operands that have no syntax of their own.
static OperandRange getLeadingOperands(AttentionOpInterface op) {
  auto online = dyn_cast<OnlineAttentionOp>(op.getOperation());
  size_t splits = online && online.getSplits() ? 1 : 0;
  return op->getOperands().drop_back(op.getCaptures().size() + (op.getBlockLists() ? 1 : 0) + splits);
}

static void printBody(OpAsmPrinter &p, Operation *op, ValueRange operands, ValueRange captures,
                      FloatAttr scale, Value blockLists, DenseI64ArrayAttr blocks, ScheduleAttr schedule,
                      Value splits, ArrayRef<std::pair<StringRef, Region *>> regions,
                      ArrayRef<StringRef> elidedAttrs) {
  p << ' ';
  p.printOperands(operands);
  if (!captures.empty()) {
    p << " captures(";
    llvm::interleaveComma(captures, p, [&](Value capture) { p << capture << " : " << capture.getType(); });
    p << ')';
  }
  if (scale) {
    p << " scale(";
    p.printAttributeWithoutType(scale);
    p << ')';
  }
  if (blockLists)
    p << " block_lists(" << blockLists << " : " << blockLists.getType() << ')';
  if (blocks)
    p << " blocks(" << blocks.asArrayRef() << ')';
  if (schedule) {
    p << " schedule(";
    p.printStrippedAttrOrType(schedule);
    p << ')';
  }
  if (splits)
    p << " splits(" << splits << ')';
  for (auto [keyword, region] : regions) {
    if (region->empty())
      continue;
    size_t numFixed = region->getNumArguments() - captures.size();
    SmallVector<Value> shadowed(numFixed, Value());
    SmallVector<BlockArgument> listed(region->getArguments().take_front(numFixed));
    llvm::SmallDenseSet<Value> seen;
    for (auto [capture, argument] : llvm::zip_equal(captures, region->getArguments().drop_front(numFixed))) {
      bool isFirst = seen.insert(capture).second;
      shadowed.push_back(isFirst ? capture : Value());
      if (!isFirst)
        listed.push_back(argument);
    }
    p.shadowRegionArgs(*region, shadowed);
    p << ' ' << keyword << '(';
    llvm::interleaveComma(listed, p, [&](BlockArgument argument) { p.printRegionArgument(argument); });
    p << ") ";
    p.printRegion(*region, /*printEntryBlockArgs=*/false);
  }
  p.printOptionalAttrDict(op->getAttrs(), elidedAttrs);
  p << " : ";
  p.printFunctionalType(operands.getTypes(), op->getResultTypes());
}

//===----------------------------------------------------------------------===//
// The operations
//===----------------------------------------------------------------------===//

ParseResult AttentionOp::parse(OpAsmParser &parser, OperationState &result) {
  ParsedAttention parsed;
  if (parseBody(parser, result, parsed, {"score", "mask"}, /*hasSchedule=*/false) ||
      expectOperands(parser, parsed, {3}, "query, key, value"))
    return failure();
  result.addAttribute(
      getOperandSegmentSizeAttr(),
      parser.getBuilder().getDenseI32ArrayAttr({1, 1, 1, parsed.numCaptures(), parsed.numBlockLists()}));
  return parseTypes(parser, result, parsed);
}

void AttentionOp::print(OpAsmPrinter &p) {
  printBody(p, *this, getLeadingOperands(*this), getCaptures(), getScaleAttr(), getBlockLists(),
            getBlocksAttr(), {}, {}, {{"score", &getScore()}, {"mask", &getMask()}},
            {"scale", "blocks", getOperandSegmentSizeAttr()});
}

ParseResult AttentionBackwardOp::parse(OpAsmParser &parser, OperationState &result) {
  ParsedAttention parsed;
  if (parseBody(parser, result, parsed, {"score", "mask", "gradient"}, /*hasSchedule=*/false) ||
      expectOperands(parser, parsed, {6, 7}, "query, key, value, out, lse, d_out and optionally d_lse"))
    return failure();
  bool hasDLse = parsed.operands.size() == 7;
  result.addAttribute(getOperandSegmentSizeAttr(),
                      parser.getBuilder().getDenseI32ArrayAttr(
                          {1, 1, 1, 1, 1, 1, hasDLse, parsed.numCaptures(), parsed.numBlockLists()}));
  return parseTypes(parser, result, parsed);
}

void AttentionBackwardOp::print(OpAsmPrinter &p) {
  printBody(p, *this, getLeadingOperands(*this), getCaptures(), getScaleAttr(), getBlockLists(),
            getBlocksAttr(), {}, {},
            {{"score", &getScore()}, {"mask", &getMask()}, {"gradient", &getGradient()}},
            {"scale", "blocks", getOperandSegmentSizeAttr()});
}

ParseResult OnlineAttentionOp::parse(OpAsmParser &parser, OperationState &result) {
  ParsedAttention parsed;
  StringRef keyword;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&keyword))
    return failure();
  std::optional<KernelKind> kind = symbolizeKernelKind(keyword);
  if (!kind)
    return parser.emitError(loc) << "expected forward, dq or dkdv, got '" << keyword << "'";
  result.addAttribute("kind", KernelKindAttr::get(parser.getContext(), *kind));
  if (parseBody(parser, result, parsed, {"score", "mask", "gradient", "ranges"}, /*hasSchedule=*/true) ||
      expectOperands(parser, parsed, {3, 6}, "query, key, value and for a gradient lse, delta, d_out"))
    return failure();
  int32_t hasGradients = parsed.operands.size() == 6;
  result.addAttribute(getOperandSegmentSizeAttr(),
                      parser.getBuilder().getDenseI32ArrayAttr(
                          {1, 1, 1, hasGradients, hasGradients, hasGradients, parsed.numCaptures(),
                           parsed.numBlockLists(), static_cast<int32_t>(parsed.splits.size())}));
  return parseTypes(parser, result, parsed);
}

void OnlineAttentionOp::print(OpAsmPrinter &p) {
  p << ' ' << stringifyKernelKind(getKind());
  printBody(
      p, *this, getLeadingOperands(*this), getCaptures(), getScaleAttr(), getBlockLists(), getBlocksAttr(),
      getSchedule(), getSplits(),
      {{"score", &getScore()}, {"mask", &getMask()}, {"gradient", &getGradient()}, {"ranges", &getRanges()}},
      {"kind", "scale", "blocks", "schedule", getOperandSegmentSizeAttr()});
}

ParseResult BlockListsOp::parse(OpAsmParser &parser, OperationState &result) {
  ParsedAttention parsed;
  parsed.operandsLoc = parser.getCurrentLocation();
  if (parser.parseOperandList(parsed.operands) || parseCaptures(parser, parsed) ||
      parseBlocks(parser, result) || parseRegion(parser, result, "mask", parsed) ||
      parseRegion(parser, result, "ranges", parsed) || parser.parseOptionalAttrDict(result.attributes))
    return failure();
  return failure(expectOperands(parser, parsed, {2}, "query, key") || parseTypes(parser, result, parsed));
}

void BlockListsOp::print(OpAsmPrinter &p) {
  printBody(p, *this, {getQuery(), getKey()}, getCaptures(), {}, {}, getBlocksAttr(), {}, {},
            {{"mask", &getMask()}, {"ranges", &getRanges()}}, {"blocks"});
}

//===----------------------------------------------------------------------===//
// attn.merge: `(%out, %lse), …`, and the type of every part once
//===----------------------------------------------------------------------===//

using UnresolvedOperands = SmallVectorImpl<OpAsmParser::UnresolvedOperand>;

static ParseResult parseParts(OpAsmParser &parser, UnresolvedOperands &outs, UnresolvedOperands &lses) {
  return parser.parseCommaSeparatedList([&]() -> ParseResult {
    return failure(parser.parseLParen() || parser.parseOperand(outs.emplace_back()) || parser.parseComma() ||
                   parser.parseOperand(lses.emplace_back()) || parser.parseRParen());
  });
}

static void printParts(OpAsmPrinter &p, Operation *, OperandRange outs, OperandRange lses) {
  llvm::interleaveComma(llvm::zip(outs, lses), p, [&](auto part) {
    p << '(' << std::get<0>(part) << ", " << std::get<1>(part) << ')';
  });
}

static ParseResult parsePartTypes(OpAsmParser &parser, const UnresolvedOperands &outs,
                                  SmallVectorImpl<Type> &outTypes, SmallVectorImpl<Type> &lseTypes) {
  Type out, lse;
  if (parser.parseType(out) || parser.parseComma() || parser.parseType(lse))
    return failure();
  outTypes.assign(outs.size(), out);
  lseTypes.assign(outs.size(), lse);
  return success();
}

static void printPartTypes(OpAsmPrinter &p, Operation *, OperandRange, TypeRange outTypes,
                           TypeRange lseTypes) {
  p << outTypes.front() << ", " << lseTypes.front();
}

//===----------------------------------------------------------------------===//
// attn.yield_ranges: `(%begin to %end, …)`
//===----------------------------------------------------------------------===//

static ParseResult parseRanges(OpAsmParser &parser, SmallVectorImpl<OpAsmParser::UnresolvedOperand> &begins,
                               SmallVectorImpl<OpAsmParser::UnresolvedOperand> &ends) {
  return parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren, [&]() -> ParseResult {
    return failure(parser.parseOperand(begins.emplace_back()) || parser.parseKeyword("to") ||
                   parser.parseOperand(ends.emplace_back()));
  });
}

static void printRanges(OpAsmPrinter &p, Operation *, OperandRange begins, OperandRange ends) {
  p << '(';
  llvm::interleaveComma(llvm::zip(begins, ends), p,
                        [&](auto range) { p << std::get<0>(range) << " to " << std::get<1>(range); });
  p << ')';
}

#define GET_OP_CLASSES
#include "dialect/AttnOps.cpp.inc"
