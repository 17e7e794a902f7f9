//===- MaskFormula.cpp - a mask as cases of affine inequalities -------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/MaskFormula.h"
#include "mlir/Dialect/Index/IR/IndexOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace attn;
using arith::CmpIPredicate;

/// More cases than this, in any part of the formula, are merged: each is a range that a kernel has to visit.
static constexpr size_t kMaxCases = 16;

/// An integer that minima, maxima and selects give more alternatives than this is not understood.
static constexpr unsigned kMaxAlternatives = 32;

MaskFormula::MaskFormula(OpBuilder &builder, TermTable &terms, UniformValues &uniform, FormEmitter &emitter,
                         Block &mask, bool blocksKeys)
    : builder(builder), terms(terms), uniform(uniform), emitter(emitter), mask(mask) {
  query = blocksKeys ? TermTable::streamed : TermTable::blocked;
  key = blocksKeys ? TermTable::blocked : TermTable::streamed;
}

static bool isBool(Value value) { return value.getType().isInteger(1); }

//===----------------------------------------------------------------------===//
// Cases
//===----------------------------------------------------------------------===//

/// Adds `form <= 0`; false where the case cannot hold then.
static bool addForm(Case &conjunction, const AffineForm &form) {
  for (AffineForm &other : conjunction.forms) {
    if (AffineForm sum = form + other; sum.isConstant() && sum.getConstant() > 0)
      return false;
    if (AffineForm difference = form - other; difference.isConstant()) {
      if (difference.getConstant() > 0)
        other = form;
      return true;
    }
  }
  conjunction.forms.push_back(form);
  return true;
}

static bool addGuard(Case &conjunction, const Guard &guard) {
  if (llvm::is_contained(conjunction.guards, Guard{guard.condition, !guard.whenTrue}))
    return false;
  if (!llvm::is_contained(conjunction.guards, guard))
    conjunction.guards.push_back(guard);
  return true;
}

/// Whether `lhs` holds only where `rhs` does, as far as single inequalities show.
static bool implies(const Case &lhs, const Case &rhs) {
  return llvm::all_of(rhs.guards,
                      [&](const Guard &guard) { return llvm::is_contained(lhs.guards, guard); }) &&
         llvm::all_of(rhs.forms, [&](const AffineForm &form) {
           return llvm::any_of(lhs.forms, [&](const AffineForm &other) {
             AffineForm difference = form - other;
             return difference.isConstant() && difference.getConstant() <= 0;
           });
         });
}

/// A case that holds where `lhs` or `rhs` does: what they have in common.
static Case getCover(const Case &lhs, const Case &rhs) {
  Case cover;
  for (const Guard &guard : lhs.guards)
    if (llvm::is_contained(rhs.guards, guard))
      cover.guards.push_back(guard);
  for (const AffineForm &form : lhs.forms)
    for (const AffineForm &other : rhs.forms)
      if (AffineForm difference = form - other; difference.isConstant())
        cover.forms.push_back(difference.getConstant() <= 0 ? form : other);
  return cover;
}

void MaskFormula::simplify(Cases &cases) {
  Cases kept;
  for (const Case &added : cases) {
    if (llvm::any_of(kept, [&](const Case &other) { return implies(added, other); }))
      continue;
    llvm::erase_if(kept, [&](const Case &other) { return implies(other, added); });
    kept.push_back(added);
  }
  mergedCases |= kept.size() > kMaxCases;
  while (kept.size() > kMaxCases) {
    Case last = kept.pop_back_val();
    kept.back() = getCover(kept.back(), last);
  }
  cases = std::move(kept);
}

Cases MaskFormula::disjoin(Cases lhs, const Cases &rhs) {
  llvm::append_range(lhs, rhs);
  simplify(lhs);
  return lhs;
}

