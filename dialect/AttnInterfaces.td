//===- AttnInterfaces.td - what all attention ops share -------------------*- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTNINTERFACES_TD
#define ATTN_DIALECT_ATTNINTERFACES_TD

include "mlir/IR/OpBase.td"

def AttentionOpInterface : OpInterface<"AttentionOpInterface"> {
  let cppNamespace = "::attn";
  let description = [{
    The query, key and value, the captures, and the score and mask regions: what analyses of the regions and builders of
    the lowerings need, whichever of the attention ops carries them. The methods named `get<Operand>` are the ODS
    accessors of the ops.
  }];
  let methods = [
    InterfaceMethod<"", "::mlir::TypedValue<::mlir::RankedTensorType>", "getQuery">,
    InterfaceMethod<"", "::mlir::TypedValue<::mlir::RankedTensorType>", "getKey">,
    InterfaceMethod<"", "::mlir::TypedValue<::mlir::RankedTensorType>", "getValue">,
    InterfaceMethod<"", "::mlir::OperandRange", "getCaptures">,
    InterfaceMethod<"Empty where the score is the identity.", "::mlir::Region &", "getScore">,
    InterfaceMethod<"Empty where every pair is kept.", "::mlir::Region &", "getMask">,
    InterfaceMethod<"The scale as written, null for the default.", "::mlir::FloatAttr", "getScaleAttr">,
  ];
  let extraSharedClassDeclaration = [{
    ::mlir::Type getElementType() { return $_op.getQuery().getType().getElementType(); }
    /// Type of scores, probabilities and accumulators: f64 for f64 tensors, f32 for all others.
    ::mlir::FloatType getComputeType() { return ::attn::getComputeType(getElementType()); }
    int64_t getHeadDim() { return $_op.getQuery().getType().getDimSize(3); }
    int64_t getValueDim() { return $_op.getValue().getType().getDimSize(3); }
    /// Factor applied to q·k before the score region; 1/sqrt(head_dim) where none is written.
    double getScaleOrDefault() {
      ::mlir::FloatAttr scale = $_op.getScaleAttr();
      return scale ? scale.getValueAsDouble() : 1.0 / std::sqrt(static_cast<double>(getHeadDim()));
    }
  }];
}

#endif // ATTN_DIALECT_ATTNINTERFACES_TD
