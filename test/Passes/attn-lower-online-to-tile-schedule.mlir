// A schedule that is written by hand is held to what the plan would say of it.
// RUN: attn-opt %s --attn-lower-online-to-tile --split-input-file --verify-diagnostics

!t = tensor<1x2x64x64xf32>
module attributes {attn.target = #attn.target<arch = sm_90a, multiprocessors = 132, max_shared_memory = 232448>} {
  func.func @rows(%q: !t) -> (!t, tensor<1x2x64xf32>) {
    // expected-error@+1 {{expected block_m to be a multiple of 16 for each warp and block_n of 16, got 8 and 8}}
    %out, %lse = attn.online_attention forward %q, %q, %q schedule(<block_m = 8, block_n = 8, warps = 1>) : (!t, !t, !t) -> (!t, tensor<1x2x64xf32>)
    return %out, %lse : !t, tensor<1x2x64xf32>
  }
}

// -----

!t = tensor<1x2x64x64xf32>
func.func @warps(%q: !t) -> (!t, tensor<1x2x64xf32>) {
  // expected-error@+1 {{expected block_m to be a multiple of 16 for each warp and block_n of 16, got 24 and 24}}
  %out, %lse = attn.online_attention forward %q, %q, %q schedule(<block_m = 24, block_n = 24, warps = 3>) : (!t, !t, !t) -> (!t, tensor<1x2x64xf32>)
  return %out, %lse : !t, tensor<1x2x64xf32>
}

// -----

!t = tensor<1x2x64x64xf32>
func.func @hopper(%q: !t) -> (!t, tensor<1x2x64xf32>) {
  // expected-error@+1 {{has no kernel of the hopper family: its products are of elements of 16 bits, not of 32}}
  %out, %lse = attn.online_attention forward %q, %q, %q schedule(<block_m = 128, block_n = 128, warps = 12, stages = 2, family = hopper>) : (!t, !t, !t) -> (!t, tensor<1x2x64xf32>)
  return %out, %lse : !t, tensor<1x2x64xf32>
}

// -----

!t = tensor<1x2x64x64xf32>
func.func @order(%q: !t) -> (!t, tensor<1x2x64xf32>) {
  // expected-error@+1 {{expected order = query_outer for a GPU, got key_outer}}
  %out, %lse = attn.online_attention forward %q, %q, %q schedule(<block_m = 64, block_n = 64, order = key_outer, warps = 4>) : (!t, !t, !t) -> (!t, tensor<1x2x64xf32>)
  return %out, %lse : !t, tensor<1x2x64xf32>
}

// -----

!t = tensor<1x2x64x64xf32>
module attributes {attn.target = #attn.target<arch = x86_64_v3, vector_bits = 256, vector_registers = 16, l2_bytes = 1048576>} {
  func.func @cpu(%q: !t) -> (!t, tensor<1x2x64xf32>) {
    // expected-error@+1 {{expected a GPU as the target, got #attn.target<arch = x86_64_v3}}
    %out, %lse = attn.online_attention forward %q, %q, %q schedule(<block_m = 64, block_n = 64, warps = 4>) : (!t, !t, !t) -> (!t, tensor<1x2x64xf32>)
    return %out, %lse : !t, tensor<1x2x64xf32>
  }
}
