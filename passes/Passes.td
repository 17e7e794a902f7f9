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

def DifferentiatePass : Pass<"attn-differentiate", "::mlir::ModuleOp"> {
  let summary = "Differentiate scores, and make backward functions";
  let description = [{
    1. Fills the gradient region of each `attn.attention_backward` that has a score and lacks it, by reverse mode on the
       score region: every floating arith and math operation, `select`, `scf.if`, and reads of captures, whose gradients
       become `attn.accumulate_gradient` under the same control flow. What is needed again is computed again. An operation
       without a derivative that a gradient reaches is an error. `passes/ScoreGradient.h` lists the conventions at kinks
       and poles; a value that a `select` did not choose has a gradient of exactly 0.
    2. For each public function with an `attn.attention` that has no backward function yet (or for those named by the
       option), makes

    ```
    @<name>_backward(arguments of @<name>..., out, lse, d_out[, d_lse]) -> (d_query, d_key, d_value, d_captures...)
    ```

    with d_lse where the function returns lse. d_captures are the gradients of the floating captures that are arguments, in
    order, in the compute type; that of a scalar has rank 0. An argument used as two operands has a gradient for each.

    Constraints on the function:
    - (D1) its body is one block with one `attn.attention`, and otherwise pure operations.
    - (D2) query, key, value and floating captures are arguments; floating captures may also be computed without any.
    - (D3) it returns out, or out and lse, and nothing else.

    Example: the soft-cap score
    ```mlir
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %c = arith.constant 30.0 : f32
      %x = arith.divf %s, %c : f32
      %t = math.tanh %x : f32
      %capped = arith.mulf %t, %c : f32
      attn.yield %capped : f32
    }
    ```
    has the gradient
    ```mlir
    gradient(%d: f32, %s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %c1 = arith.constant 1.0 : f32
      %c = arith.constant 30.0 : f32
      %x = arith.divf %s, %c : f32
      %t = math.tanh %x : f32
      %d_t = arith.mulf %d, %c : f32
      %tt = arith.mulf %t, %t : f32
      %slope = arith.subf %c1, %tt : f32
      %d_x = arith.mulf %d_t, %slope : f32
      %d_s = arith.divf %d_x, %c : f32
      attn.yield %d_s : f32
    }
    ```
  }];
  let options = [ListOption<"functions", "functions", "std::string",
                            "Functions to differentiate; all public ones with an attention where none is named">];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::func::FuncDialect", "::mlir::math::MathDialect",
                           "::mlir::scf::SCFDialect", "::mlir::tensor::TensorDialect"];
}

