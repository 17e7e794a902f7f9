// RUN: attn-opt %s --attn-lower-online --canonicalize --cse | FileCheck %s
// RUN: attn-opt %s --attn-to-cpu-pipeline -o /dev/null

!q = tensor<1x4x?x4xf32>
!k = tensor<1x2x?x4xf32>
!l = tensor<1x4x?xf32>
#tile = #attn.schedule<block_m = 8, block_n = 8, vector_length = 4, register_rows = 2, register_vectors = 2>

//===----------------------------------------------------------------------===//
// dq
//===----------------------------------------------------------------------===//

// Work items are blocks of queries of the 4 query heads.
// CHECK-LABEL: func @dq(
// CHECK-SAME: %[[Q:.*]]: tensor<1x4x?x4xf32>, %[[K:.*]]: tensor<1x2x?x4xf32>, %[[LSE:.*]]: tensor<1x4x?xf32>, %[[DELTA:.*]]: tensor<1x4x?xf32>, %[[D_OUT:.*]]: tensor<1x4x?x4xf32>)
// CHECK: %[[Q_LEN:.*]] = tensor.dim %[[Q]], %c2
// CHECK: %[[KV_LEN:.*]] = tensor.dim %[[K]], %c2
// CHECK: %[[D_Q:.*]] = memref.alloc(%[[Q_LEN]]) : memref<1x4x?x4xf32>
// CHECK: %[[BLOCKS:.*]] = arith.ceildivsi %[[Q_LEN]], %c8
// CHECK: %[[ITEMS:.*]] = arith.muli %[[BLOCKS]], %c4
// CHECK: scf.forall (%{{.*}}) in (%[[ITEMS]]) {
// CHECK: %[[KV_HEAD:.*]] = arith.divsi %[[HEAD:.*]], %c2

// Lanes without a query have lse = -inf, and so contribute nothing.
// CHECK-DAG: %[[LSE_TILE:.*]] = memref.alloca() {{.*}} : memref<8xf32>
// CHECK: vector.store %[[MINUS_INFINITY:.*]], %{{.*}} : memref<8xf32>
// CHECK: tensor.extract %[[LSE]]
// CHECK: tensor.extract %[[DELTA]]

// Keys stream by: q k^T and d_out v^T, ...
// CHECK: scf.for %{{.*}} = %{{.*}} to %{{.*}} step %c8 {
// CHECK: vector.load {{.*}}[%{{.*}}, %[[KV_HEAD]],
// CHECK: scf.for %{{.*}} iter_args
// CHECK-COUNT-4: vector.fma
// CHECK: scf.for %{{.*}} iter_args
// CHECK-COUNT-4: vector.fma

// ... then d_x, with the mask where the block meets a masked range.
// CHECK: scf.if %{{.*}} {
// CHECK: %[[S:.*]] = arith.mulf %{{.*}} : vector<4xf32>
// CHECK: %[[NO_SCORE:.*]] = arith.cmpf oeq, %[[S]], %{{.*}}
// CHECK: %[[NO_KEY:.*]] = arith.cmpf oeq, %[[ROW_LSE:.*]], %{{.*}}
// CHECK: %[[DROPPED:.*]] = arith.ori %[[NO_SCORE]], %[[NO_KEY]]
// CHECK: %[[HAS_BOTH:.*]] = arith.xori %[[DROPPED]], %{{.*}}
// CHECK: %[[CAUSAL:.*]] = arith.cmpi sle, %{{.*}} : vector<4xi32>
// CHECK: %[[KEPT:.*]] = arith.andi %[[HAS_BOTH]], %[[CAUSAL]]
// CHECK: %[[SHIFTED:.*]] = arith.subf %[[S]], %[[ROW_LSE]]
// CHECK: %[[EXP:.*]] = math.exp %[[SHIFTED]]
// CHECK: %[[P:.*]] = arith.select %[[KEPT]], %[[EXP]], %{{.*}}
// CHECK: %[[D_P:.*]] = arith.subf %{{.*}}, %{{.*}}
// CHECK: %[[D_S:.*]] = arith.mulf %[[P]], %[[D_P]]
// CHECK: arith.select %[[KEPT]], %[[D_S]], %{{.*}}
// CHECK: } else {
// CHECK-NOT: arith.cmpi
// CHECK: math.exp
// CHECK-NOT: arith.cmpi

