func.func @merge(%o: tensor<1x2x3x8xf8E4M3FN>, %l: tensor<1x2x3xf32>) -> tensor<1x2x3x8xf8E4M3FN> {
  %out, %lse = attn.merge (%o, %l), (%o, %l) : tensor<1x2x3x8xf8E4M3FN>, tensor<1x2x3xf32> -> tensor<1x2x3x8xf8E4M3FN>, tensor<1x2x3xf32>
  return %out : tensor<1x2x3x8xf8E4M3FN>
}
