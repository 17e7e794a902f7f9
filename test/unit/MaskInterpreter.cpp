//===- MaskInterpreter.cpp - evaluates mask and ranges regions --------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/MaskInterpreter.h"
#include "dialect/AttnDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Index/IR/IndexOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace {
enum Opcode : unsigned {
  constant,
  add,
  sub,
  mul,
  floorDiv,
  ceilDiv,
  signedDiv,
  unsignedDiv,
  signedRem,
  unsignedRem,
  signedMax,
  signedMin,
  shiftLeft,
  signedShift,
  unsignedShift,
  bitAnd,
  bitOr,
  bitXor,
  absolute,
  signedCast,
  unsignedCast,
  compare,
  choose,
  branch,
  extract,
  queryLength,
  keyLength
};
} // namespace

static unsigned getOpcode(Operation *op) {
  return llvm::TypeSwitch<Operation *, unsigned>(op)
      .Case<arith::AddIOp, index::AddOp>([](auto) { return add; })
      .Case<arith::SubIOp, index::SubOp>([](auto) { return sub; })
      .Case<arith::MulIOp, index::MulOp>([](auto) { return mul; })
      .Case<arith::FloorDivSIOp, index::FloorDivSOp>([](auto) { return floorDiv; })
      .Case<arith::CeilDivSIOp, index::CeilDivSOp>([](auto) { return ceilDiv; })
      .Case<arith::DivSIOp, index::DivSOp>([](auto) { return signedDiv; })
      .Case<arith::DivUIOp, index::DivUOp>([](auto) { return unsignedDiv; })
      .Case<arith::RemSIOp, index::RemSOp>([](auto) { return signedRem; })
      .Case<arith::RemUIOp, index::RemUOp>([](auto) { return unsignedRem; })
      .Case<arith::MaxSIOp, index::MaxSOp>([](auto) { return signedMax; })
      .Case<arith::MinSIOp, index::MinSOp>([](auto) { return signedMin; })
      .Case<arith::ShLIOp, index::ShlOp>([](auto) { return shiftLeft; })
      .Case<arith::ShRSIOp, index::ShrSOp>([](auto) { return signedShift; })
      .Case<arith::ShRUIOp, index::ShrUOp>([](auto) { return unsignedShift; })
      .Case<arith::AndIOp, index::AndOp>([](auto) { return bitAnd; })
      .Case<arith::OrIOp, index::OrOp>([](auto) { return bitOr; })
      .Case<arith::XOrIOp, index::XOrOp>([](auto) { return bitXor; })
      .Case<math::AbsIOp>([](auto) { return absolute; })
      .Case<arith::ExtSIOp, arith::TruncIOp, arith::IndexCastOp, index::CastSOp>(
          [](auto) { return signedCast; })
      .Case<arith::ExtUIOp, arith::IndexCastUIOp, index::CastUOp>([](auto) { return unsignedCast; })
      .Case<arith::CmpIOp, index::CmpOp>([](auto) { return compare; })
      .Case<arith::SelectOp>([](auto) { return choose; })
      .Case<scf::IfOp>([](auto) { return branch; })
      .Case<tensor::ExtractOp>([](auto) { return extract; })
      .Case<attn::QLenOp>([](auto) { return queryLength; })
      .Case<attn::KvLenOp>([](auto) { return keyLength; })
      .Default([](Operation *unhandled) -> unsigned {
        llvm::report_fatal_error("the mask interpreter does not know " + unhandled->getName().getStringRef());
      });
}

static unsigned getWidth(Type type) { return type.isInteger() ? type.getIntOrFloatBitWidth() : 64; }

MaskProgram::MaskProgram(Block &block) {
  numFixed = isa<attn::YieldRangesOp>(block.getTerminator()) ? unsigned(attn::RangesArgs::numFixed)
                                                             : unsigned(attn::MaskArgs::numFixed);
  for (BlockArgument argument : block.getArguments())
    getSlot(argument);
  instructions = read(block, yielded);
  values.resize(slots.size());
}

unsigned MaskProgram::getSlot(Value value) { return slots.insert({value, slots.size()}).first->second; }

std::vector<MaskProgram::Instruction> MaskProgram::read(Block &block, std::vector<unsigned> &results) {
  std::vector<Instruction> list;
  for (Operation &op : block.without_terminator()) {
    Instruction instruction;
    instruction.op = &op;
    instruction.width = getWidth(op.getResult(0).getType());
    for (Value operand : op.getOperands())
      instruction.operands.push_back(getSlot(operand));
    APInt value;
    if (matchPattern(op.getResult(0), m_ConstantInt(&value))) {
      instruction.opcode = constant;
      instruction.constant = value.getSExtValue();
    } else {
      instruction.opcode = getOpcode(&op);
    }
    if (auto compareOp = dyn_cast<arith::CmpIOp>(op))
      instruction.constant = int64_t(compareOp.getPredicate());
    if (auto compareOp = dyn_cast<index::CmpOp>(op))
      instruction.constant =
          int64_t(*arith::symbolizeCmpIPredicate(index::stringifyIndexCmpPredicate(compareOp.getPred())));
    if (isa<arith::ExtUIOp, arith::IndexCastUIOp, index::CastUOp>(op))
      instruction.constant = getWidth(op.getOperand(0).getType());
    if (isa<arith::DivUIOp, arith::RemUIOp, arith::ShRUIOp, arith::CmpIOp, index::CmpOp>(op))
      instruction.width = getWidth(op.getOperand(0).getType());
    if (auto branchOp = dyn_cast<scf::IfOp>(op)) {
      instruction.thenBlock = read(*branchOp.thenBlock(), instruction.thenYield);
      instruction.elseBlock = read(*branchOp.elseBlock(), instruction.elseYield);
    }
    instruction.result = getSlot(op.getResult(0));
    for (Value result : op.getResults().drop_front())
      getSlot(result);
    list.push_back(std::move(instruction));
  }
  for (Value operand : block.getTerminator()->getOperands())
    results.push_back(getSlot(operand));
  return list;
}

