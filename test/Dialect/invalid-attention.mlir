// RUN: attn-opt %s -split-input-file -verify-diagnostics

!q = tensor<2x4x3x8xf32>
!k = tensor<2x2x5x8xf16>
func.func @key_element_type(%q: !q, %k: !k) {
  // expected-error @+1 {{expected key of the query's element type 'f32', got 'f16' [A1]}}
  attn.attention %q, %k, %k : (!q, !k, !k) -> (tensor<2x4x3x8xf32>, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
!v = tensor<2x4x3x8xf64>
func.func @value_element_type(%q: !q, %v: !v) {
  // expected-error @+1 {{expected value of the query's element type 'f32', got 'f64' [A1]}}
  attn.attention %q, %q, %v : (!q, !q, !v) -> (tensor<2x4x3x8xf32>, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
!k = tensor<3x4x5x8xf32>
func.func @key_batch(%q: !q, %k: !k) {
  // expected-error @+1 {{expected a key batch of 2, got 3 [A2]}}
  attn.attention %q, %k, %k : (!q, !k, !k) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<?x4x3x8xf32>
!k = tensor<3x4x5x8xf32>
!v = tensor<2x4x5x8xf32>
func.func @value_batch(%q: !q, %k: !k, %v: !v) {
  // expected-error @+1 {{expected a value batch of 3, got 2 [A2]}}
  attn.attention %q, %k, %v : (!q, !k, !v) -> (!q, tensor<?x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
!k = tensor<2x4x5x8xf32>
!v = tensor<2x2x5x8xf32>
func.func @value_heads(%q: !q, %k: !k, %v: !v) {
  // expected-error @+1 {{expected value heads of 4, got 2 [A2]}}
  attn.attention %q, %k, %v : (!q, !k, !v) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
!k = tensor<2x4x5x8xf32>
!v = tensor<2x4x6x8xf32>
func.func @value_length(%q: !q, %k: !k, %v: !v) {
  // expected-error @+1 {{expected a value length of 5, got 6 [A2]}}
  attn.attention %q, %k, %v : (!q, !k, !v) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
!k = tensor<2x3x5x8xf32>
func.func @head_ratio(%q: !q, %k: !k) {
  // expected-error @+1 {{expected the number of query heads to be a multiple of the 3 key heads, got 4 [A2]}}
  attn.attention %q, %k, %k : (!q, !k, !k) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
!k = tensor<2x?x5x8xf32>
!v = tensor<2x3x5x8xf32>
func.func @head_ratio_from_value(%q: !q, %k: !k, %v: !v) {
  // expected-error @+1 {{multiple of the 3 key heads, got 4 [A2]}}
  attn.attention %q, %k, %v : (!q, !k, !v) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
!k = tensor<2x0x5x8xf32>
func.func @no_key_heads(%q: !q, %k: !k) {
  // expected-error @+1 {{multiple of the 0 key heads, got 4 [A2]}}
  attn.attention %q, %k, %k : (!q, !k, !k) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x?xf32>
func.func @dynamic_head_dim(%q: !q) {
  // expected-error @+1 {{expected the query's head_dim to be static, from 1 to 512, got ? [A3]}}
  attn.attention %q, %q, %q : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x0xf32>
func.func @head_dim_zero(%q: !q) {
  // expected-error @+1 {{expected the query's head_dim to be static, from 1 to 512, got 0 [A3]}}
  attn.attention %q, %q, %q : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
!v = tensor<2x4x3x513xf32>
func.func @value_dim_too_large(%q: !q, %v: !v) {
  // expected-error @+1 {{expected the value_dim to be static, from 1 to 512, got 513 [A3]}}
  attn.attention %q, %q, %v : (!q, !q, !v) -> (!v, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
!k = tensor<2x4x3x16xf32>
func.func @head_dims_differ(%q: !q, %k: !k) {
  // expected-error @+1 {{expected the key's head_dim to be the query's 8, got 16 [A3]}}
  attn.attention %q, %k, %k : (!q, !k, !k) -> (!k, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
!v = tensor<2x4x3x16xf32>
func.func @out_shape(%q: !q, %v: !v) {
  // expected-error @+1 {{expected out of type 'tensor<2x4x3x16xf32>', got 'tensor<2x4x3x8xf32>' [A4]}}
  attn.attention %q, %q, %v : (!q, !q, !v) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xbf16>
func.func @out_element_type(%q: !q) {
  // expected-error @+1 {{expected out of type 'tensor<2x4x3x8xbf16>', got 'tensor<2x4x3x8xf32>' [A4]}}
  attn.attention %q, %q, %q : (!q, !q, !q) -> (tensor<2x4x3x8xf32>, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
!v = tensor<2x4x3x16xf32>
func.func @dynamic_value_dim(%q: !q, %v: !v) {
  // expected-error @+1 {{expected out with a static last dimension of 16, got 'tensor<2x4x3x?xf32>' [A4]}}
  attn.attention %q, %q, %v : (!q, !q, !v) -> (tensor<2x4x3x?xf32>, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @lse_shape(%q: !q) {
  // expected-error @+1 {{expected lse of type 'tensor<2x4x3xf32>', got 'tensor<2x4x8xf32>' [A4]}}
  attn.attention %q, %q, %q : (!q, !q, !q) -> (!q, tensor<2x4x8xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf64>
func.func @lse_element_type(%q: !q) {
  // expected-error @+1 {{expected lse of type 'tensor<2x4x3xf64>', got 'tensor<2x4x3xf32>' [A4]}}
  attn.attention %q, %q, %q : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @score_arguments(%q: !q) {
  // expected-error @+1 {{expected the score region to take ('f32', 'index', 'index', 'index', 'index'), got ('f32', 'index', 'index', 'index') [A5]}}
  attn.attention %q, %q, %q score(%s: f32, %b: index, %h: index, %i: index) {
    attn.yield %s : f32
  } : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xbf16>
func.func @score_of_element_type(%q: !q) {
  // expected-error @+1 {{expected the score region to take ('f32', 'index', 'index', 'index', 'index'), got ('bf16', 'index', 'index', 'index', 'index') [A5]}}
  attn.attention %q, %q, %q score(%s: bf16, %b: index, %h: index, %i: index, %j: index) {
    attn.yield %s : bf16
  } : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @score_result(%q: !q) {
  // expected-error @+1 {{expected the score region to yield 'f32', got 'index' [A5]}}
  attn.attention %q, %q, %q score(%s: f32, %b: index, %h: index, %i: index, %j: index) {
    attn.yield %i : index
  } : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @mask_arguments(%q: !q, %x: f32) {
  // expected-error @+1 {{expected the mask region to take ('index', 'index', 'index', 'index', 'f32'), got ('i32', 'index', 'index', 'index', 'f32') [A5]}}
  attn.attention %q, %q, %q captures(%x : f32) mask(%b: i32, %h: index, %i: index, %j: index) {
    %keep = arith.cmpi eq, %i, %j : index
    attn.yield %keep : i1
  } : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @mask_result(%q: !q) {
  // expected-error @+1 {{expected the mask region to yield 'i1', got 'index' [A5]}}
  attn.attention %q, %q, %q mask(%b: index, %h: index, %i: index, %j: index) {
    attn.yield %j : index
  } : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @missing_capture_argument(%q: !q, %x: f32) {
  // expected-error @+1 {{expected the mask region to take ('index', 'index', 'index', 'index', 'f32'), got ('index', 'index', 'index', 'index') [A5]}}
  "attn.attention"(%q, %q, %q, %x) <{operandSegmentSizes = array<i32: 1, 1, 1, 1, 0>}> ({}, {
  ^bb0(%b: index, %h: index, %i: index, %j: index):
    %keep = arith.cmpi eq, %i, %j : index
    "attn.yield"(%keep) : (i1) -> ()
  }) : (!q, !q, !q, f32) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @region_without_end(%q: !q) {
  attn.attention %q, %q, %q score(%s: f32, %b: index, %h: index, %i: index, %j: index) {
    // expected-error @+1 {{block with no terminator}}
    %t = math.tanh %s : f32
  } : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @empty_block(%q: !q) {
  // expected-error @+1 {{empty block: expect at least a terminator}}
  "attn.attention"(%q, %q, %q) <{operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>}> ({
  ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
  }, {}) : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @two_blocks(%q: !q) {
  // expected-error @+1 {{region #0 ('score') failed to verify constraint: region with at most 1 blocks}}
  "attn.attention"(%q, %q, %q) <{operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>}> ({
  ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
    "attn.yield"(%s) : (f32) -> ()
  ^bb1(%t: f32):
    "attn.yield"(%t) : (f32) -> ()
  }, {}) : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @loop_in_region(%q: !q) {
  // expected-error @+1 {{expected the score region to hold arith, math and index operations, scf.if, tensor.extract, attn.q_len and attn.kv_len, got 'scf.for' [A6]}}
  attn.attention %q, %q, %q score(%s: f32, %b: index, %h: index, %i: index, %j: index) {
    scf.for %x = %b to %h step %i {
    }
    attn.yield %s : f32
  } : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @tensor_insert_in_region(%q: !q, %t: tensor<4xf32>) {
  // expected-error @+1 {{got 'tensor.insert' [A6]}}
  attn.attention %q, %q, %q captures(%t : tensor<4xf32>) score(%s: f32, %b: index, %h: index, %i: index, %j: index) {
    %c = arith.cmpi eq, %i, %j : index
    scf.if %c {
      %u = tensor.insert %s into %t[%h] : tensor<4xf32>
    }
    attn.yield %s : f32
  } : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @tensor_arithmetic_in_region(%q: !q, %t: tensor<4xf32>) {
  // expected-error @+1 {{expected 'arith.addf' in the score region to have scalar operands and results [A6]}}
  attn.attention %q, %q, %q captures(%t : tensor<4xf32>) score(%s: f32, %b: index, %h: index, %i: index, %j: index) {
    %u = arith.addf %t, %t : tensor<4xf32>
    %x = tensor.extract %u[%h] : tensor<4xf32>
    attn.yield %x : f32
  } : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @nested_attention(%q: !q) {
  // expected-error @+1 {{got 'attn.attention' [A6]}}
  attn.attention %q, %q, %q captures(%q : !q) score(%s: f32, %b: index, %h: index, %i: index, %j: index) {
    %out, %lse = attn.attention %q, %q, %q : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
    %x = tensor.extract %out[%b, %h, %i, %j] : !q
    attn.yield %x : f32
  } : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @not_a_captured_tensor(%q: !q) {
  // expected-error @+1 {{expected 'arith.constant' in the score region to have scalar operands and results [A6]}}
  attn.attention %q, %q, %q score(%s: f32, %b: index, %h: index, %i: index, %j: index) {
    %t = arith.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
    %x = tensor.extract %t[%h] : tensor<4xf32>
    attn.yield %x : f32
  } : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @infinite_scale(%q: !q) {
  // expected-error @+1 {{expected a scale that is finite in 'f32', got INF [A7]}}
  attn.attention %q, %q, %q scale(0x7FF0000000000000) : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @large_scale(%q: !q) {
  // expected-error @+1 {{expected a scale that is finite in 'f32', got 1.000000e+39 [A7]}}
  attn.attention %q, %q, %q scale(1.0e39) : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!d = tensor<2x4x3x8xf64>
func.func @double_scale(%q: !d) {
  attn.attention %q, %q, %q scale(1.0e39) : (!d, !d, !d) -> (!d, tensor<2x4x3xf64>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @nan_scale(%q: !q) {
  // expected-error @+1 {{expected a scale that is finite in 'f32', got nan [A7]}}
  "attn.attention"(%q, %q, %q) <{operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>}> ({}, {}) {scale = 0x7FF8000000000000 : f64} : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @scale_type(%q: !q) {
  // expected-error @+1 {{attribute 'scale' failed to satisfy constraint: 64-bit float attribute}}
  "attn.attention"(%q, %q, %q) <{operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>}> ({}, {}) {scale = 1.0 : f32} : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xi32>
func.func @integer_tensor(%q: !q) {
  // expected-error @+1 {{operand #0 must be 4-D tensor}}
  attn.attention %q, %q, %q : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<4x3x8xf32>
func.func @three_dimensions(%q: !q) {
  // expected-error @+1 {{operand #0 must be 4-D tensor}}
  attn.attention %q, %q, %q : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @vector_capture(%q: !q, %x: vector<4xf32>) {
  // expected-error @+1 {{operand #3 must be variadic of ranked tensor or scalar of floating, integer or index type}}
  attn.attention %q, %q, %q captures(%x : vector<4xf32>) : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @one_result(%q: !q) {
  // expected-error @+1 {{expected 2 results}}
  %0 = "attn.attention"(%q, %q, %q) <{operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>}> ({}, {}) : (!q, !q, !q) -> !q
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @one_region(%q: !q) {
  // expected-error @+1 {{expected 2 regions}}
  %0:2 = "attn.attention"(%q, %q, %q) <{operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>}> ({}) : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @two_operands(%q: !q) {
  // expected-error @+1 {{expected 3 or more operands, but found 2}}
  %0:2 = "attn.attention"(%q, %q) <{operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>}> ({}, {}) : (!q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @value_from_above(%q: !q, %x: f32) {
  // expected-note @+1 {{required by region isolation constraints}}
  "attn.attention"(%q, %q, %q) <{operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>}> ({
  ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
    // expected-error @+1 {{using value defined outside the region}}
    "attn.yield"(%x) : (f32) -> ()
  }, {}) : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x2147483648x8xf32>
func.func @long_query(%q: !q, %k: tensor<2x4x2147483647x8xf32>) {
  // expected-error @+1 {{expected a q_len of at most 2^31 - 1, got 2147483648 [A8]}}
  attn.attention %q, %k, %k : (!q, tensor<2x4x2147483647x8xf32>, tensor<2x4x2147483647x8xf32>) -> (!q, tensor<2x4x2147483648xf32>)
  return
}

// -----

!q = tensor<2x4x?x8xf32>
func.func @long_keys(%q: !q, %k: tensor<2x4x9223372036854775807x8xf32>) {
  // expected-error @+1 {{expected a kv_len of at most 2^31 - 1, got 9223372036854775807 [A8]}}
  attn.attention %q, %q, %k : (!q, !q, tensor<2x4x9223372036854775807x8xf32>) -> (!q, tensor<2x4x?xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @unknown_attribute(%q: !q) {
  // expected-error @+1 {{'attn.attention' op has no attribute 'dropout'; it would be ignored [A9]}}
  attn.attention %q, %q, %q {dropout = 0.1 : f64} : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @attribute_of_another_dialect(%q: !q) {
  attn.attention %q, %q, %q {profiler.id = 3 : i64} : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

func.func @index_constant(%q: tensor<1x1x4x8xf32>, %k: tensor<1x1x4x8xf32>, %v: tensor<1x1x4x8xf32>) {
  // expected-error @+1 {{expected index constants from -2^31 to 2^32 - 1 in the mask region, since indices have 32 bits there, got 4294967296 [A8]}}
  %out, %lse = attn.attention %q, %k, %v
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %far = arith.constant 4294967296 : index
      %keep = arith.cmpi slt, %kv_idx, %far : index
      attn.yield %keep : i1
    } : (tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>) -> (tensor<1x1x4x8xf32>, tensor<1x1x4xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xbf16>
func.func @tf32_of_bf16(%q: !q) {
  // expected-error @+1 {{expected tensors of f32 for tf32 products, got 'bf16' [A11]}}
  attn.attention %q, %q, %q {tf32} : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}
