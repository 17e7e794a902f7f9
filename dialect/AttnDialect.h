//===- AttnDialect.h - the attn dialect: attributes, interfaces, operations -===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTNDIALECT_H
#define ATTN_DIALECT_ATTNDIALECT_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/Sequence.h"
#include <cmath>

namespace attn {
/// Type of scores, probabilities and accumulators for tensors of `elementType`: f64 for f64, f32 for all
/// others.
mlir::FloatType getComputeType(mlir::Type elementType);

/// Whether a capture of this type has a gradient: its elements are floating.
bool hasGradient(mlir::Type captureType);

/// What `attn.accumulate_gradient` writes: the gradients of the captures.
struct GradientResource : mlir::SideEffects::Resource::Base<GradientResource> {
  llvm::StringRef getName() final { return "AttnGradient"; }
};

/// Positions of the arguments of a region before the captures.
struct ScoreArgs {
  enum : unsigned { score, batch, head, query, key, numFixed };
};
struct MaskArgs {
  enum : unsigned { batch, head, query, key, numFixed };
};
struct GradientArgs {
  enum : unsigned { cotangent, score, batch, head, query, key, numFixed };
};
struct RangesArgs {
  enum : unsigned { batch, head, begin, end, numFixed };
};

/// Whether a mask depends on its batch or head argument otherwise than by a length.
bool dependsOn(mlir::Region &mask, unsigned argument);
} // namespace attn

#include "dialect/AttnDialect.h.inc"
#include "dialect/AttnEnums.h.inc"
#include "dialect/AttnInterfaces.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialect/AttnAttributes.h.inc"
#define GET_OP_CLASSES
#include "dialect/AttnOps.h.inc"

#endif // ATTN_DIALECT_ATTNDIALECT_H
