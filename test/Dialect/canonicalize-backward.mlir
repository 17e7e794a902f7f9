// RUN: attn-opt %s --canonicalize --cse --split-input-file | FileCheck %s

// The canonicalizations of attn.attention (canonicalize.mlir) on its gradients.

// Without a gradient region yet, and with the identity for one.
// CHECK-LABEL: func @identity_score
// CHECK: attn.attention_backward %arg0, %arg0, %arg0, %arg0, %arg1, %arg0 : (
// CHECK: attn.attention_backward %arg0, %arg0, %arg0, %arg0, %arg1, %arg0, %arg1 : (
!q = tensor<1x2x?x8xf32>
!l = tensor<1x2x?xf32>
func.func @identity_score(%q: !q, %l: !l) -> (!q, !q) {
  %a:3 = attn.attention_backward %q, %q, %q, %q, %l, %q score(%s: f32, %b: index, %h: index, %i: index, %j: index) {
    attn.yield %s : f32
  } : (!q, !q, !q, !q, !l, !q) -> (!q, !q, !q)
  %c:3 = attn.attention_backward %q, %q, %q, %q, %l, %q, %l score(%s: f32, %b: index, %h: index, %i: index, %j: index) {
    attn.yield %s : f32
  } gradient(%d: f32, %s: f32, %b: index, %h: index, %i: index, %j: index) {
    attn.yield %d : f32
  } : (!q, !q, !q, !q, !l, !q, !l) -> (!q, !q, !q)
  return %a#0, %c#0 : !q, !q
}

// -----

// A custom gradient of an identity stays: one that is not the identity, and one that adds to a capture's.
// CHECK-LABEL: func @custom_gradient
// CHECK: score(
// CHECK: gradient(
// CHECK: arith.negf
// CHECK: score(
// CHECK: gradient(
// CHECK: attn.accumulate_gradient
!q = tensor<1x2x?x8xf32>
!l = tensor<1x2x?xf32>
func.func @custom_gradient(%q: !q, %l: !l, %x: f32) -> (!q, tensor<f32>) {
  %a:3 = attn.attention_backward %q, %q, %q, %q, %l, %q score(%s: f32, %b: index, %h: index, %i: index, %j: index) {
    attn.yield %s : f32
  } gradient(%d: f32, %s: f32, %b: index, %h: index, %i: index, %j: index) {
    %reversed = arith.negf %d : f32
    attn.yield %reversed : f32
  } : (!q, !q, !q, !q, !l, !q) -> (!q, !q, !q)
  %c:4 = attn.attention_backward %q, %q, %q, %q, %l, %q captures(%x : f32)
    score(%s: f32, %b: index, %h: index, %i: index, %j: index) {
      attn.yield %s : f32
    } gradient(%d: f32, %s: f32, %b: index, %h: index, %i: index, %j: index) {
      attn.accumulate_gradient %d, %x[] : f32, f32
      attn.yield %d : f32
    } : (!q, !q, !q, !q, !l, !q) -> (!q, !q, !q, tensor<f32>)
  return %a#0, %c#3 : !q, tensor<f32>
}

// -----

// CHECK-LABEL: func @mask_keeps_all
// CHECK: attn.attention_backward %arg0, %arg0, %arg0, %arg0, %arg1, %arg0 : (
!q = tensor<1x2x?x8xf32>
!l = tensor<1x2x?xf32>
func.func @mask_keeps_all(%q: !q, %l: !l) -> !q {
  %d:3 = attn.attention_backward %q, %q, %q, %q, %l, %q mask(%b: index, %h: index, %i: index, %j: index) {
    %keep = arith.cmpi sle, %i, %i : index
    attn.yield %keep : i1
  } : (!q, !q, !q, !q, !l, !q) -> (!q, !q, !q)
  return %d#1 : !q
}

// -----

