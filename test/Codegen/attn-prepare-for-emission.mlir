// RUN: attn-opt %s --attn-prepare-for-emission | FileCheck %s

gpu.module @functions {
  // CHECK-LABEL: gpu.func @indices
  // CHECK:         %[[TWO:.*]] = arith.constant 2 : index
  // CHECK:         %[[SUM:.*]] = arith.addi %[[A:.*]], %[[B:.*]] : index
  // CHECK:         %[[QUOTIENT:.*]] = arith.divui %[[SUM]], %[[TWO]] : index
  // CHECK:         %[[ROUNDED:.*]] = arith.floordivsi %[[QUOTIENT]], %[[B]] : index
  // CHECK:         %[[LESS:.*]] = arith.cmpi ult, %[[ROUNDED]], %[[A]] : index
  // CHECK:         %[[WIDE:.*]] = arith.index_cast %[[ROUNDED]] : index to i64
  // CHECK-NOT:     index.
  gpu.func @indices(%a: index, %b: index) -> i64 {
    %two = index.constant 2
    %sum = index.add %a, %b
    %quotient = index.divu %sum, %two
    %rounded = index.floordivs %quotient, %b
    %less = index.cmp ult(%rounded, %a)
    %wide = index.casts %rounded : index to i64
    %zero = arith.constant 0 : i64
    %result = arith.select %less, %wide, %zero : i64
    gpu.return %result : i64
  }

  // CHECK-LABEL: gpu.func @contracted
  gpu.func @contracted(%a: f32, %b: f32, %c: f32) -> f32 {
    // a b + c
    // CHECK: %[[FIRST:.*]] = math.fma %[[A:.*]], %[[B:.*]], %[[C:.*]] fastmath<contract> : f32
    %0 = arith.mulf %a, %b fastmath<contract> : f32
    %first = arith.addf %c, %0 fastmath<contract> : f32
    // a first - c
    // CHECK: %[[MINUS:.*]] = arith.negf %[[C]] : f32
    // CHECK: %[[SECOND:.*]] = math.fma %[[A]], %[[FIRST]], %[[MINUS]] fastmath<contract> : f32
    %1 = arith.mulf %a, %first fastmath<contract> : f32
    %second = arith.subf %1, %c fastmath<contract> : f32
    // c - b second
    // CHECK: %[[NEGATED:.*]] = arith.negf %[[B]] : f32
    // CHECK: math.fma %[[NEGATED]], %[[SECOND]], %[[C]] fastmath<contract> : f32
    %2 = arith.mulf %b, %second fastmath<contract> : f32
    %third = arith.subf %c, %2 fastmath<contract> : f32
    gpu.return %third : f32
  }

  // Both have to allow it, and the product must not be needed by itself.
  // CHECK-LABEL: gpu.func @kept
  // CHECK-NOT:     math.fma
  gpu.func @kept(%a: f32, %b: f32, %c: f32) -> f32 {
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %0, %c fastmath<contract> : f32
    %2 = arith.mulf %a, %1 fastmath<contract> : f32
    %3 = arith.addf %2, %c : f32
    %4 = arith.mulf %a, %3 fastmath<contract> : f32
    %5 = arith.addf %4, %c fastmath<contract> : f32
    %6 = arith.divf %5, %4 : f32
    gpu.return %6 : f32
  }
}
