// RUN: attn-opt %s --attn-differentiate --split-input-file | FileCheck %s

// The example of the pass: a handful of operations, nothing computed that is not used.
// CHECK-LABEL: func.func @soft_cap_backward(
// CHECK-SAME:    %[[Q:.*]]: tensor<1x2x?x8xf32>, %[[K:.*]]: tensor<1x1x?x8xf32>, %[[V:.*]]: tensor<1x1x?x4xf32>,
// CHECK-SAME:    %[[OUT:.*]]: tensor<1x2x?x4xf32>, %[[LSE:.*]]: tensor<1x2x?xf32>, %[[DOUT:.*]]: tensor<1x2x?x4xf32>)
// CHECK-SAME:    -> (tensor<1x2x?x8xf32>, tensor<1x1x?x8xf32>, tensor<1x1x?x4xf32>)
// CHECK:         %{{.*}}, %{{.*}}, %{{.*}} = attn.attention_backward %[[Q]], %[[K]], %[[V]], %[[OUT]], %[[LSE]], %[[DOUT]] scale(1.250000e-01)
// CHECK-SAME:      score(
// CHECK:         } gradient(%[[d:.*]]: f32, %[[s:.*]]: f32, %{{.*}}: index, %{{.*}}: index, %{{.*}}: index, %{{.*}}: index) {
// CHECK-DAG:       %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
// CHECK-DAG:       %[[C:.*]] = arith.constant 3.000000e+01 : f32
// CHECK-NEXT:      %[[X:.*]] = arith.divf %[[s]], %[[C]] : f32
// CHECK-NEXT:      %[[T:.*]] = math.tanh %[[X]] fastmath<afn> : f32
// CHECK-NEXT:      %[[DT:.*]] = arith.mulf %[[d]], %[[C]] : f32
// CHECK-NEXT:      %[[TT:.*]] = arith.mulf %[[T]], %[[T]] fastmath<afn> : f32
// CHECK-NEXT:      %[[SLOPE:.*]] = arith.subf %[[ONE]], %[[TT]] fastmath<afn> : f32
// CHECK-NEXT:      %[[DX:.*]] = arith.mulf %[[DT]], %[[SLOPE]] fastmath<afn> : f32
// CHECK-NEXT:      %[[DS:.*]] = arith.divf %[[DX]], %[[C]] : f32
// CHECK-NEXT:      attn.yield %[[DS]] : f32
// CHECK:         return
func.func @soft_cap(%q: tensor<1x2x?x8xf32>, %k: tensor<1x1x?x8xf32>, %v: tensor<1x1x?x4xf32>) -> tensor<1x2x?x4xf32> {
  %out, %lse = attn.attention %q, %k, %v scale(0.125)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %c = arith.constant 30.0 : f32
      %x = arith.divf %s, %c : f32
      %t = math.tanh %x fastmath<afn> : f32
      %capped = arith.mulf %t, %c : f32
      attn.yield %capped : f32
    } : (tensor<1x2x?x8xf32>, tensor<1x1x?x8xf32>, tensor<1x1x?x4xf32>) -> (tensor<1x2x?x4xf32>, tensor<1x2x?xf32>)
  return %out : tensor<1x2x?x4xf32>
}

// -----

