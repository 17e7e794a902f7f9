//===- Pipelines.h - the pass pipelines --------------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// `attn-opt` and the JIT build their pipelines with the same functions, so what a test reads is what runs.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PASSES_PIPELINES_H
#define ATTN_PASSES_PIPELINES_H

#include "mlir/Pass/PassOptions.h"

namespace mlir {
class DialectRegistry;
class OpPassManager;
} // namespace mlir

namespace attn {
/// What is chosen before the CPU and the GPU part ways.
struct PlanPipelineOptions : virtual mlir::detail::PassOptions {
  Option<int64_t> blockM{*this, "block-m", llvm::cl::desc("Queries in a block; 0 chooses"),
                         llvm::cl::init(0)};
  Option<int64_t> blockN{*this, "block-n", llvm::cl::desc("Keys in a block; 0 chooses"), llvm::cl::init(0)};
  Option<bool> keyOuter{*this, "key-outer", llvm::cl::desc("Forward: blocks of keys in the outer loop"),
                        llvm::cl::init(false)};
  Option<bool> tf32{*this, "tf32", llvm::cl::desc("Products of f32 tensors round their operands to tf32"),
                    llvm::cl::init(false)};
  Option<bool> deterministic{*this, "deterministic",
                             llvm::cl::desc("Gradients are the same bit by bit from run to run"),
                             llvm::cl::init(false)};
  Option<int64_t> kvSplits{*this, "kv-splits", llvm::cl::desc("Parts the keys are computed in; 0 chooses"),
                           llvm::cl::init(0)};
  Option<bool> blockLists{
      *this, "block-lists",
      llvm::cl::desc("Build block lists for masks that depend on data; by default for a GPU"),
      llvm::cl::init(false)};
};

struct CpuPipelineOptions : PlanPipelineOptions, mlir::PassPipelineOptions<CpuPipelineOptions> {};

struct CudaPipelineOptions : PlanPipelineOptions, mlir::PassPipelineOptions<CudaPipelineOptions> {
  Option<bool> aligned{*this, "aligned", llvm::cl::desc("Bases and strides are multiples of 16 bytes"),
                       llvm::cl::init(true)};
  Option<std::string> family{
      *this, "family",
      llvm::cl::desc("Instructions of kernels: portable, hopper, or auto for the fastest "
                     "that can be"),
      llvm::cl::init("auto")};
  Option<bool> exactMaximum{*this, "exact-maximum",
                            llvm::cl::desc("Probabilities are relative to the true maximum of their row"),
                            llvm::cl::init(false)};
  ListOption<int64_t> tile{*this, "tile",
                           llvm::cl::desc("The tile of the given family in full: block_m, block_n, warps, "
                                          "blocks_per_multiprocessor, stages")};
  Option<bool> splitKv{*this, "split-kv",
                       llvm::cl::desc("Forward: for few queries and long keys, in parts of a number that "
                                      "follows from the sizes of a call (with kv-splits=0)"),
                       llvm::cl::init(false)};
  Option<bool> fewRows{*this, "few-rows",
                       llvm::cl::desc("With split-kv: for so few queries that a tile has few rows"),
                       llvm::cl::init(false)};
  Option<bool> manyRows{*this, "many-rows",
                        llvm::cl::desc("With split-kv, hopper family: for more queries than a "
                                       "warpgroup has rows"),
                        llvm::cl::init(false)};
  Option<int64_t> biasStages{
      *this, "bias-stages",
      llvm::cl::desc(
          "Forward, hopper family: places for tiles of a dense bias; 0 loads its elements, -1 chooses"),
      llvm::cl::init(-1)};
  Option<bool> shortLengths{
      *this, "short-lengths",
      llvm::cl::desc("Forward, hopper family: for calls of few queries, if these have a "
                     "tile of their own"),
      llvm::cl::init(false)};
  CudaPipelineOptions() { blockLists = true; }
};

/// What is chosen for a GPU only.
struct GpuPlanOptions {
  bool splitByLengths = false, fewRows = false, manyRows = false, shortLengths = false, aligned = true,
       exactMaximum = false;
  std::string family = "auto";
  int64_t biasStages = -1;
  llvm::SmallVector<int64_t> tile;
};

/// From attn operations to planned ones: `attn.online_attention` and `attn.merge`. With `splitByLengths`, for
/// a GPU, forwards are in parts whose number follows from the sizes of a call.
void buildPlanPipeline(mlir::OpPassManager &pm, const PlanPipelineOptions &options,
                       const GpuPlanOptions &gpu = {});

/// From attn operations to loops over buffers: what remains is tensor, linalg, bufferization, scf, vector and
/// memref.
void buildAttentionPipeline(mlir::OpPassManager &pm, const CpuPipelineOptions &options);

/// From there on to the LLVM dialect: `--attn-to-cpu-pipeline`.
void buildCpuPipeline(mlir::OpPassManager &pm, const CpuPipelineOptions &options);

/// From attn operations to kernels in `gpu.module` operations and functions that launch them, over buffers:
/// `--attn-to-cuda-pipeline`.
void buildCudaPipeline(mlir::OpPassManager &pm, const CudaPipelineOptions &options);

void registerAttnPipelines();

/// Adds to `registry` what the pipelines need to know of upstream dialects (how they bufferize, how they
/// become LLVM). Every program that runs a pipeline calls it before it makes its context.
void registerPipelineInterfaces(mlir::DialectRegistry &registry);
} // namespace attn

#endif // ATTN_PASSES_PIPELINES_H
