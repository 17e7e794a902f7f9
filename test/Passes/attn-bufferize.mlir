// RUN: attn-opt %s --attn-bufferize | FileCheck %s

// Unit last strides at the boundary: reading a part of a row is one vector load. A read-only argument is copied before it
// is written.

// CHECK-LABEL: func.func @f(
// CHECK-SAME:    %[[X:.*]]: memref<?x8xf32, strided<[?, 1], offset: ?>>, %{{.*}}: f32)
// CHECK:         %[[COPY:.*]] = memref.alloc
// CHECK:         memref.copy %[[X]], %[[COPY]]
// CHECK:         memref.store %{{.*}}, %[[COPY]]
// CHECK:         return %{{.*}} : memref<?x8xf32, strided<[?, 1], offset: ?>>
func.func @f(%x: tensor<?x8xf32> {bufferization.writable = false}, %s: f32) -> tensor<?x8xf32> {
  %c0 = arith.constant 0 : index
  %r = tensor.insert %s into %x[%c0, %c0] : tensor<?x8xf32>
  return %r : tensor<?x8xf32>
}
