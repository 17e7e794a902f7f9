//===- LaunchPlanBuilder.cpp - launch plans of lowered functions ------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "codegen/LaunchPlanBuilder.h"
#include "codegen/CudaPrinter.h"
#include "codegen/HostExpr.h"
#include "codegen/NameSelection.h"
#include "dialect/AttnTileDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Matchers.h"
#include "passes/BufferTypes.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace attn;
using namespace attn::cuda;

/// What 16-byte accesses need.
static constexpr int64_t kAccessBytes = 16;

//===----------------------------------------------------------------------===//
// Types and names
//===----------------------------------------------------------------------===//

std::optional<ElementType> cuda::getElementKind(Type type) {
  if (type.isIndex() || type.isSignlessInteger(64))
    return ElementType::I64;
  if (type.isSignlessInteger(1))
    return ElementType::I1;
  if (type.isSignlessInteger(8))
    return ElementType::I8;
  if (type.isSignlessInteger(16))
    return ElementType::I16;
  if (type.isSignlessInteger(32))
    return ElementType::I32;
  if (type.isBF16())
    return ElementType::BF16;
  if (type.isF16())
    return ElementType::F16;
  if (type.isF32())
    return ElementType::F32;
  if (type.isF64())
    return ElementType::F64;
  return std::nullopt;
}

static std::string getNameOr(Location location, const Twine &fallback) {
  StringRef hint = getNameHint(location);
  return hint.empty() ? fallback.str() : hint.str();
}

/// The buffer itself of a view of all of it, or of a map.
static Value stripCasts(Value buffer) {
  if (auto cast = buffer.getDefiningOp<memref::CastOp>())
    return stripCasts(cast.getSource());
  if (auto map = buffer.getDefiningOp<tile::TensorMapOp>())
    return stripCasts(map.getBuffer());
  return buffer;
}

/// Whether a kernel accesses a buffer, or what it takes a map of, in 16 bytes at a time.
static bool isAccessedAligned(Value buffer) {
  if (isa<tile::TensorMapType>(buffer.getType()))
    return true;
  return isa<MemRefType>(buffer.getType()) && llvm::any_of(buffer.getUsers(), [](Operation *user) {
           if (auto cast = dyn_cast<memref::CastOp>(user))
             return isAccessedAligned(cast.getResult());
           // The attribute of every attn_tile operation that copies rows.
           return isa_and_present<tile::AttnTileDialect>(user->getDialect()) && user->hasAttr("aligned");
         });
}

//===----------------------------------------------------------------------===//
// One variant
//===----------------------------------------------------------------------===//

namespace {
class VariantBuilder {
public:
  VariantBuilder(LaunchPlan &plan, func::FuncOp function) : plan(plan), function(function) {}

  LogicalResult addSignature();
  LogicalResult addBody();

private:
  LogicalResult addParameter(BlockArgument argument);
  LogicalResult addResult(BlockArgument argument, ArrayAttr sizes);
  LogicalResult visit(Operation *op);
  LogicalResult addWorkspace(memref::AllocOp op);
  LogicalResult addFill(linalg::FillOp op);
  LogicalResult addRequirement(cf::AssertOp op);
  LogicalResult addTakeIf(tile::TakeIfOp op);
  LogicalResult addLaunch(gpu::LaunchFuncOp op);
  FailureOr<ArgumentSpec> getArgument(gpu::LaunchFuncOp op, Value value, Value inKernel);
  FailureOr<int32_t> addModule(gpu::GPUModuleOp module);
  FailureOr<Expr> getDim(Operation *op, Value buffer, int64_t dimension);
  FailureOr<Expr> getExpr(Operation *user, Value value);
  void addCondition(Expr condition);

  LaunchPlan &plan;
  func::FuncOp function;
  VariantSpec variant;
  /// The place of an argument among the parameters or among the results.
  llvm::DenseMap<Value, int32_t> parameters, results, workspaces;
  llvm::DenseMap<Value, Expr> exprs;
  llvm::DenseMap<Operation *, int32_t> modules;
  /// What launches so far were given.
  llvm::DenseSet<Value> launched;
  /// What the variant's condition holds already.
  std::vector<Expr> conditions;
};
} // namespace

