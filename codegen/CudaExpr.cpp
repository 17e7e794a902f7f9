//===- CudaExpr.cpp - scalar operations as C++ expressions ------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Integers are signed in C++, where overflow is undefined: an operation that may wrap, or that is unsigned,
// is a function of codegen/device/attn/scalar.cuh.
//
//===----------------------------------------------------------------------===//

#include "codegen/CudaExpr.h"
#include "codegen/CudaTypes.h"
#include "dialect/AttnTileDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace attn;
using namespace attn::cuda;

//===----------------------------------------------------------------------===//
// Pieces
//===----------------------------------------------------------------------===//

static std::string parenthesize(const CudaExpr &expr, bool needed) {
  return needed ? "(" + expr.text + ")" : expr.text;
}

/// Operators whose relative precedence nobody remembers.
static bool isConfusing(Precedence outer, Precedence inner) {
  if (inner >= Precedence::Unary)
    return false;
  switch (outer) {
  case Precedence::BitOr:
  case Precedence::BitXor:
  case Precedence::BitAnd:
  case Precedence::Shift:
    return inner != outer;
  case Precedence::LogicalOr:
    return inner == Precedence::LogicalAnd;
  case Precedence::Equality:
    return inner == Precedence::Relational;
  default:
    return false;
  }
}

CudaExpr cuda::makeBinary(StringRef op, Precedence precedence, const CudaExpr &left, const CudaExpr &right) {
  bool guardLeft = left.precedence < precedence || isConfusing(precedence, left.precedence);
  bool guardRight = right.precedence <= precedence || isConfusing(precedence, right.precedence);
  // (a == b) == c and (a < b) < c read as something else.
  if (precedence == Precedence::Equality || precedence == Precedence::Relational)
    guardLeft |= left.precedence == precedence;
  // && and || group as they are written, either way.
  if (precedence == Precedence::LogicalAnd || precedence == Precedence::LogicalOr)
    guardRight = right.precedence < precedence || isConfusing(precedence, right.precedence);
  return {parenthesize(left, guardLeft) + " " + op.str() + " " + parenthesize(right, guardRight), precedence};
}

CudaExpr cuda::makeUnary(StringRef op, const CudaExpr &operand) {
  return {op.str() + parenthesize(operand, operand.precedence <= Precedence::Unary), Precedence::Unary};
}

CudaExpr cuda::makeConditional(const CudaExpr &condition, const CudaExpr &onTrue, const CudaExpr &onFalse) {
  auto part = [](const CudaExpr &expr) {
    return parenthesize(expr, expr.precedence == Precedence::Conditional);
  };
  return {part(condition) + " ? " + part(onTrue) + " : " + part(onFalse), Precedence::Conditional};
}

CudaExpr cuda::makeCall(const Twine &function, ArrayRef<CudaExpr> arguments) {
  std::string text = function.str() + "(";
  llvm::ListSeparator comma;
  for (const CudaExpr &argument : arguments)
    text += (StringRef(comma) + argument.text).str();
  return {text + ")"};
}

CudaExpr cuda::makeRounded(Type type, CudaExpr value) {
  return type.isBF16() || type.isF16() ? makeCall(getScalarType(type), {value}) : value;
}

//===----------------------------------------------------------------------===//
// Literals
//===----------------------------------------------------------------------===//

/// The shortest decimal that reads back as the same number; a hexadecimal one where the number is subnormal,
/// which compilers warn of.
static std::string printFinite(const APFloat &value) {
  if (value.isDenormal()) {
    char buffer[64];
    unsigned length =
        value.convertToHexString(buffer, /*hexDigits=*/0, /*upperCase=*/false, APFloat::rmNearestTiesToEven);
    return std::string(buffer, length);
  }
  std::string lower;
  for (unsigned digits = 1; digits <= 17; ++digits) { // 17 tell all numbers of f64 apart
    SmallString<32> text;
    value.toString(text, digits, /*FormatMaxPadding=*/6, /*TruncateZero=*/true);
    lower = StringRef(text).lower();
    if (APFloat(value.getSemantics(), lower).bitwiseIsEqual(value))
      break;
  }
  if (lower.find_first_of(".e") == std::string::npos)
    lower += ".0";
  return lower;
}

