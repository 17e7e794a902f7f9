// RUN: attn-opt %s | attn-opt | FileCheck %s
// RUN: attn-opt --mlir-print-op-generic %s | attn-opt | FileCheck %s
// RUN: attn-opt --emit-bytecode %s | attn-opt | FileCheck %s

// A forward kernel, causal: what each operation is for.

!tensor = memref<?x16x?x128xbf16, strided<[?, ?, ?, 1], offset: ?>>
!statistics = memref<?x16x?xf32, strided<[?, ?, ?], offset: ?>>
!scores = !attn_tile.fragment<128x64xf32, accumulator, 4x1>
!output = !attn_tile.fragment<128x128xf32, accumulator, 4x1>
!rows = !attn_tile.fragment<128xf32, rows, 4x1>

// CHECK-LABEL: gpu.module @kernels
gpu.module @kernels {
  // CHECK: gpu.func @forward{{.*}} kernel attributes {attn_tile.kernel = #attn_tile.kernel<warps = 4, blocks_per_multiprocessor = 2>}
  gpu.func @forward(%query: !tensor, %key: !tensor, %value: !tensor, %out: !tensor, %lse: !statistics) kernel
      attributes {attn_tile.kernel = #attn_tile.kernel<warps = 4, blocks_per_multiprocessor = 2>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c64 = arith.constant 64 : index
    %c128 = arith.constant 128 : index
    %c127 = arith.constant 127 : index
    %zero = arith.constant 0.0 : f32
    %minus_infinity = arith.constant 0xFF800000 : f32
    %log2e_scale = arith.constant 0.127517432 : f32
    %scale = arith.constant 0.0883883461 : f32
    // CHECK: %query_tile = attn_tile.shared_alloc "query_tile" : {{(!attn_tile.shared)?}}<128x128xbf16>
    %query_tile = attn_tile.shared_alloc "query_tile" : !attn_tile.shared<128x128xbf16>
    // CHECK: %key_tile = attn_tile.shared_alloc "key_tile" offset(32768) : {{(!attn_tile.shared)?}}<64x128xbf16>
    %key_tile = attn_tile.shared_alloc "key_tile" offset(32768) : !attn_tile.shared<64x128xbf16>
    %value_tile = attn_tile.shared_alloc "value_tile" : !attn_tile.shared<64x128xbf16>
    // CHECK: %scores = attn_tile.fragment_alloc "scores" : {{(!attn_tile.fragment)?}}<128x64xf32, accumulator, 4x1>
    %scores = attn_tile.fragment_alloc "scores" : !scores
    %probabilities = attn_tile.fragment_alloc "probabilities" : !attn_tile.fragment<128x64xbf16, operand_a, 4x1>
    %output = attn_tile.fragment_alloc "output" : !output
    %row_max = attn_tile.fragment_alloc "row_max" : !rows
    %row_sum = attn_tile.fragment_alloc "row_sum" : !rows
    %rescale = attn_tile.fragment_alloc "rescale" : !rows
    %split = attn_tile.fragment_alloc "split" : !attn_tile.fragment<64x64xf32, accumulator, 2x2>
    %split_max = attn_tile.fragment_alloc "split_max" : !attn_tile.fragment<64xf32, rows, 2x2>
    %parts = attn_tile.shared_alloc "parts" : !attn_tile.shared<128xf32>

    %q_len = memref.dim %query, %c2 : !tensor
    %kv_len = memref.dim %key, %c2 : !tensor
    %padded = arith.addi %q_len, %c127 : index
    %num_blocks = arith.divui %padded, %c128 : index
    %work = gpu.block_id x
    %block = arith.remui %work, %num_blocks : index
    %head_and_batch = arith.divui %work, %num_blocks : index
    %heads = memref.dim %query, %c1 : !tensor
    %h = arith.remui %head_and_batch, %heads : index
    %b = arith.divui %head_and_batch, %heads : index
    %q_begin = arith.muli %block, %c128 : index
    %q_rows = arith.subi %q_len, %q_begin : index
    // CHECK: attn_tile.copy_async %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] rows(%{{.*}}) to %query_tile aligned : memref<?x16x?x128xbf16, strided<[?, ?, ?, 1], offset: ?>>, {{(!attn_tile.shared)?}}<128x128xbf16>
    attn_tile.copy_async %query[%b, %h, %q_begin] rows(%q_rows) to %query_tile aligned : !tensor, !attn_tile.shared<128x128xbf16>
    // CHECK: attn_tile.fill %output, %{{.*}} : {{(!attn_tile.fragment)?}}<128x128xf32, accumulator, 4x1>
    attn_tile.fill %output, %zero : !output
    attn_tile.fill %row_max, %minus_infinity : !rows
    attn_tile.fill %row_sum, %zero : !rows

    %q_end = arith.addi %q_begin, %c128 : index
    %kv_end = arith.minsi %q_end, %kv_len : index
    scf.for %kv_begin = %c0 to %kv_end step %c64 {
      %kv_rows = arith.subi %kv_len, %kv_begin : index
      gpu.barrier
      attn_tile.copy_async %key[%b, %h, %kv_begin] rows(%kv_rows) to %key_tile aligned : !tensor, !attn_tile.shared<64x128xbf16>
      // CHECK: attn_tile.copy_commit
      attn_tile.copy_commit
      attn_tile.copy_async %value[%b, %h, %kv_begin] rows(%kv_rows) to %value_tile : !tensor, !attn_tile.shared<64x128xbf16>
      attn_tile.copy_commit
      // CHECK: attn_tile.copy_wait pending(1)
      attn_tile.copy_wait pending(1)
      gpu.barrier
      attn_tile.fill %scores, %zero : !scores
      // CHECK: attn_tile.mma mma_sync %scores, %query_tile, %key_tile transpose_b : {{(!attn_tile.fragment)?}}<128x64xf32, accumulator, 4x1>, {{(!attn_tile.shared)?}}<128x128xbf16>, {{(!attn_tile.shared)?}}<64x128xbf16>
      attn_tile.mma mma_sync %scores, %query_tile, %key_tile transpose_b : !scores, !attn_tile.shared<128x128xbf16>, !attn_tile.shared<64x128xbf16>
      %kv_last = arith.addi %kv_begin, %c64 : index
      %is_masked = arith.cmpi sgt, %kv_last, %q_begin : index
      scf.if %is_masked {
        // CHECK: %{{.*}} = attn_tile.first_column %scores : {{(!attn_tile.fragment)?}}<128x64xf32, accumulator, 4x1>
        %first = attn_tile.first_column %scores : !scores
        // CHECK: attn_tile.map relative outs(%scores : {{(!attn_tile.fragment)?}}<128x64xf32, accumulator, 4x1>) {
        attn_tile.map relative outs(%scores : !scores) {
        ^bb0(%row: index, %column: index, %s: f32):
          attn_tile.yield %s : f32
        }
        // CHECK: attn_tile.map outs(%scores : {{(!attn_tile.fragment)?}}<128x64xf32, accumulator, 4x1>) {
        // CHECK: ^bb0(%row: index, %column: index, %{{.*}}: f32):
        attn_tile.map outs(%scores : !scores) {
        ^bb0(%row: index, %column: index, %s: f32):
          %q_idx = arith.addi %q_begin, %row : index
          %kv_idx = arith.addi %kv_begin, %column : index
          %keep = arith.cmpi sle, %kv_idx, %q_idx : index
          %masked = arith.select %keep, %s, %minus_infinity : f32
          attn_tile.yield %masked : f32
        }
      }
      // CHECK: attn_tile.map ins(%row_max : {{(!attn_tile.fragment)?}}<128xf32, rows, 4x1>) outs(%rescale : {{(!attn_tile.fragment)?}}<128xf32, rows, 4x1>) {
      // CHECK: ^bb0(%row: index, %{{.*}}: f32, %{{.*}}: f32):
      attn_tile.map ins(%row_max : !rows) outs(%rescale : !rows) {
      ^bb0(%row: index, %old_max: f32, %unused: f32):
        attn_tile.yield %old_max : f32
      }
      // CHECK: %{{.*}} = attn_tile.any ins(%row_max : {{(!attn_tile.fragment)?}}<128xf32, rows, 4x1>) {
      // CHECK-NEXT: ^bb0(%row: index, %{{.*}}: f32):
      %any = attn_tile.any ins(%row_max : !rows) {
      ^bb0(%row: index, %max: f32):
        %is_empty = arith.cmpf oeq, %max, %minus_infinity : f32
        attn_tile.yield %is_empty : i1
      }
      // CHECK: attn_tile.row_reduce max %scores into %row_max : {{(!attn_tile.fragment)?}}<128x64xf32, accumulator, 4x1>, {{(!attn_tile.fragment)?}}<128xf32, rows, 4x1>
      attn_tile.row_reduce max %scores into %row_max : !scores, !rows
      attn_tile.map ins(%row_max : !rows) outs(%rescale, %row_sum : !rows, !rows) {
      ^bb0(%row: index, %new_max: f32, %old_max: f32, %sum: f32):
        %is_empty = arith.cmpf oeq, %new_max, %minus_infinity : f32
        %shift = arith.select %is_empty, %zero, %new_max : f32
        %difference = arith.subf %old_max, %shift : f32
        %exponent = arith.mulf %difference, %log2e_scale : f32
        %factor = math.exp2 %exponent fastmath<afn> : f32
        %rescaled = arith.mulf %sum, %factor : f32
        attn_tile.yield %factor, %rescaled : f32, f32
      }
      attn_tile.map ins(%row_max : !rows) outs(%scores : !scores) {
      ^bb0(%row: index, %column: index, %max: f32, %s: f32):
        %is_empty = arith.cmpf oeq, %max, %minus_infinity : f32
        %shift = arith.select %is_empty, %zero, %max : f32
        %scaled_shift = arith.mulf %shift, %log2e_scale : f32
        %scaled = arith.mulf %s, %log2e_scale : f32
        %exponent = arith.subf %scaled, %scaled_shift : f32
        %p = math.exp2 %exponent fastmath<afn> : f32
        attn_tile.yield %p : f32
      }
      // CHECK: attn_tile.row_reduce add %scores into %row_sum partial
      attn_tile.row_reduce add %scores into %row_sum partial : !scores, !rows
      // CHECK: attn_tile.row_reduce add %scores into %row_sum partial interleaved :
      attn_tile.row_reduce add %scores into %row_sum partial interleaved : !scores, !rows
      attn_tile.map ins(%rescale : !rows) outs(%output : !output) {
      ^bb0(%row: index, %column: index, %factor: f32, %o: f32):
        %rescaled = arith.mulf %o, %factor : f32
        attn_tile.yield %rescaled : f32
      }
      // CHECK: attn_tile.convert %scores to %probabilities : {{(!attn_tile.fragment)?}}<128x64xf32, accumulator, 4x1>, {{(!attn_tile.fragment)?}}<128x64xbf16, operand_a, 4x1>
      attn_tile.convert %scores to %probabilities : !scores, !attn_tile.fragment<128x64xbf16, operand_a, 4x1>
      attn_tile.copy_wait pending(0)
      gpu.barrier
      // CHECK: attn_tile.copy_finite %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] rows(%{{.*}}) to %value_tile : memref<?x16x?x128xbf16, strided<[?, ?, ?, 1], offset: ?>>, {{(!attn_tile.shared)?}}<64x128xbf16>
      attn_tile.copy_finite %value[%b, %h, %kv_begin] rows(%kv_rows) to %value_tile : !tensor, !attn_tile.shared<64x128xbf16>
      // CHECK: attn_tile.add_non_finite %output, %scores, %value_tile : {{(!attn_tile.fragment)?}}<128x128xf32, accumulator, 4x1>, {{(!attn_tile.fragment)?}}<128x64xf32, accumulator, 4x1>, {{(!attn_tile.shared)?}}<64x128xbf16>
      attn_tile.add_non_finite %output, %scores, %value_tile : !output, !scores, !attn_tile.shared<64x128xbf16>
      // CHECK: attn_tile.mma mma_sync %output, %probabilities, %value_tile :
      attn_tile.mma mma_sync %output, %probabilities, %value_tile : !output, !attn_tile.fragment<128x64xbf16, operand_a, 4x1>, !attn_tile.shared<64x128xbf16>
    }
    // CHECK: attn_tile.row_reduce max %{{.*}} into %{{.*}} through %{{.*}} : {{.*}}, {{(!attn_tile.shared)?}}<128xf32>
    attn_tile.row_reduce max %split into %split_max through %parts
        : !attn_tile.fragment<64x64xf32, accumulator, 2x2>, !attn_tile.fragment<64xf32, rows, 2x2>, !attn_tile.shared<128xf32>
    // CHECK: attn_tile.row_combine max %{{.*}} through %{{.*}} : {{.*}}, {{(!attn_tile.shared)?}}<128xf32>
    attn_tile.row_combine max %split_max through %parts : !attn_tile.fragment<64xf32, rows, 2x2>, !attn_tile.shared<128xf32>
    // CHECK: attn_tile.row_combine add %row_sum : {{(!attn_tile.fragment)?}}<128xf32, rows, 4x1>
    attn_tile.row_combine add %row_sum : !rows
    attn_tile.map ins(%row_sum : !rows) outs(%output : !output) {
    ^bb0(%row: index, %column: index, %sum: f32, %o: f32):
      %is_empty = arith.cmpf oeq, %sum, %zero : f32
      %normalised = arith.divf %o, %sum : f32
      %result = arith.select %is_empty, %zero, %normalised : f32
      attn_tile.yield %result : f32
    }
    attn_tile.map ins(%row_sum : !rows) outs(%row_max : !rows) {
    ^bb0(%row: index, %sum: f32, %max: f32):
      %scaled_max = arith.mulf %max, %scale : f32
      %log = math.log %sum : f32
      %total = arith.addf %scaled_max, %log : f32
      %is_empty = arith.cmpf oeq, %sum, %zero : f32
      %result = arith.select %is_empty, %minus_infinity, %total : f32
      attn_tile.yield %result : f32
    }
    // CHECK: %staging = attn_tile.shared_reuse %query_tile "staging" : {{(!attn_tile.shared)?}}<128x128xbf16> to {{(!attn_tile.shared)?}}<128x128xbf16>
    %staging = attn_tile.shared_reuse %query_tile "staging" : !attn_tile.shared<128x128xbf16> to !attn_tile.shared<128x128xbf16>
    // CHECK: attn_tile.store %output via %staging to %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] rows(%{{.*}}) aligned : {{(!attn_tile.fragment)?}}<128x128xf32, accumulator, 4x1>, memref<{{.*}}> via {{(!attn_tile.shared)?}}<128x128xbf16>
    attn_tile.store %output via %staging to %out[%b, %h, %q_begin] rows(%q_rows) aligned : !output, !tensor via !attn_tile.shared<128x128xbf16>
    // CHECK: attn_tile.store_rows %row_max to %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] rows(%{{.*}}) : {{(!attn_tile.fragment)?}}<128xf32, rows, 4x1>, memref<
    attn_tile.store_rows %row_max to %lse[%b, %h, %q_begin] rows(%q_rows) : !rows, !statistics
    gpu.return
  }

  // What the backward needs beyond that.
  // CHECK-LABEL: gpu.func @backward_pieces
  gpu.func @backward_pieces(%opaque: memref<?x16x?x8192xf32>, %d_query: memref<?x16x?x128xf32>, %lse: !statistics, %b: index, %h: index, %rows: index) kernel {
    %zero = arith.constant 0.0 : f32
    %d_scores = attn_tile.fragment_alloc "d_scores" : !attn_tile.fragment<64x128xf32, accumulator, 4x2>
    %row_lse = attn_tile.fragment_alloc "row_lse" : !attn_tile.fragment<64xf32, rows, 4x2>
    %tile = attn_tile.shared_alloc "d_scores_tile" : !attn_tile.shared<64x128xf16>
    %key_tile = attn_tile.shared_alloc "key_tile" : !attn_tile.shared<64x128xf16>
    %d_key = attn_tile.fragment_alloc "d_key" : !attn_tile.fragment<128x128xf32, accumulator, 4x2>
    // CHECK: attn_tile.load_rows %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] rows(%{{.*}}) padding(%{{.*}}) to %row_lse : memref<?x16x?xf32, strided<[?, ?, ?], offset: ?>>, {{(!attn_tile.fragment)?}}<64xf32, rows, 4x2>
    attn_tile.load_rows %lse[%b, %h, %rows] rows(%rows) padding(%zero) to %row_lse : !statistics, !attn_tile.fragment<64xf32, rows, 4x2>
    // CHECK: attn_tile.load_columns %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] to %lse_columns : memref<?x16x?xf32, strided<[?, ?, ?], offset: ?>>, {{(!attn_tile.fragment)?}}<128xf32, columns, 4x2>
    %lse_columns = attn_tile.fragment_alloc "lse_columns" : !attn_tile.fragment<128xf32, columns, 4x2>
    attn_tile.load_columns %lse[%b, %h, %rows] to %lse_columns : !statistics, !attn_tile.fragment<128xf32, columns, 4x2>
    // CHECK: %[[BY:.*]] = attn_tile.divisor %{{.*}} : {{(!attn_tile.)?}}divisor
    // CHECK: attn_tile.divide %{{.*}} by %[[BY]] : {{(!attn_tile.)?}}divisor
    %number = arith.constant 3 : index
    %by_number = attn_tile.divisor %number : !attn_tile.divisor
    %quotient = attn_tile.divide %number by %by_number : !attn_tile.divisor
    // CHECK: attn_tile.row_dot %d_scores_tile, %key_tile into %row_lse : {{(!attn_tile.shared)?}}<64x128xf16>, {{(!attn_tile.fragment)?}}<64xf32, rows, 4x2>
    attn_tile.row_dot %tile, %key_tile into %row_lse : !attn_tile.shared<64x128xf16>, !attn_tile.fragment<64xf32, rows, 4x2>
    // CHECK: attn_tile.load %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] rows(%{{.*}}) to %d_scores : memref<?x16x?x128xf32>, {{(!attn_tile.fragment)?}}<64x128xf32, accumulator, 4x2>
    attn_tile.load %d_query[%b, %h, %rows] rows(%rows) to %d_scores : memref<?x16x?x128xf32>, !attn_tile.fragment<64x128xf32, accumulator, 4x2>
    // CHECK: %ring = attn_tile.shared_alloc "ring" : {{(!attn_tile.shared)?}}<2x64x128xf16>
    %ring = attn_tile.shared_alloc "ring" : !attn_tile.shared<2x64x128xf16>
    // CHECK: %slot = attn_tile.ring_slot %ring[%{{.*}}] "slot" : {{(!attn_tile.shared)?}}<2x64x128xf16> to {{(!attn_tile.shared)?}}<64x128xf16>
    %slot = attn_tile.ring_slot %ring[%rows] "slot" : !attn_tile.shared<2x64x128xf16> to !attn_tile.shared<64x128xf16>
    // CHECK: attn_tile.load_shared %slot to %d_scores : {{(!attn_tile.shared)?}}<64x128xf16>, {{(!attn_tile.fragment)?}}<64x128xf32, accumulator, 4x2>
    attn_tile.load_shared %slot to %d_scores : !attn_tile.shared<64x128xf16>, !attn_tile.fragment<64x128xf32, accumulator, 4x2>
    // CHECK: %sum = attn_tile.fragment_alloc "sum" : {{(!attn_tile.fragment)?}}<f32, thread, 4x2>
    %sum = attn_tile.fragment_alloc "sum" : !attn_tile.fragment<f32, thread, 4x2>
    attn_tile.map outs(%d_scores : !attn_tile.fragment<64x128xf32, accumulator, 4x2>) {
    ^bb0(%row: index, %column: index, %s: f32):
      // CHECK: attn_tile.accumulate %{{.*}} into %sum : {{(!attn_tile.fragment)?}}<f32, thread, 4x2>
      attn_tile.accumulate %s into %sum : !attn_tile.fragment<f32, thread, 4x2>
      attn_tile.yield %s : f32
    }
    // CHECK: attn_tile.flush_sum %sum to %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] : {{(!attn_tile.fragment)?}}<f32, thread, 4x2>, memref<?x16x?xf32
    attn_tile.flush_sum %sum to %lse[%b, %h, %rows] : !attn_tile.fragment<f32, thread, 4x2>, !statistics
    // CHECK: attn_tile.store_shared %d_scores to %d_scores_tile : {{(!attn_tile.fragment)?}}<64x128xf32, accumulator, 4x2>, {{(!attn_tile.shared)?}}<64x128xf16>
    attn_tile.store_shared %d_scores to %tile : !attn_tile.fragment<64x128xf32, accumulator, 4x2>, !attn_tile.shared<64x128xf16>
    // CHECK: attn_tile.mma mma_sync %d_key, %d_scores_tile, %key_tile transpose_a :
    attn_tile.mma mma_sync %d_key, %tile, %key_tile transpose_a : !attn_tile.fragment<128x128xf32, accumulator, 4x2>, !attn_tile.shared<64x128xf16>, !attn_tile.shared<64x128xf16>
    // CHECK: attn_tile.atomic_add %d_scores to %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] rows(%{{.*}}) opaque :
    attn_tile.atomic_add %d_scores to %opaque[%b, %h, %rows] rows(%rows) opaque : !attn_tile.fragment<64x128xf32, accumulator, 4x2>, memref<?x16x?x8192xf32>
    // CHECK: attn_tile.load %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] rows(%{{.*}}) to %d_scores opaque :
    attn_tile.load %opaque[%b, %h, %rows] rows(%rows) to %d_scores opaque : memref<?x16x?x8192xf32>, !attn_tile.fragment<64x128xf32, accumulator, 4x2>
    // CHECK: attn_tile.atomic_add %d_scores to %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] rows(%{{.*}}) : {{(!attn_tile.fragment)?}}<64x128xf32, accumulator, 4x2>, memref<?x16x?x128xf32>
    attn_tile.atomic_add %d_scores to %d_query[%b, %h, %rows] rows(%rows) : !attn_tile.fragment<64x128xf32, accumulator, 4x2>, memref<?x16x?x128xf32>
    gpu.return
  }
}

