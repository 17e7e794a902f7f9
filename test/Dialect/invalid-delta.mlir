// RUN: attn-opt %s --split-input-file --verify-diagnostics

func.func @wrong_type(%out: tensor<1x8x?x64xbf16>) {
  // expected-error @below {{expected delta of type 'tensor<1x8x?xf32>', got 'tensor<1x8x?xf64>' [D1]}}
  attn.delta %out, %out : tensor<1x8x?x64xbf16>, tensor<1x8x?xf64>
  return
}

// -----

func.func @wrong_shape(%out: tensor<1x8x?x64xbf16>) {
  // expected-error @below {{[D1]}}
  attn.delta %out, %out : tensor<1x8x?x64xbf16>, tensor<1x4x?xf32>
  return
}
