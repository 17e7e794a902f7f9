//===- ConstantFactors.h - products with constants, made fewer ---------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PASSES_CONSTANTFACTORS_H
#define ATTN_PASSES_CONSTANTFACTORS_H

#include "mlir/IR/Region.h"

namespace attn {

/// Multiplies f32 values of a region, which has one block, by as few constants as it can: those of a product
/// become one, at its end, or go into a multiply-add, and divisors become factors. What is rounded changes,
/// by a few units in the last place: for continuous functions, whose results are rounded to fewer bits.
void mergeConstantFactors(mlir::Region &region);

} // namespace attn

#endif // ATTN_PASSES_CONSTANTFACTORS_H