// dq += d_x k, scaled at the end, and stored by its one writer.
// CHECK: scf.for %{{.*}} iter_args
// CHECK-COUNT-4: vector.fma
// CHECK: arith.mulf
// CHECK: memref.store %{{.*}}, %[[D_Q]][
// CHECK-NOT: memref.atomic_rmw
// CHECK: return
func.func @dq(%q: !q, %k: !k, %lse: !l, %delta: !l, %d_out: !q) -> !q {
  %dq = attn.online_attention dq %q, %k, %k, %lse, %delta, %d_out schedule(#tile)
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %keep = arith.cmpi sle, %kv_idx, %q_idx : index
      attn.yield %keep : i1
    } ranges(%b: index, %h: index, %begin: index, %end: index) {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %first = arith.addi %begin, %c1 : index
      %kv_len = attn.kv_len %b
      attn.yield_ranges visited(%c0 to %end) masked(%first to %kv_len)
    } : (!q, !k, !k, !l, !l, !q) -> !q
  return %dq : !q
}

//===----------------------------------------------------------------------===//
// dkdv
//===----------------------------------------------------------------------===//

// Work items are blocks of keys of the 2 key heads; the 2 query heads of the group are added up inside, without atomics.
// CHECK-LABEL: func @dkdv(
// CHECK-SAME: %[[Q:.*]]: tensor<1x4x?x4xf32>, %[[K:.*]]: tensor<1x2x?x4xf32>, %[[LSE:.*]]: tensor<1x4x?xf32>, %[[DELTA:.*]]: tensor<1x4x?xf32>, %[[D_OUT:.*]]: tensor<1x4x?x4xf32>)
// CHECK: %[[Q_LEN:.*]] = tensor.dim %[[Q]], %c2
// CHECK: %[[KV_LEN:.*]] = tensor.dim %[[K]], %c2
// CHECK: %[[D_K:.*]] = memref.alloc(%[[KV_LEN]]) : memref<1x2x?x4xf32>
// CHECK: %[[D_V:.*]] = memref.alloc(%[[KV_LEN]]) : memref<1x2x?x4xf32>
// CHECK: %[[BLOCKS:.*]] = arith.ceildivsi %[[KV_LEN]], %c8
// CHECK: %[[ITEMS:.*]] = arith.muli %[[BLOCKS]], %c2
// CHECK: scf.forall (%{{.*}}) in (%[[ITEMS]]) {
// CHECK: %[[FIRST_HEAD:.*]] = arith.muli %{{.*}}, %c2
// CHECK: scf.for %[[I:.*]] = %c0 to %c2 step %c1 {
// CHECK: %[[HEAD:.*]] = arith.addi %[[FIRST_HEAD]], %[[I]]
// The ranges are over queries: from the first of the block on.
// CHECK: scf.for %{{.*}} = %{{.*}} to %{{.*}} step %c8 {
// CHECK-COUNT-4: vector.fma
// CHECK-COUNT-4: vector.fma
// The mask has one query and a vector of keys at a time.
// CHECK: scf.if %{{.*}} {
// CHECK: %[[KEYS:.*]] = arith.minsi %{{.*}} : vector<4xi32>
// CHECK: tensor.extract %[[LSE]][%{{.*}}, %[[HEAD]],
// CHECK: tensor.extract %[[DELTA]][%{{.*}}, %[[HEAD]],
// CHECK: arith.cmpi sle, %[[KEYS]], %{{.*}} : vector<4xi32>
// CHECK: } else {
// dv += p^T d_out, dk += d_x^T q.
// CHECK: iter_args
// CHECK-COUNT-4: vector.fma
// CHECK: iter_args
// CHECK-COUNT-4: vector.fma
// CHECK: memref.store %{{.*}}, %[[D_K]][
// CHECK: memref.store %{{.*}}, %[[D_V]][
// CHECK-NOT: memref.atomic_rmw
// CHECK: return
func.func @dkdv(%q: !q, %k: !k, %lse: !l, %delta: !l, %d_out: !q) -> (!k, !k) {
  %dk, %dv = attn.online_attention dkdv %q, %k, %k, %lse, %delta, %d_out schedule(#tile)
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %keep = arith.cmpi sle, %kv_idx, %q_idx : index
      attn.yield %keep : i1
    } ranges(%b: index, %h: index, %begin: index, %end: index) {
      %c0 = arith.constant 0 : index
      %q_len = attn.q_len %b
      attn.yield_ranges visited(%begin to %q_len) masked(%c0 to %end)
    } : (!q, !k, !k, !l, !l, !q) -> (!k, !k)
  return %dk, %dv : !k, !k
}

