//===- EntryPoint.cpp - a parsed module, and the function in it to compile -----===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/jit/EntryPoint.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/AsmParser/AsmParserState.h"
#include "mlir/Bytecode/BytecodeReader.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "runtime/jit/SourceNames.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace attn;

FirstDiagnostic::FirstDiagnostic(MLIRContext *context)
    : handler(context, [this](Diagnostic &diagnostic) {
        if (diagnostic.getSeverity() != DiagnosticSeverity::Error || !message.empty())
          return success();
        llvm::raw_string_ostream os(message);
        if (auto location = diagnostic.getLocation()->findInstanceOf<FileLineColLoc>())
          os << location.getFilename().getValue() << ':' << location.getLine() << ':' << location.getColumn()
             << ": ";
        std::string text = diagnostic.str();
        os << StringRef(text).take_until([](char c) { return c == '\n'; });
        return success();
      }) {}

llvm::Error FirstDiagnostic::take(StringRef fallback) {
  std::string text = message.empty() ? fallback.str() : message;
  message.clear();
  return llvm::createStringError(llvm::inconvertibleErrorCode(), text);
}

static std::optional<unsigned> findName(ArrayRef<std::string> names, StringRef name) {
  name.consume_front("%");
  for (auto [index, candidate] : llvm::enumerate(names))
    if (candidate == name)
      return index;
  unsigned index;
  if (!name.getAsInteger(10, index) && index < names.size())
    return index;
  return std::nullopt;
}

std::optional<unsigned> EntryPoint::findArgument(StringRef name) const { return findName(argNames, name); }
std::optional<unsigned> EntryPoint::findResult(StringRef name) const { return findName(resultNames, name); }

SmallVector<AttentionOpInterface> EntryPoint::getAttentionOps() const {
  SmallVector<AttentionOpInterface> ops;
  getFunction().walk([&](AttentionOpInterface op) { ops.push_back(op); });
  return ops;
}

/// "%q" or "%r#1" in the text becomes "q", "r_1".
static std::string cleanName(StringRef text) {
  text.consume_front("%");
  std::string name = text.str();
  for (char &c : name)
    if (!llvm::isAlnum(c) && c != '_')
      c = '_';
  return name;
}

static StringRef getText(SMRange range) {
  return StringRef(range.Start.getPointer(), range.End.getPointer() - range.Start.getPointer());
}

/// The name of a result of an operation as written, empty if unknown.
static std::string getResultName(const AsmParserState &state, OpResult result) {
  const AsmParserState::OperationDefinition *definition = state.getOpDef(result.getOwner());
  if (!definition)
    return "";
  const AsmParserState::OperationDefinition::ResultGroupDefinition *group = nullptr;
  for (const auto &candidate : definition->resultGroups)
    if (candidate.startIndex <= result.getResultNumber())
      group = &candidate;
  if (!group)
    return "";
  std::string name = cleanName(getText(group->definition.loc));
  if (unsigned offset = result.getResultNumber() - group->startIndex)
    name += "_" + std::to_string(offset);
  return name;
}

static void nameValues(EntryPoint &entry, const AsmParserState *state) {
  Block &body = entry.function.getBody().front();
  const AsmParserState::BlockDefinition *definition = state ? state->getBlockDef(&body) : nullptr;
  auto argName = [&](unsigned index) {
    std::string name;
    if (definition && index < definition->arguments.size())
      name = cleanName(getText(definition->arguments[index].loc));
    return name.empty() || llvm::isDigit(name.front()) ? "arg" + std::to_string(index) : name;
  };
  for (unsigned i = 0; i < body.getNumArguments(); ++i)
    entry.argNames.push_back(argName(i));

  // Two results may return one value, and a name may be that of an argument that is returned unchanged.
  llvm::StringSet<> used;
  for (auto [index, value] : llvm::enumerate(body.getTerminator()->getOperands())) {
    std::string name;
    if (auto argument = dyn_cast<BlockArgument>(value))
      name = argName(argument.getArgNumber());
    else if (state)
      name = getResultName(*state, cast<OpResult>(value));
    if (name.empty() || llvm::isDigit(name.front()) || !used.insert(name).second)
      name = "result" + std::to_string(index);
    used.insert(name);
    entry.resultNames.push_back(name);
  }
}

