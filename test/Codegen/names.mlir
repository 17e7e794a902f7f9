// RUN: attn-translate --attn-to-cuda %s | FileCheck %s
// RUN: %if nvrtc %{ attn-translate --attn-to-ptx --arch=sm_80 %s -o %t.ptx %}

// Names of values are those of the text, unless they mean something else in C++ or are taken.

gpu.module @functions {
  // CHECK-LABEL: int words(const int int_, const int max_, const int query) {
  // CHECK-NEXT:    const int query_1 = wrap_add(int_, max_);
  // CHECK-NEXT:    const int expf_ = min(query_1, query);
  // CHECK-NEXT:    return wrap_mul(expf_, expf_);
  gpu.func @words(%int: i32, %max: i32, %query: i32) -> i32 {
    %query_1 = arith.addi %int, %max : i32
    %expf = arith.minsi %query_1, %query : i32
    %0 = arith.muli %expf, %expf : i32
    gpu.return %0 : i32
  }

  // A name is free again behind the braces; constants with a name like kBlockM keep it.
  // CHECK-LABEL: float scopes(const float x, const bool c) {
  // CHECK-NEXT:    constexpr float kLimit = 4.0f;
  // CHECK-NEXT:    float chosen;
  // CHECK-NEXT:    if (c) {
  // CHECK-NEXT:      const float y = x + kLimit;
  // CHECK-NEXT:      chosen = y * y;
  // CHECK-NEXT:    } else {
  // CHECK-NEXT:      const float y = x - 2.0f;
  // CHECK-NEXT:      chosen = y * y;
  // CHECK-NEXT:    }
  // CHECK-NEXT:    const float y = sqrtf(chosen);
  // CHECK-NEXT:    return y * y;
  gpu.func @scopes(%x: f32, %c: i1) -> f32 {
    %kLimit = arith.constant 4.0 : f32
    %two = arith.constant 2.0 : f32
    %0 = scf.if %c -> f32 {
      %y = arith.addf %x, %kLimit : f32
      %1 = arith.mulf %y, %y : f32
      scf.yield %1 : f32
    } else {
      %y = arith.subf %x, %two : f32
      %1 = arith.mulf %y, %y : f32
      scf.yield %1 : f32
    }
    %y = math.sqrt %0 : f32
    %2 = arith.mulf %y, %y : f32
    gpu.return %2 : f32
  }
}