//===----------------------------------------------------------------------===//
// Gradients of captures
//===----------------------------------------------------------------------===//

// Gradients are buffers of zeros, in the compute type whatever the capture's. Here the index is known for the whole block: a
// vector of f64 collects the sum, which is added to memory once.
// CHECK-LABEL: func @block_sum(
// CHECK: %[[GRADIENT:.*]] = memref.alloc() : memref<4xf32>
// CHECK: linalg.fill ins(%{{.*}}) outs(%[[GRADIENT]] :
// CHECK: scf.forall
// CHECK: arith.remsi
// CHECK: %[[HEAD:.*]] = arith.remsi %{{.*}}, %c4
// CHECK: %[[TILE:.*]] = memref.alloca() {{.*}} : memref<4xf64>
// CHECK: vector.store %{{.*}}, %[[TILE]]
// CHECK: math.exp
// CHECK: %[[D:.*]] = arith.select
// CHECK-NOT: memref.atomic_rmw
// CHECK: %[[ADDED:.*]] = arith.extf %{{.*}} : vector<4xf32> to vector<4xf64>
// CHECK: %[[BEFORE:.*]] = vector.load %[[TILE]]
// CHECK: %[[AFTER:.*]] = arith.addf %[[BEFORE]], %[[ADDED]]
// CHECK: vector.store %[[AFTER]], %[[TILE]]
// CHECK-COUNT-4: vector.fma
// CHECK: %[[ALL:.*]] = vector.load %[[TILE]]
// CHECK: %[[WIDE:.*]] = vector.reduction <add>, %[[ALL]]
// CHECK: %[[SUM:.*]] = arith.truncf %[[WIDE]] : f64 to f32
// CHECK: %[[NON_ZERO:.*]] = arith.cmpf une, %[[SUM]],
// CHECK: scf.if %[[NON_ZERO]] {
// CHECK: memref.atomic_rmw addf %[[SUM]], %[[GRADIENT]][%[[HEAD]]]
// CHECK-NOT: memref.atomic_rmw
// CHECK: return
func.func @block_sum(%q: !q, %k: !k, %lse: !l, %delta: !l, %d_out: !q, %slopes: tensor<4xbf16>) -> tensor<4xf32> {
  %dq, %d_capture = attn.online_attention dq %q, %k, %k, %lse, %delta, %d_out captures(%slopes : tensor<4xbf16>) schedule(#tile)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %slope = tensor.extract %slopes[%h] : tensor<4xbf16>
      %wide = arith.extf %slope : bf16 to f32
      %y = arith.addf %s, %wide : f32
      attn.yield %y : f32
    } gradient(%d: f32, %s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      attn.accumulate_gradient %d, %slopes[%h] : f32, tensor<4xbf16>
      attn.yield %d : f32
    } : (!q, !k, !k, !l, !l, !q) -> (!q, tensor<4xf32>)
  return %d_capture : tensor<4xf32>
}