// No score: no gradient region. lse is returned, so it has a gradient. The order of the results does not matter.
// CHECK-LABEL: func.func @plain(
// CHECK-LABEL: func.func @plain_backward(
// CHECK-SAME:    %[[X:.*]]: tensor<1x1x?x8xbf16> {test.note = "x"}, %[[OUT:[^:]*]]: tensor<1x1x?x8xbf16>, %[[LSE:[^:]*]]: tensor<1x1x?xf32>,
// CHECK-SAME:    %[[DOUT:[^:]*]]: tensor<1x1x?x8xbf16>, %[[DLSE:[^:]*]]: tensor<1x1x?xf32>)
// CHECK-NEXT:    %[[D:.*]], %[[DK:.*]], %[[DV:.*]] = attn.attention_backward %[[X]], %[[X]], %[[X]], %[[OUT]], %[[LSE]], %[[DOUT]], %[[DLSE]] mask(
// CHECK-NOT:     gradient
// CHECK:         return %[[D]], %[[DK]], %[[DV]]
func.func @plain(%x: tensor<1x1x?x8xbf16> {test.note = "x"}) -> (tensor<1x1x?xf32>, tensor<1x1x?x8xbf16>) {
  %out, %lse = attn.attention %x, %x, %x mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
    %keep = arith.cmpi sle, %kv_idx, %q_idx : index
    attn.yield %keep : i1
  } : (tensor<1x1x?x8xbf16>, tensor<1x1x?x8xbf16>, tensor<1x1x?x8xbf16>) -> (tensor<1x1x?x8xbf16>, tensor<1x1x?xf32>)
  return %lse, %out : tensor<1x1x?xf32>, tensor<1x1x?x8xbf16>
}

// -----

// Captures: a bf16 tensor whose gradient is not rounded to bf16, a scalar, an integer tensor without a gradient, and a
// constant, whose gradient is not returned.
// CHECK-LABEL: func.func @captures_backward(
// CHECK-SAME:    -> (tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32>, tensor<?x?xf32>, tensor<f32>)
// CHECK:         %[[TABLE:.*]] = arith.constant dense
// CHECK:         attn.attention_backward {{.*}} captures(%[[BIAS:.*]] : tensor<?x?xbf16>, %[[IDS:.*]] : tensor<?xi32>, %[[G:.*]] : f16, %[[TABLE]] : tensor<2xf32>)
// CHECK:         } gradient(%[[d:.*]]: f32, %[[s:.*]]: f32, %[[b:.*]]: index, %[[h:.*]]: index, %[[q:.*]]: index, %[[kv:.*]]: index) {
// CHECK-DAG:       %[[ID:.*]] = tensor.extract %[[IDS]][%[[kv]]] : tensor<?xi32>
// CHECK-DAG:       %[[COLUMN:.*]] = arith.index_cast %[[ID]] : i32 to index
// CHECK-DAG:       %[[E:.*]] = tensor.extract %[[BIAS]][%[[q]], %[[COLUMN]]] : tensor<?x?xbf16>
// CHECK-DAG:       %[[E32:.*]] = arith.extf %[[E]] : bf16 to f32
// CHECK-DAG:       %[[G32:.*]] = arith.extf %[[G]] : f16 to f32
// CHECK-DAG:       %[[DE:.*]] = arith.mulf %[[d]], %[[G32]] : f32
// CHECK-DAG:       %[[DG:.*]] = arith.mulf %[[d]], %[[E32]] : f32
// CHECK-DAG:       attn.accumulate_gradient %[[d]], %[[TABLE]][%[[h]]] : f32, tensor<2xf32>
// CHECK-DAG:       attn.accumulate_gradient %[[DE]], %[[BIAS]][%[[q]], %[[COLUMN]]] : f32, tensor<?x?xbf16>
// CHECK-DAG:       attn.accumulate_gradient %[[DG]], %[[G]][] : f32, f16
// CHECK:           attn.yield %[[d]] : f32
// CHECK:         return %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32>, tensor<?x?xf32>, tensor<f32>
func.func @captures(%q: tensor<1x1x?x8xf32>, %k: tensor<1x1x?x8xf32>, %v: tensor<1x1x?x8xf32>, %bias: tensor<?x?xbf16>,
                    %ids: tensor<?xi32>, %g: f16) -> tensor<1x1x?x8xf32> {
  %table = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %out, %lse = attn.attention %q, %k, %v
    captures(%bias : tensor<?x?xbf16>, %ids : tensor<?xi32>, %g : f16, %table : tensor<2xf32>)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %id = tensor.extract %ids[%kv_idx] : tensor<?xi32>
      %column = arith.index_cast %id : i32 to index
      %e = tensor.extract %bias[%q_idx, %column] : tensor<?x?xbf16>
      %e32 = arith.extf %e : bf16 to f32
      %g32 = arith.extf %g : f16 to f32
      %eg = arith.mulf %e32, %g32 : f32
      %w = tensor.extract %table[%h] : tensor<2xf32>
      %egw = arith.addf %eg, %w : f32
      %r = arith.addf %s, %egw : f32
      attn.yield %r : f32
    } : (tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32>) -> (tensor<1x1x?x8xf32>, tensor<1x1x?xf32>)
  return %out : tensor<1x1x?x8xf32>
}

