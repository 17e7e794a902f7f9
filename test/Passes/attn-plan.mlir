// RUN: attn-opt %s --attn-plan | FileCheck %s
// RUN: attn-opt %s --attn-plan="block-m=32 block-n=96 key-outer=true" | FileCheck %s --check-prefix=GIVEN

!q = tensor<2x4x?x64xf32>
!k = tensor<2x2x?x64xf32>
!v = tensor<2x2x?x32xf32>
!o = tensor<2x4x?x32xf32>
!l = tensor<2x4x?xf32>

module attributes {attn.target = #attn.target<arch = x86_64_v4, vector_bits = 512, vector_registers = 32, l2_bytes = 1048576>} {

//===--- forward ---===//

// Without score and mask there are no regions, and no ranges.
// CHECK-LABEL: func @plain(
// CHECK-SAME: %[[Q:.*]]: tensor<2x4x?x64xf32>, %[[K:.*]]: tensor<2x2x?x64xf32>, %[[V:.*]]: tensor<2x2x?x32xf32>)
// CHECK-NEXT: %[[OUT:.*]], %[[LSE:.*]] = attn.online_attention forward %[[Q]], %[[K]], %[[V]] schedule(<block_m = 64, block_n = 128, vector_length = 16, register_rows = 8, register_vectors = 2>) :
// CHECK-SAME: -> (tensor<2x4x?x32xf32>, tensor<2x4x?xf32>)
// CHECK-NEXT: return %[[OUT]], %[[LSE]]

// Only forward has a choice of order.
// GIVEN-LABEL: func @plain(
// GIVEN: forward {{.*}} schedule(<block_m = 32, block_n = 96, order = key_outer, vector_length = 16, register_rows = 8, register_vectors = 2>)
func.func @plain(%q: !q, %k: !k, %v: !v) -> (!o, !l) {
  %out, %lse = attn.attention %q, %k, %v : (!q, !k, !v) -> (!o, !l)
  return %out, %lse : !o, !l
}

// Scale, captures, score and mask go along unchanged; the ranges see the captures too.
// CHECK-LABEL: func @regions(
// CHECK: attn.online_attention forward %{{.*}}, %{{.*}}, %{{.*}} captures(%[[SLOPES:.*]] : tensor<4xf32>, %[[WINDOW:.*]] : index) scale(1.250000e-01) schedule(
// CHECK-SAME: score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
// CHECK-NEXT: %[[SLOPE:.*]] = tensor.extract %[[SLOPES]][%h]
// CHECK-NEXT: %[[BIASED:.*]] = arith.addf %s, %[[SLOPE]]
// CHECK-NEXT: attn.yield %[[BIASED]] : f32
// CHECK-NEXT: } mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
// CHECK-NEXT: %[[DISTANCE:.*]] = arith.subi %q_idx, %kv_idx
// CHECK-NEXT: %[[NEAR:.*]] = arith.cmpi slt, %[[DISTANCE]], %[[WINDOW]]
// CHECK-NEXT: attn.yield %[[NEAR]] : i1
// CHECK-NEXT: } ranges(%b: index, %h: index, %begin: index, %end: index) {
// CHECK: arith.maxsi %[[WINDOW]],
// CHECK: arith.subi %begin,
// CHECK: attn.yield_ranges visited(
func.func @regions(%q: !q, %k: !k, %v: !v, %slopes: tensor<4xf32>, %window: index) -> !o {
  %out, %lse = attn.attention %q, %k, %v captures(%slopes : tensor<4xf32>, %window : index) scale(0.125)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %slope = tensor.extract %slopes[%h] : tensor<4xf32>
      %biased = arith.addf %s, %slope : f32
      attn.yield %biased : f32
    } mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %distance = arith.subi %q_idx, %kv_idx : index
      %near = arith.cmpi slt, %distance, %window : index
      attn.yield %near : i1
    } : (!q, !k, !v) -> (!o, !l)
  return %out : !o
}

