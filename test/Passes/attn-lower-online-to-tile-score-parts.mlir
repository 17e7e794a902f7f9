// RUN: attn-opt %s --split-input-file --attn-set-target=arch=sm_90a --attn-plan --attn-lower-online-to-tile --canonicalize --attn-tile-hoist-invariants --cse | FileCheck %s
// RUN: attn-opt %s --split-input-file --attn-set-target=arch=sm_90a --attn-plan=exact-maximum=true --attn-lower-online-to-tile | FileCheck %s --check-prefix=EXACT
// RUN: attn-opt %s --split-input-file --attn-set-target=arch=sm_90a --attn-plan --attn-lower-online-to-tile --remark-policy=all "--remarks-filter=attn-(plan|lower-online-to-tile)" -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// REMARK: Remark="all but multiply-adds is computed of rows and blocks"

// What is known of a score in the full blocks of the hopper family, where the maximum is fixed: only what differs from
// pair to pair is computed of each, and the rest of a row, or of a row and a block. Elsewhere scores are computed whole.

!q = tensor<?x16x?x128xbf16>
!l = tensor<?x16x?xf32>

// ALiBi: the product of the slope and the number of the column, in the multiply-add that the scale has.
// CHECK-LABEL: gpu.func @alibi_forward(
// CHECK:      %[[SLOPE:.*]] = memref.load %{{.*}}[%{{.*}}] : memref<16xf32
// CHECK:      %[[EXPONENT_SLOPE:.*]] = arith.mulf %[[SLOPE]], %{{.*}} : f32
// The first block, the only one that is masked.
// CHECK:      attn_tile.row_reduce max
// CHECK:      %[[FIRST:.*]] = attn_tile.first_column %scores
// CHECK:      %[[KEY:.*]] = arith.addi %{{.*}}, %[[FIRST]]
// CHECK:      attn_tile.map ins(%row_max : {{.*}}) outs(%row_base :
// CHECK:        %[[ROW:.*]]: index, %[[MAX:.*]]: f32, %{{.*}}: f32):
// CHECK:        %[[DISTANCE:.*]] = arith.subi
// CHECK:        %[[F:.*]] = arith.sitofp %[[DISTANCE]]
// CHECK:        %[[BIAS:.*]] = arith.mulf %[[SLOPE]], %[[F]]
// CHECK:        %[[BASE:.*]] = arith.subf %[[BIAS]], %[[MAX]]
// CHECK:        arith.mulf %[[BASE]]
// CHECK:      attn_tile.map relative ins(%row_base : {{.*}}) outs(%scores :
// CHECK-NEXT: ^bb0(%{{.*}}: index, %[[COLUMN:.*]]: index, %[[B:.*]]: f32, %[[S:.*]]: f32):
// CHECK-NEXT:   %[[I:.*]] = arith.index_cast %[[COLUMN]] : index to i32
// CHECK-NEXT:   %[[C:.*]] = arith.sitofp %[[I]] : i32 to f32
// CHECK-NEXT:   %[[E:.*]] = math.fma %[[EXPONENT_SLOPE]], %[[C]], %[[B]]
// CHECK-NEXT:   %[[X:.*]] = math.fma %[[S]], %{{.*}}, %[[E]]
// CHECK-NEXT:   %[[P:.*]] = math.exp2 %[[X]]
// CHECK-NEXT:   attn_tile.yield %[[P]]
// CHECK-LABEL: gpu.func @alibi_forward_repair(
// CHECK-NOT:  relative