def DecomposeReferencePass : Pass<"attn-decompose-reference", "::mlir::ModuleOp"> {
  let summary = "Lower attention to plain linalg: the oracle";
  let description = [{
    Replaces `attn.attention`, `attn.attention_backward` and `attn.merge` by linalg, scf, tensor, arith and math operations
    on tensors, written as the formulas in the operations' descriptions are. Everything else that computes attention is
    tested against it. Query rows are computed in chunks, so the memory is O(chunk-rows * kv_len).

    - Pairs that the mask drops have a score of -inf exactly; the score region runs under a branch, so that nothing is read
      for them. Pairs with a score of -inf, and rows with lse = -inf, add 0 by a select, whatever the operands hold.
    - `compute-type=f64` makes the whole computation f64, the regions included: f32 operations become f64 operations,
      constants and captures are extended. Integers, and explicit conversions to other types, keep their meaning.
    - `f64-boundary` also gives the functions f64 arguments and results in place of all floating ones, so that no input and
      no result is rounded: what an error is measured against.
    - `round-intermediates` rounds q·k, p, the gradient of p and the gradient of q·k to the element type of the tensors: the
      *standard computation*, whose error bounds ours.

    An `attention_backward` with a score needs its gradient region (`--attn-differentiate`). f8 tensors are refused.

    Example: one row of `attn.attention` without score and mask, `--attn-decompose-reference="chunk-rows=1"`:
    ```mlir
    %product = linalg.generic {…} ins(%q, %k) outs(%zeros)      // sum_c q[i, c] * k[j, c]
    %scores = linalg.generic {…} ins(%product) outs(%empty)     // * scale
    %max = linalg.generic {…} ins(%scores) outs(%lowest)
    %exp = linalg.generic {…} ins(%scores, %max) outs(%empty)   // select(s == -inf, 0, exp(s - max))
    %sum = linalg.generic {…} ins(%exp) outs(%zeros)
    %p = linalg.generic {…} ins(%exp, %sum) outs(%empty)
    %o = linalg.generic {…} ins(%p, %v, %scores) outs(%zeros)   // sum_j select(s == -inf, 0, p[i, j] * v[j, c])
    ```
  }];
  let options = [
    Option<"computeType", "compute-type", "std::string", "\"own\"",
           "own (f64 for f64 tensors, f32 for all others), f32 (refuses f64 tensors) or f64">,
    Option<"f64Boundary", "f64-boundary", "bool", "false",
           "Make floating function arguments and results f64 (with compute-type=f64)">,
    Option<"roundIntermediates", "round-intermediates", "bool", "false",
           "Round intermediate matrices to the element type">,
    Option<"chunkRows", "chunk-rows", "int64_t", "32", "Query rows computed at a time">,
    Option<"suffix", "suffix", "std::string", "\"\"",
           "Keep each function and add its reference, named with this suffix">,
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::func::FuncDialect", "::mlir::linalg::LinalgDialect",
                           "::mlir::math::MathDialect", "::mlir::scf::SCFDialect", "::mlir::tensor::TensorDialect"];
}

def SetTargetPass : Pass<"attn-set-target", "::mlir::ModuleOp"> {
  let summary = "Put the machine to compile for on the module";
  let description = [{
    Sets the attribute `attn.target` of the module to the named machine: the vector width or shared memory that its
    architecture guarantees. The runtime sets it from the machine that it finds instead.

    Example: `--attn-set-target=arch=x86_64_v3` gives
    ```mlir
    module attributes {attn.target = #attn.target<arch = x86_64_v3, vector_bits = 256, vector_registers = 16, ...>}
    ```
  }];
  let options = [Option<"arch", "arch", "std::string", "\"x86_64_v3\"",
                        "x86_64, x86_64_v3, x86_64_v4, aarch64, sm_80, sm_86, sm_89, sm_90a, sm_100a or sm_120a">];
  let dependentDialects = ["::attn::AttnDialect"];
}

def BuildBlockListsPass : Pass<"attn-build-block-lists", "::mlir::ModuleOp"> {
  let summary = "Compute block lists for attention whose mask the compiler cannot solve";
  let description = [{
    Puts an `attn.block_lists` before each `attn.attention` and `attn.attention_backward` that has none, where a part of the
    mask is *unknown* to the analysis of mask structure (`passes/README.md`), as reads at the indices are, or too large for
    it: there the ranges prune little. The lists are for the captures that the mask reads, and one for all heads, and for all batch entries
    where the mask does not use those.

    Not where the mask depends on the head, which is to evaluate it as often as attention does, nor where a static q_len is at
    most block-m. A remark of category `attn-build-block-lists` says which, and why not. Those of several operations with
    the same mask are merged by `--cse`.

    Example: see `attn.block_lists`.
  }];
  let options = [
    Option<"blockM", "block-m", "int64_t", "128", "Queries in a block of the lists">,
    Option<"blockN", "block-n", "int64_t", "128", "Keys in a block of the lists">];
}

