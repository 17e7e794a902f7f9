//===- CodegenPasses.td - the passes before kernels are printed -----------*- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// In the order in which a module meets them.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_CODEGEN_CODEGENPASSES_TD
#define ATTN_CODEGEN_CODEGENPASSES_TD

include "mlir/Pass/PassBase.td"

def PlaceSharedPass : Pass<"attn-tile-place-shared", "::mlir::ModuleOp"> {
  let summary = "Give the shared tiles of each kernel their place in shared memory";
  let description = [{
    Puts the tiles of a kernel one behind the other, in the order of their `attn_tile.shared_alloc`, each aligned to 128
    bytes, which the permutation of their chunks needs. Sets `offset` on them and `shared_bytes` on the kernel. A
    `attn_tile.shared_reuse` has the place of its source.

    Refused, where the module has an `attn.target`: a kernel that needs more than its `max_shared_memory`.

    Example: with
    ```mlir
    %query = attn_tile.shared_alloc "query" : !attn_tile.shared<128x128xbf16>
    %key = attn_tile.shared_alloc "key" : !attn_tile.shared<64x128xbf16>
    ```
    the key tile is at `offset(32768)`, and the kernel has `shared_bytes = 49152`.
  }];
}

def PrepareForEmissionPass : Pass<"attn-prepare-for-emission", "::mlir::ModuleOp"> {
  let summary = "Rewrite kernels into what can be printed operation by operation";
  let description = [{
    Changes the kernels, so that printing decides nothing:

    - Operations of the index dialect become those of arith.
    - A multiplication and an addition (or subtraction) of floats that both allow it (`fastmath<contract>`), where the
      product has no other use, become `math.fma`.
    - Dead operations go.

    Integer operations that cannot overflow should say so (`overflow<nsw>`): they are printed as C++ operators, others as
    functions that wrap around.

    Example:
    ```mlir
    %i = index.add %begin, %row
    %product = arith.mulf %a, %b fastmath<contract> : f32
    %sum = arith.addf %product, %c fastmath<contract> : f32
    ```
    becomes
    ```mlir
    %i = arith.addi %begin, %row : index
    %sum = math.fma %a, %b, %c fastmath<contract> : f32
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

def VerifyEmittablePass : Pass<"attn-verify-emittable", "::mlir::ModuleOp"> {
  let summary = "Check that kernels can be printed as CUDA C++";
  let description = [{
    The contract of the printer: every operation and type of every `gpu.module` has a CUDA C++ form. Each operation that
    has none is an error on it.
  }];
}

#endif // ATTN_CODEGEN_CODEGENPASSES_TD
