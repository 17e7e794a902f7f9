// RUN: attn-opt %s --attn-lower-online --canonicalize --cse | FileCheck %s
// RUN: attn-opt %s --attn-to-cpu-pipeline -o /dev/null

!q = tensor<1x4x?x4xf32>
!k = tensor<1x2x?x4xf32>
!l = tensor<1x4x?xf32>
#tile = #attn.schedule<block_m = 8, block_n = 6, vector_length = 4, register_rows = 2, register_vectors = 2>

//===----------------------------------------------------------------------===//
// Loops and tiles
//===----------------------------------------------------------------------===//

// One parallel loop over the blocks of 8 queries of 4 heads, the last block first. Two query heads read one key head.
// CHECK-LABEL: func @loops(
// CHECK-SAME: %[[Q:.*]]: tensor<1x4x?x4xf32>, %[[K:.*]]: tensor<1x2x?x4xf32>)
// CHECK: %[[KEYS:.*]] = bufferization.to_buffer %[[K]] read_only : tensor<1x2x?x4xf32> to memref<1x2x?x4xf32, strided<[?, ?, ?, 1], offset: ?>>
// CHECK: %[[Q_LEN:.*]] = tensor.dim %[[Q]], %c2
// CHECK: %[[KV_LEN:.*]] = tensor.dim %[[K]], %c2
// CHECK: %[[OUT:.*]] = memref.alloc(%[[Q_LEN]]) : memref<1x4x?x4xf32>
// CHECK: %[[LSE:.*]] = memref.alloc(%[[Q_LEN]]) : memref<1x4x?xf32>
// CHECK: %[[BLOCKS:.*]] = arith.ceildivsi %[[Q_LEN]], %c8
// CHECK: %[[ITEMS:.*]] = arith.muli %[[BLOCKS]], %c4
// CHECK: scf.forall (%[[ITEM:.*]]) in (%[[ITEMS]]) {
// CHECK: %[[FROM_LAST:.*]] = arith.remsi %[[ITEM]], %[[BLOCKS]]
// CHECK: %[[HEADS:.*]] = arith.divsi %[[ITEM]], %[[BLOCKS]]
// CHECK: %[[HEAD:.*]] = arith.remsi %[[HEADS]], %c4
// CHECK: %[[LAST:.*]] = arith.subi %[[BLOCKS]], %c1
// CHECK: %[[BLOCK:.*]] = arith.subi %[[LAST]], %[[FROM_LAST]]
// CHECK: %[[BEGIN:.*]] = arith.muli %[[BLOCK]], %c8
// CHECK: %[[LEFT:.*]] = arith.subi %[[Q_LEN]], %[[BEGIN]]
// CHECK: %[[COUNT:.*]] = arith.minsi %[[LEFT]], %c8
// CHECK: %[[KV_HEAD:.*]] = arith.divsi %[[HEAD]], %c2

// The causal ranges bound the loop over blocks of 6 keys, which packs each block once.
// CHECK: %[[END:.*]] = arith.addi %[[BEGIN]], %[[COUNT]]
// CHECK: %[[FIRST_MASKED:.*]] = arith.addi %[[BEGIN]], %c1
// CHECK: %[[HULL_END:.*]] = arith.maxsi %[[END]], %c0
// CHECK: %[[KEY_END:.*]] = arith.minsi %[[KV_LEN]], %[[HULL_END]]
// CHECK: scf.for %[[KEY_BLOCK:.*]] = %{{.*}} to %[[KEY_END]] step %c6 {
// CHECK: %[[KEYS_LEFT:.*]] = arith.subi %[[KEY_END]], %[[KEY_BLOCK]]
// CHECK: %[[KEY_COUNT:.*]] = arith.minsi %[[KEYS_LEFT]], %c6
// CHECK: %[[MASKED_BEGIN:.*]] = arith.maxsi %[[FIRST_MASKED]], %[[KEY_BLOCK]]
// CHECK: %[[MASKED_END:.*]] = arith.minsi %[[KV_LEN]],
// CHECK: %[[MASKED:.*]] = arith.cmpi slt, %[[MASKED_BEGIN]], %[[MASKED_END]]
// CHECK: vector.load %[[KEYS]][%{{.*}}, %[[KV_HEAD]], %{{.*}}, %c0] : {{.*}}, vector<4xf32>

