// RUN: attn-opt %s --attn-plan --remark-policy=all --remarks-filter=attn-plan -o /dev/null 2>&1 | FileCheck %s
// RUN: attn-opt %s --attn-plan -o /dev/null 2>&1 | count 0
// RUN: attn-opt %s --attn-set-target=arch=sm_90a --attn-plan --remark-policy=all --remarks-filter=attn-plan -o /dev/null 2>&1 | FileCheck %s --check-prefix=HOPPER
// RUN: attn-opt %s --attn-set-target=arch=sm_90a --attn-plan=family=portable --remark-policy=all --remarks-filter=attn-plan -o /dev/null 2>&1 | FileCheck %s --check-prefix=PORTABLE

// Why not what the GPU has, where the family is left open.
// HOPPER: remark: [Missed] schedule | Category:attn-plan | Function=forward | Reason="its products are of elements of 16 bits, not of 32", Remark="the family is portable, not hopper"
// HOPPER: remark: [Missed] schedule | Category:attn-plan | Function=fused | Reason="it has no gradient kernels", Remark="the family is portable, not hopper"
// PORTABLE-NOT: hopper

// 128 KiB of L2: the first candidate needs more than half of it. Every candidate is told, with numbers.
!q = tensor<1x1x?x64xf32>
!l = tensor<1x1x?xf32>

module attributes {attn.target = #attn.target<arch = x86_64_v4, vector_bits = 512, vector_registers = 32, l2_bytes = 131072>} {

// CHECK: remarks.mlir:[[#@LINE + 7]]:{{[0-9]+}}: remark: [Missed] schedule | Category:attn-plan | Function=forward
// CHECK-SAME: Reason="81920 bytes used in each step exceed half of the L2 cache, 65536 bytes"
// CHECK-SAME: Remark="block_m = 64, block_n = 128"
// CHECK: remark: [Passed] schedule | Category:attn-plan | Function=forward
// CHECK-SAME: Remark="block_m = 64, block_n = 64", hot_bytes=49152, total_bytes=81920
// CHECK: remark: [Passed] mask-structure | Category:attn-plan | Function=forward | Remark="the ranges are exact"
func.func @causal(%q: !q) -> !q {
  %out, %lse = attn.attention %q, %q, %q mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
    %keep = arith.cmpi sle, %kv_idx, %q_idx : index
    attn.yield %keep : i1
  } : (!q, !q, !q) -> (!q, !l)
  return %out : !q
}

// CHECK: remark: [Missed] mask-structure | Category:attn-plan | Function=forward
// CHECK-SAME: Reason="'tensor.extract' depends on the indices in a way that is not affine"
// CHECK-SAME: Remark="the ranges are not exact"
func.func @data_dependent(%q: !q, %table: tensor<?xi1>) -> !q {
  %out, %lse = attn.attention %q, %q, %q captures(%table : tensor<?xi1>)
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %keep = tensor.extract %table[%kv_idx] : tensor<?xi1>
      attn.yield %keep : i1
    } : (!q, !q, !q) -> (!q, !l)
  return %out : !q
}

// CHECK: schedule | Category:attn-plan | Function=dq
// CHECK: schedule | Category:attn-plan | Function=dkdv
func.func @backward(%q: !q, %lse: !l) -> !q {
  %dq, %dk, %dv = attn.attention_backward %q, %q, %q, %q, %lse, %q : (!q, !q, !q, !q, !l, !q) -> (!q, !q, !q)
  return %dq : !q
}
}
