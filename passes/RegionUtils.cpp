//===- RegionUtils.cpp - inlining of score, mask and gradient regions -------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/RegionUtils.h"
#include "dialect/AttnTileDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/CallInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace attn;

Value attn::convertFloat(OpBuilder &builder, Location loc, Value value, Type element) {
  Type from = getElementTypeOrSelf(value.getType());
  if (from == element)
    return value;
  unsigned fromWidth = from.getIntOrFloatBitWidth(), toWidth = element.getIntOrFloatBitWidth();
  // Between types of one width (f16 and bf16) neither holds the other: go through f32, which holds both.
  if (fromWidth == toWidth || (fromWidth == 64 && toWidth < 32))
    value = convertFloat(builder, loc, value, builder.getF32Type());
  Type type = element;
  if (auto vector = dyn_cast<VectorType>(value.getType()))
    type = vector.clone(element);
  if (fromWidth < toWidth)
    return arith::ExtFOp::create(builder, loc, type, value);
  return arith::TruncFOp::create(builder, loc, type, value);
}

namespace {
/// One inlining of one region.
class Inliner {
public:
  Inliner(OpBuilder &builder, const RegionInlining &options, MutableArrayRef<Value> state)
      : builder(builder), options(options), state(state.begin(), state.end()) {}

  /// Returns what the operands of the region's terminator are.
  SmallVector<Value> run(Region &region, ValueRange arguments);
  ArrayRef<Value> getState() const { return state; }

private:
  void cloneBody(Block &block);
  void clone(Operation &op);
  void cloneIf(scf::IfOp op);
  void cloneIfBranch(Region &from, Region &to, bool threadState);

  Type convert(Type type) const { return options.widenToF64 && type.isF32() ? builder.getF64Type() : type; }
  Value map(Value value) const { return mapping.lookup(value); }
  SmallVector<Value> map(ValueRange values) const {
    return llvm::map_to_vector(values, [&](Value value) { return map(value); });
  }

  OpBuilder &builder;
  const RegionInlining &options;
  SmallVector<Value> state;
  IRMapping mapping;
};
} // namespace

SmallVector<Value> Inliner::run(Region &region, ValueRange arguments) {
  Block &block = region.front();
  assert(block.getNumArguments() == arguments.size() && "expected a value for each argument of the region");
  for (auto [argument, value] : llvm::zip(block.getArguments(), arguments)) {
    Value converted = value;
    if (isa<FloatType>(argument.getType()))
      converted = convertFloat(builder, value.getLoc(), value, convert(argument.getType()));
    mapping.map(argument, converted);
  }
  cloneBody(block);
  return map(block.getTerminator()->getOperands());
}

void Inliner::cloneBody(Block &block) {
  for (Operation &op : block.without_terminator())
    clone(op);
}

void Inliner::clone(Operation &op) {
  Location loc = op.getLoc();
  auto replace = [&](Value value) { mapping.map(op.getResult(0), value); };
  llvm::TypeSwitch<Operation *>(&op)
      .Case([&](QLenOp length) { replace(options.queryLength(builder, loc, map(length.getBatch()))); })
      .Case([&](KvLenOp length) { replace(options.keyLength(builder, loc, map(length.getBatch()))); })
      .Case([&](AccumulateGradientOp accumulate) {
        unsigned capture =
            cast<BlockArgument>(accumulate.getCapture()).getArgNumber() - GradientArgs::numFixed;
        options.accumulateGradient(builder, loc, map(accumulate.getValue()), capture,
                                   map(accumulate.getIndices()), state);
      })
      .Case([&](scf::IfOp ifOp) { cloneIf(ifOp); })
      .Case([&](tensor::ExtractOp extract) {
        Value capture = map(extract.getTensor());
        SmallVector<Value> indices = map(extract.getIndices());
        Value read = options.readCapture
                         ? options.readCapture(builder, loc, capture, indices)
                         : tensor::ExtractOp::create(builder, loc, capture, indices).getResult();
        Type type = extract.getType();
        replace(isa<FloatType>(type) ? convertFloat(builder, loc, read, convert(type)) : read);
      })
      .Case<arith::ExtFOp, arith::TruncFOp>(
          [&](auto cast) { replace(convertFloat(builder, loc, map(cast.getIn()), convert(cast.getType()))); })
      .Case([&](arith::BitcastOp bitcast) {
        // The bits of an f32 are those of the rounded value.
        Value in = map(bitcast.getIn());
        if (isa<FloatType>(in.getType()))
          in = convertFloat(builder, loc, in, bitcast.getIn().getType());
        Value out = arith::BitcastOp::create(builder, loc, bitcast.getType(), in);
        replace(isa<FloatType>(out.getType()) ? convertFloat(builder, loc, out, convert(out.getType()))
                                              : out);
      })
      .Default([&](Operation *generic) {
        Operation *cloned = builder.clone(*generic, mapping);
        if (!options.widenToF64)
          return;
        for (Value result : cloned->getResults())
          result.setType(convert(result.getType()));
        if (auto constant = dyn_cast<arith::ConstantOp>(cloned)) {
          if (auto value = dyn_cast<FloatAttr>(constant.getValue()); value && value.getType().isF32())
            constant.setValueAttr(builder.getF64FloatAttr(value.getValueAsDouble()));
        }
        if (auto fastMath = dyn_cast<arith::ArithFastMathInterface>(cloned))
          cloned->setAttr(fastMath.getFastMathAttrName(),
                          arith::FastMathFlagsAttr::get(cloned->getContext(), arith::FastMathFlags::none));
      });
}