// One query: the block is what the lanes need, not 64.
// CHECK-LABEL: func @decode(
// CHECK: schedule(<block_m = 32, block_n = 128,
func.func @decode(%q: tensor<2x4x1x64xf32>, %k: !k, %v: !v) -> tensor<?x4x1x32xf32> {
  %out, %lse = attn.attention %q, %k, %v : (tensor<2x4x1x64xf32>, !k, !v) -> (tensor<?x4x1x32xf32>, tensor<?x4x1xf32>)
  return %out : tensor<?x4x1x32xf32>
}

// f64 tensors are computed in f64, eight to a vector.
// CHECK-LABEL: func @double(
// CHECK: schedule(<block_m = 64, block_n = 128, vector_length = 8, register_rows = 8, register_vectors = 2>)
func.func @double(%q: tensor<1x1x?x8xf64>) -> tensor<1x1x?x8xf64> {
  %out, %lse = attn.attention %q, %q, %q
    : (tensor<1x1x?x8xf64>, tensor<1x1x?x8xf64>, tensor<1x1x?x8xf64>) -> (tensor<1x1x?x8xf64>, tensor<1x1x?xf64>)
  return %out : tensor<1x1x?x8xf64>
}

//===--- backward ---===//

// delta, then two kernels that read it. Blocks of dq are of queries, blocks of dkdv of keys.
// CHECK-LABEL: func @backward(
// CHECK-SAME: %[[Q:.*]]: tensor<2x4x?x64xf32>, %[[K:.*]]: tensor<2x2x?x64xf32>, %[[V:.*]]: tensor<2x2x?x32xf32>, %[[OUT:.*]]: tensor<2x4x?x32xf32>, %[[LSE:.*]]: tensor<2x4x?xf32>, %[[D_OUT:.*]]: tensor<2x4x?x32xf32>)
// CHECK: %[[DELTA:.*]] = attn.delta %[[D_OUT]], %[[OUT]] : tensor<2x4x?x32xf32>, tensor<2x4x?xf32>
// CHECK: %[[DQ:.*]] = attn.online_attention dq %[[Q]], %[[K]], %[[V]], %[[LSE]], %[[DELTA]], %[[D_OUT]] schedule(<block_m = 64, block_n = 128, vector_length = 16, register_rows = 8, register_vectors = 2>) : {{.*}} -> tensor<2x4x?x64xf32>
// CHECK: %[[DK:.*]], %[[DV:.*]] = attn.online_attention dkdv %[[Q]], %[[K]], %[[V]], %[[LSE]], %[[DELTA]], %[[D_OUT]] schedule(<block_m = 128, block_n = 64, vector_length = 16, register_rows = 8, register_vectors = 2>) : {{.*}} -> (tensor<2x2x?x64xf32>, tensor<2x2x?x32xf32>)
// CHECK: return %[[DQ]], %[[DK]], %[[DV]]
func.func @backward(%q: !q, %k: !k, %v: !v, %out: !o, %lse: !l, %d_out: !o) -> (!q, !k, !v) {
  %dq, %dk, %dv = attn.attention_backward %q, %k, %v, %out, %lse, %d_out
    : (!q, !k, !v, !o, !l, !o) -> (!q, !k, !v)
  return %dq, %dk, %dv : !q, !k, !v
}

