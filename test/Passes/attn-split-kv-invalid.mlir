// RUN: attn-opt %s --attn-split-kv=splits=2 --verify-diagnostics

!q = tensor<1x2x?x8xf32>
func.func @key_outer(%q: !q) {
  // expected-error @+1 {{expected order = query_outer to split the keys in 2 parts, got key_outer}}
  attn.online_attention forward %q, %q, %q schedule(<block_m = 16, block_n = 32, order = key_outer>)
    : (!q, !q, !q) -> (!q, tensor<1x2x?xf32>)
  return
}
