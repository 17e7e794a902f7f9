// RUN: split-file %s %t
// RUN: not attn-translate --attn-to-launch-plan %t/operation.mlir 2>&1 | FileCheck %s --check-prefix=OPERATION
// RUN: not attn-translate --attn-to-launch-plan %t/fill.mlir 2>&1 | FileCheck %s --check-prefix=FILL
// RUN: not attn-translate --attn-to-launch-plan %t/late.mlir 2>&1 | FileCheck %s --check-prefix=LATE
// RUN: not attn-translate --attn-to-launch-plan %t/late-map.mlir 2>&1 | FileCheck %s --check-prefix=LATE
// RUN: not attn-translate --attn-to-launch-plan %t/rows-of-map.mlir 2>&1 | FileCheck %s --check-prefix=ROWS
// RUN: not attn-translate --attn-to-launch-plan %t/size.mlir 2>&1 | FileCheck %s --check-prefix=SIZE
// RUN: not attn-translate --attn-to-launch-plan %t/threads.mlir 2>&1 | FileCheck %s --check-prefix=THREADS
// RUN: not attn-translate --attn-to-launch-plan %t/value.mlir 2>&1 | FileCheck %s --check-prefix=VALUE
// RUN: not attn-translate --attn-to-launch-plan --function=g %t/value.mlir 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not attn-translate --attn-to-cuda --function=f %t/value.mlir 2>&1 | FileCheck %s --check-prefix=OPTION
// RUN: not attn-translate --attn-to-cuda --report %t/value.mlir 2>&1 | FileCheck %s --check-prefix=REPORT

// OPERATION: error: 'memref.copy' op has no place in a launch plan
// FILL: error: 'linalg.fill' op fills with something else than zero, which a launch plan cannot do
// LATE: error: 'linalg.fill' op comes after a launch with the same buffer; a launch plan fills before the first launch
// ROWS: error: 'gpu.launch_func' op passes a workspace whose rows are not multiples of 16 bytes to aligned copies: 'memref<1x1x4x60xf16>'
// SIZE: error: 'func.func' op has a result, argument 1, of which size 0 is not known to be one of an argument's
// THREADS: error: 'gpu.launch_func' op expected 32 threads, the kernel's, all along x
// VALUE: error: 'arith.addi' op uses an argument of type 'index', which is not computed from sizes
// NAME: error: expected a public function @g
// OPTION: attn-translate: --function goes with --attn-to-launch-plan only
// REPORT: attn-translate: --fail-on-spill and --report go with --attn-to-ptx and --attn-to-cubin only

//--- operation.mlir
gpu.module @kernels {}
func.func @f(%a: memref<4xf32>, %b: memref<4xf32>) {
  memref.copy %a, %b : memref<4xf32> to memref<4xf32>
  return
}

//--- fill.mlir
gpu.module @kernels {}
func.func @f() {
  %one = arith.constant 1.0 : f32
  %a = memref.alloc() : memref<4xf32>
  linalg.fill ins(%one : f32) outs(%a : memref<4xf32>)
  return
}

//--- late.mlir
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @k(%a: memref<4xf32>) kernel attributes {attn_tile.kernel = #attn_tile.kernel<warps = 1>} {
      gpu.return
    }
  }
  func.func @f() {
    %c1 = arith.constant 1 : index
    %c32 = arith.constant 32 : index
    %zero = arith.constant 0.0 : f32
    %a = memref.alloc() : memref<4xf32>
    gpu.launch_func @kernels::@k blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1) args(%a : memref<4xf32>)
    linalg.fill ins(%zero : f32) outs(%a : memref<4xf32>)
    return
  }
}

//--- late-map.mlir
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @k(%a: !attn_tile.tensor_map<8x64xf16>) kernel attributes {attn_tile.kernel = #attn_tile.kernel<warps = 1>} {
      gpu.return
    }
  }
  func.func @f() {
    %c1 = arith.constant 1 : index
    %c32 = arith.constant 32 : index
    %zero = arith.constant 0.0 : f16
    %a = memref.alloc() : memref<1x1x4x64xf16>
    %map = attn_tile.tensor_map %a : memref<1x1x4x64xf16> to !attn_tile.tensor_map<8x64xf16>
    gpu.launch_func @kernels::@k blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1) args(%map : !attn_tile.tensor_map<8x64xf16>)
    linalg.fill ins(%zero : f16) outs(%a : memref<1x1x4x64xf16>)
    return
  }
}

//--- rows-of-map.mlir
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @k(%a: !attn_tile.tensor_map<8x64xf16>) kernel attributes {attn_tile.kernel = #attn_tile.kernel<warps = 1>} {
      gpu.return
    }
  }
  func.func @f() {
    %c1 = arith.constant 1 : index
    %c32 = arith.constant 32 : index
    %a = memref.alloc() : memref<1x1x4x60xf16>
    %map = attn_tile.tensor_map %a : memref<1x1x4x60xf16> to !attn_tile.tensor_map<8x64xf16>
    gpu.launch_func @kernels::@k blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1) args(%map : !attn_tile.tensor_map<8x64xf16>)
    return
  }
}

//--- size.mlir
gpu.module @kernels {}
func.func @f(%a: memref<?xf32>, %b: memref<?xf32> {attn.result = [[]]}) {
  return
}

//--- threads.mlir
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @k() kernel attributes {attn_tile.kernel = #attn_tile.kernel<warps = 1>} {
      gpu.return
    }
  }
  func.func @f() {
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    gpu.launch_func @kernels::@k blocks in (%c1, %c1, %c1) threads in (%c64, %c1, %c1)
    return
  }
}

//--- value.mlir
gpu.module @kernels {}
func.func @f(%n: index) {
  %0 = arith.addi %n, %n : index
  return
}
