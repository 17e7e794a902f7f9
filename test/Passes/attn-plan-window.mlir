// RUN: attn-opt %s --attn-set-target=arch=sm_90a --attn-plan | FileCheck %s

// A block of the backward keeps fewer keys where a window is narrow: what bounds the distance of a query and a key from both sides.

!t = tensor<1x1x?x128xbf16>
!l = tensor<1x1x?xf32>

// CHECK-LABEL: @causal(
// CHECK: attn.online_attention fused {{.*}} block_n = 64,
func.func @causal(%q: !t, %o: !t, %lse: !l) -> (!t, !t, !t) {
  %dq, %dk, %dv = attn.attention_backward %q, %q, %q, %o, %lse, %o mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %window = arith.constant 1024 : index
      %distance = arith.subi %q_idx, %kv_idx : index
      %near = arith.cmpi slt, %distance, %window : index
      %causal = arith.cmpi sle, %kv_idx, %q_idx : index
      %keep = arith.andi %near, %causal : i1
      attn.yield %keep : i1
    } : (!t, !t, !t, !t, !l, !t) -> (!t, !t, !t)
  return %dq, %dk, %dv : !t, !t, !t
}

// On both sides, and in 32 bits.
// CHECK-LABEL: @centred(
// CHECK: attn.online_attention fused {{.*}} block_n = 64,
func.func @centred(%q: !t, %o: !t, %lse: !l) -> (!t, !t, !t) {
  %dq, %dk, %dv = attn.attention_backward %q, %q, %q, %o, %lse, %o mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %reach = arith.constant 1023 : i32
      %zero = arith.constant 0 : i32
      %q_i = arith.index_cast %q_idx : index to i32
      %kv_i = arith.index_cast %kv_idx : index to i32
      %first = arith.subi %q_i, %reach : i32
      %last = arith.addi %q_i, %reach : i32
      %above = arith.cmpi sge, %kv_i, %first : i32
      %below = arith.cmpi sge, %last, %kv_i : i32
      %any = arith.cmpi sge, %q_i, %zero : i32
      %both = arith.andi %above, %any : i1
      %keep = arith.andi %both, %below : i1
      attn.yield %keep : i1
    } : (!t, !t, !t, !t, !l, !t) -> (!t, !t, !t)
  return %dq, %dk, %dv : !t, !t, !t
}

// CHECK-LABEL: @wide(
// CHECK: attn.online_attention fused {{.*}} block_n = 128,
func.func @wide(%q: !t, %o: !t, %lse: !l) -> (!t, !t, !t) {
  %dq, %dk, %dv = attn.attention_backward %q, %q, %q, %o, %lse, %o mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %window = arith.constant 2049 : index
      %distance = arith.subi %q_idx, %kv_idx : index
      %near = arith.cmpi sgt, %window, %distance : index
      %causal = arith.cmpi sle, %kv_idx, %q_idx : index
      %keep = arith.andi %near, %causal : i1
      attn.yield %keep : i1
    } : (!t, !t, !t, !t, !l, !t) -> (!t, !t, !t)
  return %dq, %dk, %dv : !t, !t, !t
}

// A sink is kept by all, and a number that is captured may be any.
// CHECK-LABEL: @sink(
// CHECK: attn.online_attention fused {{.*}} block_n = 128,
func.func @sink(%q: !t, %o: !t, %lse: !l) -> (!t, !t, !t) {
  %dq, %dk, %dv = attn.attention_backward %q, %q, %q, %o, %lse, %o mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %window = arith.constant 1024 : index
      %four = arith.constant 4 : index
      %distance = arith.subi %q_idx, %kv_idx : index
      %near = arith.cmpi slt, %distance, %window : index
      %sink = arith.cmpi slt, %kv_idx, %four : index
      %either = arith.ori %near, %sink : i1
      %causal = arith.cmpi sle, %kv_idx, %q_idx : index
      %keep = arith.andi %either, %causal : i1
      attn.yield %keep : i1
    } : (!t, !t, !t, !t, !l, !t) -> (!t, !t, !t)
  return %dq, %dk, %dv : !t, !t, !t
}

// CHECK-LABEL: @captured(
// CHECK: attn.online_attention fused {{.*}} block_n = 128,
func.func @captured(%q: !t, %o: !t, %lse: !l, %window: index) -> (!t, !t, !t) {
  %dq, %dk, %dv = attn.attention_backward %q, %q, %q, %o, %lse, %o captures(%window : index) mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %distance = arith.subi %q_idx, %kv_idx : index
      %near = arith.cmpi slt, %distance, %window : index
      %causal = arith.cmpi sle, %kv_idx, %q_idx : index
      %keep = arith.andi %near, %causal : i1
      attn.yield %keep : i1
    } : (!t, !t, !t, !t, !l, !t) -> (!t, !t, !t)
  return %dq, %dk, %dv : !t, !t, !t
}
