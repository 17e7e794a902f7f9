//===- Pipelines.cpp - the pass pipelines ------------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Pipelines.h"
#include "mlir/Conversion/AffineToStandard/AffineToStandard.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/ConvertToLLVM/ToLLVMPass.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVM.h"
#include "mlir/Conversion/IndexToLLVM/IndexToLLVM.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/UBToLLVM/UBToLLVM.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Conversion/VectorToSCF/VectorToSCF.h"
#include "mlir/Dialect/Arith/Transforms/BufferDeallocationOpInterfaceImpl.h"
#include "mlir/Dialect/Arith/Transforms/BufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Bufferization/Pipelines/Passes.h"
#include "mlir/Dialect/Bufferization/Transforms/FuncBufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Linalg/Passes.h"
#include "mlir/Dialect/Linalg/Transforms/BufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/MemRef/Transforms/AllocationOpInterfaceImpl.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Dialect/SCF/Transforms/BufferDeallocationOpInterfaceImpl.h"
#include "mlir/Dialect/SCF/Transforms/BufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Tensor/IR/TensorInferTypeOpInterfaceImpl.h"
#include "mlir/Dialect/Tensor/Transforms/BufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Tensor/Transforms/SubsetInsertionOpInterfaceImpl.h"
#include "mlir/Dialect/Vector/Transforms/BufferizableOpInterfaceImpl.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Passes.h"
#include "passes/SizeFormula.h"

using namespace mlir;
using namespace attn;

//===----------------------------------------------------------------------===//
// Attention to loops
//===----------------------------------------------------------------------===//

void attn::buildPlanPipeline(OpPassManager &pm, const PlanPipelineOptions &options,
                             const GpuPlanOptions &gpu) {
  pm.addPass(createInlinerPass());
  pm.addPass(createCanonicalizerPass());
  if (options.blockLists) {
    pm.addPass(createBuildBlockListsPass());
    pm.addPass(createCSEPass()); // one for all attention with the same mask
  }
  PlanPassOptions plan;
  plan.blockM = options.blockM;
  plan.blockN = options.blockN;
  plan.keyOuter = options.keyOuter;
  plan.splitKeys = gpu.splitByLengths || options.kvSplits > 1;
  plan.fewRows = gpu.fewRows;
  plan.manyRows = gpu.manyRows;
  plan.shortLengths = gpu.shortLengths;
  plan.family = gpu.family;
  plan.biasStages = gpu.biasStages;
  plan.exactMaximum = gpu.exactMaximum;
  plan.tile = gpu.tile;
  plan.aligned = gpu.aligned;
  plan.tf32 = options.tf32;
  plan.deterministic = options.deterministic;
  pm.addPass(createPlanPass(plan));
  SplitKvPassOptions split;
  split.splits = options.kvSplits;
  split.byLengths = gpu.splitByLengths;
  split.manyRows = gpu.manyRows;
  pm.addPass(createSplitKvPass(split));
  pm.addPass(createCanonicalizerPass());
}

void attn::buildAttentionPipeline(OpPassManager &pm, const CpuPipelineOptions &options) {
  buildPlanPipeline(pm, options);
  pm.addPass(createLowerMergePass());
  pm.addPass(createLowerDeltaPass());
  pm.addPass(createLowerBlockListsPass());
  pm.addPass(createLowerOnlinePass());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
}

//===----------------------------------------------------------------------===//
// Loops over buffers to the LLVM dialect
//===----------------------------------------------------------------------===//

/// Tensors to buffers; results are written to parameters.
static void addBufferization(OpPassManager &pm) {
  // Elementwise arithmetic on whole tensors does not bufferize.
  pm.addPass(createConvertElementwiseToLinalgPass());
  pm.addPass(createResultsToOutParamsPass());

  pm.addPass(createBufferizePass());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  pm.addPass(createWriteResultsInPlacePass());
}