Cases MaskFormula::conjoin(const Cases &lhs, const Cases &rhs) {
  Cases product;
  for (const Case &left : lhs) {
    for (const Case &right : rhs) {
      Case both = left;
      if (llvm::all_of(right.forms, [&](const AffineForm &form) { return addForm(both, form); }) &&
          llvm::all_of(right.guards, [&](const Guard &guard) { return addGuard(both, guard); }))
        product.push_back(std::move(both));
    }
  }
  simplify(product);
  return product;
}

static Cases getAlways() { return {Case()}; }

static Cases getGuard(Value condition, bool isNegated) {
  APInt constant;
  if (matchPattern(condition, m_ConstantInt(&constant)))
    return constant.isZero() == isNegated ? getAlways() : Cases();
  Case only;
  only.guards.push_back({condition, /*whenTrue=*/!isNegated});
  return {only};
}

//===----------------------------------------------------------------------===//
// Inequalities
//===----------------------------------------------------------------------===//

/// A number that, added to a symbol, adds whole numbers to all floor terms of `form`.
static Integer getPeriod(const TermTable &terms, const AffineForm &form) {
  Integer period(1);
  for (const auto &[id, coefficient] : form.getMonomials())
    if (terms[id].kind == Term::Kind::floor)
      period = lcm(period, terms[id].divisor * getPeriod(terms, terms[id].lhs));
  return period;
}

/// Symbols of any 64 bits ("no limit" is often the largest integer) are clamped to what a comparison with
/// indices can tell apart, so that nothing computed from them overflows.
AffineForm MaskFormula::clampSymbols(const AffineForm &form) {
  constexpr int64_t smallestClamp = int64_t(1) << 33, largestClamp = int64_t(1) << 56;
  auto isWide = [&](TermId id) {
    const Term &term = terms[id];
    return term.kind == Term::Kind::symbol && std::max(-term.interval.min, term.interval.max) > largestClamp;
  };
  llvm::SmallSetVector<TermId, 2> wide;
  AffineForm rest = form, wideSum;
  std::function<void(const AffineForm &, bool)> visit = [&](const AffineForm &visited, bool isTop) {
    for (const auto &[id, coefficient] : visited.getMonomials()) {
      if (isWide(id)) {
        wide.insert(id);
        if (isTop) {
          wideSum = wideSum + AffineForm::fromTerm(id, coefficient);
          rest = rest.without(id);
        }
      } else if (terms[id].kind == Term::Kind::floor) {
        visit(terms[id].lhs, /*isTop=*/false);
      }
    }
  };
  visit(form, /*isTop=*/true);
  if (wide.empty())
    return form;

  AffineForm unclamped = form;
  TermId symbol = wide.front();
  if (wide.size() > 1) {
    // Only their sum matters; the mask computes it without overflow, so index arithmetic has it right.
    if (llvm::any_of(wide, [&](TermId id) { return !(terms.replace(rest, id, AffineForm()) == rest); }))
      return form;
    constexpr int64_t min = std::numeric_limits<int64_t>::min(), max = std::numeric_limits<int64_t>::max();
    AffineForm sum = terms.getSymbol(emitter.emit(wideSum), {Integer(min), Integer(max)});
    symbol = sum.getMonomials().front().first;
    unclamped = rest + sum;
  }

  auto relax = [&](const AffineForm &relaxed) {
    return terms.relaxFloors(relaxed, [](const Term &) { return true; }).bound;
  };
  AffineForm least = relax(unclamped), most = -relax(-unclamped);
  if (least.getCoefficient(symbol) == 0) {
    // An offset of both indices, which only moves the beginning of their chunks.
    Integer period = getPeriod(terms, unclamped);
    AffineForm whole = AffineForm::fromTerm(symbol);
    Value remainder = emitter.emit(whole - terms.getFloor(whole, period) * period);
    return terms.replace(unclamped, symbol, terms.getSymbol(remainder, {Integer(0), period - 1}));
  }
  for (int64_t clamp = smallestClamp; clamp <= largestClamp; clamp *= 2) {
    auto isPositiveAt = [&](int64_t value) {
      return terms.getInterval(terms.replace(least, symbol, AffineForm::fromConstant(value))).min > 0;
    };
    auto isNotPositiveAt = [&](int64_t value) {
      return terms.getInterval(terms.replace(most, symbol, AffineForm::fromConstant(value))).max <= 0;
    };
    // The bounds are linear in the symbol: decided one way at one clamp and the other way at the other, the
    // form is decided beyond them.
    if (!(isPositiveAt(clamp) && isNotPositiveAt(-clamp)) &&
        !(isPositiveAt(-clamp) && isNotPositiveAt(clamp)))
      continue;
    AffineForm clamped =
        terms.getMinimum(terms.getMaximum(AffineForm::fromTerm(symbol), AffineForm::fromConstant(-clamp)),
                         AffineForm::fromConstant(clamp));
    return terms.replace(unclamped, symbol, clamped);
  }
  return unclamped;
}

