// RUN: attn-opt %s --attn-differentiate --split-input-file --verify-diagnostics
// RUN: not attn-opt %S/attn-differentiate.mlir --split-input-file --attn-differentiate=functions=nowhere 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: echo "func.func private @g()" | not attn-opt --attn-differentiate=functions=g 2>&1 | FileCheck %s --check-prefix=EXTERNAL

// NAME: error: expected a function 'nowhere' to differentiate
// EXTERNAL: error: cannot differentiate 'g': expected a body of one block [D1]

!t = tensor<1x1x?x8xf32>
!r = tensor<1x1x?xf32>
func.func @bits(%q: !t) -> !t {
  %out, %lse = attn.attention %q, %q, %q score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
    %i = arith.bitcast %s : f32 to i32
    %one = arith.constant 1 : i32
    %next = arith.addi %i, %one : i32
    // expected-error @+1 {{'arith.bitcast' op has no derivative; write the score without it, or a gradient region by hand}}
    %r = arith.bitcast %next : i32 to f32
    attn.yield %r : f32
  } : (!t, !t, !t) -> (!t, !r)
  return %out : !t
}

// -----

// Bits that reach the result as a number.
!t = tensor<1x1x?x8xf32>
!r = tensor<1x1x?xf32>
func.func @bits_as_number(%q: !t) -> !t {
  %out, %lse = attn.attention %q, %q, %q score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
    %i = arith.bitcast %s : f32 to i32
    // expected-error @+1 {{'arith.sitofp' op has no derivative}}
    %r = arith.sitofp %i : i32 to f32
    attn.yield %r : f32
  } : (!t, !t, !t) -> (!t, !r)
  return %out : !t
}

// -----

// No gradient flows through an operation whose operands do not depend on s, or whose result only a condition sees.
!t = tensor<1x1x?x8xf32>
!r = tensor<1x1x?xf32>
func.func @no_gradient_there(%q: !t) -> !t {
  %out, %lse = attn.attention %q, %q, %q score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
    %j = arith.index_cast %kv_idx : index to i32
    %f = arith.bitcast %j : i32 to f32
    %bits = arith.bitcast %s : f32 to i32
    %zero = arith.constant 0 : i32
    %negative = arith.cmpi slt, %bits, %zero : i32
    %n = arith.negf %s : f32
    %a = arith.select %negative, %n, %s : f32
    %r = arith.addf %a, %f : f32
    attn.yield %r : f32
  } : (!t, !t, !t) -> (!t, !r)
  return %out : !t
}

// -----

!t = tensor<1x1x?x8xf32>
!r = tensor<1x1x?xf32>
func.func private @bias(f32) -> f32
func.func @call(%q: !t) -> !t {
  // expected-error @+1 {{'attn.attention_backward' op expected no calls in its regions, got 'func.call'; inline what it calls first (--inline)}}
  %out, %lse = attn.attention %q, %q, %q score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
    %r = func.call @bias(%s) : (f32) -> f32
    attn.yield %r : f32
  } : (!t, !t, !t) -> (!t, !r)
  return %out : !t
}

// -----

!t = tensor<1x1x?x8xf32>
!r = tensor<1x1x?xf32>
func.func @two(%q: !t) -> !t {
  %0, %1 = attn.attention %q, %q, %q : (!t, !t, !t) -> (!t, !r)
  // expected-error @+1 {{cannot differentiate 'two': expected one attn.attention, got a second one [D1]}}
  %out, %lse = attn.attention %0, %q, %q : (!t, !t, !t) -> (!t, !r)
  return %out : !t
}

// -----

!t = tensor<1x1x?x8xf32>
!r = tensor<1x1x?xf32>
// expected-error @+1 {{cannot differentiate 'nested': expected one attn.attention in its body, got none [D1]}}
func.func @nested(%q: !t, %c: i1) -> !t {
  %r = scf.if %c -> !t {
    %out, %lse = attn.attention %q, %q, %q : (!t, !t, !t) -> (!t, !r)
    scf.yield %out : !t
  } else {
    scf.yield %q : !t
  }
  return %r : !t
}

// -----

!t = tensor<1x1x?x8xf32>
!r = tensor<1x1x?xf32>
func.func private @log()
func.func @effect(%q: !t) -> !t {
  // expected-error @+1 {{cannot differentiate 'effect': expected nothing but pure operations, got 'func.call' [D1]}}
  func.call @log() : () -> ()
  %out, %lse = attn.attention %q, %q, %q : (!t, !t, !t) -> (!t, !r)
  return %out : !t
}

// -----

!t = tensor<1x1x?x8xf32>
!r = tensor<1x1x?xf32>
func.func @cast(%q: tensor<1x1x4x8xf32>) -> !t {
  %x = tensor.cast %q : tensor<1x1x4x8xf32> to !t
  // expected-error @+1 {{cannot differentiate 'cast': expected query to be an argument of the function, got the result of 'tensor.cast' [D2]}}
  %out, %lse = attn.attention %x, %x, %x : (!t, !t, !t) -> (!t, !r)
  return %out : !t
}

// -----

!t = tensor<1x1x?x8xf32>
!r = tensor<1x1x?xf32>
func.func @computed_capture(%q: !t, %g: f32) -> !t {
  %gg = arith.mulf %g, %g : f32
  // expected-error @+1 {{cannot differentiate 'computed_capture': expected floating capture 0 to be an argument of the function, got the result of 'arith.mulf' [D2]}}
  %out, %lse = attn.attention %q, %q, %q captures(%gg : f32) score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
    %r = arith.mulf %s, %gg : f32
    attn.yield %r : f32
  } : (!t, !t, !t) -> (!t, !r)
  return %out : !t
}

// -----

!t = tensor<1x1x?x8xf32>
!r = tensor<1x1x?xf32>
func.func @only_lse(%q: !t) -> !r {
  %out, %lse = attn.attention %q, %q, %q : (!t, !t, !t) -> (!t, !r)
  // expected-error @+1 {{cannot differentiate 'only_lse': expected it to return out, or out and lse, of its attention and nothing else [D3]}}
  return %lse : !r
}

// -----

!t = tensor<1x1x?x8xf32>
!r = tensor<1x1x?xf32>
func.func @more(%q: !t) -> (!t, !t) {
  %out, %lse = attn.attention %q, %q, %q : (!t, !t, !t) -> (!t, !r)
  // expected-error @+1 {{cannot differentiate 'more': expected it to return out, or out and lse}}
  return %out, %q : !t, !t
}
