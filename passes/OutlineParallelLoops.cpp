//===- OutlineParallelLoops.cpp - parallel loops to calls of the runtime ------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The outlined functions are `func.func`, so that the passes on functions that follow see them. Captured
// values cross in a struct in memory, in their LLVM types; unrealized casts on both sides vanish when the
// rest of the module is converted.
//
//===----------------------------------------------------------------------===//

#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Transforms/RegionUtils.h"
#include "passes/Passes.h"

using namespace mlir;

namespace attn {
#define GEN_PASS_DEF_OUTLINEPARALLELLOOPSPASS
#include "passes/Passes.h.inc"
} // namespace attn

/// Name of the runtime's function (runtime/cpu/ThreadPool.h).
static constexpr llvm::StringLiteral kParallelForName = "attn_cpu_parallel_for";

//===----------------------------------------------------------------------===//
// What is outlined
//===----------------------------------------------------------------------===//

static bool isParallelLoop(Operation *op) {
  if (auto forall = dyn_cast<scf::ForallOp>(op))
    return forall.getNumResults() == 0;
  if (auto parallel = dyn_cast<scf::ParallelOp>(op))
    return parallel.getInitVals().empty();
  return false;
}

/// How many of the outermost dimensions are spread over threads. A forall is spread whole: whoever wrote it
/// chose its units of work. Of a scf.parallel, which comes from an elementwise operation, the last dimension
/// stays a loop, so that no iteration pays for a division and LLVM sees a plain inner loop.
static unsigned getNumSpreadDims(LoopLikeOpInterface loop) {
  unsigned rank = loop.getLoopInductionVars()->size();
  return isa<scf::ForallOp>(loop) || rank == 1 ? rank : rank - 1;
}

/// The number of iterations of a dimension, 0 where its range is empty.
static Value buildTripCount(OpBuilder &b, Location loc, OpFoldResult lower, OpFoldResult upper,
                            OpFoldResult step) {
  Value ub = getValueOrCreateConstantIndexOp(b, loc, upper);
  if (!isZeroInteger(lower))
    ub = b.createOrFold<arith::SubIOp>(loc, ub, getValueOrCreateConstantIndexOp(b, loc, lower));
  if (!isOneInteger(step))
    ub = b.createOrFold<arith::CeilDivSIOp>(loc, ub, getValueOrCreateConstantIndexOp(b, loc, step));
  if (std::optional<int64_t> count = getConstantIntValue(ub))
    return *count >= 0 ? ub : arith::ConstantIndexOp::create(b, loc, 0).getResult();
  return arith::MaxSIOp::create(b, loc, ub, arith::ConstantIndexOp::create(b, loc, 0));
}

//===----------------------------------------------------------------------===//
// Outlining of one loop
//===----------------------------------------------------------------------===//

namespace {
class LoopOutliner {
public:
  LoopOutliner(LoopLikeOpInterface loop, func::FuncOp parent, SymbolTable &symbols, LLVMTypeConverter &types)
      : loop(loop), parent(parent), symbols(symbols), types(types), b(loop), loc(loop.getLoc()) {}

  LogicalResult outline(func::FuncOp parallelFor, StringRef name);

private:
  LogicalResult collectCaptures();
  Value storeCaptures();
  void buildBody(func::FuncOp body);
  Value castTo(Type type, Value value) {
    return value.getType() == type ? value
                                   : UnrealizedConversionCastOp::create(b, loc, type, value).getResult(0);
  }
  Value fieldAddress(Value context, unsigned field) {
    return LLVM::GEPOp::create(b, loc, LLVM::LLVMPointerType::get(b.getContext()), contextType, context,
                               ArrayRef<LLVM::GEPArg>{0, static_cast<int32_t>(field)});
  }

  LoopLikeOpInterface loop;
  func::FuncOp parent;
  SymbolTable &symbols;
  LLVMTypeConverter &types;
  OpBuilder b;
  Location loc;

  SmallVector<Value> captures; // used in the body, defined outside, not constant
  SmallVector<Operation *> constants;
  LLVM::LLVMStructType contextType;
};
} // namespace

