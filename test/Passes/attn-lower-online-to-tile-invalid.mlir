// RUN: attn-opt %s --split-input-file --attn-lower-online-to-tile --verify-diagnostics

!t = tensor<1x1x?x64xf64>
!l = tensor<1x1x?xf64>
func.func @f64(%q: !t) -> !t {
  // expected-error @below {{f64 tensors are for the CPU; convert them to f32 for a GPU}}
  %out, %lse = attn.online_attention forward %q, %q, %q schedule(<block_m = 64, block_n = 32, warps = 4>) : (!t, !t, !t) -> (!t, !l)
  return %out : !t
}

// -----

!t = tensor<1x1x?x64xf32>
!l = tensor<1x1x?xf32>
func.func @dq(%q: !t, %lse: !l) -> !t {
  // expected-error @below {{expected the kind forward or fused for a GPU, got dq}}
  %dq = attn.online_attention dq %q, %q, %q, %lse, %lse, %q schedule(<block_m = 64, block_n = 32, warps = 4>) : (!t, !t, !t, !l, !l, !t) -> !t
  return %dq : !t
}

// -----

func.func @merge(%a: tensor<1x1x?x64xf32>, %la: tensor<1x1x?xf32>, %b: tensor<1x1x?x64xf32>, %lb: tensor<1x1x?xf32>) -> tensor<1x1x?x64xf32> {
  // expected-error @below {{has no GPU kernel yet; use kv_splits = 1, or merge on the CPU}}
  %out, %lse = attn.merge (%a, %la), (%b, %lb) : tensor<1x1x?x64xf32>, tensor<1x1x?xf32> -> tensor<1x1x?x64xf32>, tensor<1x1x?xf32>
  return %out : tensor<1x1x?x64xf32>
}