CudaExpr cuda::makeLiteral(const APFloat &value, Type type) {
  if (value.isNaN()) {
    std::string bits = "0x" + llvm::utohexstr(value.bitcastToAPInt().getZExtValue(), /*LowerCase=*/true);
    if (type.isF64())
      return makeCall("bit_cast<double>", {{bits + "ll"}});
    if (type.isF32())
      return makeCall("bit_cast<float>", {{"int(" + bits + ")"}});
    return makeCall("bit_cast<" + getScalarType(type) + ">", {{"int16(" + bits + ")"}});
  }
  CudaExpr literal;
  if (value.isInfinity()) {
    literal = {"kInfinity"};
  } else {
    // 16-bit numbers are floats exactly.
    APFloat printed = value;
    bool losesInfo;
    if (!type.isF64())
      printed.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven, &losesInfo);
    if (printed.isNegative())
      printed.changeSign();
    literal = {printFinite(printed) + (type.isF64() ? "" : "f")};
  }
  if (value.isNegative())
    literal = makeUnary("-", literal);
  return makeRounded(type, literal);
}

CudaExpr cuda::makeLiteral(const APInt &value, Type type) {
  unsigned width = getIntegerWidth(type);
  APInt number = value.sextOrTrunc(width);
  if (width == 1)
    return {number.isZero() ? "false" : "true"};
  std::string suffix = width == 64 ? "ll" : "";
  CudaExpr literal;
  if (number.isMinSignedValue() && width >= 32) // the literal without its sign would be too large
    literal = makeBinary("-", Precedence::Additive,
                         {"-" + llvm::toString(APInt::getSignedMaxValue(width), 10, true) + suffix}, {"1"});
  else
    literal = {llvm::toString(number, 10, /*Signed=*/true) + suffix,
               number.isNegative() ? Precedence::Unary : Precedence::Primary};
  return width < 32 ? makeCall(getScalarType(type), {literal}) : literal;
}

//===----------------------------------------------------------------------===//
// Integer arithmetic
//===----------------------------------------------------------------------===//

static bool isBool(Type type) { return type.isInteger(1); }

/// C++ computes with smaller integers as int.
static CudaExpr makeNarrow(Type type, CudaExpr value) {
  return getIntegerWidth(type) < 32 ? makeCall(getScalarType(type), {value}) : value;
}

static bool hasNoSignedWrap(Operation *op) {
  auto flags = dyn_cast<arith::ArithIntegerOverflowFlagsInterface>(op);
  return flags && flags.hasNoSignedWrap();
}

static CudaExpr buildWrapping(Operation *op, StringRef symbol, Precedence precedence, StringRef function,
                              ArrayRef<CudaExpr> operands) {
  Type type = op->getResult(0).getType();
  // One bit: addition and subtraction are exclusive or.
  if (isBool(type))
    return symbol == "*" ? makeBinary("&&", Precedence::LogicalAnd, operands[0], operands[1])
                         : makeBinary("!=", Precedence::Equality, operands[0], operands[1]);
  if (hasNoSignedWrap(op))
    return makeNarrow(type, makeBinary(symbol, precedence, operands[0], operands[1]));
  return makeCall(function, operands);
}

/// Whether the divisor is known not to be 0 or -1, a constant or the greater of one and something else: then
/// C++ divides like MLIR.
static bool isPlainDivisor(Value divisor) {
  APInt value;
  if (auto greater = divisor.getDefiningOp<arith::MaxSIOp>())
    return matchPattern(greater.getRhs(), m_ConstantInt(&value)) && value.isStrictlyPositive();
  return matchPattern(divisor, m_ConstantInt(&value)) && !value.isZero() && !value.isAllOnes();
}

