// RUN: attn-opt %s --split-input-file --attn-lower-online-to-tile | FileCheck %s

// Forward without a mask: the scale is folded into the exponent, only the last block of keys is masked.
!q = tensor<?x16x?x64xbf16>
!k = tensor<?x4x?x64xbf16>
!l = tensor<?x16x?xf32>
// CHECK-LABEL: func @plain(
// CHECK: cf.assert %{{.*}}, "there may be at most 2147482624 queries"
// CHECK: cf.assert %{{.*}}, "there may be at most 2147482624 keys"
// CHECK: %[[OUT:.*]] = memref.alloc({{.*}}) : memref<?x16x?x64xbf16>
// CHECK: %[[LSE:.*]] = memref.alloc({{.*}}) : memref<?x16x?xf32>
// CHECK: %[[BLOCKS:.*]] = arith.ceildivsi
// CHECK: gpu.launch_func @plain_forward::@plain_forward blocks in (%{{.*}}, %{{.*}}, %{{.*}}) threads in (%c128{{.*}}, %{{.*}}, %{{.*}}) args(
// CHECK-LABEL: gpu.module @plain_forward
// CHECK: gpu.func @plain_forward({{.*}}) kernel attributes {attn_tile.kernel = #attn_tile.kernel<warps = 4, blocks_per_multiprocessor = 2>}
// CHECK-NOT: non_finite
// CHECK: attn_tile.copy_async {{.*}} to %query_tile aligned
// CHECK: attn_tile.copy_async {{.*}} to %key_tile aligned
// CHECK: attn_tile.copy_commit
// CHECK: scf.for
// CHECK: attn_tile.copy_wait pending(0)
// CHECK: gpu.barrier
// CHECK: attn_tile.copy_async {{.*}} to %value_tile aligned
// CHECK: attn_tile.mma mma_sync %scores, %query_tile, %key_tile transpose_b
// CHECK: attn_tile.copy_wait pending(0)
// CHECK: gpu.barrier
// CHECK: scf.if
// CHECK: attn_tile.copy_async {{.*}} to %key_tile aligned
// CHECK: scf.if
// CHECK: attn_tile.map outs(%scores
// CHECK: arith.cmpi slt
// CHECK: arith.select
// CHECK: attn_tile.row_reduce max %scores into %row_max :
// CHECK: attn_tile.map ins(%row_max
// CHECK: attn_tile.map ins(%row_max{{.*}}outs(%row_shift
// CHECK: %[[LARGE:.*]] = attn_tile.any ins(%row_shift
// CHECK: scf.if %[[LARGE]]
// CHECK: attn_tile.map ins(%row_max{{.*}}outs(%scores
// CHECK: arith.subf
// CHECK: attn_tile.map ins(%row_shift{{.*}}outs(%scores
// CHECK: math.fma
// CHECK: math.exp2 {{.*}} fastmath<afn>
// CHECK: attn_tile.row_reduce add %scores into %block_sum partial
// CHECK: attn_tile.map ins(%rescale, %block_sum : {{.*}} outs(%row_sum
// CHECK: attn_tile.convert %scores to %probabilities
// CHECK: attn_tile.mma mma_sync %output, %probabilities, %value_tile :
// CHECK: attn_tile.row_combine add %row_sum
// CHECK: attn_tile.store %output {{.*}} aligned
// CHECK: attn_tile.store_rows %row_max
func.func @plain(%q: !q, %k: !k, %v: !k) -> (!q, !l) {
  %out, %lse = attn.online_attention forward %q, %k, %v schedule(<block_m = 128, block_n = 64, warps = 4, blocks_per_multiprocessor = 2>)
    : (!q, !k, !k) -> (!q, !l)
  return %out, %lse : !q, !l
}

// -----

// Two visited ranges: the loop goes from one visited block to the next. Where the output is not finite all is computed again; then
// masked blocks leave the infinities and NaNs of values out, and add those of pairs that are kept.
!t = tensor<1x1x?x64xf16>
!l = tensor<1x1x?xf32>
// CHECK-LABEL: gpu.func @two_ranges_forward(
// CHECK: scf.while (%[[CAREFUL:.*]] = %false{{.*}}) : (i1) -> () {
// CHECK: attn_tile.fill %output, %
// CHECK: scf.while (%[[AT:.*]] = %{{.*}}, %{{.*}} = %{{.*}}) : (index, index) -> (index, index) {
// CHECK: arith.cmpi slt, %[[AT]], %{{.*}}
// CHECK: } do {
// CHECK: arith.minsi
// CHECK: %[[BOTH:.*]] = arith.andi %[[CAREFUL]], %{{.*}}
// CHECK: attn_tile.copy_async {{.*}} to %value_tile aligned
// CHECK: attn_tile.copy_async {{.*}} to %key_tile aligned
// CHECK: scf.if %[[BOTH]] {
// CHECK: attn_tile.copy_finite {{.*}} to %value_tile :
// CHECK-NEXT: gpu.barrier
// CHECK: attn_tile.mma mma_sync %output, %probabilities, %value_tile :
// CHECK: scf.yield
// CHECK: attn_tile.copy_wait pending(0)
// CHECK: scf.if %[[CAREFUL]] {
// CHECK: scf.while
// CHECK: scf.if
// CHECK: gpu.barrier
// CHECK-NOT: attn_tile.copy_async {{.*}} to %key_tile
// CHECK: attn_tile.copy_async {{.*}} to %value_tile
// CHECK: attn_tile.fill %scores,
// CHECK-NOT: attn_tile.mma
// CHECK: attn_tile.map outs(%scores
// CHECK: attn_tile.map outs(%scores
// CHECK: arith.cmpf oeq
// CHECK: attn_tile.add_non_finite %output, %scores, %value_tile :
// CHECK: attn_tile.fill %block_sum,
// CHECK: attn_tile.row_reduce add %output into %block_sum partial
// CHECK: attn_tile.any ins(%block_sum
// CHECK: arith.cmpf uge
// CHECK: %[[BAD:.*]] = gpu.all_reduce or %{{.*}} uniform
// CHECK: %[[AGAIN:.*]] = arith.andi %{{.*}}, %[[BAD]]
// CHECK: scf.condition(%[[AGAIN]])
// CHECK: scf.yield %true
// CHECK: attn_tile.row_combine add %row_sum
func.func @two_ranges(%q: !t, %k: !t, %v: !t) -> (!t, !l) {
  %out, %lse = attn.online_attention forward %q, %k, %v schedule(<block_m = 64, block_n = 32, warps = 4>)
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %c4 = arith.constant 4 : index
      %sink = arith.cmpi slt, %kv_idx, %c4 : index
      %after = arith.cmpi sge, %kv_idx, %q_idx : index
      %keep = arith.ori %sink, %after : i1
      attn.yield %keep : i1
    } ranges(%b: index, %h: index, %begin: index, %end: index) {
      %c0 = arith.constant 0 : index
      %c4 = arith.constant 4 : index
      %kv_len = attn.kv_len %b
      attn.yield_ranges visited(%c0 to %c4, %begin to %kv_len) masked(%c4 to %end)
    } : (!t, !t, !t) -> (!t, !l)
  return %out, %lse : !t, !l
}

