// RUN: attn-opt %s --attn-bufferize --canonicalize --cse --split-input-file | FileCheck %s

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

// -----

// A map of a tensor's buffer stays, and is one of the argument.

// CHECK-LABEL: func.func @map(
// CHECK-SAME:    %[[KEY:.*]]: memref<?x4x?x128xbf16, strided<[?, ?, ?, 1], offset: ?>>)
// CHECK:         %[[MAP:.*]] = attn_tile.tensor_map %[[KEY]] :
// CHECK:         gpu.launch_func {{.*}} args(%[[MAP]] : !attn_tile.tensor_map<128x64xbf16>)
// CHECK-NOT:     memref.copy
module attributes {gpu.container_module} {
  func.func @map(%key: tensor<?x4x?x128xbf16> {bufferization.writable = false}) {
    %c1 = arith.constant 1 : index
    %buffer = bufferization.to_buffer %key read_only : tensor<?x4x?x128xbf16> to memref<?x4x?x128xbf16, strided<[?, ?, ?, 1], offset: ?>>
    %map = attn_tile.tensor_map %buffer : memref<?x4x?x128xbf16, strided<[?, ?, ?, 1], offset: ?>> to !attn_tile.tensor_map<128x64xbf16>
    gpu.launch_func @kernels::@kernel blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%map : !attn_tile.tensor_map<128x64xbf16>)
    return
  }
  gpu.module @kernels {
    gpu.func @kernel(%map: !attn_tile.tensor_map<128x64xbf16>) kernel {
      gpu.return
    }
  }
}
