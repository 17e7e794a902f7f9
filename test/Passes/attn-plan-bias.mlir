// RUN: attn-opt %s --attn-set-target=arch=sm_90a --attn-plan | FileCheck %s
// RUN: attn-opt %s --attn-set-target=arch=sm_90a --attn-plan --remark-policy=all --remarks-filter=attn-plan -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: attn-opt %s --attn-set-target=arch=sm_90a --attn-plan=bias-stages=0 --remark-policy=all --remarks-filter=attn-plan 2>&1 | FileCheck %s --check-prefix=LOADED
// RUN: not attn-opt %s --attn-set-target=arch=sm_90a --attn-plan=bias-stages=3 2>&1 | FileCheck %s --check-prefix=MANY
// RUN: attn-opt %s --attn-set-target=arch=sm_90a --attn-plan="family=hopper block-m=128 block-n=176" | FileCheck %s --check-prefix=GIVEN

// Elements are loaded where a tile is given beside which there is no place for one of a bias.
// GIVEN: func @tiles
// GIVEN-NOT: bias_stages
// GIVEN: block_n = 176
// GIVEN-NOT: bias_stages

// Of which captured tensor the hopper family copies tiles, and why of others not.

// MANY: error: 'attn.attention' op expected bias-stages from 0 to 2, or -1 to choose, got 3

!q = tensor<1x8x?x128xbf16>
!l = tensor<1x8x?xf32>

// CHECK-LABEL: func @tiles
// CHECK: bias_stages = 2
// REMARK: [Passed] bias | Category:attn-plan | Function=forward | Remark="tiles of capture 1, in 2 stages, by the tensor memory accelerator"
// LOADED: [Missed] bias | {{.*}} | Reason="its base and strides may be no multiples of 16 bytes, keys are computed in parts, no tile has a place beside the given one, or none is asked for", Remark="elements, loaded one by one"
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