def PlanPass : Pass<"attn-plan", "::mlir::ModuleOp"> {
  let summary = "Plan attention: choose a schedule and find the ranges that each block visits";
  let description = [{
    Replaces `attn.attention` by an `attn.online_attention forward`, and `attn.attention_backward` by an `attn.delta` and,
    for a CPU, and where it is to be `deterministic`, two of them, `dq` and `dkdv`, for a GPU one, `fused`. The schedule is chosen by a pure function of shape, element type and
    target (`passes/ChooseSchedule.h`), or given by the options (`tf32` and `deterministic` are attributes of the operations,
    set for all of them); the ranges come from the mask region
    (`passes/MaskStructure.h`), also those of each `attn.block_lists`. Each candidate of the choice is a remark of category `attn-plan`, with the reason why it lost.

    Refused: a module without `attn.target`, f8E4M3FN tensors, regions with calls (inline them first), an
    `attn.attention_backward` with a score but without its gradient (differentiate first), tf32 for a CPU or other tensors
    than of f32, deterministic gradients of captures.

    Example: see `attn.online_attention`.
  }];
  let options = [
    Option<"blockM", "block-m", "int64_t", "0", "Queries in a block; 0 chooses">,
    Option<"blockN", "block-n", "int64_t", "0", "Keys in a block; 0 chooses">,
    Option<"keyOuter", "key-outer", "bool", "false", "Forward: blocks of keys in the outer loop (FlashAttention-1)">,
    Option<"splitKeys", "split-keys", "bool", "false",
           "Forward, on a GPU: choose a tile for keys that are computed in parts">,
    Option<"fewRows", "few-rows", "bool", "false",
           "With split-keys: choose one of few rows, whose warps divide the keys, if there is one">,
    Option<"manyRows", "many-rows", "bool", "false",
           "With split-keys, hopper family: choose one of 128 rows, for more than a warpgroup has">,
    Option<"shortLengths", "short-lengths", "bool", "false",
           "Forward, hopper family: choose a tile for few queries, for calls that have few, if it is another one">,
    Option<"family", "family", "std::string", "\"auto\"",
           "Instructions of GPU kernels: portable, hopper, or auto for the fastest that can be">,
    Option<"biasStages", "bias-stages", "int64_t", "-1",
           "For the hopper family: places for tiles of a dense bias; 0 loads its elements, -1 chooses">,
    Option<"exactMaximum", "exact-maximum", "bool", "false",
           "Hopper family: probabilities are relative to the true maximum of their row">,
    ListOption<"tile", "tile", "int64_t",
               "The tile of the given family in full: block_m, block_n, warps, blocks_per_multiprocessor, stages">,
    Option<"aligned", "aligned", "bool", "true", "For a GPU: bases and strides are multiples of 16 bytes">,
    Option<"tf32", "tf32", "bool", "false", "Matrix products of f32 tensors round their operands to tf32 (GPU)">,
    Option<"deterministic", "deterministic", "bool", "false", "Gradients are the same bit by bit from run to run">];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::tensor::TensorDialect", "::attn::tile::AttnTileDialect"];
}

def SplitKvPass : Pass<"attn-split-kv", "::mlir::ModuleOp"> {
  let summary = "Compute the keys of a forward in independent parts";
  let description = [{
    Gives each `attn.online_attention forward` `kv_splits` parts and combines the stack of them by one `attn.merge`
    (flash decoding: work for all cores when there are few queries and many keys). With `splits=0` the number follows from
    the target and the static sizes, and is 1 where these are not known, and for a GPU.

    With `by-lengths`, for a GPU, the number follows from the sizes when the function runs (`splits` of
    `attn.online_attention`):

    ```
    parts = max(1, min(multiprocessors * blocks_per_multiprocessor / blocks, keys / 256, 128))
    ```

    with the blocks of queries of all heads and batch entries, and the keys that the last block visits, where these follow
    from the lengths alone, or else all. An `attn_tile.take_if` says that this is for calls with more than one part, and for
    those of which one tile holds all queries of a head (of a key head, for all its query heads) and that visit 1024 keys.
    Where the schedule has `key_warps`, the tile is one of few rows, and this is for the latter only. Then, and for tiles of 64 rows
    of the hopper family, nearly every multiprocessor is to have one block:

    ```
    parts = max(1, min(ceil(15/16 multiprocessors / blocks), keys / 256, 128))
    ```

    Where the schedule is one of the hopper family with 128 rows, this is for calls of more than 64 rows, of which there are
    several parts, or tiles of each head would be a third more than those that its heads share.

    An operation with block lists is not split by lengths: they have no ranges to divide. Nor is one of f32 tensors: parts
    are weighted by their lse, whose rounding shows there.

    Example: with `--attn-split-kv=splits=2`
    ```mlir
    %parts, %lses = attn.online_attention forward %q, %k, %v schedule(<..., kv_splits = 2, ...>)
      : (tensor<1x8x1x64xbf16>, ...) -> (tensor<2x1x8x1x64xf32>, tensor<2x1x8x1xf32>)
    %out, %lse = attn.merge (%parts, %lses)
      : tensor<2x1x8x1x64xf32>, tensor<2x1x8x1xf32> -> tensor<1x8x1x64xbf16>, tensor<1x8x1xf32>
    ```
  }];
  let options = [Option<"splits", "splits", "int64_t", "0", "Parts, up to 64; 0 chooses">,
                 Option<"byLengths", "by-lengths", "bool", "false",
                        "For a GPU: the number follows from the sizes when the function runs">,
                 Option<"manyRows", "many-rows", "bool", "false",
                        "With by-lengths, in the hopper family: for calls with more rows than a warpgroup has">];
  let dependentDialects = ["::attn::tile::AttnTileDialect", "::mlir::arith::ArithDialect",
                           "::mlir::tensor::TensorDialect"];
}

