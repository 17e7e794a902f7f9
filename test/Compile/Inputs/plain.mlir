// Attention with neither score nor mask.
func.func @plain(%q: tensor<?x4x?x64xf32>, %k: tensor<?x4x?x64xf32>, %v: tensor<?x4x?x64xf32>)
    -> (tensor<?x4x?x64xf32>, tensor<?x4x?xf32>) {
  %out, %lse = attn.attention %q, %k, %v
    : (tensor<?x4x?x64xf32>, tensor<?x4x?x64xf32>, tensor<?x4x?x64xf32>)
        -> (tensor<?x4x?x64xf32>, tensor<?x4x?xf32>)
  return %out, %lse : tensor<?x4x?x64xf32>, tensor<?x4x?xf32>
}
