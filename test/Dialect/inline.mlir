// RUN: attn-opt %s --inline | FileCheck %s

!q = tensor<1x2x?x8xf32>
!l = tensor<1x2x?xf32>

// A score or mask may be written as a function: the inliner resolves the call inside the region.
// CHECK-LABEL: func @called_regions
// CHECK: captures(%[[CAP:.*]] : f32)
// CHECK-SAME: score(
// CHECK-NEXT: arith.divf %s, %[[CAP]]
// CHECK-NEXT: math.tanh
// CHECK-NEXT: arith.mulf %{{.*}}, %[[CAP]]
// CHECK-NEXT: attn.yield
// CHECK: mask(
// CHECK-NEXT: arith.cmpi sle, %kv_idx, %q_idx
// CHECK-NEXT: attn.yield
func.func @called_regions(%q: !q, %cap: f32) -> !q {
  %out, %lse = attn.attention %q, %q, %q captures(%cap : f32)
    score(%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %capped = func.call @soft_cap(%s, %cap) : (f32, f32) -> f32
      attn.yield %capped : f32
    } mask(%b: index, %h: index, %i: index, %j: index) {
      %keep = func.call @causal(%i, %j) : (index, index) -> i1
      attn.yield %keep : i1
    } : (!q, !q, !q) -> (!q, !l)
  return %out : !q
}

// CHECK-NOT: func private @soft_cap
func.func private @soft_cap(%s: f32, %cap: f32) -> f32 {
  %ratio = arith.divf %s, %cap : f32
  %t = math.tanh %ratio : f32
  %capped = arith.mulf %t, %cap : f32
  return %capped : f32
}

func.func private @causal(%i: index, %j: index) -> i1 {
  %keep = arith.cmpi sle, %j, %i : index
  return %keep : i1
}

// CHECK-LABEL: func @called_in_branch
// CHECK: scf.if
// CHECK-NEXT: arith.negf
// CHECK-NOT: call
func.func @called_in_branch(%q: !q) -> !q {
  %out, %lse = attn.attention %q, %q, %q score(%s: f32, %b: index, %h: index, %i: index, %j: index) {
    %diagonal = arith.cmpi eq, %i, %j : index
    %r = scf.if %diagonal -> f32 {
      %n = func.call @negate(%s) : (f32) -> f32
      scf.yield %n : f32
    } else {
      scf.yield %s : f32
    }
    attn.yield %r : f32
  } : (!q, !q, !q) -> (!q, !l)
  return %out : !q
}

func.func private @negate(%s: f32) -> f32 {
  %n = arith.negf %s : f32
  return %n : f32
}

// A function that holds attention is inlined whole, into straight code and into loops.
// CHECK-LABEL: func @caller
// CHECK: attn.attention %{{.*}} captures(%{{.*}} : f32)
// CHECK: scf.for
// CHECK: attn.attention
// CHECK-NOT: call
// CHECK: return
func.func @caller(%q: !q, %x: f32, %n: index, %c0: index, %c1: index) -> !q {
  %first = call @layer(%q, %x) : (!q, f32) -> !q
  %last = scf.for %i = %c0 to %n step %c1 iter_args(%value = %first) -> !q {
    %next = func.call @layer(%value, %x) : (!q, f32) -> !q
    scf.yield %next : !q
  }
  return %last : !q
}

func.func private @layer(%q: !q, %x: f32) -> !q {
  %out, %lse = attn.attention %q, %q, %q captures(%x : f32)
    score(%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %r = arith.mulf %s, %x : f32
      attn.yield %r : f32
    } : (!q, !q, !q) -> (!q, !l)
  return %out : !q
}

// A region has one block, so what has more stays a call.
// CHECK-LABEL: func @called_blocks
// CHECK: func.call @choose
// CHECK: scf.if
// CHECK-NEXT: func.call @choose
func.func @called_blocks(%q: !q, %c: i1) -> !q {
  %out, %lse = attn.attention %q, %q, %q captures(%c : i1)
    score(%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %x = func.call @choose(%s, %c) : (f32, i1) -> f32
      %r = scf.if %c -> f32 {
        %y = func.call @choose(%x, %c) : (f32, i1) -> f32
        scf.yield %y : f32
      } else {
        scf.yield %x : f32
      }
      attn.yield %r : f32
    } : (!q, !q, !q) -> (!q, !l)
  return %out : !q
}

func.func private @choose(%s: f32, %c: i1) -> f32 {
  cf.cond_br %c, ^same, ^negated
^same:
  return %s : f32
^negated:
  %n = arith.negf %s : f32
  return %n : f32
}
