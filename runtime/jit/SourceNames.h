//===- SourceNames.h - parses a module and keeps the names of its values ----===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_RUNTIME_JIT_SOURCENAMES_H
#define ATTN_RUNTIME_JIT_SOURCENAMES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/SourceMgr.h"

namespace mlir {
class AsmParserState;
} // namespace mlir

namespace attn {

/// MLIR forgets what a text calls its values. Gives each operation with one result, and each block argument,
/// a NameLoc of the name that it had (unless that was a number), so that emitted code uses it too.
void keepNames(const mlir::AsmParserState &state, mlir::MLIRContext *context);

/// Parses the main buffer, and keeps the names.
mlir::OwningOpRef<mlir::ModuleOp> parseKeepingNames(const llvm::SourceMgr &sources,
                                                    mlir::MLIRContext *context);

} // namespace attn

#endif // ATTN_RUNTIME_JIT_SOURCENAMES_H
