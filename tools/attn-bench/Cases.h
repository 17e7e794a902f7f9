//===- Cases.h - the attention that a benchmark times ------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TOOLS_ATTNBENCH_CASES_H
#define ATTN_TOOLS_ATTNBENCH_CASES_H

#include "tools/common/GpuFunction.h"

namespace attn {

/// What is done to scores: "full", "causal", "soft_cap", "alibi" (causal too) and "window" (causal, of
/// kBenchWindow keys).
llvm::ArrayRef<llvm::StringLiteral> getBenchMods();
inline constexpr int64_t kBenchWindow = 1024;

/// One shape, one mod, forward or backward.
struct BenchCase {
  int64_t batch = 1, qHeads = 1, kvHeads = 1, qLen = 0, kvLen = 0, headDim = 64;
  std::string dtype = "f32", mod = "full";
  bool backward = false;

  /// "forward/f32/b1/h1/n2048/d64/causal".
  std::string getName() const;
  /// The module as text: one function that is the attention op alone, with dynamic batch and lengths.
  std::string getModule() const;
  /// Of the matrix products over the pairs that the mask keeps: 2 products forward, 5 backward, as is usual;
  /// what the compiler computes again on top of that does not count.
  double getFlops() const;
  /// The module as an entry point, with the gradient region of its score; and what its tensors are made of.
  llvm::Expected<EntryPoint> parse(mlir::MLIRContext *context) const;
  struct InputRequest getRequest() const;
};

/// The tensors of a call.
struct BenchTensors {
  std::vector<HostTensor> inputs, results;

  /// For a GPU the operands of attention are some normal numbers again and again.
  static llvm::Expected<BenchTensors> create(const EntryPoint &entry, SizeResolver &sizes,
                                             struct InputRequest request, bool forGpu);
  llvm::SmallVector<const HostTensor *> getArguments() const;
};

/// A compiled attention with its tensors, ready to be called.
class BenchRun {
public:
  static llvm::Expected<BenchRun> create(mlir::MLIRContext *context, const BenchCase &benchCase,
                                         const ProgramOptions &options);
  /// Any function of a file, with random inputs; the matrix products that its plan computes.
  static llvm::Expected<BenchRun> create(mlir::MLIRContext *context, llvm::StringRef file,
                                         llvm::StringRef entry, bool backward,
                                         const struct InputRequest &request, const ProgramOptions &options);
  /// Seconds of one call: of the GPU if it runs on one (by the protocol of GpuTimer), of this thread where it
  /// does all the work, else of the clock on the wall.
  llvm::Expected<double> time();
  /// On a GPU: seconds that the host spends on launching one call.
  llvm::Expected<double> timeLaunch() { return gpuCall->timeLaunch(); }
  double getFlops() const { return flops; }
  mlir::Type getComputeType() const { return computeType; }

private:
  static llvm::Expected<BenchRun> create(const EntryPoint &entry, struct InputRequest request,
                                         const ProgramOptions &options, double flops);

  // The tensors do not move when the run does: calls point into them.
  BenchTensors tensors;
  std::function<llvm::Error()> call;
  std::optional<GpuCall> gpuCall; // instead
  double flops = 0;
  bool onThisThread = false;
  mlir::Type computeType;
};

} // namespace attn

#endif // ATTN_TOOLS_ATTNBENCH_CASES_H
