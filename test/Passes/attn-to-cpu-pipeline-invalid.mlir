// RUN: attn-opt %s --attn-to-cpu-pipeline --split-input-file --verify-diagnostics

!q = tensor<1x1x?x8xf32>
func.func @no_target(%q: !q) -> !q {
  // expected-error @+1 {{expected a module with 'attn.target'; run --attn-set-target before --attn-plan}}
  %out, %lse = attn.attention %q, %q, %q : (!q, !q, !q) -> (!q, tensor<1x1x?xf32>)
  return %out : !q
}

// -----

// What is recursive, or has several blocks, is not inlined.
!q = tensor<1x1x?x8xf32>
module attributes {attn.target = #attn.target<arch = x86_64_v3, vector_bits = 256, vector_registers = 16>} {
func.func @recursive(%q: !q) -> !q {
  // expected-error @+1 {{expected no calls in its regions, got 'func.call'}}
  %out, %lse = attn.attention %q, %q, %q mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
    %keep = func.call @again(%q_idx) : (index) -> i1
    attn.yield %keep : i1
  } : (!q, !q, !q) -> (!q, tensor<1x1x?xf32>)
  return %out : !q
}
func.func private @again(%q_idx: index) -> i1 {
  %keep = func.call @again(%q_idx) : (index) -> i1
  return %keep : i1
}
}

// -----

// What no lowering computes in is named before anything is lowered.
!q = tensor<1x1x?x8xf32>
module attributes {attn.target = #attn.target<arch = x86_64_v3, vector_bits = 256, vector_registers = 16>} {
func.func @f8_score(%q: !q) -> !q {
  // expected-error @+1 {{has 'arith.truncf' of 'f8E5M2' in its regions, which no lowering computes in; use f16, bf16, f32 or f64}}
  %out, %lse = attn.attention %q, %q, %q score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
    %small = arith.truncf %s : f32 to f8E5M2
    %back = arith.extf %small : f8E5M2 to f32
    attn.yield %back : f32
  } : (!q, !q, !q) -> (!q, tensor<1x1x?xf32>)
  return %out : !q
}
}

// -----

!q = tensor<1x1x?x8xf32>
module attributes {attn.target = #attn.target<arch = x86_64_v3, vector_bits = 256, vector_registers = 16>} {
func.func @power_of_integers(%q: !q) -> !q {
  // expected-error @+1 {{has 'math.ipowi' in its regions, which no lowering has a form of; multiply, or use math.fpowi}}
  %out, %lse = attn.attention %q, %q, %q mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
    %i = arith.index_cast %q_idx : index to i32
    %j = arith.index_cast %kv_idx : index to i32
    %power = math.ipowi %i, %j : i32
    %keep = arith.cmpi sgt, %power, %i : i32
    attn.yield %keep : i1
  } : (!q, !q, !q) -> (!q, tensor<1x1x?xf32>)
  return %out : !q
}
}

// -----

// What has no form in LLVM elsewhere is named at its place, at the end.
module attributes {attn.target = #attn.target<arch = x86_64_v3, vector_bits = 256, vector_registers = 16>} {
func.func @beside_attention(%x: f32) -> f32 {
  // expected-error @+1 {{'arith.truncf' is left at the end of the CPU pipeline: the conversion to the LLVM dialect has no form for it}}
  %small = arith.truncf %x : f32 to f8E5M2
  // expected-error @+1 {{'arith.extf' is left at the end of the CPU pipeline: the conversion to the LLVM dialect has no form for it}}
  %back = arith.extf %small : f8E5M2 to f32
  return %back : f32
}
}
