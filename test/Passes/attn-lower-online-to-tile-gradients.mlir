// RUN: attn-opt %s --split-input-file --attn-lower-online-to-tile --canonicalize --cse | FileCheck %s

// What the fused backward keeps of scores until their gradients are computed.

!t = tensor<1x4x?x64xbf16>
!l = tensor<1x4x?xf32>

// A gradient that is a factor times its cotangent: the factors wait, times the probabilities, where the gradients of scores will
// be. Constants have become one of each product, and none of (p * 20) * (1 - t^2) * 0.05.
// CHECK-LABEL: gpu.func @factor_fused(
// CHECK-DAG: %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
// CHECK-DAG: %[[INTO_TANH:.*]] = arith.constant 6.250000e-03 : f32
// CHECK-DAG: %[[INTO_EXP:.*]] = arith.constant 2.885390e+01 : f32
// CHECK-NOT: "d_scores"
// CHECK: attn_tile.mma mma_sync %scores, %query_tile
// CHECK-NEXT: scf.if %[[MASKED:.*]] {
// CHECK: } else {
// CHECK-NEXT: attn_tile.map ins(%row_lse{{.*}} outs(%scores, %factors
// CHECK-NEXT: ^bb0(%{{.*}}: index, %{{.*}}: index, %{{.*}}: f32, %[[PRODUCT:.*]]: f32, %{{.*}}: f32):
// CHECK-NEXT: %[[X:.*]] = arith.mulf %[[PRODUCT]], %[[INTO_TANH]]
// CHECK-NEXT: %[[T:.*]] = math.tanh %[[X]]
// CHECK: %[[EXPONENT:.*]] = math.fma %[[T]], %[[INTO_EXP]], %
// CHECK-NEXT: %[[P:.*]] = math.exp2 %[[EXPONENT]] fastmath<afn>
// CHECK-NEXT: %[[COUNTS:.*]] = arith.cmpf une, %[[P]]
// CHECK-NEXT: %[[SQUARE:.*]] = arith.mulf %[[T]], %[[T]]
// CHECK-NEXT: %[[SLOPE:.*]] = arith.subf %[[ONE]], %[[SQUARE]]
// CHECK-NEXT: %[[FACTOR:.*]] = arith.mulf %[[P]], %[[SLOPE]]
// CHECK-NEXT: %[[SELECTED:.*]] = arith.select %[[COUNTS]], %[[FACTOR]]
// CHECK-NEXT: attn_tile.yield %[[P]], %[[SELECTED]]
// CHECK: attn_tile.store_shared %scores to %probabilities_tile
// CHECK-NEXT: attn_tile.store_shared %factors to %d_scores_tile
// CHECK-NEXT: }
// CHECK: attn_tile.mma mma_sync %scores, %d_out_tile{{.*}}, %value_tile transpose_b
// CHECK: attn_tile.load_shared %d_scores_tile to %factors
// Which pairs are dropped the probabilities say: a factor may be 0 where a pair is kept.
// CHECK-NEXT: scf.if %[[MASKED]] {
// CHECK-NEXT: attn_tile.load_shared %probabilities_tile to %probabilities
// CHECK-NEXT: attn_tile.map ins(%probabilities, %factors, %row_delta
// CHECK-NEXT: ^bb0(%{{.*}}: index, %{{.*}}: index, %[[P:.*]]: f32, %[[FACTOR:.*]]: f32, %[[DELTA:.*]]: f32, %[[DP:.*]]: f32):
// CHECK-NEXT: %[[KEEP:.*]] = arith.cmpf une, %[[P]]
// CHECK-NEXT: %[[DIFFERENCE:.*]] = arith.subf %[[DP]], %[[DELTA]]
// CHECK-NEXT: %[[DX:.*]] = arith.mulf %[[FACTOR]], %[[DIFFERENCE]]
// CHECK-NEXT: arith.select %[[KEEP]], %[[DX]]
// CHECK: } else {
// CHECK-NEXT: attn_tile.map ins(%factors, %row_delta
// CHECK: attn_tile.store_shared %scores to %d_scores_tile
// CHECK-LABEL: gpu.func @factor_d_query(
func.func @factor(%q: !t, %lse: !l) -> (!t, !t, !t) {
  %dq, %dk, %dv = attn.online_attention fused %q, %q, %q, %lse, %lse, %q scale(0.125) schedule(<block_m = 64, block_n = 64, warps = 8>)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %cap = arith.constant 20.0 : f32
      %x = arith.divf %s, %cap : f32
      %t = math.tanh %x : f32
      %r = arith.mulf %t, %cap : f32
      attn.yield %r : f32
    } gradient(%d: f32, %s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %cap = arith.constant 20.0 : f32
      %one = arith.constant 1.0 : f32
      %x = arith.divf %s, %cap : f32
      %t = math.tanh %x : f32
      %square = arith.mulf %t, %t : f32
      %slope = arith.subf %one, %square : f32
      %dr = arith.mulf %d, %cap : f32
      %dt = arith.mulf %dr, %slope : f32
      %dx = arith.divf %dt, %cap : f32
      attn.yield %dx : f32
    } : (!t, !t, !t, !l, !l, !t) -> (!t, !t, !t)
  return %dq, %dk, %dv : !t, !t, !t
}

