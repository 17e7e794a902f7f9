// RUN: attn-opt %s --attn-lower-online --split-input-file --verify-diagnostics

!q = tensor<1x1x?x8xf8E4M3FN>
func.func @f8(%q: !q) {
  // expected-error @+1 {{f8E4M3FN tensors are not lowered yet; convert them to bf16, f16 or f32 first}}
  attn.online_attention forward %q, %q, %q schedule(<block_m = 64, block_n = 64>) : (!q, !q, !q) -> (!q, tensor<1x1x?xf32>)
  return
}

// -----

!q = tensor<1x1x?x8xf32>
func.func private @bias(tensor<?xf32>, index) -> f32
func.func @call(%q: !q, %table: tensor<?xf32>) {
  // expected-error @+1 {{expected no calls in its regions, got 'func.call'}}
  attn.online_attention forward %q, %q, %q captures(%table : tensor<?xf32>) schedule(<block_m = 64, block_n = 64>)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %bias = func.call @bias(%table, %kv_idx) : (tensor<?xf32>, index) -> f32
      %r = arith.addf %s, %bias : f32
      attn.yield %r : f32
    } : (!q, !q, !q) -> (!q, tensor<1x1x?xf32>)
  return
}

// -----

// Tiles live on the stack of a thread.
!q = tensor<1x1x?x64xf32>
func.func @large(%q: !q) {
  // expected-error @+1 {{expected tiles of at most 4194304 bytes, got 5242880 with block_m = 1024 and block_n = 1024; choose smaller blocks}}
  attn.online_attention forward %q, %q, %q schedule(<block_m = 1024, block_n = 1024>) : (!q, !q, !q) -> (!q, tensor<1x1x?xf32>)
  return
}

// -----

!q = tensor<1x1x?x64xf64>
!l = tensor<1x1x?xf64>
func.func @huge(%q: !q, %lse: !l) {
  // expected-error @+1 {{expected tiles of at most 4194304 bytes}}
  attn.online_attention dkdv %q, %q, %q, %lse, %lse, %q schedule(<block_m = 2147483647, block_n = 2147483647>)
    : (!q, !q, !q, !l, !l, !q) -> (!q, !q)
  return
}

// -----

!q = tensor<1x1x?x64xf32>
func.func @splits(%q: !q, %n: index) {
  // expected-error @+1 {{expected a number of parts in the schedule (kv_splits) for a CPU, got splits}}
  attn.online_attention forward %q, %q, %q schedule(<block_m = 64, block_n = 64>) splits(%n)
    : (!q, !q, !q) -> (tensor<?x1x1x?x64xf32>, tensor<?x1x1x?xf32>)
  return
}
