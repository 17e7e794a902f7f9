// RUN: attn-opt %s --attn-build-block-lists --split-input-file | FileCheck %s
// RUN: attn-opt %s --attn-build-block-lists=block-m=64 --split-input-file | FileCheck %s --check-prefix=SIZES
// RUN: attn-opt %s --attn-build-block-lists --cse --split-input-file | FileCheck %s --check-prefix=CSE
// RUN: attn-opt %s --attn-build-block-lists --split-input-file --remarks-filter=attn-build-block-lists -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// The captures that the mask reads, one list for all heads; an operation that has lists keeps them. Equal ones are merged.
// CHECK-LABEL: func @documents
// CHECK-SAME: (%[[Q:.*]]: tensor<?x4x200x8xf32>, %[[IDS:.*]]: tensor<?x?xi32>,
// CHECK: %[[LISTS:.*]] = attn.block_lists %[[Q]], %[[Q]] captures(%[[IDS]] : tensor<?x?xi32>) blocks(128, 128) mask(
// CHECK: -> tensor<?x1x2x2x4xi32>
// CHECK: attn.attention %[[Q]], %[[Q]], %[[Q]] captures(%{{.*}} : f32, %[[IDS]] : tensor<?x?xi32>) block_lists(%[[LISTS]] : tensor<?x1x2x2x4xi32>) blocks(128, 128) score(
// CHECK: %[[AGAIN:.*]] = attn.block_lists
// CHECK: attn.attention_backward {{.*}} block_lists(%[[AGAIN]] :
// SIZES-LABEL: func @documents
// SIZES: attn.block_lists {{.*}} blocks(64, 128)
// SIZES: -> tensor<?x1x4x2x4xi32>
// CSE-LABEL: func @documents
// CSE: attn.block_lists
// CSE-NOT: = attn.block_lists
// CSE: return
// REMARK-COUNT-2: remark: [Passed] block-lists | Category:attn-build-block-lists | Reason="'tensor.extract' of the mask depends on data"
!q = tensor<?x4x200x8xf32>
!l = tensor<?x4x200xf32>
func.func @documents(%q: !q, %ids: tensor<?x?xi32>, %x: f32) -> (!q, !q) {
  %out, %lse = attn.attention %q, %q, %q captures(%x : f32, %ids : tensor<?x?xi32>)
    score(%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %scaled = arith.mulf %s, %x : f32
      attn.yield %scaled : f32
    } mask(%b: index, %h: index, %i: index, %j: index) {
      %of_query = tensor.extract %ids[%b, %i] : tensor<?x?xi32>
      %of_key = tensor.extract %ids[%b, %j] : tensor<?x?xi32>
      %same = arith.cmpi eq, %of_query, %of_key : i32
      attn.yield %same : i1
    } : (!q, !q, !q) -> (!q, !l)
  %d:3 = attn.attention_backward %q, %q, %q, %out, %lse, %out captures(%ids : tensor<?x?xi32>)
    mask(%b: index, %h: index, %i: index, %j: index) {
      %of_query = tensor.extract %ids[%b, %i] : tensor<?x?xi32>
      %of_key = tensor.extract %ids[%b, %j] : tensor<?x?xi32>
      %same = arith.cmpi eq, %of_query, %of_key : i32
      attn.yield %same : i1
    } : (!q, !q, !q, !q, !l, !q) -> (!q, !q, !q)
  return %out, %d#0 : !q, !q
}

// -----

