// RUN: attn-opt %s --attn-split-kv=splits=3 | FileCheck %s
// RUN: attn-opt %s --attn-split-kv=splits=5 | FileCheck %s --check-prefix=FIVE
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

// Three parts. Regions and captures go along; each part is a slice of the results, and an odd one is merged last.
// CHECK-LABEL: func @parts(
// CHECK-SAME: %[[Q:.*]]: tensor<1x2x?x8xf32>, %[[WINDOW:.*]]: index)
// CHECK: %[[OUT:.*]], %[[LSE:.*]] = attn.online_attention forward %[[Q]], %[[Q]], %[[Q]] captures(%[[WINDOW]] : index) scale(5.000000e-01) schedule(<block_m = 16, block_n = 32, kv_splits = 3, vector_length = 8, register_rows = 4, register_vectors = 2>)
// CHECK-SAME: mask(
// CHECK: ranges(
// CHECK: -> (tensor<3x1x2x?x8xf32>, tensor<3x1x2x?xf32>)
// CHECK: %[[OUT0:.*]] = tensor.extract_slice %[[OUT]][0, 0, 0, 0, 0] [1, 1, 2, %{{.*}}, 8] [1, 1, 1, 1, 1] : tensor<3x1x2x?x8xf32> to tensor<1x2x?x8xf32>
// CHECK: %[[LSE0:.*]] = tensor.extract_slice %[[LSE]][0, 0, 0, 0] [1, 1, 2, %{{.*}}] [1, 1, 1, 1] : tensor<3x1x2x?xf32> to tensor<1x2x?xf32>
// CHECK: %[[OUT1:.*]] = tensor.extract_slice %[[OUT]][1, 0, 0, 0, 0]
// CHECK: %[[LSE1:.*]] = tensor.extract_slice %[[LSE]][1, 0, 0, 0]
// CHECK: %[[OUT2:.*]] = tensor.extract_slice %[[OUT]][2, 0, 0, 0, 0]
// CHECK: %[[LSE2:.*]] = tensor.extract_slice %[[LSE]][2, 0, 0, 0]
// CHECK: %[[OUT01:.*]], %[[LSE01:.*]] = attn.merge %[[OUT0]], %[[LSE0]], %[[OUT1]], %[[LSE1]]
// CHECK-NEXT: %[[ALL:.*]], %[[ALL_LSE:.*]] = attn.merge %[[OUT01]], %[[LSE01]], %[[OUT2]], %[[LSE2]]
// CHECK-NEXT: return %[[ALL]], %[[ALL_LSE]]

// Five parts make a balanced tree: (0 1) (2 3) 4, then ((0 1) (2 3)) 4, then all.
// FIVE-LABEL: func @parts(
// FIVE: %[[O01:.*]], %[[L01:.*]] = attn.merge
// FIVE-NEXT: %[[O23:.*]], %[[L23:.*]] = attn.merge
// FIVE-NEXT: %[[O03:.*]], %[[L03:.*]] = attn.merge %[[O01]], %[[L01]], %[[O23]], %[[L23]]
// FIVE-NEXT: %[[ALL:.*]], %{{.*}} = attn.merge %[[O03]], %[[L03]], %
// FIVE-NEXT: return %[[ALL]]

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
// CHOSEN-COUNT-3: attn.merge
// CHOSEN-NOT: attn.merge
func.func @decode(%q: tensor<1x2x1x8xf32>, %k: tensor<1x2x4096x8xf32>) -> tensor<1x2x1x8xf32> {
  %out, %lse = attn.online_attention forward %q, %k, %k
    schedule(<block_m = 16, block_n = 128, vector_length = 8, register_rows = 4, register_vectors = 2>)
    : (tensor<1x2x1x8xf32>, tensor<1x2x4096x8xf32>, tensor<1x2x4096x8xf32>) -> (tensor<1x2x1x8xf32>, tensor<1x2x1xf32>)
  return %out : tensor<1x2x1x8xf32>
}

// The parts of a bf16 attention are f32, rounded once at the end; the merges see no bf16.
// CHECK-LABEL: func @half(
// CHECK: attn.online_attention {{.*}} -> (tensor<3x1x2x?x8xf32>, tensor<3x1x2x?xf32>)
// CHECK-COUNT-2: attn.merge {{.*}} : tensor<1x2x?x8xf32>, tensor<1x2x?xf32>
// CHECK: %[[ROUNDED:.*]] = arith.truncf %{{.*}} : tensor<1x2x?x8xf32> to tensor<1x2x?x8xbf16>
// CHECK: return %[[ROUNDED]]
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
