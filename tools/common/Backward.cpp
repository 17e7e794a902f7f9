//===- Backward.cpp - turns an entry point into its gradients -----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/common/Backward.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Passes.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace attn;

/// "d_q" for the argument %q, made unique where an argument is used as two operands.
static void addGradientName(SmallVectorImpl<std::string> &names, llvm::StringSet<> &used, std::string name) {
  name = "d_" + name;
  std::string unique = name;
  for (int suffix = 1; !used.insert(unique).second; ++suffix)
    unique = name + "_" + std::to_string(suffix);
  names.push_back(unique);
}

static std::string getArgumentName(const EntryPoint &entry, Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  return argument ? entry.argNames[argument.getArgNumber()] : "operand";
}

llvm::Error attn::differentiateEntry(EntryPoint &entry) {
  func::FuncOp forward = entry.getFunction();
  std::string name = forward.getName().str();
  SmallVector<AttentionOpInterface> ops = entry.getAttentionOps();
  {
    FirstDiagnostic diagnostic(forward.getContext());
    DifferentiatePassOptions options;
    options.functions = {name};
    PassManager pm(forward.getContext());
    pm.addPass(createDifferentiatePass(options));
    if (failed(pm.run(*entry.module)))
      return diagnostic.take("--backward: @" + name + " cannot be differentiated");
  }
  auto backward = entry.module->lookupSymbol<func::FuncOp>(name + "_backward");
  if (!backward)
    return makeError("--backward: @%s has no attention to differentiate", name.c_str());

  // The arguments of the backward function are those of the forward one, its output and lse, and the
  // gradients of its results. The last are the only ones that a caller has to make up.
  unsigned numForward = forward.getNumArguments(), firstGradient = numForward + 2;
  SmallVector<Type> inputTypes(forward.getArgumentTypes());
  llvm::append_range(inputTypes, backward.getArgumentTypes().drop_front(firstGradient));
  OpBuilder builder(backward);
  auto gradients = func::FuncOp::create(builder, forward.getLoc(), name + "_gradients",
                                        builder.getFunctionType(inputTypes, backward.getResultTypes()));
  Block *body = gradients.addEntryBlock();
  builder.setInsertionPointToStart(body);
  IRMapping mapping;
  mapping.map(forward.getArguments(), body->getArguments().take_front(numForward));
  AttentionOp attention;
  for (Operation &op : forward.getBody().front().without_terminator()) {
    Operation *copy = builder.clone(op, mapping);
    if (auto found = dyn_cast<AttentionOp>(copy))
      attention = found;
  }
  SmallVector<Value> arguments(body->getArguments().take_front(numForward));
  arguments.push_back(attention.getOut());
  arguments.push_back(attention.getLse());
  llvm::append_range(arguments, body->getArguments().drop_front(numForward));
  mapping.map(backward.getArguments(), arguments);
  for (Operation &op : backward.getBody().front())
    builder.clone(op, mapping);

  auto original = cast<AttentionOp>(ops.front().getOperation());
  SmallVector<std::string> argNames(entry.argNames), resultNames;
  llvm::StringSet<> used;
  for (unsigned i = 0; argNames.size() < body->getNumArguments(); ++i)
    addGradientName(argNames, used, entry.resultNames[i]);
  used.clear();
  for (Value operand : {Value(original.getQuery()), Value(original.getKey()), Value(original.getValue())})
    addGradientName(resultNames, used, getArgumentName(entry, operand));
  for (Value capture : original.getCaptures())
    if (isa<BlockArgument>(capture) && isa<FloatType>(getElementTypeOrSelf(capture)))
      addGradientName(resultNames, used, getArgumentName(entry, capture));
  if (resultNames.size() != gradients.getNumResults())
    return makeError("--backward: @%s_backward has %u results, expected %zu", name.c_str(),
                     gradients.getNumResults(), resultNames.size());
  forward.erase();
  backward.erase();
  entry.function = gradients;
  entry.argNames = std::move(argNames);
  entry.resultNames = std::move(resultNames);
  return llvm::Error::success();
}
