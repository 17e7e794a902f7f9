// RUN: attn-opt %s --attn-results-to-out-params --split-input-file --verify-diagnostics | FileCheck %s

// CHECK-LABEL: func.func @two(
// CHECK-SAME:    %[[X:.*]]: tensor<?x8xf32> {bufferization.writable = false}, %[[S:.*]]: f32,
// CHECK-SAME:    %[[FIRST:.*]]: memref<?x8xf32, strided<[?, 1], offset: ?>> {attn.result = {{\[}}[0, 0], 8]},
// CHECK-SAME:    %[[SECOND:.*]]: memref<f32, strided<[], offset: ?>> {attn.result = []}) -> f32
// CHECK:         bufferization.materialize_in_destination %[[X]] in restrict writable %[[FIRST]]
// CHECK:         bufferization.materialize_in_destination %{{.*}} in restrict writable %[[SECOND]]
// CHECK:         return %[[S]] : f32
func.func @two(%x: tensor<?x8xf32>, %s: f32) -> (tensor<?x8xf32>, f32, tensor<f32>) {
  %t = tensor.from_elements %s : tensor<f32>
  return %x, %s, %t : tensor<?x8xf32>, f32, tensor<f32>
}

// The sizes of results, through allocations and destinations.

// CHECK-LABEL: func.func @sizes(
// CHECK-SAME:    %{{.*}}: tensor<?x?xf32> {bufferization.writable = false}, %{{.*}}: index,
// CHECK-SAME:    %{{.*}}: memref<?x?xf32, strided<[?, 1], offset: ?>> {attn.result = {{\[}}[0, 1], []]},
// CHECK-SAME:    %{{.*}}: memref<3x?xf32, strided<[?, 1], offset: ?>> {attn.result = [3, [0, 0]]})
func.func @sizes(%x: tensor<?x?xf32>, %n: index) -> (tensor<?x?xf32>, tensor<3x?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %columns = tensor.dim %x, %c1 : tensor<?x?xf32>
  %empty = tensor.empty(%columns, %n) : tensor<?x?xf32>
  %filled = linalg.fill ins(%zero : f32) outs(%empty : tensor<?x?xf32>) -> tensor<?x?xf32>
  %buffer = bufferization.to_buffer %x : tensor<?x?xf32> to memref<?x?xf32>
  %rows = memref.dim %buffer, %c0 : memref<?x?xf32>
  %alloc = memref.alloc(%rows) : memref<3x?xf32>
  %computed = bufferization.to_tensor %alloc restrict writable : memref<3x?xf32> to tensor<3x?xf32>
  return %filled, %computed : tensor<?x?xf32>, tensor<3x?xf32>
}

// Divided and rounded up; a size that only the allocation knows.

// CHECK-LABEL: func.func @blocks(
// CHECK-SAME:    %{{.*}}: memref<?x?xi32, strided<[?, 1], offset: ?>> {attn.result = {{\[}}[0, 0, 128], 4]})
func.func @blocks(%x: tensor<?xf32>) -> tensor<?x?xi32> {
  %c0 = arith.constant 0 : index
  %c128 = arith.constant 128 : index
  %length = tensor.dim %x, %c0 : tensor<?xf32>
  %blocks = arith.ceildivsi %length, %c128 : index
  %alloc = memref.alloc(%blocks) : memref<?x4xi32>
  %cast = memref.cast %alloc : memref<?x4xi32> to memref<?x?xi32>
  %computed = bufferization.to_tensor %cast restrict writable : memref<?x?xi32> to tensor<?x?xi32>
  return %computed : tensor<?x?xi32>
}

// Private functions keep their results; their arguments may be written.

// CHECK-LABEL: func.func private @helper(
// CHECK-SAME:    tensor<4xf32>) -> tensor<4xf32>
func.func private @helper(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

func.func @callee(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func @caller(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{refers to @callee, a public function that returns tensors; inline the call or make the function private}}
  %r = call @callee(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// expected-error @below {{takes or returns a tensor without a rank; public functions need ranked tensors}}
func.func @unranked(%x: tensor<*xf32>) {
  return
}
