// RUN: attn-translate --attn-to-cuda --split-kv --arch=sm_90a %s | FileCheck %s
// RUN: attn-translate --attn-to-cuda --split-kv --few-rows --arch=sm_90a %s | FileCheck %s --check-prefix=FEW
// RUN: attn-translate --attn-to-cuda --split-kv --few-rows --arch=sm_80 %s | FileCheck %s --check-prefix=AMPERE
// RUN: attn-translate --attn-to-launch-plan --arch=sm_90a %s | %python %S/Inputs/compact_plan.py | FileCheck %s --check-prefix=PLAN
// RUN: attn-translate --attn-to-launch-plan --arch=sm_90a %s | %python %S/Inputs/split_kv.py hopper
// RUN: attn-translate --attn-to-launch-plan --arch=sm_80 %s | %python %S/Inputs/split_kv.py portable
// RUN: attn-translate --attn-to-cuda --split-kv --arch=sm_80 %s | FileCheck %s --check-prefix=PORTABLE
// RUN: attn-translate --attn-to-cuda --split-kv --many-rows --arch=sm_90a %s | FileCheck %s --check-prefix=MANY
// RUN: sed 's/x64x/x128x/g' %s | attn-translate --attn-to-cuda --split-kv --arch=sm_90a | FileCheck %s --check-prefix=WIDE
// RUN: %if nvrtc %{ sed 's/x64x/x128x/g' %s | attn-translate --attn-to-cubin --split-kv --arch=sm_90a --fail-on-spill -o %t.cubin %}
// RUN: %if nvrtc %{ sed 's/x64x/x256x/g' %s | attn-translate --attn-to-cubin --split-kv --few-rows --arch=sm_90a --fail-on-spill -o %t.cubin %}
// RUN: %if nvrtc %{ sed 's/x64x/x128x/g' %s | attn-translate --attn-to-cubin --split-kv --few-rows --arch=sm_86 --fail-on-spill -o %t.cubin %}
// RUN: %if nvrtc %{ attn-translate --attn-to-cubin --split-kv --arch=sm_80 --fail-on-spill %s -o %t.cubin %}
// RUN: %if nvrtc %{ sed 's/x64x/x128x/g' %s | attn-translate --attn-to-cubin --split-kv --many-rows --arch=sm_90a --fail-on-spill -o %t.cubin %}

// Few queries and long keys: keys in parts, one kernel that merges them; one tile for the query heads of a key head.

// CHECK-LABEL: decode_forward_parts(
// CHECK:       const Tensor<float, 5> part_outs,
// CHECK:       const Tensor<bf16, 4> out,
// CHECK:       const int64 parts_wide,
// CHECK:       const int rows = q_len * 4;
// CHECK:       const int split = modulo(block_x, parts);
// CHECK:       const int kv_head =
// CHECK:       const int head = kv_head * 4;
// CHECK:       if (warpgroup < kConsumers) {
// CHECK:         load<64, /*aligned*/ true>(query_rows, query.at(batch, head), PackedRows{4, row_begin, query.stride(1), query.stride(2)}, q_rows);
// The parts share the blocks that the causal mask shows.
// CHECK:         const int kv_end =
// CHECK:         const int part_begin =
// CHECK:         for (int kv_begin
// CHECK:           const auto key_tile = keys.wait();
// CHECK-NEXT:      mma_async</*overwrite*/ true>(scores, query_rows, transpose(key_tile));
// CHECK-NEXT:      mma_commit();
// CHECK-NEXT:      mma_wait<0>(scores, query_rows);
// CHECK-NEXT:      keys.release();
// CHECK:             const int q_idx = (row_begin + row) / 4;
// CHECK:           const auto value_tile = values.wait();
// CHECK:         release_kernels();
// A single part is the result.
// CHECK:         if (parts > 1) {
// CHECK-NEXT:      store<64, /*aligned*/ true>(part_outs.at(split, batch, head), PackedRows{4, row_begin, part_outs.stride(2), part_outs.stride(3)}, q_rows, output);
// CHECK-NEXT:      store_rows(part_lses.at(split, batch, head),
// CHECK-NEXT:    } else {
// CHECK-NEXT:      store<64, /*aligned*/ true>(out.at(batch, head), PackedRows{4, row_begin, out.stride(1), out.stride(2)}, q_rows, output);
// CHECK-NEXT:      store_rows(lse.at(batch, head),
// The producer goes through the same blocks.
// CHECK:       } else {
// CHECK:         const int part_begin =
// CHECK:         for (int kv_begin
// CHECK:           copy_bulk(key_slot, key_map, keys, batch, kv_head, kv_begin);
// CHECK:           copy_bulk(value_slot, value_map, values, batch, kv_head, kv_begin);

// CHECK-LABEL: decode_merge(
// CHECK-NEXT:      const Tensor<const float, 5> part_outs,
// CHECK-NEXT:      const Tensor<const float, 4> part_lses,
// It may start early.
// CHECK:       await_kernels();
// CHECK:       const int lane = thread_x % 64;
// CHECK-NEXT:  const int row = block * 2 + thread_x / 64;
// CHECK-NEXT:  if (row < q_len) {
// CHECK-NEXT:    const int parts = part_lses.size(0);
// Few parts leave no loads idle.
// CHECK-NEXT:    if (parts < 3) {
// CHECK:           for (int first = 0; first < {{.*}}; first += 2) {
// CHECK:         } else {
// CHECK:         float max_lse = -kInfinity;
// CHECK-NEXT:    for (int first = 0; first < parts; first += 16) {
// CHECK:           #pragma unroll
// CHECK-NEXT:      for (int part = first; part < {{.*}}; ++part) {
// CHECK-NEXT:        const float part_lses_value = load(part_lses, part, batch, head, row);
// Without a branch: the loads are under way at once.
// CHECK-NEXT:        {{.*}} = maximum_number({{.*}}, part < parts ? part_lses_value : -kInfinity);
// CHECK:       #pragma unroll
// CHECK-NEXT:  for (int part
// CHECK:         const float weight = is_true ? 0.0f : expf(selected - max_lse);
// CHECK:         = load(part_outs, part, batch, head, row, lane);
// CHECK:       if (lane == 0) {
// CHECK-NEXT:    *lse.at(batch, head, row) =

