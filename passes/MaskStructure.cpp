//===- MaskStructure.cpp - the blocks that a mask leaves empty or full ------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The mask becomes cases of affine inequalities (MaskFormula); of each case it is solved which streamed
// indices some pair of the block satisfies it at (RangeSolver). The visited ranges are those of the mask, the
// masked ranges those of its negation: a block that no dropped pair lies in is full, also where several cases
// of an `or` cover it only together.
//
//===----------------------------------------------------------------------===//

#include "passes/MaskStructure.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/RangeSolver.h"

using namespace mlir;
using namespace attn;

/// As many ranges of a mask are told apart: a kernel has to test each for every block.
static constexpr size_t kMaxRanges = 256;

static Block &createRangesBlock(OpBuilder &builder, Location loc, Region &mask, Region &ranges) {
  assert(ranges.empty() && "a ranges region that is built already");
  SmallVector<Type> types(RangesArgs::numFixed, builder.getIndexType());
  llvm::append_range(types, TypeRange(mask.getArgumentTypes()).drop_front(MaskArgs::numFixed));
  SmallVector<Location> locs(types.size(), loc);
  return *builder.createBlock(&ranges, ranges.end(), types, locs);
}

/// Whether `lhs` lies in `rhs`, whatever the block.
static bool isWithin(const TermTable &terms, const StreamedRange &lhs, const StreamedRange &rhs) {
  auto areImplied = [&](ArrayRef<AffineForm> bounds, ArrayRef<AffineForm> by, auto isImplied) {
    return llvm::all_of(bounds, [&](const AffineForm &bound) {
      return llvm::any_of(by, [&](const AffineForm &other) { return isImplied(bound, other); });
    });
  };
  return areImplied(rhs.lower, lhs.lower,
                    [&](const AffineForm &bound, const AffineForm &other) {
                      return terms.isNeverPositive(bound - other);
                    }) &&
         areImplied(rhs.upper, lhs.upper,
                    [&](const AffineForm &bound, const AffineForm &other) {
                      return terms.isNeverPositive(other - bound);
                    }) &&
         areImplied(rhs.guardForms, lhs.guardForms,
                    [&](const AffineForm &bound, const AffineForm &other) {
                      return terms.isNeverPositive(bound - other);
                    }) &&
         llvm::all_of(rhs.guards, [&](const Guard &guard) { return llvm::is_contained(lhs.guards, guard); });
}

namespace {
/// Begins and ends of half-open ranges.
struct EmittedRanges {
  SmallVector<Value> begins, ends;
};

class RangesBuilder {
public:
  RangesBuilder(OpBuilder &builder, Location loc, Block &mask, Block &ranges, bool blocksKeys,
                BlockSizes sizes);
  MaskStructure build();

private:
  MaskStructure describe() const;
  EmittedRanges emitRanges(const Cases &cases);
  void emitRange(const StreamedRange &range, EmittedRanges &emitted);
  AffineForm getSymbol(Value value);

  OpBuilder &builder;
  Location loc;
  Block &ranges;
  TermTable terms;
  UniformValues uniform;
  FormEmitter emitter;
  MaskFormula formula;
  AffineForm length;
  std::optional<RangeSolver> solver;
};
} // namespace

AffineForm RangesBuilder::getSymbol(Value value) {
  ConstantIntRanges range = uniform.getRange(value).getValue();
  return terms.getSymbol(value, {Integer(range.smin()), Integer(range.smax())});
}

RangesBuilder::RangesBuilder(OpBuilder &builder, Location loc, Block &mask, Block &ranges, bool blocksKeys,
                             BlockSizes sizes)
    : builder(builder), loc(loc), ranges(ranges), uniform(builder, mask, ranges),
      emitter(builder, loc, terms), formula(builder, terms, uniform, emitter, mask, blocksKeys) {
  AffineForm begin = getSymbol(ranges.getArgument(RangesArgs::begin));
  AffineForm end = getSymbol(ranges.getArgument(RangesArgs::end));
  AffineForm blockedLength = getSymbol(blocksKeys ? uniform.getKeyLength() : uniform.getQueryLength());
  length = getSymbol(blocksKeys ? uniform.getQueryLength() : uniform.getKeyLength());
  terms.addFact(end - begin - sizes.blocked);
  terms.addFact(begin - end + 1);
  terms.addFact(end - blockedLength);
  terms.addFact(begin - blockedLength + 1);
  solver.emplace(terms, emitter, begin, end, length, sizes.streamed);
}