// Rows of several heads, and a condition of the host.
// CHECK-LABEL: func @packed
// CHECK: attn_tile.take_if %{{.*}} "split_kv"
// CHECK: attn_tile.copy_async %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] packed(%{{.*}}) rows(%{{.*}}) to %{{.*}} aligned :
// CHECK: attn_tile.store %{{.*}} to %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] packed(%{{.*}}) rows(%{{.*}}) :
// CHECK: attn_tile.store_rows %{{.*}} to %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] packed(%{{.*}}) rows(%{{.*}}) :
func.func @packed(%x: !tensor, %tile: !attn_tile.shared<64x128xbf16>, %acc: !output, %row_lse: !rows, %lse: !statistics, %i: index, %pays: i1) {
  attn_tile.take_if %pays "split_kv"
  attn_tile.copy_async %x[%i, %i, %i] packed(%i) rows(%i) to %tile aligned : !tensor, !attn_tile.shared<64x128xbf16>
  attn_tile.store %acc to %x[%i, %i, %i] packed(%i) rows(%i) : !output, !tensor
  attn_tile.store_rows %row_lse to %lse[%i, %i, %i] packed(%i) rows(%i) : !rows, !statistics
  return
}

// Maps of tensors, on the host, and a kernel that takes one.
// CHECK-LABEL: func @maps
// CHECK: %{{.*}} = attn_tile.tensor_map %{{.*}} : memref<?x16x?x128xbf16, strided<[?, ?, ?, 1], offset: ?>> to {{(!attn_tile.tensor_map)?}}<128x64xbf16>
// CHECK: %{{.*}} = attn_tile.tensor_map %{{.*}} : memref<?x?x?x?xf16> to {{(!attn_tile.tensor_map)?}}<256x64xf16>
func.func @maps(%x: !tensor, %y: memref<?x?x?x?xf16>) -> (!attn_tile.tensor_map<128x64xbf16>, !attn_tile.tensor_map<256x64xf16>) {
  %0 = attn_tile.tensor_map %x : !tensor to !attn_tile.tensor_map<128x64xbf16>
  %1 = attn_tile.tensor_map %y : memref<?x?x?x?xf16> to !attn_tile.tensor_map<256x64xf16>
  return %0, %1 : !attn_tile.tensor_map<128x64xbf16>, !attn_tile.tensor_map<256x64xf16>
}