// The index is one for all queries of a vector: one atomic addition of their sum.
// CHECK-LABEL: func @uniform(
// CHECK: %[[GRADIENT:.*]] = memref.alloc(%{{.*}}) : memref<?xf32>
// CHECK: %[[SUM:.*]] = vector.reduction <add>
// CHECK: %[[NON_ZERO:.*]] = arith.cmpf une, %[[SUM]],
// CHECK: scf.if %[[NON_ZERO]] {
// CHECK: memref.atomic_rmw addf %[[SUM]], %[[GRADIENT]][%{{.*}}]
// CHECK-NOT: memref.atomic_rmw
// CHECK: return
func.func @uniform(%q: !q, %k: !k, %lse: !l, %delta: !l, %d_out: !q, %columns: tensor<?xf32>) -> tensor<?xf32> {
  %dq, %d_capture = attn.online_attention dq %q, %k, %k, %lse, %delta, %d_out captures(%columns : tensor<?xf32>) schedule(#tile)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %x = tensor.extract %columns[%kv_idx] : tensor<?xf32>
      %y = arith.addf %s, %x : f32
      attn.yield %y : f32
    } gradient(%d: f32, %s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      attn.accumulate_gradient %d, %columns[%kv_idx] : f32, tensor<?xf32>
      attn.yield %d : f32
    } : (!q, !k, !k, !l, !l, !q) -> (!q, tensor<?xf32>)
  return %d_capture : tensor<?xf32>
}

// The index differs from lane to lane: an atomic addition a lane. A lane that adds nothing (a dropped pair, whose index may
// be out of bounds) is left out.
// CHECK-LABEL: func @varying(
// CHECK: %[[GRADIENT:.*]] = memref.alloc(%{{.*}}, %{{.*}}) : memref<?x?xf32>
// CHECK: %[[KEPT_SUM:.*]] = arith.select %{{.*}} : vector<4xi1>, vector<4xf32>
// CHECK: scf.for %[[LANE:.*]] = %c0 to %c4 step %c1 {
// CHECK: %[[NARROW:.*]] = vector.extract %{{.*}}[%[[LANE]]] : i32 from vector<4xi32>
// CHECK: %[[ROW:.*]] = arith.index_cast %[[NARROW]] : i32 to index
// CHECK: %[[ELEMENT:.*]] = vector.extract %{{.*}}[%[[LANE]]] : f32 from vector<4xf32>
// CHECK: %[[NON_ZERO:.*]] = arith.cmpf une, %[[ELEMENT]],
// CHECK: scf.if %[[NON_ZERO]] {
// CHECK: memref.atomic_rmw addf %[[ELEMENT]], %[[GRADIENT]][%[[ROW]], %{{.*}}]
// CHECK-NOT: memref.atomic_rmw
// CHECK: return
func.func @varying(%q: !q, %k: !k, %lse: !l, %delta: !l, %d_out: !q, %bias: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %dq, %d_capture = attn.online_attention dq %q, %k, %k, %lse, %delta, %d_out captures(%bias : tensor<?x?xf32>) schedule(#tile)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %x = tensor.extract %bias[%q_idx, %kv_idx] : tensor<?x?xf32>
      %y = arith.addf %s, %x : f32
      attn.yield %y : f32
    } gradient(%d: f32, %s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      attn.accumulate_gradient %d, %bias[%q_idx, %kv_idx] : f32, tensor<?x?xf32>
      attn.yield %d : f32
    } : (!q, !k, !k, !l, !l, !q) -> (!q, tensor<?x?xf32>)
  return %d_capture : tensor<?x?xf32>
}

