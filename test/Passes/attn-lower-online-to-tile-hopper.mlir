// RUN: attn-opt %s --split-input-file --attn-set-target=arch=sm_90a --attn-plan --attn-lower-online-to-tile | FileCheck %s
// RUN: attn-opt %s --split-input-file --attn-set-target=arch=sm_90a --attn-plan --attn-lower-online-to-tile --mlir-use-nameloc-as-prefix | FileCheck %s --check-prefix=BLOCKS
// RUN: attn-opt %s --split-input-file --attn-set-target=arch=sm_90a --attn-plan=exact-maximum=true --attn-lower-online-to-tile | FileCheck %s --check-prefix=EXACT

// The forward of the hopper family: a producer, consumers, and for a fixed maximum a kernel that repairs.

!q = tensor<?x16x?x128xbf16>
!k = tensor<?x4x?x128xbf16>
!l = tensor<?x16x?xf32>

// CHECK-LABEL: func @causal(
// CHECK:      memref.alloc() {attn_tile.left_zero} : memref<2xi32>
// CHECK:      attn_tile.tensor_map {{.*}} to <128x64xbf16>
// CHECK:      gpu.launch_func @causal_forward::@causal_forward blocks in {{.*}} threads in (%c384
// CHECK:      gpu.launch_func @causal_forward_repair::@causal_forward_repair blocks in {{.*}} threads in (%c256

// CHECK-LABEL: gpu.func @causal_forward(
// CHECK-SAME: #attn_tile.kernel<warps = 12
// CHECK:      attn_tile.divisor
// CHECK:      attn_tile.warp_specialize consumers(2) registers(232) {
// CHECK:      attn_tile.open_turns
// CHECK:      attn_tile.divide
// Every tile has a slot of queries, for its output.
// CHECK:      %query_tile = attn_tile.pipeline_wait %queries
// The first block: a masked one where there is one. Its maximum is exact.
// CHECK:      scf.if
// CHECK:        attn_tile.mma wgmma %scores, %query_tile, %key_tile transpose_b overwrite
// CHECK:        attn_tile.mma_wait pending(0) %scores
// CHECK-NEXT:   attn_tile.pipeline_release %keys
// CHECK:        scf.if
// CHECK:          arith.cmpi sle
// CHECK:        attn_tile.row_reduce max %scores into %block_max
// CHECK:        attn_tile.convert %scores to %probabilities
// Of the blocks that a tile visits one is masked, the first: no loop is for others.
// CHECK-NOT:    row_reduce max
// Full blocks: no mask, no maximum, nothing to rescale.
// CHECK:        attn_tile.map outs(%row_max, %row_shift
// CHECK:        scf.while
// CHECK:          attn_tile.mma_wait pending(1) %scores
// CHECK-NEXT:     attn_tile.pipeline_release %keys
// CHECK-NOT:      arith.cmpi sle
// CHECK-NOT:      row_reduce max
// CHECK-NOT:      attn_tile.any
// CHECK:          attn_tile.convert %scores to %probabilities
// CHECK:          scf.yield
// The output of the last block. The lse of a row that has to be computed again is no number: where the output is
// not finite, or where scores outgrew the maximum.
// CHECK-NOT:    attn_tile.pipeline_release %queries
// CHECK:        attn_tile.mma wgmma %output, %probabilities
// CHECK:        attn_tile.mma_wait pending(0) %output, %probabilities
// CHECK:      attn_tile.row_reduce add %output into %row_check
// The output goes where the queries were.
// CHECK:      attn_tile.store_panels %output to %queries
// CHECK-NEXT: attn_tile.pipeline_release %queries : <2x128x128xbf16, 2, stored>
// CHECK:      attn_tile.map ins(%row_check, %row_sum, %row_shift
// CHECK:      arith.constant 0x7FC00000 : f32
// Whether there is such a row is noted in one word, at which the kernel that repairs looks first.
// CHECK:      attn_tile.any ins(%row_max
// CHECK:      scf.if
// CHECK:        memref.store %c1_i32{{.*}}, %{{.*}}[%c1{{.*}}] : memref<2xi32
// CHECK:      attn_tile.store_rows %row_max
// Under a mask tiles are drawn from a counter, when the last values of the last one are to be loaded.
// CHECK:      attn_tile.work_take %tiles
// Queries, keys, and then the keys of each block before the values of the last one.
// CHECK:      } producer registers(40) {
// CHECK:        attn_tile.pipeline_acquire %queries
// CHECK:        attn_tile.pipeline_acquire %keys
// CHECK:        scf.while
// CHECK:          attn_tile.pipeline_acquire %keys
// CHECK-NEXT:     attn_tile.copy_bulk
// CHECK-NEXT:     attn_tile.pipeline_commit %keys
// CHECK-NEXT:     attn_tile.pipeline_acquire %values
// CHECK-NEXT:     attn_tile.copy_bulk
// CHECK-NEXT:     attn_tile.pipeline_commit %values
// CHECK:        attn_tile.work_draw %tiles from %{{.*}} of %
// CHECK:        attn_tile.pipeline_acquire %values
// CHECK-NEXT:   attn_tile.copy_bulk
// CHECK-NEXT:   attn_tile.pipeline_commit %values
// A warp stores the outputs, while the consumers are at the next tile.
// CHECK:      } storer {
// CHECK:        %output_tile = attn_tile.pipeline_wait %queries
// CHECK-NEXT:   attn_tile.store_bulk %output_tile to %{{.*}}[%
// CHECK-NEXT:   attn_tile.pipeline_release %queries
// CHECK:        attn_tile.work_take %tiles : <9>
// CHECK:      gpu.return

