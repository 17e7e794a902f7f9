// Chunked (block-diagonal) causal attention: the sequence is cut into chunks of 48, and a query sees its own chunk up to itself.
//
// RUN: attn-run %s --q-len=157 --kv-len=157 --check
// RUN: attn-run %s --q-len=157 --kv-len=157 --check --backward

func.func @chunked(%q: tensor<?x2x?x64xf32>, %k: tensor<?x2x?x64xf32>, %v: tensor<?x2x?x64xf32>)
    -> (tensor<?x2x?x64xf32>, tensor<?x2x?xf32>) {
  %out, %lse = attn.attention %q, %k, %v
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %size = arith.constant 48 : index
      %q_chunk = arith.floordivsi %q_idx, %size : index
      %kv_chunk = arith.floordivsi %kv_idx, %size : index
      %same = arith.cmpi eq, %q_chunk, %kv_chunk : index
      %causal = arith.cmpi sle, %kv_idx, %q_idx : index
      %keep = arith.andi %same, %causal : i1
      attn.yield %keep : i1
    } : (tensor<?x2x?x64xf32>, tensor<?x2x?x64xf32>, tensor<?x2x?x64xf32>)
        -> (tensor<?x2x?x64xf32>, tensor<?x2x?xf32>)
  return %out, %lse : tensor<?x2x?x64xf32>, tensor<?x2x?xf32>
}