// -----

// In f32 the products are made of multiply-adds, the probabilities go through shared memory, exp is accurate.
!t = tensor<1x1x?x40xf32>
!l = tensor<1x1x?xf32>
// CHECK-LABEL: gpu.func @f32_forward(
// CHECK: attn_tile.shared_alloc "query_tile" : <64x48xf32>
// CHECK: attn_tile.mma fma %scores
// CHECK: math.exp %{{[^ ]*}} : f32
// CHECK: attn_tile.store_shared %scores to %probabilities_tile
// CHECK: gpu.barrier
// CHECK: attn_tile.mma fma %output, %probabilities_tile, %value_tile :
func.func @f32(%q: !t, %k: !t, %v: !t) -> (!t, !l) {
  %out, %lse = attn.online_attention forward %q, %k, %v schedule(<block_m = 64, block_n = 32, warps = 4>) : (!t, !t, !t) -> (!t, !l)
  return %out, %lse : !t, !l
}
// CHECK-LABEL: gpu.func @f32_score_forward(
// CHECK: attn_tile.store_shared %scores to %probabilities_tile
// CHECK: gpu.barrier
// CHECK: attn_tile.store_shared %scores to %probabilities_tile
// CHECK-NEXT: gpu.barrier
// CHECK-NEXT: attn_tile.add_non_finite %output, %probabilities_tile, %value_tile :
func.func @f32_score(%q: !t, %k: !t, %v: !t) -> (!t, !l) {
  %out, %lse = attn.online_attention forward %q, %k, %v schedule(<block_m = 64, block_n = 32, warps = 4>)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %sum = arith.addf %s, %s : f32
      attn.yield %sum : f32
    } : (!t, !t, !t) -> (!t, !l)
  return %out, %lse : !t, !l
}

// -----

// A score: the scale and the addition are one instruction. It may be -inf, in any block.
!t = tensor<1x8x?x64xf16>
!l = tensor<1x8x?xf32>
// CHECK-LABEL: gpu.func @score_forward(
// CHECK: scf.while (%[[CAREFUL:.*]] = %false{{.*}}) : (i1) -> () {
// CHECK: scf.if %[[CAREFUL]] {
// CHECK: attn_tile.copy_finite {{.*}} to %value_tile :
// CHECK: attn_tile.map outs(%scores
// CHECK: %[[TERM:.*]] = memref.load
// CHECK: %[[SCALE:.*]] = arith.constant 1.250000e-01 : f32
// CHECK: math.fma %{{.*}}, %[[SCALE]], %[[TERM]]
// CHECK: scf.if %[[CAREFUL]] {
// CHECK: attn_tile.mma mma_sync %scores, %query_tile, %key_tile transpose_b
// CHECK: math.fma
// CHECK: attn_tile.add_non_finite %output, %scores, %value_tile :
func.func @score(%q: !t, %k: !t, %v: !t, %bias: tensor<8x?xf32>) -> (!t, !l) {
  %out, %lse = attn.online_attention forward %q, %k, %v captures(%bias : tensor<8x?xf32>) schedule(<block_m = 64, block_n = 32, warps = 4>)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %term = tensor.extract %bias[%h, %kv_idx] : tensor<8x?xf32>
      %sum = arith.addf %s, %term : f32
      attn.yield %sum : f32
    } : (!t, !t, !t) -> (!t, !l)
  return %out, %lse : !t, !l
}

// -----

// What a score multiplies its argument by goes into the scale (0.125 / 50), what it multiplies its result by (8) into the exponent
// (8 log2 e). A negative factor of the result stays: the maximum would be a minimum.
!t = tensor<1x8x?x64xf16>
!l = tensor<1x8x?xf32>
// CHECK-LABEL: gpu.func @factors_forward(
// CHECK: attn_tile.map outs(%scores
// CHECK: %[[SCALE:.*]] = arith.constant 2.500000e-03 : f32
// CHECK: %[[X:.*]] = arith.mulf %{{.*}}, %[[SCALE]]
// CHECK: %[[Y:.*]] = math.sin %[[X]]
// CHECK: attn_tile.yield %[[Y]]
// CHECK: arith.constant 11.54{{.*}} : f32
func.func @factors(%q: !t, %k: !t, %v: !t) -> (!t, !l) {
  %out, %lse = attn.online_attention forward %q, %k, %v schedule(<block_m = 64, block_n = 32, warps = 4>)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %fifty = arith.constant 50.0 : f32
      %eight = arith.constant 8.0 : f32
      %x = arith.divf %s, %fifty : f32
      %y = math.sin %x : f32
      %z = arith.mulf %y, %eight : f32
      attn.yield %z : f32
    } : (!t, !t, !t) -> (!t, !l)
  return %out, %lse : !t, !l
}
// CHECK-LABEL: gpu.func @negative_factor_forward(
// CHECK: attn_tile.map outs(%scores
// CHECK: %[[Y:.*]] = math.sin
// CHECK-NEXT: %[[Z:.*]] = arith.mulf %[[Y]]
// CHECK-NEXT: attn_tile.yield %[[Z]]
func.func @negative_factor(%q: !t, %k: !t, %v: !t) -> (!t, !l) {
  %out, %lse = attn.online_attention forward %q, %k, %v schedule(<block_m = 64, block_n = 32, warps = 4>)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %eight = arith.constant -8.0 : f32
      %y = math.sin %s : f32
      %z = arith.mulf %y, %eight : f32
      attn.yield %z : f32
    } : (!t, !t, !t) -> (!t, !l)
  return %out, %lse : !t, !l
}

// -----

