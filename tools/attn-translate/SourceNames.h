//===- SourceNames.h - parses a module and keeps the names of its values ----===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TOOLS_ATTNTRANSLATE_SOURCENAMES_H
#define ATTN_TOOLS_ATTNTRANSLATE_SOURCENAMES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/SourceMgr.h"

namespace attn {

/// Parses the main buffer. MLIR forgets what a text calls its values; here each operation with one result,
/// and each block argument, gets a NameLoc of that name (unless it is a number), so that emitted code uses it
/// too.
mlir::OwningOpRef<mlir::ModuleOp> parseKeepingNames(const llvm::SourceMgr &sources,
                                                    mlir::MLIRContext *context);

} // namespace attn

#endif // ATTN_TOOLS_ATTNTRANSLATE_SOURCENAMES_H