Cases MaskFormula::getAtMostZero(const AffineForm &form) {
  Interval interval = terms.getInterval(form);
  if (interval.max <= 0)
    return getAlways();
  if (interval.min > 0)
    return {};

  if (std::optional<TermId> id = terms.findChoice(form)) {
    Term choice = terms[*id];
    Integer coefficient = form.getCoefficient(*id);
    AffineForm rest = form.without(*id);
    Cases lhs = getAtMostZero(rest + choice.lhs * coefficient);
    Cases rhs = getAtMostZero(rest + choice.rhs * coefficient);
    if (choice.kind == Term::Kind::select) {
      auto getCondition = [&](bool isNegated) {
        if (choice.value)
          return evaluateBoolean(choice.value, isNegated);
        return getAtMostZero(isNegated ? -choice.condition + 1 : choice.condition);
      };
      return disjoin(conjoin(getCondition(/*isNegated=*/false), lhs),
                     conjoin(getCondition(/*isNegated=*/true), rhs));
    }
    return (choice.kind == Term::Kind::maximum) == (coefficient > 0) ? conjoin(lhs, rhs) : disjoin(lhs, rhs);
  }

  Case only;
  only.forms.push_back(clampSymbols(form.getReduced()));
  return {only};
}

Cases MaskFormula::evaluateComparison(CmpIPredicate predicate, const AffineForm &lhs, const AffineForm &rhs) {
  switch (predicate) {
  case CmpIPredicate::eq:
    return conjoin(getAtMostZero(lhs - rhs), getAtMostZero(rhs - lhs));
  case CmpIPredicate::ne:
    return disjoin(getAtMostZero(lhs - rhs + 1), getAtMostZero(rhs - lhs + 1));
  case CmpIPredicate::sle:
    return getAtMostZero(lhs - rhs);
  case CmpIPredicate::slt:
    return getAtMostZero(lhs - rhs + 1);
  case CmpIPredicate::sge:
    return getAtMostZero(rhs - lhs);
  case CmpIPredicate::sgt:
    return getAtMostZero(rhs - lhs + 1);
  case CmpIPredicate::ugt:
    return evaluateComparison(CmpIPredicate::ult, rhs, lhs);
  case CmpIPredicate::uge:
    return evaluateComparison(CmpIPredicate::ule, rhs, lhs);
  case CmpIPredicate::ult:
  case CmpIPredicate::ule: {
    // As signed numbers where the signs agree; a negative number is larger than any other.
    Cases ordered = getAtMostZero(predicate == CmpIPredicate::ult ? lhs - rhs + 1 : lhs - rhs);
    Cases lhsNegative = getAtMostZero(lhs + 1), lhsOther = getAtMostZero(-lhs);
    Cases rhsNegative = getAtMostZero(rhs + 1);
    return disjoin(conjoin(lhsOther, disjoin(ordered, rhsNegative)),
                   conjoin(lhsNegative, conjoin(rhsNegative, ordered)));
  }
  }
  llvm_unreachable("unhandled predicate");
}

