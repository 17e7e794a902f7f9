// Soft-capped scores: cap * tanh(s / cap) keeps every score between -cap and cap, and its gradient is tanh's. The cap is a captured scalar.
//
// RUN: attn-run %s --q-len=35 --kv-len=77 --input cap=20.0 --check
// RUN: attn-run %s --q-len=35 --kv-len=77 --input cap=2.5 --check --backward | FileCheck %s
// CHECK: d_cap {{.*}} pass

func.func @soft_cap(%q: tensor<?x4x?x64xf32>, %k: tensor<?x4x?x64xf32>, %v: tensor<?x4x?x64xf32>, %cap: f32)
    -> (tensor<?x4x?x64xf32>, tensor<?x4x?xf32>) {
  %out, %lse = attn.attention %q, %k, %v captures(%cap : f32)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %relative = arith.divf %s, %cap : f32
      %squashed = math.tanh %relative : f32
      %capped = arith.mulf %cap, %squashed : f32
      attn.yield %capped : f32
    } : (tensor<?x4x?x64xf32>, tensor<?x4x?x64xf32>, tensor<?x4x?x64xf32>)
        -> (tensor<?x4x?x64xf32>, tensor<?x4x?xf32>)
  return %out, %lse : tensor<?x4x?x64xf32>, tensor<?x4x?xf32>
}
