// Soft-capped scores with a constant cap and an approximated tanh, which cost little on a GPU: the constants go into the scale and the
// exponent, scores that are known to be between -30 and 30 need no maximum, and small ones get a polynomial.
//
// RUN: attn-run %s --q-len=131 --kv-len=77 --check
// RUN: attn-run %s --q-len=131 --kv-len=77 --check --backward

func.func @fast_soft_cap(%q: tensor<?x4x?x64xbf16>, %k: tensor<?x4x?x64xbf16>, %v: tensor<?x4x?x64xbf16>)
    -> (tensor<?x4x?x64xbf16>, tensor<?x4x?xf32>) {
  %out, %lse = attn.attention %q, %k, %v
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %cap = arith.constant 30.0 : f32
      %relative = arith.divf %s, %cap : f32
      %squashed = math.tanh %relative fastmath<afn> : f32
      %capped = arith.mulf %squashed, %cap : f32
      attn.yield %capped : f32
    } : (tensor<?x4x?x64xbf16>, tensor<?x4x?x64xbf16>, tensor<?x4x?x64xbf16>)
        -> (tensor<?x4x?x64xbf16>, tensor<?x4x?xf32>)
  return %out, %lse : tensor<?x4x?x64xbf16>, tensor<?x4x?xf32>
}
