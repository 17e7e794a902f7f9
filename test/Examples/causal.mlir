// Causal attention: a query sees no key that comes after it. Where there are not as many queries as keys, "after" depends on
// which ends are aligned, and the mask says which.
//
// RUN: attn-run %s --entry=top_left --q-len=67 --kv-len=67 --check
// RUN: attn-run %s --entry=top_left --q-len=67 --kv-len=67 --check --backward
// RUN: attn-run %s --entry=top_left --q-len=41 --kv-len=97 --check
// RUN: attn-run %s --entry=bottom_right --q-len=37 --kv-len=101 --check
// RUN: attn-run %s --entry=bottom_right --q-len=37 --kv-len=101 --check --backward
// RUN: attn-run %s --entry=bottom_right --q-len=101 --kv-len=37 --check
// RUN: attn-run %s --entry=bottom_right --q-len=101 --kv-len=37 --check --backward
// RUN: attn-run %s --entry=bottom_right --q-len=1 --kv-len=130 --check

// Query i sees keys 0 … i: training, and prefill from an empty cache.
func.func @top_left(%q: tensor<?x4x?x64xf32>, %k: tensor<?x4x?x64xf32>, %v: tensor<?x4x?x64xf32>)
    -> (tensor<?x4x?x64xf32>, tensor<?x4x?xf32>) {
  %out, %lse = attn.attention %q, %k, %v
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %keep = arith.cmpi sle, %kv_idx, %q_idx : index
      attn.yield %keep : i1
    } : (tensor<?x4x?x64xf32>, tensor<?x4x?x64xf32>, tensor<?x4x?x64xf32>)
        -> (tensor<?x4x?x64xf32>, tensor<?x4x?xf32>)
  return %out, %lse : tensor<?x4x?x64xf32>, tensor<?x4x?xf32>
}

// The last query sees all keys: decoding, and prefill behind a cache. With more queries than keys the first queries see no
// key at all; their output is 0.
func.func @bottom_right(%q: tensor<?x4x?x64xf32>, %k: tensor<?x4x?x64xf32>, %v: tensor<?x4x?x64xf32>)
    -> (tensor<?x4x?x64xf32>, tensor<?x4x?xf32>) {
  %out, %lse = attn.attention %q, %k, %v
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %q_len = attn.q_len %b
      %kv_len = attn.kv_len %b
      %offset = arith.subi %kv_len, %q_len : index
      %last = arith.addi %q_idx, %offset : index
      %keep = arith.cmpi sle, %kv_idx, %last : index
      attn.yield %keep : i1
    } : (tensor<?x4x?x64xf32>, tensor<?x4x?x64xf32>, tensor<?x4x?x64xf32>)
        -> (tensor<?x4x?x64xf32>, tensor<?x4x?xf32>)
  return %out, %lse : tensor<?x4x?x64xf32>, tensor<?x4x?xf32>
}
