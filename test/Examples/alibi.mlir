// ALiBi (attention with linear biases): each head subtracts its own slope times the distance between query and key. The slopes
// are a captured tensor, and the compiler differentiates the score, so training gets their gradient, too.
//
// RUN: attn-run %s --q-len=67 --kv-len=67 --fill slopes=slopes --check
// RUN: attn-run %s --q-len=67 --kv-len=67 --fill slopes=slopes --check --backward | FileCheck %s
// CHECK: d_slopes {{.*}} pass

func.func @alibi(%q: tensor<?x8x?x64xf32>, %k: tensor<?x2x?x64xf32>, %v: tensor<?x2x?x64xf32>, %slopes: tensor<8xf32>)
    -> (tensor<?x8x?x64xf32>, tensor<?x8x?xf32>) {
  %out, %lse = attn.attention %q, %k, %v captures(%slopes : tensor<8xf32>)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %slope = tensor.extract %slopes[%h] : tensor<8xf32>
      %distance = arith.subi %kv_idx, %q_idx : index
      %i = arith.index_cast %distance : index to i32
      %f = arith.sitofp %i : i32 to f32
      %bias = arith.mulf %slope, %f : f32
      %biased = arith.addf %s, %bias : f32
      attn.yield %biased : f32
    } mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %keep = arith.cmpi sle, %kv_idx, %q_idx : index
      attn.yield %keep : i1
    } : (tensor<?x8x?x64xf32>, tensor<?x2x?x64xf32>, tensor<?x2x?x64xf32>)
        -> (tensor<?x8x?x64xf32>, tensor<?x8x?xf32>)
  return %out, %lse : tensor<?x8x?x64xf32>, tensor<?x8x?xf32>
}
