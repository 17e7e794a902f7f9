// RUN: attn-opt %s --attn-decompose-reference=chunk-rows=16 --split-input-file | FileCheck %s
// RUN: attn-opt %s --attn-decompose-reference=compute-type=f64 --canonicalize --split-input-file | FileCheck %s --check-prefix=F64
// RUN: attn-opt %s --attn-decompose-reference="compute-type=f64 f64-boundary suffix=_exact" --canonicalize --split-input-file | FileCheck %s --check-prefix=BOUNDARY
// RUN: attn-opt %s --attn-decompose-reference=round-intermediates --canonicalize --split-input-file | FileCheck %s --check-prefix=ROUND

// CHECK-DAG:   #[[QUERY:.*]] = affine_map<(d0, d1, d2) -> (d0, d2)>
// CHECK-DAG:   #[[KEY:.*]] = affine_map<(d0, d1, d2) -> (d1, d2)>
// CHECK-DAG:   #[[SCORE:.*]] = affine_map<(d0, d1, d2) -> (d0, d1)>
// CHECK-DAG:   #[[TILE:.*]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-DAG:   #[[ROW:.*]] = affine_map<(d0, d1) -> (d0)>

// Loops over batch, heads and chunks of rows; four query heads read a key head.
// CHECK-LABEL: func.func @forward(
// CHECK-SAME:    %[[Q:.*]]: tensor<?x8x?x4xf32>, %[[K:.*]]: tensor<?x2x?x4xf32>, %[[V:.*]]: tensor<?x2x?x6xf32>, %[[SLOPES:.*]]: tensor<?xbf16>)
// CHECK-DAG:     %[[Q_LEN:.*]] = tensor.dim %[[Q]], %c2
// CHECK-DAG:     %[[KV_LEN:.*]] = tensor.dim %[[K]], %c2
// CHECK:         scf.for %[[B:[^ ]*]] =
// CHECK:           scf.for %[[H:[^ ]*]] =
// CHECK:             %[[GROUP:.*]] = arith.divui %c8{{.*}}, %c2{{.*}} : index
// CHECK:             %[[KEY_HEAD:.*]] = arith.divui %[[H]], %[[GROUP]] : index
// CHECK:             scf.for %[[BEGIN:[^ ]*]] = %{{.*}} to %[[Q_LEN]] step %c16
// CHECK:               %[[LEFT:.*]] = arith.subi %[[Q_LEN]], %[[BEGIN]] : index
// CHECK:               %[[ROWS:.*]] = arith.minui %c16{{.*}}, %[[LEFT]] : index
// CHECK:               tensor.extract_slice %[[Q]][%[[B]], %[[H]], %[[BEGIN]], 0] [1, 1, %[[ROWS]], 4]
// CHECK:               tensor.extract_slice %[[K]][%[[B]], %[[KEY_HEAD]], 0, 0] [1, 1, %{{.*}}, 4]
// CHECK:               linalg.generic {indexing_maps = [#[[QUERY]], #[[KEY]], #[[SCORE]]], iterator_types = ["parallel", "parallel", "reduction"]}
// CHECK:                 arith.mulf
// CHECK:                 arith.addf
// CHECK:               %[[SCALED:.*]] = linalg.generic {indexing_maps = [#[[TILE]], #[[TILE]]], iterator_types = ["parallel", "parallel"]}
// CHECK:                 arith.mulf
// The score runs only where the mask keeps the pair.
// CHECK:               %[[S:.*]] = linalg.generic {indexing_maps = [#[[TILE]], #[[TILE]]], iterator_types = ["parallel", "parallel"]} ins(%[[SCALED]]
// CHECK:               ^bb0(%[[X:.*]]: f32, %{{.*}}: f32):
// CHECK:                 %[[I:.*]] = linalg.index 0
// CHECK:                 %[[QI:.*]] = arith.addi %[[BEGIN]], %[[I]] : index
// CHECK:                 %[[J:.*]] = linalg.index 1
// Indices have 32 bits.
// CHECK-DAG:             %[[QI32:.*]] = arith.index_cast %[[QI]] : index to i32
// CHECK-DAG:             %[[J32:.*]] = arith.index_cast %[[J]] : index to i32
// CHECK:                 %[[KEEP:.*]] = arith.cmpi sle, %[[J32]], %[[QI32]] : i32
// CHECK:                 %[[SCORED:.*]] = scf.if %[[KEEP]] -> (f32) {
// CHECK:                   %[[SLOPE:.*]] = tensor.extract %[[SLOPES]][%[[H]]] : tensor<?xbf16>
// CHECK:                   arith.extf %[[SLOPE]] : bf16 to f32
// CHECK:                   %[[KV_LEN32:.*]] = arith.index_cast %[[KV_LEN]] : index to i32
// CHECK:                   arith.subi %[[KV_LEN32]], %{{.*}} : i32
// CHECK:                   arith.constant 1.000000e-01 : f32
// CHECK:                 } else {
// CHECK:                   %[[INF:.*]] = arith.constant 0xFF800000 : f32
// CHECK:                   scf.yield %[[INF]] : f32
// CHECK:                 linalg.yield %[[SCORED]] : f32
// Maximum, exponentials, sum, quotients.
// CHECK:               linalg.generic {indexing_maps = [#[[TILE]], #[[ROW]]], iterator_types = ["parallel", "reduction"]} ins(%[[S]]
// CHECK:                 arith.maximumf
// CHECK:               linalg.generic {indexing_maps = [#[[TILE]], #[[ROW]], #[[TILE]]]
// CHECK:                 %[[DROPPED:.*]] = arith.cmpf oeq
// CHECK:                 math.exp
// CHECK:                 arith.select %[[DROPPED]]
// CHECK:               linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]
// CHECK:                 arith.addf
// CHECK:               linalg.generic
// CHECK:                 arith.divf
// A dropped pair adds 0 whatever the value holds.
// CHECK:               linalg.generic {{.*}} iterator_types = ["parallel", "reduction", "parallel"]
// CHECK:                 %[[PV:.*]] = arith.mulf
// CHECK:                 arith.select %{{.*}}, %{{.*}}, %[[PV]] : f32
// CHECK:               math.log

