// RUN: attn-opt %s --attn-lower-block-lists --canonicalize --cse | FileCheck %s

!q = tensor<2x4x?x8xf32>
!k = tensor<2x2x?x8xf32>

// Rows first: the mask is evaluated where the ranges leave a block open, and each block is given the next of its row. Then the
// columns, from what the rows say.
// CHECK-LABEL: func @lists(
// CHECK-SAME: %[[Q:.*]]: tensor<2x4x?x8xf32>, %[[K:.*]]: tensor<2x2x?x8xf32>, %[[IDS:.*]]: tensor<2x?xi32>)
// CHECK-DAG: %[[ROWS:.*]] = arith.ceildivsi %{{.*}}, %c128
// CHECK-DAG: %[[COLUMNS:.*]] = arith.ceildivsi %{{.*}}, %c64
// CHECK: %[[LISTS:.*]] = memref.alloc(%[[ROWS]], %[[COLUMNS]]) : memref<2x1x?x?x4xi32>
// CHECK: scf.forall (%[[WORK:.*]]) in (
// CHECK: %[[ROW:.*]] = arith.remsi %[[WORK]], %[[ROWS]]
// CHECK: scf.for %[[STEP:.*]] = %c0 to %[[COLUMNS]] step %c1 iter_args(%[[PARTIAL:.*]] = %[[COLUMNS]], %[[FULL:.*]] = %[[COLUMNS]])
// CHECK: %[[COLUMN:.*]] = arith.subi %{{.*}}, %[[STEP]]
// CHECK: %[[STATE:.*]]:2 = scf.if %{{.*}} -> (i1, i1) {
// CHECK: scf.for
// CHECK: scf.for
// CHECK: tensor.extract
// CHECK: tensor.extract
// CHECK: arith.cmpi eq
// CHECK: arith.ori
// CHECK: arith.andi
// CHECK: } else {
// CHECK: }
// CHECK: %[[SOME:.*]] = arith.xori %[[STATE]]#1, %true
// CHECK: %[[IS_PARTIAL:.*]] = arith.andi %[[STATE]]#0, %[[SOME]]
// CHECK: %[[NEXT_PARTIAL:.*]] = arith.select %[[IS_PARTIAL]], %[[COLUMN]], %[[PARTIAL]]
// CHECK: memref.store %{{.*}}, %[[LISTS]][%{{.*}}, %{{.*}}, %[[ROW]], %[[COLUMN]], %c0]
// CHECK: %[[NEXT_FULL:.*]] = arith.select %[[STATE]]#1, %[[COLUMN]], %[[FULL]]
// CHECK: memref.store %{{.*}}, %[[LISTS]][%{{.*}}, %{{.*}}, %[[ROW]], %[[COLUMN]], %c1]
// CHECK: scf.yield %[[NEXT_PARTIAL]], %[[NEXT_FULL]]
// CHECK: scf.forall
// CHECK: scf.for
// CHECK: memref.load %[[LISTS]][{{.*}}, %c1]
// CHECK: memref.load %[[LISTS]][{{.*}}, %c0]
// CHECK-NOT: arith.cmpi eq, {{.*}} : i32
// CHECK: memref.store %{{.*}}, %[[LISTS]][{{.*}}, %c2]
// CHECK: memref.store %{{.*}}, %[[LISTS]][{{.*}}, %c3]
// CHECK: bufferization.to_tensor %[[LISTS]]
func.func @lists(%q: !q, %k: !k, %ids: tensor<2x?xi32>) -> tensor<2x1x?x?x4xi32> {
  %lists = attn.block_lists %q, %k captures(%ids : tensor<2x?xi32>) blocks(128, 64)
    mask(%b: index, %h: index, %i: index, %j: index) {
      %of_query = tensor.extract %ids[%b, %i] : tensor<2x?xi32>
      %of_key = tensor.extract %ids[%b, %j] : tensor<2x?xi32>
      %same = arith.cmpi eq, %of_query, %of_key : i32
      attn.yield %same : i1
    } ranges(%b: index, %h: index, %begin: index, %end: index) {
      %c0 = arith.constant 0 : index
      %n = attn.kv_len %b
      attn.yield_ranges visited(%c0 to %end) masked(%c0 to %n)
    } : (!q, !k) -> tensor<2x1x?x?x4xi32>
  return %lists : tensor<2x1x?x?x4xi32>
}