/// Sorts the values from outside into constants, which are cloned, and captures. The bounds count as used by
/// the body, which needs them to split the linear index.
LogicalResult LoopOutliner::collectCaptures() {
  SetVector<Value> outside;
  getUsedValuesDefinedAbove(loop->getRegions(), outside);
  for (const auto &bounds : {*loop.getLoopLowerBounds(), *loop.getLoopUpperBounds(), *loop.getLoopSteps()})
    for (OpFoldResult bound : bounds)
      if (auto value = dyn_cast<Value>(bound))
        outside.insert(value);

  SmallVector<Type> fields;
  for (Value value : outside) {
    if (matchPattern(value, m_Constant())) {
      constants.push_back(value.getDefiningOp());
      continue;
    }
    Type type = types.convertType(value.getType());
    if (!type)
      return loop.emitOpError() << "uses a value of type " << value.getType()
                                << " from outside, which has no form in memory; bufferize before outlining";
    captures.push_back(value);
    fields.push_back(type);
  }
  contextType = LLVM::LLVMStructType::getLiteral(b.getContext(), fields);
  return success();
}

/// Stores the captures in a struct on the stack of the parent and returns its address. The struct is
/// allocated at the function's entry: in a loop around the parallel one, each allocation would grow the
/// stack.
Value LoopOutliner::storeCaptures() {
  auto pointerType = LLVM::LLVMPointerType::get(b.getContext());
  if (captures.empty())
    return LLVM::ZeroOp::create(b, loc, pointerType);
  OpBuilder entry = OpBuilder::atBlockBegin(&parent.getBody().front());
  Value one = LLVM::ConstantOp::create(entry, loc, entry.getI64IntegerAttr(1));
  Value context = LLVM::AllocaOp::create(entry, loc, pointerType, contextType, one);
  for (auto [i, value] : llvm::enumerate(captures))
    LLVM::StoreOp::create(b, loc, castTo(contextType.getBody()[i], value), fieldAddress(context, i));
  return context;
}

/// Fills `body(begin, end, context)`: loads the captures, then runs the loop's own body for each linear
/// index.
void LoopOutliner::buildBody(func::FuncOp body) {
  Block *entry = body.addEntryBlock();
  Value begin = entry->getArgument(0), end = entry->getArgument(1), context = entry->getArgument(2);
  b.setInsertionPointToStart(entry);

  IRMapping mapping;
  for (Operation *constant : constants)
    b.clone(*constant, mapping);
  for (auto [i, value] : llvm::enumerate(captures)) {
    Value loaded = LLVM::LoadOp::create(b, loc, contextType.getBody()[i], fieldAddress(context, i));
    mapping.map(value, castTo(value.getType(), loaded));
  }
  auto remapped = [&](OpFoldResult bound) {
    auto value = dyn_cast<Value>(bound);
    return getValueOrCreateConstantIndexOp(b, loc, value ? OpFoldResult(mapping.lookup(value)) : bound);
  };
  SmallVector<Value> lower = llvm::map_to_vector(*loop.getLoopLowerBounds(), remapped);
  SmallVector<Value> upper = llvm::map_to_vector(*loop.getLoopUpperBounds(), remapped);
  SmallVector<Value> step = llvm::map_to_vector(*loop.getLoopSteps(), remapped);
  unsigned numSpread = getNumSpreadDims(loop);
  SmallVector<Value> spreadCounts{nullptr}; // that of the outermost is not needed
  for (unsigned dim = 1; dim < numSpread; ++dim)
    spreadCounts.push_back(buildTripCount(b, loc, lower[dim], upper[dim], step[dim]));

  Value one = arith::ConstantIndexOp::create(b, loc, 1);
  auto linearLoop = scf::ForOp::create(b, loc, begin, end, one);
  func::ReturnOp::create(b, loc);
  b.setInsertionPointToStart(linearLoop.getBody());
  SmallVector<Value> indices(lower.size());
  Value rest = linearLoop.getInductionVar();
  for (int dim = numSpread - 1; dim >= 0; --dim) {
    Value iteration = rest;
    if (dim > 0) {
      iteration = arith::RemUIOp::create(b, loc, rest, spreadCounts[dim]);
      rest = arith::DivUIOp::create(b, loc, rest, spreadCounts[dim]);
    }
    Value scaled = b.createOrFold<arith::MulIOp>(loc, iteration, step[dim]);
    indices[dim] = b.createOrFold<arith::AddIOp>(loc, scaled, lower[dim]);
  }
  for (unsigned dim = numSpread; dim < indices.size(); ++dim) {
    auto inner = scf::ForOp::create(b, loc, lower[dim], upper[dim], step[dim]);
    b.setInsertionPointToStart(inner.getBody());
    indices[dim] = inner.getInductionVar();
  }

  for (auto [inductionVar, index] : llvm::zip_equal(*loop.getLoopInductionVars(), indices))
    mapping.map(inductionVar, index);
  for (Operation &op : loop.getLoopRegions().front()->front().without_terminator())
    b.clone(op, mapping);
}

