// RUN: attn-opt %s --attn-set-target=arch=sm_90a --attn-plan | FileCheck %s
// RUN: attn-opt %s --attn-set-target=arch=sm_90a --attn-plan --remark-policy=all --remarks-filter=attn-plan -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: attn-opt %s --attn-set-target=arch=sm_90a --attn-plan=bias-stages=0 --remark-policy=all --remarks-filter=attn-plan 2>&1 | FileCheck %s --check-prefix=LOADED
// RUN: not attn-opt %s --attn-set-target=arch=sm_90a --attn-plan=bias-stages=3 2>&1 | FileCheck %s --check-prefix=MANY

// Of which captured tensor the hopper family copies tiles, and why of others not.

// MANY: error: 'attn.attention' op expected bias-stages from 0 to 2, or -1 to choose, got 3

!q = tensor<1x8x?x128xbf16>
!l = tensor<1x8x?xf32>

// CHECK-LABEL: func @tiles
// CHECK: bias_stages = 2
// REMARK: [Passed] bias | Category:attn-plan | Function=forward | Remark="tiles of capture 1, in 2 stages, by the tensor memory accelerator"
// LOADED: [Missed] bias | {{.*}} | Reason="its base and strides may be no multiples of 16 bytes, or keys are computed in parts", Remark="elements, loaded one by one"
// LOADED-NOT: bias_stages
func.func @tiles(%q: !q, %scale: f32, %bias: tensor<?x?x?xbf16>) -> !q {
  %out, %lse = attn.attention %q, %q, %q captures(%scale : f32, %bias : tensor<?x?x?xbf16>)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %x = tensor.extract %bias[%h, %q_idx, %kv_idx] : tensor<?x?x?xbf16>
      %wide = arith.extf %x : bf16 to f32
      %scaled = arith.mulf %wide, %scale : f32
      %r = arith.addf %s, %scaled : f32
      attn.yield %r : f32
    } : (!q, !q, !q) -> (!q, !l)
  return %out : !q
}

// CHECK-LABEL: func @wide
// CHECK-NOT: bias_stages
// REMARK: [Missed] bias | {{.*}} | Reason="capture 0 is of f32, not of f16 or bf16", Remark="elements, loaded one by one"
func.func @wide(%q: !q, %bias: tensor<?x?xf32>) -> !q {
  %out, %lse = attn.attention %q, %q, %q captures(%bias : tensor<?x?xf32>)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %x = tensor.extract %bias[%q_idx, %kv_idx] : tensor<?x?xf32>
      %r = arith.addf %s, %x : f32
      attn.yield %r : f32
    } : (!q, !q, !q) -> (!q, !l)
  return %out : !q
}

// The same read twice, once under a condition.
// CHECK-LABEL: func @twice
// CHECK: bias_stages = 2
// REMARK: [Passed] bias | {{.*}} | Remark="tiles of capture 0, in 2 stages, by the tensor memory accelerator"
func.func @twice(%q: !q, %bias: tensor<?x?x?xbf16>) -> !q {
  %out, %lse = attn.attention %q, %q, %q captures(%bias : tensor<?x?x?xbf16>)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %two = arith.constant 2 : index
      %group = arith.divsi %h, %two : index
      %x = tensor.extract %bias[%group, %q_idx, %kv_idx] : tensor<?x?x?xbf16>
      %is_near = arith.cmpi sle, %kv_idx, %two : index
      %r = scf.if %is_near -> f32 {
        %again = arith.divsi %h, %two : index
        %y = tensor.extract %bias[%again, %q_idx, %kv_idx] : tensor<?x?x?xbf16>
        %sum = arith.addf %x, %y : bf16
        %wide = arith.extf %sum : bf16 to f32
        scf.yield %wide : f32
      } else {
        %wide = arith.extf %x : bf16 to f32
        scf.yield %wide : f32
      }
      %t = arith.addf %s, %r : f32
      attn.yield %t : f32
    } : (!q, !q, !q) -> (!q, !l)
  return %out : !q
}

// CHECK-LABEL: func @two
// CHECK-NOT: bias_stages
// REMARK: [Missed] bias | {{.*}} | Reason="several are read", Remark="elements, loaded one by one"
func.func @two(%q: !q, %bias: tensor<?x?x?xbf16>) -> !q {
  %out, %lse = attn.attention %q, %q, %q captures(%bias : tensor<?x?x?xbf16>)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %x = tensor.extract %bias[%h, %q_idx, %kv_idx] : tensor<?x?x?xbf16>
      %y = tensor.extract %bias[%b, %q_idx, %kv_idx] : tensor<?x?x?xbf16>
      %sum = arith.addf %x, %y : bf16
      %wide = arith.extf %sum : bf16 to f32
      %r = arith.addf %s, %wide : f32
      attn.yield %r : f32
    } : (!q, !q, !q) -> (!q, !l)
  return %out : !q
}

// CHECK-LABEL: func @chosen
// CHECK-NOT: bias_stages
// REMARK: [Missed] bias | {{.*}} | Reason="which matrix of capture 1 is read does not follow from batch entry and head", Remark="elements, loaded one by one"
func.func @chosen(%q: !q, %numbers: tensor<?xi32>, %bias: tensor<?x?x?xbf16>) -> !q {
  %out, %lse = attn.attention %q, %q, %q captures(%numbers : tensor<?xi32>, %bias : tensor<?x?x?xbf16>)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %number = tensor.extract %numbers[%h] : tensor<?xi32>
      %i = arith.index_cast %number : i32 to index
      %x = tensor.extract %bias[%i, %q_idx, %kv_idx] : tensor<?x?x?xbf16>
      %wide = arith.extf %x : bf16 to f32
      %r = arith.addf %s, %wide : f32
      attn.yield %r : f32
    } : (!q, !q, !q) -> (!q, !l)
  return %out : !q
}

// Rows of a tile would be keys.
// CHECK-LABEL: func @transposed
// CHECK-NOT: bias_stages
// REMARK: [Missed] bias | {{.*}} | Reason="capture 0 is not read at [..., q_idx, kv_idx]", Remark="elements, loaded one by one"
func.func @transposed(%q: !q, %bias: tensor<?x?xbf16>) -> !q {
  %out, %lse = attn.attention %q, %q, %q captures(%bias : tensor<?x?xbf16>)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %x = tensor.extract %bias[%kv_idx, %q_idx] : tensor<?x?xbf16>
      %wide = arith.extf %x : bf16 to f32
      %r = arith.addf %s, %wide : f32
      attn.yield %r : f32
    } : (!q, !q, !q) -> (!q, !l)
  return %out : !q
}

// Of a column alone, which is loaded once a column: no bias, and nothing to say of it.
// CHECK-LABEL: func @column
// CHECK-NOT: bias_stages
// REMARK-NOT: bias |
func.func @column(%q: !q, %bias: tensor<?x?xbf16>) -> !q {
  %out, %lse = attn.attention %q, %q, %q captures(%bias : tensor<?x?xbf16>)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %x = tensor.extract %bias[%b, %kv_idx] : tensor<?x?xbf16>
      %wide = arith.extf %x : bf16 to f32
      %r = arith.addf %s, %wide : f32
      attn.yield %r : f32
    } : (!q, !q, !q) -> (!q, !l)
  return %out : !q
}