static void buildBufferToLLVMPipeline(OpPassManager &pm) {
  addBufferization(pm);
  bufferization::buildBufferDeallocationPipeline(pm);
  pm.addPass(createExpandCopiesPass());

  pm.addPass(createConvertLinalgToParallelLoopsPass());
  pm.addPass(createOutlineParallelLoopsPass());

  auto addToFunctions = [&](std::unique_ptr<Pass> pass) { pm.addNestedPass<func::FuncOp>(std::move(pass)); };

  pm.addPass(createConvertVectorToSCFPass(VectorTransferToSCFOptions().enableFullUnroll()));

  addToFunctions(math::createMathExtendToSupportedTypes());
  addToFunctions(arith::createArithEmulateUnsupportedFloats({{"bf16", "f16"}, "f32"}));
  pm.addPass(createLowerMathPass());

  pm.addPass(memref::createExpandStridedMetadataPass());
  pm.addPass(createLowerAffinePass());
  pm.addPass(createSCFToControlFlowPass());
  ConvertVectorToLLVMPassOptions vectorOptions;
  vectorOptions.vectorContractLowering = vector::VectorContractLowering::OuterProduct;
  vectorOptions.vectorTransposeLowering = vector::VectorTransposeLowering::Shuffle1D;
  pm.addPass(createConvertVectorToLLVMPass(vectorOptions));
  pm.addPass(createConvertToLLVMPass());
  pm.addPass(createReconcileUnrealizedCastsPass());
  pm.addPass(createVerifyLLVMPass());
}

void attn::buildCpuPipeline(OpPassManager &pm, const CpuPipelineOptions &options) {
  buildAttentionPipeline(pm, options);
  buildBufferToLLVMPipeline(pm);
}

//===----------------------------------------------------------------------===//
// Attention to kernels for a GPU
//===----------------------------------------------------------------------===//

void attn::buildCudaPipeline(OpPassManager &pm, const CudaPipelineOptions &options) {
  GpuPlanOptions gpu;
  gpu.splitByLengths = options.splitKv && options.kvSplits == 0;
  gpu.fewRows = options.fewRows;
  gpu.manyRows = options.manyRows;
  gpu.shortLengths = options.shortLengths;
  gpu.aligned = options.aligned;
  gpu.exactMaximum = options.exactMaximum;
  gpu.family = options.family;
  gpu.biasStages = options.biasStages;
  llvm::append_range(gpu.tile, options.tile);
  buildPlanPipeline(pm, options, gpu);
  LowerOnlineToTilePassOptions lowering;
  lowering.aligned = options.aligned;
  pm.addPass(createLowerOnlineToTilePass(lowering));
  pm.addPass(createCanonicalizerPass());
  pm.addNestedPass<gpu::GPUModuleOp>(createHoistInvariantsPass());
  pm.addPass(createCSEPass());
  pm.addNestedPass<gpu::GPUModuleOp>(createLoadColumnsPass());
  pm.addNestedPass<gpu::GPUModuleOp>(createRelativeColumnsPass());
  addBufferization(pm);
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
}

void attn::registerAttnPipelines() {
  PassPipelineRegistration<CudaPipelineOptions>(
      "attn-to-cuda-pipeline",
      "Lower attention to kernels of the attn_tile dialect, ready to be printed as CUDA C++",
      buildCudaPipeline);
  PassPipelineRegistration<CpuPipelineOptions>(
      "attn-to-cpu-pipeline", "Lower attention to the LLVM dialect for the CPU", buildCpuPipeline);
}

void attn::registerPipelineInterfaces(DialectRegistry &registry) {
  arith::registerBufferizableOpInterfaceExternalModels(registry);
  bufferization::func_ext::registerBufferizableOpInterfaceExternalModels(registry);
  linalg::registerBufferizableOpInterfaceExternalModels(registry);
  scf::registerBufferizableOpInterfaceExternalModels(registry);
  tensor::registerBufferizableOpInterfaceExternalModels(registry);
  tensor::registerInferTypeOpInterfaceExternalModels(registry);
  tensor::registerSubsetOpInterfaceExternalModels(registry);
  vector::registerBufferizableOpInterfaceExternalModels(registry);
  registerSizeInterfaces(registry);

  arith::registerBufferDeallocationOpInterfaceExternalModels(registry);
  memref::registerAllocationOpInterfaceExternalModels(registry);
  scf::registerBufferDeallocationOpInterfaceExternalModels(registry);

  arith::registerConvertArithToLLVMInterface(registry);
  cf::registerConvertControlFlowToLLVMInterface(registry);
  registerConvertFuncToLLVMInterface(registry);
  index::registerConvertIndexToLLVMInterface(registry);
  registerConvertMathToLLVMInterface(registry);
  registerConvertMemRefToLLVMInterface(registry);
  ub::registerConvertUBToLLVMInterface(registry);
  vector::registerConvertVectorToLLVMInterface(registry);
}