// EXACT-LABEL: gpu.func @alibi_forward(
// EXACT-NOT:  relative
func.func @alibi(%q: !q, %k: !q, %v: !q, %slopes: tensor<16xf32>) -> (!q, !l) {
  %out, %lse = attn.attention %q, %k, %v captures(%slopes : tensor<16xf32>)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %slope = tensor.extract %slopes[%h] : tensor<16xf32>
      %distance = arith.subi %kv_idx, %q_idx : index
      %i = arith.index_cast %distance : index to i32
      %f = arith.sitofp %i : i32 to f32
      %bias = arith.mulf %slope, %f : f32
      %r = arith.addf %s, %bias : f32
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

// Without a mask blocks come by ascending keys: the maximum of the first one is raised by what scores grow from there.
// -(q / 2 - (3 kv + 4)) / 8 has the slope 3 / 8.
// CHECK-LABEL: gpu.func @unmasked_forward(
// CHECK-DAG:  %[[NUMBER:.*]] = arith.constant 3.750000e-01 : f32
// CHECK-DAG:  %[[EXPONENT_SLOPE:.*]] = arith.constant 0.541010618 : f32
// CHECK:      attn_tile.row_reduce max %scores into %block_max
// CHECK:      attn_tile.map outs(%block_max :
// CHECK:        math.fma %[[NUMBER]], %
// CHECK:      attn_tile.map relative
// CHECK:        math.fma %[[EXPONENT_SLOPE]], %
func.func @unmasked(%q: !q, %k: !q, %v: !q) -> (!q, !l) {
  %out, %lse = attn.attention %q, %k, %v score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
    %three = arith.constant 3 : index
    %four = arith.constant 4 : index
    %half = arith.constant 0.5 : f32
    %eight = arith.constant 8.0 : f32
    %multiple = arith.muli %kv_idx, %three : index
    %more = arith.addi %multiple, %four : index
    %more_i = arith.index_cast %more : index to i32
    %more_f = arith.sitofp %more_i : i32 to f32
    %q_i = arith.index_cast %q_idx : index to i32
    %q_f = arith.sitofp %q_i : i32 to f32
    %query = arith.mulf %q_f, %half : f32
    %difference = arith.subf %query, %more_f : f32
    %part = arith.divf %difference, %eight : f32
    %negated = arith.negf %part : f32
    %r = arith.addf %negated, %s : f32
    attn.yield %r : f32
  } : (!q, !q, !q) -> (!q, !l)
  return %out, %lse : !q, !l
}

// -----

!q = tensor<?x16x?x128xbf16>
!l = tensor<?x16x?xf32>

// What is of the query costs nothing, a factor included: (s * a[q] + c[h]) * b[q] + d[q].
// CHECK-LABEL: gpu.func @rows_forward(
// CHECK:      attn_tile.map outs(%row_factor :
// CHECK:      attn_tile.map ins(%row_max : {{.*}}) outs(%row_base :
// CHECK:      scf.while
// CHECK:        attn_tile.mma_wait pending(1) %scores
// CHECK-NEXT:   attn_tile.pipeline_release %keys
// CHECK-NEXT:   attn_tile.map ins(%row_base, %row_factor : {{.*}}) outs(%scores :
// CHECK-NEXT:   ^bb0(%{{.*}}: index, %{{.*}}: index, %[[B:.*]]: f32, %[[F:.*]]: f32, %[[S:.*]]: f32):
// CHECK-NEXT:     %[[X:.*]] = math.fma %[[S]], %[[F]], %[[B]]
// CHECK-NEXT:     math.exp2 %[[X]]
// CHECK-NEXT:     attn_tile.yield
// CHECK-LABEL: gpu.func @rows_forward_repair(
func.func @rows(%q: !q, %k: !q, %v: !q, %a: tensor<?xf32>, %factors: tensor<?xf32>, %c: tensor<16xf32>, %d: tensor<?xf32>) -> (!q, !l) {
  %out, %lse = attn.attention %q, %k, %v captures(%a : tensor<?xf32>, %factors : tensor<?xf32>, %c : tensor<16xf32>, %d : tensor<?xf32>)
    score(%s: f32, %batch: index, %h: index, %q_idx: index, %kv_idx: index) {
      %a_q = tensor.extract %a[%q_idx] : tensor<?xf32>
      %b_q = tensor.extract %factors[%q_idx] : tensor<?xf32>
      %c_h = tensor.extract %c[%h] : tensor<16xf32>
      %d_q = tensor.extract %d[%q_idx] : tensor<?xf32>
      %x = math.fma %s, %a_q, %c_h : f32
      %r = math.fma %x, %b_q, %d_q : f32
      attn.yield %r : f32
    } : (!q, !q, !q) -> (!q, !l)
  return %out, %lse : !q, !l
}

// -----

!q = tensor<?x16x?x128xbf16>
!l = tensor<?x16x?xf32>

