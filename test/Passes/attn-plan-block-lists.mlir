// RUN: attn-opt %s --attn-differentiate --attn-plan | FileCheck %s
// RUN: attn-opt %s --attn-plan --remark-policy=all --remarks-filter=attn-plan -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// Lists go along, into the backward function and into each kernel, whose tiles divide their blocks; the operation that makes them
// is given the ranges of its mask.
!q = tensor<1x2x?x64xf32>
!l = tensor<1x2x?xf32>
!lists = tensor<1x1x?x?x4xi32>

module attributes {attn.target = #attn.target<arch = x86_64_v3, vector_bits = 256, vector_registers = 16, l2_bytes = 2097152>} {

// CHECK-LABEL: func @make(
// CHECK: attn.block_lists {{.*}} blocks(64, 64) mask(
// CHECK: } ranges(
// CHECK: attn.yield_ranges visited(%c0 to %end) masked(
func.func @make(%q: !q) -> !lists {
  %lists = attn.block_lists %q, %q blocks(64, 64) mask(%b: index, %h: index, %i: index, %j: index) {
    %keep = arith.cmpi sle, %j, %i : index
    attn.yield %keep : i1
  } : (!q, !q) -> !lists
  return %lists : !lists
}

// CHECK-LABEL: func @use(
// CHECK-SAME: %[[LISTS:[^,]*]]: tensor<1x1x?x?x4xi32>)
// CHECK: forward {{.*}} block_lists(%[[LISTS]] : tensor<1x1x?x?x4xi32>) blocks(64, 64) schedule(<block_m = 64, block_n = 64,
// CHECK-LABEL: func @use_backward(
// CHECK-SAME: %{{[^,]*}}: tensor<1x2x?x64xf32>, %[[LISTS:[^,]*]]: tensor<1x1x?x?x4xi32>,
// CHECK: dq {{.*}} block_lists(%[[LISTS]] : tensor<1x1x?x?x4xi32>) blocks(64, 64) schedule(<block_m = 64, block_n = 64,
// CHECK: dkdv {{.*}} block_lists(%[[LISTS]] : tensor<1x1x?x?x4xi32>) blocks(64, 64) schedule(<block_m = 64, block_n = 64,
// REMARK: remark: [Missed] schedule {{.*}} Reason="does not divide the 64 x 64 of the block lists", Remark="block_m = 64, block_n = 128"
func.func @use(%q: !q, %lists: !lists) -> (!q, !l) {
  %out, %lse = attn.attention %q, %q, %q block_lists(%lists : !lists) blocks(64, 64)
    mask(%b: index, %h: index, %i: index, %j: index) {
      %keep = arith.cmpi sle, %j, %i : index
      attn.yield %keep : i1
    } : (!q, !q, !q) -> (!q, !l)
  return %out, %lse : !q, !l
}
}
