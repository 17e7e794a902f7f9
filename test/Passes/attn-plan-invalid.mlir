// RUN: attn-opt %s --attn-plan --split-input-file --verify-diagnostics
// RUN: not attn-opt %S/attn-plan.mlir --attn-plan=block-m=40 2>&1 | FileCheck %s --check-prefix=LANES
// RUN: not attn-opt %S/attn-plan.mlir --attn-plan="block-m=-64" 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: not attn-opt %S/attn-plan.mlir --attn-plan="block-m=4096 block-n=4096" 2>&1 | FileCheck %s --check-prefix=LARGE
// RUN: not attn-opt %S/attn-plan.mlir --attn-plan="block-m=9223372036854775776" 2>&1 | FileCheck %s --check-prefix=HUGE

// LANES: error: 'attn.attention' op expected block_m to be a multiple of 32 (2 vectors of 16), got 40
// NEGATIVE: error: 'attn.attention' op expected block_m from 1 to 2^31 - 1, got -64 [S1]
// LARGE: error: 'attn.attention' op expected tiles of at most 4194304 bytes, got 70254592 with block_m = 4096 and block_n = 4096; choose smaller blocks
// HUGE: error: 'attn.attention' op expected block_m from 1 to 2^31 - 1, got 9223372036854775776 [S1]

!q = tensor<1x1x?x8xf32>
func.func @no_target(%q: !q) {
  // expected-error @+1 {{'attn.attention' op expected a module with 'attn.target'; run --attn-set-target before --attn-plan}}
  attn.attention %q, %q, %q : (!q, !q, !q) -> (!q, tensor<1x1x?xf32>)
  return
}

// -----

!q = tensor<1x1x?x8xf32>
module attributes {attn.target = #attn.target<arch = sm_90a, max_shared_memory = 2048>} {
func.func @too_little_shared_memory(%q: !q) {
  // expected-error @+1 {{no tile of the forward kernel fits #attn.target<arch = sm_90a, max_shared_memory = 2048> for head_dim = 8 and value_dim = 8: with block_m = 16 and block_n = 16, 5120 bytes of shared memory exceed 2048, those of a block of which 1 share a multiprocessor; choose a smaller head_dim or value_dim}}
  attn.attention %q, %q, %q : (!q, !q, !q) -> (!q, tensor<1x1x?xf32>)
  return
}
}

// -----

!q = tensor<1x1x?x512xf16>
!l = tensor<1x1x?xf32>
module attributes {attn.target = #attn.target<arch = sm_90a, max_shared_memory = 232448>} {
func.func @wide_backward(%q: !q, %lse: !l) {
  // expected-error @+1 {{no tile of the fused kernel fits #attn.target<arch = sm_90a, max_shared_memory = 232448> for head_dim = 512 and value_dim = 512: with block_m = 16 and block_n = 32, 640 registers of accumulators a thread exceed 208; gradients for head_dim and value_dim of more than 256 are for the CPU}}
  attn.attention_backward %q, %q, %q, %q, %lse, %q : (!q, !q, !q, !q, !l, !q) -> (!q, !q, !q)
  return
}
}

// -----

!q = tensor<1x1x?x8xf8E4M3FN>
module attributes {attn.target = #attn.target<arch = x86_64_v3, vector_bits = 256, vector_registers = 16>} {
func.func @f8(%q: !q) {
  // expected-error @+1 {{f8E4M3FN tensors are not lowered yet; convert them to bf16, f16 or f32 first}}
  attn.attention %q, %q, %q : (!q, !q, !q) -> (!q, tensor<1x1x?xf32>)
  return
}
}

// -----

!q = tensor<1x1x?x8xf32>
module attributes {attn.target = #attn.target<arch = x86_64_v3, vector_bits = 256, vector_registers = 16>} {
func.func private @keep(index) -> i1
func.func @call(%q: !q) {
  // expected-error @+1 {{expected no calls in its regions, got 'func.call'; inline what it calls first (--inline)}}
  attn.attention %q, %q, %q mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
    %keep = func.call @keep(%q_idx) : (index) -> i1
    attn.yield %keep : i1
  } : (!q, !q, !q) -> (!q, tensor<1x1x?xf32>)
  return
}
}

