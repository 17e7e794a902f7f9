// RUN: attn-opt %s --attn-write-results-in-place | FileCheck %s

// The output takes the allocation's place; a view takes on its strides.

// CHECK-LABEL: func.func @views(
// CHECK-SAME:    %{{.*}}: vector<8xf32>, %[[OUT:[^:]*]]: memref<?x?xf32, strided<[?, 1], offset: ?>>)
// CHECK-NOT:     memref.alloc
// CHECK:         %[[CAST:.*]] = memref.cast %[[OUT]] : memref<?x?xf32, strided<[?, 1], offset: ?>> to memref<4x?xf32, strided<[?, 1], offset: ?>>
// CHECK:         scf.for
// CHECK:           %[[ROW:.*]] = memref.subview %[[CAST]]{{.*}} to memref<?xf32, strided<[1], offset: ?>>
// CHECK:           vector.store %{{.*}}, %[[ROW]]
// CHECK-NOT:     memref.copy
// CHECK:         return
func.func @views(%n: index, %v: vector<8xf32>, %out: memref<?x?xf32, strided<[?, 1], offset: ?>>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %alloc = memref.alloc(%n) : memref<4x?xf32>
  scf.for %i = %c0 to %c4 step %c1 {
    %row = memref.subview %alloc[%i, 0] [1, %n] [1, 1] : memref<4x?xf32> to memref<?xf32, strided<[1], offset: ?>>
    vector.store %v, %row[%c0] : memref<?xf32, strided<[1], offset: ?>>, vector<8xf32>
  }
  %cast = memref.cast %alloc : memref<4x?xf32> to memref<?x?xf32>
  memref.copy %cast, %out : memref<?x?xf32> to memref<?x?xf32, strided<[?, 1], offset: ?>>
  return
}

// Access through a cast follows the output's strides, not the allocation's.

// CHECK-LABEL: func.func @access_through_cast(
// CHECK:         %[[CAST:.*]] = memref.cast %{{.*}} to memref<?x?xf32, strided<[?, 1], offset: ?>>
// CHECK:         memref.store %{{.*}}, %[[CAST]]{{.*}} : memref<?x?xf32, strided<[?, 1], offset: ?>>
// CHECK-NOT:     memref.copy
func.func @access_through_cast(%s: f32, %out: memref<4x4xf32, strided<[?, 1], offset: ?>>) {
  %c2 = arith.constant 2 : index
  %alloc = memref.alloc() : memref<4x4xf32>
  %cast = memref.cast %alloc : memref<4x4xf32> to memref<?x?xf32>
  memref.store %s, %cast[%c2, %c2] : memref<?x?xf32>
  memref.copy %alloc, %out : memref<4x4xf32> to memref<4x4xf32, strided<[?, 1], offset: ?>>
  return
}

// One allocation for two outputs: it is in the last one, and copied from there to the other.

// CHECK-LABEL: func.func @twice(
// CHECK-SAME:    %[[A:[^:]*]]: memref<4xf32, strided<[1], offset: ?>>, %[[B:[^:]*]]: memref<4xf32, strided<[1], offset: ?>>
// CHECK-NOT:     memref.alloc
// CHECK:         memref.copy %[[B]], %[[A]]
// CHECK-NOT:     memref.copy
func.func @twice(%a: memref<4xf32, strided<[1], offset: ?>>, %b: memref<4xf32, strided<[1], offset: ?>>, %s: f32) {
  %c0 = arith.constant 0 : index
  %alloc = memref.alloc() : memref<4xf32>
  memref.store %s, %alloc[%c0] : memref<4xf32>
  memref.copy %alloc, %a : memref<4xf32> to memref<4xf32, strided<[1], offset: ?>>
  memref.copy %alloc, %b : memref<4xf32> to memref<4xf32, strided<[1], offset: ?>>
  return
}

// Used after the copy, carried by a loop, passed to a function, an argument itself: the copy stays.

// CHECK-LABEL: func.func @used_later(
// CHECK:         memref.copy
func.func @used_later(%s: f32, %out: memref<4xf32, strided<[1], offset: ?>>) {
  %c0 = arith.constant 0 : index
  %alloc = memref.alloc() : memref<4xf32>
  memref.copy %alloc, %out : memref<4xf32> to memref<4xf32, strided<[1], offset: ?>>
  memref.store %s, %alloc[%c0] : memref<4xf32>
  return
}

// CHECK-LABEL: func.func @carried(
// CHECK:         memref.copy
func.func @carried(%n: index, %s: f32, %out: memref<4xf32, strided<[1], offset: ?>>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %alloc = memref.alloc() : memref<4xf32>
  %other = memref.alloc() : memref<4xf32>
  %last:2 = scf.for %i = %c0 to %n step %c1 iter_args(%x = %alloc, %y = %other) -> (memref<4xf32>, memref<4xf32>) {
    memref.store %s, %x[%c0] : memref<4xf32>
    scf.yield %y, %x : memref<4xf32>, memref<4xf32>
  }
  memref.copy %alloc, %out : memref<4xf32> to memref<4xf32, strided<[1], offset: ?>>
  return
}

func.func private @use(memref<4xf32>)
// CHECK-LABEL: func.func @passed(
// CHECK:         memref.copy
func.func @passed(%out: memref<4xf32, strided<[1], offset: ?>>) {
  %alloc = memref.alloc() : memref<4xf32>
  call @use(%alloc) : (memref<4xf32>) -> ()
  memref.copy %alloc, %out : memref<4xf32> to memref<4xf32, strided<[1], offset: ?>>
  return
}

// CHECK-LABEL: func.func @argument(
// CHECK:         memref.copy
func.func @argument(%x: memref<4xf32>, %out: memref<4xf32, strided<[1], offset: ?>>) {
  memref.copy %x, %out : memref<4xf32> to memref<4xf32, strided<[1], offset: ?>>
  return
}

// CHECK-LABEL: func.func @conditional(
// CHECK:         memref.copy
func.func @conditional(%c: i1, %out: memref<4xf32, strided<[1], offset: ?>>) {
  %alloc = memref.alloc() : memref<4xf32>
  scf.if %c {
    memref.copy %alloc, %out : memref<4xf32> to memref<4xf32, strided<[1], offset: ?>>
  }
  return
}
