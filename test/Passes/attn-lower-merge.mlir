// RUN: attn-opt %s --attn-lower-merge | FileCheck %s
// RUN: attn-opt %s --attn-lower-merge --attn-to-cpu-pipeline -o /dev/null
// RUN: not attn-opt %S/Inputs/merge-f8.mlir --attn-lower-merge 2>&1 | FileCheck %s --check-prefix=F8

// F8: error: 'attn.merge' op f8E4M3FN tensors are not lowered yet

// lse = m + log(exp(l - m) + exp(r - m)) with m = max(l, r), a side of -inf adding exactly 0; then the weighted mean of the
// outs, where a side of -inf adds exactly 0 whatever its out; the weights are relative to m.
// CHECK-LABEL: func @merge(
// CHECK-SAME: %[[LO:.*]]: tensor<1x2x?x8xf32>, %[[LL:.*]]: tensor<1x2x?xf32>, %[[RO:.*]]: tensor<1x2x?x8xf32>, %[[RL:.*]]: tensor<1x2x?xf32>)
// CHECK: %[[LSE:.*]] = linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "parallel"]} ins(%[[LL]], %[[RL]] :
// CHECK-NEXT: ^bb0(%[[L:.*]]: f32, %[[R:.*]]: f32, %{{.*}}: f32):
// CHECK-NEXT: %[[M:.*]] = arith.maximumf %[[L]], %[[R]]
// CHECK: %[[L_EMPTY:.*]] = arith.cmpf oeq, %[[L]], %{{.*}}
// CHECK: %[[L_SHIFTED:.*]] = arith.subf %[[L]], %[[M]]
// CHECK: %[[L_EXP:.*]] = math.exp %[[L_SHIFTED]]
// CHECK: %[[L_WEIGHT:.*]] = arith.select %[[L_EMPTY]], %{{.*}}, %[[L_EXP]]
// CHECK: %[[R_WEIGHT:.*]] = arith.select
// CHECK: %[[SUM:.*]] = arith.addf %[[L_WEIGHT]], %[[R_WEIGHT]]
// CHECK: %[[LOG:.*]] = math.log %[[SUM]]
// CHECK: %[[NEW:.*]] = arith.addf %[[M]], %[[LOG]]
// CHECK: linalg.yield %[[NEW]]
// CHECK: %[[OUT:.*]] = linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%[[LO]], %[[RO]], %[[LL]], %[[RL]] :
// CHECK-NEXT: ^bb0(%[[L:.*]]: f32, %[[R:.*]]: f32, %[[L_LSE:.*]]: f32, %[[R_LSE:.*]]: f32, %{{.*}}: f32):
// CHECK: %[[MAX:.*]] = arith.maximumf %[[L_LSE]], %[[R_LSE]]
// CHECK: %[[L_WEIGHT:.*]] = arith.select
// CHECK: %[[R_WEIGHT:.*]] = arith.select
// CHECK: %[[EMPTY:.*]] = arith.cmpf oeq, %[[L_LSE]],
// CHECK: %[[PART:.*]] = arith.mulf %[[L_WEIGHT]], %[[L]]
// CHECK: %[[L_PART:.*]] = arith.select %[[EMPTY]], %{{.*}}, %[[PART]]
// CHECK: %[[SUM:.*]] = arith.addf %[[L_PART]], %{{.*}}
// CHECK: %[[NO_KEY:.*]] = arith.cmpf oeq, %[[MAX]],
// CHECK: %[[WEIGHTS:.*]] = arith.addf %[[L_WEIGHT]], %[[R_WEIGHT]]
// CHECK: %[[NORMALISED:.*]] = arith.divf %[[SUM]], %[[WEIGHTS]]
// CHECK: arith.select %[[NO_KEY]], %{{.*}}, %[[NORMALISED]]
// CHECK: return %[[OUT]], %[[LSE]]
func.func @merge(%lo: tensor<1x2x?x8xf32>, %ll: tensor<1x2x?xf32>, %ro: tensor<1x2x?x8xf32>, %rl: tensor<1x2x?xf32>)
    -> (tensor<1x2x?x8xf32>, tensor<1x2x?xf32>) {
  %out, %lse = attn.merge %lo, %ll, %ro, %rl : tensor<1x2x?x8xf32>, tensor<1x2x?xf32>
  return %out, %lse : tensor<1x2x?x8xf32>, tensor<1x2x?xf32>
}

// Halves are widened, summed in f32 and rounded once.
// CHECK-LABEL: func @half(
// CHECK: ^bb0(%[[L:.*]]: f16, %[[R:.*]]: f16, %{{.*}}: f32
// CHECK-DAG: arith.extf %[[L]] : f16 to f32
// CHECK-DAG: arith.extf %[[R]] : f16 to f32
// CHECK: %[[SUM:.*]] = arith.addf {{.*}} : f32
// CHECK: %[[OUT:.*]] = arith.truncf %{{.*}} : f32 to f16
func.func @half(%lo: tensor<1x2x3x8xf16>, %ll: tensor<1x2x3xf32>) -> tensor<1x2x3x8xf16> {
  %out, %lse = attn.merge %lo, %ll, %lo, %ll : tensor<1x2x3x8xf16>, tensor<1x2x3xf32>
  return %out : tensor<1x2x3x8xf16>
}

// CHECK-LABEL: func @double(
// CHECK: math.exp %{{.*}} : f64
// CHECK-NOT: f32
func.func @double(%lo: tensor<1x2x3x8xf64>, %ll: tensor<1x2x3xf64>) -> tensor<1x2x3x8xf64> {
  %out, %lse = attn.merge %lo, %ll, %lo, %ll : tensor<1x2x3x8xf64>, tensor<1x2x3xf64>
  return %out : tensor<1x2x3x8xf64>
}