// The region is in f64; its constant is the f32 number, not the decimal one. The result is f32.
// F64-LABEL:   func.func @forward(
// F64-SAME:      tensor<?x8x?x4xf32>
// F64-DAG:       arith.constant 0.10000000149011612 : f64
// F64-NOT:       arith.mulf {{.*}} : f32
// F64:           arith.extf %{{.*}} : bf16 to f64
// F64:           arith.sitofp %{{.*}} : i32 to f64
// F64:           arith.truncf %{{.*}} : f64 to f32
// F64:           return %{{.*}}, %{{.*}} : tensor<?x8x?x6xf32>, tensor<?x8x?xf32>

// The function is kept and its reference stands behind it; a bf16 capture is read as bf16 still.
// BOUNDARY-LABEL: func.func @forward(
// BOUNDARY:       attn.attention
// BOUNDARY-LABEL: func.func @forward_exact(
// BOUNDARY-SAME:    tensor<?x8x?x4xf64>, %{{.*}}: tensor<?x2x?x4xf64>, %{{.*}}: tensor<?x2x?x6xf64>, %[[SLOPES:.*]]: tensor<?xf64>) -> (tensor<?x8x?x6xf64>, tensor<?x8x?xf64>)
// BOUNDARY-NOT:     unrealized
// BOUNDARY:         %[[SLOPE:.*]] = tensor.extract %[[SLOPES]]
// BOUNDARY-NEXT:    %[[F32:.*]] = arith.truncf %[[SLOPE]] : f64 to f32
// BOUNDARY-NEXT:    %[[BF16:.*]] = arith.truncf %[[F32]] : f32 to bf16
// BOUNDARY-NEXT:    arith.extf %[[BF16]] : bf16 to f64
// BOUNDARY-NOT:     arith.truncf
// BOUNDARY:         return %{{.*}}, %{{.*}} : tensor<?x8x?x6xf64>, tensor<?x8x?xf64>

// f32 tensors have nothing to round.
// ROUND-LABEL: func.func @forward(
// ROUND-NOT:     arith.truncf
// ROUND:         return
func.func @forward(%q: tensor<?x8x?x4xf32>, %k: tensor<?x2x?x4xf32>, %v: tensor<?x2x?x6xf32>, %slopes: tensor<?xbf16>)
    -> (tensor<?x8x?x6xf32>, tensor<?x8x?xf32>) {
  %out, %lse = attn.attention %q, %k, %v captures(%slopes : tensor<?xbf16>)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %slope = tensor.extract %slopes[%h] : tensor<?xbf16>
      %slope32 = arith.extf %slope : bf16 to f32
      %n = attn.kv_len %b
      %d = arith.subi %n, %kv_idx : index
      %i = arith.index_cast %d : index to i32
      %f = arith.sitofp %i : i32 to f32
      %bias = arith.mulf %slope32, %f fastmath<fast> : f32
      %c = arith.constant 0.1 : f32
      %x = arith.addf %bias, %c : f32
      %r = arith.addf %s, %x : f32
      attn.yield %r : f32
    } mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %keep = arith.cmpi sle, %kv_idx, %q_idx : index
      attn.yield %keep : i1
    } : (tensor<?x8x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x6xf32>) -> (tensor<?x8x?x6xf32>, tensor<?x8x?xf32>)
  return %out, %lse : tensor<?x8x?x6xf32>, tensor<?x8x?xf32>
}