std::vector<int64_t> MaskProgram::run(ArrayRef<int64_t> fixed, ArrayRef<MaskArgument> captures, int64_t qLen,
                                      int64_t kvLen) {
  for (auto [slot, value] : llvm::enumerate(fixed))
    values[slot] = value;
  for (auto [position, capture] : llvm::enumerate(captures))
    if (capture.shape.empty())
      values[numFixed + position] = capture.elements.front();
  execute(instructions, captures, qLen, kvLen);
  std::vector<int64_t> results;
  for (unsigned slot : yielded)
    results.push_back(values[slot]);
  return results;
}

static uint64_t toUnsigned(int64_t value, unsigned width) {
  return width >= 64 ? value : value & ((uint64_t(1) << width) - 1);
}

static bool evaluateCompare(arith::CmpIPredicate predicate, int64_t lhs, int64_t rhs, unsigned width) {
  return arith::applyCmpPredicate(predicate, APInt(64, toUnsigned(lhs, width)).trunc(width),
                                  APInt(64, toUnsigned(rhs, width)).trunc(width));
}

void MaskProgram::execute(ArrayRef<Instruction> list, ArrayRef<MaskArgument> captures, int64_t qLen,
                          int64_t kvLen) {
  for (const Instruction &instruction : list) {
    auto operand = [&](unsigned position) { return values[instruction.operands[position]]; };
    auto natural = [&](unsigned position) { return toUnsigned(operand(position), instruction.width); };
    int64_t result = 0;
    switch (instruction.opcode) {
    case constant:
      result = instruction.constant;
      break;
    case add:
      result = uint64_t(operand(0)) + uint64_t(operand(1));
      break;
    case sub:
      result = uint64_t(operand(0)) - uint64_t(operand(1));
      break;
    case mul:
      result = uint64_t(operand(0)) * uint64_t(operand(1));
      break;
    case floorDiv:
      result = llvm::divideFloorSigned(operand(0), operand(1));
      break;
    case ceilDiv:
      result = llvm::divideCeilSigned(operand(0), operand(1));
      break;
    case signedDiv:
      result = operand(0) / operand(1);
      break;
    case unsignedDiv:
      result = natural(0) / natural(1);
      break;
    case signedRem:
      result = operand(0) % operand(1);
      break;
    case unsignedRem:
      result = natural(0) % natural(1);
      break;
    case signedMax:
      result = std::max(operand(0), operand(1));
      break;
    case signedMin:
      result = std::min(operand(0), operand(1));
      break;
    case shiftLeft:
      result = uint64_t(operand(0)) << operand(1);
      break;
    case signedShift:
      result = operand(0) >> operand(1);
      break;
    case unsignedShift:
      result = natural(0) >> operand(1);
      break;
    case bitAnd:
      result = operand(0) & operand(1);
      break;
    case bitOr:
      result = operand(0) | operand(1);
      break;
    case bitXor:
      result = operand(0) ^ operand(1);
      break;
    case absolute:
      result = operand(0) < 0 ? -uint64_t(operand(0)) : operand(0);
      break;
    case signedCast:
      result = operand(0);
      break;
    case unsignedCast:
      result = toUnsigned(operand(0), instruction.constant);
      break;
    case compare:
      result = evaluateCompare(arith::CmpIPredicate(instruction.constant), operand(0), operand(1),
                               instruction.width);
      break;
    case choose:
      result = operand(0) & 1 ? operand(1) : operand(2);
      break;
    case branch: {
      bool isThen = operand(0) & 1;
      execute(isThen ? instruction.thenBlock : instruction.elseBlock, captures, qLen, kvLen);
      const std::vector<unsigned> &sources = isThen ? instruction.thenYield : instruction.elseYield;
      for (auto [position, source] : llvm::enumerate(sources))
        values[instruction.result + position] = values[source];
      continue;
    }
    case extract: {
      const MaskArgument &capture = captures[instruction.operands[0] - numFixed];
      int64_t offset = 0;
      for (auto [dim, size] : llvm::enumerate(capture.shape)) {
        int64_t position = operand(dim + 1);
        if (position < 0 || position >= size)
          llvm::report_fatal_error("a read out of bounds");
        offset = offset * size + position;
      }
      result = capture.elements[offset];
      break;
    }
    case queryLength:
      result = qLen;
      break;
    case keyLength:
      result = kvLen;
      break;
    }
    unsigned width = instruction.opcode == compare ? 1 : instruction.width;
    values[instruction.result] = width >= 64 ? result : llvm::SignExtend64(result, width);
  }
}