static CudaExpr buildSignedDivision(Operation *op, StringRef symbol, StringRef function,
                                    ArrayRef<CudaExpr> operands) {
  if (isPlainDivisor(op->getOperand(1)))
    return makeNarrow(op->getResult(0).getType(),
                      makeBinary(symbol, Precedence::Multiplicative, operands[0], operands[1]));
  return makeCall(function, operands);
}

static CudaExpr buildBitwise(Operation *op, StringRef symbol, Precedence precedence, StringRef boolSymbol,
                             Precedence boolPrecedence, ArrayRef<CudaExpr> operands) {
  Type type = op->getResult(0).getType();
  if (!isBool(type))
    return makeNarrow(type, makeBinary(symbol, precedence, operands[0], operands[1]));
  if (boolSymbol == "!=" && operands[1].text == "true")
    return makeUnary("!", operands[0]);
  return makeBinary(boolSymbol, boolPrecedence, operands[0], operands[1]);
}

static CudaExpr makeUnsigned(Type type, const CudaExpr &operand) {
  static const char *const names[] = {"uint8", "uint16", "uint32", "uint64"};
  return makeCall(names[llvm::Log2_32(getIntegerWidth(type)) - 3], {operand});
}

static CudaExpr buildCompare(arith::CmpIOp op, ArrayRef<CudaExpr> operands) {
  Type type = op.getLhs().getType();
  auto compare = [&](StringRef symbol, bool isUnsigned = false,
                     Precedence precedence = Precedence::Relational) {
    CudaExpr left = operands[0], right = operands[1];
    if (isUnsigned && !isBool(type)) {
      left = makeUnsigned(type, left);
      right = makeUnsigned(type, right);
    }
    // A signed true is -1.
    if (!isUnsigned && isBool(type))
      std::swap(left, right);
    return makeBinary(symbol, precedence, left, right);
  };
  switch (op.getPredicate()) {
  case arith::CmpIPredicate::eq:
    return makeBinary("==", Precedence::Equality, operands[0], operands[1]);
  case arith::CmpIPredicate::ne:
    return makeBinary("!=", Precedence::Equality, operands[0], operands[1]);
  case arith::CmpIPredicate::slt:
    return compare("<");
  case arith::CmpIPredicate::sle:
    return compare("<=");
  case arith::CmpIPredicate::sgt:
    return compare(">");
  case arith::CmpIPredicate::sge:
    return compare(">=");
  case arith::CmpIPredicate::ult:
    return compare("<", true);
  case arith::CmpIPredicate::ule:
    return compare("<=", true);
  case arith::CmpIPredicate::ugt:
    return compare(">", true);
  case arith::CmpIPredicate::uge:
    return compare(">=", true);
  }
  llvm_unreachable("unknown predicate");
}

//===----------------------------------------------------------------------===//
// Float arithmetic
//===----------------------------------------------------------------------===//