// q k^T: two rows of two vectors of accumulators stay in registers over the whole head dimension.
// CHECK: scf.for %{{.*}} step %c2 {
// CHECK: scf.for %[[D:.*]] = %c0 to %c4 step %c1 iter_args(%[[A:.*]] = %{{.*}}, %[[B:.*]] = %{{.*}}, %[[C:.*]] = %{{.*}}, %[[E:.*]] = %{{.*}}) ->
// CHECK: vector.fma %[[X:.*]], %[[U:.*]], %[[A]]
// CHECK: vector.fma %[[X]], %[[V:.*]], %[[B]]
// CHECK: vector.fma %[[Y:.*]], %[[U]], %[[C]]
// CHECK: vector.fma %[[Y]], %[[V]], %[[E]]

// The mask is evaluated where the block meets a masked range, for a vector of queries and one key at a time.
// CHECK: scf.if %[[MASKED]] {
// CHECK: %[[STEP:.*]] = vector.step
// CHECK: %[[QUERIES:.*]] = arith.minsi %{{.*}}, %{{.*}} : vector<4xi32>
// CHECK: %[[MAX:.*]] = scf.for %{{.*}} = %c0 to %[[KEY_COUNT]] step %c1
// CHECK: %[[SCALED:.*]] = arith.mulf %{{.*}} : vector<4xf32>
// CHECK: %[[KEEP:.*]] = arith.cmpi sle, %{{.*}}, %[[QUERIES]] : vector<4xi32>
// CHECK: arith.select %[[KEEP]], %[[SCALED]], %{{.*}} : vector<4xi1>, vector<4xf32>
// CHECK: arith.cmpf ogt
// CHECK: scf.yield

// A row without a key so far is shifted by 0, not by -inf.
// CHECK: %[[NONE:.*]] = arith.cmpf oeq, %[[MAX]], %{{.*}}
// CHECK: %[[SHIFT:.*]] = arith.select %[[NONE]], %{{.*}}, %[[MAX]]
// CHECK: %[[CHANGE:.*]] = arith.subf %{{.*}}, %[[SHIFT]]
// CHECK: math.exp %[[CHANGE]]
// CHECK: arith.subf %{{.*}}, %[[SHIFT]]
// CHECK: math.exp

// Full blocks do not evaluate it.
// CHECK: } else {
// CHECK-NOT: arith.cmpi
// CHECK: math.exp
// CHECK-NOT: arith.cmpi

// p v: the sum over a block is added to the rescaled output.
// CHECK: %[[SUMS:.*]]:4 = scf.for %{{.*}} = %c0 to %[[KEY_COUNT]] step %c1 iter_args(
// CHECK-COUNT-4: vector.fma
// CHECK: scf.yield
// CHECK: %[[OLD:.*]] = vector.load
// CHECK: %[[RESCALE:.*]] = vector.load
// CHECK: %[[NEW:.*]] = vector.fma %[[OLD]], %[[RESCALE]], %[[SUMS]]#0
// CHECK: vector.store %[[NEW]]

// Rows without any key have out = 0 and lse = -inf.
// CHECK: %[[EMPTY:.*]] = arith.cmpf oeq
// CHECK: arith.divf
// CHECK: arith.select %[[EMPTY]], %cst{{.*}}, %{{.*}}
// CHECK: %[[LOG:.*]] = math.log
// CHECK: %[[ROW_LSE:.*]] = arith.addf %{{.*}}, %[[LOG]]
// CHECK: arith.select %[[EMPTY]], %cst{{.*}}, %[[ROW_LSE]]
// CHECK: memref.store %{{.*}}, %[[OUT]][
// CHECK: memref.store %{{.*}}, %[[LSE]][
// CHECK-NOT: scf.forall
// CHECK: bufferization.to_tensor %[[OUT]] restrict writable
// CHECK: bufferization.to_tensor %[[LSE]] restrict writable
func.func @loops(%q: !q, %k: !k) -> (!q, !l) {
  %out, %lse = attn.online_attention forward %q, %k, %k scale(0.5) schedule(#tile)
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %keep = arith.cmpi sle, %kv_idx, %q_idx : index
      attn.yield %keep : i1
    } ranges(%b: index, %h: index, %begin: index, %end: index) {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %first = arith.addi %begin, %c1 : index
      %kv_len = attn.kv_len %b
      attn.yield_ranges visited(%c0 to %end) masked(%first to %kv_len)
    } : (!q, !k, !k) -> (!q, !l)
  return %out, %lse : !q, !l
}

