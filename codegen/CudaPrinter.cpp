//===- CudaPrinter.cpp - kernels as CUDA C++ --------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "codegen/CudaPrinter.h"
#include "codegen/CudaTypes.h"
#include "codegen/FunctionPrinter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace attn;
using namespace attn::cuda;

//===----------------------------------------------------------------------===//
// Expressions
//===----------------------------------------------------------------------===//

static StringRef getMember(gpu::Dimension dimension) {
  switch (dimension) {
  case gpu::Dimension::x:
    return ".x";
  case gpu::Dimension::y:
    return ".y";
  case gpu::Dimension::z:
    return ".z";
  }
  llvm_unreachable("unknown dimension");
}

CudaExpr FunctionPrinter::getExpr(Value value) {
  Operation *op = value.getDefiningOp();
  return op && names.isInlined(op) ? getInlineExpr(op) : CudaExpr{names.getName(value).str()};
}

CudaExpr FunctionPrinter::getInlineExpr(Operation *op) {
  auto builtin = [](StringRef name, gpu::Dimension dimension) {
    return makeCall("int", {{(name + getMember(dimension)).str()}});
  };
  return llvm::TypeSwitch<Operation *, CudaExpr>(op)
      .Case([&](memref::DimOp dim) -> CudaExpr {
        auto type = cast<MemRefType>(dim.getSource().getType());
        std::optional<int64_t> index = dim.getConstantIndex();
        if (index && !type.isDynamicDim(*index))
          return {llvm::utostr(type.getDimSize(*index))};
        return {getText(dim.getSource()) + ".size(" + getText(dim.getIndex()) + ")"};
      })
      .Case([&](gpu::BlockIdOp id) { return builtin("blockIdx", id.getDimension()); })
      .Case([&](gpu::ThreadIdOp id) { return builtin("threadIdx", id.getDimension()); })
      .Case([&](gpu::GridDimOp id) { return builtin("gridDim", id.getDimension()); })
      .Case([&](gpu::BlockDimOp id) { return builtin("blockDim", id.getDimension()); })
      .Case([&](tile::FirstColumnOp first) {
        return CudaExpr{"first_column(" + getText(first.getFragment()) + ")"};
      })
      .Default([&](Operation *scalar) {
        FailureOr<CudaExpr> expr =
            buildExpr(scalar, llvm::map_to_vector(scalar->getOperands(),
                                                  [&](Value operand) { return getExpr(operand); }));
        assert(succeeded(expr) && "verifyEmittable let an operation without a form pass");
        return *expr;
      });
}

std::string FunctionPrinter::getArguments(ValueRange values) {
  std::string text;
  llvm::ListSeparator comma;
  for (Value value : values)
    text += (StringRef(comma) + getText(value)).str();
  return text;
}

CudaExpr FunctionPrinter::getElementPlace(Value memref, ValueRange indices) {
  // A buffer of rank 0 is passed as its address.
  return indices.empty() ? CudaExpr{getText(memref)}
                         : CudaExpr{getText(memref) + ".at(" + getArguments(indices) + ")"};
}

//===----------------------------------------------------------------------===//
// Variables and assignments
//===----------------------------------------------------------------------===//

void FunctionPrinter::printVariable(Value value, const CudaExpr &initial) {
  bool isConstant =
      isConstantName(names.getName(value)) && !value.getType().isF16() && !value.getType().isBF16();
  os << (isConstant ? "constexpr " : "const ") << getScalarType(value.getType()) << ' '
     << names.getName(value) << " = " << initial.text << ";\n";
}

bool FunctionPrinter::mentions(Value value, Value variable) const {
  if (names.getName(value) == names.getName(variable))
    return !names.getName(value).empty();
  Operation *op = value.getDefiningOp();
  return op && names.isInlined(op) &&
         llvm::any_of(op->getOperands(), [&](Value operand) { return mentions(operand, variable); });
}