// -----

!t = tensor<1x4x?x64xbf16>
!l = tensor<1x4x?xf32>

// A gradient that needs no score: the probabilities wait, and the gradients of captures come with those of the scores.
// CHECK-LABEL: gpu.func @bias_fused(
// CHECK-NOT: "factors"
// CHECK: attn_tile.mma mma_sync %scores, %query_tile
// The lse of a row may be a NaN, of which a score of -inf must have nothing.
// CHECK-NEXT: %[[NAN:.*]] = attn_tile.any ins(%row_lse
// CHECK: arith.cmpf uno
// CHECK: %[[SELECTS:.*]] = arith.ori %{{.*}}, %[[NAN]]
// CHECK-NEXT: scf.if %[[SELECTS]]
// CHECK: } else {
// CHECK-NEXT: attn_tile.map ins(%row_lse{{.*}} outs(%scores :
// CHECK-NOT: atomic_rmw
// CHECK: attn_tile.store_shared %scores to %probabilities_tile
// CHECK: attn_tile.load_shared %probabilities_tile to %probabilities
// All of it is computed of pairs that are kept alone: there is nothing to select then.
// CHECK-NOT: row_reduce
// CHECK: attn_tile.map ins(%probabilities, %row_delta
// CHECK: memref.atomic_rmw addf
// CHECK-NOT: attn_tile.map
// CHECK: attn_tile.store_shared %scores to %d_scores_tile
func.func @bias(%q: !t, %lse: !l, %bias: tensor<?xf32>) -> (!t, !t, !t, tensor<?xf32>) {
  %dq, %dk, %dv, %db = attn.online_attention fused %q, %q, %q, %lse, %lse, %q captures(%bias : tensor<?xf32>)
    schedule(<block_m = 64, block_n = 64, warps = 8>)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %term = tensor.extract %bias[%kv_idx] : tensor<?xf32>
      %sum = arith.addf %s, %term : f32
      attn.yield %sum : f32
    } gradient(%d: f32, %s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      attn.accumulate_gradient %d, %bias[%kv_idx] : f32, tensor<?xf32>
      attn.yield %d : f32
    } : (!t, !t, !t, !l, !l, !t) -> (!t, !t, !t, tensor<?xf32>)
  return %dq, %dk, %dv, %db : !t, !t, !t, tensor<?xf32>
}

// -----

!t = tensor<1x4x?x64xbf16>
!l = tensor<1x4x?xf32>

// A gradient that is no multiple of its cotangent needs all of it at once; scores stay in registers, as the gradients do.
// CHECK-LABEL: gpu.func @clipped_fused(
// CHECK-NOT: load_shared
// CHECK: attn_tile.map ins(%row_lse, %row_delta{{.*}} outs(%scores, %d_scores
// CHECK: arith.minimumf
// CHECK: attn_tile.store_shared %scores to %probabilities_tile
// CHECK-NEXT: attn_tile.store_shared %d_scores to %d_scores_tile
// CHECK-LABEL: gpu.func @clipped_d_query(
func.func @clipped(%q: !t, %lse: !l) -> (!t, !t, !t) {
  %dq, %dk, %dv = attn.online_attention fused %q, %q, %q, %lse, %lse, %q schedule(<block_m = 64, block_n = 64, warps = 8>)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %x = math.sin %s : f32
      attn.yield %x : f32
    } gradient(%d: f32, %s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %one = arith.constant 1.0 : f32
      %slope = math.cos %s : f32
      %dx = arith.mulf %d, %slope : f32
      %clipped = arith.minimumf %dx, %one : f32
      attn.yield %clipped : f32
    } : (!t, !t, !t, !l, !l, !t) -> (!t, !t, !t)
  return %dq, %dk, %dv : !t, !t, !t
}

