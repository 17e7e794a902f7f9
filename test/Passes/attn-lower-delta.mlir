// RUN: attn-opt %s --attn-lower-delta | FileCheck %s

// sum d_out * out in parts of 32.
// CHECK-LABEL: func @f32(
// CHECK-SAME: %[[D_OUT:.*]]: tensor<2x4x?x32xf32>, %[[OUT:.*]]: tensor<2x4x?x32xf32>)
// CHECK: %[[DELTA:.*]] = linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "parallel"]} outs(
// CHECK: %[[TOTAL:.*]] = scf.for %[[BEGIN:.*]] = %c0{{.*}} to %c32{{.*}} step %c32{{.*}} iter_args(%[[SUM:.*]] = %{{.*}}) -> (f32) {
// CHECK: %[[PART:.*]] = scf.for %[[C:.*]] = %[[BEGIN]] to
// CHECK: tensor.extract %[[D_OUT]][%{{.*}}, %{{.*}}, %{{.*}}, %[[C]]]
// CHECK: tensor.extract %[[OUT]][%{{.*}}, %{{.*}}, %{{.*}}, %[[C]]]
// CHECK: vector.fma
// CHECK: arith.addf %[[SUM]], %[[PART]]
// CHECK: linalg.yield %[[TOTAL]]
// CHECK: return %[[DELTA]]
func.func @f32(%d_out: tensor<2x4x?x32xf32>, %out: tensor<2x4x?x32xf32>) -> tensor<2x4x?xf32> {
  %delta = attn.delta %d_out, %out : tensor<2x4x?x32xf32>, tensor<2x4x?xf32>
  return %delta : tensor<2x4x?xf32>
}

// A gradient of lse is subtracted from the sum. Half-precision factors are widened before they are multiplied.
// CHECK-LABEL: func @d_lse(
// CHECK-SAME: %[[D_OUT:[^ ]*]]: tensor<1x1x?x8xbf16>, {{.*}}, %[[D_LSE:[^ ]*]]: tensor<1x1x?xf32>)
// CHECK: linalg.generic {{.*}} ins(%[[D_LSE]] : tensor<1x1x?xf32>)
// CHECK: ^bb0(%[[D:.*]]: f32, %{{.*}}: f32):
// CHECK: %[[TOTAL:.*]] = scf.for
// CHECK: %[[HALF:.*]] = tensor.extract %[[D_OUT]]
// CHECK: arith.extf %[[HALF]] : bf16 to f32
// CHECK: %[[ROW:.*]] = arith.subf %[[TOTAL]], %[[D]]
// CHECK: linalg.yield %[[ROW]]
func.func @d_lse(%d_out: tensor<1x1x?x8xbf16>, %out: tensor<1x1x?x8xbf16>, %d_lse: tensor<1x1x?xf32>) -> tensor<1x1x?xf32> {
  %delta = attn.delta %d_out, %out, %d_lse : tensor<1x1x?x8xbf16>, tensor<1x1x?xf32>
  return %delta : tensor<1x1x?xf32>
}