// Nothing to do where no row is marked, as one word says; a tile with one is computed anew by the portable family, a warp for 16 rows, which selects values
// of dropped pairs.
// It starts as the other one ends, and reads nothing before that.
// CHECK-LABEL: gpu.func @causal_forward_repair(
// CHECK-SAME: warps = 8
// CHECK-NOT:  memref.load
// CHECK:      attn_tile.await_kernels
// CHECK:      memref.load %{{.*}}[%c1{{.*}}] : memref<2xi32
// CHECK:      %[[ANY:.*]] = arith.cmpi ne
// CHECK:      scf.if %[[ANY]] {
// CHECK:        scf.for
// CHECK:          arith.cmpf uno
// CHECK:          %[[MARKED:.*]] = gpu.all_reduce or
// CHECK:          scf.if %[[MARKED]] {
// CHECK:            attn_tile.mma mma_sync
// CHECK:            attn_tile.copy_finite
// The last of its blocks, counted where tiles were, leaves zeros to the next call.
// CHECK:        gpu.barrier
// CHECK:        scf.if
// CHECK:          %[[BEFORE:.*]] = memref.atomic_rmw addi %c1_i32{{.*}}, %{{.*}}[%c0{{.*}}]
// CHECK:          scf.if
// CHECK:            memref.store %c0_i32{{.*}}, %{{.*}}[%c0{{.*}}] : memref<2xi32
// CHECK:            memref.store %c0_i32{{.*}}, %{{.*}}[%c1{{.*}}] : memref<2xi32
// CHECK:      gpu.return

// With the true maximum only the output may have to be computed again.
// EXACT-LABEL: func @causal(
// EXACT:      gpu.func @causal_forward(
// EXACT-COUNT-2: row_reduce max
// EXACT-NOT:  row_reduce max
// EXACT:      attn_tile.map ins(%row_check :
// EXACT:      gpu.func @causal_forward_repair(
func.func @causal(%q: !q, %k: !k, %v: !k) -> (!q, !l) {
  %out, %lse = attn.attention %q, %k, %v mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
    %keep = arith.cmpi sle, %kv_idx, %q_idx : index
    attn.yield %keep : i1
  } : (!q, !k, !k) -> (!q, !l)
  return %out, %lse : !q, !l
}

// -----

!q = tensor<?x16x?x128xbf16>
!k = tensor<?x4x?x128xbf16>
!l = tensor<?x16x?xf32>

