// RUN: attn-translate --attn-to-launch-plan %s | %python %S/Inputs/compact_plan.py | FileCheck %s

// CHECK:      name: "scaled"
// CHECK-NEXT: parameter: {"name": "x", "type": "bf16", "sizes": [{"dim": [0, 0]}, 4, {"dim": [0, 2]}, 64]}
// CHECK-NEXT: parameter: {"name": "window", "type": "i64", "scalar": true}
// CHECK-NEXT: parameter: {"name": "argument_2", "type": "f32", "scalar": true}
// CHECK-NEXT: result: {"name": "out", "type": "bf16", "sizes": [{"dim": [0, 0]}, 4, {"dim": [0, 2]}, 64], "zeroed": false}
// CHECK-NEXT: result: {"name": "sum", "type": "f32", "sizes": [{"dim": [0, 2]}, 8], "zeroed": true}
// CHECK-NEXT: requirement: {"condition": {"equal": [{"mod": [{"dim": [0, 2]}, 8]}, 0]}, "message": "the length must be a multiple of 8"}
// CHECK-NEXT: module: kernels
// CHECK-NEXT: variant: aligned if {"min": [{"parameter_aligned": [0, 16]}, {"result_aligned": [0, 16]}]}
// CHECK-NEXT:   workspace: {"name": "partial", "type": "f32", "sizes": [{"mul": [{"dim": [0, 0]}, 4]}, 16], "zeroed": true, "left_zero": false}
// CHECK-NEXT:   launch: 0 scale grid [{"mul": [{"ceildiv": [{"dim": [0, 2]}, 64]}, {"mul": [{"dim": [0, 0]}, 4]}]}, 4, 1] threads 128 shared 8192
// CHECK-NEXT:     {"parameter": 0}
// CHECK-NEXT:     {"parameter": 1}
// CHECK-NEXT:     {"parameter": 2}
// CHECK-NEXT:     {"result": 0}
// CHECK-NEXT:     {"workspace": 0}
// CHECK-NEXT:     {"expression": {"max": [{"sub": [{"dim": [0, 2]}, 5]}, 0]}, "type": "i64"}
// CHECK-NEXT:   launch: 0 add grid [1, 1, 1] threads 32 shared 0
// CHECK-NEXT:     {"workspace": 0}
// CHECK-NEXT:     {"result": 1}

!tensor = memref<?x4x?x64xbf16, strided<[?, ?, ?, 1], offset: ?>>
!sum = memref<?x8xf32, strided<[?, 1], offset: ?>>

module attributes {gpu.container_module} {
  func.func @scaled(%x: !tensor, %window: index, %argument_2: f32, %out: !tensor {attn.result = [[0, 0], 4, [0, 2], 64]},
                    %sum: !sum {attn.result = [[0, 2], 8]}) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %c5 = arith.constant 5 : index
    %c8 = arith.constant 8 : index
    %c32 = arith.constant 32 : index
    %c64 = arith.constant 64 : index
    %c128 = arith.constant 128 : index
    %zero = arith.constant 0.0 : f32
    %batch = memref.dim %x, %c0 : !tensor
    %length = memref.dim %out, %c2 : !tensor
    %heads = memref.dim %x, %c1 : !tensor
    %rest = arith.remui %length, %c8 : index
    %divides = arith.cmpi eq, %rest, %c0 : index
    cf.assert %divides, "the length must be a multiple of 8"
    %blocks = arith.ceildivsi %length, %c64 : index
    %rows = arith.muli %batch, %heads : index
    %grid = arith.muli %blocks, %rows : index
    %partial = memref.alloc(%rows) : memref<?x16xf32>
    linalg.fill ins(%zero : f32) outs(%partial : memref<?x16xf32>)
    %view = memref.cast %partial : memref<?x16xf32> to memref<?x16xf32, strided<[?, 1], offset: ?>>
    %less = arith.subi %length, %c5 : index
    %first = arith.maxsi %less, %c0 : index
    gpu.launch_func @kernels::@scale blocks in (%grid, %c4, %c1) threads in (%c128, %c1, %c1)
        args(%x : !tensor, %window : index, %argument_2 : f32, %out : !tensor, %view : memref<?x16xf32, strided<[?, 1], offset: ?>>, %first : index)
    // No launch has seen it yet.
    linalg.fill ins(%zero : f32) outs(%sum : !sum)
    gpu.launch_func @kernels::@add blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1)
        args(%view : memref<?x16xf32, strided<[?, 1], offset: ?>>, %sum : !sum)
    memref.dealloc %partial : memref<?x16xf32>
    return
  }

  gpu.module @kernels {
    gpu.func @scale(%x: !tensor, %window: index, %scale: f32, %out: !tensor, %partial: memref<?x16xf32, strided<[?, 1], offset: ?>>, %first: index) kernel
        attributes {attn_tile.kernel = #attn_tile.kernel<warps = 4>} {
      %tile = attn_tile.shared_alloc "tile" : !attn_tile.shared<64x64xbf16>
      %acc = attn_tile.fragment_alloc "acc" : !attn_tile.fragment<64x64xf32, accumulator, 4x1>
      attn_tile.fill %acc, %scale : !attn_tile.fragment<64x64xf32, accumulator, 4x1>
      attn_tile.copy_async %x[%first, %first, %first] rows(%window) to %tile aligned : !tensor, !attn_tile.shared<64x64xbf16>
      attn_tile.store %acc via %tile to %out[%first, %first, %first] rows(%window) aligned
          : !attn_tile.fragment<64x64xf32, accumulator, 4x1>, !tensor via !attn_tile.shared<64x64xbf16>
      gpu.return
    }
    gpu.func @add(%partial: memref<?x16xf32, strided<[?, 1], offset: ?>>, %sum: !sum) kernel
        attributes {attn_tile.kernel = #attn_tile.kernel<warps = 1>} {
      gpu.return
    }
  }
}