static ArrayAttr getResultSizes(BlockArgument argument) {
  auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  return function.getArgAttrOfType<ArrayAttr>(argument.getArgNumber(), getResultAttrName());
}

LogicalResult VariantBuilder::addSignature() {
  for (BlockArgument argument : function.getArguments())
    if (!getResultSizes(argument))
      parameters.try_emplace(argument, static_cast<int32_t>(parameters.size()));
  if (!plan.variants.empty()) {
    if (parameters.size() != plan.parameters.size() ||
        function.getNumArguments() != parameters.size() + plan.results.size())
      return function.emitOpError("takes or returns something else than in the first variant");
    int32_t number = 0;
    for (BlockArgument argument : function.getArguments())
      if (!parameters.contains(argument))
        results[argument] = number++;
    return success();
  }
  for (BlockArgument argument : function.getArguments()) {
    ArrayAttr sizes = getResultSizes(argument);
    if (failed(sizes ? addResult(argument, sizes) : addParameter(argument)))
      return failure();
  }
  return success();
}

LogicalResult VariantBuilder::addParameter(BlockArgument argument) {
  ParameterSpec spec;
  int32_t index = parameters.lookup(argument);
  spec.name = getNameOr(argument.getLoc(), "argument_" + Twine(index));
  auto buffer = dyn_cast<MemRefType>(argument.getType());
  std::optional<ElementType> type = getElementKind(buffer ? buffer.getElementType() : argument.getType());
  if (!type)
    return function.emitOpError("takes ") << argument.getType() << ", which a launch plan cannot pass";
  spec.type = *type;
  spec.isScalar = !buffer;
  if (buffer)
    for (auto [dimension, size] : llvm::enumerate(buffer.getShape()))
      spec.sizes.push_back(ShapedType::isDynamic(size) ? anySize(index, static_cast<int32_t>(dimension))
                                                       : Expr(size));
  plan.parameters.push_back(std::move(spec));
  return success();
}

LogicalResult VariantBuilder::addResult(BlockArgument argument, ArrayAttr sizes) {
  auto buffer = dyn_cast<MemRefType>(argument.getType());
  std::optional<ElementType> type = buffer ? getElementKind(buffer.getElementType()) : std::nullopt;
  if (!type || static_cast<int64_t>(sizes.size()) != buffer.getRank())
    return function.emitOpError("returns ") << argument.getType() << ", which a launch plan cannot pass";
  ResultSpec spec;
  spec.name = getNameOr(argument.getLoc(), "result_" + Twine(plan.results.size()));
  spec.type = *type;
  for (auto [dimension, attribute] : llvm::enumerate(sizes)) {
    int64_t size = buffer.getDimSize(dimension);
    if (!ShapedType::isDynamic(size)) {
      spec.sizes.push_back(size);
      continue;
    }
    if (auto number = dyn_cast<IntegerAttr>(attribute)) {
      spec.sizes.push_back(number.getInt());
      continue;
    }
    auto source = dyn_cast<ArrayAttr>(attribute);
    if (!source || (source.size() != 2 && source.size() != 3))
      return function.emitOpError("has a result, argument ")
             << argument.getArgNumber() << ", of which size " << dimension
             << " is not known to be one of an argument's";
    auto position = [&](unsigned i) { return cast<IntegerAttr>(source[i]).getInt(); };
    Value from = function.getArgument(position(0));
    FailureOr<Expr> expr = getDim(function, from, position(1));
    if (failed(expr))
      return failure();
    spec.sizes.push_back(source.size() == 3 ? Expr::ceilDiv(*expr, position(2)) : *expr);
  }
  results[argument] = static_cast<int32_t>(plan.results.size());
  plan.results.push_back(std::move(spec));
  return success();
}

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

FailureOr<Expr> VariantBuilder::getDim(Operation *op, Value buffer, int64_t dimension) {
  buffer = stripCasts(buffer);
  auto type = cast<MemRefType>(buffer.getType());
  if (dimension < 0 || dimension >= type.getRank())
    return op->emitOpError("asks for dimension ") << dimension << " of " << type;
  if (!type.isDynamicDim(dimension))
    return Expr(type.getDimSize(dimension));
  if (auto it = parameters.find(buffer); it != parameters.end())
    return Expr::dim(it->second, static_cast<int32_t>(dimension));
  if (auto it = results.find(buffer); it != results.end())
    return plan.results[it->second].sizes[dimension];
  if (auto it = workspaces.find(buffer); it != workspaces.end())
    return variant.workspaces[it->second].sizes[dimension];
  return op->emitOpError("asks for the size of a buffer that is neither an argument nor allocated here");
}