// A gradient of lse is part of delta.
// CHECK-LABEL: func @backward_d_lse(
// CHECK-SAME: %[[D_OUT:[^ ]*]]: tensor<1x1x?x8xbf16>, %[[D_LSE:[^ ]*]]: tensor<1x1x?xf32>)
// CHECK: %[[DELTA:.*]] = attn.delta %[[D_OUT]], %{{.*}}, %[[D_LSE]] : tensor<1x1x?x8xbf16>, tensor<1x1x?xf32>
// CHECK: attn.online_attention dq {{.*}}, %[[DELTA]], %[[D_OUT]]
// CHECK: attn.online_attention dkdv
func.func @backward_d_lse(%q: tensor<1x1x?x8xbf16>, %lse: tensor<1x1x?xf32>, %d_out: tensor<1x1x?x8xbf16>,
                          %d_lse: tensor<1x1x?xf32>) -> tensor<1x1x?x8xbf16> {
  %dq, %dk, %dv = attn.attention_backward %q, %q, %q, %q, %lse, %d_out, %d_lse
    : (tensor<1x1x?x8xbf16>, tensor<1x1x?x8xbf16>, tensor<1x1x?x8xbf16>, tensor<1x1x?x8xbf16>, tensor<1x1x?xf32>,
       tensor<1x1x?x8xbf16>, tensor<1x1x?xf32>) -> (tensor<1x1x?x8xbf16>, tensor<1x1x?x8xbf16>, tensor<1x1x?x8xbf16>)
  return %dq : tensor<1x1x?x8xbf16>
}

// The gradients of the captures come from dq alone, in their order: integers have none. Both kernels mask, the ranges
// of dkdv are over queries.
// CHECK-LABEL: func @backward_captures(
// CHECK: %[[DQ:.*]], %[[D_SLOPES:.*]], %[[D_CAP:.*]] = attn.online_attention dq {{.*}} captures(%{{.*}} : tensor<4xbf16>, %{{.*}} : index, %{{.*}} : f32)
// CHECK-SAME: score(
// CHECK: } mask(
// CHECK: } gradient(%d: f32, %s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
// CHECK: attn.accumulate_gradient
// CHECK: } ranges(
// CHECK: attn.kv_len
// CHECK: -> (tensor<2x4x?x64xf32>, tensor<4xf32>, tensor<f32>)
// CHECK: attn.online_attention dkdv
// CHECK: } gradient(
// CHECK: } ranges(
// CHECK: attn.q_len
// CHECK: -> (tensor<2x2x?x64xf32>, tensor<2x2x?x32xf32>)
// CHECK: return %[[DQ]], %[[D_SLOPES]], %[[D_CAP]]
func.func @backward_captures(%q: !q, %k: !k, %v: !v, %out: !o, %lse: !l, %d_out: !o, %slopes: tensor<4xbf16>,
                             %window: index, %cap: f32) -> (!q, tensor<4xf32>, tensor<f32>) {
  %dq, %dk, %dv, %d_slopes, %d_cap = attn.attention_backward %q, %k, %v, %out, %lse, %d_out
    captures(%slopes : tensor<4xbf16>, %window : index, %cap : f32)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %slope = tensor.extract %slopes[%h] : tensor<4xbf16>
      %wide = arith.extf %slope : bf16 to f32
      %x = arith.addf %s, %wide : f32
      %y = arith.addf %x, %cap : f32
      attn.yield %y : f32
    } mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %keep = arith.cmpi sle, %kv_idx, %q_idx : index
      attn.yield %keep : i1
    } gradient(%d: f32, %s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      attn.accumulate_gradient %d, %slopes[%h] : f32, tensor<4xbf16>
      attn.accumulate_gradient %d, %cap[] : f32, f32
      attn.yield %d : f32
    } : (!q, !k, !v, !o, !l, !o) -> (!q, !k, !v, tensor<4xf32>, tensor<f32>)
  return %dq, %d_slopes, %d_cap : !q, tensor<4xf32>, tensor<f32>
}

// What is planned already stays as it is.
// CHECK-LABEL: func @planned(
// CHECK: schedule(<block_m = 4, block_n = 3>)
func.func @planned(%q: tensor<1x1x?x8xf32>) -> tensor<1x1x?x8xf32> {
  %out, %lse = attn.online_attention forward %q, %q, %q schedule(<block_m = 4, block_n = 3>)
    : (tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32>) -> (tensor<1x1x?x8xf32>, tensor<1x1x?xf32>)
  return %out : tensor<1x1x?x8xf32>
}
}