// -----

// A branch is mirrored: its reads are accumulated where they were read, and what it reads from outside comes out of it.
// CHECK-LABEL: func.func @branch_backward(
// CHECK:         captures(%[[T:.*]] : tensor<?xf32>)
// CHECK:         } gradient(%[[d:.*]]: f32, %[[s:.*]]: f32, %{{.*}}: index, %{{.*}}: index, %[[q:.*]]: index, %[[kv:.*]]: index) {
// CHECK-NEXT:      %[[NEAR:.*]] = arith.cmpi slt, %[[kv]], %[[q]] : index
// CHECK-NEXT:      %[[DS:.*]] = scf.if %[[NEAR]] -> (f32) {
// CHECK-NEXT:        %[[E:.*]] = tensor.extract %[[T]][%[[q]]] : tensor<?xf32>
// CHECK-NEXT:        %[[DX:.*]] = arith.mulf %[[d]], %[[E]] : f32
// CHECK-NEXT:        %[[DE:.*]] = arith.mulf %[[d]], %[[s]] : f32
// CHECK-NEXT:        attn.accumulate_gradient %[[DE]], %[[T]][%[[q]]] : f32, tensor<?xf32>
// CHECK-NEXT:        scf.yield %[[DX]] : f32
// CHECK-NEXT:      } else {
// CHECK-NEXT:        scf.yield %[[d]] : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      attn.yield %[[DS]] : f32
func.func @branch(%q: tensor<1x1x?x8xf32>, %t: tensor<?xf32>) -> tensor<1x1x?x8xf32> {
  %out, %lse = attn.attention %q, %q, %q captures(%t : tensor<?xf32>)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %near = arith.cmpi slt, %kv_idx, %q_idx : index
      %r = scf.if %near -> f32 {
        %e = tensor.extract %t[%q_idx] : tensor<?xf32>
        %x = arith.mulf %s, %e : f32
        scf.yield %x : f32
      } else {
        scf.yield %s : f32
      }
      attn.yield %r : f32
    } : (tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32>) -> (tensor<1x1x?x8xf32>, tensor<1x1x?xf32>)
  return %out : tensor<1x1x?x8xf32>
}

// -----

// A guard is selected last: d / 0 is dropped where the logarithm was not chosen.
// CHECK-LABEL: func.func @unchosen_backward(
// CHECK:         gradient(%[[d:.*]]: f32, %[[s:.*]]: f32, {{.*}}) {
// CHECK-NEXT:      %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:      %[[POSITIVE:.*]] = arith.cmpf ogt, %[[s]], %[[ZERO]] : f32
// CHECK-NEXT:      %[[DL:.*]] = arith.divf %[[d]], %[[s]] : f32
// CHECK-NEXT:      %[[DS:.*]] = arith.select %[[POSITIVE]], %[[DL]], %[[ZERO]] : f32
// CHECK-NEXT:      attn.yield %[[DS]] : f32
func.func @unchosen(%q: tensor<1x1x?x8xf32>) -> tensor<1x1x?x8xf32> {
  %out, %lse = attn.attention %q, %q, %q
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %zero = arith.constant 0.0 : f32
      %positive = arith.cmpf ogt, %s, %zero : f32
      %l = math.log %s : f32
      %r = arith.select %positive, %l, %zero : f32
      attn.yield %r : f32
    } : (tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32>) -> (tensor<1x1x?x8xf32>, tensor<1x1x?xf32>)
  return %out : tensor<1x1x?x8xf32>
}