// -----

!t = tensor<1x4x?x64xf32>
!l = tensor<1x4x?xf32>

// In f32 nothing waits, and no constant is merged: products are rounded as they are written.
// CHECK-LABEL: gpu.func @exact_fused(
// CHECK-DAG: %[[C:.*]] = arith.constant 3.000000e+00 : f32
// CHECK-DAG: %[[SCALE:.*]] = arith.constant 1.250000e-01 : f32
// CHECK: attn_tile.map ins(%row_lse, %row_delta{{.*}} outs(%scores, %d_scores
// CHECK: %[[X:.*]] = arith.mulf %{{.*}}, %[[SCALE]] : f32
// CHECK-NEXT: %[[S:.*]] = arith.mulf %[[X]], %[[C]] : f32
func.func @exact(%q: !t, %lse: !l) -> (!t, !t, !t) {
  %dq, %dk, %dv = attn.online_attention fused %q, %q, %q, %lse, %lse, %q scale(0.125) schedule(<block_m = 32, block_n = 32, warps = 4>)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %c = arith.constant 3.0 : f32
      %x = arith.mulf %s, %c : f32
      attn.yield %x : f32
    } gradient(%d: f32, %s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %c = arith.constant 3.0 : f32
      %dx = arith.mulf %d, %c : f32
      attn.yield %dx : f32
    } : (!t, !t, !t, !l, !l, !t) -> (!t, !t, !t)
  return %dq, %dk, %dv : !t, !t, !t
}

// -----

!t = tensor<1x4x?x64xf16>
!l = tensor<1x4x?xf32>

// Nor do factors wait in f16, whose numbers end at 65504: exp(s) times a probability may be more.
// CHECK-LABEL: gpu.func @steep_fused(
// CHECK-NOT: "factors"
// CHECK: attn_tile.map ins(%row_lse, %row_delta{{.*}} outs(%scores, %d_scores
func.func @steep(%q: !t, %lse: !l) -> (!t, !t, !t) {
  %dq, %dk, %dv = attn.online_attention fused %q, %q, %q, %lse, %lse, %q schedule(<block_m = 64, block_n = 64, warps = 8>)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %x = math.exp %s : f32
      attn.yield %x : f32
    } gradient(%d: f32, %s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %slope = math.exp %s : f32
      %dx = arith.mulf %d, %slope : f32
      attn.yield %dx : f32
    } : (!t, !t, !t, !l, !l, !t) -> (!t, !t, !t)
  return %dq, %dk, %dv : !t, !t, !t
}

// -----

!t = tensor<1x4x?x64xbf16>
!l = tensor<1x4x?xf32>

// Scores without a bound, or with steps, are rounded as the forward rounds those that lse is of: no constant is merged. A gradient
// that is not its cotangent is what it says.
// CHECK-LABEL: gpu.func @unbounded_fused(
// CHECK-DAG: %[[TENTH:.*]] = arith.constant 1.000000e-01 : f32
// CHECK-DAG: %[[SCALE:.*]] = arith.constant 1.250000e-01 : f32
// CHECK: %[[X:.*]] = arith.mulf %{{.*}}, %[[SCALE]] : f32
// CHECK-NEXT: %[[SMALL:.*]] = arith.mulf %[[X]], %[[TENTH]] : f32
// CHECK: attn_tile.map ins(%probabilities, %row_delta
// CHECK: arith.select %{{.*}}, %[[TENTH]], %
func.func @unbounded(%q: !t, %lse: !l) -> (!t, !t, !t) {
  %dq, %dk, %dv = attn.online_attention fused %q, %q, %q, %lse, %lse, %q scale(0.125) schedule(<block_m = 64, block_n = 64, warps = 8>)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %zero = arith.constant 0.0 : f32
      %tenth = arith.constant 0.1 : f32
      %small = arith.mulf %s, %tenth : f32
      %is_positive = arith.cmpf ogt, %s, %zero : f32
      %leaky = arith.select %is_positive, %s, %small : f32
      attn.yield %leaky : f32
    } gradient(%d: f32, %s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %tenth = arith.constant 0.1 : f32
      attn.yield %tenth : f32
    } : (!t, !t, !t, !l, !l, !t) -> (!t, !t, !t)
  return %dq, %dk, %dv : !t, !t, !t
}