// REMARK: Remark="some terms are computed of rows and blocks, not of pairs"
// Of a score that is nothing of that kind, the rest is: cos(s) + 2 (kv - q) is a cosine a pair.
// CHECK-LABEL: gpu.func @composed_forward(
// CHECK:      attn_tile.map relative ins(%row_base :
// CHECK:        %[[E:.*]] = math.fma %{{.*}}, %{{.*}}, %
// CHECK:        %[[COSINE:.*]] = math.cos
// CHECK-NEXT:   %[[X:.*]] = math.fma %[[COSINE]], %{{.*}}, %[[E]]
// CHECK-NEXT:   math.exp2 %[[X]]
func.func @composed(%q: !q, %k: !q, %v: !q) -> (!q, !l) {
  %out, %lse = attn.attention %q, %k, %v score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
    %two = arith.constant 2.0 : f32
    %distance = arith.subi %kv_idx, %q_idx : index
    %i = arith.index_cast %distance : index to i32
    %f = arith.sitofp %i : i32 to f32
    %cosine = math.cos %s : f32
    %r = math.fma %f, %two, %cosine : f32
    attn.yield %r : f32
  } : (!q, !q, !q) -> (!q, !l)
  return %out, %lse : !q, !l
}

// -----

!q = tensor<?x16x?x128xbf16>
!l = tensor<?x16x?xf32>

// REMARK: [Missed] schedule | {{.*}}Reason="scores may grow from key to key", Remark="the maximum is exact, not fixed"
// A sum that may not fit 32 bits wraps around: not affine. A score that may grow from key to key in such a way has an exact
// maximum.
// CHECK-LABEL: gpu.func @wraps_forward(
// CHECK-NOT:  relative
// CHECK-COUNT-2: attn_tile.row_reduce max
// CHECK-LABEL: gpu.func @wraps_forward_repair(
func.func @wraps(%q: !q, %k: !q, %v: !q) -> (!q, !l) {
  %out, %lse = attn.attention %q, %k, %v score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
    %prime = arith.constant 40503 : index
    %hash = arith.muli %kv_idx, %prime : index
    %i = arith.index_cast %hash : index to i32
    %f = arith.sitofp %i : i32 to f32
    %r = arith.addf %s, %f : f32
    attn.yield %r : f32
  } : (!q, !q, !q) -> (!q, !l)
  return %out, %lse : !q, !l
}

// -----

!q = tensor<?x16x?x128xbf16>
!l = tensor<?x16x?xf32>

// So do integers of fewer bits, at any length.
// CHECK-LABEL: gpu.func @narrow_forward(
// CHECK-NOT:  relative
// CHECK-COUNT-2: attn_tile.row_reduce max
// CHECK-LABEL: gpu.func @narrow_forward_repair(
func.func @narrow(%q: !q, %k: !q, %v: !q) -> (!q, !l) {
  %out, %lse = attn.attention %q, %k, %v score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
    %distance = arith.subi %kv_idx, %q_idx : index
    %i = arith.index_cast %distance : index to i16
    %f = arith.sitofp %i : i16 to f32
    %r = arith.addf %s, %f : f32
    attn.yield %r : f32
  } : (!q, !q, !q) -> (!q, !l)
  return %out, %lse : !q, !l
}

// -----

!q = tensor<?x16x?x128xbf16>
!l = tensor<?x16x?xf32>

// A key's number in the region of an operation counts, too.
// CHECK-LABEL: gpu.func @nested_forward(
// CHECK-COUNT-2: attn_tile.row_reduce max
// CHECK-LABEL: gpu.func @nested_forward_repair(
func.func @nested(%q: !q, %k: !q, %v: !q) -> (!q, !l) {
  %out, %lse = attn.attention %q, %k, %v score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
    %zero = arith.constant 0.0 : f32
    %c0 = arith.constant 0 : index
    %is_first = arith.cmpi eq, %h, %c0 : index
    %bias = scf.if %is_first -> f32 {
      %i = arith.index_cast %kv_idx : index to i32
      %f = arith.sitofp %i : i32 to f32
      scf.yield %f : f32
    } else {
      scf.yield %zero : f32
    }
    %r = arith.addf %s, %bias : f32
    attn.yield %r : f32
  } : (!q, !q, !q) -> (!q, !l)
  return %out, %lse : !q, !l
}