FailureOr<Expr> VariantBuilder::getExpr(Operation *user, Value value) {
  auto it = exprs.find(value);
  if (it != exprs.end())
    return it->second;
  InFlightDiagnostic diagnostic = user->emitOpError("uses ");
  if (Operation *op = value.getDefiningOp())
    diagnostic << "the result of '" << op->getName() << "'";
  else
    diagnostic << "an argument of type " << value.getType();
  return diagnostic << ", which is not computed from sizes";
}

LogicalResult VariantBuilder::addWorkspace(memref::AllocOp op) {
  MemRefType type = op.getType();
  std::optional<ElementType> element = getElementKind(type.getElementType());
  if (!element || !type.getLayout().isIdentity())
    return op.emitOpError("expected a contiguous buffer of numbers, got ") << type;
  WorkspaceSpec spec;
  spec.name = getNameOr(op.getLoc(), "workspace_" + Twine(variant.workspaces.size()));
  spec.type = *element;
  spec.leftZero = op->hasAttr(tile::AttnTileDialect::getLeftZeroAttrName());
  auto dynamicSizes = op.getDynamicSizes().begin();
  for (int64_t size : type.getShape()) {
    if (!ShapedType::isDynamic(size)) {
      spec.sizes.push_back(size);
      continue;
    }
    FailureOr<Expr> expr = getExpr(op, *dynamicSizes++);
    if (failed(expr))
      return failure();
    spec.sizes.push_back(*expr);
  }
  workspaces[op.getResult()] = static_cast<int32_t>(variant.workspaces.size());
  variant.workspaces.push_back(std::move(spec));
  return success();
}

LogicalResult VariantBuilder::addFill(linalg::FillOp op) {
  Attribute value;
  bool isZero = matchPattern(op.getInputs()[0], m_Constant(&value)) &&
                (matchPattern(value, m_Zero()) || matchPattern(value, m_PosZeroFloat()));
  if (!isZero)
    return op.emitOpError("fills with something else than zero, which a launch plan cannot do");
  Value buffer = stripCasts(op.getOutputs()[0]);
  if (launched.contains(buffer))
    return op.emitOpError(
        "comes after a launch with the same buffer; a launch plan fills before the first launch");
  if (auto it = workspaces.find(buffer); it != workspaces.end())
    variant.workspaces[it->second].zeroed = true;
  else if (auto it = results.find(buffer); it != results.end())
    plan.results[it->second].zeroed = true;
  else
    return op.emitOpError("fills a buffer that is neither a result nor allocated here");
  return success();
}