// -----

!q = tensor<1x1x?x8xf32>
!l = tensor<1x1x?xf32>
module attributes {attn.target = #attn.target<arch = x86_64_v3, vector_bits = 256, vector_registers = 16>} {
func.func @not_differentiated(%q: !q, %lse: !l) {
  // expected-error @+1 {{expected a gradient region for the score; run --attn-differentiate before --attn-plan}}
  attn.attention_backward %q, %q, %q, %q, %lse, %q
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %t = math.tanh %s : f32
      attn.yield %t : f32
    } : (!q, !q, !q, !q, !l, !q) -> (!q, !q, !q)
  return
}
}

// -----

!q = tensor<1x1x?x8xf32>
!l = tensor<1x1x?xf32>
module attributes {attn.target = #attn.target<arch = x86_64_v4, vector_bits = 1024, vector_registers = 32>} {
func.func @small_blocks(%q: !q, %lists: tensor<1x1x?x?x4xi32>) {
  // expected-error @+1 {{a tile of block_m = 64 and block_n = 8 does not divide the 16 x 16 of the block lists; use lists of 128 x 128, or tiles that divide theirs}}
  attn.attention %q, %q, %q block_lists(%lists : tensor<1x1x?x?x4xi32>) blocks(16, 16)
    mask(%b: index, %h: index, %i: index, %j: index) {
      %keep = arith.cmpi eq, %i, %j : index
      attn.yield %keep : i1
    } : (!q, !q, !q) -> (!q, !l)
  return
}
}

// -----

!q = tensor<1x1x?x64xbf16>
!l = tensor<1x1x?xf32>
module attributes {attn.target = #attn.target<arch = sm_90a, multiprocessors = 132, max_shared_memory = 232448>} {
func.func @small_blocks_of_gpu(%q: !q, %lists: tensor<1x1x?x?x4xi32>) {
  // expected-error @+1 {{does not divide the 16 x 16 of the block lists; choose a smaller head_dim or value_dim, or larger blocks of the block lists}}
  attn.attention %q, %q, %q block_lists(%lists : tensor<1x1x?x?x4xi32>) blocks(16, 16)
    mask(%b: index, %h: index, %i: index, %j: index) {
      %keep = arith.cmpi eq, %i, %j : index
      attn.yield %keep : i1
    } : (!q, !q, !q) -> (!q, !l)
  return
}
}

// -----

!q = tensor<1x1x?x8xf32>
module attributes {attn.target = #attn.target<arch = x86_64_v3, vector_bits = 256, vector_registers = 16>} {
func.func @tf32_on_a_cpu(%q: !q) {
  // expected-error @+1 {{tf32 products are for a GPU; a CPU's are those of f32: compile for it without tf32}}
  attn.attention %q, %q, %q {tf32} : (!q, !q, !q) -> (!q, tensor<1x1x?xf32>)
  return
}
}

// -----

!q = tensor<1x1x?x8xf32>
!l = tensor<1x1x?xf32>
module attributes {attn.target = #attn.target<arch = sm_90a, max_shared_memory = 232448>} {
func.func @deterministic_gradient_of_a_capture(%q: !q, %lse: !l, %x: f32) {
  // expected-error @+1 {{gradients of captures are summed in an order that is not determined; ask for deterministic gradients only without floating captures that the score reads}}
  attn.attention_backward %q, %q, %q, %q, %lse, %q captures(%x : f32)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %sum = arith.addf %s, %x : f32
      attn.yield %sum : f32
    } gradient(%d: f32, %s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      attn.accumulate_gradient %d, %x[] : f32, f32
      attn.yield %d : f32
    } {deterministic} : (!q, !q, !q, !q, !l, !q) -> (!q, !q, !q, tensor<f32>)
  return
}
}
