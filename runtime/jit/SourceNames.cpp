//===- SourceNames.cpp - parses a module and keeps the names of its values --===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/jit/SourceNames.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/AsmParser/AsmParserState.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

/// "q_begin" of "%q_begin" or "%q_begin:2"; empty for a number and for text of a bytecode file.
static StringRef getSourceName(SMRange range) {
  if (!range.isValid())
    return "";
  StringRef text(range.Start.getPointer(), range.End.getPointer() - range.Start.getPointer());
  if (!text.consume_front("%"))
    return "";
  text = text.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; });
  return text.empty() || llvm::isDigit(text.front()) ? "" : text;
}

void attn::keepNames(const AsmParserState &state, MLIRContext *context) {
  Builder builder(context);
  for (const AsmParserState::OperationDefinition &definition : state.getOpDefs())
    if (definition.resultGroups.size() == 1 && definition.op->getNumResults() == 1)
      if (StringRef name = getSourceName(definition.resultGroups[0].definition.loc); !name.empty())
        definition.op->setLoc(NameLoc::get(builder.getStringAttr(name), definition.op->getLoc()));
  for (const AsmParserState::BlockDefinition &definition : state.getBlockDefs())
    for (auto [argument, source] : llvm::zip(definition.block->getArguments(), definition.arguments))
      if (StringRef name = getSourceName(source.loc); !name.empty())
        argument.setLoc(NameLoc::get(builder.getStringAttr(name), argument.getLoc()));
}

OwningOpRef<ModuleOp> attn::parseKeepingNames(const llvm::SourceMgr &sources, MLIRContext *context) {
  AsmParserState state;
  Block block;
  ParserConfig config(context);
  if (failed(parseAsmSourceFile(sources, &block, config, &state)))
    return {};

  keepNames(state, context);
  if (llvm::hasSingleElement(block))
    if (auto module = dyn_cast<ModuleOp>(block.front())) {
      module->remove();
      return OwningOpRef<ModuleOp>(module);
    }
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(context));
  module->getBody()->getOperations().splice(module->getBody()->begin(), block.getOperations());
  return module;
}
