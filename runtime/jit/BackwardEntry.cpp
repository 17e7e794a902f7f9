//===- BackwardEntry.cpp - turns an entry point into its backward function ----===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/jit/BackwardEntry.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Passes.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace attn;

/// Made unique: an argument may be used as two operands, and one may be called "out".
static void addName(SmallVectorImpl<std::string> &names, llvm::StringSet<> &used, std::string name) {
  std::string unique = name;
  for (int suffix = 1; !used.insert(unique).second; ++suffix)
    unique = name + "_" + std::to_string(suffix);
  names.push_back(unique);
}

static std::string getArgumentName(const EntryPoint &entry, Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  return argument ? entry.argNames[argument.getArgNumber()] : "operand";
}

llvm::Error attn::makeBackwardEntry(EntryPoint &entry) {
  func::FuncOp forward = entry.getFunction();
  std::string name = forward.getName().str();
  {
    FirstDiagnostic diagnostic(forward.getContext());
    DifferentiatePassOptions options;
    options.functions = {name};
    PassManager pm(forward.getContext());
    pm.addPass(createDifferentiatePass(options));
    if (failed(pm.run(*entry.module)))
      return diagnostic.take("@" + name + " cannot be differentiated");
  }
  auto backward = entry.module->lookupSymbol<func::FuncOp>(name + "_backward");
  if (!backward)
    return makeError("@%s has no attention to differentiate", name.c_str());

  SmallVector<std::string> argNames, resultNames;
  llvm::StringSet<> used;
  for (const std::string &argument : entry.argNames)
    addName(argNames, used, argument);
  addName(argNames, used, "out");
  addName(argNames, used, "lse");
  for (unsigned i = 0; argNames.size() < backward.getNumArguments(); ++i)
    addName(argNames, used, "d_" + entry.resultNames[i]);
  used.clear();
  auto original = *forward.getOps<AttentionOp>().begin(); // the pass has made sure that there is one
  for (Value operand : {Value(original.getQuery()), Value(original.getKey()), Value(original.getValue())})
    addName(resultNames, used, "d_" + getArgumentName(entry, operand));
  for (unsigned number : original.getDifferentiableCaptures())
    if (Value capture = original.getCaptures()[number]; isa<BlockArgument>(capture))
      addName(resultNames, used, "d_" + getArgumentName(entry, capture));
  if (resultNames.size() != backward.getNumResults())
    return makeError("@%s_backward has %u results, expected %zu", name.c_str(), backward.getNumResults(),
                     resultNames.size());
  entry.function = backward;
  entry.argNames = std::move(argNames);
  entry.resultNames = std::move(resultNames);
  return llvm::Error::success();
}