//===----------------------------------------------------------------------===//
// Integers
//===----------------------------------------------------------------------===//

namespace {
enum class BinaryKind {
  add,
  sub,
  mul,
  floorDiv,
  ceilDiv,
  signedDiv,
  unsignedDiv,
  unsignedCeilDiv,
  signedRem,
  unsignedRem,
  signedMax,
  signedMin,
  unsignedMax,
  unsignedMin,
  shiftLeft,
  signedShift,
  unsignedShift,
  bitwiseAnd
};
} // namespace

static std::optional<BinaryKind> getBinaryKind(Operation *op) {
  using Kind = std::optional<BinaryKind>;
  return llvm::TypeSwitch<Operation *, Kind>(op)
      .Case<arith::AddIOp, index::AddOp>([](auto) { return BinaryKind::add; })
      .Case<arith::SubIOp, index::SubOp>([](auto) { return BinaryKind::sub; })
      .Case<arith::MulIOp, index::MulOp>([](auto) { return BinaryKind::mul; })
      .Case<arith::FloorDivSIOp, index::FloorDivSOp>([](auto) { return BinaryKind::floorDiv; })
      .Case<arith::CeilDivSIOp, index::CeilDivSOp>([](auto) { return BinaryKind::ceilDiv; })
      .Case<arith::DivSIOp, index::DivSOp>([](auto) { return BinaryKind::signedDiv; })
      .Case<arith::DivUIOp, index::DivUOp>([](auto) { return BinaryKind::unsignedDiv; })
      .Case<arith::CeilDivUIOp, index::CeilDivUOp>([](auto) { return BinaryKind::unsignedCeilDiv; })
      .Case<arith::RemSIOp, index::RemSOp>([](auto) { return BinaryKind::signedRem; })
      .Case<arith::RemUIOp, index::RemUOp>([](auto) { return BinaryKind::unsignedRem; })
      .Case<arith::MaxSIOp, index::MaxSOp>([](auto) { return BinaryKind::signedMax; })
      .Case<arith::MinSIOp, index::MinSOp>([](auto) { return BinaryKind::signedMin; })
      .Case<arith::MaxUIOp, index::MaxUOp>([](auto) { return BinaryKind::unsignedMax; })
      .Case<arith::MinUIOp, index::MinUOp>([](auto) { return BinaryKind::unsignedMin; })
      .Case<arith::ShLIOp, index::ShlOp>([](auto) { return BinaryKind::shiftLeft; })
      .Case<arith::ShRSIOp, index::ShrSOp>([](auto) { return BinaryKind::signedShift; })
      .Case<arith::ShRUIOp, index::ShrUOp>([](auto) { return BinaryKind::unsignedShift; })
      .Case<arith::AndIOp, index::AndOp>([](auto) { return BinaryKind::bitwiseAnd; })
      .Default([](Operation *) { return std::nullopt; });
}

AffineForm MaskFormula::getSymbol(Value value) {
  Value cloned = uniform.getOrClone(value);
  APInt constant;
  if (matchPattern(cloned, m_ConstantInt(&constant)))
    return AffineForm(Integer(constant));
  IntegerValueRange range = uniform.getRange(cloned);
  if (!cloned.getType().isIndex())
    cloned = builder.createOrFold<arith::IndexCastOp>(cloned.getLoc(), builder.getIndexType(), cloned);
  return terms.getSymbol(cloned, {Integer(range.getValue().smin()), Integer(range.getValue().smax())});
}

/// Divisions of indices that a shift or a mask of low bits stands for; up to 2^31, where they end.
static std::optional<Integer> getPowerOfTwo(const AffineForm &exponent) {
  if (!exponent.isConstant() || exponent.getConstant() < 0 || exponent.getConstant() > 31)
    return std::nullopt;
  return Integer(int64_t(1) << static_cast<int64_t>(exponent.getConstant()));
}