LogicalResult LoopOutliner::outline(func::FuncOp parallelFor, StringRef name) {
  if (failed(collectCaptures()))
    return failure();

  Value count;
  for (unsigned dim = 0, numSpread = getNumSpreadDims(loop); dim < numSpread; ++dim) {
    Value tripCount = buildTripCount(b, loc, (*loop.getLoopLowerBounds())[dim],
                                     (*loop.getLoopUpperBounds())[dim], (*loop.getLoopSteps())[dim]);
    count = count ? b.createOrFold<arith::MulIOp>(loc, count, tripCount) : tripCount;
  }
  Value context = storeCaptures();

  auto bodyType = cast<FunctionType>(parallelFor.getFunctionType().getInput(1));
  auto body = func::FuncOp::create(loc, name, bodyType);
  body.setPrivate();
  body->setAttr("llvm.linkage", LLVM::LinkageAttr::get(b.getContext(), LLVM::Linkage::Internal));
  symbols.insert(body, std::next(parent->getIterator()));
  Value function = func::ConstantOp::create(b, loc, bodyType, body.getSymName());
  func::CallOp::create(b, loc, parallelFor, ValueRange{count, function, context});

  buildBody(body);
  loop->erase();
  return success();
}

//===----------------------------------------------------------------------===//
// Stack allocations
//===----------------------------------------------------------------------===//

/// Moves stack allocations out of loops to the function's entry: a loop would grow the stack in each
/// iteration. Whatever a buffer held in the last iteration is undefined in the next, so sharing one is the
/// same.
static LogicalResult hoistAllocas(func::FuncOp function) {
  Block *entry = &function.getBody().front();
  WalkResult result = function.walk([&](memref::AllocaOp alloca) {
    if (alloca->getBlock() == entry || alloca->getParentOfType<memref::AllocaScopeOp>())
      return WalkResult::advance();
    if (alloca->getNumOperands() == 0) {
      alloca->moveBefore(entry, entry->begin());
      return WalkResult::advance();
    }
    alloca.emitOpError(
        "of a dynamic size inside a loop would grow the stack in every iteration; give it a static shape, "
        "enclose it in memref.alloca_scope or use memref.alloc");
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {
struct OutlineParallelLoops : attn::impl::OutlineParallelLoopsPassBase<OutlineParallelLoops> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SymbolTable symbols(module);
    LLVMTypeConverter types(&getContext());
    for (func::FuncOp function : llvm::to_vector(module.getOps<func::FuncOp>())) {
      if (function.isExternal())
        continue;
      SmallVector<LoopLikeOpInterface> loops;
      function.walk<WalkOrder::PreOrder>([&](Operation *op) {
        if (!isParallelLoop(op))
          return WalkResult::advance();
        loops.push_back(cast<LoopLikeOpInterface>(op));
        return WalkResult::skip();
      });
      for (auto [i, loop] : llvm::enumerate(loops)) {
        FailureOr<func::FuncOp> parallelFor = getParallelFor(symbols);
        std::string name = (function.getSymName() + "_parallel_" + Twine(i)).str();
        if (failed(parallelFor) ||
            failed(LoopOutliner(loop, function, symbols, types).outline(*parallelFor, name)))
          return signalPassFailure();
      }
    }
    for (auto function : module.getOps<func::FuncOp>())
      if (!function.isExternal() && failed(hoistAllocas(function)))
        return signalPassFailure();
  }

  /// The declaration of the runtime's function, made where there is none.
  FailureOr<func::FuncOp> getParallelFor(SymbolTable &symbols) {
    Builder b(&getContext());
    Type index = b.getIndexType(), pointer = LLVM::LLVMPointerType::get(&getContext());
    auto body = b.getFunctionType({index, index, pointer}, {});
    auto type = b.getFunctionType({index, body, pointer}, {});
    if (Operation *existing = symbols.lookup(kParallelForName)) {
      auto function = dyn_cast<func::FuncOp>(existing);
      if (function && function.getFunctionType() == type)
        return function;
      return existing->emitOpError() << "has the name of the runtime's parallel for, which is of type "
                                     << type;
    }
    auto function = func::FuncOp::create(getOperation().getLoc(), kParallelForName, type);
    function.setPrivate();
    symbols.insert(function, getOperation().getBody()->begin());
    return function;
  }
};
} // namespace
