//===- Passes.td - the passes of attn -------------------------------------*- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// In the order in which a module meets them. One pass is one .cpp file here and one test in test/Passes named after its
// flag.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PASSES_PASSES_TD
#define ATTN_PASSES_PASSES_TD

include "mlir/Pass/PassBase.td"

//===----------------------------------------------------------------------===//
// From attention to loops
//===----------------------------------------------------------------------===//

//===----------------------------------------------------------------------===//
// From bufferized loops to the LLVM dialect
//===----------------------------------------------------------------------===//

def OutlineParallelLoopsPass : Pass<"attn-outline-parallel-loops", "::mlir::ModuleOp"> {
  let summary = "Turn parallel loops into calls of the runtime's parallel for";
  let description = [{
    Each outermost `scf.forall` without results (and `scf.parallel` without reductions) becomes a function over a range of
    the linearised iterations, and a call that hands this function to the thread pool:

    ```
    void attn_cpu_parallel_for(int64_t count, void (*body)(int64_t begin, int64_t end, void *context), void *context)
    ```

    Values from outside that the body uses travel in a struct on the caller's stack; constants are cloned into the body.
    A parallel loop inside another one becomes a sequential loop. Buffers that the body allocates on the stack with a static
    shape are allocated once for a whole range of iterations.

    Example:
    ```mlir
    func.func @fill(%buffer: memref<?xf32>, %n: index, %value: f32) {
      scf.forall (%i) in (%n) {
        memref.store %value, %buffer[%i] : memref<?xf32>
      }
      return
    }
    ```
    becomes
    ```mlir
    llvm.func internal @fill_parallel_0(%begin: i64, %end: i64, %context: !llvm.ptr) {
      ... // %buffer and %value from the context
      scf.for %i = %b to %e step %c1 {
        memref.store %value, %buffer[%i] : memref<?xf32>
      }
      llvm.return
    }
    ```
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect", "::mlir::arith::ArithDialect", "::mlir::affine::AffineDialect",
                           "::mlir::scf::SCFDialect"];
}

#endif // ATTN_PASSES_PASSES_TD
