// Prefix language model: every query sees the whole prefix of its batch entry, then is causal. The prefix lengths are captured; they are
// read by b alone, so they bound the keys of a block as a constant would.
//
// RUN: attn-run %s --batch=3 --q-len=71 --kv-len=71 --check
// RUN: attn-run %s --batch=3 --q-len=71 --kv-len=71 --check --backward
// RUN: attn-run %s --batch=2 --q-len=71 --kv-len=71 --fill prefix=constant:0 --check

func.func @prefix_lm(%q: tensor<?x2x?x64xf32>, %k: tensor<?x2x?x64xf32>, %v: tensor<?x2x?x64xf32>,
                     %prefix: tensor<?xi32>) -> (tensor<?x2x?x64xf32>, tensor<?x2x?xf32>) {
  %out, %lse = attn.attention %q, %k, %v captures(%prefix : tensor<?xi32>)
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %length_i32 = tensor.extract %prefix[%b] : tensor<?xi32>
      %length = arith.index_cast %length_i32 : i32 to index
      %in_prefix = arith.cmpi slt, %kv_idx, %length : index
      %causal = arith.cmpi sle, %kv_idx, %q_idx : index
      %keep = arith.ori %in_prefix, %causal : i1
      attn.yield %keep : i1
    } : (tensor<?x2x?x64xf32>, tensor<?x2x?x64xf32>, tensor<?x2x?x64xf32>)
        -> (tensor<?x2x?x64xf32>, tensor<?x2x?xf32>)
  return %out, %lse : tensor<?x2x?x64xf32>, tensor<?x2x?xf32>
}