// A mask that keeps nothing: zeros, each of the sizes of what it is the gradient of.
// CHECK-LABEL: func @mask_keeps_none
// CHECK-SAME: (%[[Q:[a-z0-9]*]]: tensor<?x4x?x8xbf16>, %[[K:[a-z0-9]*]]: tensor<?x2x?x8xbf16>, %[[V:[a-z0-9]*]]: tensor<?x2x?x16xbf16>, {{.*}}, %[[BIAS:[a-z0-9]*]]: tensor<4x?xf16>, %{{.*}}: index, %{{.*}}: f32)
// CHECK-DAG: %[[C0:.*]] = arith.constant 0 : index
// CHECK-DAG: %[[C1:.*]] = arith.constant 1 : index
// CHECK-DAG: %[[C2:.*]] = arith.constant 2 : index
// CHECK-DAG: %[[ZERO:.*]] = arith.constant 0.000000e+00 : bf16
// CHECK-DAG: %[[ZERO_F32:.*]] = arith.constant 0.000000e+00 : f32
// CHECK-DAG: %[[DG:.*]] = arith.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NOT: attn.attention
// CHECK-DAG: %[[Q_BATCH:.*]] = tensor.dim %[[Q]], %[[C0]]
// CHECK-DAG: %[[Q_LEN:.*]] = tensor.dim %[[Q]], %[[C2]]
// CHECK-DAG: %[[K_BATCH:.*]] = tensor.dim %[[K]], %[[C0]]
// CHECK-DAG: %[[K_LEN:.*]] = tensor.dim %[[K]], %[[C2]]
// CHECK-DAG: %[[V_BATCH:.*]] = tensor.dim %[[V]], %[[C0]]
// CHECK-DAG: %[[V_LEN:.*]] = tensor.dim %[[V]], %[[C2]]
// CHECK-DAG: %[[BIAS_LEN:.*]] = tensor.dim %[[BIAS]], %[[C1]]
// CHECK-DAG: %[[DQ:.*]] = tensor.splat %[[ZERO]][%[[Q_BATCH]], %[[Q_LEN]]] : tensor<?x4x?x8xbf16>
// CHECK-DAG: %[[DK:.*]] = tensor.splat %[[ZERO]][%[[K_BATCH]], %[[K_LEN]]] : tensor<?x2x?x8xbf16>
// CHECK-DAG: %[[DV:.*]] = tensor.splat %[[ZERO]][%[[V_BATCH]], %[[V_LEN]]] : tensor<?x2x?x16xbf16>
// CHECK-DAG: %[[DBIAS:.*]] = tensor.splat %[[ZERO_F32]][%[[BIAS_LEN]]] : tensor<4x?xf32>
// CHECK: return %[[DQ]], %[[DK]], %[[DV]], %[[DBIAS]], %[[DG]]
!q = tensor<?x4x?x8xbf16>
!k = tensor<?x2x?x8xbf16>
!v = tensor<?x2x?x16xbf16>
!o = tensor<?x4x?x16xbf16>
!l = tensor<?x4x?xf32>
func.func @mask_keeps_none(%q: !q, %k: !k, %v: !v, %o: !o, %l: !l, %bias: tensor<4x?xf16>, %n: index, %g: f32)
    -> (!q, !k, !v, tensor<4x?xf32>, tensor<f32>) {
  %d:5 = attn.attention_backward %q, %k, %v, %o, %l, %o captures(%bias : tensor<4x?xf16>, %n : index, %g : f32)
    score(%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %element = tensor.extract %bias[%h, %n] : tensor<4x?xf16>
      %wide = arith.extf %element : f16 to f32
      %x = arith.mulf %wide, %g : f32
      %r = arith.addf %s, %x : f32
      attn.yield %r : f32
    } mask(%b: index, %h: index, %i: index, %j: index) {
      %keep = arith.cmpi slt, %i, %i : index
      attn.yield %keep : i1
    } : (!q, !k, !v, !o, !l, !o) -> (!q, !k, !v, tensor<4x?xf32>, tensor<f32>)
  return %d#0, %d#1, %d#2, %d#3, %d#4 : !q, !k, !v, tensor<4x?xf32>, tensor<f32>
}

// -----

