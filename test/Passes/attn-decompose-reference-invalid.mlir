// RUN: attn-opt %s --attn-decompose-reference=compute-type=f32 --split-input-file --verify-diagnostics
// RUN: echo "func.func @f() { return }" | not attn-opt --attn-decompose-reference=compute-type=bf16 2>&1 | FileCheck %s --check-prefix=TYPE
// RUN: echo "func.func @f() { return }" | not attn-opt --attn-decompose-reference=f64-boundary 2>&1 | FileCheck %s --check-prefix=BOUNDARY
// RUN: echo "func.func @f() { return }" | not attn-opt --attn-decompose-reference=chunk-rows=0 2>&1 | FileCheck %s --check-prefix=ROWS

// TYPE: error: expected compute-type to be own, f32 or f64, got 'bf16'
// BOUNDARY: error: an f64 boundary needs compute-type=f64
// ROWS: error: expected chunk-rows of at least 1, got 0

!t = tensor<1x1x?x8xf64>
func.func @f64(%q: !t) -> !t {
  // expected-error @+1 {{'attn.attention' op is on f64 tensors, which compute-type=f32 would narrow; use compute-type=f64}}
  %out, %lse = attn.attention %q, %q, %q : (!t, !t, !t) -> (!t, tensor<1x1x?xf64>)
  return %out : !t
}

// -----

!t = tensor<1x1x?x8xf8E4M3FN>
func.func @f8(%q: !t) -> !t {
  // expected-error @+1 {{'attn.attention' op has no reference for 'f8E4M3FN' tensors; use f16, bf16, f32 or f64}}
  %out, %lse = attn.attention %q, %q, %q : (!t, !t, !t) -> (!t, tensor<1x1x?xf32>)
  return %out : !t
}

// -----

!t = tensor<1x1x?x8xf32>
func.func @no_gradient(%q: !t, %lse: tensor<1x1x?xf32>) -> !t {
  // expected-error @+1 {{'attn.attention_backward' op expected a gradient region beside its score; run --attn-differentiate first}}
  %dq, %dk, %dv = attn.attention_backward %q, %q, %q, %q, %lse, %q
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %r = arith.negf %s : f32
      attn.yield %r : f32
    } : (!t, !t, !t, !t, tensor<1x1x?xf32>, !t) -> (!t, !t, !t)
  return %dq : !t
}

// -----

!t = tensor<1x1x?x8xf32>
func.func private @keep(index) -> i1
func.func @call(%q: !t) -> !t {
  // expected-error @+1 {{'attn.attention' op expected no calls in its regions, got 'func.call'; inline what it calls first (--inline)}}
  %out, %lse = attn.attention %q, %q, %q mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
    %r = func.call @keep(%b) : (index) -> i1
    attn.yield %r : i1
  } : (!t, !t, !t) -> (!t, tensor<1x1x?xf32>)
  return %out : !t
}
