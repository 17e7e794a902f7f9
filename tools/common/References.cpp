//===- References.cpp - the computations that results are checked against ----===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/common/References.h"
#include "dialect/AttnDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/TypeUtilities.h"
#include "passes/Reference.h"

using namespace mlir;
using namespace attn;

LogicalResult attn::addReferences(func::FuncOp function) {
  ReferenceOptions exact, standard;
  exact.computeType = ReferenceOptions::ComputeType::f64;
  exact.f64Boundary = true;
  standard.roundIntermediates = true;
  std::string name = function.getName().str();
  return success(succeeded(buildReferenceFunction(function, "exact_" + name, exact)) &&
                 succeeded(buildReferenceFunction(function, "standard_" + name, standard)));
}

bool attn::needsF32Form(func::FuncOp function) {
  return function
      .walk([](AttentionOpInterface op) {
        return op.getElementType().isF64() ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

/// The value of a constant in f32.
static TypedAttr getInF32(TypedAttr value) {
  Type f32 = Float32Type::get(value.getContext());
  if (auto number = dyn_cast<FloatAttr>(value); number && number.getType().isF64())
    return FloatAttr::get(f32, number.getValueAsDouble());
  auto numbers = dyn_cast<DenseFPElementsAttr>(value);
  if (!numbers || !numbers.getElementType().isF64())
    return value;
  return numbers.mapValues(f32, [&](const APFloat &number) {
    return FloatAttr::get(f32, number.convertToDouble()).getValue().bitcastToAPInt();
  });
}

void attn::convertToF32(ModuleOp module) {
  Type f32 = Float32Type::get(module.getContext());
  module.walk([](arith::ConstantOp constant) { constant.setValueAttr(getInF32(constant.getValue())); });
  AttrTypeReplacer replacer;
  replacer.addReplacement([&](Float64Type) { return f32; });
  // The constants are done, and the scale of an attention is in f64 for every type of its tensors.
  replacer.addReplacement([](FloatAttr number) { return std::make_pair(number, WalkResult::skip()); });
  replacer.recursivelyReplaceElementsIn(module, /*replaceAttrs=*/true, /*replaceLocs=*/false,
                                        /*replaceTypes=*/true);
  // What is left of conversions between the two.
  module.walk([](Operation *op) {
    if (!isa<arith::ExtFOp, arith::TruncFOp>(op) || op->getOperand(0).getType() != op->getResult(0).getType())
      return;
    op->getResult(0).replaceAllUsesWith(op->getOperand(0));
    op->erase();
  });
}

/// A module with the computations that the entry is checked against.
static llvm::Expected<Program> compileReferences(const EntryPoint &entry, bool inF32,
                                                 const ProgramOptions &options) {
  OwningOpRef<ModuleOp> module = ModuleOp(*entry.module).clone();
  std::string name = entry.getFunction().getName().str();
  if (inF32)
    convertToF32(*module);
  {
    FirstDiagnostic diagnostic(module->getContext());
    if (failed(addReferences(module->lookupSymbol<func::FuncOp>(name))))
      return diagnostic.take("the reference cannot be built");
  }
  // What else is public would be compiled for nothing.
  for (auto other : llvm::make_early_inc_range(module->getOps<func::FuncOp>()))
    if (other.isPublic() && other.getName() != "exact_" + name && other.getName() != "standard_" + name)
      other.erase();
  return Program::compile(std::move(module), options);
}

Computation attn::getComputation(const Program &program, std::string name,
                                 ArrayRef<SmallVector<int64_t>> shapes) {
  return [program, name = std::move(name), shapes = llvm::to_vector(shapes)](
             ArrayRef<HostTensor> inputs) -> llvm::Expected<std::vector<HostTensor>> {
    FunctionType type = program.getSignature(name);
    std::vector<HostTensor> converted, results;
    SmallVector<const HostTensor *> arguments;
    for (auto [input, type] : llvm::zip_equal(inputs, type.getInputs()))
      converted.push_back(input.castTo(getElementTypeOrSelf(type)));
    for (const HostTensor &input : converted)
      arguments.push_back(&input);
    for (auto [type, shape] : llvm::zip_equal(type.getResults(), shapes))
      results.emplace_back(getElementTypeOrSelf(type), shape);
    if (llvm::Error error = program.call(name, arguments, results))
      return std::move(error);
    return std::move(results);
  };
}

/// The inputs that are operands of attention, or gradients of its results, and that no region reads.
static SmallVector<bool> getOperands(const EntryPoint &entry) {
  SmallVector<bool> isOperand;
  for (BlockArgument argument : entry.getFunction().getArguments())
    isOperand.push_back(!argument.use_empty() && llvm::all_of(argument.getUses(), [](OpOperand &use) {
      auto op = dyn_cast<AttentionOpInterface>(use.getOwner());
      return op && !llvm::is_contained(op.getCaptures(), use.get());
    }));
  return isOperand;
}

llvm::Expected<Computations> attn::compileComputations(const EntryPoint &entry, Computation ours,
                                                       ArrayRef<HostTensor> results,
                                                       const ProgramOptions &options) {
  SmallVector<SmallVector<int64_t>> shapes;
  for (const HostTensor &result : results)
    shapes.emplace_back(result.getShape());
  std::string name = entry.getFunction().getName().str();
  Computations computations;
  computations.isOperand = getOperands(entry);
  computations.ours = std::move(ours);
  auto set = [&](Computation &computation, const Program &program, std::string name) {
    computation = getComputation(program, std::move(name), shapes);
  };
  llvm::Expected<Program> reference = compileReferences(entry, /*inF32=*/false, options.forCpu());
  if (!reference)
    return reference.takeError();
  set(computations.exact, *reference, "exact_" + name);
  if (needsF32Form(entry.getFunction())) {
    reference = compileReferences(entry, /*inF32=*/true, options.forCpu());
    if (!reference)
      return reference.takeError();
    set(computations.exactOfF32, *reference, "exact_" + name);
  }
  set(computations.standard, *reference, "standard_" + name);
  return std::move(computations);
}