void RangesBuilder::emitRange(const StreamedRange &range, EmittedRanges &emitted) {
  Value begin, end;
  for (const AffineForm &lower : range.lower) {
    Value bound = emitter.emit(lower);
    begin = begin ? builder.createOrFold<arith::MaxSIOp>(loc, begin, bound) : bound;
  }
  for (const AffineForm &upper : range.upper) {
    Value bound = emitter.emit(upper + 1);
    end = end ? builder.createOrFold<arith::MinSIOp>(loc, end, bound) : bound;
  }
  if (!begin)
    begin = emitter.emitConstant(0);
  if (!end)
    end = emitter.emit(length);
  // A range that ends at 0 is empty, wherever it begins.
  for (const AffineForm &form : range.guardForms)
    end = builder.createOrFold<arith::SelectOp>(loc, emitter.emitAtMostZero(form), end,
                                                emitter.emitConstant(0));
  for (const Guard &guard : range.guards) {
    Value zero = emitter.emitConstant(0);
    end = guard.whenTrue ? builder.createOrFold<arith::SelectOp>(loc, guard.condition, end, zero)
                         : builder.createOrFold<arith::SelectOp>(loc, guard.condition, zero, end);
  }
  emitted.begins.push_back(begin);
  emitted.ends.push_back(end);
}

EmittedRanges RangesBuilder::emitRanges(const Cases &cases) {
  SmallVector<StreamedRange, 0> solved;
  for (const Case &one : cases)
    llvm::append_range(solved, solver->solve(one, kMaxRanges - std::min(kMaxRanges, solved.size())));

  EmittedRanges emitted;
  for (auto [position, range] : llvm::enumerate(solved)) {
    bool isRedundant = false;
    for (auto [otherPosition, other] : llvm::enumerate(solved))
      isRedundant |= otherPosition != position && isWithin(terms, range, other) &&
                     (otherPosition < position || !isWithin(terms, other, range));
    if (!isRedundant)
      emitRange(range, emitted);
  }
  return emitted;
}

MaskStructure RangesBuilder::describe() const {
  MaskStructure structure;
  llvm::raw_string_ostream reason(structure.reason);
  structure.unknown = formula.getUnknown();
  if (structure.unknown)
    reason << "'" << structure.unknown->getName() << "' depends on the indices in a way that is not affine";
  else if (formula.hasMergedCases())
    reason << "the mask has too many cases";
  else if (!solver->isExact())
    reason << (formula.hasRemainder() ? "a remainder leaves gaps in a range"
                                      : "the mask has too many ranges");
  structure.isExact = structure.reason.empty();
  structure.exceedsLimits = formula.hasMergedCases() || (!solver->isExact() && !formula.hasRemainder());
  return structure;
}

MaskStructure RangesBuilder::build() {
  EmittedRanges visited = emitRanges(formula.getKept());
  EmittedRanges masked = emitRanges(formula.getDropped());
  MaskStructure structure = describe();
  YieldRangesOp::create(builder, loc, visited.begins, visited.ends, masked.begins, masked.ends,
                        /*inexact=*/!structure.isExact);
  for (Operation &dead : llvm::make_early_inc_range(llvm::reverse(ranges)))
    if (isOpTriviallyDead(&dead))
      dead.erase();
  auto isConstant = [](Operation &op) { return op.hasTrait<OpTrait::ConstantLike>(); };
  Operation &first = *llvm::find_if_not(ranges, isConstant);
  for (Operation &constant : llvm::make_early_inc_range(llvm::make_filter_range(ranges, isConstant)))
    constant.moveBefore(&first);
  return structure;
}

MaskStructure attn::buildRanges(OpBuilder &builder, Location loc, Region &mask, Region &ranges,
                                bool blocksKeys, BlockSizes sizes) {
  OpBuilder::InsertionGuard guard(builder);
  Block &block = createRangesBlock(builder, loc, mask, ranges);
  return RangesBuilder(builder, loc, mask.front(), block, blocksKeys, sizes).build();
}