// Under a branch that lanes take differently only those that take it add.
// CHECK-LABEL: func @branch(
// CHECK: %[[TILE:.*]] = memref.alloca() {{.*}} : memref<4xf64>
// CHECK: %[[NEAR:.*]] = arith.cmpi slt, %{{.*}} : vector<4xi32>
// CHECK: arith.select %[[NEAR]], %{{.*}} : vector<4xi1>, vector<4xf32>
// CHECK: vector.reduction <add>
// CHECK: memref.atomic_rmw addf %{{.*}}, %{{.*}}[] : (f32, memref<f32>) -> f32
func.func @branch(%q: !q, %k: !k, %lse: !l, %delta: !l, %d_out: !q, %cap: f32) -> tensor<f32> {
  %dq, %d_capture = attn.online_attention dq %q, %k, %k, %lse, %delta, %d_out captures(%cap : f32) schedule(#tile)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %near = arith.cmpi slt, %kv_idx, %q_idx : index
      %x = arith.mulf %s, %cap : f32
      %y = arith.select %near, %x, %s : f32
      attn.yield %y : f32
    } gradient(%d: f32, %s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %near = arith.cmpi slt, %kv_idx, %q_idx : index
      %dx = scf.if %near -> f32 {
        %d_cap = arith.mulf %d, %s : f32
        attn.accumulate_gradient %d_cap, %cap[] : f32, f32
        %x = arith.mulf %d, %cap : f32
        scf.yield %x : f32
      } else {
        scf.yield %d : f32
      }
      attn.yield %dx : f32
    } : (!q, !k, !k, !l, !l, !q) -> (!q, tensor<f32>)
  return %d_capture : tensor<f32>
}

// A branch that all lanes take alike stays one; the addition stands in it.
// CHECK-LABEL: func @uniform_branch(
// CHECK: %[[CONDITION:.*]] = arith.cmpi eq, %{{.*}} : i32
// CHECK: scf.if %[[CONDITION]] {
// CHECK: %[[WIDE:.*]] = vector.reduction <add>, %{{.*}} : vector<4xf64>
// CHECK: %[[SUM:.*]] = arith.truncf %[[WIDE]]
// CHECK: arith.cmpf une, %[[SUM]],
// CHECK: memref.atomic_rmw addf %[[SUM]]
// CHECK-NOT: memref.atomic_rmw
// CHECK: return
func.func @uniform_branch(%q: !q, %k: !k, %lse: !l, %delta: !l, %d_out: !q, %cap: f32) -> tensor<f32> {
  %dq, %d_capture = attn.online_attention dq %q, %k, %k, %lse, %delta, %d_out captures(%cap : f32) schedule(#tile)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %sink = arith.cmpi eq, %kv_idx, %h : index
      %x = arith.addf %s, %cap : f32
      %y = arith.select %sink, %x, %s : f32
      attn.yield %y : f32
    } gradient(%d: f32, %s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %sink = arith.cmpi eq, %kv_idx, %h : index
      scf.if %sink {
        attn.accumulate_gradient %d, %cap[] : f32, f32
      }
      attn.yield %d : f32
    } : (!q, !k, !k, !l, !l, !q) -> (!q, tensor<f32>)
  return %d_capture : tensor<f32>
}

// dkdv would count twice.
// CHECK-LABEL: func @dkdv_captures(
// CHECK-NOT: memref.atomic_rmw
// CHECK: return
func.func @captures() {
  return
}

func.func @dkdv_captures(%q: !q, %k: !k, %lse: !l, %delta: !l, %d_out: !q, %cap: f32) -> !k {
  %dk, %dv = attn.online_attention dkdv %q, %k, %k, %lse, %delta, %d_out captures(%cap : f32) schedule(#tile)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %y = arith.addf %s, %cap : f32
      attn.yield %y : f32
    } gradient(%d: f32, %s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      attn.accumulate_gradient %d, %cap[] : f32, f32
      attn.yield %d : f32
    } : (!q, !k, !k, !l, !l, !q) -> (!k, !k)
  return %dk : !k
}