// Bounded scores need no maximum, and where tanh may be approximated blocks of small scores get a polynomial in q k^T.
!t = tensor<1x8x?x64xbf16>
!l = tensor<1x8x?xf32>
// CHECK-LABEL: gpu.func @soft_cap_forward(
// CHECK-NOT: attn_tile.row_reduce max
// CHECK: %[[FAR:.*]] = attn_tile.any ins(%scores
// CHECK: math.absf
// CHECK: scf.if %[[FAR]] {
// CHECK: math.tanh {{.*}} fastmath<afn>
// CHECK: } else {
// CHECK: attn_tile.map outs(%scores
// CHECK-NEXT: ^bb0({{.*}}, %[[X:.*]]: f32):
// CHECK: %[[SQUARE:.*]] = arith.mulf %[[X]], %[[X]]
// CHECK: %[[INNER:.*]] = math.fma %[[SQUARE]],
// CHECK: %[[SERIES:.*]] = math.fma %[[INNER]], %[[INNER]],
// CHECK: %[[T:.*]] = arith.mulf %[[X]], %[[SERIES]]
// CHECK: attn_tile.yield %[[T]]
// CHECK: math.exp2 %{{.*}} fastmath<afn>
func.func @soft_cap(%q: !t, %k: !t, %v: !t) -> (!t, !l) {
  %out, %lse = attn.online_attention forward %q, %k, %v schedule(<block_m = 64, block_n = 32, warps = 4>)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %cap = arith.constant 30.0 : f32
      %x = arith.divf %s, %cap : f32
      %t = math.tanh %x fastmath<afn> : f32
      %z = arith.mulf %t, %cap : f32
      attn.yield %z : f32
    } : (!t, !t, !t) -> (!t, !l)
  return %out, %lse : !t, !l
}
// Without afn tanh is what it is; a cap of 60 is too large for exponentials without a maximum.
// CHECK-LABEL: gpu.func @accurate_soft_cap_forward(
// CHECK-NOT: attn_tile.any ins(%scores
// CHECK: math.tanh
// CHECK: attn_tile.row_reduce max
func.func @accurate_soft_cap(%q: !t, %k: !t, %v: !t) -> (!t, !l) {
  %out, %lse = attn.online_attention forward %q, %k, %v schedule(<block_m = 64, block_n = 32, warps = 4>)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %cap = arith.constant 60.0 : f32
      %x = arith.divf %s, %cap : f32
      %t = math.tanh %x : f32
      %z = arith.mulf %t, %cap : f32
      attn.yield %z : f32
    } : (!t, !t, !t) -> (!t, !l)
  return %out, %lse : !t, !l
}

// -----

// The backward: a block of keys stays, the queries of the heads of its group stream by; dQ is summed by atomics in f32.
!q = tensor<2x4x?x64xbf16>
!k = tensor<2x2x?x64xbf16>
!l = tensor<2x4x?xf32>
// CHECK-LABEL: func @backward(
// CHECK: linalg.fill
// CHECK: gpu.launch_func @backward_fused::@backward_fused
// CHECK: gpu.launch_func @backward_d_query::@backward_d_query
// CHECK: gpu.func @backward_fused(
// CHECK: attn_tile.shared_alloc "query_ring" : <2x64x64xbf16>
// CHECK: scf.for
// CHECK: scf.for
// CHECK: %query_tile{{.*}} = attn_tile.ring_slot %query_ring[
// CHECK: %d_out_tile{{.*}} = attn_tile.ring_slot %d_out_ring[
// CHECK: attn_tile.copy_wait pending(0)
// CHECK: gpu.barrier
// CHECK: attn_tile.mma mma_sync %scores, %query_tile{{.*}}, %key_tile transpose_b
// CHECK: %[[LARGE:.*]] = attn_tile.any ins(%row_lse
// CHECK: scf.if %[[LARGE]] {
// CHECK: attn_tile.map ins(%row_lse{{.*}}outs(%scores
// CHECK: arith.subf
// CHECK: scf.if
// CHECK: attn_tile.map ins(%row_lse
// CHECK: } else {
// CHECK: attn_tile.map ins(%row_lse
// CHECK: attn_tile.store_shared %scores to %probabilities_tile
// CHECK: attn_tile.mma mma_sync %scores, %d_out_tile{{.*}}, %value_tile transpose_b
// CHECK: attn_tile.load_shared %probabilities_tile to %probabilities
// CHECK: attn_tile.map ins(%probabilities, %row_delta
// CHECK: attn_tile.store_shared %scores to %d_scores_tile
// CHECK: gpu.barrier
// CHECK: attn_tile.copy_async
// CHECK: attn_tile.mma mma_sync %d_value_sum, %probabilities_tile, %d_out_tile{{.*}} transpose_a
// CHECK: attn_tile.mma mma_sync %d_key_sum, %d_scores_tile, %query_tile{{.*}} transpose_a
// CHECK: attn_tile.mma mma_sync %d_query, %d_scores_tile, %key_tile :
// CHECK: attn_tile.atomic_add %d_query {{.*}} opaque
// CHECK: gpu.func @backward_d_query(
// CHECK: attn_tile.load {{.*}} opaque
// CHECK: attn_tile.store
func.func @backward(%q: !q, %k: !k, %v: !k, %lse: !l, %delta: !l, %d_out: !q) -> (!q, !k, !k) {
  %dq, %dk, %dv = attn.online_attention fused %q, %k, %v, %lse, %delta, %d_out schedule(<block_m = 64, block_n = 128, warps = 8, stages = 2>)
    : (!q, !k, !k, !l, !l, !q) -> (!q, !k, !k)
  return %dq, %dk, %dv : !q, !k, !k
}

// -----