// One column more, and a tile visits two masked blocks. Full blocks go from the first key to where the first masked one begins.
// CHECK-LABEL: gpu.func @two_masked_forward(
// CHECK:        attn_tile.convert %scores to %probabilities
// Masked blocks: the products of one are started with the output of the last one. Where the maximum grows, the output follows.
// CHECK:        scf.while
// CHECK:          attn_tile.take_turn
// CHECK-NEXT:     attn_tile.mma wgmma %scores
// CHECK-NEXT:     attn_tile.mma_commit
// CHECK-NEXT:     %[[VALUES:.*]] = attn_tile.pipeline_wait %values
// CHECK-NEXT:     attn_tile.mma wgmma %output, %probabilities, %[[VALUES]] :
// CHECK-NEXT:     attn_tile.mma_commit
// CHECK-NEXT:     attn_tile.pass_turn
// CHECK-NEXT:     attn_tile.mma_wait pending(1) %scores
// CHECK-NEXT:     attn_tile.pipeline_release %keys
// CHECK:          arith.cmpi sle
// CHECK:          attn_tile.row_reduce max %scores into %block_max
// CHECK:          attn_tile.mma_wait pending(0) %output, %probabilities
// CHECK-NEXT:     attn_tile.pipeline_release %values
// CHECK:          attn_tile.convert %scores to %probabilities
// CHECK:          attn_tile.any ins(%rescale
// CHECK:        scf.while
// CHECK-NOT:      row_reduce max
// CHECK:      } producer
// BLOCKS-LABEL: gpu.func @two_masked_forward(
// BLOCKS:     %full_end = arith.maxsi %visited_begin,
// BLOCKS:     %starts_masked = arith.cmpi slt, %full_end, %visited_end
// BLOCKS:     %kv_masked = arith.maxsi %kv_second, %full_end
// BLOCKS:       arith.cmpi slt, %kv_begin, %visited_end
// BLOCKS:       %next_masked = arith.maxsi %kv_after, %full_end
// BLOCKS:     %kv_full = arith.select %starts_masked, %visited_begin, %kv_second
// BLOCKS:       arith.cmpi slt, %kv_begin, %full_end
func.func @two_masked(%q: !q, %k: !k, %v: !k) -> (!q, !l) {
  %out, %lse = attn.attention %q, %k, %v mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
    %c1 = arith.constant 1 : index
    %last = arith.addi %q_idx, %c1 : index
    %keep = arith.cmpi sle, %kv_idx, %last : index
    attn.yield %keep : i1
  } : (!q, !k, !k) -> (!q, !l)
  return %out, %lse : !q, !l
}

// -----

!q = tensor<?x16x?x128xbf16>
!k = tensor<?x4x?x128xbf16>
!l = tensor<?x16x?xf32>

// A window: the masked blocks before and after the full ones, by where these begin and end.
// BLOCKS-LABEL: gpu.func @window_forward(
// BLOCKS:     %full_begin = arith.minsi %{{.*}}, %visited_end
// BLOCKS:     %full_end = arith.maxsi %full_begin,
// BLOCKS:     %[[IN:.*]] = arith.cmpi slt, %visited_begin, %full_begin
// BLOCKS:     %first_masked = arith.select %[[IN]], %visited_begin,
// BLOCKS:     %starts_masked = arith.cmpi slt, %first_masked, %visited_end
// BLOCKS:     %kv_first = arith.select %starts_masked, %first_masked, %full_begin
// BLOCKS:     %kv_full = arith.select %starts_masked, %full_begin, %kv_second
// BLOCKS:       arith.cmpi slt, %{{.*}}, %full_end
func.func @window(%q: !q, %k: !k, %v: !k) -> (!q, !l) {
  %out, %lse = attn.attention %q, %k, %v mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
    %c1000 = arith.constant 1000 : index
    %first = arith.subi %q_idx, %c1000 : index
    %is_after = arith.cmpi sge, %kv_idx, %first : index
    %is_before = arith.cmpi sle, %kv_idx, %q_idx : index
    %keep = arith.andi %is_after, %is_before : i1
    attn.yield %keep : i1
  } : (!q, !k, !k) -> (!q, !l)
  return %out, %lse : !q, !l
}

// -----