static llvm::Error selectFunction(EntryPoint &entry, StringRef name) {
  SmallVector<std::string> candidates;
  for (auto function : entry.module->getOps<func::FuncOp>()) {
    if (function.isExternal() || function.isPrivate())
      continue;
    bool hasAttention =
        function.walk([](AttentionOpInterface) { return WalkResult::interrupt(); }).wasInterrupted();
    if (name.empty() ? hasAttention : function.getName() == name) {
      if (!entry.function)
        entry.function = function;
      candidates.push_back("@" + function.getName().str());
    } else if (!name.empty()) {
      candidates.push_back("@" + function.getName().str());
    }
  }
  if (!entry.function && name.empty())
    return makeError("no public function holds an attention op: nothing to run");
  if (!entry.function && candidates.empty())
    return makeError("unknown entry @%s: the module has no public function", name.str().c_str());
  if (!entry.function)
    return makeError("unknown entry @%s: expected one of %s", name.str().c_str(),
                     llvm::join(candidates, ", ").c_str());
  if (name.empty() && candidates.size() > 1)
    return makeError("%zu functions hold an attention op (%s): choose one with --entry", candidates.size(),
                     llvm::join(candidates, ", ").c_str());
  if (!entry.function.getBody().hasOneBlock())
    return makeError("entry @%s: expected one block, got %zu", entry.function.getName().str().c_str(),
                     entry.function.getBody().getBlocks().size());
  return llvm::Error::success();
}

llvm::Expected<EntryPoint> attn::parseEntryPoint(MLIRContext *context, StringRef file, StringRef entry) {
  auto buffer = llvm::MemoryBuffer::getFileOrSTDIN(file);
  if (!buffer)
    return makeError("%s: %s", file.str().c_str(), buffer.getError().message().c_str());
  return parseEntryPoint(context, std::move(*buffer), entry, /*keepsNames=*/true);
}

llvm::Expected<EntryPoint> attn::parseEntryPoint(MLIRContext *context,
                                                 std::unique_ptr<llvm::MemoryBuffer> text, StringRef name,
                                                 bool keepsNames) {
  EntryPoint entry;
  std::string file = text->getBufferIdentifier().str();
  FirstDiagnostic diagnostic(context);
  llvm::SourceMgr sources;
  bool isText = !isBytecode(*text);
  sources.AddNewSourceBuffer(std::move(text), SMLoc());

  // The parser state keeps where each name stands; MLIR itself drops the names of values.
  ParserConfig config(context);
  AsmParserState state;
  if (isText) {
    entry.module = ModuleOp::create(FileLineColLoc::get(context, file, 0, 0));
    if (failed(parseAsmSourceFile(sources, entry.module->getBody(), config, &state)))
      return diagnostic.take(file + ": cannot be parsed");
    if (keepsNames)
      keepNames(state, context);
    // Functions may stand in a module of the file or in none.
    Block &body = *entry.module->getBody();
    if (llvm::hasSingleElement(body))
      if (auto inner = dyn_cast<ModuleOp>(body.front())) {
        inner->remove();
        entry.module = inner;
      }
  } else {
    entry.module = parseSourceFile<ModuleOp>(sources, config);
  }
  if (!entry.module || failed(verify(*entry.module)))
    return diagnostic.take(file + ": does not hold a module");
  if (llvm::Error error = selectFunction(entry, name))
    return makeError("%s: %s", file.c_str(), llvm::toString(std::move(error)).c_str());
  nameValues(entry, isText ? &state : nullptr);
  return std::move(entry);
}