// What dropped pairs hold may be infinite: where a masked tile has any such row, its tiles are copied again without, and the keys
// brought back at the end. A row beyond the last query keeps no key.
!t = tensor<1x1x?x64xbf16>
!l = tensor<1x1x?xf32>
// CHECK-LABEL: gpu.func @dropping_fused(
// CHECK: %[[Q_LEN:.*]] = memref.dim %arg0
// CHECK: %[[MASKED:.*]] = arith.ori
// CHECK: %[[SCORES:.*]] = scf.if %[[MASKED]] -> (i1) {
// CHECK: attn_tile.row_reduce add %scores into %row_sum partial
// CHECK: %[[ANY:.*]] = attn_tile.any ins(%row_sum
// CHECK: attn_tile.map ins(%row_lse{{.*}} outs(%scores
// CHECK: arith.cmpi slt, %{{.*}}, %[[Q_LEN]] :
// CHECK: scf.yield %[[ANY]]
// CHECK: } else {
// CHECK-NOT: attn_tile.any
// CHECK: scf.yield %false
// CHECK: %[[D_OUT:.*]]:2 = scf.if %[[MASKED]] -> (i1, i1) {
// CHECK: %[[ROWS:.*]] = attn_tile.any ins(%row_delta
// CHECK: attn_tile.row_reduce add %scores into %row_sum partial
// CHECK: %[[PRODUCTS:.*]] = attn_tile.any ins(%row_sum
// CHECK: %[[ANY_OF:.*]] = arith.ori %[[ROWS]], %[[PRODUCTS]]
// CHECK: scf.yield %[[ROWS]], %[[ANY_OF]]
// CHECK: scf.yield %false{{.*}}, %false
// Gradients of scores are selected where a product with d_out would show.
// CHECK: scf.if %[[D_OUT]]#1 {
// CHECK-NEXT: attn_tile.map ins(%probabilities, %row_delta
// CHECK: arith.select
// CHECK: } else {
// CHECK-NEXT: attn_tile.map ins(%probabilities, %row_delta
// CHECK-NOT: arith.select
// CHECK: %[[EITHER:.*]] = arith.ori %[[SCORES]], %[[D_OUT]]#0
// CHECK: attn_tile.store_shared %scores to %d_scores_tile
// CHECK: %[[FOUND:.*]] = gpu.all_reduce or %[[EITHER]] uniform
// CHECK: scf.if %[[FOUND]] {
// CHECK-NEXT: attn_tile.load_shared %probabilities_tile to %scores
// CHECK: attn_tile.load_rows {{.*}} to %row_delta
// CHECK-NEXT: attn_tile.map ins(%row_delta{{.*}} outs(%scores
// CHECK: math.fma
// CHECK: attn_tile.store_shared %scores to %probabilities_tile
// CHECK: attn_tile.copy_finite {{.*}} to %d_out_tile :
// CHECK: attn_tile.copy_finite {{.*}} to %query_tile :
// CHECK: attn_tile.copy_finite {{.*}} to %key_tile :
// CHECK-NEXT: gpu.barrier
// CHECK-NEXT: }
// CHECK-NEXT: attn_tile.mma mma_sync %d_value_sum, %probabilities_tile, %d_out_tile transpose_a :
// CHECK-NEXT: attn_tile.mma mma_sync %d_key_sum, %d_scores_tile, %query_tile transpose_a :
// CHECK: attn_tile.mma mma_sync %d_query, %d_scores_tile, %key_tile :
// CHECK-NEXT: scf.if %[[FOUND]] {
// CHECK-NEXT: gpu.barrier
// CHECK: attn_tile.copy_async {{.*}} to %key_tile
// CHECK-NEXT: attn_tile.copy_commit
func.func @dropping(%q: !t, %lse: !l) -> (!t, !t, !t) {
  %dq, %dk, %dv = attn.online_attention fused %q, %q, %q, %lse, %lse, %q schedule(<block_m = 64, block_n = 64, warps = 4>)
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %keep = arith.cmpi sle, %kv_idx, %q_idx : index
      attn.yield %keep : i1
    } ranges(%b: index, %h: index, %begin: index, %end: index) {
      %n = attn.q_len %b
      attn.yield_ranges visited(%begin to %n) masked(%begin to %end)
    } : (!t, !t, !t, !l, !l, !t) -> (!t, !t, !t)
  return %dq, %dk, %dv : !t, !t, !t
}

// -----

// A score that may be -inf drops pairs in every tile, and where it is selected a NaN with it; one that may not drops none, but a
// region of gradients wants no row beyond the last query.
!t = tensor<1x1x?x64xbf16>
!l = tensor<1x1x?xf32>
// CHECK-LABEL: gpu.func @scores_drop_dq(
// CHECK: scf.if %{{.*}} -> (i1) {
// CHECK: attn_tile.any ins(%row_sum
// CHECK: } else {
// CHECK: attn_tile.any ins(%row_sum
// CHECK: scf.if
// CHECK: attn_tile.copy_finite {{.*}} to %key_tile :
// CHECK-NEXT: gpu.barrier
// CHECK-NEXT: }
// CHECK-NEXT: attn_tile.mma mma_sync %d_query_sum, %d_scores_tile, %key_tile :
// CHECK-LABEL: gpu.func @scores_pass_dq(
// CHECK: scf.if %{{.*}} -> (i1) {
// CHECK: attn_tile.any ins(%row_sum
// CHECK: } else {
// CHECK-NOT: attn_tile.any
// CHECK: scf.yield %false
// CHECK-LABEL: gpu.func @scores_bounded_dq(
// CHECK: %[[Q_LEN:.*]] = memref.dim %arg0
// CHECK: attn_tile.mma mma_sync %d_scores
// CHECK: %[[RAGGED:.*]] = arith.cmpi slt
// CHECK-NEXT: arith.subi %[[Q_LEN]]
// CHECK-NEXT: arith.constant 64
// CHECK-NEXT: %[[FEW:.*]] = arith.cmpi slt
// CHECK-NEXT: %[[SELECTS:.*]] = arith.ori %[[RAGGED]], %[[FEW]]
// CHECK-NEXT: scf.if %[[SELECTS]] {
// CHECK: arith.cmpi slt, %{{.*}}, %[[Q_LEN]] :
// CHECK-NOT: all_reduce
// CHECK-NOT: copy_finite
func.func @scores_drop(%q: !t, %lse: !l) -> !t {
  %dq = attn.online_attention dq %q, %q, %q, %lse, %lse, %q schedule(<block_m = 64, block_n = 64, warps = 4>)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %minus_infinity = arith.constant 0xFF800000 : f32
      %is_same = arith.cmpi eq, %q_idx, %kv_idx : index
      %x = arith.select %is_same, %minus_infinity, %s : f32
      attn.yield %x : f32
    } gradient(%d: f32, %s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      attn.yield %d : f32
    } : (!t, !t, !t, !l, !l, !t) -> !t
  return %dq : !t
}
func.func @scores_pass(%q: !t, %lse: !l) -> !t {
  %dq = attn.online_attention dq %q, %q, %q, %lse, %lse, %q schedule(<block_m = 64, block_n = 64, warps = 4>)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %x = arith.addf %s, %s : f32
      attn.yield %x : f32
    } gradient(%d: f32, %s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %x = arith.addf %d, %d : f32
      attn.yield %x : f32
    } : (!t, !t, !t, !l, !l, !t) -> !t
  return %dq : !t
}
func.func @scores_bounded(%q: !t, %lse: !l) -> !t {
  %dq = attn.online_attention dq %q, %q, %q, %lse, %lse, %q schedule(<block_m = 64, block_n = 64, warps = 4>)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %x = math.sin %s : f32
      attn.yield %x : f32
    } gradient(%d: f32, %s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %slope = math.cos %s : f32
      %x = arith.mulf %d, %slope : f32
      attn.yield %x : f32
    } : (!t, !t, !t, !l, !l, !t) -> !t
  return %dq : !t
}

