// Two tensors that are read at the key alone: registers hold the columns of one.
func.func @columns(%q: tensor<?x4x?x64xf32>, %k: tensor<?x4x?x64xf32>, %v: tensor<?x4x?x64xf32>,
                   %valid: tensor<?x?xi1>, %table: tensor<?xf32>) -> (tensor<?x4x?x64xf32>, tensor<?x4x?xf32>) {
  %out, %lse = attn.attention %q, %k, %v captures(%valid : tensor<?x?xi1>, %table : tensor<?xf32>)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %entry = tensor.extract %table[%kv_idx] : tensor<?xf32>
      %r = arith.addf %s, %entry : f32
      attn.yield %r : f32
    } mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %is_valid = tensor.extract %valid[%b, %kv_idx] : tensor<?x?xi1>
      attn.yield %is_valid : i1
    } : (tensor<?x4x?x64xf32>, tensor<?x4x?x64xf32>, tensor<?x4x?x64xf32>)
        -> (tensor<?x4x?x64xf32>, tensor<?x4x?xf32>)
  return %out, %lse : tensor<?x4x?x64xf32>, tensor<?x4x?xf32>
}
