// RUN: attn-translate --attn-to-cuda %s | FileCheck %s --match-full-lines --strict-whitespace
// RUN: attn-translate --attn-to-cuda %s -o %t.1 && attn-translate --attn-to-cuda %s -o %t.2 && cmp %t.1 %t.2
// A whole forward kernel, causal: what each operation becomes.

!tensor = memref<?x16x?x128xbf16, strided<[?, ?, ?, 1], offset: ?>>
!statistics = memref<?x16x?xf32, strided<[?, ?, ?], offset: ?>>
!scores = !attn_tile.fragment<128x64xf32, accumulator, 4x1>
!output = !attn_tile.fragment<128x128xf32, accumulator, 4x1>
!rows = !attn_tile.fragment<128xf32, rows, 4x1>

gpu.module @kernels {
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
    %query_tile = attn_tile.shared_alloc "query_tile" : !attn_tile.shared<128x128xbf16>
    %key_tile = attn_tile.shared_alloc "key_tile" : !attn_tile.shared<64x128xbf16>
    %value_tile = attn_tile.shared_alloc "value_tile" : !attn_tile.shared<64x128xbf16>
    %scores = attn_tile.fragment_alloc "scores" : !scores
    %probabilities = attn_tile.fragment_alloc "probabilities" : !attn_tile.fragment<128x64xbf16, operand_a, 4x1>
    %output = attn_tile.fragment_alloc "output" : !output
    %row_max = attn_tile.fragment_alloc "row_max" : !rows
    %row_sum = attn_tile.fragment_alloc "row_sum" : !rows
    %rescale = attn_tile.fragment_alloc "rescale" : !rows

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
    attn_tile.copy_async %query[%b, %h, %q_begin] rows(%q_rows) to %query_tile aligned : !tensor, !attn_tile.shared<128x128xbf16>
    attn_tile.fill %output, %zero : !output
    attn_tile.fill %row_max, %minus_infinity : !rows
    attn_tile.fill %row_sum, %zero : !rows

    %q_end = arith.addi %q_begin, %c128 : index
    %kv_end = arith.minsi %q_end, %kv_len : index
    scf.for %kv_begin = %c0 to %kv_end step %c64 {
      %kv_rows = arith.subi %kv_len, %kv_begin : index
      gpu.barrier
      attn_tile.copy_async %key[%b, %h, %kv_begin] rows(%kv_rows) to %key_tile aligned : !tensor, !attn_tile.shared<64x128xbf16>
      attn_tile.copy_commit
      attn_tile.copy_async %value[%b, %h, %kv_begin] rows(%kv_rows) to %value_tile : !tensor, !attn_tile.shared<64x128xbf16>
      attn_tile.copy_commit
      attn_tile.copy_wait pending(1)
      gpu.barrier
      attn_tile.fill %scores, %zero : !scores
      attn_tile.mma mma_sync %scores, %query_tile, %key_tile transpose_b : !scores, !attn_tile.shared<128x128xbf16>, !attn_tile.shared<64x128xbf16>
      %kv_last = arith.addi %kv_begin, %c64 : index
      %is_masked = arith.cmpi sgt, %kv_last, %q_begin : index
      scf.if %is_masked {
        attn_tile.map outs(%scores : !scores) {
        ^bb0(%row: index, %column: index, %s: f32):
          %q_idx = arith.addi %q_begin, %row : index
          %kv_idx = arith.addi %kv_begin, %column : index
          %keep = arith.cmpi sle, %kv_idx, %q_idx : index
          %masked = arith.select %keep, %s, %minus_infinity : f32
          attn_tile.yield %masked : f32
        }
      }
      attn_tile.map ins(%row_max : !rows) outs(%rescale : !rows) {
      ^bb0(%row: index, %old_max: f32, %unused: f32):
        attn_tile.yield %old_max : f32
      }
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
      attn_tile.row_reduce add %scores into %row_sum partial : !scores, !rows
      attn_tile.map ins(%rescale : !rows) outs(%output : !output) {
      ^bb0(%row: index, %column: index, %factor: f32, %o: f32):
        %rescaled = arith.mulf %o, %factor : f32
        attn_tile.yield %rescaled : f32
      }
      attn_tile.convert %scores to %probabilities : !scores, !attn_tile.fragment<128x64xbf16, operand_a, 4x1>
      attn_tile.copy_wait pending(0)
      gpu.barrier
      attn_tile.mma mma_sync %output, %probabilities, %value_tile : !output, !attn_tile.fragment<128x64xbf16, operand_a, 4x1>, !attn_tile.shared<64x128xbf16>
    }
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
    %staging = attn_tile.shared_reuse %query_tile "staging" : !attn_tile.shared<128x128xbf16> to !attn_tile.shared<128x128xbf16>
    attn_tile.store %output via %staging to %out[%b, %h, %q_begin] rows(%q_rows) aligned : !output, !tensor via !attn_tile.shared<128x128xbf16>
    attn_tile.store_rows %row_max to %lse[%b, %h, %q_begin] rows(%q_rows) : !rows, !statistics
    gpu.return
  }

}