// What the values of dropped pairs make of rows shows in the end, after the merge.
// CHECK-LABEL: decode_forward_repair(
// CHECK:       await_kernels();

// MANY-LABEL: decode_forward_parts(
// MANY:         constexpr int kConsumers = 2;
// MANY:         Fragment<float, 128, 128, 8, 1> scores;

// PORTABLE-LABEL: decode_forward_parts(
// PORTABLE:       const int rows = q_len * 4;
// PORTABLE:       const int parts = out.size(0);
// PORTABLE-NEXT:  const int split = modulo(block_x, parts);
// PORTABLE:       const int kv_head =
// PORTABLE:       const int head = kv_head * 4;
// PORTABLE:       copy_async<kThreads, 64>(query_tile, query.at(batch, head), PackedRows{4, row_begin, query.stride(1), query.stride(2)}, q_rows);
// The parts share the blocks that the causal mask shows.
// PORTABLE:       const int difference = wrap_sub(wrap_add(q_end, kv_len), q_len);
// PORTABLE:       const int kv_end = min(difference, kv_len);
// PORTABLE:       const int part_begin =
// PORTABLE:       copy_async<kThreads, 64>(key_tile, key.at(batch, kv_head, kv_first), key.stride(2), kv_rows);
// PORTABLE:       const int q_idx = (row_begin + row) / 4;
// PORTABLE:       store<64, /*aligned*/ true>(out.at(split, batch, head), PackedRows{4, row_begin, out.stride(2), out.stride(3)}, q_rows, output);
// PORTABLE:       store_rows(lse.at(split, batch, head), PackedRows{4, row_begin, lse.stride(2), {{.*}}}, q_rows, row_max);

// A thread has a column.
// WIDE: const int row = modulo(block_x, q_len);
// WIDE: const int lane = int(threadIdx.x) % 128;

// A tile of few rows: each warp streams keys of its own, the next ones on their way, and waits for no other until they merge.
// FEW-LABEL: decode_forward_parts(
// FEW:       Operand<bf16, 16, 64, 1> query_rows;
// FEW:       SharedTileRing<bf16, 32, 64, 8> key_tiles(shared + 0);
// FEW:       Fragment<float, 16, 64, 1, 1> output;
// FEW:       const int warp = int(threadIdx.x) / 32;
// FEW:       load<64, /*aligned*/ true>(query_rows, query.at(batch, head), PackedRows{4, row_begin, query.stride(1), query.stride(2)}, q_rows);
// FEW:       for (int kv_begin
// FEW:         __syncwarp();
// FEW:         copy_async<32, 64>(next_keys, key.at(batch, kv_head, kv_next), key.stride(2),
// FEW:         copy_async<32, 64>(next_values,
// FEW:         commit_group();
// FEW-NEXT:    wait_group<1>();
// FEW-NEXT:    __syncwarp();
// FEW-NOT:     __syncthreads
// FEW:         mma(scores, query_rows, transpose(key_tile));
// FEW:         mma(output, probabilities, value_tile);
// FEW:       release_kernels();
// FEW:       merge_warps(output, row_max, merged, merged_lse, outputs.data(), lses.data());
// FEW-NEXT:  store<64, /*aligned*/ true>(out.at(split, batch, head), {{.*}}, q_rows, merged);

// AMPERE-NOT: _kernels();
// AMPERE:     merge_warps(
// AMPERE-NOT: _kernels();

// Asked for before what is for all calls.
// PLAN:      variant: few_rows if {"min": [{{.*}}{"less_equal": [{"mul": [{"dim": [0, 2]}, 4]}, 16]}
// PLAN:      variant: many_rows if {"min": [{{.*}}{"less_equal": [65, {"mul": [{"dim": [0, 2]}, 4]}]}
// PLAN:      variant: split_kv if {"min": [{{.*}}{"less_equal": [2, {"max": [{"min": [{"min": [{"ceildiv": [124,
// PLAN-NEXT:   workspace: {{.*}}"type": "f32"
// PLAN-NEXT:   workspace: {{.*}}"type": "f32"
// PLAN-NEXT:   workspace: {{.*}}"progress"
// PLAN-NEXT:   launch: {{.*}} decode_forward_parts grid
// PLAN:        launch: {{.*}} decode_merge grid {{.*}} early{{$}}
// PLAN:        launch: {{.*}} decode_forward_repair grid {{.*}} early{{$}}
// PLAN:      variant: aligned if
// PLAN:      variant: any if 1

!q = tensor<?x32x?x64xbf16>
!k = tensor<?x8x?x64xbf16>
!l = tensor<?x32x?xf32>
func.func @decode(%q: !q, %k: !k, %v: !k) -> (!q, !l) {
  %out, %lse = attn.attention %q, %k, %v
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %q_len = attn.q_len %b
      %kv_len = attn.kv_len %b
      %offset = arith.subi %kv_len, %q_len : index
      %last = arith.addi %q_idx, %offset : index
      %keep = arith.cmpi sle, %kv_idx, %last : index
      attn.yield %keep : i1
    } : (!q, !k, !k) -> (!q, !l)
  return %out, %lse : !q, !l
}