MaskFormula::OptionalForm MaskFormula::evaluateBinary(Operation *op) {
  std::optional<BinaryKind> kind = getBinaryKind(op);
  // A symbol keeps what is uniform together, but sums are taken apart: `len - 1` in `kv <= len - 1` cancels.
  bool isLinear = kind == BinaryKind::add || kind == BinaryKind::sub || kind == BinaryKind::mul;
  if (!kind || (!isLinear && uniform.isUniform(op->getResult(0))))
    return std::nullopt;
  OptionalForm lhs = evaluateInteger(op->getOperand(0)), rhs = evaluateInteger(op->getOperand(1));
  if (!lhs || !rhs)
    return std::nullopt;

  bool isNonNegative = terms.getInterval(*lhs).min >= 0;
  bool areNonNegative = isNonNegative && terms.getInterval(*rhs).min >= 0;
  std::optional<Integer> divisor;
  if (rhs->isConstant() && rhs->getConstant() > 0)
    divisor = rhs->getConstant();
  auto divide = [&](bool isSigned) -> OptionalForm {
    if (!divisor || (!isSigned && !isNonNegative))
      return std::nullopt;
    if (isNonNegative)
      return terms.getFloor(*lhs, *divisor);
    // Towards zero.
    return terms.getSelect(-*lhs, terms.getFloor(*lhs, *divisor), terms.getCeil(*lhs, *divisor));
  };
  auto getRemainder = [&](bool isSigned) -> OptionalForm {
    OptionalForm quotient = divide(isSigned);
    remainder = true;
    return quotient ? OptionalForm(*lhs - *quotient * *divisor) : std::nullopt;
  };

  switch (*kind) {
  case BinaryKind::add:
    return *lhs + *rhs;
  case BinaryKind::sub:
    return *lhs - *rhs;
  case BinaryKind::mul:
    if (lhs->isConstant())
      return *rhs * lhs->getConstant();
    if (rhs->isConstant())
      return *lhs * rhs->getConstant();
    return std::nullopt;
  case BinaryKind::floorDiv:
    return divisor ? OptionalForm(terms.getFloor(*lhs, *divisor)) : std::nullopt;
  case BinaryKind::ceilDiv:
    return divisor ? OptionalForm(terms.getCeil(*lhs, *divisor)) : std::nullopt;
  case BinaryKind::signedDiv:
    return divide(/*isSigned=*/true);
  case BinaryKind::unsignedDiv:
    return divide(/*isSigned=*/false);
  case BinaryKind::unsignedCeilDiv:
    return divisor && isNonNegative ? OptionalForm(terms.getCeil(*lhs, *divisor)) : std::nullopt;
  case BinaryKind::signedRem:
    return getRemainder(/*isSigned=*/true);
  case BinaryKind::unsignedRem:
    return getRemainder(/*isSigned=*/false);
  case BinaryKind::signedMax:
    return terms.getMaximum(*lhs, *rhs);
  case BinaryKind::signedMin:
    return terms.getMinimum(*lhs, *rhs);
  case BinaryKind::unsignedMax:
    return areNonNegative ? OptionalForm(terms.getMaximum(*lhs, *rhs)) : std::nullopt;
  case BinaryKind::unsignedMin:
    return areNonNegative ? OptionalForm(terms.getMinimum(*lhs, *rhs)) : std::nullopt;
  case BinaryKind::shiftLeft:
    if (std::optional<Integer> power = getPowerOfTwo(*rhs))
      return *lhs * *power;
    return std::nullopt;
  case BinaryKind::signedShift:
  case BinaryKind::unsignedShift:
    if (std::optional<Integer> power = getPowerOfTwo(*rhs);
        power && (isNonNegative || kind == BinaryKind::signedShift))
      return terms.getFloor(*lhs, *power);
    return std::nullopt;
  case BinaryKind::bitwiseAnd: {
    remainder = true;
    // The low bits are the remainder of the floor division, of negative numbers too.
    const AffineForm &bits = lhs->isConstant() ? *lhs : *rhs, &value = lhs->isConstant() ? *rhs : *lhs;
    for (int64_t exponent = 0; bits.isConstant() && exponent < 31; ++exponent)
      if (Integer power(int64_t(1) << exponent); bits.getConstant() == power - 1)
        return value - terms.getFloor(value, power) * power;
    return std::nullopt;
  }
  }
  llvm_unreachable("unhandled kind");
}

