// RUN: attn-translate --attn-to-cuda %s | FileCheck %s
// RUN: %if nvrtc %{ attn-translate --attn-to-cubin --arch=sm_80 --fail-on-spill %s -o %t.cubin %}
// RUN: %if nvrtc %{ attn-translate --attn-to-cubin --arch=sm_90a --fail-on-spill %s -o %t.cubin %}

// Every operation that the forward kernel (forward.mlir) does not have, and kernels of floats.

!acc = !attn_tile.fragment<64x64xf32, accumulator, 4x1>
!split = !attn_tile.fragment<64x64xf32, accumulator, 2x2>
!rows = !attn_tile.fragment<64xf32, rows, 4x1>
!tensor = memref<?x4x?x60xf32, strided<[?, ?, ?, 1], offset: ?>>

gpu.module @kernels {
  // CHECK-LABEL: // floats: a product of floats
  // CHECK-NEXT:  // 4 warps, 1 block a multiprocessor; 32768 bytes of shared memory: a 16384 at 0 | b 16384 at 16384
  // CHECK-NEXT:  extern "C" __global__ void __launch_bounds__(128, 1)
  // CHECK-NEXT:  floats(
  // CHECK-NEXT:      const Tensor<const float, 4> x,
  // CHECK-NEXT:      const Tensor<float, 4> y,
  // CHECK-NEXT:      const int64 b_index_wide,
  // CHECK-NEXT:      const float scale,
  // CHECK-NEXT:      const Tensor<const int64, 1> lengths,
  // CHECK-NEXT:      const float *const bias) {
  gpu.func @floats(%x: !tensor, %y: !tensor, %b_index: index, %scale: f32, %lengths: memref<?xindex>, %bias: memref<f32>) kernel
      attributes {attn_tile.kernel = #attn_tile.kernel<warps = 4>, summary = "a product of floats"} {
    // CHECK-NEXT: constexpr int kThreads = 128;
    // CHECK-NEXT: extern __shared__ __align__(128) unsigned char shared[];
    // CHECK-NEXT: const int b_index = int(b_index_wide);
    %h = gpu.block_id y
    %zero = arith.constant 0.0 : f32
    %a = attn_tile.shared_alloc "a" : !attn_tile.shared<64x64xf32>
    %b = attn_tile.shared_alloc "b" : !attn_tile.shared<64x64xf32>
    %acc = attn_tile.fragment_alloc "acc" : !acc
    %statistics = attn_tile.fragment_alloc "statistics" : !rows
    // CHECK: const int h = int(blockIdx.y);
    // CHECK: RowVector<float, 64, 4, 1> statistics;
    // CHECK-NEXT: const int length = to_index(load(lengths, b_index));
    // CHECK-NEXT: const float offset = *bias;
    %length = memref.load %lengths[%b_index] : memref<?xindex>
    %offset = memref.load %bias[] : memref<f32>
    // CHECK-EMPTY:
    // CHECK-NEXT: // a and b
    // CHECK-NEXT: copy_async<kThreads, 60, /*alignment*/ 4>(a, x.at(b_index, h, 0), x.stride(2), length);
    // CHECK-NEXT: copy_async<kThreads, 60>(b, x.at(b_index, h, 64), x.stride(2), length);
    %c0 = arith.constant 0 : index
    %c64 = arith.constant 64 : index
    attn_tile.copy_async %x[%b_index, %h, %c0] rows(%length) to %a {comment = "a and b"} : !tensor, !attn_tile.shared<64x64xf32>
    attn_tile.copy_async %x[%b_index, %h, %c64] rows(%length) to %b aligned : !tensor, !attn_tile.shared<64x64xf32>
    attn_tile.copy_wait pending(0)
    gpu.barrier
    attn_tile.fill %acc, %zero : !acc
    // CHECK: mma_fma(acc, a, transpose(b));
    // CHECK-NEXT: mma_tf32(acc, transpose(a), b);
    attn_tile.mma fma %acc, %a, %b transpose_b : !acc, !attn_tile.shared<64x64xf32>, !attn_tile.shared<64x64xf32>
    attn_tile.mma mma_sync_tf32 %acc, %a, %b transpose_a : !acc, !attn_tile.shared<64x64xf32>, !attn_tile.shared<64x64xf32>
    // CHECK-NEXT: copy_finite<kThreads, 60>(b, x.at(b_index, h, 64), x.stride(2), length);
    // CHECK-NEXT: add_non_finite(acc, a, b);
    // CHECK-NEXT: add_non_finite(acc, acc, b);
    attn_tile.copy_finite %x[%b_index, %h, %c64] rows(%length) to %b : !tensor, !attn_tile.shared<64x64xf32>
    attn_tile.add_non_finite %acc, %a, %b : !acc, !attn_tile.shared<64x64xf32>, !attn_tile.shared<64x64xf32>
    attn_tile.add_non_finite %acc, %acc, %b : !acc, !acc, !attn_tile.shared<64x64xf32>
    // Outs change at once.
    // CHECK-NEXT: map([&](int row, int column, float r, float &value) {
    // CHECK-NEXT:   value = value * scale + r + offset;
    // CHECK-NEXT: }, statistics, acc);
    attn_tile.map ins(%statistics : !rows) outs(%acc : !acc) {
    ^bb0(%row: index, %column: index, %r: f32, %value: f32):
      %0 = arith.mulf %value, %scale : f32
      %1 = arith.addf %0, %r : f32
      %2 = arith.addf %1, %offset : f32
      attn_tile.yield %2 : f32
    }
    // A column is a constant for each element of a thread where it is counted from its first one.
    // CHECK-NEXT: const int thread_column = first_column(acc);
    // CHECK-NEXT: map</*relative*/ true>([&](int row, int column, float &value) {
    // CHECK-NEXT:   const int whole = thread_column + column;
    // CHECK-NEXT:   const float number = float(whole);
    // CHECK-NEXT:   value = fmaf(number, scale, value);
    // CHECK-NEXT: }, acc);
    %thread_column = attn_tile.first_column %acc : !acc
    attn_tile.map relative outs(%acc : !acc) {
    ^bb0(%row: index, %column: index, %value: f32):
      %whole = arith.addi %thread_column, %column overflow<nsw> : index
      %whole_i32 = arith.index_cast %whole : index to i32
      %number = arith.sitofp %whole_i32 : i32 to f32
      %0 = math.fma %number, %scale, %value : f32
      attn_tile.yield %0 : f32
    }
    // CHECK-NEXT: lane_reduce<Max>(statistics, acc);
    // CHECK-NEXT: lane_reduce<Sum, /*interleaved*/ true>(statistics, acc);
    // CHECK-NEXT: row_reduce<Sum>(statistics, acc);
    // CHECK-NEXT: all_reduce<Max>(statistics);
    attn_tile.row_reduce max %acc into %statistics partial : !acc, !rows
    attn_tile.row_reduce add %acc into %statistics partial interleaved : !acc, !rows
    attn_tile.row_reduce add %acc into %statistics : !acc, !rows
    attn_tile.row_combine max %statistics : !rows
    // CHECK-NEXT: store(a, acc);
    // CHECK-NEXT: store<60>(y.at(b_index, h, 0), y.stride(2), length, acc);
    attn_tile.store_shared %acc to %a : !acc, !attn_tile.shared<64x64xf32>
    attn_tile.store %acc to %y[%b_index, %h, %c0] rows(%length) : !acc, !tensor
    gpu.return
  }

  // CHECK-LABEL: sums(
  gpu.func @sums(%sum: memref<?x4x?x64xf32>, %count: memref<?x?xf32, strided<[?, ?], offset: ?>>, %d_bias: memref<8xf32>, %rows: index) kernel
      attributes {attn_tile.kernel = #attn_tile.kernel<warps = 4>} {
    // CHECK: SharedVector<float, 128> parts(shared + 0);
    %parts = attn_tile.shared_alloc "parts" : !attn_tile.shared<128xf32>
    %c0 = arith.constant 0 : index
    %one = arith.constant 1.0 : f32
    %acc = attn_tile.fragment_alloc "acc" : !split
    %statistics = attn_tile.fragment_alloc "statistics" : !attn_tile.fragment<64xf32, rows, 2x2>
    attn_tile.fill %acc, %one : !split
    // CHECK: load_rows(statistics, count.at(0, 0), count.stride(1), rows, 1.0f);
    // CHECK-NEXT: store_rows(count.at(0, 0), count.stride(1), rows, statistics);
    attn_tile.load_rows %count[%c0, %c0] rows(%rows) padding(%one) to %statistics
        : memref<?x?xf32, strided<[?, ?], offset: ?>>, !attn_tile.fragment<64xf32, rows, 2x2>
    attn_tile.store_rows %statistics to %count[%c0, %c0] rows(%rows)
        : !attn_tile.fragment<64xf32, rows, 2x2>, memref<?x?xf32, strided<[?, ?], offset: ?>>
    // Two warp columns meet in shared memory.
    // CHECK-NEXT: row_reduce<Max>(statistics, acc, parts.data());
    // CHECK-NEXT: all_reduce<Sum>(statistics, parts.data());
    attn_tile.row_reduce max %acc into %statistics through %parts
        : !split, !attn_tile.fragment<64xf32, rows, 2x2>, !attn_tile.shared<128xf32>
    attn_tile.row_combine add %statistics through %parts : !attn_tile.fragment<64xf32, rows, 2x2>, !attn_tile.shared<128xf32>
    // CHECK-NEXT: atomic_add<64
    // CHECK-SAME: (sum.at(0, 0, 0), sum.stride(2), rows, acc);
    attn_tile.atomic_add %acc to %sum[%c0, %c0, %c0] rows(%rows) : !split, memref<?x4x?x64xf32>
    // CHECK-NEXT: add_to(d_bias, 1.0f, 0);
    memref.atomic_rmw addf %one, %d_bias[%c0] : (f32, memref<8xf32>) -> f32
    // CHECK-NEXT: const float before = add_to(d_bias, 1.0f, 0);
    // CHECK-NEXT: *d_bias.at(0) = before;
    %before = memref.atomic_rmw addf %one, %d_bias[%c0] : (f32, memref<8xf32>) -> f32 loc("before")
    memref.store %before, %d_bias[%c0] : memref<8xf32>
    gpu.return
  }

  // CHECK-LABEL: places(
  // CHECK:      const Divisor by_rows(rows);
  // CHECK-NEXT: const int head = by_rows.divide(block);
  gpu.func @places(%heads: memref<?xindex>, %rows: index) kernel attributes {attn_tile.kernel = #attn_tile.kernel<warps = 4>} {
    %block = gpu.block_id x
    %c0 = arith.constant 0 : index
    %by_rows = attn_tile.divisor %rows : !attn_tile.divisor
    %head = attn_tile.divide %block by %by_rows : !attn_tile.divisor
    memref.store %head, %heads[%c0] : memref<?xindex>
    gpu.return
  }
}
