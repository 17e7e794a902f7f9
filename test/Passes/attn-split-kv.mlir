// RUN: attn-opt %s --attn-split-kv=splits=3 | FileCheck %s
// RUN: attn-opt %s --attn-split-kv | FileCheck %s --check-prefix=CHOSEN
// RUN: attn-opt %s --attn-split-kv=splits=1 | FileCheck %s --check-prefix=ONE
// RUN: attn-opt %s --attn-split-kv=splits=3 --attn-to-cpu-pipeline -o /dev/null
// RUN: not attn-opt %s --attn-split-kv=splits=65 2>&1 | FileCheck %s --check-prefix=MANY
// RUN: not attn-opt %s --attn-split-kv=splits=-1 2>&1 | FileCheck %s --check-prefix=NEGATIVE

// MANY: error: 'attn.online_attention' op expected from 1 to 64 splits of the keys, got 65
// NEGATIVE: error: 'attn.online_attention' op expected from 1 to 64 splits of the keys, got -1

// Explicitly one part: nothing to merge.
// ONE-NOT: kv_splits = 3
// ONE-NOT: attn.merge

!q = tensor<1x2x?x8xf32>
!l = tensor<1x2x?xf32>
!h = tensor<1x2x?x8xbf16>

module attributes {attn.target = #attn.target<arch = x86_64_v3, vector_bits = 256, vector_registers = 16, multiprocessors = 8>} {

// Three parts, merged as the stack that they are. Regions and captures go along.
// CHECK-LABEL: func @parts(
// CHECK-SAME: %[[Q:.*]]: tensor<1x2x?x8xf32>, %[[WINDOW:.*]]: index)
// CHECK: %[[OUTS:.*]], %[[LSES:.*]] = attn.online_attention forward %[[Q]], %[[Q]], %[[Q]] captures(%[[WINDOW]] : index) scale(5.000000e-01) schedule(<block_m = 16, block_n = 32, kv_splits = 3, vector_length = 8, register_rows = 4, register_vectors = 2>)
// CHECK-SAME: mask(
// CHECK: ranges(
// CHECK: -> (tensor<3x1x2x?x8xf32>, tensor<3x1x2x?xf32>)
// CHECK-NEXT: %[[OUT:.*]], %[[LSE:.*]] = attn.merge (%[[OUTS]], %[[LSES]]) : tensor<3x1x2x?x8xf32>, tensor<3x1x2x?xf32> -> tensor<1x2x?x8xf32>, tensor<1x2x?xf32>
// CHECK-NEXT: return %[[OUT]], %[[LSE]]

// The number of queries is not known, so nothing tells that cores would be idle.
// CHOSEN-LABEL: func @parts(
// CHOSEN-NOT: kv_splits
// CHOSEN-NOT: attn.merge
func.func @parts(%q: !q, %window: index) -> (!q, !l) {
  %out, %lse = attn.online_attention forward %q, %q, %q captures(%window : index) scale(0.5)
    schedule(<block_m = 16, block_n = 32, vector_length = 8, register_rows = 4, register_vectors = 2>)
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %keep = arith.cmpi slt, %kv_idx, %window : index
      attn.yield %keep : i1
    } ranges(%b: index, %h: index, %begin: index, %end: index) {
      %c0 = arith.constant 0 : index
      %kv_len = attn.kv_len %b
      attn.yield_ranges visited(%c0 to %window) masked(%window to %kv_len)
    } : (!q, !q, !q) -> (!q, !l)
  return %out, %lse : !q, !l
}