//      CHECK:#include "attn/portable.cuh"
// CHECK-NEXT:using namespace attn;
//      CHECK:// forward
// CHECK-NEXT:// 4 warps, 2 blocks a multiprocessor; 65536 bytes of shared memory: query_tile 32768 at 0 | key_tile 16384 at 32768 | value_tile 16384 at 49152
// CHECK-NEXT:extern "C" __global__ void __launch_bounds__(128, 2)
// CHECK-NEXT:forward(
// CHECK-NEXT:    const Tensor<const bf16, 4> query,
// CHECK-NEXT:    const Tensor<const bf16, 4> key,
// CHECK-NEXT:    const Tensor<const bf16, 4> value,
// CHECK-NEXT:    const Tensor<bf16, 4> out,
// CHECK-NEXT:    const Tensor<float, 3> lse) {
// CHECK-NEXT:  constexpr int kThreads = 128;
// CHECK-NEXT:  extern __shared__ __align__(128) unsigned char shared[];
// CHECK-NEXT:  SharedTile<bf16, 128, 128> query_tile(shared + 0);
// CHECK-NEXT:  SharedTile<bf16, 64, 128> key_tile(shared + 32768);
// CHECK-NEXT:  SharedTile<bf16, 64, 128> value_tile(shared + 49152);
// CHECK-NEXT:  Fragment<float, 128, 64, 4, 1> scores;
// CHECK-NEXT:  Operand<bf16, 128, 64, 4> probabilities;
// CHECK-NEXT:  Fragment<float, 128, 128, 4, 1> output;
// CHECK-NEXT:  RowVector<float, 128, 4, 1> row_max;
// CHECK-NEXT:  RowVector<float, 128, 4, 1> row_sum;
// CHECK-NEXT:  RowVector<float, 128, 4, 1> rescale;
// CHECK-NEXT:  const int q_len = query.size(2);
// CHECK-NEXT:  const int kv_len = key.size(2);
// CHECK-NEXT:  const int padded = wrap_add(q_len, 127);
// CHECK-NEXT:  const int num_blocks = divide_unsigned(padded, 128);
// CHECK-NEXT:  const int work = int(blockIdx.x);
// CHECK-NEXT:  const int block = modulo_unsigned(work, num_blocks);
// CHECK-NEXT:  const int head_and_batch = divide_unsigned(work, num_blocks);
// CHECK-NEXT:  const int heads = 16;
// CHECK-NEXT:  const int h = modulo_unsigned(head_and_batch, heads);
// CHECK-NEXT:  const int b = divide_unsigned(head_and_batch, heads);
// CHECK-NEXT:  const int q_begin = wrap_mul(block, 128);
// CHECK-NEXT:  const int q_rows = wrap_sub(q_len, q_begin);
// CHECK-NEXT:  copy_async<kThreads, 128>(query_tile, query.at(b, h, q_begin), query.stride(2), q_rows);
// CHECK-NEXT:  fill(output, 0.0f);
// CHECK-NEXT:  fill(row_max, -kInfinity);
// CHECK-NEXT:  fill(row_sum, 0.0f);
// CHECK-NEXT:  const int q_end = wrap_add(q_begin, 128);
// CHECK-NEXT:  const int kv_end = min(q_end, kv_len);
// CHECK-NEXT:  for (int kv_begin = 0; kv_begin < kv_end; kv_begin += 64) {
// CHECK-NEXT:    const int kv_rows = wrap_sub(kv_len, kv_begin);
// CHECK-NEXT:    __syncthreads();
// CHECK-NEXT:    copy_async<kThreads, 128>(key_tile, key.at(b, h, kv_begin), key.stride(2), kv_rows);
// CHECK-NEXT:    commit_group();
// CHECK-NEXT:    copy_async<kThreads, 128, /*alignment*/ 2>(value_tile, value.at(b, h, kv_begin), value.stride(2), kv_rows);
// CHECK-NEXT:    commit_group();
// CHECK-NEXT:    wait_group<1>();
// CHECK-NEXT:    __syncthreads();
// CHECK-NEXT:    fill(scores, 0.0f);
// CHECK-NEXT:    mma(scores, query_tile, transpose(key_tile));
// CHECK-NEXT:    const int kv_last = wrap_add(kv_begin, 64);
// CHECK-NEXT:    const bool is_masked = kv_last > q_begin;
// CHECK-NEXT:    if (is_masked) {
// CHECK-NEXT:      map([&](int row, int column, float &s) {
// CHECK-NEXT:        const int q_idx = wrap_add(q_begin, row);
// CHECK-NEXT:        const int kv_idx = wrap_add(kv_begin, column);
// CHECK-NEXT:        const bool keep = kv_idx <= q_idx;
// CHECK-NEXT:        const float masked = keep ? s : -kInfinity;
// CHECK-NEXT:        s = masked;
// CHECK-NEXT:      }, scores);
// CHECK-NEXT:    }
// CHECK-NEXT:    map([&](int row, float old_max, float &unused) {
// CHECK-NEXT:      unused = old_max;
// CHECK-NEXT:    }, row_max, rescale);
// CHECK-NEXT:    row_reduce<Max>(row_max, scores);
// CHECK-NEXT:    map([&](int row, float new_max, float &old_max, float &sum) {
// CHECK-NEXT:      const bool is_empty = new_max == -kInfinity;
// CHECK-NEXT:      const float shift = is_empty ? 0.0f : new_max;
// CHECK-NEXT:      const float difference = old_max - shift;
// CHECK-NEXT:      const float exponent = difference * 0.12751743f;
// CHECK-NEXT:      const float factor = exp2_approx(exponent);
// CHECK-NEXT:      const float rescaled = sum * factor;
// CHECK-NEXT:      old_max = factor;
// CHECK-NEXT:      sum = rescaled;
// CHECK-NEXT:    }, row_max, rescale, row_sum);
// CHECK-NEXT:    map([&](int row, int column, float max_, float &s) {
// CHECK-NEXT:      const bool is_empty = max_ == -kInfinity;
// CHECK-NEXT:      const float shift = is_empty ? 0.0f : max_;
// CHECK-NEXT:      const float scaled_shift = shift * 0.12751743f;
// CHECK-NEXT:      const float scaled = s * 0.12751743f;
// CHECK-NEXT:      const float exponent = scaled - scaled_shift;
// CHECK-NEXT:      const float p = exp2_approx(exponent);
// CHECK-NEXT:      s = p;
// CHECK-NEXT:    }, row_max, scores);
// CHECK-NEXT:    lane_reduce<Sum>(row_sum, scores);
// CHECK-NEXT:    map([&](int row, int column, float factor, float &o) {
// CHECK-NEXT:      const float rescaled = o * factor;
// CHECK-NEXT:      o = rescaled;
// CHECK-NEXT:    }, rescale, output);
// CHECK-NEXT:    probabilities = convert<bf16>(scores);
// CHECK-NEXT:    wait_group<0>();
// CHECK-NEXT:    __syncthreads();
// CHECK-NEXT:    mma(output, probabilities, value_tile);
// CHECK-NEXT:  }
// CHECK-NEXT:  all_reduce<Sum>(row_sum);
// CHECK-NEXT:  map([&](int row, int column, float sum, float &o) {
// CHECK-NEXT:    const bool is_empty = sum == 0.0f;
// CHECK-NEXT:    const float normalised = o / sum;
// CHECK-NEXT:    const float result = is_empty ? 0.0f : normalised;
// CHECK-NEXT:    o = result;
// CHECK-NEXT:  }, row_sum, output);
// CHECK-NEXT:  map([&](int row, float sum, float &max_) {
// CHECK-NEXT:    const float scaled_max = max_ * 0.088388346f;
// CHECK-NEXT:    const float log_ = logf(sum);
// CHECK-NEXT:    const float total = scaled_max + log_;
// CHECK-NEXT:    const bool is_empty = sum == 0.0f;
// CHECK-NEXT:    const float result = is_empty ? -kInfinity : total;
// CHECK-NEXT:    max_ = result;
// CHECK-NEXT:  }, row_sum, row_max);
// CHECK-NEXT:  SharedTile<bf16, 128, 128> staging(shared + 0);
// CHECK-NEXT:  store_via<kThreads, 128>(out.at(b, h, q_begin), out.stride(2), q_rows, output, staging);
// CHECK-NEXT:  store_rows(lse.at(b, h, q_begin), lse.stride(2), q_rows, row_max);
// CHECK-NEXT:}
