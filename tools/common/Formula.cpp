//===- Formula.cpp - index computations as formulas ---------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/common/Formula.h"
#include "dialect/AttnDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace attn;

std::string FormulaPrinter::print(Value value) { return get(value).text; }

const FormulaPrinter::Text &FormulaPrinter::get(Value value) {
  auto known = texts.find(value);
  if (known != texts.end())
    return known->second;
  Text text = build(value);
  constexpr size_t longText = 24;
  if (text.strength != atom && text.text.size() > longText && !value.hasOneUse()) {
    std::string name = "t" + std::to_string(definitions.size());
    definitions.push_back(name + " = " + text.text);
    text = {name, atom};
  }
  return texts[value] = text;
}

std::string FormulaPrinter::operand(Value value, Strength atLeast) {
  const Text &text = get(value);
  return text.strength >= atLeast ? text.text : "(" + text.text + ")";
}

static StringRef getSymbol(arith::CmpIPredicate predicate) {
  switch (predicate) {
  case arith::CmpIPredicate::eq:
    return " = ";
  case arith::CmpIPredicate::ne:
    return " != ";
  case arith::CmpIPredicate::slt:
  case arith::CmpIPredicate::ult:
    return " < ";
  case arith::CmpIPredicate::sle:
  case arith::CmpIPredicate::ule:
    return " <= ";
  case arith::CmpIPredicate::sgt:
  case arith::CmpIPredicate::ugt:
    return " > ";
  case arith::CmpIPredicate::sge:
  case arith::CmpIPredicate::uge:
    return " >= ";
  }
  llvm_unreachable("unknown predicate");
}

FormulaPrinter::Text FormulaPrinter::build(Value value) {
  if (std::optional<int64_t> constant = getConstantIntValue(value)) {
    // Bounds beyond every length stand for "no bound".
    if (*constant >= std::numeric_limits<int32_t>::max())
      return {"inf", atom};
    if (*constant <= std::numeric_limits<int32_t>::min())
      return {"-inf", atom};
    return {std::to_string(*constant), *constant < 0 ? sum : atom};
  }
  Operation *op = value.getDefiningOp();
  if (!op)
    return {"?", atom};
  auto binary = [&](StringRef symbol, Strength strength) {
    // The right operand of a difference or a quotient needs parentheses at equal strength, too.
    return Text{operand(op->getOperand(0), strength) + symbol.str() +
                    operand(op->getOperand(1), static_cast<Strength>(strength + 1)),
                strength};
  };
  auto call = [&](StringRef function) {
    std::string text = function.str() + "(";
    for (auto [index, argument] : llvm::enumerate(op->getOperands()))
      text += (index ? ", " : "") + print(argument);
    return Text{text + ")", atom};
  };
  return llvm::TypeSwitch<Operation *, Text>(op)
      .Case([&](arith::AddIOp add) {
        if (std::optional<int64_t> constant = getConstantIntValue(add.getRhs()); constant && *constant < 0)
          return Text{operand(add.getLhs(), sum) + " - " + std::to_string(-*constant), sum};
        return binary(" + ", sum);
      })
      .Case([&](arith::SubIOp) { return binary(" - ", sum); })
      .Case([&](arith::MulIOp) { return binary(" * ", product); })
      .Case<arith::FloorDivSIOp, arith::DivSIOp, arith::DivUIOp>(
          [&](Operation *) { return binary(" div ", product); })
      .Case<arith::CeilDivSIOp, arith::CeilDivUIOp>([&](Operation *) { return binary(" ceildiv ", product); })
      .Case<arith::RemSIOp, arith::RemUIOp>([&](Operation *) { return binary(" mod ", product); })
      .Case<arith::MinSIOp, arith::MinUIOp>([&](Operation *) { return call("min"); })
      .Case<arith::MaxSIOp, arith::MaxUIOp>([&](Operation *) { return call("max"); })
      .Case([&](arith::AndIOp) { return binary(" and ", comparison); })
      .Case([&](arith::OrIOp) { return binary(" or ", comparison); })
      .Case([&](arith::CmpIOp compare) { return binary(getSymbol(compare.getPredicate()), comparison); })
      .Case([&](arith::SelectOp select) {
        return Text{"(" + print(select.getTrueValue()) + " if " + print(select.getCondition()) + " else " +
                        print(select.getFalseValue()) + ")",
                    atom};
      })
      .Case<arith::IndexCastOp, arith::IndexCastUIOp, arith::ExtSIOp, arith::ExtUIOp, arith::TruncIOp>(
          [&](Operation *conversion) { return get(conversion->getOperand(0)); })
      .Case([&](QLenOp) { return Text{"q_len", atom}; })
      .Case([&](KvLenOp) { return Text{"kv_len", atom}; })
      .Case([&](tensor::ExtractOp extract) {
        std::string text = print(extract.getTensor());
        for (auto [index, position] : llvm::enumerate(extract.getIndices()))
          text += (index ? ", " : "[") + print(position);
        return Text{extract.getIndices().empty() ? text : text + "]", atom};
      })
      .Default([&](Operation *other) { return call(other->getName().stripDialect()); });
}
