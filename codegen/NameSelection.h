//===- NameSelection.h - what emitted code calls the values of a kernel -----===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A value is named, in this order, by
//   - the name of a shared tile or fragment,
//   - the NameLoc of its operation (of a block argument: of the argument),
//   - the operation's kind and operands: "query_size_2", "sum", "is_less".
// A name is never a C++ keyword or something that the device headers define, and no two values that are
// visible at one place have the same; a number is appended then.
//
// A pure scalar operation without a name of its own (NameLoc) that is used once, in its own block, is not a
// variable: it is printed where it is used. Neither are constants, but for those with a name like kBlockM.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_CODEGEN_NAMESELECTION_H
#define ATTN_CODEGEN_NAMESELECTION_H

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringSet.h"
#include <string>

namespace attn::cuda {

class NameSelection {
public:
  explicit NameSelection(mlir::gpu::GPUFuncOp function);

  /// The variable that holds a value; there is none for an inlined operation.
  llvm::StringRef getName(mlir::Value value) const;

  /// Whether the operation is printed where its result is used.
  bool isInlined(mlir::Operation *op) const { return inlined.contains(op); }
  /// Whether the operation's result is called what its operand is, so that it needs no statement.
  bool isAlias(mlir::Operation *op) const { return aliases.contains(op); }

private:
  using Names = llvm::StringSet<>;

  void selectInlined(mlir::Operation *op);
  void visit(mlir::Region &region, Names visible);
  void visit(mlir::Operation *op, Names &visible);
  void assign(mlir::Value value, llvm::StringRef base, Names &visible);
  std::string getBaseName(mlir::Value value);

  llvm::DenseMap<mlir::Value, std::string> names;
  llvm::DenseSet<mlir::Operation *> inlined, aliases;
  /// Operations printed as part of an inlined one, itself included.
  llvm::DenseMap<mlir::Operation *, int> sizes;
};

/// The name that a location gives: that of a NameLoc, if it is a C++ identifier; else empty.
llvm::StringRef getNameHint(mlir::Location location);

/// Whether the second region of a loop gets what the first one has: both, and the results, are one variable.
bool carriesUnchanged(mlir::scf::WhileOp loop);

/// Whether the name stands for a compile-time constant: kBlockM.
bool isConstantName(llvm::StringRef name);

/// Words that no variable may be called.
llvm::ArrayRef<llvm::StringRef> getReservedNames();

} // namespace attn::cuda

#endif // ATTN_CODEGEN_NAMESELECTION_H