// Several visited ranges: the loop runs over their hull (an empty one left out), and skips the blocks between them.
// CHECK-LABEL: func @two_ranges(
// CHECK: scf.forall
// CHECK: %[[NO_SINK:.*]] = arith.cmpi sle, %{{.*}}, %c0
// CHECK: arith.select %[[NO_SINK]]
// CHECK: arith.select %[[NO_SINK]]
// CHECK: %[[NO_WINDOW:.*]] = arith.cmpi sge
// CHECK: %[[HULL_BEGIN:.*]] = arith.select %[[NO_WINDOW]]
// CHECK: %[[HULL_END:.*]] = arith.select %[[NO_WINDOW]]
// CHECK: scf.for %{{.*}} step %c6 {
// CHECK: arith.cmpi slt
// CHECK: arith.cmpi slt
// CHECK: %[[MEETS:.*]] = arith.ori
// CHECK: scf.if %[[MEETS]] {
// CHECK: vector.fma
func.func @two_ranges(%q: !q, %k: !k, %sink: index, %window: index) -> !q {
  %out, %lse = attn.online_attention forward %q, %k, %k captures(%sink : index, %window : index) schedule(#tile)
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %distance = arith.subi %q_idx, %kv_idx : index
      %near = arith.cmpi sle, %distance, %window : index
      %early = arith.cmpi slt, %kv_idx, %sink : index
      %keep = arith.ori %near, %early : i1
      attn.yield %keep : i1
    } ranges(%b: index, %h: index, %begin: index, %end: index) {
      %c0 = arith.constant 0 : index
      %kv_len = attn.kv_len %b
      %first = arith.subi %begin, %window : index
      attn.yield_ranges visited(%c0 to %sink, %first to %kv_len) masked(%sink to %end)
    } : (!q, !k, !k) -> (!q, !l)
  return %out : !q
}

// Inexact ranges: where a block meets a masked one, the mask is evaluated up to the first pair that it keeps; without one the block is skipped.
// CHECK-LABEL: func @inexact(
// CHECK: scf.for %[[BEGIN:.*]] = %{{.*}} to %{{.*}} step %c6 {
// CHECK: %[[END:.*]] = arith.addi %[[BEGIN]],
// CHECK: %[[VISITED:.*]] = scf.if %{{.*}} -> (i1) {
// CHECK: %[[ANY:.*]]:2 = scf.while (%[[QUERY:.*]] = %{{.*}}, %[[FOUND:.*]] = %false) : (index, i1) -> (index, i1) {
// CHECK: %[[INSIDE:.*]] = arith.cmpi slt, %[[QUERY]],
// CHECK: %[[OPEN:.*]] = arith.xori %[[FOUND]], %true
// CHECK: %[[GO_ON:.*]] = arith.andi %[[INSIDE]], %[[OPEN]]
// CHECK: scf.condition(%[[GO_ON]]) %[[QUERY]], %[[FOUND]]
// CHECK: %[[IN_ROWS:.*]]:2 = scf.while (%[[KEY:.*]] = %[[BEGIN]], %{{.*}} = %false)
// CHECK: arith.cmpi slt, %[[KEY]], %[[END]]
// CHECK: %[[KEEP:.*]] = arith.cmpi eq, {{.*}} : vector<4xi32>
// CHECK: %[[KEEPS:.*]] = vector.reduction <or>, %[[KEEP]]
// CHECK: scf.yield %{{.*}}, %[[KEEPS]]
// CHECK: scf.yield %{{.*}}, %[[IN_ROWS]]#1
// CHECK: scf.yield %[[ANY]]#1
// CHECK: } else {
// CHECK: scf.yield %true
// CHECK: scf.if %[[VISITED]] {
// CHECK: vector.fma
func.func @inexact(%q: !q, %k: !k, %documents: tensor<?xi32>) -> !q {
  %out, %lse = attn.online_attention forward %q, %k, %k captures(%documents : tensor<?xi32>) schedule(#tile)
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %of_query = tensor.extract %documents[%q_idx] : tensor<?xi32>
      %of_key = tensor.extract %documents[%kv_idx] : tensor<?xi32>
      %keep = arith.cmpi eq, %of_query, %of_key : i32
      attn.yield %keep : i1
    } ranges(%b: index, %h: index, %begin: index, %end: index) {
      %c0 = arith.constant 0 : index
      %kv_len = attn.kv_len %b
      attn.yield_ranges inexact visited(%c0 to %kv_len) masked(%begin to %kv_len)
    } : (!q, !k, !k) -> (!q, !l)
  return %out : !q
}

