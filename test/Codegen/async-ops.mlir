// RUN: attn-translate --attn-to-cuda %s | FileCheck %s
// RUN: %if nvrtc %{ attn-translate --attn-to-cubin --arch=sm_90a --fail-on-spill %s -o %t.cubin %}

// Every operation of the hopper family: warpgroups with roles, pipelines, asynchronous products.

!q_tile = !attn_tile.panels<128x80xbf16>
!k_tile = !attn_tile.panels<64x80xbf16>
!v_tile = !attn_tile.panels<64x64xbf16>
!queries = !attn_tile.pipeline<1x128x80xbf16, 2>
!keys = !attn_tile.pipeline<2x64x80xbf16, 2>
!values = !attn_tile.pipeline<2x64x64xbf16, 2>
!biases = !attn_tile.pipeline<1x128x80xf16, 2, loaded>
!acc = !attn_tile.fragment<128x64xf32, accumulator, 8x1>
!operand = !attn_tile.fragment<128x64xbf16, operand_a, 8x1>
!tensor = memref<?x4x?x64xbf16, strided<[?, ?, ?, 1], offset: ?>>

gpu.module @kernels {
  // CHECK:      #include "attn/hopper.cuh"
  // Panels of 64 columns, the last one filled up, then barriers: two for each slot.
  // CHECK:      // 12 warps, 1 block a multiprocessor; 82048 bytes of shared memory: queries 32768 at 0 | keys 32768 at 32768 | values 16384 at 65536
  // CHECK-NEXT: extern "C" __global__ void __launch_bounds__(384, 1)
  // CHECK-NEXT: roles(
  gpu.func @roles(%q_map: !attn_tile.tensor_map<128x64xbf16>, %k_map: !attn_tile.tensor_map<64x64xbf16>, %out: !tensor, %h: index, %counter: memref<1xi32>) kernel
      attributes {attn_tile.kernel = #attn_tile.kernel<warps = 12>} {
    // CHECK:      constexpr int kConsumers = 2;
    // CHECK-NEXT: extern __shared__ __align__(1024) unsigned char shared[];
    %c0 = arith.constant 0 : index
    %zero = arith.constant 0.0 : f32
    // CHECK:      Pipeline<bf16, 1, 128, 80, 2> queries(shared + 0, shared + 81920);
    // CHECK-NEXT: Pipeline<bf16, 2, 64, 80, 2> keys(shared + 32768, shared + 81936);
    // CHECK-NEXT: Pipeline<bf16, 2, 64, 64, 2> values(shared + 65536, shared + 81968);
    %queries = attn_tile.pipeline_alloc "queries" : !queries
    %keys = attn_tile.pipeline_alloc "keys" : !keys
    %values = attn_tile.pipeline_alloc "values" : !values
    // CHECK-NEXT: WorkQueue<8> tiles(shared + 82000);
    %tiles = attn_tile.work_queue_alloc "tiles" : !attn_tile.work_queue<8>
    // CHECK-NEXT: publish_barriers();
    // CHECK-NEXT: const int warpgroup = warpgroup_index();
    // CHECK-NEXT: if (warpgroup < kConsumers) {
    // CHECK-NEXT:   increase_registers<232>();
    attn_tile.warp_specialize consumers(2) registers(232) {
      // CHECK-NEXT: Fragment<float, 128, 64, 8, 1> scores;
      // CHECK-NEXT: Operand<bf16, 128, 64, 8> probabilities;
      // CHECK-NEXT: Fragment<float, 128, 64, 8, 1> output;
      %scores = attn_tile.fragment_alloc "scores" : !acc
      %probabilities = attn_tile.fragment_alloc "probabilities" : !operand
      %output = attn_tile.fragment_alloc "output" : !acc
      // CHECK-NEXT: open_turns<kConsumers>(warpgroup);
      // CHECK-NEXT: fill(output, 0.0f);
      attn_tile.open_turns
      attn_tile.fill %output, %zero : !acc
      // CHECK-NEXT: const auto query_tile = queries.wait();
      // CHECK-NEXT: const auto key_tile = keys.wait();
      // CHECK-NEXT: take_turn<kConsumers>(warpgroup);
      // CHECK-NEXT: mma_async</*overwrite*/ true>(scores, query_tile, transpose(key_tile));
      // CHECK-NEXT: mma_commit();
      // CHECK-NEXT: pass_turn<kConsumers>(warpgroup);
      // CHECK-NEXT: mma_wait<0>(scores);
      // CHECK-NEXT: keys.release();
      // CHECK-NEXT: queries.release();
      %query_tile = attn_tile.pipeline_wait %queries "query_tile" : !queries
      %key_tile = attn_tile.pipeline_wait %keys "key_tile" : !keys
      attn_tile.take_turn
      attn_tile.mma wgmma %scores, %query_tile, %key_tile transpose_b overwrite : !acc, !q_tile, !k_tile
      attn_tile.mma_commit
      attn_tile.pass_turn
      attn_tile.mma_wait pending(0) %scores : !acc
      attn_tile.pipeline_release %keys : !keys
      attn_tile.pipeline_release %queries : !queries
      // CHECK-NEXT: probabilities = convert<bf16>(scores);
      // CHECK-NEXT: const auto value_tile = values.wait();
      // CHECK-NEXT: mma_async</*overwrite*/ false>(output, probabilities, value_tile);
      // CHECK-NEXT: mma_commit();
      // CHECK-NEXT: mma_wait<0>(output, probabilities);
      // CHECK-NEXT: values.release();
      attn_tile.convert %scores to %probabilities : !acc, !operand
      %value_tile = attn_tile.pipeline_wait %values "value_tile" : !values
      attn_tile.mma wgmma %output, %probabilities, %value_tile : !acc, !operand, !v_tile
      attn_tile.mma_commit
      attn_tile.mma_wait pending(0) %output, %probabilities : !acc, !operand
      attn_tile.pipeline_release %values : !values
      // CHECK-NEXT: store<64, /*aligned*/ true>(out.at(h, 0, 0), out.stride(2), h, output);
      attn_tile.store %output to %out[%h, %c0, %c0] rows(%h) aligned : !acc, !tensor
      // CHECK-NEXT: const int taken = tiles.take();
      // CHECK-NEXT: store<64, /*aligned*/ true>(out.at(taken, 0, 0), out.stride(2), h, output);
      %taken = attn_tile.work_take %tiles : !attn_tile.work_queue<8> loc("taken")
      attn_tile.store %output to %out[%taken, %c0, %c0] rows(%h) aligned : !acc, !tensor
    // CHECK-NEXT: } else {
    // CHECK-NEXT:   decrease_registers<40>();
    // CHECK-NEXT:   if (threadIdx.x == 128 * kConsumers) {
    } producer registers(40) {
      // CHECK-NEXT: const int drawn = tiles.draw(counter.data, h);
      %drawn = attn_tile.work_draw %tiles from %counter of %h : !attn_tile.work_queue<8>, memref<1xi32> loc("drawn")
      // CHECK-NEXT: const auto key_slot = keys.acquire();
      // CHECK-NEXT: copy_bulk(key_slot, k_map, keys, 0, h, drawn);
      // CHECK-NEXT: keys.commit();
      %key_slot = attn_tile.pipeline_acquire %keys "key_slot" : !keys
      attn_tile.copy_bulk %k_map[%c0, %h, %drawn] to %key_slot signals %keys : !attn_tile.tensor_map<64x64xbf16>, !k_tile, !keys
      attn_tile.pipeline_commit %keys : !keys
      %query_slot = attn_tile.pipeline_acquire %queries "query_slot" : !queries
      attn_tile.copy_bulk %q_map[%c0, %h, %c0] to %query_slot signals %queries : !attn_tile.tensor_map<128x64xbf16>, !q_tile, !queries
      attn_tile.pipeline_commit %queries : !queries
      %value_slot = attn_tile.pipeline_acquire %values "value_slot" : !values
      attn_tile.copy_bulk %k_map[%c0, %h, %c0] to %value_slot signals %values : !attn_tile.tensor_map<64x64xbf16>, !v_tile, !values
      attn_tile.pipeline_commit %values : !values
    }
    // CHECK:      values.commit();
    // CHECK-NEXT:   }
    // CHECK-NEXT: }
    gpu.return
  }

  // Tiles of a bias, which warps load and release, from a column of a tensor on.
  // CHECK:      loads(
  gpu.func @loads(%bias_map: !attn_tile.tensor_map<128x64xf16>, %h: index) kernel attributes {attn_tile.kernel = #attn_tile.kernel<warps = 12>} {
    %c0 = arith.constant 0 : index
    // CHECK:      LoadedPipeline<f16, 1, 128, 80, 2> biases(shared + 0, shared + 32768);
    %biases = attn_tile.pipeline_alloc "biases" : !biases
    attn_tile.warp_specialize consumers(2) registers(232) {
      %scores = attn_tile.fragment_alloc "scores" : !attn_tile.fragment<128x80xf32, accumulator, 8x1>
      // CHECK:      Operand<f16, 128, 80, 8> bias;
      // CHECK-NEXT: const auto bias_tile = biases.wait();
      // CHECK-NEXT: load_panels(bias, bias_tile);
      // CHECK-NEXT: biases.release();
      // CHECK-NEXT: map([&](int row, int column, f16 x, float &s) {
      // CHECK-NEXT:   const float wide = float(x);
      // CHECK-NEXT:   s = wide;
      // CHECK-NEXT: }, bias, scores);
      %bias = attn_tile.fragment_alloc "bias" : !attn_tile.fragment<128x80xf16, operand_a, 8x1>
      %bias_tile = attn_tile.pipeline_wait %biases "bias_tile" : !biases
      attn_tile.load_panels %bias_tile to %bias : !attn_tile.panels<128x80xf16>, !attn_tile.fragment<128x80xf16, operand_a, 8x1>
      attn_tile.pipeline_release %biases : !biases
      attn_tile.map ins(%bias : !attn_tile.fragment<128x80xf16, operand_a, 8x1>) outs(%scores : !attn_tile.fragment<128x80xf32, accumulator, 8x1>) {
      ^bb0(%row: index, %column: index, %x: f16, %s: f32):
        %wide = arith.extf %x : f16 to f32
        attn_tile.yield %wide : f32
      }
    } producer registers(40) {
      %bias_slot = attn_tile.pipeline_acquire %biases "bias_slot" : !biases
      // CHECK:      copy_bulk(bias_slot, bias_map, biases, 0, 0, h, h);
      attn_tile.copy_bulk %bias_map[%c0, %c0, %h] column(%h) to %bias_slot signals %biases
          : !attn_tile.tensor_map<128x64xf16>, !attn_tile.panels<128x80xf16>, !biases
      attn_tile.pipeline_commit %biases : !biases
    }
    gpu.return
  }

  // Outputs written over the queries, and a warp that has them stored: three barriers for each slot.
  // CHECK:      // 12 warps, 1 block a multiprocessor; 32792 bytes of shared memory: queries 32768 at 0
  // CHECK:      stores(
  gpu.func @stores(%q_map: !attn_tile.tensor_map<128x64xbf16>, %out_map: !attn_tile.tensor_map<128x64xbf16>, %h: index) kernel
      attributes {attn_tile.kernel = #attn_tile.kernel<warps = 12>} {
    %c0 = arith.constant 0 : index
    // CHECK:      StoredPipeline<bf16, 1, 128, 80, 2> queries(shared + 0, shared + 32768);
    %queries = attn_tile.pipeline_alloc "queries" : !attn_tile.pipeline<1x128x80xbf16, 2, stored>
    attn_tile.warp_specialize consumers(2) registers(232) {
      %output = attn_tile.fragment_alloc "output" : !acc
      // CHECK:      const auto query_tile = queries.wait();
      // CHECK-NEXT: store_panels(queries, output);
      // CHECK-NEXT: queries.release();
      %query_tile = attn_tile.pipeline_wait %queries "query_tile" : !attn_tile.pipeline<1x128x80xbf16, 2, stored>
      attn_tile.store_panels %output to %queries : !acc, !attn_tile.pipeline<1x128x80xbf16, 2, stored>
      attn_tile.pipeline_release %queries : !attn_tile.pipeline<1x128x80xbf16, 2, stored>
    } producer registers(40) {
      // CHECK:      copy_bulk(query_slot, q_map, queries, 0, h, 0);
      // CHECK-NEXT: queries.commit();
      %query_slot = attn_tile.pipeline_acquire %queries "query_slot" : !attn_tile.pipeline<1x128x80xbf16, 2, stored>
      attn_tile.copy_bulk %q_map[%c0, %h, %c0] to %query_slot signals %queries
          : !attn_tile.tensor_map<128x64xbf16>, !q_tile, !attn_tile.pipeline<1x128x80xbf16, 2, stored>
      attn_tile.pipeline_commit %queries : !attn_tile.pipeline<1x128x80xbf16, 2, stored>
    // CHECK-NEXT:   } else if (warp_index() == 4 * kConsumers + 1) {
    // CHECK-NEXT:     const auto output_tile = queries.wait_written();
    // CHECK-NEXT:     store_bulk(out_map, output_tile, 0, h, 0);
    // CHECK-NEXT:     queries.release_stored();
    // CHECK-NEXT:   }
    // CHECK-NEXT: }
    } storer {
      %output_tile = attn_tile.pipeline_wait %queries "output_tile" : !attn_tile.pipeline<1x128x80xbf16, 2, stored>
      attn_tile.store_bulk %output_tile to %out_map[%c0, %h, %c0] : !q_tile, !attn_tile.tensor_map<128x64xbf16>
      attn_tile.pipeline_release %queries : !attn_tile.pipeline<1x128x80xbf16, 2, stored>
    }
    gpu.return
  }
}
