//===- F64Module.h - runs compiled functions on f64 arrays, for tests -------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TEST_UNIT_F64MODULE_H
#define ATTN_TEST_UNIT_F64MODULE_H

#include "mlir/Pass/PassManager.h"
#include "runtime/jit/CpuExecutable.h"
#include <random>
#include <vector>

/// A row-major array of f64. Rank 0 stands for a scalar argument, or for a result of rank 0.
struct F64Array {
  explicit F64Array(std::vector<int64_t> shape, double fill = 0.0);
  /// Uniform in [low, high).
  F64Array(std::vector<int64_t> shape, std::mt19937 &random, double low, double high);
  double &at(std::initializer_list<int64_t> indices);
  attn::BufferRef ref(mlir::MLIRContext *context);

  std::vector<int64_t> shape;
  std::vector<double> data;
};

/// A module from text, compiled after `passes` have run.
class F64Module {
public:
  F64Module();
  /// An empty string, or why it failed.
  std::string compile(llvm::StringRef text, llvm::function_ref<void(mlir::OpPassManager &)> passes);
  /// Results are filled with NaN first. An empty string, or why it failed.
  std::string run(llvm::StringRef function, llvm::ArrayRef<attn::Argument> arguments,
                  llvm::MutableArrayRef<F64Array> results);
  attn::Argument tensor(F64Array &array) { return array.ref(&context); }
  attn::Argument scalar(F64Array &array);
  mlir::MLIRContext *getContext() { return &context; }

private:
  mlir::MLIRContext context;
  std::unique_ptr<attn::CpuExecutable> executable;
};

#endif // ATTN_TEST_UNIT_F64MODULE_H
