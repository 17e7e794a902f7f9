//===- AttnTileDialect.h - the attn_tile dialect: types, attributes, operations -===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTNTILEDIALECT_H
#define ATTN_DIALECT_ATTNTILEDIALECT_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace attn::tile {
/// What operations on fragments read and write.
struct RegisterFile : mlir::SideEffects::Resource::Base<RegisterFile> {
  llvm::StringRef getName() final { return "RegisterFile"; }
};
/// What operations on shared tiles read and write.
struct SharedMemory : mlir::SideEffects::Resource::Base<SharedMemory> {
  llvm::StringRef getName() final { return "SharedMemory"; }
};
/// What roles wait for.
struct Barriers : mlir::SideEffects::Resource::Base<Barriers> {
  llvm::StringRef getName() final { return "Barriers"; }
};
/// What the host decides about a call.
struct LaunchPlan : mlir::SideEffects::Resource::Base<LaunchPlan> {
  llvm::StringRef getName() final { return "LaunchPlan"; }
};
} // namespace attn::tile

#include "dialect/AttnTileDialect.h.inc"
#include "dialect/AttnTileEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialect/AttnTileAttributes.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialect/AttnTileTypes.h.inc"
#define GET_OP_CLASSES
#include "dialect/AttnTileOps.h.inc"

namespace attn::tile {
/// The row and the column, or only the row where all fragments are `rows`: the first arguments of the region
/// of a map or an any.
unsigned getNumIndexArgs(mlir::Operation *op);

/// Fails, with the label of the constraint, where emitted code cannot call something `name`.
llvm::LogicalResult verifyName(mlir::Operation *op, llvm::StringRef name, llvm::StringRef label);
} // namespace attn::tile

#endif // ATTN_DIALECT_ATTNTILEDIALECT_H