// -----

// A gradient of a capture whose index is the same for a head is summed by the threads; any other by atomics.
!t = tensor<1x4x?x64xbf16>
!l = tensor<1x4x?xf32>
// CHECK-LABEL: gpu.func @capture_gradients_fused(
// CHECK: attn_tile.fragment_alloc "sum_0" : <f32, thread
// CHECK: attn_tile.map ins(%row_lse, %row_delta
// CHECK-DAG: attn_tile.accumulate %{{.*}} into %sum_0
// CHECK-DAG: memref.atomic_rmw addf
// CHECK: attn_tile.flush_sum %sum_0
func.func @capture_gradients(%q: !t, %lse: !l, %d_out: !t, %slopes: tensor<4xf32>, %bias: tensor<?xf32>) -> tensor<4xf32> {
  %dq, %dk, %dv, %d_slopes, %d_bias = attn.online_attention fused %q, %q, %q, %lse, %lse, %d_out
    captures(%slopes : tensor<4xf32>, %bias : tensor<?xf32>) schedule(<block_m = 64, block_n = 64, warps = 8>)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %slope = tensor.extract %slopes[%h] : tensor<4xf32>
      %term = tensor.extract %bias[%kv_idx] : tensor<?xf32>
      %product = arith.mulf %s, %slope : f32
      %sum = arith.addf %product, %term : f32
      attn.yield %sum : f32
    } gradient(%d: f32, %s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %slope = tensor.extract %slopes[%h] : tensor<4xf32>
      %d_slope = arith.mulf %d, %s : f32
      attn.accumulate_gradient %d_slope, %slopes[%h] : f32, tensor<4xf32>
      attn.accumulate_gradient %d, %bias[%kv_idx] : f32, tensor<?xf32>
      %dx = arith.mulf %d, %slope : f32
      attn.yield %dx : f32
    } : (!t, !t, !t, !l, !l, !t) -> (!t, !t, !t, tensor<4xf32>, tensor<?xf32>)
  return %d_slopes : tensor<4xf32>
}

// -----

// CHECK-LABEL: gpu.func @delta_delta(
// CHECK: attn_tile.row_dot %d_out_tile, %out_tile into %row_delta
// CHECK: attn_tile.row_combine add %row_delta
// CHECK: attn_tile.store_rows %row_delta
func.func @delta(%d_out: tensor<1x4x?x64xbf16>, %out: tensor<1x4x?x64xbf16>) -> tensor<1x4x?xf32> {
  %delta = attn.delta %d_out, %out : tensor<1x4x?x64xbf16>, tensor<1x4x?xf32>
  return %delta : tensor<1x4x?xf32>
}

// -----

// A captured "no limit" stays one in 32 bits: in the ranges it is clamped to 2^30, so that nothing overflows when a position
// is added; in the mask it is saturated.
!t = tensor<1x4x?x64xbf16>
// CHECK-LABEL: gpu.func @limit_forward(
// CHECK: %[[READ:.*]] = memref.load %{{.*}}[] : memref<i64
// CHECK: %[[ABOVE:.*]] = arith.maxsi %[[READ]], %c-1073741824_i64 : i64
// CHECK: %[[CLAMPED:.*]] = arith.minsi %[[ABOVE]], %c1073741824_i64 : i64
// CHECK: %[[INDEX:.*]] = arith.index_cast %[[CLAMPED]] : i64 to index
// CHECK: arith.minsi %[[INDEX]], %c1073741824 : index
// CHECK: attn_tile.map outs(%scores
// CHECK: arith.constant 2147483647 : i64
// CHECK: arith.trunci %{{.*}} : i64 to i32
// CHECK: arith.cmpi slt, %{{.*}} : i32
func.func @limit(%q: !t, %limit: tensor<i64>) -> !t {
  %out, %lse = attn.online_attention forward %q, %q, %q captures(%limit : tensor<i64>) schedule(<block_m = 64, block_n = 64, warps = 4>)
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %wide = tensor.extract %limit[] : tensor<i64>
      %far = arith.index_cast %wide : i64 to index
      %keep = arith.cmpi slt, %kv_idx, %far : index
      attn.yield %keep : i1
    } ranges(%b: index, %h: index, %begin: index, %end: index) {
      %wide = tensor.extract %limit[] : tensor<i64>
      %far = arith.index_cast %wide : i64 to index
      %c0 = arith.constant 0 : index
      %most = arith.constant 8589934592 : index
      %last = arith.minsi %far, %most : index
      attn.yield_ranges visited(%c0 to %last) masked(%c0 to %last)
    } : (!t, !t, !t) -> (!t, tensor<1x4x?xf32>)
  return %out : !t
}

// -----