// f8E4M3FN stays, for the lowerings to refuse.
// CHECK-LABEL: func @f8
// CHECK: attn.attention_backward
!q = tensor<1x2x?x8xf8E4M3FN>
!l = tensor<1x2x?xf32>
func.func @f8(%q: !q, %l: !l) -> !q {
  %d:3 = attn.attention_backward %q, %q, %q, %q, %l, %q mask(%b: index, %h: index, %i: index, %j: index) {
    %keep = arith.constant false
    attn.yield %keep : i1
  } : (!q, !q, !q, !q, !l, !q) -> (!q, !q, !q)
  return %d#0 : !q
}

// -----

// %t, which nothing reads, goes, and its gradient is 0; so does %n, which has none. The others keep their order, and their
// gradients their places.
// CHECK-LABEL: func @unused_captures
// CHECK-SAME: (%{{.*}}: tensor<1x2x?x8xf32>, %{{.*}}: tensor<1x2x?xf32>, %[[X:[a-z0-9]*]]: f32, %[[T:[a-z0-9]*]]: tensor<?xf16>, %{{.*}}: index, %[[M:[a-z0-9]*]]: i32, %[[Y:[a-z0-9]*]]: f64)
// CHECK-DAG: %[[C0:.*]] = arith.constant 0 : index
// CHECK-DAG: %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK: %[[DQ:.*]], %{{.*}}, %{{.*}}, %[[DX:.*]], %[[DY:.*]] = attn.attention_backward {{.*}} captures(%[[X]] : f32, %[[M]] : i32, %[[Y]] : f64) scale(5.000000e-01)
// CHECK: score(
// CHECK: arith.truncf %[[Y]] : f64 to f32
// CHECK: mask(
// CHECK: arith.cmpi slt, %{{.*}}, %[[M]] : i32
// CHECK: gradient(
// CHECK: attn.accumulate_gradient %{{.*}}, %[[X]][] : f32, f32
// CHECK: attn.accumulate_gradient %{{.*}}, %[[Y]][] : f32, f64
// CHECK: {my.note} :
// CHECK-SAME: -> (tensor<1x2x?x8xf32>, tensor<1x2x?x8xf32>, tensor<1x2x?x8xf32>, tensor<f32>, tensor<f32>)
// CHECK-NEXT: %[[LEN:.*]] = tensor.dim %[[T]], %[[C0]]
// CHECK-NEXT: %[[DT:.*]] = tensor.splat %[[ZERO]][%[[LEN]]] : tensor<?xf32>
// CHECK-NEXT: return %[[DQ]], %[[DX]], %[[DT]], %[[DY]]
!q = tensor<1x2x?x8xf32>
!l = tensor<1x2x?xf32>
func.func @unused_captures(%q: !q, %l: !l, %x: f32, %t: tensor<?xf16>, %n: index, %m: i32, %y: f64)
    -> (!q, tensor<f32>, tensor<?xf32>, tensor<f32>) {
  %d:6 = attn.attention_backward %q, %q, %q, %q, %l, %q captures(%x : f32, %t : tensor<?xf16>, %n : index, %m : i32, %y : f64)
    scale(0.5)
    score(%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %product = arith.mulf %s, %x : f32
      %y32 = arith.truncf %y : f64 to f32
      %r = arith.addf %product, %y32 : f32
      attn.yield %r : f32
    } mask(%b: index, %h: index, %i: index, %j: index) {
      %i32 = arith.index_cast %j : index to i32
      %keep = arith.cmpi slt, %i32, %m : i32
      attn.yield %keep : i1
    } gradient(%d: f32, %s: f32, %b: index, %h: index, %i: index, %j: index) {
      %dx = arith.mulf %d, %s : f32
      attn.accumulate_gradient %dx, %x[] : f32, f32
      attn.accumulate_gradient %d, %y[] : f32, f64
      %ds = arith.mulf %d, %x : f32
      attn.yield %ds : f32
    } {my.note} : (!q, !q, !q, !q, !l, !q) -> (!q, !q, !q, tensor<f32>, tensor<?xf32>, tensor<f32>)
  return %d#0, %d#3, %d#4, %d#5 : !q, tensor<f32>, tensor<?xf32>, tensor<f32>
}