static CudaExpr buildCompare(arith::CmpFOp op, ArrayRef<CudaExpr> operands) {
  auto compare = [&](StringRef symbol, Precedence precedence = Precedence::Relational) {
    return makeBinary(symbol, precedence, operands[0], operands[1]);
  };
  switch (op.getPredicate()) {
  case arith::CmpFPredicate::AlwaysFalse:
    return {"false"};
  case arith::CmpFPredicate::AlwaysTrue:
    return {"true"};
  case arith::CmpFPredicate::OEQ:
    return compare("==", Precedence::Equality);
  case arith::CmpFPredicate::OGT:
    return compare(">");
  case arith::CmpFPredicate::OGE:
    return compare(">=");
  case arith::CmpFPredicate::OLT:
    return compare("<");
  case arith::CmpFPredicate::OLE:
    return compare("<=");
  case arith::CmpFPredicate::ONE:
    return makeCall("is_less_or_greater", operands);
  case arith::CmpFPredicate::ORD:
    return makeCall("is_ordered", operands);
  // The unordered ones are true where their ordered opposite is false.
  case arith::CmpFPredicate::UEQ:
    return makeUnary("!", makeCall("is_less_or_greater", operands));
  case arith::CmpFPredicate::UGT:
    return makeUnary("!", compare("<="));
  case arith::CmpFPredicate::UGE:
    return makeUnary("!", compare("<"));
  case arith::CmpFPredicate::ULT:
    return makeUnary("!", compare(">="));
  case arith::CmpFPredicate::ULE:
    return makeUnary("!", compare(">"));
  case arith::CmpFPredicate::UNE:
    return compare("!=", Precedence::Equality);
  case arith::CmpFPredicate::UNO:
    return makeUnary("!", makeCall("is_ordered", operands));
  }
  llvm_unreachable("unknown predicate");
}

//===----------------------------------------------------------------------===//
// Conversions
//===----------------------------------------------------------------------===//

static CudaExpr convertInteger(Type from, Type to, const CudaExpr &operand, bool isUnsigned) {
  unsigned fromWidth = getIntegerWidth(from), toWidth = getIntegerWidth(to);
  if (fromWidth == toWidth)
    return operand;
  std::string name = getScalarType(to);
  if (toWidth == 1) // the lowest bit
    return makeBinary(
        "!=", Precedence::Equality,
        {parenthesize(operand, operand.precedence <= Precedence::BitAnd) + " & 1", Precedence::BitAnd},
        {"0"});
  if (fromWidth == 1 && !isUnsigned) // a signed true is -1
    return makeCall(name, {makeUnary("-", makeCall("int", {operand}))});
  if (fromWidth > 1 && fromWidth < toWidth && isUnsigned)
    return makeCall(name, {makeUnsigned(from, operand)});
  return makeCall(name, {operand});
}

static CudaExpr convertToFloat(Type from, Type to, CudaExpr operand, bool isUnsigned) {
  if (isBool(from))
    operand = isUnsigned ? operand : makeUnary("-", makeCall("int", {operand}));
  else if (isUnsigned)
    operand = makeUnsigned(from, operand);
  if (to.isF32() || to.isF64())
    return makeCall(getScalarType(to), {operand});
  // By way of double, which holds 32 bits exactly.
  if (getIntegerWidth(from) <= 32)
    return makeCall("round_to<" + getScalarType(to) + ">", {makeCall("double", {operand})});
  return makeCall("round_integer_to<" + getScalarType(to) + ">", {operand});
}

static CudaExpr convertFloat(Type from, Type to, const CudaExpr &operand) {
  if (from == to)
    return operand;
  std::string name = getScalarType(to);
  if (from.isF64() && to.getIntOrFloatBitWidth() == 16)
    return makeCall("round_to<" + name + ">", {operand});
  if (from.getIntOrFloatBitWidth() == 16 && !to.isF32())
    return makeCall(name, {makeCall("float", {operand})});
  return makeCall(name, {operand});
}

//===----------------------------------------------------------------------===//
// All of it
//===----------------------------------------------------------------------===//