// -----

// The gradient passes a rounding to bf16, and is computed in f32 where the score is in bf16. It does not pass rounding to
// integers, nor a bitcast that only a comparison sees.
// CHECK-LABEL: func.func @rounded_backward(
// CHECK:         gradient(%[[d:.*]]: f32, %[[s:.*]]: f32, {{.*}}) {
// CHECK-NEXT:      %[[C:.*]] = arith.constant 2.500000e+00 : f32
// CHECK-NEXT:      %[[DN:.*]] = arith.mulf %[[d]], %[[C]] : f32
// CHECK-NEXT:      %[[DS:.*]] = arith.addf %[[d]], %[[DN]] : f32
// CHECK-NEXT:      attn.yield %[[DS]] : f32
func.func @rounded(%q: tensor<1x1x?x8xf32>) -> tensor<1x1x?x8xf32> {
  %out, %lse = attn.attention %q, %q, %q
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %n = arith.truncf %s : f32 to bf16
      %c = arith.constant 2.5 : bf16
      %m = arith.mulf %n, %c : bf16
      %w = arith.extf %m : bf16 to f32
      %a = arith.addf %w, %s : f32
      %i = arith.fptosi %s : f32 to i32
      %f = arith.sitofp %i : i32 to f32
      %floor = math.floor %s : f32
      %whole = arith.addf %f, %floor : f32
      %r = arith.addf %a, %whole : f32
      attn.yield %r : f32
    } : (tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32>) -> (tensor<1x1x?x8xf32>, tensor<1x1x?xf32>)
  return %out : tensor<1x1x?x8xf32>
}

// -----

// CHECK-LABEL: func.func @sincos_backward(
// CHECK:         gradient(%[[d:.*]]: f32, %[[s:.*]]: f32, {{.*}}) {
// CHECK-NEXT:      %[[SIN:.*]], %[[COS:.*]] = math.sincos %[[s]] : f32
// CHECK-NEXT:      %[[A:.*]] = arith.mulf %[[d]], %[[COS]] : f32
// CHECK-NEXT:      %[[B:.*]] = arith.mulf %[[d]], %[[SIN]] : f32
// CHECK-NEXT:      %[[DS:.*]] = arith.subf %[[A]], %[[B]] : f32
// CHECK-NEXT:      attn.yield %[[DS]] : f32
func.func @sincos(%q: tensor<1x1x?x8xf32>) -> tensor<1x1x?x8xf32> {
  %out, %lse = attn.attention %q, %q, %q
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %sin, %cos = math.sincos %s : f32
      %r = arith.addf %sin, %cos : f32
      attn.yield %r : f32
    } : (tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32>) -> (tensor<1x1x?x8xf32>, tensor<1x1x?xf32>)
  return %out : tensor<1x1x?x8xf32>
}

// -----

