// RUN: attn-translate --attn-to-launch-plan --arch=sm_90a %s | %python %S/Inputs/compact_plan.py | FileCheck %s --check-prefix=PLAN
// RUN: attn-translate --attn-to-cuda --arch=sm_90a %s | FileCheck %s
// RUN: %if nvrtc %{ attn-translate --attn-to-cubin --arch=sm_90a %s -o %t.cubin %}

// Tiles of a dense bias where all rows are multiples of 16 bytes; elements of it where only those of queries, keys and values are.
// PLAN:      variant: tiled_bias if {{.*}}{"less": [0, {"dim": [3, 1]}]}, {"less": [0, {"dim": [3, 2]}]}{{.*}}{"parameter_aligned": [3, 16]}
// PLAN-NEXT:   workspace
// PLAN-NEXT:   launch: [[TILES:[0-9]+]] biased_forward grid
// PLAN:          {"tensor_map": {"parameter": 3}, "box": [192, 64]}
// PLAN:        launch: [[REPAIR:[0-9]+]] biased_forward_repair grid
// PLAN:      variant: aligned if
// PLAN-NOT:    {"parameter_aligned": [3, 16]}
// PLAN:        launch: {{[0-9]+}} biased_forward grid {{.*}} threads 512
// PLAN-NOT:      {"tensor_map": {"parameter": 3}
// PLAN:        launch: [[REPAIR]] biased_forward_repair grid
// PLAN:      variant: any if 1

// CHECK:      LoadedPipeline<bf16, 2, 192, 128, 3> biases(
// CHECK:      Operand<bf16, 192, 128, 12> bias;
// Tiles of one block of queries follow one another, and the entries of a batch, which read the same.
// CHECK:      const int block = num_blocks - 1 - rank;
// CHECK-NEXT: const int head = head_of_all / entries;
// CHECK-NEXT: const int batch = head_of_all - head * entries;
// CHECK:      mma_wait<0>(scores);
// CHECK-NEXT: keys.release();
// CHECK-NEXT: const auto bias_tile = biases.wait();
// CHECK-NEXT: load_panels(bias, bias_tile);
// CHECK-NEXT: map([&](int row, int column, bf16 bias_value, float &scores_value) {
// CHECK-NEXT:   const float wide = float(bias_value);
// One more multiply-add where the maximum is fixed.
// CHECK:      map([&](int row, int column, float row_base_value, bf16 bias_value, float &scores_value) {
// CHECK-NEXT:   const float wide = float(bias_value);
// CHECK-NEXT:   scores_value = exp2_approx(fmaf(wide, 1.442695f, fmaf(scores_value, 0.18033688f, row_base_value)));
// CHECK:      biases.release();
// CHECK-NEXT: mma_wait<0>(output, probabilities);
// CHECK:      copy_bulk(bias_slot, bias_map, biases, 0, head, q_begin, kv_first);

!q = tensor<?x8x?x64xbf16>
func.func @biased(%q: !q, %k: !q, %v: !q, %bias: tensor<8x?x?xbf16>) -> (!q, tensor<?x8x?xf32>) {
  %out, %lse = attn.attention %q, %k, %v captures(%bias : tensor<8x?x?xbf16>)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %x = tensor.extract %bias[%h, %q_idx, %kv_idx] : tensor<8x?x?xbf16>
      %wide = arith.extf %x : bf16 to f32
      %r = arith.addf %s, %wide : f32
      attn.yield %r : f32
    } : (!q, !q, !q) -> (!q, tensor<?x8x?xf32>)
  return %out, %lse : !q, tensor<?x8x?xf32>
}
