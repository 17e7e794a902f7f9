// RUN: attn-opt %s --pass-pipeline='builtin.module(gpu.module(attn-tile-hoist-invariants))' | FileCheck %s

!scores = !attn_tile.fragment<64x32xf32, accumulator, 4x1>

gpu.module @kernels {
  // The slope of the head is loaded before the loop, what depends on the block of keys stays in the loop, and what depends on the
  // element in the map.
  // CHECK-LABEL: gpu.func @slope(
  // CHECK: %[[SLOPE:.*]] = memref.load %{{.*}}[%{{.*}}] : memref<?xf32>
  // CHECK: scf.for %[[KV:.*]] =
  // CHECK-NEXT: %[[FIRST:.*]] = arith.muli %[[KV]],
  // CHECK-NEXT: attn_tile.map
  // CHECK-NEXT: ^bb0
  // CHECK-NEXT: %[[INDEX:.*]] = arith.addi %[[FIRST]], %column
  gpu.func @slope(%slopes: memref<?xf32>, %head: index, %kv_len: index) kernel {
    %c0 = arith.constant 0 : index
    %c32 = arith.constant 32 : index
    %scores = attn_tile.fragment_alloc "scores" : !scores
    scf.for %kv = %c0 to %kv_len step %c32 {
      attn_tile.map outs(%scores : !scores) {
      ^bb0(%row: index, %column: index, %s: f32):
        %first = arith.muli %kv, %c32 : index
        %index = arith.addi %first, %column : index
        %slope = memref.load %slopes[%head] : memref<?xf32>
        %i = arith.index_cast %index : index to i32
        %f = arith.sitofp %i : i32 to f32
        %bias = arith.mulf %slope, %f : f32
        %sum = arith.addf %s, %bias : f32
        attn_tile.yield %sum : f32
      }
    }
    gpu.return
  }

  // Out of a condition; but no load of what the kernel writes.
  // CHECK-LABEL: gpu.func @conditions(
  // CHECK: %[[READ:.*]] = memref.load %[[ONLY_READ:.*]][
  // CHECK-NEXT: scf.if
  // CHECK-NEXT: attn_tile.map
  // CHECK-NEXT: ^bb0
  // CHECK-NEXT: memref.load
  gpu.func @conditions(%read: memref<?xf32>, %written: memref<?xf32>, %at: index, %condition: i1) kernel {
    %scores = attn_tile.fragment_alloc "scores" : !scores
    scf.if %condition {
      attn_tile.map outs(%scores : !scores) {
      ^bb0(%row: index, %column: index, %s: f32):
        %x = memref.load %read[%at] : memref<?xf32>
        %y = memref.load %written[%at] : memref<?xf32>
        %sum = arith.addf %x, %y : f32
        attn_tile.yield %sum : f32
      }
    }
    %zero = arith.constant 0.0 : f32
    memref.store %zero, %written[%at] : memref<?xf32>
    gpu.return
  }

  // One division for all elements, where arcp allows it.
  // CHECK-LABEL: gpu.func @reciprocal(
  // CHECK: %[[RECIPROCAL:.*]] = arith.divf %cst{{.*}}, %[[CAP:.*]] : f32
  // CHECK-NEXT: scf.if
  // CHECK-NEXT: attn_tile.map
  // CHECK-NEXT: ^bb0({{.*}}, %[[S:.*]]: f32):
  // CHECK-NEXT: %[[X:.*]] = arith.mulf %[[S]], %[[RECIPROCAL]] fastmath<arcp>
  // CHECK-NEXT: arith.divf %[[X]], %[[CAP]] : f32
  gpu.func @reciprocal(%cap: f32, %condition: i1) kernel {
    %scores = attn_tile.fragment_alloc "scores" : !scores
    scf.if %condition {
      attn_tile.map outs(%scores : !scores) {
      ^bb0(%row: index, %column: index, %s: f32):
        %x = arith.divf %s, %cap fastmath<arcp> : f32
        %y = arith.divf %x, %cap : f32
        attn_tile.yield %y : f32
      }
    }
    gpu.return
  }
}
