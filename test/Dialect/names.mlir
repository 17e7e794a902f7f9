// The names that captures give to the arguments of the regions, where the values of a region want the same ones.

// RUN: attn-opt %s --mlir-use-nameloc-as-prefix > %t && FileCheck %s --input-file %t
// RUN: attn-opt %t --mlir-use-nameloc-as-prefix=false > %t.plain
// RUN: attn-opt %s | diff %t.plain -

// CHECK: func @f(%s: tensor<1x1x4x8xf32>, %h: tensor<f32>)
// CHECK: %[[X:s_[0-9]*]] = tensor.extract %h[]
// CHECK: %b = arith.negf %[[X]]
// CHECK: captures(%[[X]] : f32, %b : f32) score(%x: f32, %[[B:b_[0-9]*]]: index, %[[H:h_[0-9]*]]: index,
// CHECK: %[[SUM:b_[0-9]*]] = arith.addf %x, %[[X]]
// CHECK: arith.addf %[[SUM]], %b
// CHECK: mask(%[[B]]: index, %[[H]]: index,
// CHECK: arith.cmpf olt, %[[X]], %b
func.func @f(%q: tensor<1x1x4x8xf32> loc("s"), %t: tensor<f32> loc("h")) -> tensor<1x1x4x8xf32> {
  %x = tensor.extract %t[] : tensor<f32> loc("s")
  %y = arith.negf %x : f32 loc("b")
  %out, %lse = attn.attention %q, %q, %q captures(%x : f32, %y : f32)
    score(%s: f32 loc("x"), %b: index, %h: index, %i: index, %j: index) {
      %1 = arith.addf %s, %x : f32 loc("b")
      %2 = arith.addf %1, %y : f32 loc("s")
      attn.yield %2 : f32
    } mask(%b: index, %h: index, %i: index, %j: index) {
      %3 = arith.cmpf olt, %x, %y : f32 loc("j")
      attn.yield %3 : i1
    } : (tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>) -> (tensor<1x1x4x8xf32>, tensor<1x1x4xf32>)
  return %out : tensor<1x1x4x8xf32>
}