// A formula of more than 16 cases is not taken apart.
// CHECK-LABEL: func @large
// CHECK: attn.block_lists
// REMARK: remark: [Passed] block-lists | Category:attn-build-block-lists | Reason="the mask has too many cases"
!q = tensor<2x4x?x8xf32>
!l = tensor<2x4x?xf32>
func.func @large(%q: !q) -> !q {
  %out, %lse = attn.attention %q, %q, %q mask(%b: index, %h: index, %i: index, %j: index) {
    %c9 = arith.constant 9 : index
    %c20 = arith.constant 20 : index
    %c33 = arith.constant 33 : index
    %c50 = arith.constant 50 : index
    %c77 = arith.constant 77 : index
    %d = arith.subi %i, %j : index
    %a0 = arith.cmpi slt, %d, %c9 : index
    %a1 = arith.cmpi slt, %j, %c20 : index
    %a2 = arith.cmpi slt, %i, %c33 : index
    %sum = arith.addi %i, %j : index
    %a3 = arith.cmpi slt, %sum, %c50 : index
    %twice = arith.addi %sum, %j : index
    %a4 = arith.cmpi slt, %twice, %c77 : index
    %x1 = arith.xori %a0, %a1 : i1
    %x2 = arith.xori %x1, %a2 : i1
    %x3 = arith.xori %x2, %a3 : i1
    %x4 = arith.xori %x3, %a4 : i1
    %a5 = arith.cmpi slt, %j, %c77 : index
    %keep = arith.xori %x4, %a5 : i1
    attn.yield %keep : i1
  } : (!q, !q, !q) -> (!q, !l)
  return %out : !q
}

// -----

// What the ranges know whole needs no lists, nor does a remainder, that leaves gaps in a range; neither does a mask that depends on the head, or a single block of queries.
// CHECK-LABEL: func @causal
// CHECK-NOT: attn.block_lists
// CHECK-LABEL: func @dilated
// CHECK-NOT: attn.block_lists
// CHECK-LABEL: func @of_head
// CHECK-NOT: attn.block_lists
// CHECK-LABEL: func @decode
// CHECK-NOT: attn.block_lists
// REMARK-NOT: remark
// REMARK: remark: [Missed] block-lists | Category:attn-build-block-lists | Reason="the mask depends on the head, so that lists would take as many evaluations as they save"
// REMARK: remark: [Missed] block-lists | Category:attn-build-block-lists | Reason="there is one block of queries"
!q = tensor<2x4x?x8xf32>
!l = tensor<2x4x?xf32>
!one = tensor<2x4x1x8xf32>
func.func @causal(%q: !q) -> !q {
  %out, %lse = attn.attention %q, %q, %q mask(%b: index, %h: index, %i: index, %j: index) {
    %keep = arith.cmpi sle, %j, %i : index
    attn.yield %keep : i1
  } : (!q, !q, !q) -> (!q, !l)
  return %out : !q
}
func.func @dilated(%q: !q) -> !q {
  %out, %lse = attn.attention %q, %q, %q mask(%b: index, %h: index, %i: index, %j: index) {
    %c0 = arith.constant 0 : index
    %c3 = arith.constant 3 : index
    %d = arith.subi %i, %j : index
    %phase = arith.remsi %d, %c3 : index
    %keep = arith.cmpi eq, %phase, %c0 : index
    attn.yield %keep : i1
  } : (!q, !q, !q) -> (!q, !l)
  return %out : !q
}
func.func @of_head(%q: !q, %table: tensor<4x?xi1>) -> !q {
  %out, %lse = attn.attention %q, %q, %q captures(%table : tensor<4x?xi1>)
    mask(%b: index, %h: index, %i: index, %j: index) {
      %keep = tensor.extract %table[%h, %j] : tensor<4x?xi1>
      attn.yield %keep : i1
    } : (!q, !q, !q) -> (!q, !l)
  return %out : !q
}
func.func @decode(%q: !one, %k: !q, %table: tensor<?xi1>) -> !one {
  %out, %lse = attn.attention %q, %k, %k captures(%table : tensor<?xi1>)
    mask(%b: index, %h: index, %i: index, %j: index) {
      %keep = tensor.extract %table[%j] : tensor<?xi1>
      attn.yield %keep : i1
    } : (!one, !q, !q) -> (!one, tensor<2x4x1xf32>)
  return %out : !one
}
