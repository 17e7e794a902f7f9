// RUN: attn-translate --attn-to-cuda %s | FileCheck %s
// RUN: %if nvrtc %{ attn-translate --attn-to-ptx --arch=sm_80 %s -o %t.ptx %}

gpu.module @functions {
  // What holds for some thread of the block, and for all.
  // CHECK-LABEL: bool votes(const bool c) {
  // CHECK-NEXT:    const bool one = __syncthreads_or(c);
  // CHECK-NEXT:    const bool all = __syncthreads_and(c);
  // CHECK-NEXT:    const bool some = !all;
  // CHECK-NEXT:    return one && some;
  gpu.func @votes(%c: i1) -> i1 {
    %one = gpu.all_reduce or %c uniform {} : (i1) -> i1
    %all = gpu.all_reduce and %c uniform {} : (i1) -> i1
    %true = arith.constant true
    %some = arith.xori %all, %true : i1
    %0 = arith.andi %one, %some : i1
    gpu.return %0 : i1
  }

  // Loop-carried values change at once: one that is read after it was written needs a copy.
  // CHECK-LABEL: float fibonacci(const int n) {
  // CHECK-NEXT:    float a = 0.0f;
  // CHECK-NEXT:    float b = 1.0f;
  // CHECK-NEXT:    float last = 0.0f;
  // CHECK-NEXT:    for (int i = 0; i < n; ++i) {
  // CHECK-NEXT:      const float b_next = a + b;
  // CHECK-NEXT:      const float last_next = a;
  // CHECK-NEXT:      a = b;
  // CHECK-NEXT:      b = b_next;
  // CHECK-NEXT:      last = last_next;
  // CHECK-NEXT:    }
  // CHECK-NEXT:    return a * last;
  gpu.func @fibonacci(%n: index) -> f32 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0.0 : f32
    %one = arith.constant 1.0 : f32
    %0:3 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %zero, %b = %one, %last = %zero) -> (f32, f32, f32) {
      %1 = arith.addf %a, %b : f32
      scf.yield %b, %1, %a : f32, f32, f32
    }
    %2 = arith.mulf %0#0, %0#2 : f32
    gpu.return %2 : f32
  }

  // A loop that changes nothing of what it carries, and a step other than 1. The bound is computed once.
  // CHECK-LABEL: int steps(const int n) {
  // CHECK-NEXT:    const int product = wrap_mul(n, n);
  // CHECK-NEXT:    int count = 7;
  // CHECK-NEXT:    for (int i = 0; i < product; i += 64) {
  // CHECK-NEXT:    }
  // CHECK-NEXT:    return count;
  gpu.func @steps(%n: index) -> index {
    %c0 = arith.constant 0 : index
    %c7 = arith.constant 7 : index
    %c64 = arith.constant 64 : index
    %0 = arith.muli %n, %n : index
    %1 = scf.for %i = %c0 to %0 step %c64 iter_args(%count = %c7) -> index {
      scf.yield %count : index
    }
    gpu.return %1 : index
  }

  // CHECK-LABEL: float branch(const float x, const bool c) {
  // CHECK-NEXT:    float chosen;
  // CHECK-NEXT:    float chosen_1;
  // CHECK-NEXT:    if (c) {
  // CHECK-NEXT:      const float twice = x + x;
  // CHECK-NEXT:      chosen = twice;
  // CHECK-NEXT:      chosen_1 = twice * twice;
  // CHECK-NEXT:    } else {
  // CHECK-NEXT:      chosen = x;
  // CHECK-NEXT:      chosen_1 = -x;
  // CHECK-NEXT:    }
  // CHECK-NEXT:    return chosen - chosen_1;
  gpu.func @branch(%x: f32, %c: i1) -> f32 {
    %0:2 = scf.if %c -> (f32, f32) {
      %twice = arith.addf %x, %x : f32
      %1 = arith.mulf %twice, %twice : f32
      scf.yield %twice, %1 : f32, f32
    } else {
      %1 = arith.negf %x : f32
      scf.yield %x, %1 : f32, f32
    }
    %2 = arith.subf %0#0, %0#1 : f32
    gpu.return %2 : f32
  }

  // CHECK-LABEL: int collatz(const int start) {
  // CHECK-NEXT:    int n = start;
  // CHECK-NEXT:    int count = 0;
  // CHECK-NEXT:    while (n != 1) {
  // CHECK-NEXT:      const int next = (n & 1) == 1 ? wrap_add(n, 1) : n / 2;
  // CHECK-NEXT:      n = next;
  // CHECK-NEXT:      count = count + 1;
  // CHECK-NEXT:    }
  // CHECK-NEXT:    return count;
  gpu.func @collatz(%start: i32) -> i32 {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c2 = arith.constant 2 : i32
    %0:2 = scf.while (%n = %start, %count = %c0) : (i32, i32) -> (i32, i32) {
      %1 = arith.cmpi ne, %n, %c1 : i32
      scf.condition(%1) %n, %count : i32, i32
    } do {
    ^bb0(%m: i32, %k: i32):
      %1 = arith.andi %m, %c1 : i32
      %2 = arith.cmpi eq, %1, %c1 : i32
      %3 = arith.addi %m, %c1 : i32
      %4 = arith.divsi %m, %c2 : i32
      %next = arith.select %2, %3, %4 : i32
      %6 = arith.addi %k, %c1 overflow<nsw> : i32
      scf.yield %next, %6 : i32, i32
    }
    gpu.return %0#1 : i32
  }
}