// Block lists: one block of threads evaluates a block of the mask and votes, then a thread a block searches its row and column.
!q = tensor<?x2x?x64xbf16>
!l = tensor<?x2x?xf32>
!lists = tensor<?x1x?x?x4xi32>
// CHECK-LABEL: func @listed(
// CHECK: %[[LISTS:.*]] = memref.alloc({{.*}}) : memref<?x1x?x?x4xi32>
// CHECK: %[[STATES:.*]] = memref.alloc({{.*}}) : memref<?x1x?x?xi32>
// CHECK: gpu.launch_func @listed_block_states::@listed_block_states
// CHECK: gpu.launch_func @listed_block_lists::@listed_block_lists
// CHECK: gpu.launch_func @listed_forward::@listed_forward
// CHECK-LABEL: gpu.func @listed_block_states(
// CHECK: scf.if
// CHECK: scf.for
// CHECK: scf.for
// CHECK: gpu.all_reduce or %{{.*}} uniform
// CHECK: gpu.all_reduce and %{{.*}} uniform
// CHECK: memref.store
// CHECK-LABEL: gpu.func @listed_block_lists(
// CHECK: scf.while
// CHECK: memref.store {{.*}}, %{{.*}}, %c0{{.*}}] : memref<?x1x?x?x4xi32
// CHECK: scf.while
// CHECK: memref.store {{.*}}, %c1{{.*}}] : memref<?x1x?x?x4xi32
// CHECK: scf.while
// CHECK: memref.store {{.*}}, %c2{{.*}}] : memref<?x1x?x?x4xi32
// CHECK: scf.while
// CHECK: memref.store {{.*}}, %c3{{.*}}] : memref<?x1x?x?x4xi32
// The loop of the forward carries of which kind its block is, and finds the next one before it works on the block.
// CHECK-LABEL: gpu.func @listed_forward(
// CHECK: memref.load {{.*}}, %c0{{.*}}] : memref<?x1x?x?x4xi32
// CHECK: memref.load {{.*}}, %c1{{.*}}] : memref<?x1x?x?x4xi32
// CHECK: scf.while (%[[AT:.*]] = %{{.*}}, %{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}) : (index, index, i1) -> (index, index, i1) {
// CHECK: } do {
// CHECK: ^bb0(%[[AT:.*]]: index, %{{.*}}: index, %[[MASKED:.*]]: i1):
// CHECK: memref.load {{.*}} : memref<?x1x?x?x4xi32
// CHECK: %[[PARTIAL:.*]] = arith.maxsi
// CHECK: memref.load {{.*}} : memref<?x1x?x?x4xi32
// CHECK: %[[FULL:.*]] = arith.maxsi
// CHECK: %[[NEXT:.*]] = arith.minsi %[[PARTIAL]], %[[FULL]]
// CHECK: %[[NEXT_MASKED:.*]] = arith.cmpi slt, %[[PARTIAL]], %[[FULL]]
// CHECK: attn_tile.copy_wait
// CHECK: scf.if %[[MASKED]] {
func.func @listed(%q: !q, %ids: tensor<?x?xi32>) -> !q {
  %lists = attn.block_lists %q, %q captures(%ids : tensor<?x?xi32>) blocks(128, 128)
    mask(%b: index, %h: index, %i: index, %j: index) {
      %of_query = tensor.extract %ids[%b, %i] : tensor<?x?xi32>
      %of_key = tensor.extract %ids[%b, %j] : tensor<?x?xi32>
      %same = arith.cmpi eq, %of_query, %of_key : i32
      attn.yield %same : i1
    } ranges(%b: index, %h: index, %begin: index, %end: index) {
      %c0 = arith.constant 0 : index
      %n = attn.kv_len %b
      attn.yield_ranges visited(%c0 to %n) masked(%c0 to %n)
    } : (!q, !q) -> !lists
  %out, %lse = attn.online_attention forward %q, %q, %q captures(%ids : tensor<?x?xi32>) block_lists(%lists : !lists)
    blocks(128, 128) schedule(<block_m = 128, block_n = 64, warps = 4, blocks_per_multiprocessor = 2>)
    mask(%b: index, %h: index, %i: index, %j: index) {
      %of_query = tensor.extract %ids[%b, %i] : tensor<?x?xi32>
      %of_key = tensor.extract %ids[%b, %j] : tensor<?x?xi32>
      %same = arith.cmpi eq, %of_query, %of_key : i32
      attn.yield %same : i1
    } ranges(%b: index, %h: index, %begin: index, %end: index) {
      %c0 = arith.constant 0 : index
      %n = attn.kv_len %b
      attn.yield_ranges visited(%c0 to %n) masked(%c0 to %n)
    } : (!q, !q, !q) -> (!q, !l)
  return %out : !q
}

// -----

// Parts of a number that is given, of two query heads a key head: a block has the rows of both. The visited blocks of
// two ranges are counted, each once, and divided.
!q = tensor<?x8x?x64xf16>
!k = tensor<?x4x?x64xf16>
!p = tensor<3x?x8x?x64xf32>
!l = tensor<3x?x8x?xf32>
// CHECK-LABEL: func @parts(
// CHECK: %[[OUT:.*]] = memref.alloc({{.*}}) : memref<3x?x8x?x64xf32>
// CHECK: %[[LSE:.*]] = memref.alloc({{.*}}) : memref<3x?x8x?xf32>
// CHECK: cf.assert %{{.*}}, "there may be at most 2147482624 queries in the heads of a group"
// CHECK-LABEL: gpu.func @parts_forward_parts(
// CHECK: %[[GROUP:.*]] = arith.divsi %c8{{.*}}, %c4
// CHECK: %[[ROWS:.*]] = arith.muli %{{.*}}, %[[GROUP]] overflow<nsw>
// CHECK: attn_tile.copy_async %{{.*}}[%{{.*}}, %{{.*}}, %[[BEGIN:.*]]] packed(%[[GROUP]]) rows(%{{.*}}) to %query_tile
// CHECK: %[[OTHER:.*]] = arith.select %{{.*}}, %{{.*}}, %{{.*}} : index
// CHECK: %[[ONE:.*]] = arith.maxsi %{{.*}}, %c0{{.*}} : index
// CHECK: arith.select
// CHECK: arith.subi
// CHECK-NEXT: arith.maxsi %{{.*}}, %c0{{.*}} : index
// CHECK: %[[TWO:.*]] = arith.maxsi %{{.*}}, %c0{{.*}} : index
// CHECK: %[[ALL:.*]] = arith.addi %{{.*}}, %[[TWO]] overflow<nsw>
// CHECK: arith.divsi %[[ALL]], %c3
// CHECK: arith.remsi %[[ALL]], %c3
// CHECK: scf.while
// CHECK: %[[ROW:.*]] = arith.addi %[[BEGIN]], %{{.*}} overflow<nsw>
// CHECK: arith.divsi %[[ROW]], %[[GROUP]]
// CHECK: arith.remsi %[[ROW]], %[[GROUP]]
// CHECK: attn_tile.store %output to %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}, %[[BEGIN]]] packed(%[[GROUP]])
// CHECK: attn_tile.store_rows %row_max to %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}, %[[BEGIN]]] packed(%[[GROUP]])
func.func @parts(%q: !q, %k: !k, %v: !k, %sink: index) -> (!p, !l) {
  %out, %lse = attn.online_attention forward %q, %k, %v captures(%sink : index)
    schedule(<block_m = 64, block_n = 64, kv_splits = 3, warps = 4>)
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %keep = arith.cmpi slt, %kv_idx, %sink : index
      attn.yield %keep : i1
    } ranges(%b: index, %h: index, %begin: index, %end: index) {
      %c0 = arith.constant 0 : index
      attn.yield_ranges visited(%c0 to %sink, %begin to %end) masked(%sink to %end)
    } : (!q, !k, !k) -> (!p, !l)
  return %out, %lse : !p, !l
}

// -----

