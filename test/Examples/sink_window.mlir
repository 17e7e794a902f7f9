// Attention sinks with a window (streaming language models): the first four keys, and the last 32 before the query. For a block of queries the
// compiler finds two ranges of keys and visits nothing between them.
//
// RUN: attn-run %s --q-len=149 --kv-len=149 --check
// RUN: attn-run %s --q-len=149 --kv-len=149 --check --backward

func.func @sink_window(%q: tensor<?x2x?x64xf32>, %k: tensor<?x2x?x64xf32>, %v: tensor<?x2x?x64xf32>)
    -> (tensor<?x2x?x64xf32>, tensor<?x2x?xf32>) {
  %out, %lse = attn.attention %q, %k, %v
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %num_sinks = arith.constant 4 : index
      %window = arith.constant 32 : index
      %sink = arith.cmpi slt, %kv_idx, %num_sinks : index
      %distance = arith.subi %q_idx, %kv_idx : index
      %near = arith.cmpi slt, %distance, %window : index
      %sink_or_near = arith.ori %sink, %near : i1
      %causal = arith.cmpi sle, %kv_idx, %q_idx : index
      %keep = arith.andi %sink_or_near, %causal : i1
      attn.yield %keep : i1
    } : (tensor<?x2x?x64xf32>, tensor<?x2x?x64xf32>, tensor<?x2x?x64xf32>)
        -> (tensor<?x2x?x64xf32>, tensor<?x2x?xf32>)
  return %out, %lse : tensor<?x2x?x64xf32>, tensor<?x2x?xf32>
}