// What kernels of the hopper family have beyond these: roles, pipelines, asynchronous products.
!keys = !attn_tile.pipeline<2x64x128xbf16, 2>
!queries = !attn_tile.pipeline<2x128x128xbf16, 2, stored>
!biases = !attn_tile.pipeline<1x128x64xf16, 2, loaded>
!key_tile = !attn_tile.panels<64x128xbf16>
!wide = !attn_tile.fragment<128x64xf32, accumulator, 8x1>
// CHECK-LABEL: gpu.module @roles
gpu.module @roles {
  gpu.func @roles(%map: !attn_tile.tensor_map<64x64xbf16>, %out_map: !attn_tile.tensor_map<128x64xbf16>, %bias_map: !attn_tile.tensor_map<128x64xf16>, %query: !attn_tile.panels<128x128xbf16>, %i: index, %counter: memref<1xi32>) kernel
      attributes {attn_tile.kernel = #attn_tile.kernel<warps = 12>} {
    // CHECK: %keys = attn_tile.pipeline_alloc "keys" : {{(!attn_tile.pipeline)?}}<2x64x128xbf16, 2>
    %keys = attn_tile.pipeline_alloc "keys" : !keys
    // CHECK: attn_tile.pipeline_alloc "placed" offset(32768) barriers(65536) : {{(!attn_tile.pipeline)?}}<2x64x128xbf16, 2>
    %placed = attn_tile.pipeline_alloc "placed" offset(32768) barriers(65536) : !keys
    // CHECK: %tiles = attn_tile.work_queue_alloc "tiles" offset(65600) : {{(!attn_tile.work_queue)?}}<9>
    %tiles = attn_tile.work_queue_alloc "tiles" offset(65600) : !attn_tile.work_queue<9>
    // CHECK: %queries = attn_tile.pipeline_alloc "queries" : {{(!attn_tile.pipeline)?}}<2x128x128xbf16, 2, stored>
    %queries = attn_tile.pipeline_alloc "queries" : !queries
    // CHECK: %biases = attn_tile.pipeline_alloc "biases" : {{(!attn_tile.pipeline)?}}<1x128x64xf16, 2, loaded>
    %biases = attn_tile.pipeline_alloc "biases" : !biases
    %scores = attn_tile.fragment_alloc "scores" : !wide
    %bias = attn_tile.fragment_alloc "bias" : !attn_tile.fragment<128x64xf16, operand_a, 8x1>
    // CHECK: attn_tile.warp_specialize consumers(2) registers(232) {
    attn_tile.warp_specialize consumers(2) registers(232) {
      // CHECK-NEXT: attn_tile.open_turns
      attn_tile.open_turns
      // CHECK-NEXT: %key_tile = attn_tile.pipeline_wait %keys "key_tile" : {{(!attn_tile.pipeline)?}}<2x64x128xbf16, 2>
      %key_tile = attn_tile.pipeline_wait %keys "key_tile" : !keys
      // CHECK-NEXT: attn_tile.take_turn
      attn_tile.take_turn
      // CHECK-NEXT: attn_tile.mma wgmma %scores, %{{.*}}, %key_tile transpose_b overwrite : {{(!attn_tile.fragment)?}}<128x64xf32, accumulator, 8x1>, {{(!attn_tile.panels)?}}<128x128xbf16>, {{(!attn_tile.panels)?}}<64x128xbf16>
      attn_tile.mma wgmma %scores, %query, %key_tile transpose_b overwrite : !wide, !attn_tile.panels<128x128xbf16>, !key_tile
      // CHECK-NEXT: attn_tile.mma_commit
      attn_tile.mma_commit
      // CHECK-NEXT: attn_tile.pass_turn
      attn_tile.pass_turn
      // CHECK-NEXT: attn_tile.mma_wait pending(0) %scores : {{(!attn_tile.fragment)?}}<128x64xf32, accumulator, 8x1>
      attn_tile.mma_wait pending(0) %scores : !wide
      // CHECK-NEXT: attn_tile.pipeline_release %keys : {{(!attn_tile.pipeline)?}}<2x64x128xbf16, 2>
      attn_tile.pipeline_release %keys : !keys
      // CHECK-NEXT: attn_tile.work_take %tiles : {{(!attn_tile.work_queue)?}}<9>
      %taken = attn_tile.work_take %tiles : !attn_tile.work_queue<9>
      // CHECK-NEXT: attn_tile.store_panels %scores to %queries : {{(!attn_tile.fragment)?}}<128x64xf32, accumulator, 8x1>, {{(!attn_tile.pipeline)?}}<2x128x128xbf16, 2, stored>
      attn_tile.store_panels %scores to %queries : !wide, !queries
      // CHECK-NEXT: %bias_tile = attn_tile.pipeline_wait %biases "bias_tile" : {{(!attn_tile.pipeline)?}}<1x128x64xf16, 2, loaded>
      %bias_tile = attn_tile.pipeline_wait %biases "bias_tile" : !biases
      // CHECK-NEXT: attn_tile.load_panels %bias_tile to %bias : {{(!attn_tile.panels)?}}<128x64xf16>, {{(!attn_tile.fragment)?}}<128x64xf16, operand_a, 8x1>
      attn_tile.load_panels %bias_tile to %bias : !attn_tile.panels<128x64xf16>, !attn_tile.fragment<128x64xf16, operand_a, 8x1>
      // CHECK-NEXT: attn_tile.map ins(%bias : {{(!attn_tile.fragment)?}}<128x64xf16, operand_a, 8x1>) outs(%scores : {{(!attn_tile.fragment)?}}<128x64xf32, accumulator, 8x1>) {
      // CHECK-NEXT: ^bb0(%{{.*}}: index, %{{.*}}: index, %{{.*}}: f16, %{{.*}}: f32):
      attn_tile.map ins(%bias : !attn_tile.fragment<128x64xf16, operand_a, 8x1>) outs(%scores : !wide) {
      ^bb0(%row: index, %column: index, %x: f16, %s: f32):
        attn_tile.yield %s : f32
      }
    // CHECK:      } producer registers(40) {
    } producer registers(40) {
      // CHECK-NEXT: %key_slot = attn_tile.pipeline_acquire %keys "key_slot" : {{(!attn_tile.pipeline)?}}<2x64x128xbf16, 2>
      %key_slot = attn_tile.pipeline_acquire %keys "key_slot" : !keys
      // CHECK-NEXT: attn_tile.copy_bulk %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] to %key_slot signals %keys : {{(!attn_tile.tensor_map)?}}<64x64xbf16>, {{(!attn_tile.panels)?}}<64x128xbf16>, {{(!attn_tile.pipeline)?}}<2x64x128xbf16, 2>
      attn_tile.copy_bulk %map[%i, %i, %i] to %key_slot signals %keys : !attn_tile.tensor_map<64x64xbf16>, !key_tile, !keys
      // CHECK-NEXT: attn_tile.pipeline_commit %keys : {{(!attn_tile.pipeline)?}}<2x64x128xbf16, 2>
      attn_tile.pipeline_commit %keys : !keys
      %bias_slot = attn_tile.pipeline_acquire %biases "bias_slot" : !biases
      // CHECK: attn_tile.copy_bulk %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] column(%{{.*}}) to %bias_slot signals %biases :
      attn_tile.copy_bulk %bias_map[%i, %i, %i] column(%i) to %bias_slot signals %biases : !attn_tile.tensor_map<128x64xf16>, !attn_tile.panels<128x64xf16>, !biases
      // CHECK-NEXT: attn_tile.work_draw %tiles from %{{.*}} of %{{.*}} : {{(!attn_tile.work_queue)?}}<9>, memref<1xi32>
      %drawn = attn_tile.work_draw %tiles from %counter of %i : !attn_tile.work_queue<9>, memref<1xi32>
    // CHECK-NEXT: } storer {
    } storer {
      // CHECK-NEXT: %output_tile = attn_tile.pipeline_wait %queries "output_tile"
      %output_tile = attn_tile.pipeline_wait %queries "output_tile" : !queries
      // CHECK-NEXT: attn_tile.store_bulk %output_tile to %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] : {{(!attn_tile.panels)?}}<128x128xbf16>, {{(!attn_tile.tensor_map)?}}<128x64xbf16>
      attn_tile.store_bulk %output_tile to %out_map[%i, %i, %i] : !attn_tile.panels<128x128xbf16>, !attn_tile.tensor_map<128x64xbf16>
      // CHECK-NEXT: attn_tile.pipeline_release %queries
      attn_tile.pipeline_release %queries : !queries
    }
    gpu.return
  }
}

