//===- NarrowIndices.cpp - the indices of a region in 32 bits ---------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/NarrowIndices.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Index/IR/IndexOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace attn;

/// The arith operation that does on i32 what an `index` operation does on index; empty for others.
static StringRef getArithName(Operation *op) {
  return llvm::StringSwitch<StringRef>(op->getName().getStringRef())
      .Case("index.add", "arith.addi")
      .Case("index.sub", "arith.subi")
      .Case("index.mul", "arith.muli")
      .Case("index.divs", "arith.divsi")
      .Case("index.divu", "arith.divui")
      .Case("index.ceildivs", "arith.ceildivsi")
      .Case("index.ceildivu", "arith.ceildivui")
      .Case("index.floordivs", "arith.floordivsi")
      .Case("index.rems", "arith.remsi")
      .Case("index.remu", "arith.remui")
      .Case("index.maxs", "arith.maxsi")
      .Case("index.maxu", "arith.maxui")
      .Case("index.mins", "arith.minsi")
      .Case("index.minu", "arith.minui")
      .Case("index.shl", "arith.shli")
      .Case("index.shrs", "arith.shrsi")
      .Case("index.shru", "arith.shrui")
      .Case("index.and", "arith.andi")
      .Case("index.or", "arith.ori")
      .Case("index.xor", "arith.xori")
      .Default("");
}

namespace {
class Narrower {
public:
  Narrower(Region &region, unsigned numCaptures)
      : region(region), numCaptures(numCaptures), i32(IntegerType::get(region.getContext(), 32)) {}

  void run() {
    narrow(region.front());
    for (Operation *op : llvm::reverse(replaced.getArrayRef()))
      op->erase();
  }

private:
  void narrow(Block &block);
  void narrow(Operation *op);
  void narrowCast(ImplicitLocOpBuilder &b, Operation *cast, bool isSigned);
  Value narrowOutside(ImplicitLocOpBuilder &b, Value value, bool isSigned);
  Value getNarrow(Value value);
  Value getIndex(Value value);
  void replace(Operation *op, Value value) {
    narrowed[op->getResult(0)] = value;
    replaced.insert(op);
  }

  Region &region;
  unsigned numCaptures;
  IntegerType i32;
  /// The i32 that each index value is, of those that are still of index type.
  llvm::DenseMap<Value, Value> narrowed;
  llvm::SetVector<Operation *> replaced;
};
} // namespace

/// An index or an integer of more than 32 bits, saturated to i32.
Value Narrower::narrowOutside(ImplicitLocOpBuilder &b, Value value, bool isSigned) {
  Type type = value.getType();
  // Only the result has the name of the value.
  Location loc = b.getLoc();
  if (auto name = dyn_cast<NameLoc>(loc))
    b.setLoc(name.getChildLoc());
  auto constant = [&](int64_t number) -> Value {
    return arith::ConstantOp::create(b, type, b.getIntegerAttr(type, number));
  };
  if (isSigned) {
    value = arith::MaxSIOp::create(b, value, constant(INT32_MIN));
    value = arith::MinSIOp::create(b, value, constant(INT32_MAX));
  } else {
    value = arith::MinUIOp::create(b, value, constant(INT32_MAX));
  }
  b.setLoc(loc);
  if (isa<IndexType>(type))
    return arith::IndexCastOp::create(b, i32, value);
  return arith::TruncIOp::create(b, i32, value);
}

/// `value` as i32 where it is an index, as it is where not.
Value Narrower::getNarrow(Value value) {
  if (!isa<IndexType>(value.getType()))
    return value;
  if (Value known = narrowed.lookup(value))
    return known;
  OpBuilder builder(region.getContext());
  builder.setInsertionPointAfterValue(value);
  ImplicitLocOpBuilder b(value.getLoc(), builder);
  Value result;
  APInt constant;
  auto argument = dyn_cast<BlockArgument>(value);
  bool isPosition = argument && argument.getArgNumber() < region.getNumArguments() - numCaptures;
  if (matchPattern(value, m_ConstantInt(&constant)))
    result = arith::ConstantOp::create(b, b.getIntegerAttr(i32, constant.trunc(32).getSExtValue()));
  else if (isPosition || isa_and_present<QLenOp, KvLenOp>(value.getDefiningOp()))
    result = arith::IndexCastOp::create(b, i32, value); // below 2^31
  else
    result = narrowOutside(b, value, /*isSigned=*/true);
  return narrowed[value] = result;
}

