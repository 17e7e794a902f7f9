// RUN: attn-opt %s --split-input-file --attn-lower-online-to-tile --verify-diagnostics

!t = tensor<1x1x?x64xf64>
!l = tensor<1x1x?xf64>
func.func @f64(%q: !t) -> !t {
  // expected-error @below {{f64 tensors are for the CPU; convert them to f32 for a GPU}}
  %out, %lse = attn.online_attention forward %q, %q, %q schedule(<block_m = 64, block_n = 32, warps = 4>) : (!t, !t, !t) -> (!t, !l)
  return %out : !t
}

// -----

!t = tensor<1x1x?x64xf64>
!l = tensor<1x1x?xf64>
func.func @merge(%a: !t, %la: !l) -> !t {
  // expected-error @below {{f64 tensors are for the CPU; convert them to f32 for a GPU}}
  %out, %lse = attn.merge (%a, %la), (%a, %la) : !t, !l -> !t, !l
  return %out : !t
}

// -----

// Parts divide ranges, which block lists have none of.
!t = tensor<1x1x?x64xbf16>
!p = tensor<3x1x1x?x64xf32>
func.func @listed_parts(%q: !t, %lists: tensor<1x1x?x?x4xi32>) -> !p {
  // expected-error @below {{expected no block lists where the keys are computed in parts on a GPU; compile with kv_splits = 1 or without block lists}}
  %outs, %lses = attn.online_attention forward %q, %q, %q block_lists(%lists : tensor<1x1x?x?x4xi32>) blocks(64, 64)
    schedule(<block_m = 64, block_n = 64, kv_splits = 3, warps = 4>)
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %keep = arith.cmpi sle, %kv_idx, %q_idx : index
      attn.yield %keep : i1
    } ranges(%b: index, %h: index, %begin: index, %end: index) {
      %c0 = arith.constant 0 : index
      attn.yield_ranges visited(%c0 to %end) masked(%begin to %end)
    } : (!t, !t, !t) -> (!p, tensor<3x1x1x?xf32>)
  return %outs : !p
}

// -----

!t = tensor<1x1x?x64xbf16>
!l = tensor<1x1x?xf32>
func.func @key_warps(%q: !t, %lists: tensor<1x1x?x?x4xi32>) -> !t {
  // expected-error @below {{expected key_warps = 1 but for a forward of 16-bit elements without block lists, got 4}}
  %out, %lse = attn.online_attention forward %q, %q, %q block_lists(%lists : tensor<1x1x?x?x4xi32>) blocks(64, 64)
    schedule(<block_m = 16, block_n = 32, warps = 4, key_warps = 4>)
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %keep = arith.cmpi sle, %kv_idx, %q_idx : index
      attn.yield %keep : i1
    } ranges(%b: index, %h: index, %begin: index, %end: index) {
      %c0 = arith.constant 0 : index
      attn.yield_ranges visited(%c0 to %end) masked(%begin to %end)
    } : (!t, !t, !t) -> (!t, !l)
  return %out : !t
}

// -----

// Rows that show what dropped pairs hold are computed again after the merge.
!t = tensor<1x1x?x64xbf16>
!p = tensor<3x1x1x?x64xf32>
func.func @parts_without_merge(%q: !t) -> !p {
  // expected-error @below {{expected its parts to be merged by an attn.merge of nothing else, since rows of the result are computed again; compile with family = portable}}
  %outs, %lses = attn.online_attention forward %q, %q, %q
    schedule(<block_m = 64, block_n = 128, kv_splits = 3, warps = 8, blocks_per_multiprocessor = 2, stages = 3, family = hopper>)
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %keep = arith.cmpi sle, %kv_idx, %q_idx : index
      attn.yield %keep : i1
    } ranges(%b: index, %h: index, %begin: index, %end: index) {
      %c0 = arith.constant 0 : index
      attn.yield_ranges visited(%c0 to %end) masked(%begin to %end)
    } : (!t, !t, !t) -> (!p, tensor<3x1x1x?xf32>)
  return %outs : !p
}

// -----

!t = tensor<1x1x?x64xbf16>
!l = tensor<1x1x?xf32>
module attributes {attn.target = #attn.target<arch = sm_90a, max_shared_memory = 232448>} {
func.func @bias_stages(%q: !t) -> !t {
  // expected-error @below {{expected bias_stages = 0 without a dense bias of f16 or bf16, got 1}}
  %out, %lse = attn.online_attention forward %q, %q, %q
    schedule(<block_m = 128, block_n = 128, warps = 12, stages = 2, family = hopper, bias_stages = 1>) : (!t, !t, !t) -> (!t, !l)
  return %out : !t
}
}