// -----

// The gradient runs pair by pair, under the condition that the pair has a weight; the gradient of the capture goes through
// the branch that adds to it.
// CHECK-LABEL: func.func @backward(
// CHECK-SAME:    %{{.*}}: tensor<?xf16>, %[[G:.*]]: f16)
// CHECK-DAG:     linalg.fill {{.*}} -> tensor<?xf32>
// CHECK-DAG:     linalg.fill {{.*}} -> tensor<f32>
// CHECK:         scf.for
// CHECK:           scf.for
// CHECK:             scf.for
// CHECK:               %[[PAIRS:.*]]:3 = scf.for %[[I:[^ ]*]] = {{.*}} -> (tensor<?x?xf32>, tensor<?xf32>, tensor<f32>) {
// CHECK:                 scf.for %[[J:[^ ]*]] = {{.*}} iter_args(%[[DX:.*]] = %{{.*}}, %[[DT:.*]] = %{{.*}}, %[[DG:.*]] = %{{.*}}) -> (tensor<?x?xf32>, tensor<?xf32>, tensor<f32>) {
// CHECK:                   %[[DROPPED:.*]] = arith.cmpf oeq
// CHECK:                   %[[PAIR:.*]]:3 = scf.if %[[DROPPED]] -> (f32, tensor<?xf32>, tensor<f32>) {
// CHECK:                     scf.yield %{{.*}}, %[[DT]], %[[DG]]
// CHECK:                   } else {
// CHECK:                     %[[NEAR:.*]] = arith.cmpi slt
// CHECK:                     %[[IF:.*]]:2 = scf.if %[[NEAR]] -> (tensor<?xf32>, tensor<f32>) {
// CHECK:                       %[[OLD:.*]] = tensor.extract %[[DT]][%[[J]]] : tensor<?xf32>
// CHECK:                       %[[NEW:.*]] = arith.addf %[[OLD]], %{{.*}} : f32
// CHECK:                       %[[DT1:.*]] = tensor.insert %[[NEW]] into %[[DT]][%[[J]]] : tensor<?xf32>
// CHECK:                       scf.yield %[[DT1]], %[[DG]] : tensor<?xf32>, tensor<f32>
// CHECK:                     } else {
// CHECK:                       scf.yield %[[DT]], %[[DG]] : tensor<?xf32>, tensor<f32>
// CHECK:                     }
// CHECK:                     tensor.extract %[[IF]]#1[] : tensor<f32>
// CHECK:                     tensor.insert %{{.*}} into %[[IF]]#1[] : tensor<f32>
// CHECK:                   tensor.insert %[[PAIR]]#0 into %[[DX]][%[[I]], %[[J]]] : tensor<?x?xf32>
// CHECK:         return {{.*}} : tensor<1x1x?x4xf16>, tensor<1x1x?x4xf16>, tensor<1x1x?x4xf16>, tensor<?xf32>, tensor<f32>

// F64-LABEL:   func.func @backward(
// F64:           return {{.*}} : tensor<1x1x?x4xf16>, tensor<1x1x?x4xf16>, tensor<1x1x?x4xf16>, tensor<?xf32>, tensor<f32>
// BOUNDARY-LABEL: func.func @backward_exact(
// BOUNDARY-SAME:    tensor<?xf64>, %{{.*}}: f64) -> (tensor<1x1x?x4xf64>, tensor<1x1x?x4xf64>, tensor<1x1x?x4xf64>, tensor<?xf64>, tensor<f64>)

// The standard computation rounds the product, p, the gradient of p, and that of the scaled product.
// ROUND-LABEL: func.func @backward(
// ROUND-COUNT-4: arith.truncf %{{.*}} : f32 to f16
// ROUND:         return
func.func @backward(%q: tensor<1x1x?x4xf16>, %out: tensor<1x1x?x4xf16>, %lse: tensor<1x1x?xf32>, %d_out: tensor<1x1x?x4xf16>,
                    %d_lse: tensor<1x1x?xf32>, %t: tensor<?xf16>, %g: f16)
    -> (tensor<1x1x?x4xf16>, tensor<1x1x?x4xf16>, tensor<1x1x?x4xf16>, tensor<?xf32>, tensor<f32>) {
  %dq, %dk, %dv, %dt, %dg = attn.attention_backward %q, %q, %q, %out, %lse, %d_out, %d_lse captures(%t : tensor<?xf16>, %g : f16)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      attn.yield %s : f32
    } gradient(%d: f32, %s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %near = arith.cmpi slt, %kv_idx, %q_idx : index
      scf.if %near {
        attn.accumulate_gradient %d, %t[%kv_idx] : f32, tensor<?xf16>
      }
      attn.accumulate_gradient %s, %g[] : f32, f16
      attn.yield %d : f32
    } : (tensor<1x1x?x4xf16>, tensor<1x1x?x4xf16>, tensor<1x1x?x4xf16>, tensor<1x1x?x4xf16>, tensor<1x1x?xf32>,
         tensor<1x1x?x4xf16>, tensor<1x1x?xf32>) -> (tensor<1x1x?x4xf16>, tensor<1x1x?x4xf16>, tensor<1x1x?x4xf16>, tensor<?xf32>, tensor<f32>)
  return %dq, %dk, %dv, %dt, %dg : tensor<1x1x?x4xf16>, tensor<1x1x?x4xf16>, tensor<1x1x?x4xf16>, tensor<?xf32>, tensor<f32>
}

