// RUN: attn-opt %s --canonicalize --cse --split-input-file | FileCheck %s

// CHECK-LABEL: func @identity_score
// CHECK: attn.attention %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}} : (
!q = tensor<1x2x?x8xf32>
!l = tensor<1x2x?xf32>
func.func @identity_score(%q: !q) -> (!q, !l) {
  %out, %lse = attn.attention %q, %q, %q score(%s: f32, %b: index, %h: index, %i: index, %j: index) {
    attn.yield %s : f32
  } : (!q, !q, !q) -> (!q, !l)
  return %out, %lse : !q, !l
}

// -----

// An identity that only folding shows; its capture goes with it.
// CHECK-LABEL: func @folded_identity_score
// CHECK: attn.attention %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}} : (
!q = tensor<1x2x?x8xf32>
!l = tensor<1x2x?xf32>
func.func @folded_identity_score(%q: !q, %x: f32) -> !q {
  %out, %lse = attn.attention %q, %q, %q captures(%x : f32)
    score(%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %true = arith.constant true
      %zero = arith.constant -0.0 : f32
      %sum = arith.addf %s, %zero : f32
      %result = arith.select %true, %sum, %x : f32
      attn.yield %result : f32
    } : (!q, !q, !q) -> (!q, !l)
  return %out : !q
}

// -----

// CHECK-LABEL: func @mask_keeps_all
// CHECK: attn.attention %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}} : (
!q = tensor<1x2x?x8xf32>
!l = tensor<1x2x?xf32>
func.func @mask_keeps_all(%q: !q) -> !q {
  %out, %lse = attn.attention %q, %q, %q mask(%b: index, %h: index, %i: index, %j: index) {
    %keep = arith.cmpi sle, %i, %i : index
    attn.yield %keep : i1
  } : (!q, !q, !q) -> (!q, !l)
  return %out : !q
}

// -----

// A mask that keeps nothing: out = 0 and lse = -inf, with the sizes of the query.
// CHECK-LABEL: func @mask_keeps_none
// CHECK-SAME: (%[[Q:[a-z0-9]*]]: tensor<?x4x?x8xbf16>, %{{.*}}: tensor<?x2x?x8xbf16>, %{{.*}}: tensor<?x2x?x16xbf16>)
// CHECK-DAG: %[[C0:.*]] = arith.constant 0 : index
// CHECK-DAG: %[[C2:.*]] = arith.constant 2 : index
// CHECK-DAG: %[[ZERO:.*]] = arith.constant 0.000000e+00 : bf16
// CHECK-DAG: %[[INF:.*]] = arith.constant 0xFF800000 : f32
// CHECK-NOT: attn.attention
// CHECK-DAG: %[[BATCH:.*]] = tensor.dim %[[Q]], %[[C0]]
// CHECK-DAG: %[[LEN:.*]] = tensor.dim %[[Q]], %[[C2]]
// CHECK-DAG: %[[OUT:.*]] = tensor.splat %[[ZERO]][%[[BATCH]], %[[LEN]]] : tensor<?x4x?x16xbf16>
// CHECK-DAG: %[[LSE:.*]] = tensor.splat %[[INF]][%[[BATCH]], %[[LEN]]] : tensor<?x4x?xf32>
// CHECK: return %[[OUT]], %[[LSE]]
func.func @mask_keeps_none(%q: tensor<?x4x?x8xbf16>, %k: tensor<?x2x?x8xbf16>, %v: tensor<?x2x?x16xbf16>)
    -> (tensor<?x4x?x16xbf16>, tensor<?x4x?xf32>) {
  %out, %lse = attn.attention %q, %k, %v mask(%b: index, %h: index, %i: index, %j: index) {
    %keep = arith.cmpi slt, %i, %i : index
    attn.yield %keep : i1
  } : (tensor<?x4x?x8xbf16>, tensor<?x2x?x8xbf16>, tensor<?x2x?x16xbf16>)
    -> (tensor<?x4x?x16xbf16>, tensor<?x4x?xf32>)
  return %out, %lse : tensor<?x4x?x16xbf16>, tensor<?x4x?xf32>
}

// -----

// Static sizes, also where the result knows more than the query.
// CHECK-LABEL: func @mask_keeps_none_static
// CHECK-DAG: arith.constant dense<0.000000e+00> : tensor<2x2x3x8xf64>
// CHECK-DAG: arith.constant dense<0xFFF0000000000000> : tensor<2x2x3xf64>
// CHECK-NOT: attn.attention
!q = tensor<?x2x3x8xf64>
func.func @mask_keeps_none_static(%q: !q) -> (tensor<2x2x3x8xf64>, tensor<2x2x3xf64>) {
  %out, %lse = attn.attention %q, %q, %q mask(%b: index, %h: index, %i: index, %j: index) {
    %keep = arith.constant false
    attn.yield %keep : i1
  } : (!q, !q, !q) -> (tensor<2x2x3x8xf64>, tensor<2x2x3xf64>)
  return %out, %lse : tensor<2x2x3x8xf64>, tensor<2x2x3xf64>
}

