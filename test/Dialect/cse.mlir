// Regions are isolated: CSE and LICM work on attention as on any pure operation.

// RUN: attn-opt %s --cse | FileCheck %s
// RUN: attn-opt %s --loop-invariant-code-motion | FileCheck %s --check-prefix=LICM

!q = tensor<1x2x?x8xf32>
!l = tensor<1x2x?xf32>

// CHECK-LABEL: func @equal_attentions
// CHECK: %[[OUT:.*]], %{{.*}} = attn.attention
// CHECK-NOT: attn.attention
// CHECK: return %[[OUT]], %[[OUT]]
func.func @equal_attentions(%q: !q) -> (!q, !q) {
  %out, %lse = attn.attention %q, %q, %q mask(%b: index, %h: index, %i: index, %j: index) {
    %keep = arith.cmpi sle, %j, %i : index
    attn.yield %keep : i1
  } : (!q, !q, !q) -> (!q, !l)
  %out_2, %lse_2 = attn.attention %q, %q, %q mask(%b: index, %h: index, %i: index, %j: index) {
    %keep = arith.cmpi sle, %j, %i : index
    attn.yield %keep : i1
  } : (!q, !q, !q) -> (!q, !l)
  return %out, %out_2 : !q, !q
}

// They differ in one predicate, in the scale, or in a capture.
// CHECK-LABEL: func @different_attentions
// CHECK-COUNT-4: attn.attention
func.func @different_attentions(%q: !q, %x: index, %y: index) -> (!q, !q, !q, !q) {
  %0, %1 = attn.attention %q, %q, %q captures(%x : index) mask(%b: index, %h: index, %i: index, %j: index) {
    %keep = arith.cmpi slt, %x, %i : index
    attn.yield %keep : i1
  } : (!q, !q, !q) -> (!q, !l)
  %2, %3 = attn.attention %q, %q, %q captures(%x : index) mask(%b: index, %h: index, %i: index, %j: index) {
    %keep = arith.cmpi sle, %x, %i : index
    attn.yield %keep : i1
  } : (!q, !q, !q) -> (!q, !l)
  %4, %5 = attn.attention %q, %q, %q captures(%y : index) mask(%b: index, %h: index, %i: index, %j: index) {
    %keep = arith.cmpi slt, %y, %i : index
    attn.yield %keep : i1
  } : (!q, !q, !q) -> (!q, !l)
  %6, %7 = attn.attention %q, %q, %q captures(%x : index) scale(0.5) mask(%b: index, %h: index, %i: index, %j: index) {
    %keep = arith.cmpi slt, %x, %i : index
    attn.yield %keep : i1
  } : (!q, !q, !q) -> (!q, !l)
  return %0, %2, %4, %6 : !q, !q, !q, !q
}

// The whole attention leaves the loop, its constants do not leave the attention.
// LICM-LABEL: func @invariant
// LICM: attn.attention
// LICM: arith.constant 2.000000e+00 : f32
// LICM: scf.for
func.func @invariant(%q: !q, %n: index, %c0: index, %c1: index) -> !q {
  %result = scf.for %i = %c0 to %n step %c1 iter_args(%last = %q) -> !q {
    %out, %lse = attn.attention %q, %q, %q score(%s: f32, %b: index, %h: index, %q_idx: index, %j: index) {
      %two = arith.constant 2.0 : f32
      %double = arith.mulf %s, %two : f32
      attn.yield %double : f32
    } : (!q, !q, !q) -> (!q, !l)
    scf.yield %out : !q
  }
  return %result : !q
}
