// RUN: attn-opt %s -split-input-file -verify-diagnostics

!q = tensor<2x4x3x8xf32>
!k = tensor<2x4x3x8xf64>
func.func @shared_element_type(%q: !q, %k: !k, %lse: tensor<2x4x3xf32>) {
  // expected-error @+1 {{expected key of the query's element type 'f32', got 'f64' [A1]}}
  attn.attention_backward %q, %k, %q, %q, %lse, %q : (!q, !k, !q, !q, tensor<2x4x3xf32>, !q) -> (!q, !k, !q)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
!o = tensor<2x4x4x8xf32>
func.func @out(%q: !q, %o: !o, %lse: tensor<2x4x3xf32>) {
  // expected-error @+1 {{expected out of type 'tensor<2x4x3x8xf32>', got 'tensor<2x4x4x8xf32>' [B1]}}
  attn.attention_backward %q, %q, %q, %o, %lse, %q : (!q, !q, !q, !o, tensor<2x4x3xf32>, !q) -> (!q, !q, !q)
  return
}

// -----

!q = tensor<2x4x3x8xbf16>
func.func @lse(%q: !q, %lse: tensor<2x4x3xf64>) {
  // expected-error @+1 {{expected lse of type 'tensor<2x4x3xf32>', got 'tensor<2x4x3xf64>' [B1]}}
  attn.attention_backward %q, %q, %q, %q, %lse, %q : (!q, !q, !q, !q, tensor<2x4x3xf64>, !q) -> (!q, !q, !q)
  return
}

// -----

!q = tensor<2x4x3x8xbf16>
!f = tensor<2x4x3x8xf32>
func.func @d_out(%q: !q, %d: !f, %lse: tensor<2x4x3xf32>) {
  // expected-error @+1 {{expected d_out of type 'tensor<2x4x3x8xbf16>', got 'tensor<2x4x3x8xf32>' [B1]}}
  attn.attention_backward %q, %q, %q, %q, %lse, %d : (!q, !q, !q, !q, tensor<2x4x3xf32>, !f) -> (!q, !q, !q)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @d_lse(%q: !q, %lse: tensor<2x4x3xf32>, %d: tensor<2x4x1xf32>) {
  // expected-error @+1 {{expected d_lse of type 'tensor<2x4x3xf32>', got 'tensor<2x4x1xf32>' [B1]}}
  attn.attention_backward %q, %q, %q, %q, %lse, %q, %d
    : (!q, !q, !q, !q, tensor<2x4x3xf32>, !q, tensor<2x4x1xf32>) -> (!q, !q, !q)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
!k = tensor<2x2x3x8xf32>
func.func @d_query(%q: !q, %k: !k, %lse: tensor<2x4x3xf32>) {
  // expected-error @+1 {{expected d_query of type 'tensor<2x4x3x8xf32>', got 'tensor<2x2x3x8xf32>' [B2]}}
  attn.attention_backward %q, %k, %k, %q, %lse, %q : (!q, !k, !k, !q, tensor<2x4x3xf32>, !q) -> (!k, !k, !k)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
!k = tensor<2x2x3x8xf32>
func.func @d_key(%q: !q, %k: !k, %lse: tensor<2x4x3xf32>) {
  // expected-error @+1 {{expected d_key of type 'tensor<2x2x3x8xf32>', got 'tensor<2x4x3x8xf32>' [B2]}}
  attn.attention_backward %q, %k, %k, %q, %lse, %q : (!q, !k, !k, !q, tensor<2x4x3xf32>, !q) -> (!q, !q, !k)
  return
}

// -----

!q = tensor<2x4x3x8xbf16>
!f = tensor<2x4x3x8xf32>
func.func @d_value(%q: !q, %lse: tensor<2x4x3xf32>) {
  // expected-error @+1 {{expected d_value of type 'tensor<2x4x3x8xbf16>', got 'tensor<2x4x3x8xf32>' [B2]}}
  attn.attention_backward %q, %q, %q, %q, %lse, %q : (!q, !q, !q, !q, tensor<2x4x3xf32>, !q) -> (!q, !q, !f)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @missing_capture_gradient(%q: !q, %lse: tensor<2x4x3xf32>, %x: f32, %n: index) {
  // expected-error @+1 {{expected the gradients of 1 floating captures, got 0 [B2]}}
  attn.attention_backward %q, %q, %q, %q, %lse, %q captures(%n : index, %x : f32)
    : (!q, !q, !q, !q, tensor<2x4x3xf32>, !q) -> (!q, !q, !q)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @gradient_of_integer_capture(%q: !q, %lse: tensor<2x4x3xf32>, %n: tensor<4xi32>) {
  // expected-error @+1 {{expected the gradients of 0 floating captures, got 1 [B2]}}
  attn.attention_backward %q, %q, %q, %q, %lse, %q captures(%n : tensor<4xi32>)
    : (!q, !q, !q, !q, tensor<2x4x3xf32>, !q) -> (!q, !q, !q, tensor<4xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @capture_gradient_type(%q: !q, %lse: tensor<2x4x3xf32>, %x: tensor<4xbf16>) {
  // expected-error @+1 {{expected the gradient of a capture of type 'tensor<4xf32>', got 'tensor<4xbf16>' [B2]}}
  attn.attention_backward %q, %q, %q, %q, %lse, %q captures(%x : tensor<4xbf16>)
    : (!q, !q, !q, !q, tensor<2x4x3xf32>, !q) -> (!q, !q, !q, tensor<4xbf16>)
  return
}

// -----

!q = tensor<2x4x3x8xf64>
func.func @scalar_capture_gradient_type(%q: !q, %lse: tensor<2x4x3xf64>, %x: f64) {
  // expected-error @+1 {{expected the gradient of a capture of type 'tensor<f64>', got 'tensor<1xf64>' [B2]}}
  attn.attention_backward %q, %q, %q, %q, %lse, %q captures(%x : f64)
    : (!q, !q, !q, !q, tensor<2x4x3xf64>, !q) -> (!q, !q, !q, tensor<1xf64>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @gradient_arguments(%q: !q, %lse: tensor<2x4x3xf32>) {
  // expected-error @+1 {{expected the gradient region to take ('f32', 'f32', 'index', 'index', 'index', 'index'), got ('f32', 'index', 'index', 'index', 'index') [B3]}}
  attn.attention_backward %q, %q, %q, %q, %lse, %q
    score(%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %n = arith.negf %s : f32
      attn.yield %n : f32
    } gradient(%d: f32, %b: index, %h: index, %i: index, %j: index) {
      %n = arith.negf %d : f32
      attn.yield %n : f32
    } : (!q, !q, !q, !q, tensor<2x4x3xf32>, !q) -> (!q, !q, !q)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @gradient_result(%q: !q, %lse: tensor<2x4x3xf32>) {
  // expected-error @+1 {{expected the gradient region to yield 'f32', got 'index' [B3]}}
  attn.attention_backward %q, %q, %q, %q, %lse, %q
    score(%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %n = arith.negf %s : f32
      attn.yield %n : f32
    } gradient(%d: f32, %s: f32, %b: index, %h: index, %i: index, %j: index) {
      attn.yield %b : index
    } : (!q, !q, !q, !q, tensor<2x4x3xf32>, !q) -> (!q, !q, !q)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @gradient_without_score(%q: !q, %lse: tensor<2x4x3xf32>) {
  // expected-error @+1 {{expected no gradient region without a score region [B3]}}
  attn.attention_backward %q, %q, %q, %q, %lse, %q
    gradient(%d: f32, %s: f32, %b: index, %h: index, %i: index, %j: index) {
      attn.yield %d : f32
    } : (!q, !q, !q, !q, tensor<2x4x3xf32>, !q) -> (!q, !q, !q)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @two_queries(%q: !q, %lse: tensor<2x4x3xf32>) {
  // expected-error @+1 {{expected operandSegmentSizes to begin with 6 ones, got 2, 1, 1, 1, 1, 1}}
  "attn.attention_backward"(%q, %q, %q, %q, %q, %lse, %q) <{operandSegmentSizes = array<i32: 2, 1, 1, 1, 1, 1, 0, 0, 0>}>
    ({}, {}, {}) : (!q, !q, !q, !q, !q, tensor<2x4x3xf32>, !q) -> (!q, !q, !q)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @segments_do_not_add_up(%q: !q, %lse: tensor<2x4x3xf32>) {
  // expected-error @+1 {{operand count (6) does not match with the total size (7) specified in attribute 'operandSegmentSizes'}}
  "attn.attention_backward"(%q, %q, %q, %q, %lse, %q) <{operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 0, 0>}>
    ({}, {}, {}) : (!q, !q, !q, !q, tensor<2x4x3xf32>, !q) -> (!q, !q, !q)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @past_the_end(%q: !q, %lse: tensor<2x4x3xf32>) {
  // expected-error @+1 {{expected operandSegmentSizes to begin with 6 ones, got 2, 1, 1, 1, 1, 0}}
  "attn.attention_backward"(%q, %q, %q, %q, %q, %lse) <{operandSegmentSizes = array<i32: 2, 1, 1, 1, 1, 0, 0, 0, 0>}>
    ({}, {}, {}) : (!q, !q, !q, !q, !q, tensor<2x4x3xf32>) -> (!q, !q, !q)
  return
}

//===----------------------------------------------------------------------===//
// attn.accumulate_gradient
//===----------------------------------------------------------------------===//

// -----

!q = tensor<2x4x3x8xf32>
func.func @not_a_capture(%q: !q, %lse: tensor<2x4x3xf32>) {
  attn.attention_backward %q, %q, %q, %q, %lse, %q
    score(%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %n = arith.negf %s : f32
      attn.yield %n : f32
    } gradient(%d: f32, %s: f32, %b: index, %h: index, %i: index, %j: index) {
      // expected-error @+1 {{expected a floating capture of the enclosing gradient region [G1]}}
      attn.accumulate_gradient %d, %s[] : f32, f32
      attn.yield %d : f32
    } : (!q, !q, !q, !q, tensor<2x4x3xf32>, !q) -> (!q, !q, !q)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @gradient_of_a_result(%q: !q, %lse: tensor<2x4x3xf32>) {
  attn.attention_backward %q, %q, %q, %q, %lse, %q
    score(%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %n = arith.negf %s : f32
      attn.yield %n : f32
    } gradient(%d: f32, %s: f32, %b: index, %h: index, %i: index, %j: index) {
      %n = arith.negf %s : f32
      // expected-error @+1 {{[G1]}}
      attn.accumulate_gradient %d, %n[] : f32, f32
      attn.yield %d : f32
    } : (!q, !q, !q, !q, tensor<2x4x3xf32>, !q) -> (!q, !q, !q)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @integer_capture(%q: !q, %lse: tensor<2x4x3xf32>, %n: tensor<4xi32>) {
  attn.attention_backward %q, %q, %q, %q, %lse, %q captures(%n : tensor<4xi32>)
    score(%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %m = arith.negf %s : f32
      attn.yield %m : f32
    } gradient(%d: f32, %s: f32, %b: index, %h: index, %i: index, %j: index) {
      // expected-error @+1 {{[G1]}}
      attn.accumulate_gradient %d, %n[%h] : f32, tensor<4xi32>
      attn.yield %d : f32
    } : (!q, !q, !q, !q, tensor<2x4x3xf32>, !q) -> (!q, !q, !q)
  return
}

// -----

// The score region's arguments are fewer, so that the second capture stands where a gradient region has its first.
!q = tensor<2x4x3x8xf32>
func.func @accumulate_in_score(%q: !q, %lse: tensor<2x4x3xf32>, %x: f32, %y: f32) {
  attn.attention_backward %q, %q, %q, %q, %lse, %q captures(%x : f32, %y : f32)
    score(%s: f32, %b: index, %h: index, %i: index, %j: index) {
      // expected-error @+1 {{[G1]}}
      attn.accumulate_gradient %s, %y[] : f32, f32
      attn.yield %s : f32
    } : (!q, !q, !q, !q, tensor<2x4x3xf32>, !q) -> (!q, !q, !q, tensor<f32>, tensor<f32>)
  return
}

// -----

func.func @accumulate_outside(%x: f32, %c: i1) {
  scf.if %c {
    // expected-error @+1 {{[G1]}}
    attn.accumulate_gradient %x, %x[] : f32, f32
  }
  return
}

// -----

func.func @accumulate_in_function(%x: f32) {
  // expected-error @+1 {{expects parent op to be one of 'attn.attention_backward, attn.online_attention, scf.if'}}
  attn.accumulate_gradient %x, %x[] : f32, f32
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @too_few_indices(%q: !q, %lse: tensor<2x4x3xf32>, %x: tensor<4x3xf32>) {
  attn.attention_backward %q, %q, %q, %q, %lse, %q captures(%x : tensor<4x3xf32>)
    score(%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %m = arith.negf %s : f32
      attn.yield %m : f32
    } gradient(%d: f32, %s: f32, %b: index, %h: index, %i: index, %j: index) {
      // expected-error @+1 {{expected 2 indices, got 1 [G2]}}
      attn.accumulate_gradient %d, %x[%h] : f32, tensor<4x3xf32>
      attn.yield %d : f32
    } : (!q, !q, !q, !q, tensor<2x4x3xf32>, !q) -> (!q, !q, !q, tensor<4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @index_of_a_scalar(%q: !q, %lse: tensor<2x4x3xf32>, %x: f32) {
  attn.attention_backward %q, %q, %q, %q, %lse, %q captures(%x : f32)
    score(%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %m = arith.negf %s : f32
      attn.yield %m : f32
    } gradient(%d: f32, %s: f32, %b: index, %h: index, %i: index, %j: index) {
      // expected-error @+1 {{expected 0 indices, got 1 [G2]}}
      attn.accumulate_gradient %d, %x[%h] : f32, f32
      attn.yield %d : f32
    } : (!q, !q, !q, !q, tensor<2x4x3xf32>, !q) -> (!q, !q, !q, tensor<f32>)
  return
}

// -----

!q = tensor<2x4x3x8xbf16>
func.func @gradient_type(%q: !q, %lse: tensor<2x4x3xf32>, %x: bf16) {
  attn.attention_backward %q, %q, %q, %q, %lse, %q captures(%x : bf16)
    score(%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %m = arith.negf %s : f32
      attn.yield %m : f32
    } gradient(%d: f32, %s: f32, %b: index, %h: index, %i: index, %j: index) {
      %n = arith.truncf %d : f32 to bf16
      // expected-error @+1 {{expected a value of type 'f32', got 'bf16' [G3]}}
      attn.accumulate_gradient %n, %x[] : bf16, bf16
      attn.yield %d : f32
    } : (!q, !q, !q, !q, tensor<2x4x3xf32>, !q) -> (!q, !q, !q, tensor<f32>)
  return
}