// -----

// Only the mask, only the gradient, and only the score before it has a gradient read a capture: each stays.
// CHECK-LABEL: func @used_captures
// CHECK: captures(%{{.*}} : f32, %{{.*}} : f32)
// CHECK: captures(%{{.*}} : f32)
!q = tensor<1x2x?x8xf32>
!l = tensor<1x2x?xf32>
func.func @used_captures(%q: !q, %l: !l, %x: f32, %y: f32) -> (tensor<f32>, tensor<f32>, tensor<f32>) {
  %d:5 = attn.attention_backward %q, %q, %q, %q, %l, %q captures(%x : f32, %y : f32)
    score(%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %r = math.absf %s : f32
      attn.yield %r : f32
    } mask(%b: index, %h: index, %i: index, %j: index) {
      %zero = arith.constant 0.0 : f32
      %keep = arith.cmpf ogt, %x, %zero : f32
      attn.yield %keep : i1
    } gradient(%d: f32, %s: f32, %b: index, %h: index, %i: index, %j: index) {
      %ds = arith.mulf %d, %y : f32
      attn.yield %ds : f32
    } : (!q, !q, !q, !q, !l, !q) -> (!q, !q, !q, tensor<f32>, tensor<f32>)
  %e:4 = attn.attention_backward %q, %q, %q, %q, %l, %q captures(%x : f32)
    score(%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %r = arith.mulf %s, %x : f32
      attn.yield %r : f32
    } : (!q, !q, !q, !q, !l, !q) -> (!q, !q, !q, tensor<f32>)
  return %d#3, %d#4, %e#3 : tensor<f32>, tensor<f32>, tensor<f32>
}

// -----

// One value captured twice: one capture where it has no gradient, two where each has its own.
// CHECK-LABEL: func @equal_captures
// CHECK-SAME: %[[X:[a-z0-9]*]]: f32, %[[N:[a-z0-9]*]]: index)
// CHECK: captures(%[[X]] : f32, %[[N]] : index, %[[X]] : f32)
// CHECK: -> (tensor<1x2x?x8xf32>, tensor<1x2x?x8xf32>, tensor<1x2x?x8xf32>, tensor<f32>, tensor<f32>)
!q = tensor<1x2x?x8xf32>
!l = tensor<1x2x?xf32>
func.func @equal_captures(%q: !q, %l: !l, %x: f32, %n: index) -> (tensor<f32>, tensor<f32>) {
  %d:5 = "attn.attention_backward"(%q, %q, %q, %q, %l, %q, %x, %n, %x, %n) <{operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0, 4, 0>}> ({
  ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index, %x1: f32, %n1: index, %x2: f32, %n2: index):
    %product = arith.mulf %s, %x1 : f32
    %r = arith.addf %product, %x2 : f32
    attn.yield %r : f32
  }, {
  ^bb0(%b: index, %h: index, %i: index, %j: index, %x1: f32, %n1: index, %x2: f32, %n2: index):
    %lower = arith.subi %i, %n1 : index
    %upper = arith.addi %i, %n2 : index
    %in = arith.cmpi sle, %lower, %j : index
    %out = arith.cmpi sle, %j, %upper : index
    %keep = arith.andi %in, %out : i1
    attn.yield %keep : i1
  }, {
  ^bb0(%d: f32, %s: f32, %b: index, %h: index, %i: index, %j: index, %x1: f32, %n1: index, %x2: f32, %n2: index):
    %dx = arith.mulf %d, %s : f32
    attn.accumulate_gradient %dx, %x1[] : f32, f32
    attn.accumulate_gradient %d, %x2[] : f32, f32
    %ds = arith.mulf %d, %x1 : f32
    attn.yield %ds : f32
  }) : (!q, !q, !q, !q, !l, !q, f32, index, f32, index) -> (!q, !q, !q, tensor<f32>, tensor<f32>)
  return %d#3, %d#4 : tensor<f32>, tensor<f32>
}
