// RUN: attn-opt %s --attn-lower-online --canonicalize --cse | FileCheck %s
// RUN: attn-opt %s --attn-to-cpu-pipeline | FileCheck %s --check-prefix=LLVM

// FlashAttention-1's order: a work item is a whole head, keys are in the outer loop, and the state of every query (output,
// maximum, sum) is in memory, of O(q_len).

!q = tensor<1x4x?x4xf32>
!k = tensor<1x2x?x4xf32>
!l = tensor<1x4x?xf32>
#tile = #attn.schedule<block_m = 8, block_n = 6, order = key_outer, vector_length = 4, register_rows = 2, register_vectors = 2>

// CHECK-LABEL: func @causal(
// CHECK-SAME: %[[Q:.*]]: tensor<1x4x?x4xf32>, %[[K:.*]]: tensor<1x2x?x4xf32>)
// CHECK: %[[Q_LEN:.*]] = tensor.dim %[[Q]], %c2
// CHECK: %[[KV_LEN:.*]] = tensor.dim %[[K]], %c2
// CHECK: scf.forall (%{{.*}}) in (4) {
// CHECK: %[[BLOCKS:.*]] = arith.ceildivsi %[[Q_LEN]], %c8
// CHECK: %[[OUT:.*]] = memref.alloc(%[[BLOCKS]]) {{.*}} : memref<?x4x8xf32>
// CHECK: %[[MAX:.*]] = memref.alloc(%[[BLOCKS]]) {{.*}} : memref<?x8xf32>
// CHECK: %[[SUM:.*]] = memref.alloc(%[[BLOCKS]]) {{.*}} : memref<?x8xf32>

// All states are initialised.
// CHECK: scf.for %[[BLOCK:.*]] = %c0 to %[[BLOCKS]] step %c1 {
// CHECK: %[[BLOCK_OUT:.*]] = memref.subview %[[OUT]][%[[BLOCK]], 0, 0]
// CHECK: %[[BLOCK_MAX:.*]] = memref.subview %[[MAX]][%[[BLOCK]], 0]
// CHECK: %[[BLOCK_SUM:.*]] = memref.subview %[[SUM]][%[[BLOCK]], 0]
// CHECK: vector.store %{{.*}}, %[[BLOCK_OUT]]
// CHECK: vector.store %{{.*}}, %[[BLOCK_MAX]]
// CHECK: vector.store %{{.*}}, %[[BLOCK_SUM]]

// Each block of keys is packed once for all queries.
// CHECK: scf.for %[[KEY:.*]] = %c0 to %[[KV_LEN]] step %c6 {
// CHECK: vector.load {{.*}} : memref<1x2x?x4xf32,
// CHECK: scf.for %[[BLOCK:.*]] = %c0 to %[[BLOCKS]] step %c1 {
// CHECK-NOT: memref<1x2x?x4xf32,
// CHECK: memref.subview %[[OUT]][%[[BLOCK]], 0, 0]
// Blocks of queries that visit none of these keys are skipped, those that drop none of them do not mask.
// CHECK: %[[BEGIN:.*]] = arith.muli %[[BLOCK]], %c8
// CHECK: %[[VISITED:.*]] = arith.cmpi slt
// CHECK: scf.if %[[VISITED]] {
// CHECK: %[[MASKED:.*]] = arith.cmpi slt
// CHECK: tensor.extract %[[Q]]
// CHECK-COUNT-4: vector.fma
// CHECK: scf.if %[[MASKED]] {
// CHECK: arith.cmpi sle
// CHECK: } else {
// CHECK-NOT: arith.cmpi
// CHECK-COUNT-4: vector.fma

// At the end all blocks are normalised.
// CHECK: scf.for %[[BLOCK:.*]] = %c0 to %[[BLOCKS]] step %c1 {
// CHECK: memref.subview %[[OUT]][%[[BLOCK]], 0, 0]
// CHECK: arith.divf
// CHECK: math.log
// CHECK-NOT: scf.forall

// The state is freed by whoever computed the head.
// LLVM: llvm.func {{.*}}@causal_parallel_0
// LLVM-COUNT-3: llvm.call @malloc
// LLVM-COUNT-3: llvm.call @free
func.func @causal(%q: !q, %k: !k) -> (!q, !l) {
  %out, %lse = attn.online_attention forward %q, %k, %k schedule(#tile)
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %keep = arith.cmpi sle, %kv_idx, %q_idx : index
      attn.yield %keep : i1
    } ranges(%b: index, %h: index, %begin: index, %end: index) {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %first = arith.addi %begin, %c1 : index
      %kv_len = attn.kv_len %b
      attn.yield_ranges visited(%c0 to %end) masked(%first to %kv_len)
    } : (!q, !k, !k) -> (!q, !l)
  return %out, %lse : !q, !l
}

// Without a mask every block is visited.
// CHECK-LABEL: func @full(
// CHECK: scf.for %{{.*}} step %c6 {
// CHECK: scf.for %{{.*}} = %c0 to %{{.*}} step %c1 {
// CHECK-NOT: arith.ori
// CHECK: vector.fma
// CHECK: math.exp
// CHECK-NOT: } else {
// CHECK: return
func.func @full(%q: !q, %k: !k) -> !q {
  %out, %lse = attn.online_attention forward %q, %k, %k schedule(#tile) : (!q, !k, !k) -> (!q, !l)
  return %out : !q
}