// clampf is defined as maximumf(minimumf(s, 2), 1): d where s < 2 and that is above 1.
// CHECK-LABEL: func.func @clampf_backward(
// CHECK:         gradient(%[[d:.*]]: f32, %[[s:.*]]: f32, {{.*}}) {
// CHECK-DAG:       %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK-DAG:       %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
// CHECK-DAG:       %[[TWO:.*]] = arith.constant 2.000000e+00 : f32
// CHECK-DAG:       %[[BELOW:.*]] = arith.cmpf olt, %[[s]], %[[TWO]] : f32
// CHECK-DAG:       %[[LOWER:.*]] = arith.select %[[BELOW]], %[[s]], %[[TWO]] : f32
// CHECK-DAG:       %[[ABOVE:.*]] = arith.cmpf ogt, %[[LOWER]], %[[ONE]] : f32
// CHECK-DAG:       %[[DL:.*]] = arith.select %[[BELOW]], %[[d]], %[[ZERO]] : f32
// CHECK-DAG:       %[[DS:.*]] = arith.select %[[ABOVE]], %[[DL]], %[[ZERO]] : f32
// CHECK:           attn.yield %[[DS]] : f32
func.func @clampf(%q: tensor<1x1x?x8xf32>) -> tensor<1x1x?x8xf32> {
  %out, %lse = attn.attention %q, %q, %q
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %one = arith.constant 1.0 : f32
      %two = arith.constant 2.0 : f32
      %r = math.clampf %s to [%two, %one] : f32
      attn.yield %r : f32
    } : (tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32>) -> (tensor<1x1x?x8xf32>, tensor<1x1x?xf32>)
  return %out : tensor<1x1x?x8xf32>
}

// -----

// A score that does not depend on s has no gradient for it.
// CHECK-LABEL: func.func @position_backward(
// CHECK:         gradient(
// CHECK-NEXT:      %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:      attn.yield %[[ZERO]] : f32
func.func @position(%q: tensor<1x1x?x8xf32>) -> tensor<1x1x?x8xf32> {
  %out, %lse = attn.attention %q, %q, %q
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %n = attn.kv_len %b
      %d = arith.subi %n, %kv_idx : index
      %i = arith.index_cast %d : index to i32
      %f = arith.sitofp %i : i32 to f32
      attn.yield %f : f32
    } : (tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32>) -> (tensor<1x1x?x8xf32>, tensor<1x1x?xf32>)
  return %out : tensor<1x1x?x8xf32>
}

// -----

// A backward operation by hand has its region filled in; one that has it already keeps it. Private functions, functions
// without attention, and those that have a backward function, are left alone.
// CHECK-LABEL: func.func @f(
// CHECK-LABEL: func.func @f_backward(
// CHECK:         gradient(%[[d:.*]]: f32, %[[s:.*]]: f32, {{.*}}) {
// CHECK-NEXT:      %[[DS:.*]] = arith.negf %[[d]] : f32
// CHECK-NEXT:      attn.yield %[[DS]] : f32
// CHECK-LABEL: func.func @by_hand(
// CHECK:         gradient(%[[d:[a-z]*]]: f32, {{.*}}) {
// CHECK-NEXT:      attn.yield %[[d]] : f32
// CHECK-LABEL: func.func private @helper(
// CHECK-LABEL: func.func @other(
// CHECK-NOT:   func.func
!t = tensor<1x1x?x8xf32>
!r = tensor<1x1x?xf32>
func.func @f(%q: !t) -> !t {
  %out, %lse = attn.attention %q, %q, %q : (!t, !t, !t) -> (!t, !r)
  return %out : !t
}
func.func @f_backward(%q: !t, %out: !t, %lse: !r, %d_out: !t) -> !t {
  %dq, %dk, %dv = attn.attention_backward %q, %q, %q, %out, %lse, %d_out
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %r = arith.negf %s : f32
      attn.yield %r : f32
    } : (!t, !t, !t, !t, !r, !t) -> (!t, !t, !t)
  return %dq : !t
}
func.func @by_hand(%q: !t, %out: !t, %lse: !r, %d_out: !t) -> !t {
  %dq, %dk, %dv = attn.attention_backward %q, %q, %q, %out, %lse, %d_out
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %r = arith.negf %s : f32
      attn.yield %r : f32
    } gradient(%d: f32, %s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      attn.yield %d : f32
    } : (!t, !t, !t, !t, !r, !t) -> (!t, !t, !t)
  return %dq : !t
}
func.func private @helper(%q: !t) -> !t {
  %out, %lse = attn.attention %q, %q, %q : (!t, !t, !t) -> (!t, !r)
  return %out : !t
}
func.func @other(%q: !t) -> !t {
  return %q : !t
}
