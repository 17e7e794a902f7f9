//===- attn-lsp-server.cpp - language server for attention modules -----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Diagnostics, hovers, definitions and references of .mlir files in an editor that speaks the language server
// protocol.
//
//===----------------------------------------------------------------------===//

#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"
#include "tools/Dialects.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  attn::registerDialects(registry);
  return failed(mlir::MlirLspServerMain(argc, argv, registry));
}