// -----

// CHECK-LABEL: func.func @merge(
// CHECK:         linalg.generic
// CHECK:           arith.maximumf
// CHECK:           math.log
// CHECK:         linalg.generic
// CHECK-COUNT-2:   arith.select
// CHECK:           arith.addf
// CHECK:         arith.truncf %{{.*}} : f32 to bf16

// Between two operations nothing is rounded at an f64 boundary.
// BOUNDARY-LABEL: func.func @merge_exact(
// BOUNDARY-SAME:    tensor<1x1x?x4xf64>, %{{.*}}: tensor<1x1x?xf64>
// BOUNDARY-NOT:     truncf
// BOUNDARY:         return {{.*}} : tensor<1x1x?x4xf64>, tensor<1x1x?xf64>
func.func @merge(%a: tensor<1x1x?x4xbf16>, %la: tensor<1x1x?xf32>, %b: tensor<1x1x?x4xbf16>, %lb: tensor<1x1x?xf32>)
    -> (tensor<1x1x?x4xbf16>, tensor<1x1x?xf32>) {
  %o, %l = attn.merge (%a, %la), (%b, %lb) : tensor<1x1x?x4xbf16>, tensor<1x1x?xf32> -> tensor<1x1x?x4xbf16>, tensor<1x1x?xf32>
  %out, %lse = attn.merge (%o, %l), (%b, %lb) : tensor<1x1x?x4xbf16>, tensor<1x1x?xf32> -> tensor<1x1x?x4xbf16>, tensor<1x1x?xf32>
  return %out, %lse : tensor<1x1x?x4xbf16>, tensor<1x1x?xf32>
}

// -----

// What stands between attention operations keeps its type at an f64 boundary.
// BOUNDARY-LABEL: func.func @between_exact(
// BOUNDARY-SAME:    %[[X:.*]]: tensor<1x1x4x4xf64>) -> tensor<4x4xf64>
// BOUNDARY:         arith.truncf {{.*}} : f64 to f32
// BOUNDARY:         arith.truncf {{.*}} : f32 to bf16
// BOUNDARY:         %[[NARROW:.*]] = tensor.collapse_shape {{.*}} : tensor<1x1x4x4xbf16> into tensor<4x4xbf16>
// BOUNDARY:         arith.extf
// BOUNDARY:         return {{.*}} : tensor<4x4xf64>
func.func @between(%x: tensor<1x1x4x4xbf16>) -> tensor<4x4xbf16> {
  %out, %lse = attn.attention %x, %x, %x : (tensor<1x1x4x4xbf16>, tensor<1x1x4x4xbf16>, tensor<1x1x4x4xbf16>) -> (tensor<1x1x?x4xbf16>, tensor<1x1x4xf32>)
  %c = tensor.cast %out : tensor<1x1x?x4xbf16> to tensor<1x1x4x4xbf16>
  %r = tensor.collapse_shape %c [[0, 1, 2], [3]] : tensor<1x1x4x4xbf16> into tensor<4x4xbf16>
  return %r : tensor<4x4xbf16>
}

// -----

// A key length of 0 that the type tells: no slice of the keys is taken, of which none is valid.
// CHECK-LABEL: func.func @no_keys(
// CHECK-NOT:     tensor.extract_slice {{.*}} tensor<1x1x0x4xf32>
// CHECK:         return
func.func @no_keys(%q: tensor<1x1x?x4xf32>, %k: tensor<1x1x0x4xf32>) -> tensor<1x1x?x4xf32> {
  %out, %lse = attn.attention %q, %k, %k
    : (tensor<1x1x?x4xf32>, tensor<1x1x0x4xf32>, tensor<1x1x0x4xf32>) -> (tensor<1x1x?x4xf32>, tensor<1x1x?xf32>)
  return %out : tensor<1x1x?x4xf32>
}
