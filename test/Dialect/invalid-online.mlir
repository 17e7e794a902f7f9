// RUN: attn-opt %s -split-input-file -verify-diagnostics

!q = tensor<2x4x3x8xf32>
func.func @shared_head_dim(%q: !q, %k: tensor<2x4x3x9xf32>) {
  // expected-error @+1 {{[A3]}}
  attn.online_attention forward %q, %k, %q schedule(<block_m = 64, block_n = 64>)
    : (!q, tensor<2x4x3x9xf32>, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @forward_with_gradients(%q: !q, %lse: tensor<2x4x3xf32>) {
  // expected-error @+1 {{expected lse, delta and d_out only for a gradient [O1]}}
  attn.online_attention forward %q, %q, %q, %lse, %lse, %q schedule(<block_m = 64, block_n = 64>)
    : (!q, !q, !q, tensor<2x4x3xf32>, tensor<2x4x3xf32>, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @gradient_without_d_out(%q: !q) {
  // expected-error @+1 {{expected lse, delta and d_out for a gradient [O1]}}
  attn.online_attention dkdv %q, %q, %q schedule(<block_m = 64, block_n = 64>) : (!q, !q, !q) -> (!q, !q)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @gradient_without_delta(%q: !q, %lse: tensor<2x4x3xf32>) {
  // expected-error @+1 {{expected lse, delta and d_out for a gradient [O1]}}
  "attn.online_attention"(%q, %q, %q, %lse, %q) <{kind = #attn<kernel_kind dq>,
    operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 1, 0, 0, 0>, schedule = #attn.schedule<block_m = 64, block_n = 64>}>
    ({}, {}, {}, {}) : (!q, !q, !q, tensor<2x4x3xf32>, !q) -> !q
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @forward_with_d_out(%q: !q) {
  // expected-error @+1 {{expected lse, delta and d_out only for a gradient [O1]}}
  "attn.online_attention"(%q, %q, %q, %q) <{kind = #attn<kernel_kind forward>,
    operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 0, 0, 0>, schedule = #attn.schedule<block_m = 64, block_n = 64>}>
    ({}, {}, {}, {}) : (!q, !q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @delta_type(%q: !q, %lse: tensor<2x4x3xf32>, %delta: tensor<2x4x3xf64>) {
  // expected-error @+1 {{expected delta of type 'tensor<2x4x3xf32>', got 'tensor<2x4x3xf64>' [O1]}}
  attn.online_attention dq %q, %q, %q, %lse, %delta, %q schedule(<block_m = 64, block_n = 64>)
    : (!q, !q, !q, tensor<2x4x3xf32>, tensor<2x4x3xf64>, !q) -> !q
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @score_without_gradient(%q: !q, %lse: tensor<2x4x3xf32>) {
  // expected-error @+1 {{expected a gradient region exactly where dq or dkdv have a score region [O1]}}
  attn.online_attention dq %q, %q, %q, %lse, %lse, %q schedule(<block_m = 64, block_n = 64>)
    score(%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %n = arith.negf %s : f32
      attn.yield %n : f32
    } : (!q, !q, !q, tensor<2x4x3xf32>, tensor<2x4x3xf32>, !q) -> !q
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @forward_with_gradient_region(%q: !q) {
  // expected-error @+1 {{expected a gradient region exactly where dq or dkdv have a score region [O1]}}
  attn.online_attention forward %q, %q, %q schedule(<block_m = 64, block_n = 64>)
    score(%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %n = arith.negf %s : f32
      attn.yield %n : f32
    } gradient(%d: f32, %s: f32, %b: index, %h: index, %i: index, %j: index) {
      %n = arith.negf %d : f32
      attn.yield %n : f32
    } : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @forward_results(%q: !q) {
  // expected-error @+1 {{expected 2 results of forward, got 1 [O2]}}
  attn.online_attention forward %q, %q, %q schedule(<block_m = 64, block_n = 64>) : (!q, !q, !q) -> !q
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @no_results(%q: !q, %lse: tensor<2x4x3xf32>) {
  // expected-error @+1 {{expected 1 results of dq, got 0 [O2]}}
  attn.online_attention dq %q, %q, %q, %lse, %lse, %q schedule(<block_m = 64, block_n = 64>)
    : (!q, !q, !q, tensor<2x4x3xf32>, tensor<2x4x3xf32>, !q) -> ()
  return
}

// -----

!q = tensor<2x4x3x8xbf16>
func.func @split_element_type(%q: !q) {
  // expected-error @+1 {{expected out of type 'tensor<2x2x4x3x8xf32>', got 'tensor<2x2x4x3x8xbf16>' [O2]}}
  attn.online_attention forward %q, %q, %q schedule(<block_m = 64, block_n = 64, kv_splits = 2>)
    : (!q, !q, !q) -> (tensor<2x2x4x3x8xbf16>, tensor<2x2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @split_lse(%q: !q) {
  // expected-error @+1 {{expected lse of type 'tensor<2x2x4x3xf32>', got 'tensor<2x4x3xf32>' [O2]}}
  attn.online_attention forward %q, %q, %q schedule(<block_m = 64, block_n = 64, kv_splits = 2>)
    : (!q, !q, !q) -> (tensor<2x2x4x3x8xf32>, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @capture_gradient(%q: !q, %lse: tensor<2x4x3xf32>, %x: tensor<4xf32>) {
  // expected-error @+1 {{expected the gradient of a capture of type 'tensor<4xf32>', got 'tensor<f32>' [O2]}}
  attn.online_attention dq %q, %q, %q, %lse, %lse, %q captures(%x : tensor<4xf32>)
    schedule(<block_m = 64, block_n = 64>)
    : (!q, !q, !q, tensor<2x4x3xf32>, tensor<2x4x3xf32>, !q) -> (!q, tensor<f32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
!v = tensor<2x4x3x16xf32>
func.func @d_value(%q: !q, %v: !v, %lse: tensor<2x4x3xf32>) {
  // expected-error @+1 {{expected d_value of type 'tensor<2x4x3x16xf32>', got 'tensor<2x4x3x8xf32>' [O2]}}
  attn.online_attention dkdv %q, %q, %v, %lse, %lse, %v schedule(<block_m = 64, block_n = 64>)
    : (!q, !q, !v, tensor<2x4x3xf32>, tensor<2x4x3xf32>, !v) -> (!q, !q)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @forward_lanes(%q: !q) {
  // expected-error @+1 {{expected block_m to be a multiple of vector_length * register_vectors = 32, got 48 [O3, S2]}}
  attn.online_attention forward %q, %q, %q
    schedule(<block_m = 48, block_n = 64, vector_length = 16, register_vectors = 2>)
    : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @dkdv_lanes(%q: !q, %lse: tensor<2x4x3xf32>) {
  // expected-error @+1 {{expected block_n to be a multiple of vector_length * register_vectors = 32, got 48 [O3, S2]}}
  attn.online_attention dkdv %q, %q, %q, %lse, %lse, %q
    schedule(<block_m = 64, block_n = 48, vector_length = 16, register_vectors = 2>)
    : (!q, !q, !q, tensor<2x4x3xf32>, tensor<2x4x3xf32>, !q) -> (!q, !q)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @mask_without_ranges(%q: !q) {
  // expected-error @+1 {{expected a ranges region exactly where there is a mask region [O4]}}
  attn.online_attention forward %q, %q, %q schedule(<block_m = 64, block_n = 64>)
    mask(%b: index, %h: index, %i: index, %j: index) {
      %keep = arith.cmpi eq, %i, %j : index
      attn.yield %keep : i1
    } : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @ranges_without_mask(%q: !q) {
  // expected-error @+1 {{expected a ranges region exactly where there is a mask region [O4]}}
  attn.online_attention forward %q, %q, %q schedule(<block_m = 64, block_n = 64>)
    ranges(%b: index, %h: index, %begin: index, %end: index) {
      attn.yield_ranges visited() masked()
    } : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @ranges_arguments(%q: !q) {
  // expected-error @+1 {{expected the ranges region to take ('index', 'index', 'index', 'index'), got ('index', 'index', 'index') [O4]}}
  attn.online_attention forward %q, %q, %q schedule(<block_m = 64, block_n = 64>)
    mask(%b: index, %h: index, %i: index, %j: index) {
      %keep = arith.cmpi eq, %i, %j : index
      attn.yield %keep : i1
    } ranges(%b: index, %begin: index, %end: index) {
      attn.yield_ranges visited() masked()
    } : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @ranges_end(%q: !q) {
  // expected-error @+1 {{expected the ranges region to end in attn.yield_ranges [O4]}}
  attn.online_attention forward %q, %q, %q schedule(<block_m = 64, block_n = 64>)
    mask(%b: index, %h: index, %i: index, %j: index) {
      %keep = arith.cmpi eq, %i, %j : index
      attn.yield %keep : i1
    } ranges(%b: index, %h: index, %begin: index, %end: index) {
      attn.yield %begin : index
    } : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @score_end(%q: !q) {
  // expected-error @+1 {{expected the score region to end in attn.yield [A5]}}
  attn.online_attention forward %q, %q, %q schedule(<block_m = 64, block_n = 64>)
    score(%s: f32, %b: index, %h: index, %i: index, %j: index) {
      attn.yield_ranges visited() masked()
    } : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @loop_in_ranges(%q: !q) {
  // expected-error @+1 {{expected the ranges region to hold arith, math and index operations, scf.if, tensor.extract, attn.q_len and attn.kv_len, got 'scf.while' [A6]}}
  attn.online_attention forward %q, %q, %q schedule(<block_m = 64, block_n = 64>)
    mask(%b: index, %h: index, %i: index, %j: index) {
      %keep = arith.cmpi eq, %i, %j : index
      attn.yield %keep : i1
    } ranges(%b: index, %h: index, %begin: index, %end: index) {
      %n = scf.while (%x = %begin) : (index) -> index {
        %more = arith.cmpi slt, %x, %end : index
        scf.condition(%more) %x : index
      } do {
      ^bb0(%x: index):
        scf.yield %x : index
      }
      attn.yield_ranges visited(%begin to %n) masked()
    } : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @key_outer_gradient(%q: !q, %lse: tensor<2x4x3xf32>) {
  // expected-error @+1 {{expected kv_splits = 1 and order = query_outer for a gradient, got #attn.schedule<block_m = 64, block_n = 64, order = key_outer> [O5]}}
  attn.online_attention dq %q, %q, %q, %lse, %lse, %q schedule(<block_m = 64, block_n = 64, order = key_outer>)
    : (!q, !q, !q, tensor<2x4x3xf32>, tensor<2x4x3xf32>, !q) -> !q
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @split_gradient(%q: !q, %lse: tensor<2x4x3xf32>) {
  // expected-error @+1 {{got #attn.schedule<block_m = 64, block_n = 64, kv_splits = 2> [O5]}}
  attn.online_attention dkdv %q, %q, %q, %lse, %lse, %q schedule(<block_m = 64, block_n = 64, kv_splits = 2>)
    : (!q, !q, !q, tensor<2x4x3xf32>, tensor<2x4x3xf32>, !q) -> (!q, !q)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @unpaired_ranges(%q: !q) {
  attn.online_attention forward %q, %q, %q schedule(<block_m = 64, block_n = 64>)
    mask(%b: index, %h: index, %i: index, %j: index) {
      %keep = arith.cmpi eq, %i, %j : index
      attn.yield %keep : i1
    } ranges(%b: index, %h: index, %begin: index, %end: index) {
      // expected-error @+1 {{expected as many ends as begins [R1]}}
      "attn.yield_ranges"(%begin) <{operandSegmentSizes = array<i32: 0, 0, 0, 1>}> : (index) -> ()
    } : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

// -----

!q = tensor<2x4x3x8xf32>
func.func @no_query(%q: !q) {
  // expected-error @+1 {{expected operandSegmentSizes to begin with 3 ones, got 0, 1, 2}}
  "attn.online_attention"(%q, %q, %q) <{kind = #attn<kernel_kind forward>,
    operandSegmentSizes = array<i32: 0, 1, 2, 0, 0, 0, 0, 0, 0>, schedule = #attn.schedule<block_m = 64, block_n = 64>}>
    ({}, {}, {}, {}) : (!q, !q, !q) -> (!q, tensor<2x4x3xf32>)
  return
}

//===----------------------------------------------------------------------===//
// attn.merge, attn.q_len, attn.kv_len, attn.yield
//===----------------------------------------------------------------------===//

// -----

func.func @merge_shape(%out: tensor<1x8x?x64xf32>, %lse: tensor<1x4x?xf32>) {
  // expected-error @+1 {{expected lse of type 'tensor<1x8x?xf32>', got 'tensor<1x4x?xf32>' [M1]}}
  %0:2 = attn.merge (%out, %lse), (%out, %lse) : tensor<1x8x?x64xf32>, tensor<1x4x?xf32> -> tensor<1x8x?x64xf32>, tensor<1x4x?xf32>
  return
}

// -----

func.func @merge_element_type(%out: tensor<1x8x?x64xf64>, %lse: tensor<1x8x?xf32>) {
  // expected-error @+1 {{expected lse of type 'tensor<1x8x?xf64>', got 'tensor<1x8x?xf32>' [M1]}}
  %0:2 = attn.merge (%out, %lse), (%out, %lse) : tensor<1x8x?x64xf64>, tensor<1x8x?xf32> -> tensor<1x8x?x64xf64>, tensor<1x8x?xf32>
  return
}

// -----

func.func @merge_part_lse(%out: tensor<1x8x?x64xf32>, %lse: tensor<1x4x?xf32>) {
  // expected-error @+1 {{expected the lse of parts of type 'tensor<1x8x?xf32>', got 'tensor<1x4x?xf32>' [M1]}}
  %0:2 = attn.merge (%out, %lse) : tensor<1x8x?x64xf32>, tensor<1x4x?xf32> -> tensor<1x8x?x64xf32>, tensor<1x8x?xf32>
  return
}

// -----

func.func @merge_sides(%a: tensor<1x8x?x64xf32>, %b: tensor<1x8x3x64xf32>, %lse: tensor<1x8x?xf32>) {
  // expected-error @+1 {{expected all parts of type 'tensor<1x8x?x64xf32>', 'tensor<1x8x?xf32>', got 'tensor<1x8x3x64xf32>', 'tensor<1x8x?xf32>' [M2]}}
  %0:2 = "attn.merge"(%a, %b, %lse, %lse)
    : (tensor<1x8x?x64xf32>, tensor<1x8x3x64xf32>, tensor<1x8x?xf32>, tensor<1x8x?xf32>)
    -> (tensor<1x8x?x64xf32>, tensor<1x8x?xf32>)
  return
}

// -----

func.func @merge_nothing() {
  // expected-error @+1 {{expected an lse for each out, of at least one part, got 0 operands [M2]}}
  %0:2 = "attn.merge"() : () -> (tensor<1x8x?x64xf32>, tensor<1x8x?xf32>)
  return
}

// -----

func.func @merge_odd(%out: tensor<1x8x?x64xf32>, %lse: tensor<1x8x?xf32>) {
  // expected-error @+1 {{expected an lse for each out, of at least one part, got 3 operands [M2]}}
  %0:2 = "attn.merge"(%out, %lse, %lse) : (tensor<1x8x?x64xf32>, tensor<1x8x?xf32>, tensor<1x8x?xf32>)
    -> (tensor<1x8x?x64xf32>, tensor<1x8x?xf32>)
  return
}

// -----

func.func @merge_two_stacks(%outs: tensor<?x1x8x?x64xf32>, %lses: tensor<?x1x8x?xf32>) {
  // expected-error @+1 {{expected a single stack of parts, got 2 [M3]}}
  %0:2 = attn.merge (%outs, %lses), (%outs, %lses)
    : tensor<?x1x8x?x64xf32>, tensor<?x1x8x?xf32> -> tensor<1x8x?x64xf32>, tensor<1x8x?xf32>
  return
}

// -----

func.func @merge_stack_shape(%outs: tensor<3x1x8x?x32xf32>, %lses: tensor<3x1x8x?xf32>) {
  // expected-error @+1 {{expected parts of type 'tensor<3x1x8x?x64xf32>', got 'tensor<3x1x8x?x32xf32>' [M3]}}
  %0:2 = attn.merge (%outs, %lses) : tensor<3x1x8x?x32xf32>, tensor<3x1x8x?xf32> -> tensor<1x8x?x64xf32>, tensor<1x8x?xf32>
  return
}

// -----

func.func @merge_stack_lse(%outs: tensor<3x1x8x?x64xf32>, %lses: tensor<1x8x?xf32>) {
  // expected-error @+1 {{expected the lse of parts of type 'tensor<3x1x8x?xf32>', got 'tensor<1x8x?xf32>' [M1]}}
  %0:2 = attn.merge (%outs, %lses) : tensor<3x1x8x?x64xf32>, tensor<1x8x?xf32> -> tensor<1x8x?x64xf32>, tensor<1x8x?xf32>
  return
}

// -----

func.func @merge_part_elements(%out: tensor<1x8x?x64xf16>, %lse: tensor<1x8x?xf32>) {
  // expected-error @+1 {{expected parts with elements of 'bf16' or 'f32', got 'f16' [M4]}}
  %0:2 = attn.merge (%out, %lse), (%out, %lse) : tensor<1x8x?x64xf16>, tensor<1x8x?xf32> -> tensor<1x8x?x64xbf16>, tensor<1x8x?xf32>
  return
}

// -----

func.func @length_outside(%c: i1, %b: index) {
  scf.if %c {
    // expected-error @+1 {{expected to stand in a region of an attention operation [L1]}}
    %n = attn.q_len %b
  }
  return
}

// -----

func.func @key_length_outside(%c: i1, %b: index) {
  scf.if %c {
    // expected-error @+1 {{[L1]}}
    %n = attn.kv_len %b
  }
  return
}

// -----

func.func @length_in_function(%b: index) {
  // expected-error @+1 {{expects parent op to be one of 'attn.attention, attn.attention_backward, attn.online_attention, attn.block_lists, scf.if'}}
  %n = attn.kv_len %b
  return
}

// -----

func.func @yield_in_function(%x: f32) {
  // expected-error @+1 {{expects parent op to be one of 'attn.attention, attn.attention_backward, attn.online_attention, attn.block_lists'}}
  attn.yield %x : f32
}

// -----

func.func @splits_of_a_gradient(%q: tensor<1x1x?x64xf32>, %l: tensor<1x1x?xf32>, %n: index) {
  // expected-error @+1 {{expected forward, kv_splits = 1 and order = query_outer with splits, got dq and}}
  %0 = attn.online_attention dq %q, %q, %q, %l, %l, %q schedule(<block_m = 64, block_n = 64>) splits(%n)
    : (tensor<1x1x?x64xf32>, tensor<1x1x?x64xf32>, tensor<1x1x?x64xf32>, tensor<1x1x?xf32>, tensor<1x1x?xf32>, tensor<1x1x?x64xf32>)
    -> tensor<1x1x?x64xf32>
  return
}

// -----

func.func @splits_twice(%q: tensor<1x1x?x64xf32>, %n: index) {
  // expected-error @+1 {{[O7]}}
  %0:2 = attn.online_attention forward %q, %q, %q schedule(<block_m = 64, block_n = 64, kv_splits = 2>) splits(%n)
    : (tensor<1x1x?x64xf32>, tensor<1x1x?x64xf32>, tensor<1x1x?x64xf32>) -> (tensor<?x1x1x?x64xf32>, tensor<?x1x1x?xf32>)
  return
}

// -----

func.func @splits_are_dynamic(%q: tensor<1x1x?x64xf32>, %n: index) {
  // expected-error @+1 {{expected results with a dynamic number of parts with splits, got 'tensor<3x1x1x?x64xf32>', 'tensor<3x1x1x?xf32>' [O7]}}
  %0:2 = attn.online_attention forward %q, %q, %q schedule(<block_m = 64, block_n = 64>) splits(%n)
    : (tensor<1x1x?x64xf32>, tensor<1x1x?x64xf32>, tensor<1x1x?x64xf32>) -> (tensor<3x1x1x?x64xf32>, tensor<3x1x1x?xf32>)
  return
}
