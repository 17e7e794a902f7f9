// What the parsers of the custom syntax refuse.

// RUN: attn-opt %s -split-input-file -verify-diagnostics

!q = tensor<2x4x3x8xf32>
func.func @no_operands() {
  // expected-error @+1 {{expected operands query, key, value, got 0 operands}}
  attn.attention : () -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @four_operands(%q: !q) {
  // expected-error @+1 {{expected operands query, key, value, got 4 operands}}
  attn.attention %q, %q, %q, %q : (!q, !q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @too_few_types(%q: !q) {
  // expected-error @+1 {{number of operands and types do not match: got 3 operands and 2 types}}
  attn.attention %q, %q, %q : (!q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @no_types(%q: !q) {
  // expected-error @+1 {{expected ':'}}
  attn.attention %q, %q, %q
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @not_a_function_type(%q: !q) {
  // expected-error @+1 {{invalid kind of type specified}}
  attn.attention %q, %q, %q : !q
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @wrong_type(%q: !q) { // expected-note {{prior use here}}
  // expected-error @+1 {{use of value '%q' expects different type than prior uses: 'tensor<2x4x4x8xf32>' vs 'tensor<2x4x3x8xf32>'}}
  attn.attention %q, %q, %q : (!q, tensor<2x4x4x8xf32>, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @capture_without_type(%q: !q, %x: f32) {
  // expected-error @+1 {{expected ':'}}
  attn.attention %q, %q, %q captures(%x) : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @capture_unknown(%q: !q) {
  // expected-error @+1 {{use of undeclared SSA value name}}
  attn.attention %q, %q, %q captures(%x : f32) : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @capture_named_as_argument(%q: !q, %s: f32) {
  // expected-error @+2 {{region entry argument '%s' is already in use}}
  // expected-note @+1 {{previously referenced here}}
  attn.attention %q, %q, %q captures(%s : f32) score(%s: f32, %b: index, %h: index, %i: index, %j: index) {
    attn.yield %s : f32
  } : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @value_named_as_capture(%q: !q, %x: f32) {
  // expected-note @+1 {{previously defined here}}
  attn.attention %q, %q, %q captures(%x : f32) score(%s: f32, %b: index, %h: index, %i: index, %j: index) {
    // expected-error @+1 {{redefinition of SSA value '%x'}}
    %x = arith.addf %s, %s : f32
    attn.yield %x : f32
  } : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @not_captured(%q: !q, %x: f32) {
  attn.attention %q, %q, %q score(%s: f32, %b: index, %h: index, %i: index, %j: index) {
    // expected-error @+1 {{use of undeclared SSA value name}}
    %sum = arith.addf %s, %x : f32
    attn.yield %sum : f32
  } : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @argument_without_type(%q: !q) {
  // expected-error @+1 {{expected ':'}}
  attn.attention %q, %q, %q score(%s, %b: index, %h: index, %i: index, %j: index) {
    attn.yield %s : f32
  } : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @parts_out_of_order(%q: !q) {
  attn.attention %q, %q, %q mask(%b: index, %h: index, %i: index, %j: index) {
    %keep = arith.cmpi eq, %i, %j : index
    attn.yield %keep : i1
    // expected-error @+1 {{expected ':'}}
  } scale(0.5) : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @scale_not_a_number(%q: !q) {
  // expected-error @+1 {{expected floating point literal}}
  attn.attention %q, %q, %q scale(half) : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @scale_twice(%q: !q) {
  // expected-error @+1 {{attribute 'scale' occurs more than once}}
  attn.attention %q, %q, %q scale(0.5) {scale = 0.25} : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @backward_operands(%q: !q) {
  // expected-error @+1 {{expected operands query, key, value, out, lse, d_out and optionally d_lse, got 3 operands}}
  attn.attention_backward %q, %q, %q : (!q, !q, !q) -> (!q, !q, !q)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @online_operands(%q: !q) {
  // expected-error @+1 {{expected operands query, key, value and for a gradient lse, delta, d_out, got 4 operands}}
  attn.online_attention dq %q, %q, %q, %q schedule(<block_m = 64, block_n = 64>) : (!q, !q, !q, !q) -> (!q)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @online_kind(%q: !q) {
  // expected-error @+1 {{expected forward, dq or dkdv, got 'backward'}}
  attn.online_attention backward %q, %q, %q schedule(<block_m = 64, block_n = 64>) : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @online_without_schedule(%q: !q) {
  // expected-error @+1 {{expected 'schedule'}}
  attn.online_attention forward %q, %q, %q : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @range_without_end(%q: !q) {
  attn.online_attention forward %q, %q, %q schedule(<block_m = 64, block_n = 64>)
    mask(%b: index, %h: index, %i: index, %j: index) {
      %keep = arith.cmpi eq, %i, %j : index
      attn.yield %keep : i1
    } ranges(%b: index, %h: index, %begin: index, %end: index) {
      // expected-error @+1 {{expected 'to'}}
      attn.yield_ranges visited(%begin) masked()
    } : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @no_argument_for_a_repeated_capture(%q: !q, %x: f32) {
  // expected-error @+2 {{expected an argument of type 'f32', for the capture of %x that repeats one, got 'index'}}
  attn.attention %q, %q, %q captures(%x : f32, %x : f32)
    score(%s: f32, %b: index, %h: index, %i: index, %j: index) {
      attn.yield %s : f32
    } : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @no_arguments_for_repeated_captures(%q: !q, %x: f32) {
  // expected-error @+2 {{expected an argument for each of the 2 captures that repeat one}}
  attn.attention %q, %q, %q captures(%x : f32, %x : f32, %x : f32)
    score(%s: f32) { attn.yield %s : f32 } : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}
