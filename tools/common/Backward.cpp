//===- Backward.cpp - turns an entry point into its gradients -----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/common/Backward.h"
#include "mlir/IR/IRMapping.h"
#include "runtime/jit/BackwardEntry.h"

using namespace mlir;
using namespace attn;

llvm::Error attn::differentiateEntry(EntryPoint &entry) {
  func::FuncOp forward = entry.getFunction();
  std::string name = forward.getName().str();
  if (llvm::Error error = makeBackwardEntry(entry))
    return error;
  func::FuncOp backward = entry.getFunction();

  // The arguments of the backward function are those of the forward one, its output and lse, and the
  // gradients of its results. The last are the only ones that a caller has to make up.
  unsigned numForward = forward.getNumArguments(), firstGradient = numForward + 2;
  SmallVector<Type> inputTypes(forward.getArgumentTypes());
  llvm::append_range(inputTypes, backward.getArgumentTypes().drop_front(firstGradient));
  OpBuilder builder(backward);
  auto gradients = func::FuncOp::create(builder, forward.getLoc(), name + "_gradients",
                                        builder.getFunctionType(inputTypes, backward.getResultTypes()));
  Block *body = gradients.addEntryBlock();
  // Their names are those of the generated kernels.
  for (auto [argument, source] : llvm::zip(body->getArguments(), forward.getArguments()))
    argument.setLoc(source.getLoc());
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

  forward.erase();
  backward.erase();
  entry.function = gradients;
  // Out and lse are no arguments any more.
  entry.argNames.erase(entry.argNames.begin() + numForward, entry.argNames.begin() + firstGradient);
  return llvm::Error::success();
}