MaskFormula::OptionalForm MaskFormula::evaluateChoice(Value condition, Value lhs, Value rhs) {
  OptionalForm left = evaluateInteger(lhs), right = evaluateInteger(rhs);
  if (!left || !right)
    return std::nullopt;
  return terms.getSelect(condition, *left, *right);
}

MaskFormula::OptionalForm MaskFormula::evaluateCast(Operation *op) {
  bool isUnsigned = isa<arith::ExtUIOp, arith::IndexCastUIOp, index::CastUOp>(op);
  bool isSigned = isa<arith::ExtSIOp, arith::TruncIOp, arith::IndexCastOp, index::CastSOp>(op);
  if (!isUnsigned && !isSigned)
    return std::nullopt;
  Value source = op->getOperand(0);
  if (isBool(source)) {
    if (uniform.isUniform(source))
      return std::nullopt; // a symbol
    return terms.getSelect(source, AffineForm::fromConstant(isUnsigned ? 1 : -1), AffineForm());
  }
  OptionalForm form = evaluateInteger(source);
  if (!form || (isUnsigned && terms.getInterval(*form).min < 0))
    return std::nullopt;
  return form;
}

MaskFormula::OptionalForm MaskFormula::evaluateIntegerOp(OpResult value) {
  Operation *op = value.getOwner();
  OptionalForm form;
  bool isCast = false;
  if (auto select = dyn_cast<arith::SelectOp>(op)) {
    if (!uniform.isUniform(value))
      form = evaluateChoice(select.getCondition(), select.getTrueValue(), select.getFalseValue());
  } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
    if (!uniform.isUniform(value))
      form = evaluateChoice(branch.getCondition(), branch.thenYield()->getOperand(value.getResultNumber()),
                            branch.elseYield()->getOperand(value.getResultNumber()));
  } else if (isa<math::AbsIOp>(op)) {
    OptionalForm operand;
    if (!uniform.isUniform(value))
      operand = evaluateInteger(op->getOperand(0));
    if (operand)
      form = terms.getMaximum(*operand, -*operand);
  } else {
    form = evaluateCast(op);
    isCast = form.has_value();
    if (!isCast)
      form = evaluateBinary(op);
  }
  if (!form || terms.countAlternatives(*form) > kMaxAlternatives)
    return std::nullopt;

  // A narrow type has to be proven not to wrap. Wider ones are taken not to where that could only happen for
  // lengths beyond 2^20; a hash of the positions wraps earlier, and means to.
  unsigned width = isa<IndexType>(value.getType()) ? 32 : value.getType().getIntOrFloatBitWidth();
  auto fits = [&](const Interval &interval) {
    const Integer limit(int64_t(1) << (std::min(width, 63u) - 1));
    return interval.min >= -limit && interval.max < limit;
  };
  bool mustBeProven = width < 32 || (isCast && uniform.isUniform(value));
  if (!fits(mustBeProven ? terms.getInterval(*form) : terms.getUsualInterval(*form)))
    return std::nullopt;
  return form;
}