// Decoding: two blocks of queries for eight cores, and keys enough for four parts of at least four blocks.
// CHOSEN-LABEL: func @decode(
// CHOSEN: attn.online_attention forward {{.*}} kv_splits = 4,
// CHOSEN: attn.merge (%{{.*}}, %{{.*}}) : tensor<4x1x2x1x8xf32>, tensor<4x1x2x1xf32> -> tensor<1x2x1x8xf32>, tensor<1x2x1xf32>
func.func @decode(%q: tensor<1x2x1x8xf32>, %k: tensor<1x2x4096x8xf32>) -> tensor<1x2x1x8xf32> {
  %out, %lse = attn.online_attention forward %q, %k, %k
    schedule(<block_m = 16, block_n = 128, vector_length = 8, register_rows = 4, register_vectors = 2>)
    : (tensor<1x2x1x8xf32>, tensor<1x2x4096x8xf32>, tensor<1x2x4096x8xf32>) -> (tensor<1x2x1x8xf32>, tensor<1x2x1xf32>)
  return %out : tensor<1x2x1x8xf32>
}

// Block lists go along.
// CHECK-LABEL: func @listed(
// CHECK: forward {{.*}} block_lists(%{{.*}} : tensor<1x1x?x?x4xi32>) blocks(64, 128) schedule(<block_m = 16, block_n = 32, kv_splits = 3>) mask(
// CHECK: attn.merge
func.func @listed(%q: !q, %lists: tensor<1x1x?x?x4xi32>) -> !q {
  %out, %lse = attn.online_attention forward %q, %q, %q block_lists(%lists : tensor<1x1x?x?x4xi32>) blocks(64, 128)
    schedule(<block_m = 16, block_n = 32>)
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %keep = arith.cmpi sle, %kv_idx, %q_idx : index
      attn.yield %keep : i1
    } ranges(%b: index, %h: index, %begin: index, %end: index) {
      %c0 = arith.constant 0 : index
      attn.yield_ranges visited(%c0 to %end) masked(%begin to %end)
    } : (!q, !q, !q) -> (!q, !l)
  return %out : !q
}

// The parts of a bf16 attention are f32, rounded once by the merge.
// CHECK-LABEL: func @half(
// CHECK: attn.online_attention {{.*}} -> (tensor<3x1x2x?x8xf32>, tensor<3x1x2x?xf32>)
// CHECK-NEXT: %[[OUT:.*]], %[[LSE:.*]] = attn.merge {{.*}} : tensor<3x1x2x?x8xf32>, tensor<3x1x2x?xf32> -> tensor<1x2x?x8xbf16>, tensor<1x2x?xf32>
// CHECK-NEXT: return %[[OUT]], %[[LSE]]
func.func @half(%q: !h) -> (!h, !l) {
  %out, %lse = attn.online_attention forward %q, %q, %q schedule(<block_m = 16, block_n = 32>) : (!h, !h, !h) -> (!h, !l)
  return %out, %lse : !h, !l
}

// No rows, no parts.
// CHECK-LABEL: func @empty(
// CHECK-NOT: kv_splits
// CHECK-NOT: attn.merge
// CHECK: return
func.func @empty(%q: tensor<1x2x0x8xf32>, %k: !q) -> tensor<1x2x0x8xf32> {
  %out, %lse = attn.online_attention forward %q, %k, %k schedule(<block_m = 16, block_n = 32>)
    : (tensor<1x2x0x8xf32>, !q, !q) -> (tensor<1x2x0x8xf32>, tensor<1x2x0xf32>)
  return %out : tensor<1x2x0x8xf32>
}

// Only forward is split, and only once.
// CHECK-LABEL: func @others(
// CHECK-NOT: attn.merge
// CHECK: attn.online_attention dq {{.*}} schedule(<block_m = 16, block_n = 32>)
// CHECK: attn.online_attention forward {{.*}} kv_splits = 2>
func.func @others(%q: !q, %lse: !l) -> (!q, tensor<2x1x2x?x8xf32>) {
  %dq = attn.online_attention dq %q, %q, %q, %lse, %lse, %q schedule(<block_m = 16, block_n = 32>)
    : (!q, !q, !q, !l, !l, !q) -> !q
  %parts:2 = attn.online_attention forward %q, %q, %q schedule(<block_m = 16, block_n = 32, kv_splits = 2>)
    : (!q, !q, !q) -> (tensor<2x1x2x?x8xf32>, tensor<2x1x2x?xf32>)
  return %dq, %parts#0 : !q, tensor<2x1x2x?x8xf32>
}
}
