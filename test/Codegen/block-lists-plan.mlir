// RUN: attn-opt %s --attn-set-target=arch=sm_90a | attn-translate --attn-to-launch-plan | %python %S/Inputs/compact_plan.py | FileCheck %s

// Where a mask depends on data, its lists are made first: two kernels, and the workspace of four numbers and a state for each block.
// CHECK: name: "documents"
// CHECK: module: documents_block_states
// CHECK-NEXT: module: documents_block_lists
// CHECK-NEXT: module: documents_forward
// CHECK-NEXT: module: documents_forward_repair
// CHECK-NEXT: module: documents_forward.1
// CHECK-NEXT: variant: aligned
// CHECK-NEXT:   workspace: {"name": "{{.*}}", "type": "i32", "sizes": [{"dim": [0, 0]}, 1, {"ceildiv": [{"dim": [0, 2]}, 128]}, {"ceildiv": [{"dim": [0, 2]}, 128]}, 4], "zeroed": false, "left_zero": false}
// CHECK-NEXT:   workspace: {"name": "{{.*}}", "type": "i32", "sizes": [{"dim": [0, 0]}, 1, {"ceildiv": [{"dim": [0, 2]}, 128]}, {"ceildiv": [{"dim": [0, 2]}, 128]}], "zeroed": false, "left_zero": false}
// CHECK-NEXT:   workspace: {"name": "progress", "type": "i32", "sizes": [2], "zeroed": true, "left_zero": true}
// CHECK-NEXT:   launch: 0 documents_block_states grid
// CHECK:        launch: 1 documents_block_lists grid
// What repairs starts while the forward ends; the forward itself does not start before all that came before it has ended.
// CHECK:        launch: 2 documents_forward grid {{.*}} shared {{[0-9]+$}}
// CHECK:        launch: 3 documents_forward_repair grid {{.*}} early{{$}}
!q = tensor<?x8x?x64xbf16>
!l = tensor<?x8x?xf32>
func.func @documents(%q: !q, %ids: tensor<?x?xi32>) -> (!q, !l) {
  %out, %lse = attn.attention %q, %q, %q captures(%ids : tensor<?x?xi32>)
    mask(%b: index, %h: index, %i: index, %j: index) {
      %of_query = tensor.extract %ids[%b, %i] : tensor<?x?xi32>
      %of_key = tensor.extract %ids[%b, %j] : tensor<?x?xi32>
      %same = arith.cmpi eq, %of_query, %of_key : i32
      attn.yield %same : i1
    } : (!q, !q, !q) -> (!q, !l)
  return %out, %lse : !q, !l
}