LogicalResult VariantBuilder::addRequirement(cf::AssertOp op) {
  FailureOr<Expr> condition = getExpr(op, op.getArg());
  if (failed(condition))
    return failure();
  Requirement requirement{*condition, op.getMsg().str()};
  bool isKnown = llvm::any_of(plan.requirements, [&](const Requirement &known) {
    return known.message == requirement.message && known.condition == requirement.condition;
  });
  if (!isKnown)
    plan.requirements.push_back(std::move(requirement));
  return success();
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

void VariantBuilder::addCondition(Expr condition) {
  if (llvm::is_contained(conditions, condition))
    return;
  conditions.push_back(condition);
  variant.condition = conditions.size() == 1 ? condition : Expr::min(variant.condition, condition);
}

LogicalResult VariantBuilder::addTakeIf(tile::TakeIfOp op) {
  FailureOr<Expr> condition = getExpr(op, op.getCondition());
  if (failed(condition))
    return failure();
  addCondition(*condition);
  if (variant.name.empty()) // else what it says is one more condition
    variant.name = op.getName().str();
  return success();
}

FailureOr<ArgumentSpec> VariantBuilder::getArgument(gpu::LaunchFuncOp op, Value value, Value inKernel) {
  if (auto map = value.getDefiningOp<tile::TensorMapOp>()) {
    FailureOr<ArgumentSpec> tensor = getArgument(op, map.getBuffer(), inKernel);
    if (failed(tensor))
      return failure();
    tile::TensorMapType type = map.getType();
    return ArgumentSpec::tensorMap(*tensor, static_cast<int32_t>(type.getRows()),
                                   static_cast<int32_t>(type.getColumns()));
  }
  Value buffer = stripCasts(value);
  bool isAligned = isAccessedAligned(inKernel);
  if (auto it = parameters.find(buffer); it != parameters.end()) {
    if (isAligned)
      addCondition(Expr::parameterAligned(it->second, kAccessBytes));
    return ArgumentSpec::parameter(it->second);
  }
  if (auto it = results.find(buffer); it != results.end()) {
    if (isAligned)
      addCondition(Expr::resultAligned(it->second, kAccessBytes));
    return ArgumentSpec::result(it->second);
  }
  if (auto it = workspaces.find(buffer); it != workspaces.end()) {
    // The workspace itself is aligned, and so are its rows where they are multiples of 16 bytes.
    auto type = cast<MemRefType>(buffer.getType());
    int64_t rowBytes = type.getRank() ? type.getShape().back() * type.getElementTypeBitWidth() / 8 : 0;
    if (isAligned && type.getRank() &&
        (type.isDynamicDim(type.getRank() - 1) || rowBytes % kAccessBytes != 0))
      return op.emitOpError("passes a workspace whose rows are not multiples of 16 bytes to aligned copies: ")
             << type;
    return ArgumentSpec::workspace(it->second);
  }
  FailureOr<Expr> expr = getExpr(op, value);
  if (failed(expr))
    return failure();
  std::optional<ElementType> type = getElementKind(value.getType());
  if (type != ElementType::I64 && type != ElementType::I32)
    return op.emitOpError("passes an expression of type ")
           << value.getType() << ", which a launch plan cannot compute";
  return ArgumentSpec::expression(*expr, *type);
}

FailureOr<int32_t> VariantBuilder::addModule(gpu::GPUModuleOp module) {
  auto [it, isNew] = modules.try_emplace(module, static_cast<int32_t>(plan.modules.size()));
  if (!isNew)
    return it->second;
  ModuleSpec spec;
  spec.name = module.getName().str();
  // Modules of different variants are called the same.
  auto isTaken = [&](const std::string &name) {
    return llvm::any_of(plan.modules, [&](const ModuleSpec &other) { return other.name == name; });
  };
  for (int number = 1; isTaken(spec.name); ++number)
    spec.name = (module.getName() + "." + Twine(number)).str();
  llvm::raw_string_ostream stream(spec.source);
  if (failed(printCuda(module, stream)))
    return failure();
  module.walk([&](gpu::GPUFuncOp kernel) {
    if (auto resources = kernel->getAttrOfType<tile::KernelAttr>(tile::AttnTileDialect::getKernelAttrName()))
      spec.optimization = static_cast<int32_t>(resources.getOptimization());
  });
  // The same kernels in two variants are compiled once.
  for (auto [index, other] : llvm::enumerate(plan.modules))
    if (other.source == spec.source)
      return it->second = static_cast<int32_t>(index);
  plan.modules.push_back(std::move(spec));
  return it->second;
}

LogicalResult VariantBuilder::addLaunch(gpu::LaunchFuncOp op) {
  auto kernel = SymbolTable::lookupNearestSymbolFrom<gpu::GPUFuncOp>(op, op.getKernel());
  auto resources = kernel
                       ? kernel->getAttrOfType<tile::KernelAttr>(tile::AttnTileDialect::getKernelAttrName())
                       : tile::KernelAttr();
  if (!resources)
    return op.emitOpError("expected ")
           << op.getKernel() << " to be a kernel with '" << tile::AttnTileDialect::getKernelAttrName() << "'";
  FailureOr<int32_t> module = addModule(kernel->getParentOfType<gpu::GPUModuleOp>());
  if (failed(module))
    return failure();

  LaunchSpec spec;
  spec.module = *module;
  spec.kernel = kernel.getName().str();
  spec.threads = static_cast<int32_t>(32 * resources.getWarps());
  spec.dynamicSharedBytes = resources.getSharedBytes();
  spec.startsEarly =
      kernel.walk([](tile::AwaitKernelsOp) { return WalkResult::interrupt(); }).wasInterrupted();
  gpu::KernelDim3 grid = op.getGridSizeOperandValues(), block = op.getBlockSizeOperandValues();
  for (auto [dimension, value] : llvm::enumerate(ArrayRef<Value>{grid.x, grid.y, grid.z})) {
    FailureOr<Expr> expr = getExpr(op, value);
    if (failed(expr))
      return failure();
    spec.grid[dimension] = *expr;
  }
  for (auto [value, expected] : {std::pair(block.x, int64_t(spec.threads)), {block.y, 1}, {block.z, 1}})
    if (getConstantIntValue(value) != expected)
      return op.emitOpError("expected ") << spec.threads << " threads, the kernel's, all along x";
  for (auto [value, inKernel] : llvm::zip(op.getKernelOperands(), kernel.getArguments())) {
    launched.insert(stripCasts(value));
    FailureOr<ArgumentSpec> argument = getArgument(op, value, inKernel);
    if (failed(argument))
      return failure();
    spec.arguments.push_back(std::move(*argument));
  }
  variant.launches.push_back(std::move(spec));
  return success();
}

//===----------------------------------------------------------------------===//
// All of it
//===----------------------------------------------------------------------===//

LogicalResult VariantBuilder::visit(Operation *op) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case<memref::CastOp, memref::DeallocOp, tile::TensorMapOp, func::ReturnOp>(
          [](Operation *) { return success(); })
      .Case([&](memref::AllocOp alloc) { return addWorkspace(alloc); })
      .Case([&](linalg::FillOp fill) { return addFill(fill); })
      .Case([&](cf::AssertOp assertion) { return addRequirement(assertion); })
      .Case([&](gpu::LaunchFuncOp launch) { return addLaunch(launch); })
      .Case([&](tile::TakeIfOp takeIf) { return addTakeIf(takeIf); })
      .Case([&](memref::DimOp dim) -> LogicalResult {
        std::optional<int64_t> dimension = dim.getConstantIndex();
        if (!dimension)
          return dim.emitOpError("expected a constant dimension");
        FailureOr<Expr> expr = getDim(dim, dim.getSource(), *dimension);
        if (succeeded(expr))
          exprs[dim] = *expr;
        return expr;
      })
      .Default([&](Operation *other) -> LogicalResult {
        // Only what a fill writes; addFill looks at it.
        if (other->hasTrait<OpTrait::ConstantLike>() && !other->getResult(0).getType().isIntOrIndex())
          return success();
        if (other->getNumResults() != 1 || other->getName().getDialectNamespace() != "arith")
          return other->emitOpError("has no place in a launch plan");
        SmallVector<Expr> operands;
        for (Value operand : other->getOperands()) {
          FailureOr<Expr> expr = getExpr(other, operand);
          if (failed(expr))
            return failure();
          operands.push_back(*expr);
        }
        FailureOr<Expr> expr = buildHostExpr(other, operands);
        if (succeeded(expr))
          exprs[other->getResult(0)] = *expr;
        return expr;
      });
}

LogicalResult VariantBuilder::addBody() {
  if (!function.getBody().hasOneBlock() || function.getNumResults() != 0)
    return function.emitOpError("expected one block, and results in parameters");
  if (failed(addSignature()))
    return failure();
  for (Operation &op : function.getBody().front())
    if (failed(visit(&op)))
      return failure();
  // What is for some calls is asked for before what is for all.
  bool isSpecial = !variant.name.empty();
  if (!isSpecial)
    variant.name = conditions.empty() ? "any" : "aligned";
  plan.variants.insert(isSpecial ? plan.variants.begin() : plan.variants.end(), std::move(variant));
  return success();
}

FailureOr<LaunchPlan> cuda::buildLaunchPlan(ArrayRef<func::FuncOp> variants) {
  LaunchPlan plan;
  func::FuncOp first = variants.front();
  plan.name = first.getName().str();
  for (func::FuncOp function : variants)
    if (failed(VariantBuilder(plan, function).addBody()))
      return failure();
  if (Status status = validate(plan); !status.ok())
    return first.emitOpError("has no valid launch plan: ") << status.getMessage();
  return plan;
}