void Inliner::cloneIf(scf::IfOp op) {
  bool threadState = !state.empty() &&
                     op.walk([](AccumulateGradientOp) { return WalkResult::interrupt(); }).wasInterrupted();
  SmallVector<Type> types =
      llvm::map_to_vector(op.getResultTypes(), [&](Type type) { return convert(type); });
  if (threadState)
    llvm::append_range(types, ValueRange(state).getTypes());
  bool withElse = threadState || !op.getElseRegion().empty();
  auto cloned =
      scf::IfOp::create(builder, op.getLoc(), types, map(op.getCondition()), /*addThenBlock=*/true, withElse);
  cloneIfBranch(op.getThenRegion(), cloned.getThenRegion(), threadState);
  if (withElse)
    cloneIfBranch(op.getElseRegion(), cloned.getElseRegion(), threadState);

  for (auto [from, to] : llvm::zip_first(op.getResults(), cloned.getResults()))
    mapping.map(from, to);
  if (threadState)
    llvm::copy(cloned.getResults().drop_front(op.getNumResults()), state.begin());
}

void Inliner::cloneIfBranch(Region &from, Region &to, bool threadState) {
  OpBuilder::InsertionGuard guard(builder);
  Block &block = to.front();
  if (!block.empty()) // the builder has put a terminator into a branch without results
    block.getTerminator()->erase();
  builder.setInsertionPointToEnd(&block);
  SmallVector<Value> before(state), yielded;
  Location loc = to.getLoc();
  if (!from.empty()) {
    cloneBody(from.front());
    yielded = map(from.front().getTerminator()->getOperands());
  }
  if (threadState) {
    llvm::append_range(yielded, state);
    state = before;
  }
  scf::YieldOp::create(builder, loc, yielded);
}

Value attn::inlineRegion(OpBuilder &builder, Region &region, ValueRange arguments,
                         const RegionInlining &options, MutableArrayRef<Value> state) {
  Inliner inliner(builder, options, state);
  Value result = inliner.run(region, arguments).front();
  llvm::copy(inliner.getState(), state.begin());
  return result;
}

SmallVector<Value> attn::inlineRanges(OpBuilder &builder, Region &region, ValueRange arguments,
                                      const RegionInlining &options) {
  return Inliner(builder, options, {}).run(region, arguments);
}

std::unique_ptr<Region> attn::cloneYielding(Region &region, Value value) {
  auto copy = std::make_unique<Region>();
  IRMapping mapping;
  region.cloneInto(copy.get(), mapping);
  copy->front().getTerminator()->setOperand(0, mapping.lookup(value));
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(copy->front())))
    if (isOpTriviallyDead(&op))
      op.erase();
  return copy;
}