// Each value of a leading index is looked at once, though 2^48 paths lead to the head; so is each pair of values
// where two reads are compared.
// CHECK-LABEL: func @deep
// CHECK: bias_stages = 2
// REMARK: [Passed] bias{{.*}}Remark="tiles of capture 0, in 2 stages
func.func @deep(%q: !q, %bias: tensor<?x?x?xbf16>) -> !q {
  %out, %lse = attn.attention %q, %q, %q captures(%bias : tensor<?x?x?xbf16>)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %i1 = arith.addi %h, %h : index
      %i2 = arith.addi %i1, %i1 : index
      %i3 = arith.addi %i2, %i2 : index
      %i4 = arith.addi %i3, %i3 : index
      %i5 = arith.addi %i4, %i4 : index
      %i6 = arith.addi %i5, %i5 : index
      %i7 = arith.addi %i6, %i6 : index
      %i8 = arith.addi %i7, %i7 : index
      %i9 = arith.addi %i8, %i8 : index
      %i10 = arith.addi %i9, %i9 : index
      %i11 = arith.addi %i10, %i10 : index
      %i12 = arith.addi %i11, %i11 : index
      %i13 = arith.addi %i12, %i12 : index
      %i14 = arith.addi %i13, %i13 : index
      %i15 = arith.addi %i14, %i14 : index
      %i16 = arith.addi %i15, %i15 : index
      %i17 = arith.addi %i16, %i16 : index
      %i18 = arith.addi %i17, %i17 : index
      %i19 = arith.addi %i18, %i18 : index
      %i20 = arith.addi %i19, %i19 : index
      %i21 = arith.addi %i20, %i20 : index
      %i22 = arith.addi %i21, %i21 : index
      %i23 = arith.addi %i22, %i22 : index
      %i24 = arith.addi %i23, %i23 : index
      %i25 = arith.addi %i24, %i24 : index
      %i26 = arith.addi %i25, %i25 : index
      %i27 = arith.addi %i26, %i26 : index
      %i28 = arith.addi %i27, %i27 : index
      %i29 = arith.addi %i28, %i28 : index
      %i30 = arith.addi %i29, %i29 : index
      %i31 = arith.addi %i30, %i30 : index
      %i32 = arith.addi %i31, %i31 : index
      %i33 = arith.addi %i32, %i32 : index
      %i34 = arith.addi %i33, %i33 : index
      %i35 = arith.addi %i34, %i34 : index
      %i36 = arith.addi %i35, %i35 : index
      %i37 = arith.addi %i36, %i36 : index
      %i38 = arith.addi %i37, %i37 : index
      %i39 = arith.addi %i38, %i38 : index
      %i40 = arith.addi %i39, %i39 : index
      %i41 = arith.addi %i40, %i40 : index
      %i42 = arith.addi %i41, %i41 : index
      %i43 = arith.addi %i42, %i42 : index
      %i44 = arith.addi %i43, %i43 : index
      %i45 = arith.addi %i44, %i44 : index
      %i46 = arith.addi %i45, %i45 : index
      %i47 = arith.addi %i46, %i46 : index
      %i48 = arith.addi %i47, %i47 : index
      %j1 = arith.addi %h, %h : index
      %j2 = arith.addi %j1, %j1 : index
      %j3 = arith.addi %j2, %j2 : index
      %j4 = arith.addi %j3, %j3 : index
      %j5 = arith.addi %j4, %j4 : index
      %j6 = arith.addi %j5, %j5 : index
      %j7 = arith.addi %j6, %j6 : index
      %j8 = arith.addi %j7, %j7 : index
      %j9 = arith.addi %j8, %j8 : index
      %j10 = arith.addi %j9, %j9 : index
      %j11 = arith.addi %j10, %j10 : index
      %j12 = arith.addi %j11, %j11 : index
      %j13 = arith.addi %j12, %j12 : index
      %j14 = arith.addi %j13, %j13 : index
      %j15 = arith.addi %j14, %j14 : index
      %j16 = arith.addi %j15, %j15 : index
      %j17 = arith.addi %j16, %j16 : index
      %j18 = arith.addi %j17, %j17 : index
      %j19 = arith.addi %j18, %j18 : index
      %j20 = arith.addi %j19, %j19 : index
      %j21 = arith.addi %j20, %j20 : index
      %j22 = arith.addi %j21, %j21 : index
      %j23 = arith.addi %j22, %j22 : index
      %j24 = arith.addi %j23, %j23 : index
      %j25 = arith.addi %j24, %j24 : index
      %j26 = arith.addi %j25, %j25 : index
      %j27 = arith.addi %j26, %j26 : index
      %j28 = arith.addi %j27, %j27 : index
      %j29 = arith.addi %j28, %j28 : index
      %j30 = arith.addi %j29, %j29 : index
      %j31 = arith.addi %j30, %j30 : index
      %j32 = arith.addi %j31, %j31 : index
      %j33 = arith.addi %j32, %j32 : index
      %j34 = arith.addi %j33, %j33 : index
      %j35 = arith.addi %j34, %j34 : index
      %j36 = arith.addi %j35, %j35 : index
      %j37 = arith.addi %j36, %j36 : index
      %j38 = arith.addi %j37, %j37 : index
      %j39 = arith.addi %j38, %j38 : index
      %j40 = arith.addi %j39, %j39 : index
      %j41 = arith.addi %j40, %j40 : index
      %j42 = arith.addi %j41, %j41 : index
      %j43 = arith.addi %j42, %j42 : index
      %j44 = arith.addi %j43, %j43 : index
      %j45 = arith.addi %j44, %j44 : index
      %j46 = arith.addi %j45, %j45 : index
      %j47 = arith.addi %j46, %j46 : index
      %j48 = arith.addi %j47, %j47 : index
      %x = tensor.extract %bias[%i48, %q_idx, %kv_idx] : tensor<?x?x?xbf16>
      %again = tensor.extract %bias[%j48, %q_idx, %kv_idx] : tensor<?x?x?xbf16>
      %wide = arith.extf %x : bf16 to f32
      %wide_again = arith.extf %again : bf16 to f32
      %both = arith.addf %wide, %wide_again : f32
      %r = arith.addf %s, %both : f32
      attn.yield %r : f32
    } : (!q, !q, !q) -> (!q, !l)
  return %out : !q
}
