//===- FunctionPrinter.h - prints one function ------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_CODEGEN_FUNCTIONPRINTER_H
#define ATTN_CODEGEN_FUNCTIONPRINTER_H

#include "codegen/CudaExpr.h"
#include "codegen/NameSelection.h"
#include "dialect/AttnTileDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Support/IndentedOstream.h"

namespace attn::cuda {

class FunctionPrinter {
public:
  FunctionPrinter(mlir::gpu::GPUFuncOp function, mlir::raw_indented_ostream &os)
      : function(function), names(function), os(os) {}

  void print();

private:
  struct Assignment {
    mlir::Value target, value;
  };

  // CudaPrinter.cpp: functions, control flow, memory.
  void printHeaderComment();
  void printSignature();
  std::string getWideName(mlir::BlockArgument argument);
  std::string getParameter(mlir::BlockArgument argument);
  void printStatements(mlir::Block &block);
  void printStatement(mlir::Operation *op);
  void printVariable(mlir::Value value, const CudaExpr &initial);
  void printFor(mlir::scf::ForOp op);
  void printIf(mlir::scf::IfOp op);
  void printWhile(mlir::scf::WhileOp op);
  void printReturn(mlir::gpu::ReturnOp op);
  /// As if all values were read before the first target is written.
  void printAssignments(llvm::ArrayRef<Assignment> assignments);
  bool mentions(mlir::Value value, mlir::Value variable) const;

  CudaExpr getExpr(mlir::Value value);
  CudaExpr getInlineExpr(mlir::Operation *op);
  std::string getText(mlir::Value value) { return getExpr(value).text; }
  CudaExpr getElementPlace(mlir::Value memref, mlir::ValueRange indices);
  std::string getArguments(mlir::ValueRange values);

  // CudaTileOps.cpp: attn_tile.
  bool printTileOp(mlir::Operation *op);
  void printElementFunction(mlir::Operation *op, unsigned firstOut,
                            llvm::function_ref<void(mlir::Block &)> printEnd);
  void printMap(tile::MapOp op);
  void printAny(tile::AnyOp op);
  void printMma(tile::MmaOp op);
  void printRowReduce(tile::RowReduceOp op);
  std::string getScratchArgument(mlir::Value scratch);
  /// "out.at(b, h, q_begin), out.stride(2), rows".
  std::string getRows(mlir::Value memref, mlir::ValueRange indices, mlir::Value rows,
                      mlir::Value group = mlir::Value());

  // CudaAsyncOps.cpp: what attn_tile has for the hopper family.
  bool printAsyncOp(mlir::Operation *op);
  void printRoles(tile::WarpSpecializeOp op);

  mlir::gpu::GPUFuncOp function;
  NameSelection names;
  mlir::raw_indented_ostream &os;
};

/// Where a shared tile starts, in bytes; no value before tiles are placed.
std::optional<int64_t> getSharedOffset(mlir::Value tile);

/// What the shared memory of a kernel has to be aligned to, in bytes.
int64_t getSharedAlignment(mlir::gpu::GPUFuncOp kernel);

/// Whether a buffer is only read.
bool isReadOnly(mlir::Value memref);

} // namespace attn::cuda

#endif // ATTN_CODEGEN_FUNCTIONPRINTER_H