!q = tensor<?x16x?x128xbf16>
!k = tensor<?x4x?x128xbf16>
!l = tensor<?x16x?xf32>
// Without a mask only the first block may be one that the keys do not fill: the last one comes first.
// CHECK-LABEL: func @plain(
// CHECK:      memref.alloc({{.*}}) : memref<?x8xi32>
// CHECK:      gpu.launch_func @plain_forward::@plain_forward blocks in {{.*}} threads in (%c384{{.*}} : memref<?x8xi32
// CHECK:      gpu.launch_func @plain_forward_repair::@plain_forward_repair blocks in {{.*}} threads in (%c384{{.*}} : memref<?x8xi32
// CHECK-LABEL: gpu.func @plain_forward(
// CHECK:      attn_tile.row_reduce add %output into %row_check
// CHECK:      %[[WRONG:.*]] = attn_tile.any ins(%row_check, %row_sum, %row_shift
// CHECK:      %[[FLAG:.*]] = arith.extui %[[WRONG]]
// CHECK:      memref.store %[[FLAG]]
// Nothing to do where no flag is set; for a tile with one, all of it anew, with the true maximum.
// CHECK-LABEL: gpu.func @plain_forward_repair(
// CHECK-NOT:  memref.load
// CHECK:      attn_tile.await_kernels
// CHECK:      memref.load
// CHECK:      %[[ANY:.*]] = gpu.all_reduce or
// CHECK:      scf.if %[[ANY]] {
// CHECK:      attn_tile.warp_specialize
// CHECK:      scf.for
// CHECK:      scf.if
// CHECK-COUNT-2: row_reduce max
// CHECK-NOT:  row_reduce max
// CHECK:      gpu.return

// EXACT-LABEL: func @plain(
// EXACT-NOT:  memref<?x8xi32>
// EXACT-NOT:  _repair
// EXACT:      gpu.func @plain_forward(
// EXACT:      scf.if
// EXACT:      scf.while
// EXACT-NOT:  scf.while
// EXACT:      } producer
func.func @plain(%q: !q, %k: !k, %v: !k) -> (!q, !l) {
  %out, %lse = attn.attention %q, %k, %v : (!q, !k, !k) -> (!q, !l)
  return %out, %lse : !q, !l
}

// -----

// With one slot of queries, and where an output is wider than they are, the consumers store: here 64 KB of queries, and values of two
// panels.
!wide = tensor<?x16x?x256xbf16>
!q = tensor<?x16x?x64xbf16>
!v = tensor<?x16x?x128xbf16>
!l = tensor<?x16x?xf32>
// CHECK-LABEL: gpu.func @one_slot_forward(
// CHECK-NOT:  stored
// CHECK:      attn_tile.pipeline_release %queries : <1x128x256xbf16, 2>
// CHECK:      attn_tile.store %output
// CHECK-NOT:  storer
// CHECK-LABEL: gpu.func @wide_values_forward(
// CHECK:      attn_tile.pipeline_release %queries : <2x{{[0-9]+}}x64xbf16, {{[0-9]}}>
// CHECK:      attn_tile.store %output
// CHECK-NOT:  storer
func.func @one_slot(%q: !wide, %k: !wide, %v: !wide) -> (!wide, !l) {
  %out, %lse = attn.attention %q, %k, %v : (!wide, !wide, !wide) -> (!wide, !l)
  return %out, %lse : !wide, !l
}
func.func @wide_values(%q: !q, %k: !q, %v: !v) -> (!v, !l) {
  %out, %lse = attn.attention %q, %k, %v : (!q, !q, !v) -> (!v, !l)
  return %out, %lse : !v, !l
}

// -----

!q = tensor<?x16x?x128xbf16>
!k = tensor<?x4x?x128xbf16>
!l = tensor<?x16x?xf32>
// The kernel that repairs computes the same score: 2 q k^T / sqrt(128) + 1.
// CHECK-LABEL: gpu.func @biased_forward(
// CHECK:      attn_tile.map outs(%scores
// CHECK:      arith.constant 0.176776692
// CHECK-NEXT: math.fma
// CHECK-LABEL: gpu.func @biased_forward_repair(
// CHECK:      attn_tile.map outs(%scores
// CHECK:      arith.constant 0.176776692
// CHECK-NEXT: math.fma
func.func @biased(%q: !q, %k: !k, %v: !k) -> (!q, !l) {
  %out, %lse = attn.attention %q, %k, %v score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
    %one = arith.constant 1.0 : f32
    %two = arith.constant 2.0 : f32
    %doubled = arith.mulf %s, %two : f32
    %biased = arith.addf %doubled, %one : f32
    attn.yield %biased : f32
  } : (!q, !k, !k) -> (!q, !l)
  return %out, %lse : !q, !l
}

// -----