// A number that the host computes; each head of queries has a key head of its own.
!t = tensor<?x4x?x64xf16>
!p = tensor<?x?x4x?x64xf32>
!l = tensor<?x?x4x?xf32>
// CHECK-LABEL: func @splits(
// CHECK-SAME: %{{.*}}: tensor<?x4x?x64xf16>, %[[N:.*]]: index)
// CHECK: memref.alloc(%[[N]], %{{.*}}, %{{.*}}) : memref<?x?x4x?x64xf32>
// CHECK: %[[GRID:.*]] = arith.muli %{{.*}}, %[[N]] : index
// CHECK: gpu.launch_func @splits_forward_parts::@splits_forward_parts blocks in (%[[GRID]],
// CHECK-LABEL: gpu.func @splits_forward_parts(
// CHECK: %[[PARTS:.*]] = memref.dim %{{.*}}, %c0
// CHECK: arith.remsi %{{.*}}, %[[PARTS]]
// CHECK-NOT: packed
// CHECK: scf.for
func.func @splits(%q: !t, %n: index) -> (!p, !l) {
  %out, %lse = attn.online_attention forward %q, %q, %q schedule(<block_m = 64, block_n = 64, warps = 4>) splits(%n)
    : (!t, !t, !t) -> (!p, !l)
  return %out, %lse : !p, !l
}

// -----

// Pairs: a warp a row, a lane every 32nd column. A part without a key counts nothing, whatever its out is.
!t = tensor<?x2x?x40xbf16>
!l = tensor<?x2x?xf32>
// CHECK-LABEL: func @merge(
// CHECK: memref.alloc({{.*}}) : memref<?x2x?x40xbf16>
// CHECK: memref.alloc({{.*}}) : memref<?x2x?xf32>
// CHECK: gpu.launch_func @merge_merge::@merge_merge
// CHECK-LABEL: gpu.func @merge_merge(
// CHECK-NOT: scf.for
// CHECK: arith.maxnumf
// CHECK: %[[EMPTY:.*]] = arith.cmpf oeq, %[[PART:.*]], %cst
// CHECK: %[[EXP:.*]] = math.exp
// CHECK: arith.select %[[EMPTY]], %{{.*}}, %[[EXP]] : f32
// CHECK: memref.load {{.*}} : memref<?x2x?x40xbf16,
// CHECK: arith.extf
// CHECK: %[[PRODUCT:.*]] = arith.mulf
// CHECK: arith.select %[[EMPTY]], %{{.*}}, %[[PRODUCT]] : f32
// CHECK: arith.truncf
// CHECK: memref.store
func.func @merge(%a: !t, %la: !l, %b: !t, %lb: !l) -> (!t, !l) {
  %out, %lse = attn.merge (%a, %la), (%b, %lb) : !t, !l -> !t, !l
  return %out, %lse : !t, !l
}

// -----

// Two warp columns share the output, so they combine what they know of a row, and the probabilities are shared.
!t = tensor<1x1x?x512xbf16>
!l = tensor<1x1x?xf32>
// CHECK-LABEL: gpu.func @wide_forward(
// CHECK: %probabilities_tile = attn_tile.shared_alloc "probabilities_tile" : <64x64xbf16>
// CHECK: %row_parts = attn_tile.shared_reuse %probabilities_tile "row_parts" : <64x64xbf16> to <128xf32>
// CHECK: %output = attn_tile.fragment_alloc "output" : <64x512xf32, accumulator, 4x2>
// CHECK: attn_tile.row_reduce max %scores into %row_max through %row_parts
// CHECK: attn_tile.row_reduce add %scores into %block_sum partial :
// CHECK: attn_tile.store_shared %scores to %probabilities_tile
// CHECK-NEXT: gpu.barrier
// CHECK-NEXT: attn_tile.mma mma_sync %output, %probabilities_tile, %value_tile :
// CHECK: gpu.barrier
// CHECK-NEXT: attn_tile.row_combine add %row_sum through %row_parts
func.func @wide(%q: !t) -> (!t, !l) {
  %out, %lse = attn.online_attention forward %q, %q, %q schedule(<block_m = 64, block_n = 64, warps = 8>) : (!t, !t, !t) -> (!t, !l)
  return %out, %lse : !t, !l
}
// Without a maximum only the sums are combined.
// CHECK-LABEL: gpu.func @wide_bounded_forward(
// CHECK-NOT: attn_tile.row_reduce max
// CHECK: attn_tile.row_reduce add %scores into %block_sum partial :
// CHECK: attn_tile.store_shared %scores to %probabilities_tile
// CHECK: attn_tile.copy_wait pending(0)
// CHECK-NEXT: gpu.barrier
// CHECK-NEXT: attn_tile.row_combine add %row_sum through %row_parts
func.func @wide_bounded(%q: !t) -> (!t, !l) {
  %out, %lse = attn.online_attention forward %q, %q, %q schedule(<block_m = 64, block_n = 64, warps = 8>)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %cap = arith.constant 30.0 : f32
      %x = arith.divf %s, %cap : f32
      %t = math.tanh %x fastmath<afn> : f32
      %z = arith.mulf %t, %cap : f32
      attn.yield %z : f32
    } : (!t, !t, !t) -> (!t, !l)
  return %out, %lse : !t, !l
}

// Of wide heads the values are copied once.
// CHECK-LABEL: gpu.func @wide_masked_forward(
// CHECK: scf.while
// CHECK: scf.if
// CHECK: attn_tile.copy_finite {{.*}} to %value_tile :
// CHECK: } else {
// CHECK: attn_tile.copy_async {{.*}} to %value_tile aligned
// CHECK: attn_tile.add_non_finite %output, %probabilities_tile, %value_tile :
func.func @wide_masked(%q: !t) -> (!t, !l) {
  %out, %lse = attn.online_attention forward %q, %q, %q schedule(<block_m = 64, block_n = 64, warps = 8>)
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %keep = arith.cmpi sle, %kv_idx, %q_idx : index
      attn.yield %keep : i1
    } ranges(%b: index, %h: index, %begin: index, %end: index) {
      %c0 = arith.constant 0 : index
      attn.yield_ranges visited(%c0 to %end) masked(%begin to %end)
    } : (!t, !t, !t) -> (!t, !l)
  return %out, %lse : !t, !l
}

// -----