void FunctionPrinter::printAssignments(ArrayRef<Assignment> assignments) {
  SmallVector<std::string> texts;
  for (size_t i = 0; i < assignments.size(); ++i) {
    const Assignment &assignment = assignments[i];
    texts.push_back(getText(assignment.value));
    bool readsEarlierTarget = llvm::any_of(assignments.take_front(i), [&](const Assignment &earlier) {
      return mentions(assignment.value, earlier.target);
    });
    if (!readsEarlierTarget)
      continue;
    std::string copy = (names.getName(assignment.target) + "_next").str();
    os << "const " << getScalarType(assignment.target.getType()) << ' ' << copy << " = " << texts.back()
       << ";\n";
    texts.back() = copy;
  }
  for (auto [assignment, text] : llvm::zip(assignments, texts))
    if (names.getName(assignment.target) != text)
      os << names.getName(assignment.target) << " = " << text << ";\n";
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

void FunctionPrinter::printFor(scf::ForOp op) {
  for (auto [argument, initial] : llvm::zip(op.getRegionIterArgs(), op.getInitArgs()))
    os << getScalarType(argument.getType()) << ' ' << names.getName(argument) << " = " << getText(initial)
       << ";\n";
  StringRef variable = names.getName(op.getInductionVar());
  std::string step = getText(op.getStep());
  if (op->hasAttr("unroll"))
    os << "#pragma unroll\n";
  os << "for (" << getScalarType(op.getInductionVar().getType()) << ' ' << variable << " = "
     << getText(op.getLowerBound()) << "; " << variable << " < " << getText(op.getUpperBound()) << "; ";
  if (step == "1")
    os << "++" << variable;
  else
    os << variable << " += " << step;
  os << ") ";
  {
    auto scope = os.scope("{\n", "}\n");
    printStatements(*op.getBody());
    SmallVector<Assignment> assignments;
    for (auto [argument, value] : llvm::zip(op.getRegionIterArgs(), op.getYieldedValues()))
      assignments.push_back({argument, value});
    printAssignments(assignments);
  }
}

void FunctionPrinter::printIf(scf::IfOp op) {
  for (Value result : op.getResults())
    os << getScalarType(result.getType()) << ' ' << names.getName(result) << ";\n";
  auto printBranch = [&](Region &region) {
    os << "{\n";
    os.indent();
    printStatements(region.front());
    SmallVector<Assignment> assignments;
    for (auto [result, value] : llvm::zip(op.getResults(), region.front().getTerminator()->getOperands()))
      assignments.push_back({result, value});
    printAssignments(assignments);
    os.unindent();
    os << "}";
  };
  os << "if (" << getText(op.getCondition()) << ") ";
  printBranch(op.getThenRegion());
  if (!op.getElseRegion().empty() &&
      (op.getNumResults() != 0 || !llvm::hasSingleElement(op.getElseRegion().front()))) {
    os << " else ";
    printBranch(op.getElseRegion());
  }
  os << "\n";
}

void FunctionPrinter::printWhile(scf::WhileOp op) {
  for (auto [argument, initial] : llvm::zip(op.getBeforeArguments(), op.getInits()))
    os << getScalarType(argument.getType()) << ' ' << names.getName(argument) << " = " << getText(initial)
       << ";\n";
  scf::ConditionOp condition = op.getConditionOp();
  bool isUnchanged = carriesUnchanged(op);
  if (!isUnchanged)
    for (Value result : op.getResults())
      os << getScalarType(result.getType()) << ' ' << names.getName(result) << ";\n";
  // The condition in the head, where it is one operation.
  Operation *only = condition.getCondition().getDefiningOp();
  bool isHead =
      isUnchanged && only && only == &op.getBeforeBody()->front() && only->getNextNode() == condition;
  os << "while (" << (isHead ? getInlineExpr(only).text : "true") << ") ";
  auto scope = os.scope("{\n", "}\n");
  if (!isHead) {
    printStatements(*op.getBeforeBody());
    os << "if (" << makeUnary("!", getExpr(condition.getCondition())).text << ") ";
    auto leave = os.scope("{\n", "}\n");
    if (!isUnchanged)
      for (auto [result, value] : llvm::zip(op.getResults(), condition.getArgs()))
        os << names.getName(result) << " = " << getText(value) << ";\n";
    os << "break;\n";
  }
  if (!isUnchanged)
    for (auto [argument, value] : llvm::zip(op.getAfterArguments(), condition.getArgs()))
      printVariable(argument, getExpr(value));
  printStatements(*op.getAfterBody());
  // Where one name stands for both arguments, the assigned values read the later one.
  ValueRange targets = isUnchanged ? ValueRange(op.getAfterArguments()) : ValueRange(op.getBeforeArguments());
  SmallVector<Assignment> assignments;
  for (auto [argument, value] : llvm::zip(targets, op.getYieldOp().getOperands()))
    assignments.push_back({argument, value});
  printAssignments(assignments);
}

void FunctionPrinter::printReturn(gpu::ReturnOp op) {
  if (op->getNumOperands() == 1)
    os << "return " << getText(op->getOperand(0)) << ";\n";
}

//===----------------------------------------------------------------------===//
// Statements
//===----------------------------------------------------------------------===//

void FunctionPrinter::printStatements(Block &block) {
  for (Operation &op : block) {
    if (names.isInlined(&op) || names.isAlias(&op))
      continue;
    if (auto comment = op.getAttrOfType<StringAttr>("comment"))
      os << (&op == &block.front() ? "" : "\n") << "// " << comment.getValue() << "\n";
    printStatement(&op);
  }
}

void FunctionPrinter::printStatement(Operation *op) {
  if (printTileOp(op) || printAsyncOp(op))
    return;
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](scf::ForOp loop) { printFor(loop); })
      .Case([&](scf::IfOp branch) { printIf(branch); })
      .Case([&](scf::WhileOp loop) { printWhile(loop); })
      .Case([&](gpu::ReturnOp returnOp) { printReturn(returnOp); })
      // What regions yield is printed by their operations.
      .Case<scf::YieldOp, scf::ConditionOp, tile::YieldOp>([](Operation *) {})
      .Case([&](gpu::BarrierOp) { os << "__syncthreads();\n"; })
      .Case([&](gpu::AllReduceOp vote) {
        StringRef name =
            vote.getOp() == gpu::AllReduceOperation::OR ? "__syncthreads_or" : "__syncthreads_and";
        printVariable(vote, makeCall(name, {getExpr(vote.getValue())}));
      })
      .Case([&](memref::LoadOp load) {
        Type type = load.getType();
        CudaExpr element = load.getIndices().empty() ? makeUnary("*", {getText(load.getMemRef())})
                                                     : CudaExpr{"load(" + getText(load.getMemRef()) + ", " +
                                                                getArguments(load.getIndices()) + ")"};
        printVariable(load, type.isIndex() ? makeCall("to_index", {element}) : element);
      })
      .Case([&](memref::StoreOp store) {
        os << '*' << getElementPlace(store.getMemRef(), store.getIndices()).text << " = "
           << getText(store.getValueToStore()) << ";\n";
      })
      .Case([&](memref::AtomicRMWOp atomic) {
        std::string value = getText(atomic.getValue());
        std::string call = atomic.getIndices().empty()
                               ? "atomicAdd(" + getText(atomic.getMemref()) + ", " + value + ")"
                               : "add_to(" + getText(atomic.getMemref()) + ", " + value + ", " +
                                     getArguments(atomic.getIndices()) + ")";
        if (atomic.getResult().use_empty())
          os << call << ";\n";
        else
          printVariable(atomic.getResult(), {call});
      })
      .Default([&](Operation *scalar) { printVariable(scalar->getResult(0), getInlineExpr(scalar)); });
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

