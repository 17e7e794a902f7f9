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

    *Captures.* Every region of the op takes one argument for each capture, of its type, after the arguments that the
    region always has.

    *Gradients of captures.* A capture has a gradient exactly where its elements are floating (`hasGradient`), whether a
    region reads it or not. The gradient is a tensor of the capture's shape, of rank 0 for a scalar, of the compute type.
    An op that computes gradients of captures returns them after its other results, in the order of the captures
    (`getCaptureGradients`); other ops return none. Nothing else may depend on how these results are numbered.
  }];
  let methods = [
    InterfaceMethod<"", "::mlir::TypedValue<::mlir::RankedTensorType>", "getQuery">,
    InterfaceMethod<"", "::mlir::TypedValue<::mlir::RankedTensorType>", "getKey">,
    InterfaceMethod<"", "::mlir::TypedValue<::mlir::RankedTensorType>", "getValue">,
    InterfaceMethod<"", "::mlir::OperandRange", "getCaptures">,
    InterfaceMethod<"What `attn.block_lists` gives for the mask; null without.",
                    "::mlir::TypedValue<::mlir::RankedTensorType>", "getBlockLists">,
    InterfaceMethod<"Queries and keys in the blocks of the lists.", "::mlir::DenseI64ArrayAttr", "getBlocksAttr">,
    InterfaceMethod<"Empty where the score is the identity.", "::mlir::Region &", "getScore">,
    InterfaceMethod<"Empty where every pair is kept.", "::mlir::Region &", "getMask">,
    InterfaceMethod<"The scale as written, null for the default.", "::mlir::FloatAttr", "getScaleAttr">,
    InterfaceMethod<"Whether the operands of matrix products of f32 tensors are rounded to tf32.", "bool", "getTf32">,
    InterfaceMethod<"The gradients of captures among the results: none, or one for each capture that has one, in order.",
                    "::mlir::ResultRange", "getCaptureGradients">,
    InterfaceMethod<[{
      The operand that a result takes its dynamic sizes from, dimension by dimension: query for out, lse and d_query, a
      capture for its gradient. A leading dimension of splits does not count.
    }], "::mlir::Value", "getShapeSource", (ins "::mlir::OpResult":$result)>,
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

    /// The argument of a region of the op that stands for a capture.
    ::mlir::BlockArgument getCaptureArgument(::mlir::Region &region, unsigned capture) {
      return region.getArgument(region.getNumArguments() - $_op.getCaptures().size() + capture);
    }
    /// The number of the capture that an argument of a region stands for.
    unsigned getCaptureNumber(::mlir::BlockArgument argument) {
      return argument.getArgNumber() + $_op.getCaptures().size() - argument.getOwner()->getNumArguments();
    }
    bool hasGradient(unsigned capture) { return ::attn::hasGradient($_op.getCaptures()[capture].getType()); }
    /// The numbers of the captures that have gradients, in the order of `getCaptureGradients`.
    ::llvm::SmallVector<unsigned> getDifferentiableCaptures() {
      return ::llvm::filter_to_vector(::llvm::seq<unsigned>(0, $_op.getCaptures().size()),
                                      [&](unsigned capture) { return hasGradient(capture); });
    }
    ::mlir::RankedTensorType getCaptureGradientType(unsigned capture) {
      auto tensor = ::llvm::dyn_cast<::mlir::RankedTensorType>($_op.getCaptures()[capture].getType());
      return ::mlir::RankedTensorType::get(tensor ? tensor.getShape() : ::llvm::ArrayRef<int64_t>(),
                                           getComputeType());
    }
    /// The result that is the gradient of a capture; null where there is none.
    ::mlir::OpResult getCaptureGradient(unsigned capture) {
      ::mlir::ResultRange gradients = $_op.getCaptureGradients();
      if (gradients.empty() || !hasGradient(capture))
        return {};
      return gradients[::llvm::count_if(::llvm::seq<unsigned>(0, capture),
                                        [&](unsigned before) { return hasGradient(before); })];
    }
  }];
}

#endif // ATTN_DIALECT_ATTNINTERFACES_TD
