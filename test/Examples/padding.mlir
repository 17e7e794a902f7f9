// Padded batches: each batch entry has its own number of keys, 0 included. An entry without keys has output 0, lse -inf and no gradient.
//
// RUN: attn-run %s --batch=4 --q-len=31 --kv-len=83 --check
// RUN: attn-run %s --batch=4 --q-len=31 --kv-len=83 --check --backward
// RUN: attn-run %s --batch=2 --q-len=31 --kv-len=83 --fill lengths=constant:0 --check --backward

func.func @padding(%q: tensor<?x2x?x64xf32>, %k: tensor<?x2x?x64xf32>, %v: tensor<?x2x?x64xf32>,
                   %lengths: tensor<?xi64>) -> (tensor<?x2x?x64xf32>, tensor<?x2x?xf32>) {
  %out, %lse = attn.attention %q, %k, %v captures(%lengths : tensor<?xi64>)
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %length_i64 = tensor.extract %lengths[%b] : tensor<?xi64>
      %length = arith.index_cast %length_i64 : i64 to index
      %keep = arith.cmpi slt, %kv_idx, %length : index
      attn.yield %keep : i1
    } : (tensor<?x2x?x64xf32>, tensor<?x2x?x64xf32>, tensor<?x2x?x64xf32>)
        -> (tensor<?x2x?x64xf32>, tensor<?x2x?xf32>)
  return %out, %lse : tensor<?x2x?x64xf32>, tensor<?x2x?xf32>
}