bool cuda::isReadOnly(Value memref) {
  return llvm::all_of(memref.getUsers(), [&](Operation *user) {
    if (auto cast = dyn_cast<memref::CastOp>(user))
      return isReadOnly(cast.getResult());
    if (isMemoryEffectFree(user))
      return true;
    auto effects = dyn_cast<MemoryEffectOpInterface>(user);
    if (!effects)
      return false;
    SmallVector<MemoryEffects::EffectInstance> onMemref;
    effects.getEffectsOnValue(memref, onMemref);
    return llvm::none_of(onMemref, [](const MemoryEffects::EffectInstance &effect) {
      return isa<MemoryEffects::Write>(effect.getEffect());
    });
  });
}

std::string FunctionPrinter::getWideName(BlockArgument argument) {
  return (names.getName(argument) + "_wide").str();
}

std::string FunctionPrinter::getParameter(BlockArgument argument) {
  std::string name = names.getName(argument).str();
  // The accelerator reads it where the launch put it: a copy would lie in local memory.
  if (isa<tile::TensorMapType>(argument.getType()))
    return "const __grid_constant__ TensorMap " + name;
  auto memref = dyn_cast<MemRefType>(argument.getType());
  // Kernels are given an index in 64 bits, as callers have it; it fits 32.
  if (argument.getType().isIndex() && function.isKernel())
    return "const int64 " + getWideName(argument);
  if (!memref)
    return "const " + getScalarType(argument.getType()) + " " + name;
  std::string element = (isReadOnly(argument) ? "const " : "") + getElementType(memref.getElementType());
  if (memref.getRank() == 0)
    return element + " *const " + name;
  return "const Tensor<" + element + ", " + llvm::utostr(memref.getRank()) + "> " + name;
}