// CHECK-LABEL: func private @schedule
// CHECK-SAME: family = hopper, fixed_maximum = true, bias_stages = 1
func.func private @schedule() attributes {schedule = #attn.schedule<block_m = 128, block_n = 128, warps = 12, family = hopper, fixed_maximum = true, bias_stages = 1>}

// Each warp by itself, and kernels that overlap.
// CHECK-LABEL: func @warps
func.func @warps(%x: !tensor, %tile: !attn_tile.shared<16x128xbf16>, %query: !attn_tile.fragment<16x128xbf16, operand_a, 1x1>,
                 %part: !attn_tile.fragment<16x128xf32, accumulator, 1x1>, %part_lse: !attn_tile.fragment<16xf32, rows, 1x1>,
                 %out: !attn_tile.fragment<16x128xf32, accumulator, 1x4>, %lse: !attn_tile.fragment<16xf32, rows, 1x4>,
                 %scratch: !attn_tile.shared<8192xf32>, %lses: !attn_tile.shared<64xf32>, %i: index) {
  // CHECK: attn_tile.await_kernels
  attn_tile.await_kernels
  // CHECK: attn_tile.load_operand %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] packed(%{{.*}}) rows(%{{.*}}) to %{{.*}} aligned :
  attn_tile.load_operand %x[%i, %i, %i] packed(%i) rows(%i) to %query aligned : !tensor, !attn_tile.fragment<16x128xbf16, operand_a, 1x1>
  // CHECK: attn_tile.copy_async %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] rows(%{{.*}}) to %{{.*}} aligned by_warp :
  attn_tile.copy_async %x[%i, %i, %i] rows(%i) to %tile aligned by_warp : !tensor, !attn_tile.shared<16x128xbf16>
  // CHECK: attn_tile.warp_barrier
  attn_tile.warp_barrier
  // CHECK: attn_tile.copy_finite %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] rows(%{{.*}}) to %{{.*}} by_warp :
  attn_tile.copy_finite %x[%i, %i, %i] rows(%i) to %tile by_warp : !tensor, !attn_tile.shared<16x128xbf16>
  // CHECK: attn_tile.release_kernels
  attn_tile.release_kernels
  // CHECK: attn_tile.merge_warps %{{.*}}, %{{.*}} into %{{.*}}, %{{.*}} through %{{.*}}, %{{.*}} :
  attn_tile.merge_warps %part, %part_lse into %out, %lse through %scratch, %lses
      : !attn_tile.fragment<16x128xf32, accumulator, 1x1>, !attn_tile.fragment<16xf32, rows, 1x1>, !attn_tile.fragment<16x128xf32, accumulator, 1x4>,
        !attn_tile.fragment<16xf32, rows, 1x4>, !attn_tile.shared<8192xf32>, !attn_tile.shared<64xf32>
  return
}