// -----

// The first of two equal captures stays, an unused one goes, the order of the others does not change.
// CHECK-LABEL: func @captures
// CHECK-SAME: (%{{.*}}: tensor<1x2x?x8xf32>, %[[X:[a-z0-9]*]]: f32, %[[Y:[a-z0-9]*]]: f32, %[[N:[a-z0-9]*]]: index, %{{.*}}: tensor<4xf32>)
// CHECK: attn.attention %{{.*}} captures(%[[Y]] : f32, %[[N]] : index, %[[X]] : f32)
// CHECK: %[[SUM:.*]] = arith.addf %s, %[[X]]
// CHECK: %[[PRODUCT:.*]] = arith.mulf %[[SUM]], %[[Y]]
// CHECK: arith.addf %[[PRODUCT]], %[[Y]]
// CHECK: mask
// CHECK: arith.cmpi slt, %kv_idx, %[[N]]
!q = tensor<1x2x?x8xf32>
!l = tensor<1x2x?xf32>
func.func @captures(%q: !q, %x: f32, %y: f32, %n: index, %unused: tensor<4xf32>) -> !q {
  %out, %lse = "attn.attention"(%q, %q, %q, %y, %n, %unused, %y, %x) <{operandSegmentSizes = array<i32: 1, 1, 1, 5, 0>}> ({
  ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index, %y1: f32, %n1: index, %u1: tensor<4xf32>, %y2: f32, %x1: f32):
    %sum = arith.addf %s, %x1 : f32
    %product = arith.mulf %sum, %y1 : f32
    %result = arith.addf %product, %y2 : f32
    attn.yield %result : f32
  }, {
  ^bb0(%b: index, %h: index, %i: index, %j: index, %y1: f32, %n1: index, %u1: tensor<4xf32>, %y2: f32, %x1: f32):
    %keep = arith.cmpi slt, %j, %n1 : index
    attn.yield %keep : i1
  }) : (!q, !q, !q, f32, index, tensor<4xf32>, f32, f32) -> (!q, !l)
  return %out : !q
}

// -----

// Only the second of two equal captures is used.
// CHECK-LABEL: func @second_capture
// CHECK-SAME: %[[X:[a-z0-9]*]]: f32)
// CHECK: captures(%[[X]] : f32)
// CHECK: arith.addf %s, %[[X]]
!q = tensor<1x2x?x8xf32>
!l = tensor<1x2x?xf32>
func.func @second_capture(%q: !q, %x: f32) -> !q {
  %out, %lse = "attn.attention"(%q, %q, %q, %x, %x) <{operandSegmentSizes = array<i32: 1, 1, 1, 2, 0>}> ({
  ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index, %x1: f32, %x2: f32):
    %sum = arith.addf %s, %x2 : f32
    attn.yield %sum : f32
  }, {}) : (!q, !q, !q, f32, f32) -> (!q, !l)
  return %out : !q
}

// -----

// Constants of a region fold and are shared inside it, and stay inside it.
// CHECK-LABEL: func @folding
// CHECK-NOT: arith.constant
// CHECK: attn.attention
// CHECK-SAME: score(
// CHECK-NEXT: %[[C:.*]] = arith.constant 3.000000e+00 : f32
// CHECK-NEXT: arith.mulf %s, %[[C]] : f32
// CHECK-NEXT: attn.yield
// CHECK: mask(
// CHECK-NEXT: %[[N:.*]] = arith.constant 42 : index
// CHECK-NEXT: arith.cmpi slt, %kv_idx, %[[N]] : index
// CHECK-NEXT: attn.yield
!q = tensor<1x2x?x8xf32>
!l = tensor<1x2x?xf32>
func.func @folding(%q: !q) -> !q {
  %out, %lse = attn.attention %q, %q, %q score(%s: f32, %b: index, %h: index, %i: index, %j: index) {
    %one = arith.constant 1.0 : f32
    %two = arith.constant 2.0 : f32
    %three = arith.addf %one, %two : f32
    %result = arith.mulf %s, %three : f32
    attn.yield %result : f32
  } mask(%b: index, %h: index, %i: index, %j: index) {
    %six = arith.constant 6 : index
    %seven = arith.constant 7 : index
    %answer = arith.muli %six, %seven : index
    %keep = arith.cmpi slt, %j, %answer : index
    attn.yield %keep : i1
  } : (!q, !q, !q) -> (!q, !l)
  return %out : !q
}

// -----

