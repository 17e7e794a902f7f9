//===- HopperKernel.h - what the kernels of the hopper GPU family share -----===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PASSES_HOPPERKERNEL_H
#define ATTN_PASSES_HOPPERKERNEL_H

#include "passes/TileForwardKernel.h"

namespace attn {

/// A forward kernel whose producer loads tiles of keys and values by the tensor memory accelerator, and whose
/// consumer warpgroups keep 64 rows each.
class HopperKernel : public ForwardTileKernel {
public:
  /// Where pairs may be dropped, on the host's side: how many tiles were drawn, and whether a row is marked
  /// in lse.
  mlir::Value getHostProgress() { return hostProgress; }

protected:
  HopperKernel(mlir::ImplicitLocOpBuilder &host, OnlineAttentionOp op, llvm::StringRef name,
               const TileLoweringOptions &options);
  /// Declares the parameters behind the results.
  void addProgress();
  void addKeyMaps();

  mlir::Value addPipeline(int64_t stages, int64_t rows, int64_t columns, llvm::StringRef name,
                          mlir::FloatType elementType, tile::TileUse use = tile::TileUse::multiplied);
  void addKeyPipelines();
  static void fillRole(mlir::ImplicitLocOpBuilder &b, mlir::Region &region, llvm::function_ref<void()> body);
  tile::WarpSpecializeOp addRoles();

  /// Copies rows, and of a tensor with more columns than a tile those from `column` on, to the next slot.
  void load(mlir::Value map, mlir::Value pipeline, mlir::ValueRange indices, llvm::StringRef slot,
            mlir::Value column = {});
  static tile::PanelsType getTileType(mlir::Value pipeline) {
    return llvm::cast<tile::PipelineType>(pipeline.getType()).getTileType();
  }
  mlir::Value wait(mlir::Value pipeline, llvm::StringRef name) {
    return tile::PipelineWaitOp::create(b, getTileType(pipeline), pipeline, b.getStringAttr(name));
  }
  void release(mlir::Value pipeline) { tile::PipelineReleaseOp::create(b, pipeline); }

  /// Declares scores, probabilities and the output, which warpgroups divide by rows.
  void allocateAccumulators();
  void startScores(mlir::Value keyTile);
  void startOutput(mlir::Value valueTile);
  /// Multiplies the output where softmaxLazily() raised a maximum.
  void rescaleWhereGrown();
  void noteMarked(mlir::Value isMarked);

  int64_t consumers;
  mlir::Value hostProgress, progress, keyMap, valueMap, keys, values, queryTile, probabilities;
};

/// Computes again, exactly, what a kernel marked in `lse`: by the portable family, which selects values.
/// `op`, of all keys, stays, without a use of its results.
llvm::LogicalResult lowerMarkedRows(mlir::ImplicitLocOpBuilder &host, OnlineAttentionOp op,
                                    const TileLoweringOptions &options, mlir::Value out, mlir::Value lse,
                                    mlir::Value progress, llvm::StringRef name);

} // namespace attn

#endif // ATTN_PASSES_HOPPERKERNEL_H
