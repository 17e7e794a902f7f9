//===- MaskInterpreter.h - evaluates mask and ranges regions ----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TEST_UNIT_MASKINTERPRETER_H
#define ATTN_TEST_UNIT_MASKINTERPRETER_H

#include "mlir/IR/Block.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"
#include <vector>

/// A capture: a scalar, or the elements of a tensor in row-major order.
struct MaskArgument {
  std::vector<int64_t> elements;
  std::vector<int64_t> shape;
};

/// A block of integer operations, read once and run many times. Results wrap as in the IR.
class MaskProgram {
public:
  explicit MaskProgram(mlir::Block &block);

  /// The operands of the terminator. `fixed` are the arguments before the captures.
  std::vector<int64_t> run(llvm::ArrayRef<int64_t> fixed, llvm::ArrayRef<MaskArgument> captures, int64_t qLen,
                           int64_t kvLen);

private:
  struct Instruction {
    mlir::Operation *op;
    unsigned opcode;
    unsigned width; // of the result
    llvm::SmallVector<unsigned, 3> operands;
    unsigned result;
    int64_t constant;
    std::vector<Instruction> thenBlock, elseBlock;
    std::vector<unsigned> thenYield, elseYield;
  };
  unsigned getSlot(mlir::Value value);
  std::vector<Instruction> read(mlir::Block &block, std::vector<unsigned> &yielded);
  void execute(llvm::ArrayRef<Instruction> instructions, llvm::ArrayRef<MaskArgument> captures, int64_t qLen,
               int64_t kvLen);

  unsigned numFixed;
  llvm::DenseMap<mlir::Value, unsigned> slots;
  std::vector<int64_t> values;
  std::vector<Instruction> instructions;
  std::vector<unsigned> yielded;
};

#endif // ATTN_TEST_UNIT_MASKINTERPRETER_H