MaskFormula::OptionalForm MaskFormula::evaluateInteger(Value value) {
  if (value == mask.getArgument(MaskArgs::query))
    return AffineForm::fromTerm(query);
  if (value == mask.getArgument(MaskArgs::key))
    return AffineForm::fromTerm(key);
  auto it = integers.find(value);
  if (it != integers.end())
    return it->second;

  OptionalForm form;
  auto result = dyn_cast<OpResult>(value);
  unsigned width = ConstantIntRanges::getStorageBitwidth(value.getType());
  if (result && width <= 64 && !isBool(value))
    form = evaluateIntegerOp(result);
  if (!form && width <= 64 && uniform.isUniform(value))
    form = getSymbol(value);
  if (!form && !unknown && result)
    unknown = result.getOwner();
  integers.insert({value, form});
  return form;
}

//===----------------------------------------------------------------------===//
// Booleans
//===----------------------------------------------------------------------===//

Cases MaskFormula::evaluateSelect(Value condition, Value lhs, Value rhs, bool isNegated) {
  return disjoin(conjoin(evaluateBoolean(condition, /*isNegated=*/false), evaluateBoolean(lhs, isNegated)),
                 conjoin(evaluateBoolean(condition, /*isNegated=*/true), evaluateBoolean(rhs, isNegated)));
}

Cases MaskFormula::evaluateXor(Value lhs, Value rhs, bool isNegated) {
  return disjoin(conjoin(evaluateBoolean(lhs, /*isNegated=*/false), evaluateBoolean(rhs, !isNegated)),
                 conjoin(evaluateBoolean(lhs, /*isNegated=*/true), evaluateBoolean(rhs, isNegated)));
}

Cases MaskFormula::evaluateBooleanOp(OpResult value, bool isNegated) {
  Operation *op = value.getOwner();
  if (isa<arith::AndIOp, arith::OrIOp>(op)) {
    Cases lhs = evaluateBoolean(op->getOperand(0), isNegated);
    Cases rhs = evaluateBoolean(op->getOperand(1), isNegated);
    return isa<arith::AndIOp>(op) != isNegated ? conjoin(lhs, rhs) : disjoin(lhs, rhs);
  }
  if (isa<arith::XOrIOp>(op))
    return evaluateXor(op->getOperand(0), op->getOperand(1), isNegated);
  if (auto select = dyn_cast<arith::SelectOp>(op))
    return evaluateSelect(select.getCondition(), select.getTrueValue(), select.getFalseValue(), isNegated);
  if (auto branch = dyn_cast<scf::IfOp>(op))
    return evaluateSelect(branch.getCondition(), branch.thenYield()->getOperand(value.getResultNumber()),
                          branch.elseYield()->getOperand(value.getResultNumber()), isNegated);

  std::optional<CmpIPredicate> predicate;
  if (auto compare = dyn_cast<arith::CmpIOp>(op))
    predicate = compare.getPredicate();
  else if (auto compare = dyn_cast<index::CmpOp>(op))
    predicate = arith::symbolizeCmpIPredicate(index::stringifyIndexCmpPredicate(compare.getPred()));
  if (predicate && isBool(op->getOperand(0)) &&
      (predicate == CmpIPredicate::eq || predicate == CmpIPredicate::ne))
    return evaluateXor(op->getOperand(0), op->getOperand(1), isNegated != (predicate == CmpIPredicate::eq));
  if (predicate && !isBool(op->getOperand(0))) {
    OptionalForm lhs = evaluateInteger(op->getOperand(0)), rhs = evaluateInteger(op->getOperand(1));
    if (lhs && rhs)
      return evaluateComparison(isNegated ? arith::invertPredicate(*predicate) : *predicate, *lhs, *rhs);
  }
  if (!unknown)
    unknown = op;
  return getAlways();
}

Cases MaskFormula::evaluateBoolean(Value value, bool isNegated) {
  if (uniform.isUniform(value))
    return getGuard(uniform.getOrClone(value), isNegated);
  auto it = (isNegated ? dropped : kept).find(value);
  if (it != (isNegated ? dropped : kept).end())
    return it->second;
  Cases cases = evaluateBooleanOp(cast<OpResult>(value), isNegated);
  (isNegated ? dropped : kept).insert({value, cases});
  return cases;
}