// Of one part nothing is to merge, but its rounding and a stack stay.
// CHECK-LABEL: func @merge_one
// CHECK-SAME: (%[[OUT:.*]]: tensor<1x2x?x8xf32>, %[[LSE:.*]]: tensor<1x2x?xf32>, %[[OUTS:.*]]: tensor<1x1x2x?x8xf32>, %[[LSES:.*]]: tensor<1x1x2x?xf32>)
// CHECK-NEXT: %[[HALF:.*]], %{{.*}} = attn.merge (%[[OUT]], %[[LSE]])
// CHECK-NEXT: %[[STACK:.*]], %{{.*}} = attn.merge (%[[OUTS]], %[[LSES]])
// CHECK-NEXT: return %[[OUT]], %[[LSE]], %[[HALF]], %[[STACK]]
func.func @merge_one(%out: tensor<1x2x?x8xf32>, %lse: tensor<1x2x?xf32>, %outs: tensor<1x1x2x?x8xf32>, %lses: tensor<1x1x2x?xf32>)
    -> (tensor<1x2x?x8xf32>, tensor<1x2x?xf32>, tensor<1x2x?x8xf16>, tensor<1x2x?x8xf32>) {
  %a:2 = attn.merge (%out, %lse) : tensor<1x2x?x8xf32>, tensor<1x2x?xf32> -> tensor<1x2x?x8xf32>, tensor<1x2x?xf32>
  %b:2 = attn.merge (%out, %lse) : tensor<1x2x?x8xf32>, tensor<1x2x?xf32> -> tensor<1x2x?x8xf16>, tensor<1x2x?xf32>
  %c:2 = attn.merge (%outs, %lses) : tensor<1x1x2x?x8xf32>, tensor<1x1x2x?xf32> -> tensor<1x2x?x8xf32>, tensor<1x2x?xf32>
  return %a#0, %a#1, %b#0, %c#0 : tensor<1x2x?x8xf32>, tensor<1x2x?xf32>, tensor<1x2x?x8xf16>, tensor<1x2x?x8xf32>
}

// -----

// Nothing reads the results, the gradients neither.
// CHECK-LABEL: func @dead
// CHECK-NEXT: return
!q = tensor<1x2x?x8xf32>
!l = tensor<1x2x?xf32>
func.func @dead(%q: !q, %l: !l, %x: f32) {
  %out, %lse = attn.attention %q, %q, %q : (!q, !q, !q) -> (!q, !l)
  %merged:2 = attn.merge (%out, %lse), (%out, %lse) : !q, !l -> !q, !l
  %d:4 = attn.attention_backward %q, %q, %q, %q, %l, %q captures(%x : f32)
    score(%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %r = arith.addf %s, %x : f32
      attn.yield %r : f32
    } gradient(%d: f32, %s: f32, %b: index, %h: index, %i: index, %j: index) {
      attn.accumulate_gradient %d, %x[] : f32, f32
      attn.yield %d : f32
    } : (!q, !q, !q, !q, !l, !q) -> (!q, !q, !q, tensor<f32>)
  return
}

// -----

// An accumulation has no result, but an effect: it stays, in scf.if too.
// CHECK-LABEL: func @accumulations_stay
// CHECK: gradient(
// CHECK: attn.accumulate_gradient %d,
// CHECK: scf.if
// CHECK: attn.accumulate_gradient
!q = tensor<1x2x?x8xf32>
!l = tensor<1x2x?xf32>
func.func @accumulations_stay(%q: !q, %l: !l, %x: f32) -> tensor<f32> {
  %d:4 = attn.attention_backward %q, %q, %q, %q, %l, %q captures(%x : f32)
    score(%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %r = arith.addf %s, %x : f32
      attn.yield %r : f32
    } gradient(%d: f32, %s: f32, %b: index, %h: index, %i: index, %j: index) {
      attn.accumulate_gradient %d, %x[] : f32, f32
      %diagonal = arith.cmpi eq, %i, %j : index
      scf.if %diagonal {
        attn.accumulate_gradient %s, %x[] : f32, f32
      }
      attn.yield %d : f32
    } : (!q, !q, !q, !q, !l, !q) -> (!q, !q, !q, tensor<f32>)
  return %d#3 : tensor<f32>
}

// -----

// Without a mask there is nothing that lists could be of.
// CHECK-LABEL: func @lists_of_constant_mask
// CHECK: attn.attention %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}} : (
!q = tensor<1x2x?x8xf32>
!l = tensor<1x2x?xf32>
func.func @lists_of_constant_mask(%q: !q, %lists: tensor<1x1x?x?x4xi32>) -> !q {
  %out, %lse = attn.attention %q, %q, %q block_lists(%lists : tensor<1x1x?x?x4xi32>) blocks(128, 128)
    mask(%b: index, %h: index, %i: index, %j: index) {
      %keep = arith.constant true
      attn.yield %keep : i1
    } : (!q, !q, !q) -> (!q, !l)
  return %out : !q
}