void FunctionPrinter::printHeaderComment() {
  os << "// " << function.getName();
  if (auto summary = function->getAttrOfType<StringAttr>("summary"))
    os << ": " << summary.getValue();
  os << "\n";
  auto kernel = function->getAttrOfType<tile::KernelAttr>(tile::AttnTileDialect::getKernelAttrName());
  os << "// " << kernel.getWarps() << " warps, " << kernel.getBlocksPerMultiprocessor() << " block"
     << (kernel.getBlocksPerMultiprocessor() == 1 ? "" : "s") << " a multiprocessor; "
     << kernel.getSharedBytes() << " bytes of shared memory";
  llvm::ListSeparator separator(" | ");
  StringRef start = ": ";
  auto printPlace = [&](Value storage, int64_t bytes, int64_t offset) {
    os << start << StringRef(separator) << names.getName(storage) << ' ' << bytes << " at " << offset;
    start = "";
  };
  function.walk([&](tile::SharedAllocOp alloc) {
    printPlace(alloc.getTile(), alloc.getTile().getType().getBytes(), *alloc.getOffset());
  });
  function.walk([&](tile::PipelineAllocOp alloc) {
    printPlace(alloc.getPipeline(), alloc.getType().getBytes(), *alloc.getOffset());
  });
  os << "\n";
}

void FunctionPrinter::printSignature() {
  StringRef separator = "\n    ";
  if (function.isKernel()) {
    auto kernel = function->getAttrOfType<tile::KernelAttr>(tile::AttnTileDialect::getKernelAttrName());
    os << "extern \"C\" __global__ void __launch_bounds__(" << 32 * kernel.getWarps() << ", "
       << kernel.getBlocksPerMultiprocessor() << ")\n";
  } else {
    os << "__device__ __forceinline__ " << getScalarType(function.getResultTypes().front()) << ' ';
    separator = "";
  }
  os << function.getName() << '(';
  for (BlockArgument argument : function.getArguments()) {
    os << separator << getParameter(argument);
    separator = function.isKernel() ? ",\n    " : ", ";
  }
  os << ") ";
}

/// Whether a statement of the function names the number of its threads.
static bool copiesTiles(gpu::GPUFuncOp function) {
  return function
      .walk([](Operation *op) {
        auto store = dyn_cast<tile::StoreOp>(op);
        auto copy = dyn_cast<tile::CopyAsyncOp>(op);
        return (copy && !copy.getByWarp()) || (store && store.getVia()) ? WalkResult::interrupt()
                                                                        : WalkResult::advance();
      })
      .wasInterrupted();
}

void FunctionPrinter::print() {
  if (function.isKernel())
    printHeaderComment();
  printSignature();
  auto scope = os.scope("{\n", "}\n");
  if (function.isKernel()) {
    auto kernel = function->getAttrOfType<tile::KernelAttr>(tile::AttnTileDialect::getKernelAttrName());
    if (copiesTiles(function))
      os << "constexpr int kThreads = " << 32 * kernel.getWarps() << ";\n";
    function.walk([&](tile::WarpSpecializeOp roles) {
      os << "constexpr int kConsumers = " << roles.getConsumers() << ";\n";
    });
    if (kernel.getSharedBytes() > 0)
      os << "extern __shared__ __align__(" << getSharedAlignment(function) << ") unsigned char shared[];\n";
    for (BlockArgument argument : function.getArguments())
      if (argument.getType().isIndex())
        os << "const int " << names.getName(argument) << " = int(" << getWideName(argument) << ");\n";
  }
  printStatements(function.getBody().front());
}

/// Whether kernels have roles or take tensor maps.
static bool isOfHopper(gpu::GPUModuleOp module) {
  return module
      .walk([](Operation *op) {
        auto function = dyn_cast<gpu::GPUFuncOp>(op);
        bool takesMap =
            function && llvm::any_of(function.getArgumentTypes(), llvm::IsaPred<tile::TensorMapType>);
        return takesMap || isa<tile::WarpSpecializeOp>(op) ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

LogicalResult cuda::printCuda(gpu::GPUModuleOp module, raw_ostream &stream) {
  if (failed(verifyEmittable(module)))
    return failure();
  raw_indented_ostream os(stream);
  os << "#include \"attn/" << (isOfHopper(module) ? "hopper" : "portable") << ".cuh\"\n";
  os << "using namespace attn;\n";
  for (auto function : module.getOps<gpu::GPUFuncOp>()) {
    os << "\n";
    FunctionPrinter(function, os).print();
  }
  return success();
}