// The part p of 3 covers the keys [p * ceil(kv_len / 3), (p + 1) * ceil(kv_len / 3)), and writes to its own slice.
// CHECK-LABEL: func @split(
// CHECK: %[[KV_LEN:.*]] = tensor.dim %{{.*}}, %c2 : tensor<1x2x?x4xf32>
// CHECK: %[[OUT:.*]] = memref.alloc(%{{.*}}) : memref<3x1x4x?x4xf32>
// CHECK: scf.forall (%[[ITEM:.*]]) in
// CHECK: %[[PART:.*]] = arith.remsi %[[ITEM]], %c3
// CHECK: %[[SIZE:.*]] = arith.ceildivsi %[[KV_LEN]], %c3
// CHECK: %[[BEGIN:.*]] = arith.muli %[[PART]], %[[SIZE]]
// CHECK: %[[SUM:.*]] = arith.addi %[[BEGIN]], %[[SIZE]]
// CHECK: %[[END:.*]] = arith.minsi %[[SUM]], %[[KV_LEN]]
// CHECK: scf.for %{{.*}} = %[[BEGIN]] to %[[END]] step %c6
// CHECK: %[[OUT_PART:.*]] = memref.subview %[[OUT]][%[[PART]], 0, 0, 0, 0] [1, 1, 4, %{{.*}}, 4]
// CHECK: memref.store %{{.*}}, %[[OUT_PART]][
func.func @split(%q: !q, %k: !k) -> tensor<3x1x4x?x4xf32> {
  %parts:2 = attn.online_attention forward %q, %k, %k schedule(<block_m = 8, block_n = 6, kv_splits = 3, vector_length = 4,
                                                               register_rows = 2, register_vectors = 2>)
    : (!q, !k, !k) -> (tensor<3x1x4x?x4xf32>, tensor<3x1x4x?xf32>)
  return %parts#0 : tensor<3x1x4x?x4xf32>
}

// The number of parts is known, also where the type does not say it.
// CHECK-LABEL: func @split_dynamic(
// CHECK: memref.alloc(%{{.*}}) : memref<3x1x4x?x4xf32>
func.func @split_dynamic(%q: !q, %k: !k) -> tensor<?x1x4x?x4xf32> {
  %parts:2 = attn.online_attention forward %q, %k, %k schedule(<block_m = 8, block_n = 6, kv_splits = 3>)
    : (!q, !k, !k) -> (tensor<?x1x4x?x4xf32>, tensor<?x1x4x?xf32>)
  return %parts#0 : tensor<?x1x4x?x4xf32>
}