// The gradients without atomic additions: those of the queries have a kernel of their own.
!q = tensor<?x4x?x64xbf16>
!k = tensor<?x2x?x64xbf16>
!l = tensor<?x4x?xf32>
// CHECK-LABEL: func @deterministic(
// CHECK: gpu.launch_func @deterministic_dq::@deterministic_dq
// CHECK: gpu.launch_func @deterministic_dkdv::@deterministic_dkdv
// CHECK-NOT: gpu.launch_func
// CHECK-LABEL: gpu.func @deterministic_dq(
// CHECK-NOT: atomic
// CHECK: attn_tile.load_rows
// CHECK: attn_tile.load_rows
// CHECK: scf.for
// CHECK: attn_tile.mma mma_sync %scores, %query_tile, %key_tile transpose_b
// CHECK: attn_tile.mma mma_sync %d_scores, %d_out_tile, %value_tile transpose_b
// The exponents are differences of rounded scores: a multiply-add would overflow with a large lse.
// CHECK-NOT: math.fma
// CHECK: attn_tile.store_shared %d_scores to %d_scores_tile
// CHECK-NEXT: gpu.barrier
// CHECK: attn_tile.mma mma_sync %d_query_sum, %d_scores_tile, %key_tile :
// CHECK: attn_tile.store %d_query_sum via %query_tile
// CHECK-LABEL: gpu.func @deterministic_dkdv(
// CHECK-NOT: atomic
// CHECK: attn_tile.mma mma_sync %d_value_sum, %probabilities_tile, %d_out_tile transpose_a
// CHECK: attn_tile.mma mma_sync %d_key_sum, %d_scores_tile, %query_tile transpose_a
// CHECK-NOT: attn_tile.mma
// CHECK: attn_tile.store %d_value_sum
func.func @deterministic(%q: !q, %k: !k, %lse: !l) -> (!q, !k, !k) {
  %dq = attn.online_attention dq %q, %k, %k, %lse, %lse, %q schedule(<block_m = 64, block_n = 64, warps = 4, stages = 2>)
    : (!q, !k, !k, !l, !l, !q) -> !q
  %dk, %dv = attn.online_attention dkdv %q, %k, %k, %lse, %lse, %q schedule(<block_m = 64, block_n = 64, warps = 4>)
    : (!q, !k, !k, !l, !l, !q) -> (!k, !k)
  return %dq, %dk, %dv : !q, !k, !k
}

// -----

// Each of the two walks the block lists its way: dq the rows, dkdv the columns.
!q = tensor<?x2x?x64xbf16>
!l = tensor<?x2x?xf32>
!lists = tensor<?x1x?x?x4xi32>
// CHECK-LABEL: gpu.func @deterministic_lists_dq(
// CHECK: memref.load %arg4[%{{[^,]*}}, %c0{{[^,]*}}, %[[ROW:[^,]*]], %{{[^,]*}}, %c0{{[_0-9]*}}] : memref<?x1x?x?x4xi32
// CHECK: scf.while
// CHECK: memref.load %arg4[%{{[^,]*}}, %c0{{[^,]*}}, %[[ROW]], %{{[^,]*}}, %c1{{[_0-9]*}}] : memref<?x1x?x?x4xi32
// CHECK: attn_tile.mma mma_sync %d_query_sum
// CHECK-LABEL: gpu.func @deterministic_lists_dkdv(
// CHECK: memref.load %arg4[%{{[^,]*}}, %c0{{[^,]*}}, %{{[^,]*}}, %[[COLUMN:[^,]*]], %c2{{[_0-9]*}}] : memref<?x1x?x?x4xi32
// CHECK: scf.while
// CHECK: memref.load %arg4[%{{[^,]*}}, %c0{{[^,]*}}, %{{[^,]*}}, %[[COLUMN]], %c3{{[_0-9]*}}] : memref<?x1x?x?x4xi32
// CHECK: attn_tile.mma mma_sync %d_value_sum
func.func @deterministic_lists(%q: !q, %lse: !l, %ids: tensor<?x?xi32>, %lists: !lists) -> (!q, !q, !q) {
  %dq = attn.online_attention dq %q, %q, %q, %lse, %lse, %q captures(%ids : tensor<?x?xi32>) block_lists(%lists : !lists)
    blocks(128, 128) schedule(<block_m = 64, block_n = 64, warps = 4>)
    mask(%b: index, %h: index, %i: index, %j: index) {
      %of_query = tensor.extract %ids[%b, %i] : tensor<?x?xi32>
      %of_key = tensor.extract %ids[%b, %j] : tensor<?x?xi32>
      %same = arith.cmpi eq, %of_query, %of_key : i32
      attn.yield %same : i1
    } ranges(%b: index, %h: index, %begin: index, %end: index) {
      %c0 = arith.constant 0 : index
      %n = attn.kv_len %b
      attn.yield_ranges visited(%c0 to %n) masked(%c0 to %n)
    } : (!q, !q, !q, !l, !l, !q) -> !q
  %dk, %dv = attn.online_attention dkdv %q, %q, %q, %lse, %lse, %q captures(%ids : tensor<?x?xi32>) block_lists(%lists : !lists)
    blocks(128, 128) schedule(<block_m = 64, block_n = 64, warps = 4>)
    mask(%b: index, %h: index, %i: index, %j: index) {
      %of_query = tensor.extract %ids[%b, %i] : tensor<?x?xi32>
      %of_key = tensor.extract %ids[%b, %j] : tensor<?x?xi32>
      %same = arith.cmpi eq, %of_query, %of_key : i32
      attn.yield %same : i1
    } ranges(%b: index, %h: index, %begin: index, %end: index) {
      %c0 = arith.constant 0 : index
      %n = attn.q_len %b
      attn.yield_ranges visited(%c0 to %n) masked(%c0 to %n)
    } : (!q, !q, !q, !l, !l, !q) -> (!q, !q)
  return %dq, %dk, %dv : !q, !q, !q
}

// -----

// Products of f32 in tf32 where it is asked for.
!t = tensor<1x1x?x64xf32>
!l = tensor<1x1x?xf32>
// CHECK-LABEL: gpu.func @rounded_forward(
// CHECK: attn_tile.mma mma_sync_tf32 %scores
// CHECK: attn_tile.mma mma_sync_tf32 %output
// CHECK-LABEL: gpu.func @rounded_fused(
// CHECK-COUNT-5: attn_tile.mma mma_sync_tf32
// CHECK-LABEL: gpu.func @exact_forward(
// CHECK-COUNT-2: attn_tile.mma fma
func.func @rounded(%q: !t, %lse: !l) -> (!t, !l, !t, !t, !t) {
  %out, %new_lse = attn.online_attention forward %q, %q, %q schedule(<block_m = 64, block_n = 64, warps = 4>) {tf32} : (!t, !t, !t) -> (!t, !l)
  %d:3 = attn.online_attention fused %q, %q, %q, %lse, %lse, %q schedule(<block_m = 64, block_n = 64, warps = 4>) {tf32}
    : (!t, !t, !t, !l, !l, !t) -> (!t, !t, !t)
  return %out, %new_lse, %d#0, %d#1, %d#2 : !t, !l, !t, !t, !t
}
func.func @exact(%q: !t) -> !t {
  %out, %lse = attn.online_attention forward %q, %q, %q schedule(<block_m = 64, block_n = 64, warps = 4>) : (!t, !t, !t) -> (!t, !l)
  return %out : !t
}
