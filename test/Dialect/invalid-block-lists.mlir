// RUN: attn-opt %s --split-input-file --verify-diagnostics

!q = tensor<2x4x300x16xf32>
!l = tensor<2x4x300xf32>
func.func @no_blocks(%q: !q, %lists: tensor<2x4x3x3x4xi32>) {
  // expected-error @+1 {{expected block_lists and blocks, or neither [A10]}}
  %out, %lse = attn.attention %q, %q, %q block_lists(%lists : tensor<2x4x3x3x4xi32>)
    mask(%b: index, %h: index, %i: index, %j: index) {
      %keep = arith.cmpi eq, %i, %j : index
      attn.yield %keep : i1
    } : (!q, !q, !q) -> (!q, !l)
  return
}

// -----

!q = tensor<2x4x300x16xf32>
!l = tensor<2x4x300xf32>
func.func @no_lists(%q: !q) {
  // expected-error @+1 {{expected block_lists and blocks, or neither [A10]}}
  %out, %lse = attn.attention %q, %q, %q blocks(128, 128) : (!q, !q, !q) -> (!q, !l)
  return
}

// -----

!q = tensor<2x4x300x16xf32>
!l = tensor<2x4x300xf32>
func.func @no_mask(%q: !q, %lists: tensor<2x4x3x3x4xi32>) {
  // expected-error @+1 {{expected a mask region where there are block lists [A10]}}
  %out, %lse = attn.attention %q, %q, %q block_lists(%lists : tensor<2x4x3x3x4xi32>) blocks(128, 128)
    : (!q, !q, !q) -> (!q, !l)
  return
}

// -----

!q = tensor<2x4x300x16xf32>
!l = tensor<2x4x300xf32>
func.func @other_blocks(%q: !q, %lists: tensor<1x1x3x3x4xi32>) {
  // expected-error @+1 {{expected block lists of type 'tensor<1x1x5x3x4xi32>', got 'tensor<1x1x3x3x4xi32>' [A10]}}
  %out, %lse = attn.attention %q, %q, %q block_lists(%lists : tensor<1x1x3x3x4xi32>) blocks(64, 128)
    mask(%b: index, %h: index, %i: index, %j: index) {
      %keep = arith.cmpi eq, %i, %j : index
      attn.yield %keep : i1
    } : (!q, !q, !q) -> (!q, !l)
  return
}

// -----

!q = tensor<2x4x?x16xf32>
func.func @one_number(%q: !q) {
  // expected-error @+1 {{expected two sizes of blocks, multiples of 16 from 16 to 1024, got (128) [BL3]}}
  %lists = attn.block_lists %q, %q blocks(128) mask(%b: index, %h: index, %i: index, %j: index) {
    %keep = arith.cmpi eq, %i, %j : index
    attn.yield %keep : i1
  } : (!q, !q) -> tensor<1x1x?x?x4xi32>
  return
}

// -----

!q = tensor<2x4x?x16xf32>
func.func @odd_blocks(%q: !q) {
  // expected-error @+1 {{expected two sizes of blocks, multiples of 16 from 16 to 1024, got (128, 72) [BL3]}}
  %lists = attn.block_lists %q, %q blocks(128, 72) mask(%b: index, %h: index, %i: index, %j: index) {
    %keep = arith.cmpi eq, %i, %j : index
    attn.yield %keep : i1
  } : (!q, !q) -> tensor<1x1x?x?x4xi32>
  return
}

// -----

!q = tensor<2x4x?x16xf32>
func.func @lists_type(%q: !q) {
  // expected-error @+1 {{expected block lists of type 'tensor<1x1x?x?x4xi32>', got 'tensor<1x1x?x?x3xi32>' [BL2]}}
  %lists = attn.block_lists %q, %q blocks(128, 128) mask(%b: index, %h: index, %i: index, %j: index) {
    %keep = arith.cmpi eq, %i, %j : index
    attn.yield %keep : i1
  } : (!q, !q) -> tensor<1x1x?x?x3xi32>
  return
}

// -----

!q = tensor<2x4x?x16xf32>
func.func @mask_of_batch(%q: !q) {
  // expected-error @+1 {{expected lists for every %b, which the mask uses, got 1 for all batch [BL2]}}
  %lists = attn.block_lists %q, %q blocks(128, 128) mask(%b: index, %h: index, %i: index, %j: index) {
    %keep = arith.cmpi eq, %i, %b : index
    attn.yield %keep : i1
  } : (!q, !q) -> tensor<1x1x?x?x4xi32>
  return
}

// -----

!q = tensor<2x4x?x16xf32>
func.func @mask_of_head(%q: !q) {
  // expected-error @+1 {{expected lists for every %h, which the mask uses, got 1 for all heads [BL2]}}
  %lists = attn.block_lists %q, %q blocks(128, 128) mask(%b: index, %h: index, %i: index, %j: index) {
    %keep = arith.cmpi eq, %i, %h : index
    attn.yield %keep : i1
  } : (!q, !q) -> tensor<2x1x?x?x4xi32>
  return
}

// -----

!q = tensor<2x4x?x16xf32>
func.func @without_mask(%q: !q) {
  // expected-error @+1 {{expected a mask region [BL1]}}
  %lists = attn.block_lists %q, %q blocks(128, 128) : (!q, !q) -> tensor<1x1x?x?x4xi32>
  return
}

// -----

!q = tensor<2x4x?x16xf32>
func.func @no_yield_ranges(%q: !q) {
  // expected-error @+1 {{expected the ranges region to end in attn.yield_ranges [BL1]}}
  %lists = attn.block_lists %q, %q blocks(128, 128) mask(%b: index, %h: index, %i: index, %j: index) {
    %keep = arith.cmpi eq, %i, %j : index
    attn.yield %keep : i1
  } ranges(%b: index, %h: index, %begin: index, %end: index) {
    %keep = arith.cmpi eq, %begin, %end : index
    attn.yield %keep : i1
  } : (!q, !q) -> tensor<1x1x?x?x4xi32>
  return
}

// -----

!q = tensor<2x4x?x16xf32>
!l = tensor<2x4x?xf32>
!lists = tensor<1x1x?x?x4xi32>
func.func @schedule(%q: !q, %lists: !lists) {
  // expected-error @+1 {{expected a block_m and block_n that divide the 64 x 128 of the block lists, got 128 x 64 [O6]}}
  %out, %lse = attn.online_attention forward %q, %q, %q block_lists(%lists : !lists) blocks(64, 128)
    schedule(<block_m = 128, block_n = 64>) mask(%b: index, %h: index, %i: index, %j: index) {
      %keep = arith.cmpi eq, %i, %j : index
      attn.yield %keep : i1
    } ranges(%b: index, %h: index, %begin: index, %end: index) {
      attn.yield_ranges visited() masked()
    } : (!q, !q, !q) -> (!q, !l)
  return
}
