// RUN: attn-opt %s --attn-outline-parallel-loops --split-input-file --verify-diagnostics | FileCheck %s

// The body is a function over a range of iterations; %buffer and %value travel in a struct, the constant is cloned.

// CHECK-LABEL: func.func private @attn_cpu_parallel_for(index, (index, index, !llvm.ptr) -> (), !llvm.ptr)
// CHECK-LABEL: func.func @fill(
// CHECK-SAME:    %[[BUFFER:.*]]: memref<?x4xf32>, %[[N:.*]]: index, %[[VALUE:.*]]: f32)
// CHECK:         %[[CONTEXT:.*]] = llvm.alloca %{{.*}} x !llvm.struct<(f32, struct<(ptr, ptr, i64, array<2 x i64>, array<2 x i64>)>, i64)>
// CHECK:         %[[COUNT:.*]] = arith.maxsi %[[N]]
// CHECK:         %[[VALUE_FIELD:.*]] = llvm.getelementptr %[[CONTEXT]][0, 0]
// CHECK:         llvm.store %[[VALUE]], %[[VALUE_FIELD]] : f32, !llvm.ptr
// CHECK:         %[[BODY:.*]] = constant @fill_parallel_0 : (index, index, !llvm.ptr) -> ()
// CHECK:         call @attn_cpu_parallel_for(%[[COUNT]], %[[BODY]], %[[CONTEXT]])
// CHECK-NEXT:    return
// CHECK-LABEL: func.func private @fill_parallel_0(
// CHECK-SAME:    %[[BEGIN:.*]]: index, %[[END:.*]]: index, %[[CONTEXT:.*]]: !llvm.ptr)
// CHECK-SAME:    llvm.linkage = #llvm.linkage<internal>
// CHECK-DAG:     %[[C2:.*]] = arith.constant 2 : index
// CHECK:         %[[VALUE_FIELD:.*]] = llvm.getelementptr %[[CONTEXT]][0, 0]
// CHECK:         %[[VALUE:.*]] = llvm.load %[[VALUE_FIELD]] : !llvm.ptr -> f32
// CHECK:         %[[BUFFER_FIELD:.*]] = llvm.getelementptr %[[CONTEXT]][0, 1]
// CHECK:         %[[DESCRIPTOR:.*]] = llvm.load %[[BUFFER_FIELD]]
// CHECK:         %[[BUFFER:.*]] = builtin.unrealized_conversion_cast %[[DESCRIPTOR]] : {{.*}} to memref<?x4xf32>
// CHECK:         scf.for %[[I:.*]] = %[[BEGIN]] to %[[END]]
// CHECK-NEXT:      memref.store %[[VALUE]], %[[BUFFER]][%[[I]], %[[C2]]]
// CHECK-NEXT:    }
// CHECK-NEXT:    return
func.func @fill(%buffer: memref<?x4xf32>, %n: index, %value: f32) {
  %c2 = arith.constant 2 : index
  scf.forall (%i) in (%n) {
    memref.store %value, %buffer[%i, %c2] : memref<?x4xf32>
  }
  return
}

// -----

// All dimensions of a forall are spread: bounds and steps are undone inside. The buffer on the stack is one a range, the
// inner parallel loop stays.

