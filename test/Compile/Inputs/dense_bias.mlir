// A bias of 16 bits for each pair.
func.func @dense_bias(%q: tensor<?x4x?x64xf32>, %k: tensor<?x4x?x64xf32>, %v: tensor<?x4x?x64xf32>,
                      %bias: tensor<?x?x?xbf16>) -> (tensor<?x4x?x64xf32>, tensor<?x4x?xf32>) {
  %out, %lse = attn.attention %q, %k, %v captures(%bias : tensor<?x?x?xbf16>)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %x = tensor.extract %bias[%h, %q_idx, %kv_idx] : tensor<?x?x?xbf16>
      %wide = arith.extf %x : bf16 to f32
      %biased = arith.addf %s, %wide : f32
      attn.yield %biased : f32
    } : (tensor<?x4x?x64xf32>, tensor<?x4x?x64xf32>, tensor<?x4x?x64xf32>)
        -> (tensor<?x4x?x64xf32>, tensor<?x4x?xf32>)
  return %out, %lse : tensor<?x4x?x64xf32>, tensor<?x4x?xf32>
}

func.func @causal_bias(%q: tensor<?x4x?x64xf32>, %k: tensor<?x4x?x64xf32>, %v: tensor<?x4x?x64xf32>,
                       %bias: tensor<?x?xbf16>) -> (tensor<?x4x?x64xf32>, tensor<?x4x?xf32>) {
  %out, %lse = attn.attention %q, %k, %v captures(%bias : tensor<?x?xbf16>)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %x = tensor.extract %bias[%q_idx, %kv_idx] : tensor<?x?xbf16>
      %wide = arith.extf %x : bf16 to f32
      %biased = arith.addf %s, %wide : f32
      attn.yield %biased : f32
    } mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %keep = arith.cmpi sle, %kv_idx, %q_idx : index
      attn.yield %keep : i1
    } : (tensor<?x4x?x64xf32>, tensor<?x4x?x64xf32>, tensor<?x4x?x64xf32>)
        -> (tensor<?x4x?x64xf32>, tensor<?x4x?xf32>)
  return %out, %lse : tensor<?x4x?x64xf32>, tensor<?x4x?xf32>
}
