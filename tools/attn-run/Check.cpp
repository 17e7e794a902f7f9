//===- Check.cpp - compares results with the f64 reference --------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/attn-run/Check.h"
#include "passes/Reference.h"
#include "tools/common/Contract.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace attn;

/// A module with the reference of the entry in f64, from inputs to results, and with the standard
/// computation.
static llvm::Expected<OwningOpRef<ModuleOp>> buildChecks(const EntryPoint &entry) {
  OwningOpRef<ModuleOp> module = ModuleOp(*entry.module).clone();
  FirstDiagnostic diagnostic(module->getContext());
  auto function = module->lookupSymbol<func::FuncOp>(entry.getFunction().getName());
  ReferenceOptions exact, standard;
  exact.computeType = ReferenceOptions::ComputeType::f64;
  exact.f64Boundary = true;
  standard.roundIntermediates = true;
  if (failed(buildReferenceFunction(function, "attn_exact", exact)) ||
      failed(buildReferenceFunction(function, "attn_standard", standard)))
    return diagnostic.take("the reference cannot be built");
  // What else is public would be compiled for nothing.
  for (auto other : llvm::make_early_inc_range(module->getOps<func::FuncOp>()))
    if (other.isPublic() && other.getName() != "attn_exact" && other.getName() != "attn_standard")
      other.erase();
  return std::move(module);
}

llvm::Expected<bool> attn::checkResults(llvm::raw_ostream &os, const EntryPoint &entry,
                                        ArrayRef<HostTensor> inputs, ArrayRef<HostTensor> results,
                                        const ProgramOptions &options) {
  llvm::Expected<OwningOpRef<ModuleOp>> module = buildChecks(entry);
  if (!module)
    return module.takeError();
  llvm::Expected<Program> program = Program::compile(std::move(*module), options);
  if (!program)
    return program.takeError();

  Type f64 = Float64Type::get(entry.getFunction().getContext());
  SmallVector<HostTensor> exactInputs;
  SmallVector<const HostTensor *> exactArguments, standardArguments;
  for (const HostTensor &input : inputs) {
    exactInputs.push_back(
        input.castTo(isa<FloatType>(input.getElementType()) ? f64 : input.getElementType()));
    standardArguments.push_back(&input);
  }
  for (const HostTensor &input : exactInputs)
    exactArguments.push_back(&input);
  SmallVector<HostTensor> exact, standard;
  for (const HostTensor &result : results) {
    exact.emplace_back(isa<FloatType>(result.getElementType()) ? f64 : result.getElementType(),
                       result.getShape());
    standard.emplace_back(result.getElementType(), result.getShape());
  }
  if (llvm::Error error = program->call("attn_exact", exactArguments, exact))
    return std::move(error);
  if (llvm::Error error = program->call("attn_standard", standardArguments, standard))
    return std::move(error);

  os << "check against the f64 reference: error <= 2 x error of the standard computation + ulp\n";
  bool passes = true;
  for (auto [index, result] : llvm::enumerate(results)) {
    os << "  " << llvm::left_justify(entry.resultNames[index], 12);
    if (!isa<FloatType>(result.getElementType())) {
      bool equal = getMaxError(result, exact[index]).error == 0;
      os << (equal ? "equal  pass\n" : "not equal  FAIL\n");
      passes &= equal;
      continue;
    }
    ContractCheck check = checkContract(result, standard[index], exact[index]);
    os << llvm::format("max error %.3g, bound %.3g = 2 x %.3g + %d x %.3g", check.ours.error, check.bound,
                       check.standardError, check.numUlps, check.ulp);
    if (check.passes) {
      os << "  pass\n";
      continue;
    }
    passes = false;
    os << "  FAIL at " << formatPosition(check.ours.index, result.getShape())
       << llvm::format(": %.9g, expected %.9g\n", result.get(check.ours.index),
                       exact[index].get(check.ours.index));
  }
  return passes;
}
