// RUN: attn-opt %s --attn-lower-merge | FileCheck %s
// RUN: attn-opt %s --attn-lower-merge --attn-to-cpu-pipeline -o /dev/null
// RUN: not attn-opt %S/Inputs/merge-f8.mlir --attn-lower-merge 2>&1 | FileCheck %s --check-prefix=F8

// F8: error: 'attn.merge' op f8E4M3FN tensors are not lowered yet

// m = max(l, r), weights exp(l - m) and exp(r - m), 0 for a side of -inf, and lse = m + log(their sum); then the weighted mean
// of the outs, where a side of -inf adds exactly 0 whatever its out.
// CHECK-LABEL: func @merge(
// CHECK-SAME: %[[LO:.*]]: tensor<1x2x?x8xf32>, %[[LL:.*]]: tensor<1x2x?xf32>, %[[RO:.*]]: tensor<1x2x?x8xf32>, %[[RL:.*]]: tensor<1x2x?xf32>)
// CHECK: %[[LOWEST:.*]] = linalg.fill ins(%{{.*}} : f32)
// CHECK: %[[M:.*]] = linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "parallel"]} ins(%[[LL]], %[[RL]] : {{.*}}) outs(%[[LOWEST]] :
// CHECK-NEXT: ^bb0(%[[L:.*]]: f32, %[[R:.*]]: f32, %[[START:.*]]: f32):
// CHECK-NEXT: %[[MAX:.*]] = arith.maximumf %[[START]], %[[L]]
// CHECK-NEXT: %[[BOTH:.*]] = arith.maximumf %[[MAX]], %[[R]]
// CHECK-NEXT: linalg.yield %[[BOTH]]
// CHECK: %[[LW:.*]] = linalg.generic {{.*}} ins(%[[LL]], %[[M]] :
// CHECK-NEXT: ^bb0(%[[L:.*]]: f32, %[[MAX:.*]]: f32, %{{.*}}: f32):
// CHECK: %[[EMPTY:.*]] = arith.cmpf oeq, %[[L]], %{{.*}}
// CHECK: %[[SHIFTED:.*]] = arith.subf %[[L]], %[[MAX]]
// CHECK: %[[EXP:.*]] = math.exp %[[SHIFTED]]
// CHECK: %[[WEIGHT:.*]] = arith.select %[[EMPTY]], %{{.*}}, %[[EXP]]
// CHECK: %[[RW:.*]] = linalg.generic {{.*}} ins(%[[RL]], %[[M]] :
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}} ins(%[[LW]], %[[RW]] :
// CHECK-COUNT-2: arith.addf
// CHECK: %[[LSE:.*]] = linalg.generic {{.*}} ins(%[[M]], %[[SUM]] :
// CHECK: math.log
// CHECK: arith.addf
// CHECK: %[[WEIGHTED:.*]] = linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%[[LO]], %[[RO]], %[[LL]], %[[RL]], %[[LW]], %[[RW]] :
// CHECK-NEXT: ^bb0(%[[L:.*]]: f32, %[[R:.*]]: f32, %[[L_LSE:.*]]: f32, %[[R_LSE:.*]]: f32, %[[L_WEIGHT:.*]]: f32, %[[R_WEIGHT:.*]]: f32, %{{.*}}: f32):
// CHECK: %[[EMPTY:.*]] = arith.cmpf oeq, %[[L_LSE]],
// CHECK: %[[PART:.*]] = arith.mulf %[[L_WEIGHT]], %[[L]]
// CHECK: %[[L_PART:.*]] = arith.select %[[EMPTY]], %{{.*}}, %[[PART]]
// CHECK: arith.addf %{{.*}}, %[[L_PART]]
// CHECK: %[[OUT:.*]] = linalg.generic {{.*}} ins(%[[WEIGHTED]], %[[M]], %[[SUM]] :
// CHECK-NEXT: ^bb0(%[[TOTAL:.*]]: f32, %[[MAX:.*]]: f32, %[[WEIGHTS:.*]]: f32, %{{.*}}: f32):
// CHECK: %[[NO_KEY:.*]] = arith.cmpf oeq, %[[MAX]],
// CHECK: %[[MEAN:.*]] = arith.divf %[[TOTAL]], %[[WEIGHTS]]
// CHECK: arith.select %[[NO_KEY]], %{{.*}}, %[[MEAN]]
// CHECK: return %[[OUT]], %[[LSE]]
func.func @merge(%lo: tensor<1x2x?x8xf32>, %ll: tensor<1x2x?xf32>, %ro: tensor<1x2x?x8xf32>, %rl: tensor<1x2x?xf32>)
    -> (tensor<1x2x?x8xf32>, tensor<1x2x?xf32>) {
  %out, %lse = attn.merge (%lo, %ll), (%ro, %rl) : tensor<1x2x?x8xf32>, tensor<1x2x?xf32> -> tensor<1x2x?x8xf32>, tensor<1x2x?xf32>
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
  %out, %lse = attn.merge (%lo, %ll), (%lo, %ll) : tensor<1x2x3x8xf16>, tensor<1x2x3xf32> -> tensor<1x2x3x8xf16>, tensor<1x2x3xf32>
  return %out : tensor<1x2x3x8xf16>
}

// CHECK-LABEL: func @double(
// CHECK: math.exp %{{.*}} : f64
// CHECK-NOT: f32
func.func @double(%lo: tensor<1x2x3x8xf64>, %ll: tensor<1x2x3xf64>) -> tensor<1x2x3x8xf64> {
  %out, %lse = attn.merge (%lo, %ll), (%lo, %ll) : tensor<1x2x3x8xf64>, tensor<1x2x3xf64> -> tensor<1x2x3x8xf64>, tensor<1x2x3xf64>
  return %out : tensor<1x2x3x8xf64>
}

// The parts of a stack, here of any number, are a reduction outside the loop over value_dim; one kernel does for all.
// CHECK-LABEL: func @stack(
// CHECK-SAME: %[[OUTS:.*]]: tensor<?x1x2x?x8xf32>, %[[LSES:.*]]: tensor<?x1x2x?xf32>)
// CHECK: %[[M:.*]] = linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%[[LSES]] :
// CHECK-NEXT: ^bb0(%[[LSE:.*]]: f32, %[[MAX:.*]]: f32):
// CHECK-NEXT: arith.maximumf %[[MAX]], %[[LSE]]
// CHECK: %[[WEIGHTS:.*]] = linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%[[LSES]], %[[M]] :
// CHECK: math.exp
// CHECK: -> tensor<?x1x2x?xf32>
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%[[WEIGHTS]] :
// CHECK: math.log
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "parallel", "reduction", "parallel"]} ins(%[[OUTS]], %[[LSES]], %[[WEIGHTS]] :
// CHECK-NOT: math.exp
// CHECK: arith.divf
// CHECK: arith.truncf %{{.*}} : f32 to bf16
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @stack(%outs: tensor<?x1x2x?x8xf32>, %lses: tensor<?x1x2x?xf32>) -> (tensor<1x2x?x8xbf16>, tensor<1x2x?xf32>) {
  %out, %lse = attn.merge (%outs, %lses) : tensor<?x1x2x?x8xf32>, tensor<?x1x2x?xf32> -> tensor<1x2x?x8xbf16>, tensor<1x2x?xf32>
  return %out, %lse : tensor<1x2x?x8xbf16>, tensor<1x2x?xf32>
}
