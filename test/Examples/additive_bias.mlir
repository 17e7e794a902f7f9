// An additive bias for each pair, as relative position tables and graph transformers have it. The bias here is one for all batch entries;
// its gradient is summed over them.
//
// RUN: attn-run %s --batch=3 --q-len=43 --kv-len=43 --check
// RUN: attn-run %s --batch=3 --q-len=43 --kv-len=59 --check --backward | FileCheck %s
// CHECK: d_bias {{.*}} pass

func.func @additive_bias(%q: tensor<?x2x?x64xf32>, %k: tensor<?x2x?x64xf32>, %v: tensor<?x2x?x64xf32>,
                         %bias: tensor<2x?x?xf32>) -> (tensor<?x2x?x64xf32>, tensor<?x2x?xf32>) {
  %out, %lse = attn.attention %q, %k, %v captures(%bias : tensor<2x?x?xf32>)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %x = tensor.extract %bias[%h, %q_idx, %kv_idx] : tensor<2x?x?xf32>
      %biased = arith.addf %s, %x : f32
      attn.yield %biased : f32
    } : (tensor<?x2x?x64xf32>, tensor<?x2x?x64xf32>, tensor<?x2x?x64xf32>)
        -> (tensor<?x2x?x64xf32>, tensor<?x2x?xf32>)
  return %out, %lse : tensor<?x2x?x64xf32>, tensor<?x2x?xf32>
}
