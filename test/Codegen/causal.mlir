// RUN: attn-translate --attn-to-cuda --family=portable --arch=sm_90a %s | FileCheck %s
// RUN: attn-translate --attn-to-cuda --arch=sm_86 %s | FileCheck %s --check-prefix=SM86

// Plain causal attention, from its text to the kernel that codegen/README.md shows.

// CHECK: __launch_bounds__(128, 2)
// CHECK-NEXT: causal_forward(
// CHECK: SharedTile<bf16, 128, 128> query_tile(shared + 0);
// CHECK: SharedTile<bf16, 64, 128> key_tile(shared + 32768);
// CHECK: for (int kv_begin = 0; kv_begin < kv_end; kv_begin += 64) {
// CHECK: mma(scores, query_tile, transpose(key_tile));
// CHECK: if (is_masked) {
// CHECK: if (kv_len < kv_block_end) {
// CHECK: const bool are_large = any([&](int row, float row_shift_value) {
// CHECK-NEXT: return fabsf(row_shift_value) > 67108864.0f;
// CHECK-NEXT: }, row_shift);
// CHECK-NEXT: if (are_large) {
// CHECK: probabilities = convert<bf16>(scores);
// CHECK-NEXT: mma(output, probabilities, value_tile);
// CHECK: store_via<kThreads, 128>(out.at(batch, head, q_begin)

// Half of the shared memory holds half of the keys.
// SM86: SharedTile<bf16, 32, 128> key_tile(shared + 32768);
func.func @causal(%query: tensor<?x16x?x128xbf16>, %key: tensor<?x4x?x128xbf16>, %value: tensor<?x4x?x128xbf16>)
    -> (tensor<?x16x?x128xbf16>, tensor<?x16x?xf32>) {
  %out, %lse = attn.attention %query, %key, %value
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %keep = arith.cmpi sle, %kv_idx, %q_idx : index
      attn.yield %keep : i1
    } : (tensor<?x16x?x128xbf16>, tensor<?x4x?x128xbf16>, tensor<?x4x?x128xbf16>) -> (tensor<?x16x?x128xbf16>, tensor<?x16x?xf32>)
  return %out, %lse : tensor<?x16x?x128xbf16>, tensor<?x16x?xf32>
}