// Halves are widened as they are packed and rounded once, as the output is stored. A head dimension that is no multiple
// of a vector or of a register tile has a scalar rest, and tiles padded with zeros.
// CHECK-LABEL: func @half(
// CHECK: scf.forall
// CHECK: memref.alloca() {{.*}} : memref<5x8xf32>
// CHECK: memref.alloca() {{.*}} : memref<6x6xf32>
// CHECK: vector.load {{.*}}, vector<4xf16>
// CHECK: arith.extf %{{.*}} : vector<4xf16> to vector<4xf32>
// CHECK: arith.extf %{{.*}} : f16 to f32
// CHECK: vector.fma %{{.*}} : vector<4xf32>
// CHECK: arith.truncf %{{.*}} : f32 to f16
// CHECK-NOT: arith.truncf
func.func @half(%q: tensor<1x1x?x5xf16>) -> (tensor<1x1x?x5xf16>, tensor<1x1x?xf32>) {
  %out, %lse = attn.online_attention forward %q, %q, %q schedule(#tile)
    : (tensor<1x1x?x5xf16>, tensor<1x1x?x5xf16>, tensor<1x1x?x5xf16>) -> (tensor<1x1x?x5xf16>, tensor<1x1x?xf32>)
  return %out, %lse : tensor<1x1x?x5xf16>, tensor<1x1x?xf32>
}

// Dynamic heads: the size of a group is computed, never a division by zero.
// CHECK-LABEL: func @dynamic(
// CHECK-SAME: %[[Q:.*]]: tensor<?x?x?x4xf32>, %[[K:.*]]: tensor<?x?x?x4xf32>)
// CHECK: %[[KV_HEADS:.*]] = tensor.dim %[[K]], %c1
// CHECK: %[[AT_LEAST_ONE:.*]] = arith.maxsi %[[KV_HEADS]], %c1
// CHECK: arith.divsi %{{.*}}, %[[AT_LEAST_ONE]]
// CHECK: memref.alloc(%{{.*}}, %{{.*}}, %{{.*}}) : memref<?x?x?x4xf32>
// CHECK: scf.forall
func.func @dynamic(%q: tensor<?x?x?x4xf32>, %k: tensor<?x?x?x4xf32>) -> tensor<?x?x?x4xf32> {
  %out, %lse = attn.online_attention forward %q, %k, %k schedule(#tile)
    : (tensor<?x?x?x4xf32>, tensor<?x?x?x4xf32>, tensor<?x?x?x4xf32>) -> (tensor<?x?x?x4xf32>, tensor<?x?x?xf32>)
  return %out : tensor<?x?x?x4xf32>
}

//===----------------------------------------------------------------------===//
// Regions
//===----------------------------------------------------------------------===//

// What depends on the head alone is read once a block, what depends on the query once a vector of queries, both before
// the loop over keys. What is hoisted may be unwanted, so its reads stay within the captured tensor.
// CHECK-LABEL: func @levels(
// CHECK-SAME: %[[SLOPES:[^:]*]]: tensor<?xf32>, %[[ROWS:[^:]*]]: tensor<?xf32>, %[[COLUMNS:[^:]*]]: tensor<?xf32>, %[[BIAS:[^:]*]]: tensor<?x?xf32>)
// CHECK: scf.forall
// CHECK: %[[SIZE:.*]] = tensor.dim %[[SLOPES]], %c0
// CHECK: %[[LAST:.*]] = arith.subi %[[SIZE]], %c1
// CHECK: %[[UPPER:.*]] = arith.minsi %{{.*}}, %[[LAST]]
// CHECK: %[[SAFE:.*]] = arith.maxsi %[[UPPER]], %c0
// CHECK: %[[SLOPE:.*]] = tensor.extract %[[SLOPES]][%[[SAFE]]]
// CHECK: vector.fma
// The read by query: a gather, clamped too.
// CHECK: tensor.dim %[[ROWS]], %c0
// CHECK: arith.minsi {{.*}} : vector<4xi32>
// CHECK: arith.maxsi {{.*}} : vector<4xi32>
// CHECK: %[[ROW:.*]] = vector.gather
// CHECK: scf.for
// The read by key is one element for all queries, and stands where it is wanted. The read by both is a gather with
// 64-bit offsets from the strides.
// CHECK: %[[COLUMN:.*]] = tensor.extract %[[COLUMNS]][%[[KEY:.*]]] : tensor<?xf32>
// CHECK: arith.index_cast %{{.*}} : vector<4xi32> to vector<4xindex>
// CHECK: %[[OFFSETS:.*]] = arith.muli %{{.*}} : vector<4xindex>
// CHECK: memref.reinterpret_cast %{{.*}} to offset: [%{{.*}}], sizes: [2147483647], strides: [1]
// CHECK: %[[ELEMENT:.*]] = vector.gather %{{.*}}[%c0] [%[[OFFSETS]]],
// CHECK-DAG: vector.broadcast %[[SLOPE]] : f32 to vector<4xf32>
// CHECK-DAG: vector.broadcast %[[COLUMN]] : f32 to vector<4xf32>
// CHECK: arith.cmpf ogt
func.func @levels(%q: !q, %k: !k, %slopes: tensor<?xf32>, %rows: tensor<?xf32>, %columns: tensor<?xf32>,
                  %bias: tensor<?x?xf32>) -> !q {
  %out, %lse = attn.online_attention forward %q, %k, %k
    captures(%slopes : tensor<?xf32>, %rows : tensor<?xf32>, %columns : tensor<?xf32>, %bias : tensor<?x?xf32>)
    schedule(#tile) score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %slope = tensor.extract %slopes[%h] : tensor<?xf32>
      %row = tensor.extract %rows[%q_idx] : tensor<?xf32>
      %column = tensor.extract %columns[%kv_idx] : tensor<?xf32>
      %element = tensor.extract %bias[%q_idx, %kv_idx] : tensor<?x?xf32>
      %0 = arith.mulf %s, %slope : f32
      %1 = arith.addf %0, %row : f32
      %2 = arith.addf %1, %column : f32
      %3 = arith.addf %2, %element : f32
      attn.yield %3 : f32
    } : (!q, !k, !k) -> (!q, !l)
  return %out : !q
}

// A score under a mask is evaluated for dropped pairs too: there the read by key is clamped.
// CHECK-LABEL: func @clamped_under_mask(
// CHECK-SAME: %[[COLUMNS:[^:]*]]: tensor<?xf32>)
// CHECK: scf.if
// CHECK: %[[SIZE:.*]] = tensor.dim %[[COLUMNS]], %c0
// CHECK: %[[LAST:.*]] = arith.subi %[[SIZE]], %c1
// CHECK: %[[UPPER:.*]] = arith.minsi %{{.*}}, %[[LAST]]
// CHECK: %[[SAFE:.*]] = arith.maxsi %[[UPPER]], %c0
// CHECK: tensor.extract %[[COLUMNS]][%[[SAFE]]]
func.func @clamped_under_mask(%q: !q, %k: !k, %columns: tensor<?xf32>) -> !q {
  %out, %lse = attn.online_attention forward %q, %k, %k captures(%columns : tensor<?xf32>) schedule(#tile)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %column = tensor.extract %columns[%kv_idx] : tensor<?xf32>
      %0 = arith.addf %s, %column : f32
      attn.yield %0 : f32
    } mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %keep = arith.cmpi sle, %kv_idx, %q_idx : index
      attn.yield %keep : i1
    } ranges(%b: index, %h: index, %begin: index, %end: index) {
      %c0 = arith.constant 0 : index
      attn.yield_ranges visited(%c0 to %end) masked(%begin to %end)
    } : (!q, !k, !k) -> (!q, !l)
  return %out : !q
}

// A branch on what all lanes agree on stays a branch.
// CHECK-LABEL: func @uniform_if(
// CHECK: %[[CONDITION:.*]] = arith.cmpi eq, %{{.*}} : i32
// CHECK: scf.if %[[CONDITION]] -> (vector<4xf32>) {
// CHECK: math.tanh %{{.*}} : vector<4xf32>
// CHECK: } else {
// CHECK: arith.negf %{{.*}} : vector<4xf32>
func.func @uniform_if(%q: !q, %k: !k) -> !q {
  %out, %lse = attn.online_attention forward %q, %k, %k schedule(#tile)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %first = arith.cmpi eq, %h, %kv_idx : index
      %r = scf.if %first -> f32 {
        %t = math.tanh %s : f32
        scf.yield %t : f32
      } else {
        %n = arith.negf %s : f32
        scf.yield %n : f32
      }
      attn.yield %r : f32
    } : (!q, !k, !k) -> (!q, !l)
  return %out : !q
}

// A branch on what differs becomes selects. What it guarded is evaluated for all lanes: reads are clamped, and a divisor
// that may be 0, or -1 under the least integer, becomes 1.
// CHECK-LABEL: func @varying_if(
// CHECK-SAME: %[[TABLE:[^:]*]]: tensor<?xf32>, %[[DIVISOR:[^:]*]]: i32)
// CHECK-DAG: %[[LEAST:.*]] = arith.constant dense<-2147483648> : vector<4xi32>
// CHECK-DAG: %[[MINUS_ONE:.*]] = arith.constant dense<-1> : vector<4xi32>
// CHECK-DAG: %[[ZERO:.*]] = arith.constant dense<0> : vector<4xi32>
// CHECK: %[[DIAGONAL:.*]] = arith.cmpi eq, %{{.*}} : vector<4xi32>
// CHECK-NOT: scf.if
// CHECK-DAG: %[[IS_ZERO:.*]] = arith.cmpi eq, %{{.*}}, %[[ZERO]] : vector<4xi32>
// CHECK-DAG: %[[IS_MINUS_ONE:.*]] = arith.cmpi eq, %{{.*}}, %[[MINUS_ONE]] : vector<4xi32>
// CHECK-DAG: %[[IS_LEAST:.*]] = arith.cmpi eq, %{{.*}}, %[[LEAST]] : vector<4xi32>
// CHECK-DAG: %[[OVERFLOWS:.*]] = arith.andi %[[IS_MINUS_ONE]], %[[IS_LEAST]] : vector<4xi1>
// CHECK-DAG: %[[TRAPS:.*]] = arith.ori %[[IS_ZERO]], %[[OVERFLOWS]] : vector<4xi1>
// CHECK-DAG: %[[SAFE_DIVISOR:.*]] = arith.select %[[TRAPS]], %{{.*}}, %{{.*}} : vector<4xi1>, vector<4xi32>
// CHECK: arith.divsi %{{.*}}, %[[SAFE_DIVISOR]] : vector<4xi32>
// CHECK: arith.minsi
// CHECK: arith.maxsi
// CHECK: %[[READ:.*]] = vector.gather
// CHECK: %[[SUM:.*]] = arith.addf %{{.*}}, %[[READ]]
// CHECK: arith.select %[[DIAGONAL]], %[[SUM]], %{{.*}} : vector<4xi1>, vector<4xf32>
func.func @varying_if(%q: !q, %k: !k, %table: tensor<?xf32>, %divisor: i32) -> !q {
  %out, %lse = attn.online_attention forward %q, %k, %k captures(%table : tensor<?xf32>, %divisor : i32) schedule(#tile)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %diagonal = arith.cmpi eq, %q_idx, %kv_idx : index
      %r = scf.if %diagonal -> f32 {
        %i = arith.index_cast %q_idx : index to i32
        %j = arith.index_cast %kv_idx : index to i32
        %d = arith.muli %j, %divisor : i32
        %ratio = arith.divsi %i, %d : i32
        %position = arith.index_cast %ratio : i32 to index
        %x = tensor.extract %table[%position] : tensor<?xf32>
        %y = arith.addf %s, %x : f32
        scf.yield %y : f32
      } else {
        scf.yield %s : f32
      }
      attn.yield %r : f32
    } : (!q, !k, !k) -> (!q, !l)
  return %out : !q
}

// Indices are 32 bits wide in vectors. A captured limit that does not fit is saturated, so that "no limit" stays one.
// CHECK-LABEL: func @saturated(
// CHECK-SAME: %[[LIMIT:[^:]*]]: index)
// CHECK: %[[AT_LEAST:.*]] = arith.maxsi %[[LIMIT]], %c-2147483648
// CHECK: %[[BOTH:.*]] = arith.minsi %[[AT_LEAST]], %c2147483647
// CHECK: %[[NARROW:.*]] = arith.index_cast %[[BOTH]] : index to i32
// CHECK: %[[LIMITS:.*]] = vector.broadcast %[[NARROW]] : i32 to vector<4xi32>
// CHECK: arith.cmpi slt, %{{.*}}, %[[LIMITS]] : vector<4xi32>
func.func @saturated(%q: !q, %k: !k, %limit: index) -> !q {
  %out, %lse = attn.online_attention forward %q, %k, %k captures(%limit : index) schedule(#tile)
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %distance = arith.subi %q_idx, %kv_idx : index
      %keep = arith.cmpi slt, %distance, %limit : index
      attn.yield %keep : i1
    } ranges(%b: index, %h: index, %begin: index, %end: index) {
      %c0 = arith.constant 0 : index
      %kv_len = attn.kv_len %b
      attn.yield_ranges visited(%c0 to %kv_len) masked(%c0 to %kv_len)
    } : (!q, !k, !k) -> (!q, !l)
  return %out : !q
}

// Operations of the index dialect have no vector form; they become those of arith.
// CHECK-LABEL: func @index_dialect(
// CHECK: arith.subi %{{.*}} : vector<4xi32>
// CHECK: arith.floordivsi %{{.*}} : vector<4xi32>
// CHECK: arith.cmpi ult, %{{.*}} : vector<4xi32>
// CHECK: arith.extsi %{{.*}} : vector<4xi32> to vector<4xi64>
// CHECK: arith.sitofp %{{.*}} : vector<4xi64> to vector<4xf32>
func.func @index_dialect(%q: !q, %k: !k) -> !q {
  %out, %lse = attn.online_attention forward %q, %k, %k schedule(#tile)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %c3 = index.constant 3
      %distance = index.sub %q_idx, %kv_idx
      %chunk = index.floordivs %distance, %c3
      %near = index.cmp ult(%chunk, %q_idx)
      %wide = index.casts %chunk : index to i64
      %f = arith.sitofp %wide : i64 to f32
      %r = arith.select %near, %f, %s : f32
      attn.yield %r : f32
    } : (!q, !k, !k) -> (!q, !l)
  return %out : !q
}

// The lengths are those of the tensors.
// CHECK-LABEL: func @lengths(
// CHECK-SAME: %[[Q:.*]]: tensor<1x4x?x4xf32>, %[[K:.*]]: tensor<1x2x?x4xf32>)
// CHECK-DAG: %[[Q_LEN:.*]] = tensor.dim %[[Q]], %c2
// CHECK-DAG: %[[KV_LEN:.*]] = tensor.dim %[[K]], %c2
// CHECK: scf.forall
// CHECK-DAG: %[[KV_LEN32:.*]] = arith.index_cast %[[KV_LEN]] : index to i32
// CHECK-DAG: %[[Q_LEN32:.*]] = arith.index_cast %[[Q_LEN]] : index to i32
// CHECK: arith.subi %[[KV_LEN32]], %[[Q_LEN32]]
func.func @lengths(%q: !q, %k: !k) -> !q {
  %out, %lse = attn.online_attention forward %q, %k, %k schedule(#tile)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %q_len = attn.q_len %b
      %kv_len = attn.kv_len %b
      %offset = arith.subi %kv_len, %q_len : index
      %i = arith.index_cast %offset : index to i32
      %f = arith.sitofp %i : i32 to f32
      %r = arith.addf %s, %f : f32
      attn.yield %r : f32
    } : (!q, !k, !k) -> (!q, !l)
  return %out : !q
}

// q k over more than 32 elements is summed in parts: here 32, 32 and 8.
// CHECK-LABEL: func @parts(
// CHECK: %[[FIRST:.*]]:4 = scf.for %{{.*}} = %c0 to %c32 step %c1 iter_args(
// CHECK: vector.store %[[FIRST]]#0
// CHECK: scf.for %[[BEGIN:.*]] = %c32 to %c72 step %c32
// CHECK: %[[NEXT:.*]] = arith.addi %[[BEGIN]], %c32
// CHECK: %[[END:.*]] = arith.minsi %[[NEXT]], %c72
// CHECK: %[[SECOND:.*]]:4 = scf.for %{{.*}} = %[[BEGIN]] to %[[END]] step %c1 iter_args(
// CHECK: scf.yield
// CHECK: %[[OLD:.*]] = vector.load
// CHECK: arith.addf %[[OLD]], %[[SECOND]]#0
func.func @parts(%q: tensor<1x1x?x72xf32>) -> tensor<1x1x?x72xf32> {
  %out, %lse = attn.online_attention forward %q, %q, %q schedule(#tile)
    : (tensor<1x1x?x72xf32>, tensor<1x1x?x72xf32>, tensor<1x1x?x72xf32>) -> (tensor<1x1x?x72xf32>, tensor<1x1x?xf32>)
  return %out : tensor<1x1x?x72xf32>
}