def LowerOnlinePass : Pass<"attn-lower-online", "::mlir::ModuleOp"> {
  let summary = "Lower online attention to loops over tiles for the CPU";
  let description = [{
    Each `attn.online_attention` becomes one `scf.forall` over its blocks (of every head and batch entry). A block packs its
    rows into tiles of the compute type and streams the other dimension through them; vectors run along the blocked
    dimension (queries for forward and dq, keys for dkdv). Score and mask are evaluated for a vector of pairs at once; a
    block that meets no visited range is skipped, and one that meets no masked range does not evaluate the mask. With
    `key_outer` the work item is a whole head and the running maximum, sum and output of its queries are in memory.
    The memory used beside the results is O(1) a thread, or O(q_len) a head with `key_outer`.

    The result is scf, vector, memref and arith over `bufferization.to_buffer` of the operands; the results are new buffers.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::bufferization::BufferizationDialect",
                           "::mlir::linalg::LinalgDialect", "::mlir::math::MathDialect",
                           "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect",
                           "::mlir::vector::VectorDialect"];
}

def LowerBlockListsPass : Pass<"attn-lower-block-lists", "::mlir::ModuleOp"> {
  let summary = "Lower attn.block_lists to loops for the CPU";
  let description = [{
    Each `attn.block_lists` becomes two parallel loops over a new buffer. The first goes through the blocks of a row, the last
    first, evaluates the mask where its ranges leave the block open, and links the partial and the full blocks of the row; the
    second links the columns.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::bufferization::BufferizationDialect",
                           "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect", "::mlir::tensor::TensorDialect"];
}

def LowerOnlineToTilePass : Pass<"attn-lower-online-to-tile", "::mlir::ModuleOp"> {
  let summary = "Lower online attention to kernels of the attn_tile dialect for a GPU";
  let description = [{
    Each `attn.online_attention`, `attn.delta` and `attn.merge` becomes a kernel (a `gpu.func` in a `gpu.module`
    of its own) and its launch, and each `attn.block_lists` two (one evaluates blocks of the mask, one links them), over `bufferization.to_buffer` of the operands; the results are new buffers. `fused` sums
    the gradient of the queries in f32 by atomic additions, and another kernel rounds it. The kernels are of the portable schedule family:
    tensor cores through `mma.sync`, asynchronous copies, no instruction newer than sm_80. They are right for all lengths,
    batches, heads and strides; with `aligned` they copy rows by 16 bytes, so bases and strides have to be multiples of that.

    A block that meets no visited range is neither copied nor computed, and one that meets no masked range does not evaluate
    the mask; where there are block lists, they tell both. Score and mask land in `attn_tile.map` operations.

    The hopper family evaluates a score region for each pair only where the maximum of a row is taken. Elsewhere (`fixed_maximum`)
    a score that is a sum is taken apart: a multiple of q k^T and a multiple of the number of the key, whose factors may depend
    on the query, are a multiply-add each in the exponent, the second with a constant in place of the number; terms without
    either are known of a row; what is left is evaluated. Terms are found by algebra on the region, whatever it means; those
    that are no numbers, or too large, show in the sum of a row like any score that outgrew the maximum. Without a mask blocks
    come by ascending keys, and the maximum is raised by what scores grow with their key. A score region that is a multiple of
    tanh with `fastmath<afn>`, of 19.9 to 55, gets a polynomial that is monotonic everywhere, as tanh is: so the sum of a
    row tells where a score was out of its range. Without a mask no block takes tanh itself then. Remarks of the category `attn-lower-online-to-tile` say what was found.

    Parts of a forward (`kv_splits`, `splits`) are of the same number of visited blocks, to within one. Where the mask's
    ranges are those of all query heads of a key head, these heads share the rows of a tile, so that a key head is read once
    for all of them. A merge of more than 32 pairs is one of merges in f32. On the hopper family a stack that is merged and turns out to have a
    single part is none: the part is written as the result of the merge, which is not launched.

    Refused: f64 tensors, parts of a forward with block lists; parts of the hopper family where pairs may be dropped, unless one `attn.merge` takes
    them all, since rows of its result are computed again; by an assertion on the host, lengths within 1023 of 2^31 - 1.
  }];
  let options = [Option<"aligned", "aligned", "bool", "true", "Bases and strides are multiples of 16 bytes">];
  let dependentDialects = ["::attn::tile::AttnTileDialect", "::mlir::arith::ArithDialect",
                           "::mlir::bufferization::BufferizationDialect", "::mlir::cf::ControlFlowDialect",
                           "::mlir::gpu::GPUDialect", "::mlir::linalg::LinalgDialect",
                           "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect",
                           "::mlir::tensor::TensorDialect"];
}

def HoistInvariantsPass : Pass<"attn-tile-hoist-invariants", "::mlir::gpu::GPUModuleOp"> {
  let summary = "Compute once what is the same for all elements of a map";
  let description = [{
    What an `attn_tile.map` computes without its indices and elements moves before it, and on, out of each loop and condition
    around it that it does not depend on: the slope of a head becomes one load a block of the grid instead of one an element.
    Loads are of buffers that the kernel only reads. Constants stay where they are. A division by such a value with
    `fastmath<arcp>` becomes a multiplication by its reciprocal.

    ```mlir
    attn_tile.map outs(%scores) {
    ^bb0(%row: index, %column: index, %s: f32):
      %slope = memref.load %slopes[%head] : memref<?xf32>      // moves out of the map, and of the loop over keys
      ...
    ```
  }];
}

def LoadColumnsPass : Pass<"attn-tile-load-columns", "::mlir::gpu::GPUModuleOp"> {
  let summary = "Load what depends on the column alone once a column";
  let description = [{
    A `memref.load` in an `attn_tile.map` or `attn_tile.any` whose last index is the column of the element plus something
    that is the same for all elements, as its other indices are, becomes an `attn_tile.load_columns` before it: one load a
    column and not one an element, and without a check of each position. It starts before the product of the scores is
    waited for, as far as its indices are known there. Loads are of buffers that the kernel only reads, of at most 32 bits.
    They stay where they are when a thread has no registers for them beside the fragments of the kernel and the columns that other
    operations of the iteration have.

    ```mlir
    attn_tile.mma_wait pending(1) %scores : …
    attn_tile.map outs(%scores : …) {
    ^bb0(%row: index, %column: index, %s: f32):
      %kv_idx = arith.addi %kv_begin, %column : index
      %document = memref.load %documents[%batch, %kv_idx] : memref<?x?xi32>   // moves before the wait
      ...
    ```
  }];
  let dependentDialects = ["::attn::tile::AttnTileDialect"];
}

def RelativeColumnsPass : Pass<"attn-tile-relative-columns", "::mlir::gpu::GPUModuleOp"> {
  let summary = "Compare columns with constants where positions of keys are compared with something of the row";
  let description = [{
    Where an `attn_tile.map` of the consumers of a kernel with roles uses its column only to compare the position of the key,
    it becomes `relative`: the column is then a constant in the emitted code, and what it is compared with is computed once a
    row. A comparison of a position with something that is the same for a row, or of the distance between the positions of
    query and key with a constant, has such a form: a causal mask takes two instructions an element, a window three; nothing
    overflows, since positions are not negative and have room above them.

    ```mlir
    attn_tile.map outs(%scores : …) {
    ^bb0(%row: index, %column: index, %s: f32):
      %q_idx = arith.addi %q_begin, %row overflow<nsw> : index
      %kv_idx = arith.addi %kv_begin, %column overflow<nsw> : index
      %keep = arith.cmpi sle, %kv_idx, %q_idx : index     // becomes: %column <= %q_idx - %first_key
      ...
    ```
  }];
  let dependentDialects = ["::attn::tile::AttnTileDialect", "::mlir::arith::ArithDialect"];
}

def LowerDeltaPass : Pass<"attn-lower-delta", "::mlir::ModuleOp"> {
  let summary = "Lower attn.delta to linalg for the CPU";
  let description = [{
    Each `attn.delta` becomes a `linalg.generic` over the rows that sums like the products of the CPU kernels: in parts, with
    the same multiply-add.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::linalg::LinalgDialect", "::mlir::scf::SCFDialect",
                           "::mlir::tensor::TensorDialect", "::mlir::vector::VectorDialect"];
}

def LowerMergePass : Pass<"attn-lower-merge", "::mlir::ModuleOp"> {
  let summary = "Lower attn.merge to linalg";
  let description = [{
    Each `attn.merge` becomes `linalg` operations by the formula of the operation: the maximum, the weights and their sum for
    each row, then the weighted mean. They are as many for any number of parts: the tensors of a pair are inputs of each, the
    parts of a stack a reduction. The weights take memory of the size of the parts' lse.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::linalg::LinalgDialect", "::mlir::math::MathDialect",
                           "::mlir::tensor::TensorDialect"];
}

//===----------------------------------------------------------------------===//
// From bufferized loops to the LLVM dialect
//===----------------------------------------------------------------------===//

def ResultsToOutParamsPass : Pass<"attn-results-to-out-params", "::mlir::ModuleOp"> {
  let summary = "Give public functions a buffer argument for each tensor that they return";
  let description = [{
    Fixes how compiled functions are called, before bufferization: each tensor result of a public function becomes a
    trailing buffer argument, of any strides but a last one of 1, which the caller owns and the function writes. Tensor
    arguments become read-only for bufferization, so that no caller finds its inputs overwritten.

    Output buffers must not overlap any other argument. `attn.result` on one of them says of each dimension what size it
    has: a number, or `[argument, dimension]` with that size, or `[argument, dimension, divisor]` with that size divided and
    rounded up, or `[]` where none can be told.

    Example:
    ```mlir
    func.func @f(%a: tensor<?xf32>) -> tensor<?xf32> {
      %r = ... : tensor<?xf32>
      return %r : tensor<?xf32>
    }
    ```
    becomes
    ```mlir
    func.func @f(%a: tensor<?xf32> {bufferization.writable = false}, %out: memref<?xf32, strided<[1], offset: ?>> {attn.result = [[0, 0]]}) {
      %r = ... : tensor<?xf32>
      bufferization.materialize_in_destination %r in restrict writable %out
      return
    }
    ```
  }];
  let dependentDialects = ["::mlir::bufferization::BufferizationDialect", "::mlir::memref::MemRefDialect"];
}

def BufferizePass : Pass<"attn-bufferize", "::mlir::ModuleOp"> {
  let summary = "Turn tensors into buffers, with a unit last stride at function boundaries";
  let description = [{
    Upstream's one-shot bufferization, function boundaries included. A tensor argument becomes
    `memref<…, strided<[?, …, ?, 1], offset: ?>>`: any strides, but rows of consecutive elements, so that reading a part of
    a row into a vector is one load.
  }];
  let dependentDialects = ["::mlir::bufferization::BufferizationDialect", "::mlir::memref::MemRefDialect"];
}

def WriteResultsInPlacePass : Pass<"attn-write-results-in-place", "::mlir::ModuleOp"> {
  let summary = "Compute results in the caller's buffers instead of copying them there";
  let description = [{
    After bufferization: where an allocation's content is copied to an argument that has no other use, and the allocation
    has no use afterwards, the argument takes its place and the copy goes. Views of the allocation take on the strides of
    the argument; if something other than a view or an access uses it (a call, a loop that carries it), the copy stays.

    Example:
    ```mlir
    %alloc = memref.alloc(%n) : memref<?xf32>
    memref.store %x, %alloc[%i] : memref<?xf32>
    memref.copy %alloc, %out : memref<?xf32> to memref<?xf32, strided<[1], offset: ?>>
    ```
    becomes
    ```mlir
    memref.store %x, %out[%i] : memref<?xf32, strided<[1], offset: ?>>
    ```
  }];
}

def ExpandCopiesPass : Pass<"attn-expand-copies", "::mlir::ModuleOp"> {
  let summary = "Turn copies of buffers into elementwise linalg operations";
  let description = [{
    `memref.copy` between strided buffers would become a call of a function that no runtime of ours has, and that copies
    element by element; as `linalg.generic` it becomes loops like any other.
  }];
  let dependentDialects = ["::mlir::linalg::LinalgDialect"];
}

def OutlineParallelLoopsPass : Pass<"attn-outline-parallel-loops", "::mlir::ModuleOp"> {
  let summary = "Turn parallel loops into calls of the runtime's parallel for";
  let description = [{
    Each outermost `scf.forall` without results (and `scf.parallel` without reductions) becomes a function over a range of
    the linearised iterations, and a call that hands this function to the thread pool:

    ```
    void attn_cpu_parallel_for(int64_t count, void (*body)(int64_t begin, int64_t end, void *context), void *context)
    ```

    Values from outside that the body uses travel in a struct on the caller's stack; constants are cloned into the body.
    All dimensions of a `scf.forall` are spread over threads, all but the last of a `scf.parallel`. A parallel loop inside
    another one stays, and runs sequentially. Buffers of static shape on the stack (`memref.alloca`) move to the entry of
    their function, so that a body has one for its whole range of iterations.

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
    func.func private @fill_parallel_0(%begin: index, %end: index, %context: !llvm.ptr) {
      ... // %buffer and %value from the context
      scf.for %i = %begin to %end step %c1 {
        memref.store %value, %buffer[%i] : memref<?xf32>
      }
      return
    }
    ```
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect", "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
                           "::mlir::scf::SCFDialect"];
}

def LowerMathPass : Pass<"attn-lower-math", "::mlir::ModuleOp"> {
  let summary = "Lower mathematical functions, and bfloat16 conversions, to arithmetic and calls of libm";
  let description = [{
    f32 functions (scalars and vectors alike) become polynomials where those are accurate, all others calls of libm, one an
    element; what LLVM has as an instruction or intrinsic (sqrt, fma, floor, …) stays. Conversions from f32 to bf16
    become integer arithmetic, since no library has the function that LLVM calls where the CPU lacks the instruction.

    Functions of smaller floats must have been widened to f32 before (`math-extend-to-supported-types`).
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::func::FuncDialect", "::mlir::math::MathDialect",
                           "::mlir::vector::VectorDialect"];
}

def VerifyLLVMPass : Pass<"attn-verify-llvm", "::mlir::ModuleOp"> {
  let summary = "Check that only the LLVM dialect is left";
  let description = [{
    The contract at the end of the CPU pipeline. Reports, once for each kind of operation, what is not of the LLVM dialect,
    and which stage should have lowered it. Takes `attn.target` off the module, which `mlir-translate` can then read.
  }];
}

#endif // ATTN_PASSES_PASSES_TD
