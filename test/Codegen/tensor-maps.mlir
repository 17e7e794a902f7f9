// RUN: attn-translate --attn-to-cuda %s | FileCheck %s --check-prefix=CUDA
// RUN: attn-translate --attn-to-launch-plan %s | %python %S/Inputs/compact_plan.py | FileCheck %s --check-prefix=PLAN
// RUN: %if nvrtc %{ attn-translate --attn-to-ptx --arch=sm_90a %s -o %t.ptx && FileCheck %s --check-prefix=PTX --input-file=%t.ptx %}

// Maps are made where the kernel is launched; a kernel takes one by value, and the headers for it.

// CUDA:      #include "attn/hopper.cuh"
// CUDA-NEXT: using namespace attn;
// CUDA:      extern "C" __global__ void __launch_bounds__(128, 1)
// CUDA-NEXT: copy_maps(
// CUDA-NEXT:     const float scale,
// CUDA-NEXT:     const __grid_constant__ TensorMap key_map,
// CUDA-NEXT:     const Tensor<const bf16, 4> key,
// CUDA-NEXT:     const __grid_constant__ TensorMap TensorMap_,
// CUDA-NEXT:     const __grid_constant__ TensorMap partial_map) {
// CUDA:      #include "attn/portable.cuh"

// Where a launch puts them.
// PTX:      .param .f32 copy_maps_param_0,
// PTX-NEXT: .param .align 64 .b8 copy_maps_param_1[128],
// PTX-NEXT: .param .align 8 .b8 copy_maps_param_2[56],
// PTX-NEXT: .param .align 64 .b8 copy_maps_param_3[128],

// A map makes its tensor one that is accessed in 16 bytes; the workspace is by itself.
// PLAN:      variant: aligned if {"min": [{"parameter_aligned": [0, 16]}, {"result_aligned": [0, 16]}]}
// PLAN:        launch: 0 copy_maps grid [1, 1, 1] threads 128 shared 0
// PLAN-NEXT:     {"parameter": 1}
// PLAN-NEXT:     {"tensor_map": {"parameter": 0}, "box": [128, 64]}
// PLAN-NEXT:     {"parameter": 0}
// PLAN-NEXT:     {"tensor_map": {"result": 0}, "box": [64, 64]}
// PLAN-NEXT:     {"tensor_map": {"workspace": 0}, "box": [256, 64]}
// PLAN-NEXT:   launch: 1 plain

!tensor = memref<?x4x?x128xbf16, strided<[?, ?, ?, 1], offset: ?>>
!partial = memref<?x4x8x72xf16>
!view = memref<?x4x8x72xf16, strided<[?, ?, ?, 1], offset: ?>>

module attributes {gpu.container_module} {
  func.func @copies(%key: !tensor, %scale: f32, %out: !tensor {attn.result = [[0, 0], 4, [0, 2], 128]}) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c128 = arith.constant 128 : index
    %batch = memref.dim %key, %c0 : !tensor
    %partial = memref.alloc(%batch) : !partial
    %view = memref.cast %partial : !partial to !view
    %key_map = attn_tile.tensor_map %key : !tensor to !attn_tile.tensor_map<128x64xbf16>
    %out_map = attn_tile.tensor_map %out : !tensor to !attn_tile.tensor_map<64x64xbf16>
    %partial_map = attn_tile.tensor_map %view : !view to !attn_tile.tensor_map<256x64xf16>
    gpu.launch_func @kernels::@copy_maps blocks in (%c1, %c1, %c1) threads in (%c128, %c1, %c1)
        args(%scale : f32, %key_map : !attn_tile.tensor_map<128x64xbf16>, %key : !tensor,
             %out_map : !attn_tile.tensor_map<64x64xbf16>, %partial_map : !attn_tile.tensor_map<256x64xf16>)
    gpu.launch_func @others::@plain blocks in (%c1, %c1, %c1) threads in (%c128, %c1, %c1)
    return
  }

  gpu.module @kernels {
    gpu.func @copy_maps(%scale: f32, %key_map: !attn_tile.tensor_map<128x64xbf16>, %key: !tensor,
                        %TensorMap: !attn_tile.tensor_map<64x64xbf16>, %partial_map: !attn_tile.tensor_map<256x64xf16>) kernel
        attributes {attn_tile.kernel = #attn_tile.kernel<warps = 4>} {
      gpu.return
    }
  }

  gpu.module @others {
    gpu.func @plain() kernel attributes {attn_tile.kernel = #attn_tile.kernel<warps = 4>} {
      gpu.return
    }
  }
}
