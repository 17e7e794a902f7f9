//===- CheckedAttention.h - an attention beside its reference, for tests -----===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TEST_UNIT_CHECKEDATTENTION_H
#define ATTN_TEST_UNIT_CHECKEDATTENTION_H

#include "StridedTensor.h"
#include "tools/common/Program.h"

/// The public function @f of a module, which returns out and lse of its one attention, with the backward
/// function that the compiler makes of it: compiled by tiles, and as the reference in f64 and as the standard
/// computation that bounds the error. What goes wrong is a failure of the test that runs.
class CheckedAttention {
public:
  struct Options {
    attn::ProgramOptions program;
    /// Whether the gradient of lse is an input of the backward function.
    bool withDLse = true;
  };
  /// The reference is compiled when it is first needed.
  CheckedAttention(mlir::MLIRContext &context, llvm::StringRef text, Options options);

  /// Chooses the strides of a result.
  using ChooseStrides = llvm::function_ref<llvm::SmallVector<int64_t>(llvm::ArrayRef<int64_t> shape)>;

  /// Runs @f and @f_backward by tiles: out, lse, then the gradients of all floating arguments. `inputs` are
  /// the arguments of @f, then d_out and d_lse. Checks that inputs and gaps between results are untouched.
  std::vector<StridedTensor> run(llvm::ArrayRef<StridedTensor> inputs, ChooseStrides strides = nullptr) const;
  /// The forward alone.
  std::vector<StridedTensor> runForward(llvm::ArrayRef<StridedTensor> inputs,
                                        ChooseStrides strides = nullptr) const;
  /// As `run`; checks every result against the numeric contract.
  std::vector<StridedTensor> check(llvm::ArrayRef<StridedTensor> inputs, ChooseStrides strides = nullptr);

  using Rerun = llvm::function_ref<std::vector<StridedTensor>(llvm::ArrayRef<StridedTensor> inputs)>;
  /// Checks results that come from elsewhere: all, or only the first ones. Without `rerun`, which computes
  /// them from other inputs, the errors of one computation are compared.
  void expectContract(llvm::ArrayRef<StridedTensor> results, llvm::ArrayRef<StridedTensor> inputs,
                      Rerun rerun = nullptr);

  /// False after a failure to compile.
  bool isCompiled() const { return tiled != nullptr; }

private:
  bool compileReference();

  mlir::MLIRContext &context;
  std::string text;
  Options options;
  std::unique_ptr<attn::CpuExecutable> tiled, reference, referenceInF32;
};

#endif // ATTN_TEST_UNIT_CHECKEDATTENTION_H