bool attn::isLinearIn(Region &region, unsigned argument) {
  if (!region.hasOneBlock())
    return false;
  // Multiples of the argument; a 0 is one, too.
  llvm::SmallDenseSet<Value> multiples{region.getArgument(argument)};
  auto isMultiple = [&](Value value) {
    return multiples.contains(value) || matchPattern(value, m_AnyZeroFloat());
  };
  auto isFree = [&](Value value) { return !multiples.contains(value); };
  for (Operation &op : region.front().without_terminator()) {
    if (llvm::all_of(op.getOperands(), isFree) && op.getNumRegions() == 0)
      continue;
    bool isLinear = llvm::TypeSwitch<Operation *, bool>(&op)
                        .Case([&](arith::MulFOp mul) { return isFree(mul.getLhs()) || isFree(mul.getRhs()); })
                        .Case([&](arith::DivFOp div) { return isFree(div.getRhs()); })
                        .Case([&](arith::NegFOp) { return true; })
                        .Case<arith::AddFOp, arith::SubFOp>(
                            [&](Operation *sum) { return llvm::all_of(sum->getOperands(), isMultiple); })
                        .Case([&](arith::SelectOp select) {
                          return isMultiple(select.getTrueValue()) && isMultiple(select.getFalseValue());
                        })
                        .Case([&](math::FmaOp fma) {
                          return isFree(fma.getA()) != isFree(fma.getB()) && isMultiple(fma.getC());
                        })
                        .Default(false);
    if (!isLinear)
      return false;
    multiples.insert(op.getResult(0));
  }
  return isMultiple(region.front().getTerminator()->getOperand(0));
}

Value attn::takeConstantFactor(Value value, double &factor) {
  Operation *op = value.getDefiningOp();
  if (!isa_and_nonnull<arith::MulFOp, arith::DivFOp>(op))
    return {};
  bool isProduct = isa<arith::MulFOp>(op);
  FloatAttr constant;
  for (int number = 1; number >= (isProduct ? 0 : 1); --number)
    if (matchPattern(op->getOperand(number), m_Constant(&constant)) && constant.getType().isF32()) {
      factor = isProduct ? constant.getValueAsDouble() : 1 / constant.getValueAsDouble();
      return op->getOperand(1 - number);
    }
  return {};
}

bool attn::isContinuous(Region &region) {
  return !region
              .walk([](Operation *op) {
                bool isStep = isa<arith::CmpFOp, arith::RemFOp, arith::FPToSIOp, arith::FPToUIOp,
                                  arith::BitcastOp, math::FloorOp, math::CeilOp, math::RoundOp,
                                  math::RoundEvenOp, math::TruncOp, math::CopySignOp>(op);
                return isStep ? WalkResult::interrupt() : WalkResult::advance();
              })
              .wasInterrupted();
}

bool attn::isOnlyRead(Value buffer) {
  auto parameter = dyn_cast<BlockArgument>(buffer);
  return parameter && isa<gpu::GPUFuncOp>(parameter.getOwner()->getParentOp()) &&
         llvm::all_of(buffer.getUsers(), llvm::IsaPred<memref::LoadOp, memref::DimOp, tile::LoadColumnsOp>);
}

LogicalResult attn::verifyLoweredType(Operation *op, Type elementType) {
  if (!isa<Float8E4M3FNType>(elementType))
    return success();
  return op->emitOpError("f8E4M3FN tensors are not lowered yet; convert them to bf16, f16 or f32 first");
}

LogicalResult attn::verifyInlinable(Operation *op) {
  WalkResult result = op->walk([&](CallOpInterface call) {
    op->emitOpError("expected no calls in its regions, got '")
        << call->getName() << "'; inline what it calls first (--inline)";
    return WalkResult::interrupt();
  });
  if (result.wasInterrupted())
    return failure();
  auto isUnsupported = [](Type type) {
    return isa<FloatType>(type) && !isa<Float16Type, BFloat16Type, Float32Type, Float64Type>(type);
  };
  result = op->walk([&](Operation *nested) {
    if (isa<math::IPowIOp>(nested)) {
      op->emitOpError("has '")
          << nested->getName()
          << "' in its regions, which no lowering has a form of; multiply, or use math.fpowi";
      return WalkResult::interrupt();
    }
    SmallVector<Type> types(nested->getOperandTypes());
    llvm::append_range(types, nested->getResultTypes());
    auto *type = llvm::find_if(types, isUnsupported);
    if (nested == op || type == types.end())
      return WalkResult::advance();
    op->emitOpError("has '") << nested->getName() << "' of " << *type
                             << " in its regions, which no lowering computes in; use f16, bf16, f32 or f64";
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}