static std::optional<CudaExpr> buildArithExpr(Operation *op, ArrayRef<CudaExpr> operands) {
  Type type = op->getResult(0).getType();
  Type from = op->getNumOperands() ? op->getOperand(0).getType() : type;
  auto arithmetic = [&](StringRef symbol, Precedence precedence) {
    return makeRounded(type, makeBinary(symbol, precedence, operands[0], operands[1]));
  };
  auto call = [&](StringRef function) { return makeCall(function, operands); };
  auto asFloat = [&](const Twine &function) {
    return makeRounded(type, makeCall(function + (type.isF64() ? "" : "f"), operands));
  };
  return llvm::TypeSwitch<Operation *, std::optional<CudaExpr>>(op)
      .Case([&](arith::ConstantOp constant) -> std::optional<CudaExpr> {
        if (auto value = dyn_cast<FloatAttr>(constant.getValue()))
          return makeLiteral(value.getValue(), type);
        if (auto value = dyn_cast<IntegerAttr>(constant.getValue()))
          return makeLiteral(value.getValue(), type);
        return std::nullopt;
      })
      // Integers
      .Case([&](arith::AddIOp) { return buildWrapping(op, "+", Precedence::Additive, "wrap_add", operands); })
      .Case([&](arith::SubIOp) { return buildWrapping(op, "-", Precedence::Additive, "wrap_sub", operands); })
      .Case([&](arith::MulIOp) {
        return buildWrapping(op, "*", Precedence::Multiplicative, "wrap_mul", operands);
      })
      .Case([&](arith::AndIOp) {
        return buildBitwise(op, "&", Precedence::BitAnd, "&&", Precedence::LogicalAnd, operands);
      })
      .Case([&](arith::OrIOp) {
        return buildBitwise(op, "|", Precedence::BitOr, "||", Precedence::LogicalOr, operands);
      })
      .Case([&](arith::XOrIOp) {
        return buildBitwise(op, "^", Precedence::BitXor, "!=", Precedence::Equality, operands);
      })
      .Case([&](arith::CmpIOp compare) { return buildCompare(compare, operands); })
      .Case([&](arith::SelectOp) { return makeConditional(operands[0], operands[1], operands[2]); })
      .Case<arith::ExtSIOp, arith::TruncIOp, arith::IndexCastOp>(
          [&](auto) { return convertInteger(from, type, operands[0], /*isUnsigned=*/false); })
      .Case<arith::ExtUIOp, arith::IndexCastUIOp>(
          [&](auto) { return convertInteger(from, type, operands[0], /*isUnsigned=*/true); })
      .Case([&](arith::DivSIOp) -> std::optional<CudaExpr> {
        if (isBool(type))
          return std::nullopt;
        return buildSignedDivision(op, "/", "divide", operands);
      })
      .Case([&](arith::RemSIOp) -> std::optional<CudaExpr> {
        if (isBool(type))
          return std::nullopt;
        return buildSignedDivision(op, "%", "modulo", operands);
      })
      .Case<arith::DivUIOp, arith::RemUIOp, arith::FloorDivSIOp, arith::CeilDivSIOp, arith::CeilDivUIOp,
            arith::ShLIOp, arith::ShRSIOp, arith::ShRUIOp, arith::MinSIOp, arith::MaxSIOp, arith::MinUIOp,
            arith::MaxUIOp>([&](Operation *) -> std::optional<CudaExpr> {
        if (isBool(type))
          return std::nullopt;
        StringRef function = llvm::TypeSwitch<Operation *, StringRef>(op)
                                 .Case([](arith::DivUIOp) { return "divide_unsigned"; })
                                 .Case([](arith::RemUIOp) { return "modulo_unsigned"; })
                                 .Case([](arith::FloorDivSIOp) { return "floor_divide"; })
                                 .Case([](arith::CeilDivSIOp) { return "ceil_divide"; })
                                 .Case([](arith::CeilDivUIOp) { return "ceil_divide_unsigned"; })
                                 .Case([](arith::ShLIOp) { return "shift_left"; })
                                 .Case([](arith::ShRSIOp) { return "shift_right"; })
                                 .Case([](arith::ShRUIOp) { return "shift_right_unsigned"; })
                                 .Case([](arith::MinSIOp) { return "min"; })
                                 .Case([](arith::MaxSIOp) { return "max"; })
                                 .Case([](arith::MinUIOp) { return "min_unsigned"; })
                                 .Case([](arith::MaxUIOp) { return "max_unsigned"; });
        if (isa<arith::MinSIOp, arith::MaxSIOp>(op) && getIntegerWidth(type) < 32)
          return call(isa<arith::MinSIOp>(op) ? "min_signed" : "max_signed");
        return call(function);
      })
      // Floats
      .Case([&](arith::AddFOp) { return arithmetic("+", Precedence::Additive); })
      .Case([&](arith::SubFOp) { return arithmetic("-", Precedence::Additive); })
      .Case([&](arith::MulFOp) { return arithmetic("*", Precedence::Multiplicative); })
      .Case([&](arith::DivFOp division) -> std::optional<CudaExpr> {
        if (type.isF32() && bitEnumContainsAll(division.getFastmath(), arith::FastMathFlags::afn))
          return call("divide_approx");
        return arithmetic("/", Precedence::Multiplicative);
      })
      .Case([&](arith::RemFOp) { return asFloat("fmod"); })
      .Case([&](arith::NegFOp) { return makeRounded(type, makeUnary("-", operands[0])); })
      .Case([&](arith::MaximumFOp) { return call("maximum"); })
      .Case([&](arith::MinimumFOp) { return call("minimum"); })
      .Case([&](arith::MaxNumFOp) { return call("maximum_number"); })
      .Case([&](arith::MinNumFOp) { return call("minimum_number"); })
      .Case([&](arith::CmpFOp compare) { return buildCompare(compare, operands); })
      // Conversions
      .Case<arith::ExtFOp, arith::TruncFOp>([&](Operation *) -> std::optional<CudaExpr> {
        if (auto truncate = dyn_cast<arith::TruncFOp>(op))
          if (truncate.getRoundingmode().value_or(arith::RoundingMode::to_nearest_even) !=
              arith::RoundingMode::to_nearest_even)
            return std::nullopt;
        return convertFloat(from, type, operands[0]);
      })
      .Case([&](arith::SIToFPOp) { return convertToFloat(from, type, operands[0], /*isUnsigned=*/false); })
      .Case([&](arith::UIToFPOp) { return convertToFloat(from, type, operands[0], /*isUnsigned=*/true); })
      .Case<arith::FPToSIOp, arith::FPToUIOp>([&](Operation *) -> std::optional<CudaExpr> {
        if (isBool(type))
          return std::nullopt;
        return makeCall((isa<arith::FPToSIOp>(op) ? "to_integer<" : "to_unsigned<") + getScalarType(type) +
                            ">",
                        operands);
      })
      .Case([&](arith::BitcastOp) -> std::optional<CudaExpr> {
        if (isBool(type))
          return operands[0];
        return makeCall("bit_cast<" + getScalarType(type) + ">", operands);
      })
      .Default([](Operation *) { return std::nullopt; });
}

static bool hasScalarTypes(Operation *op) {
  auto isScalar = [](Type type) { return !getScalarType(type).empty(); };
  return op->getNumResults() == 1 && llvm::all_of(op->getOperandTypes(), isScalar) &&
         llvm::all_of(op->getResultTypes(), isScalar);
}

static std::optional<CudaExpr> tryBuild(Operation *op, ArrayRef<CudaExpr> operands) {
  if (isa<attn::tile::DivideOp>(op))
    return makeCall(operands[1].text + ".divide", operands.take_front());
  if (!hasScalarTypes(op))
    return std::nullopt;
  if (op->getName().getDialectNamespace() == "math")
    return buildMathExpr(op, operands);
  return buildArithExpr(op, operands);
}

bool cuda::hasExpr(Operation *op) {
  SmallVector<CudaExpr> operands(op->getNumOperands(), CudaExpr{"x"});
  return tryBuild(op, operands).has_value();
}

FailureOr<CudaExpr> cuda::buildExpr(Operation *op, ArrayRef<CudaExpr> operands) {
  if (std::optional<CudaExpr> expr = tryBuild(op, operands))
    return *expr;
  return op->emitOpError("has no CUDA C++ form");
}