// CHECK-LABEL: func.func @tiles(
// CHECK-SAME:    %{{.*}}: memref<?x?xf32>, %[[M:.*]]: index, %[[N:.*]]: index)
// CHECK:         %[[EXTENT:.*]] = arith.subi %[[M]], %c2
// CHECK:         %[[ROWS:.*]] = arith.maxsi %[[EXTENT]]
// CHECK:         %[[BLOCKS:.*]] = arith.ceildivsi %[[N]], %c8
// CHECK:         %[[COLUMNS:.*]] = arith.maxsi %[[BLOCKS]]
// CHECK:         %[[COUNT:.*]] = arith.muli %[[ROWS]], %[[COLUMNS]]
// CHECK:         call @attn_cpu_parallel_for(%[[COUNT]],
// CHECK-LABEL: func.func private @tiles_parallel_0(
// CHECK-NEXT:    %[[TMP:.*]] = memref.alloca() : memref<8xf32>
// CHECK:         %[[COLUMNS:.*]] = arith.maxsi
// CHECK:         scf.for %[[LINEAR:.*]] =
// CHECK:           %[[COLUMN:.*]] = arith.remui %[[LINEAR]], %[[COLUMNS]]
// CHECK:           %[[ROW:.*]] = arith.divui %[[LINEAR]], %[[COLUMNS]]
// CHECK:           %[[J:.*]] = arith.muli %[[COLUMN]], %c8
// CHECK:           %[[I:.*]] = arith.addi %[[ROW]], %c2
// CHECK:           scf.forall (%[[K:.*]]) in (8)
// CHECK:             memref.load %[[TMP]][%[[K]]]
// CHECK:             memref.store %{{.*}}, %{{.*}}[%[[I]], %[[J]]]
func.func @tiles(%buffer: memref<?x?xf32>, %m: index, %n: index) {
  scf.forall (%i, %j) = (2, 0) to (%m, %n) step (1, 8) {
    %tmp = memref.alloca() : memref<8xf32>
    scf.forall (%k) in (8) {
      %x = memref.load %tmp[%k] : memref<8xf32>
      memref.store %x, %buffer[%i, %j] : memref<?x?xf32>
    }
  }
  return
}

// -----

// The last dimension of a scf.parallel stays a loop. The context of a parallel loop in a sequential one is allocated once.

// CHECK-LABEL: func.func @steps(
// CHECK:         llvm.alloca
// CHECK:         scf.for
// CHECK-NOT:       alloca
// CHECK:           call @attn_cpu_parallel_for(
// CHECK-LABEL: func.func private @steps_parallel_0(
// CHECK:         scf.for %[[I:.*]] =
// CHECK-NOT:       remui
// CHECK:           scf.for %[[J:.*]] =
// CHECK:             memref.store %{{.*}}, %{{.*}}[%[[I]], %[[J]]]
func.func @steps(%buffer: memref<?x?xf32>, %n: index, %value: f32) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %step = %c0 to %n step %c1 {
    scf.parallel (%i, %j) = (%c0, %c0) to (%n, %n) step (%c1, %c1) {
      memref.store %value, %buffer[%i, %j] : memref<?x?xf32>
    }
  }
  return
}

// -----

// Nothing captured: no context.

// CHECK-LABEL: func.func @alone(
// CHECK:         %[[NULL:.*]] = llvm.mlir.zero : !llvm.ptr
// CHECK:         call @attn_cpu_parallel_for(%c4{{.*}}, %{{.*}}, %[[NULL]])
func.func @alone() {
  scf.forall (%i) in (4) {
  }
  return
}

// -----

// A loop that returns tensors is left to bufferization.

// CHECK-LABEL: func.func @tensors(
// CHECK:         scf.forall
func.func @tensors(%t: tensor<4xf32>) -> tensor<4xf32> {
  %r = scf.forall (%i) in (4) shared_outs(%o = %t) -> tensor<4xf32> {
    %slice = tensor.extract_slice %o[%i] [1] [1] : tensor<4xf32> to tensor<1xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %slice into %o[%i] [1] [1] : tensor<1xf32> into tensor<4xf32>
    }
  }
  return %r : tensor<4xf32>
}

// -----

func.func @captured_tensor(%t: tensor<4xf32>, %out: memref<4xf32>) {
  // expected-error @below {{uses a value of type 'tensor<4xf32>' from outside, which has no form in memory; bufferize before outlining}}
  scf.forall (%i) in (4) {
    %x = tensor.extract %t[%i] : tensor<4xf32>
    memref.store %x, %out[%i] : memref<4xf32>
  }
  return
}

// -----

// expected-error @below {{has the name of the runtime's parallel for}}
func.func private @attn_cpu_parallel_for(f32)
func.func @f() {
  scf.forall (%i) in (4) {
  }
  return
}

// -----

func.func private @use(memref<?xf32>)
func.func @growing_stack(%n: index) {
  scf.forall (%i) in (%n) {
    // expected-error @below {{of a dynamic size inside a loop would grow the stack in every iteration}}
    %tmp = memref.alloca(%i) : memref<?xf32>
    func.call @use(%tmp) : (memref<?xf32>) -> ()
  }
  return
}
