//===- EntryPoint.h - a parsed module, and the function in it to compile -----===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_RUNTIME_JIT_ENTRYPOINT_H
#define ATTN_RUNTIME_JIT_ENTRYPOINT_H

#include "dialect/AttnDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/SourceMgr.h"

namespace attn {

/// An error of one line.
template <typename... Ts>
llvm::Error makeError(const char *format, const Ts &...values) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), format, values...);
}

/// The value as a C string for `makeError`; lives as long as the full expression that it stands in.
template <typename T>
std::string toText(const T &value) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << value;
  return text;
}

/// Keeps the first error that MLIR reports while it lives, as one line with its location, and swallows the
/// rest: source excerpts, notes and the errors that follow from the first.
class FirstDiagnostic {
public:
  explicit FirstDiagnostic(mlir::MLIRContext *context);
  /// The error, or `fallback` where none was reported.
  llvm::Error take(llvm::StringRef fallback);

private:
  std::string message;
  mlir::ScopedDiagnosticHandler handler;
};

/// A parsed module and the function in it that runs.
struct EntryPoint {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp function;
  /// Names as written in the text, without `%`; `arg0`, `result0` where there are none.
  llvm::SmallVector<std::string> argNames, resultNames;

  mlir::func::FuncOp getFunction() const { return function; }
  /// The index of the argument called `name`, or given by its number; none if there is no such argument.
  std::optional<unsigned> findArgument(llvm::StringRef name) const;
  std::optional<unsigned> findResult(llvm::StringRef name) const;
  /// The attention ops of the function in order.
  llvm::SmallVector<AttentionOpInterface> getAttentionOps() const;
};

/// Reads `file` (`-` for standard input). Locations keep the names of values (SourceNames.h). The function is
/// the one called `entry`, or the only public one that holds an attention op where `entry` is empty.
llvm::Expected<EntryPoint> parseEntryPoint(mlir::MLIRContext *context, llvm::StringRef file,
                                           llvm::StringRef entry);

/// The same for text in memory; names are kept only if asked for.
llvm::Expected<EntryPoint> parseEntryPoint(mlir::MLIRContext *context,
                                           std::unique_ptr<llvm::MemoryBuffer> text, llvm::StringRef entry,
                                           bool keepsNames = false);

} // namespace attn

#endif // ATTN_RUNTIME_JIT_ENTRYPOINT_H
