// RUN: attn-opt %s --attn-expand-copies | FileCheck %s

// CHECK-LABEL: func.func @f(
// CHECK-SAME:    %[[A:.*]]: memref<?x4xf32>, %[[B:.*]]: memref<?x4xf32, strided<[?, 1], offset: ?>>)
// CHECK-NOT:     memref.copy
// CHECK:         linalg.generic {{.*}} ins(%[[A]] : memref<?x4xf32>) outs(%[[B]] : memref<?x4xf32, strided<[?, 1], offset: ?>>)
// CHECK:           linalg.yield
func.func @f(%a: memref<?x4xf32>, %b: memref<?x4xf32, strided<[?, 1], offset: ?>>) {
  memref.copy %a, %b : memref<?x4xf32> to memref<?x4xf32, strided<[?, 1], offset: ?>>
  return
}
