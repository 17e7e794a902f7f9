// RUN: attn-opt %s --attn-set-target=arch=sm_90a --attn-plan=short-lengths=true | FileCheck %s
// RUN: attn-opt %s --attn-set-target=arch=sm_90a --attn-plan | FileCheck %s --check-prefix=ANY
// RUN: attn-opt %s --attn-set-target=arch=sm_90a --attn-plan="short-lengths=true block-m=192" | FileCheck %s --check-prefix=GIVEN
// RUN: not attn-translate %s --attn-to-cuda --arch=sm_80 --short-lengths 2>&1 | FileCheck %s --check-prefix=NONE

// NONE: error: is lowered in no way of its own for short_lengths; print it without that option

// Few queries under a mask have a tile of their own, where another one is faster for many.

!t = tensor<?x32x?x64xbf16>
!l = tensor<?x32x?xf32>

// CHECK-LABEL: func.func @causal(
// CHECK-SAME: %[[Q:[^:]*]]: tensor<?x32x?x64xbf16>, %
// CHECK: %[[Q_LEN:.*]] = tensor.dim %[[Q]], %c2
// CHECK: %[[SHORT:.*]] = arith.cmpi sle, %[[Q_LEN]], %c1536
// CHECK: attn_tile.take_if %[[SHORT]] "short_lengths"
// CHECK: schedule(<block_m = 128, block_n = 128, {{.*}}family = hopper
// ANY-LABEL: func @causal(
// ANY-NOT: take_if
// ANY: schedule(<block_m = 192, block_n = 128, {{.*}}family = hopper
// GIVEN-LABEL: func @causal(
// GIVEN-NOT: take_if
// GIVEN: schedule(<block_m = 192, block_n = 128, {{.*}}family = hopper
func.func @causal(%q: !t, %k: !t, %v: !t) -> !t {
  %out, %lse = attn.attention %q, %k, %v
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %keep = arith.cmpi sle, %kv_idx, %q_idx : index
      attn.yield %keep : i1
    } : (!t, !t, !t) -> (!t, !l)
  return %out : !t
}

// CHECK-LABEL: func @full(
// CHECK-NOT: take_if
// CHECK: schedule(<block_m = 192, block_n = 128, {{.*}}family = hopper
func.func @full(%q: !t, %k: !t, %v: !t) -> !t {
  %out, %lse = attn.attention %q, %k, %v : (!t, !t, !t) -> (!t, !l)
  return %out : !t
}
