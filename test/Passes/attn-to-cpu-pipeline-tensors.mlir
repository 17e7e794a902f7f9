// RUN: attn-opt %s --attn-to-cpu-pipeline | FileCheck %s

// Plain tensor programs become LLVM too: each linalg operation is a parallel loop, and a buffer that is no result is freed.

// CHECK-LABEL: llvm.func @plain(
// CHECK:         %[[TMP:.*]] = llvm.call @malloc(
// CHECK-COUNT-3: llvm.call @attn_cpu_parallel_for(
// CHECK:         llvm.call @free(
// CHECK-NEXT:    llvm.return
func.func @plain(%x: tensor<4x8xf32>, %y: tensor<8x4xf32>) -> tensor<4x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %exp = linalg.exp ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %f = tensor.empty() : tensor<4x4xf32>
  %init = linalg.fill ins(%zero : f32) outs(%f : tensor<4x4xf32>) -> tensor<4x4xf32>
  %r = linalg.matmul ins(%exp, %y : tensor<4x8xf32>, tensor<8x4xf32>) outs(%init : tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
