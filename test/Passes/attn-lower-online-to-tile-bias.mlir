// RUN: attn-opt %s --split-input-file --attn-set-target=arch=sm_90a --attn-plan --attn-lower-online-to-tile | FileCheck %s
// RUN: attn-opt %s --split-input-file --attn-set-target=arch=sm_90a --attn-plan=bias-stages=0 --attn-lower-online-to-tile | FileCheck %s --check-prefix=LOADED

// A dense bias in the forward of the hopper family: tiles of it, as of keys, where the tensor memory accelerator can copy them.

!q = tensor<?x16x?x128xbf16>
!l = tensor<?x16x?xf32>

// CHECK-LABEL: func @groups(
// Not for calls whose tensor has no elements.
// CHECK-COUNT-4: arith.cmpi sgt
// CHECK:      attn_tile.take_if %{{.*}} "tiled_bias"
// CHECK:      attn_tile.tensor_map {{.*}} : memref<?x?x?x?xf16, {{.*}}> to <128x64xf16>

// LOADED-LABEL: gpu.func @groups_forward(
// LOADED-NOT: load_panels
// LOADED:     memref.load %{{.*}} : memref<?x?x?x?xf16

// CHECK-LABEL: gpu.func @groups_forward(
// CHECK:      %biases = attn_tile.pipeline_alloc "biases" : <2x128x128xf16, 2, loaded>
// CHECK:      %bias = attn_tile.fragment_alloc "bias" : <128x128xf16, operand_a, 8x1>
// In the first block, which finds the maximum.
// CHECK:      attn_tile.mma_wait pending(0) %scores
// CHECK-NEXT: attn_tile.pipeline_release %keys
// CHECK-NEXT: %bias_tile = attn_tile.pipeline_wait %biases
// CHECK-NEXT: attn_tile.load_panels %bias_tile to %bias
// CHECK:      attn_tile.map ins(%bias : {{.*}}) outs(%scores
// CHECK-NEXT: ^bb0(%row: index, %column: index, %[[BIAS:.*]]: f16, %{{.*}}: f32):
// CHECK-NOT:  memref.load
// CHECK:      arith.extf %[[BIAS]] : f16 to f32
// CHECK:      attn_tile.pipeline_release %biases
// And of each other one; only it is added where scores are taken apart.
// CHECK:      attn_tile.mma_wait pending(1) %scores
// CHECK-NEXT: attn_tile.pipeline_release %keys
// CHECK-NEXT: attn_tile.pipeline_wait %biases
// CHECK-NEXT: attn_tile.load_panels
// CHECK:      attn_tile.map ins(%row_base, %bias : {{.*}}) outs(%scores
// CHECK-NOT:  memref.load
// CHECK:      attn_tile.pipeline_release %biases
// CHECK-NEXT: attn_tile.mma_wait pending(0) %output
// Rows of the queries, columns of the keys, of the matrix of the group; after the values of the block before.
// CHECK:      } producer registers(40) {
// CHECK:        attn_tile.copy_bulk %{{.*}}[%[[BATCH:.*]], %{{.*}}, %[[FIRST:.*]]] to %key_slot signals %keys
// CHECK:        attn_tile.copy_bulk %{{.*}}[%[[BATCH]], %[[GROUP:.*]], %[[ROW:.*]]] column(%[[FIRST]]) to %bias_slot signals %biases
// CHECK:        scf.while
// CHECK:          attn_tile.copy_bulk %{{.*}}[%[[BATCH]], %{{.*}}, %[[KEY:.*]]] to %{{.*}} signals %keys
// CHECK:          attn_tile.pipeline_acquire %values
// CHECK:          attn_tile.pipeline_acquire %biases
// CHECK-NEXT:     attn_tile.copy_bulk %{{.*}}[%[[BATCH]], %[[GROUP]], %[[ROW]]] column(%[[KEY]])
// CHECK-NEXT:     attn_tile.pipeline_commit %biases
func.func @groups(%q: !q, %k: !q, %v: !q, %bias: tensor<?x?x?x?xf16>) -> (!q, !l) {
  %out, %lse = attn.attention %q, %k, %v captures(%bias : tensor<?x?x?x?xf16>)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %four = arith.constant 4 : index
      %group = arith.divsi %h, %four : index
      %x = tensor.extract %bias[%b, %group, %q_idx, %kv_idx] : tensor<?x?x?x?xf16>
      %wide = arith.extf %x : f16 to f32
      %r = arith.addf %s, %wide : f32
      attn.yield %r : f32
    } : (!q, !q, !q) -> (!q, !l)
  return %out, %lse : !q, !l
}

// -----

!q = tensor<?x16x?x128xbf16>
!l = tensor<?x16x?xf32>

// The mask may read it, too, element by element; and a constant matrix of it is one.
// CHECK-LABEL: func @constant(
// CHECK:      attn_tile.tensor_map {{.*}} : memref<?x?x?xbf16, {{.*}}> to <128x64xbf16>
// CHECK-LABEL: gpu.func @constant_forward(
// CHECK:      attn_tile.load_panels
// CHECK:      memref.load %{{.*}} : memref<?x?x?xbf16
// CHECK:      attn_tile.copy_bulk %{{.*}}[%c0{{.*}}, %c3{{.*}}, %{{.*}}] column(
func.func @constant(%q: !q, %k: !q, %v: !q, %bias: tensor<?x?x?xbf16>) -> (!q, !l) {
  %out, %lse = attn.attention %q, %k, %v captures(%bias : tensor<?x?x?xbf16>)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %c3 = arith.constant 3 : index
      %x = tensor.extract %bias[%c3, %q_idx, %kv_idx] : tensor<?x?x?xbf16>
      %wide = arith.extf %x : bf16 to f32
      %r = arith.mulf %s, %wide : f32
      attn.yield %r : f32
    } mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %x = tensor.extract %bias[%h, %q_idx, %kv_idx] : tensor<?x?x?xbf16>
      %wide = arith.extf %x : bf16 to f32
      %zero = arith.constant 0.0 : f32
      %keep = arith.cmpf ogt, %wide, %zero : f32
      attn.yield %keep : i1
    } : (!q, !q, !q) -> (!q, !l)
  return %out, %lse : !q, !l
}
