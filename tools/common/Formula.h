//===- Formula.h - index computations as formulas ----------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TOOLS_COMMON_FORMULA_H
#define ATTN_TOOLS_COMMON_FORMULA_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"
#include <string>
#include <vector>

namespace attn {

/// Prints values of arith, attn and tensor.extract operations as text in infix form: `min(end, kv_len)`. What
/// is used in several places and is more than a few words becomes a definition of its own: `t0 = (begin -
/// 128) floordiv 64`.
class FormulaPrinter {
public:
  /// Names of values that are given: block arguments.
  void name(mlir::Value value, llvm::StringRef text) { texts[value] = {text.str(), atom}; }
  std::string print(mlir::Value value);
  /// The definitions that the formulas printed so far refer to, in order.
  llvm::ArrayRef<std::string> getDefinitions() const { return definitions; }

private:
  /// How strongly a text binds.
  enum Strength { comparison, sum, product, atom };
  struct Text {
    std::string text;
    Strength strength;
  };
  const Text &get(mlir::Value value);
  Text build(mlir::Value value);
  std::string operand(mlir::Value value, Strength atLeast);

  llvm::DenseMap<mlir::Value, Text> texts;
  std::vector<std::string> definitions;
};

} // namespace attn

#endif // ATTN_TOOLS_COMMON_FORMULA_H
