// RUN: attn-opt %s --attn-lower-online-to-tile | FileCheck %s

// 70 pairs: the arguments of a kernel have room for 32. Merges in f32, and one of what they give.
// CHECK-LABEL: func @many(
// CHECK: memref.alloc({{.*}}) : memref<1x2x?x64xf32>
// CHECK: gpu.launch_func @many_merge::
// CHECK: memref.alloc({{.*}}) : memref<1x2x?x64xf32>
// CHECK: gpu.launch_func @many_merge_0::
// CHECK: memref.alloc({{.*}}) : memref<1x2x?x64xf32>
// CHECK: gpu.launch_func @many_merge_1::
// CHECK: memref.alloc({{.*}}) : memref<1x2x?x64xbf16>
// CHECK: gpu.launch_func @many_merge_2::
func.func @many(%a: tensor<1x2x?x64xbf16>, %la: tensor<1x2x?xf32>) -> tensor<1x2x?x64xbf16> {
  %out, %lse = attn.merge (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la), (%a, %la)
    : tensor<1x2x?x64xbf16>, tensor<1x2x?xf32> -> tensor<1x2x?x64xbf16>, tensor<1x2x?xf32>
  return %out : tensor<1x2x?x64xbf16>
}
