// RUN: attn-opt %s | FileCheck %s
// CHECK: attn.attention
func.func @f(%q: tensor<1x8x?x64xf32>, %k: tensor<1x8x?x64xf32>, %v: tensor<1x8x?x64xf32>) -> tensor<1x8x?x64xf32> {
  %out, %lse = attn.attention %q, %k, %v : (tensor<1x8x?x64xf32>, tensor<1x8x?x64xf32>, tensor<1x8x?x64xf32>)
    -> (tensor<1x8x?x64xf32>, tensor<1x8x?xf32>)
  return %out : tensor<1x8x?x64xf32>
}
