// RUN: attn-opt %s --split-input-file --attn-set-target=arch=sm_90a --attn-plan --attn-lower-online-to-tile --canonicalize | FileCheck %s
// RUN: attn-opt %s --split-input-file --attn-set-target=arch=sm_90a --attn-plan=exact-maximum=true --attn-lower-online-to-tile --canonicalize | FileCheck %s --check-prefix=EXACT
// RUN: attn-opt %s --split-input-file --attn-set-target=arch=sm_90a --attn-plan --attn-lower-online-to-tile --remark-policy=all --remarks-filter=attn-lower-online-to-tile -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// The soft cap of the hopper family: a polynomial in full blocks, and the sum of a row tells where a score was out of its range.

!q = tensor<?x16x?x128xbf16>
!l = tensor<?x16x?xf32>

// REMARK: remark: [Passed] score | Category:attn-lower-online-to-tile | Function=forward | Remark="tanh is a polynomial, and computed again by the hardware's where scores are not in its range"

// A row is wrong where its sum is not below 2^(20 log2(e) 0.6642), or less than 2^9 times the inverse of that for each key.
// CHECK-LABEL: gpu.func @capped_forward(
// CHECK-DAG:  %[[LEAST:.*]] = arith.constant 8.70504{{[0-9]*}}E-4 : f32
// CHECK-DAG:  %[[MOST:.*]] = arith.constant 588164.9{{[0-9]*}} : f32
// The first block, with the same polynomial: there is no tanh.
// CHECK:      attn_tile.mma_wait pending(0) %scores
// CHECK-NOT:  scf.if
// CHECK-NOT:  math.tanh
// CHECK:        %[[FIRST:.*]] = arith.mulf %[[S:.*]], %[[S]] : f32
// CHECK-NOT:  row_reduce max
// Full ones, without a branch.
// CHECK:      scf.while
// CHECK:        attn_tile.mma_wait pending(1) %scores
// CHECK-NEXT:   attn_tile.pipeline_release %keys
// CHECK-NEXT:   attn_tile.map outs(%scores :
// CHECK-NEXT:   ^bb0(%{{.*}}: index, %{{.*}}: index, %[[S:.*]]: f32):
// CHECK-NEXT:     %[[U:.*]] = arith.mulf %[[S]], %[[S]] : f32
// CHECK-NEXT:     %[[X:.*]] = math.fma %[[U]], %{{.*}}, %
// CHECK-NEXT:     %[[Y:.*]] = math.fma %[[X]], %[[X]], %
// CHECK-NEXT:     %[[T:.*]] = arith.mulf %[[S]], %[[Y]] : f32
// CHECK-NEXT:     attn_tile.yield %[[T]]
// CHECK:        math.exp2
// CHECK:        attn_tile.row_reduce add %scores into %block_sum partial interleaved
// CHECK:        attn_tile.mma_wait pending(0) %output, %probabilities
// CHECK:        scf.yield
// CHECK:      attn_tile.any ins(%row_check, %row_sum :
// CHECK:        arith.cmpf uge, %{{.*}}, %[[MOST]]
// CHECK:        %[[BOUND:.*]] = arith.mulf %{{.*}}, %[[LEAST]]
// CHECK:        arith.cmpf olt, %{{.*}}, %[[BOUND]]
// CHECK:      memref.store
// CHECK-LABEL: gpu.func @capped_forward_repair(
// CHECK-COUNT-2: math.tanh
// CHECK:      gpu.return

// Otherwise each block looks whether its scores are small.
// EXACT-LABEL: gpu.func @capped_forward(
// EXACT-COUNT-2: attn_tile.any ins(%scores
// EXACT-NOT:  _repair
func.func @capped(%q: !q, %k: !q, %v: !q) -> (!q, !l) {
  %out, %lse = attn.attention %q, %k, %v score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
    %cap = arith.constant 20.0 : f32
    %x = arith.divf %s, %cap : f32
    %t = math.tanh %x fastmath<afn> : f32
    %r = arith.mulf %t, %cap : f32
    attn.yield %r : f32
  } : (!q, !q, !q) -> (!q, !l)
  return %out, %lse : !q, !l
}

// -----

!q = tensor<?x16x?x128xbf16>
!l = tensor<?x16x?xf32>

// Under a mask lse tells, and the portable family repairs. The keys of a row are those of the blocks that its tile visits. The masked
// block, the first one, takes tanh itself.
// EXACT-LABEL: func @causal(
// CHECK-LABEL: gpu.func @causal_forward(
// CHECK:      math.tanh
// CHECK-NOT:  math.tanh
// CHECK-NOT:  interleaved
// CHECK:      attn_tile.map ins(%row_check, %row_sum :
// CHECK:        arith.cmpf olt
// CHECK-LABEL: gpu.func @causal_forward_repair(
// CHECK-SAME: warps = 8
func.func @causal(%q: !q, %k: !q, %v: !q) -> (!q, !l) {
  %out, %lse = attn.attention %q, %k, %v score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
    %cap = arith.constant 20.0 : f32
    %x = arith.divf %s, %cap : f32
    %t = math.tanh %x fastmath<afn> : f32
    %r = arith.mulf %t, %cap : f32
    attn.yield %r : f32
  } mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
    %keep = arith.cmpi sle, %kv_idx, %q_idx : index
    attn.yield %keep : i1
  } : (!q, !q, !q) -> (!q, !l)
  return %out, %lse : !q, !l
}

// -----

!q = tensor<?x16x?x128xbf16>
!l = tensor<?x16x?xf32>

// The sums of ordinary rows would not tell of so small a cap.
// CHECK-LABEL: gpu.func @small_forward(
// CHECK-COUNT-2: attn_tile.any ins(%scores
// CHECK-NOT:  _repair
func.func @small(%q: !q, %k: !q, %v: !q) -> (!q, !l) {
  %out, %lse = attn.attention %q, %k, %v score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
    %cap = arith.constant 5.0 : f32
    %x = arith.divf %s, %cap : f32
    %t = math.tanh %x fastmath<afn> : f32
    %r = arith.mulf %t, %cap : f32
    attn.yield %r : f32
  } : (!q, !q, !q) -> (!q, !l)
  return %out, %lse : !q, !l
}

// -----

!q = tensor<?x16x?x128xbf16>
!l = tensor<?x16x?xf32>

// A falling tanh: the square is subtracted from a constant below 0.
// CHECK-LABEL: func.func @falling(
// CHECK-LABEL: gpu.func @falling_forward(
// CHECK:      %[[LAST:.*]] = arith.constant -0.0915884
// CHECK:      %[[U:.*]] = arith.mulf %[[S:.*]], %[[S]] : f32
// CHECK:      %[[X:.*]] = math.fma %[[U]], %{{.*}}, %
// CHECK:      %[[MINUS:.*]] = arith.negf %[[X]] : f32
// CHECK:      %[[Y:.*]] = math.fma %[[MINUS]], %[[X]], %[[LAST]]
// CHECK:      arith.mulf %[[S]], %[[Y]] : f32
func.func @falling(%q: !q, %k: !q, %v: !q) -> (!q, !l) {
  %out, %lse = attn.attention %q, %k, %v score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
    %cap = arith.constant 20.0 : f32
    %negative = arith.constant -20.0 : f32
    %x = arith.divf %s, %negative : f32
    %t = math.tanh %x fastmath<afn> : f32
    %r = arith.mulf %t, %cap : f32
    attn.yield %r : f32
  } : (!q, !q, !q) -> (!q, !l)
  return %out, %lse : !q, !l
}