/// `value` as index where it has become i32, as it is where not.
Value Narrower::getIndex(Value value) {
  Value narrow = replaced.contains(value.getDefiningOp()) ? narrowed.lookup(value) : value;
  if (narrow.getType() != i32)
    return value;
  OpBuilder builder(region.getContext());
  builder.setInsertionPointAfterValue(narrow);
  return arith::IndexCastOp::create(builder, value.getLoc(), builder.getIndexType(), narrow);
}

void Narrower::narrowCast(ImplicitLocOpBuilder &b, Operation *cast, bool isSigned) {
  Value source = cast->getOperand(0);
  bool toIndex = isa<IndexType>(cast->getResult(0).getType());
  auto from = dyn_cast<IntegerType>(source.getType());
  Type to = toIndex ? i32 : cast->getResult(0).getType();
  Value result = getNarrow(source);
  if (toIndex && from.getWidth() > 32)
    result = narrowOutside(b, source, isSigned);
  else if (unsigned width = result.getType().getIntOrFloatBitWidth(); width > to.getIntOrFloatBitWidth())
    result = arith::TruncIOp::create(b, to, result);
  else if (width < to.getIntOrFloatBitWidth())
    result = isSigned ? arith::ExtSIOp::create(b, to, result).getResult()
                      : arith::ExtUIOp::create(b, to, result).getResult();
  if (!toIndex)
    cast->getResult(0).replaceAllUsesWith(result);
  replace(cast, result);
}

void Narrower::narrow(Operation *op) {
  ImplicitLocOpBuilder b(op->getLoc(), op);
  // What addresses a capture, or asks for a length, stays an index.
  if (isa<tensor::ExtractOp, AccumulateGradientOp, QLenOp, KvLenOp>(op)) {
    for (OpOperand &operand : op->getOpOperands())
      operand.set(getIndex(operand.get()));
    return;
  }
  if (matchPattern(op, m_Constant()))
    return;
  if (isa<arith::IndexCastOp, index::CastSOp>(op))
    return narrowCast(b, op, /*isSigned=*/true);
  if (isa<arith::IndexCastUIOp, index::CastUOp>(op))
    return narrowCast(b, op, /*isSigned=*/false);

  SmallVector<Value> operands =
      llvm::map_to_vector(op->getOperands(), [&](Value operand) { return getNarrow(operand); });
  if (StringRef name = getArithName(op); !name.empty()) {
    OperationState state(op->getLoc(), name, operands, i32);
    return replace(op, b.create(state)->getResult(0));
  }
  if (auto compare = dyn_cast<index::CmpOp>(op)) {
    auto predicate = arith::symbolizeCmpIPredicate(index::stringifyIndexCmpPredicate(compare.getPred()));
    assert(predicate && "index.cmp and arith.cmpi name their predicates alike");
    Value result = arith::CmpIOp::create(b, *predicate, operands[0], operands[1]);
    compare.getResult().replaceAllUsesWith(result);
    return replace(op, result);
  }
  bool isOnIndices = llvm::is_contained(op->getOperandTypes(), b.getIndexType());
  op->setOperands(operands);
  for (Region &nested : op->getRegions())
    for (Block &block : nested)
      narrow(block);
  for (Value result : op->getResults())
    if (isa<IndexType>(result.getType())) {
      isOnIndices = true;
      result.setType(i32);
    }
  // What does not overflow 64 bits may overflow 32.
  if (auto overflow = dyn_cast<arith::ArithIntegerOverflowFlagsInterface>(op); overflow && isOnIndices)
    op->setAttr(overflow.getIntegerOverflowAttrName(),
                arith::IntegerOverflowFlagsAttr::get(op->getContext(), arith::IntegerOverflowFlags::none));
}

void Narrower::narrow(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block))
    narrow(&op);
}

void attn::narrowIndices(Region &region, unsigned numCaptures) {
  if (!region.empty())
    Narrower(region, numCaptures).run();
}

void attn::narrowIndices(AttentionOpInterface op) {
  unsigned numCaptures = op.getCaptures().size();
  narrowIndices(op.getScore(), numCaptures);
  narrowIndices(op.getMask(), numCaptures);
  if (auto backward = dyn_cast<AttentionBackwardOp>(op.getOperation()))
    narrowIndices(backward.getGradient(), numCaptures);
  if (auto online = dyn_cast<OnlineAttentionOp>(op.getOperation()))
    narrowIndices(online.getGradient(), numCaptures);
}