!q = tensor<?x16x?x128xbf16>
!k = tensor<?x4x?x128xbf16>
!l = tensor<?x16x?xf32>
// Bounded scores have no maximum, and so no second kernel.
// CHECK-LABEL: func @bounded(
// CHECK-NOT:  _repair
// CHECK:      gpu.func @bounded_forward(
// CHECK-NOT:  row_reduce max
// CHECK:      gpu.return
func.func @bounded(%q: !q, %k: !k, %v: !k) -> (!q, !l) {
  %out, %lse = attn.attention %q, %k, %v score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
    %sine = math.sin %s : f32
    attn.yield %sine : f32
  } : (!q, !k, !k) -> (!q, !l)
  return %out, %lse : !q, !l
}

// -----

!l = tensor<?x16x?xf32>
// Probabilities of f16 leave no room above the maximum.
!h = tensor<?x16x?x64xf16>
// CHECK-LABEL: func @half(
// CHECK-NOT:  _repair
// CHECK:      gpu.func @half_forward(
// CHECK-SAME: warps = 16
func.func @half(%q: !h, %k: !h, %v: !h) -> (!h, !l) {
  %out, %lse = attn.attention %q, %k, %v : (!h, !h, !h) -> (!h, !l)
  return %out, %lse : !h, !l
}

// -----

// Block lists: partial blocks in one loop, full ones in another, and each reads where the next one is before it waits for a tile. The
// last block is one of the first loop where the keys do not fill it. Tiles divide the blocks, so of 192 queries there is none.
!h = tensor<?x16x?x64xf16>
!l = tensor<?x16x?xf32>
!lists = tensor<?x1x?x?x4xi32>
// CHECK-LABEL: func @listed(
// CHECK:      gpu.launch_func @listed_forward::@listed_forward
// CHECK:      gpu.launch_func @listed_forward_repair::@listed_forward_repair
// CHECK-LABEL: gpu.func @listed_forward(
// CHECK-SAME: warps = 12
// CHECK:      attn_tile.warp_specialize
// CHECK:        memref.load {{.*}}, %c1{{[_0-9]*}}] : memref<?x1x?x?x4xi32
// CHECK:        memref.load {{.*}}, %c1{{[_0-9]*}}] : memref<?x1x?x?x4xi32
// CHECK:        memref.load {{.*}}, %c0{{[_0-9]*}}] : memref<?x1x?x?x4xi32
// CHECK:        scf.while
// CHECK:          memref.load {{.*}}, %c0{{[_0-9]*}}] : memref<?x1x?x?x4xi32
// CHECK:          attn_tile.pipeline_wait %keys
// CHECK:          arith.cmpi eq, {{.*}} : i32
// CHECK:          row_reduce max
// CHECK:        scf.while
// CHECK:          memref.load {{.*}}, %c1{{[_0-9]*}}] : memref<?x1x?x?x4xi32
// CHECK:          attn_tile.pipeline_wait %keys
// CHECK-NOT:      arith.cmpi eq, {{.*}} : i32
// CHECK:          attn_tile.pipeline_release %values
// CHECK:      } producer
// CHECK:        scf.while
// CHECK:          memref.load {{.*}}, %c0{{[_0-9]*}}] : memref<?x1x?x?x4xi32
// CHECK:          attn_tile.pipeline_acquire %keys
// CHECK:        scf.while
// CHECK:          memref.load {{.*}}, %c1{{[_0-9]*}}] : memref<?x1x?x?x4xi32
// CHECK:          attn_tile.pipeline_acquire %keys
// The kernel that repairs takes the lists, too.
// CHECK-LABEL: gpu.func @listed_forward_repair(
// CHECK:      memref.load {{.*}} : memref<?x1x?x?x4xi32
func.func @listed(%q: !h, %k: !h, %v: !h, %ids: tensor<?x?xi32>, %lists: !lists) -> (!h, !l) {
  %out, %lse = attn.attention %q, %k, %v captures(%ids : tensor<?x?xi32>) block_lists(%lists : !lists) blocks(128, 128)
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %of_query = tensor.extract %ids[%b, %q_idx] : tensor<?x?xi32>
      %of_key = tensor.extract %ids[%b, %kv_idx] : tensor<?x?xi32>
      %same = arith.cmpi eq, %of_query, %of_key : i32
      attn.yield %same : i1
    } : (!h, !h, !h) -> (!h, !l)
  return %out, %lse : !h, !l
}
