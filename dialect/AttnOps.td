//===- AttnOps.td - operations of the attn dialect -------------------------*- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTNOPS_TD
#define ATTN_DIALECT_ATTNOPS_TD

include "dialect/AttnDialect.td"
include "dialect/AttnInterfaces.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Attn_Op<string mnemonic, list<Trait> traits = []> : Op<Attn_Dialect, mnemonic, traits>;

def Attn_Float : AnyTypeOf<[F64, F32, F16, BF16, F8E4M3FN]>;
def Attn_Tensor4D : RankedTensorOf<[Attn_Float], [HasAnyRankOfPred<[4]>], "4-D tensor">;
def Attn_RowTensor : RankedTensorOf<[F64, F32], [HasAnyRankOfPred<[3]>], "3-D tensor">;
def Attn_PartTensor : RankedTensorOf<[Attn_Float], [HasAnyRankOfPred<[4, 5]>], "4-D or 5-D tensor">;
def Attn_PartRowTensor : RankedTensorOf<[F64, F32], [HasAnyRankOfPred<[3, 4]>], "3-D or 4-D tensor">;
def Attn_BlockListsTensor : RankedTensorOf<[I32], [HasAnyRankOfPred<[5]>], "5-D tensor of i32">;
def Attn_Scalar : AnyTypeOf<[AnyFloat, AnySignlessInteger, Index], "floating, integer or index scalar">;
def Attn_Capture : AnyTypeOf<[RankedTensorOf<[AnyFloat, AnySignlessInteger, Index]>, Attn_Scalar],
                             "ranked tensor or scalar of floating, integer or index type">;

/// The other methods of the interface are accessors that ODS generates.
defvar Attn_AttentionInterface =
    DeclareOpInterfaceMethods<AttentionOpInterface, ["getCaptureGradients", "getShapeSource"]>;

//===----------------------------------------------------------------------===//
// attn.attention
//===----------------------------------------------------------------------===//

def Attn_AttentionOp : Attn_Op<"attention", [
    IsolatedFromAbove, Pure, AttrSizedOperandSegments, Attn_AttentionInterface,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames", "getAsmBlockArgumentNames"]>]> {
  let summary = "Scaled dot-product attention with any score and mask";
  let description = [{
    For every batch entry b, query head h and query i, over the keys j:

    ```
    s[j]  = score(scale * dot(query[b, h, i, :], key[b, h / group, j, :]), b, h, i, j)   if mask(b, h, i, j)
          = -inf                                                                         otherwise
    lse   = log(sum_j exp(s[j]))
    out   = sum_j exp(s[j] - lse) * value[b, h / group, j, :]
    ```

    with `group = q_heads / kv_heads`. A row with no key (kv_len = 0, or every score -inf) has `out = 0` and `lse = -inf`.
    A finite input never gives a NaN by itself; a NaN that the score yields for a kept pair, or that such a pair reads from
    key or value, is in the results of that row, one of a dropped pair is not.

    | value | type |
    |---|---|
    | query | `(batch, q_heads, q_len, head_dim)` of f64, f32, f16, bf16 (f8E4M3FN: accepted here, refused by lowerings) |
    | key | `(batch, kv_heads, kv_len, head_dim)`, same element type |
    | value | `(batch, kv_heads, kv_len, value_dim)`, same element type |
    | captures | ranked tensors or scalars that the regions read: any floating type, any signless integer, index |
    | scale | an f64 attribute, rounded to the compute type; `1 / sqrt(head_dim)` where it is missing |
    | block_lists | what `attn.block_lists` gives for this mask, these lengths and the blocks in `blocks(…)`; may be missing |
    | out | `(batch, q_heads, q_len, value_dim)`, same element type |
    | lse | `(batch, q_heads, q_len)` of the compute type |

    Any batch, number of heads and length may be dynamic, and may be 0; a size that the types leave open must agree when
    the op runs, as (A2) says.

    Numerics: scores, probabilities and sums are in the *compute type*: f64 for f64 tensors, f32 for all others; out is
    rounded once. The scale is applied to the dot product before the score region. `lse` is a natural logarithm.

    `tf32`, for f32 tensors only, has matrix products round the elements of their operands to tf32, with 10 bits of mantissa
    (query, key, value and the probabilities; sums stay f32): on a GPU's tensor cores several times the speed at about 1e-3
    relative error, what `torch.backends.cuda.matmul.allow_tf32` is. Without it f32 products are those of f32, on a GPU too.
    It is set here, or for all of a module by the compiler's option `tf32`, and refused for a CPU. The reference ignores it.

    Regions are pure and see nothing but their arguments. `score(s, b, h, q_idx, kv_idx)` yields a score of the compute type,
    as s is; `mask(b, h, q_idx, kv_idx)` yields an i1, true where the pair is kept. b, h, q_idx and kv_idx are of index
    type, h is the *query* head. Either region may be missing (identity; keep all). Every capture is a trailing argument of
    both, printed under the name of the operand that it shadows. A region may use arith, math and index operations on
    scalars, `scf.if`, `tensor.extract` of a captured tensor, `attn.q_len` and `attn.kv_len`, and calls that the inliner
    resolves. A capture of a value that has been captured before has no name that it could shadow: it is one more argument in
    the list of each region, `score(%s: f32, …, %kv_idx: index, %again: f32)`. Indices are computed in 32 bits. An index out of a captured tensor's bounds is undefined behaviour where the
    pair is kept; where the mask drops the pair the score is not evaluated as far as anyone can tell.

    Block lists say where the mask keeps no pair, or all, for masks that the compiler cannot tell that of. They change no
    result: pairs that they call dropped or kept have to be so by the mask.

    Canonicalization drops a score that yields its argument, a mask that keeps every pair (and then its block lists) and
    captures that no region reads; captures of one value become one, and a mask that keeps no pair leaves constants.

    Constraints:
    - (A1) query, key and value have the same element type.
    - (A2) batch agrees; key and value agree in heads and length; q_heads is a multiple of kv_heads.
    - (A3) head_dim and value_dim are static, 1 to 512; head_dim of query and key agree.
    - (A4) out and lse have the types of the table, with a static value_dim.
    - (A5) the regions have the arguments and the result described above, in one block.
    - (A6) the regions hold only the operations listed above.
    - (A7) the scale is finite in the compute type.
    - (A8) q_len and kv_len are at most 2^31 - 1, and index constants in score, mask and gradient are from -2^31 to 2^32 - 1:
      indices in regions have 32 bits.
    - (A9) it has no attribute but those described here and those of other dialects (whose names have a dot): what nobody
      knows would be ignored.
    - (A10) block_lists and `blocks` stand together, and only where there is a mask; block_lists has the type that (BL2) of
      `attn.block_lists` asks for, `blocks` fits (BL3).
    - (A11) with tf32, the element type is f32.

    Example: ALiBi under a causal mask, 16 query heads on 4 key heads.
    ```mlir
    %out, %lse = attn.attention %q, %k, %v captures(%slopes : tensor<16xf32>) scale(0.125)
      score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
        %slope = tensor.extract %slopes[%h] : tensor<16xf32>
        %distance = arith.subi %kv_idx, %q_idx : index
        %i = arith.index_cast %distance : index to i32
        %f = arith.sitofp %i : i32 to f32
        %bias = arith.mulf %slope, %f : f32
        %biased = arith.addf %s, %bias : f32
        attn.yield %biased : f32
      } mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
        %keep = arith.cmpi sle, %kv_idx, %q_idx : index
        attn.yield %keep : i1
      } : (tensor<?x16x?x64xbf16>, tensor<?x4x?x64xbf16>, tensor<?x4x?x64xbf16>) -> (tensor<?x16x?x64xbf16>, tensor<?x16x?xf32>)
    ```
  }];
  let arguments = (ins Attn_Tensor4D:$query, Attn_Tensor4D:$key, Attn_Tensor4D:$value, Variadic<Attn_Capture>:$captures,
                       Optional<Attn_BlockListsTensor>:$block_lists, OptionalAttr<F64Attr>:$scale,
                       OptionalAttr<DenseI64ArrayAttr>:$blocks, UnitAttr:$tf32);
  let results = (outs Attn_Tensor4D:$out, Attn_RowTensor:$lse);
  let regions = (region MaxSizedRegion<1>:$score, MaxSizedRegion<1>:$mask);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let hasCanonicalizer = 1;
}

//===----------------------------------------------------------------------===//
// attn.attention_backward
//===----------------------------------------------------------------------===//

def Attn_AttentionBackwardOp : Attn_Op<"attention_backward", [
    IsolatedFromAbove, Pure, AttrSizedOperandSegments, Attn_AttentionInterface,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames", "getAsmBlockArgumentNames"]>]> {
  let summary = "Gradients of attn.attention";
  let description = [{
    Given the operands and results of an `attn.attention` and the gradients `d_out` (and, optionally, `d_lse`) of its
    results, computes the gradients of query, key, value and of every floating capture. With s and p = exp(s - lse) as in
    `attn.attention`, for each pair that the mask keeps and whose s is not -inf:

    ```
    delta    = sum_c d_out[c] * out[c] - d_lse                    one number a row
    d_s[j]   = p[j] * (dot(d_out, value[j, :]) - delta)           gradient of the score's result
    d_x[j]   = gradient(d_s[j], x[j], b, h, i, j)                 gradient of the score's argument x = scale * dot(q, k)
    d_query  = sum_j d_x[j] * scale * key[j, :]       d_key[j, :] = sum_i d_x * scale * query[i, :]
    d_value[j, :] = sum_i p[j] * d_out[i, :]
    ```

    and the `attn.accumulate_gradient` operations of the `gradient` region add to the gradients of the captures. Dropped
    pairs, scores of -inf and rows with lse = -inf contribute exactly 0. Gradients are summed in the compute type, over the
    query heads of a group for key and value, over every read for captures.

    | value | type |
    |---|---|
    | query, key, value, captures, scale, block_lists | as in the `attn.attention` |
    | out, lse | its results |
    | d_out, d_lse | gradients of its results, of their types; d_lse may be missing: it is 0 then |
    | d_query, d_key, d_value | types of query, key and value |
    | d_captures | for each capture with floating elements, in order, a tensor of its shape (rank 0 for a scalar) of the compute type |

    `gradient(d, s, b, h, q_idx, kv_idx, captures…)` is the derivative of the score region, of a pair: d is d_s, s the
    score's *argument*, both of the compute type, as is the value that it yields, d_x. It is missing where the score is, or
    before `--attn-differentiate` has derived it; by hand it can give a custom derivative.

    `tf32` is that of `attn.attention`; here d_out, d_s and the other factors of the products are rounded, too.

    `deterministic` has the same operands, on the same device with the same schedule, give the same results bit by bit. A CPU's
    are so anyhow. A GPU otherwise adds to d_query from many blocks at once, in any order; asked for determinism it computes
    each tile of scores twice, for the queries and for the keys. Gradients of captures are sums in any order on both:
    with an `attn.accumulate_gradient` it is refused. The compiler's option `deterministic` sets it for all of a module.

    Canonicalization is that of `attn.attention`: an identity score goes where the gradient region is missing or the identity
    too, a mask that keeps no pair leaves zeros, and a capture that no region reads goes with its gradient, which is 0.
    Captures of one value that have gradients stay apart, as their gradients are.

    Constraints: those of `attn.attention` for the operands that it shares, and
    - (B1) out, lse, d_out and d_lse have the types of the results of the `attn.attention`.
    - (B2) the results have the types described above.
    - (B3) the gradient region has the arguments described above and yields one value of the compute type; without a score
      there is no gradient region.

    Example:
    ```mlir
    %dq, %dk, %dv = attn.attention_backward %q, %k, %v, %out, %lse, %d_out
      : (tensor<2x8x?x64xf32>, tensor<2x8x?x64xf32>, tensor<2x8x?x64xf32>, tensor<2x8x?x64xf32>, tensor<2x8x?xf32>,
         tensor<2x8x?x64xf32>) -> (tensor<2x8x?x64xf32>, tensor<2x8x?x64xf32>, tensor<2x8x?x64xf32>)
    ```
    An additive bias, and its gradient:
    ```mlir
    %dq, %dk, %dv, %d_bias = attn.attention_backward %q, %k, %v, %out, %lse, %d_out captures(%bias : tensor<8x?x?xbf16>)
      score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
        %element = tensor.extract %bias[%h, %q_idx, %kv_idx] : tensor<8x?x?xbf16>
        %wide = arith.extf %element : bf16 to f32
        %sum = arith.addf %s, %wide : f32
        attn.yield %sum : f32
      } gradient(%d: f32, %s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
        attn.accumulate_gradient %d, %bias[%h, %q_idx, %kv_idx] : f32, tensor<8x?x?xbf16>
        attn.yield %d : f32
      } : (tensor<2x8x?x64xbf16>, tensor<2x8x?x64xbf16>, tensor<2x8x?x64xbf16>, tensor<2x8x?x64xbf16>, tensor<2x8x?xf32>,
           tensor<2x8x?x64xbf16>)
       -> (tensor<2x8x?x64xbf16>, tensor<2x8x?x64xbf16>, tensor<2x8x?x64xbf16>, tensor<8x?x?xf32>)
    ```
  }];
  let arguments = (ins Attn_Tensor4D:$query, Attn_Tensor4D:$key, Attn_Tensor4D:$value, Attn_Tensor4D:$out,
                       Attn_RowTensor:$lse, Attn_Tensor4D:$d_out, Optional<Attn_RowTensor>:$d_lse,
                       Variadic<Attn_Capture>:$captures, Optional<Attn_BlockListsTensor>:$block_lists,
                       OptionalAttr<F64Attr>:$scale, OptionalAttr<DenseI64ArrayAttr>:$blocks, UnitAttr:$tf32,
                       UnitAttr:$deterministic);
  let results = (outs Attn_Tensor4D:$d_query, Attn_Tensor4D:$d_key, Attn_Tensor4D:$d_value,
                      Variadic<AnyRankedTensor>:$d_captures);
  let regions = (region MaxSizedRegion<1>:$score, MaxSizedRegion<1>:$mask, MaxSizedRegion<1>:$gradient);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let hasCanonicalizer = 1;
}

//===----------------------------------------------------------------------===//
// attn.online_attention
//===----------------------------------------------------------------------===//

def Attn_OnlineAttentionOp : Attn_Op<"online_attention", [
    IsolatedFromAbove, Pure, AttrSizedOperandSegments, Attn_AttentionInterface,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames", "getAsmBlockArgumentNames"]>]> {
  let summary = "One planned attention kernel: a schedule, and the ranges that each block visits";
  let description = [{
    The hinge of the compiler: what `attn.attention` and `attn.attention_backward` are planned into, and what each backend
    lowers with its own loops. Because the online softmax is associative over keys, tiling, split-KV and either loop order
    are choices of the schedule, not other operations.

    | kind | operands after query, key, value | blocks | results |
    |---|---|---|---|
    | `forward` | none | of queries | out, lse |
    | `dq` | lse, delta, d_out | of queries | d_query, then the gradient of each capture that has one |
    | `dkdv` | lse, delta, d_out | of keys | d_key, d_value |
    | `fused` | lse, delta, d_out | of keys | d_query, d_key, d_value, then the gradient of each capture that has one |

    `delta` is that of `attn.delta`. The other operands, the regions and the results are those of `attn.attention` and
    `attn.attention_backward`, and so are the numerics. `fused` computes each tile of scores once, where `dq` and `dkdv`
    compute it twice, but its blocks add to d_query in an order that is not determined. With `kv_splits = S > 1` the results
    of `forward` have a leading dimension of S, and out is in the compute type: the stack of parts that `attn.merge` takes.
    Each part of a row covers some of the keys, and each visited key is in one part; which is up to the lowering (on a CPU
    part p covers `[p * ceil(kv_len / S), (p + 1) * ceil(kv_len / S))`, on a GPU parts are of the same number of blocks that
    meet a visited range). A part without a key has lse = -inf. With `splits(%n)` there are n parts, at least 1, a number
    that is known when the function runs, and the leading dimension is dynamic; for a GPU only.

    `ranges(b, h, begin, end, captures…)` is given a block `[begin, end)` of the blocked dimension, never empty, never past its
    length and of at most `block_m` queries (`dkdv`: `block_n` keys) of the schedule: for longer blocks it need not hold. It
    yields (`attn.yield_ranges`) half-open ranges over the *other* dimension (the streamed one):
    - *visited*: their union contains every index that some pair of the block with that index keeps;
    - *masked*: their union contains every index that some pair of the block with that index drops.

    So a streamed block that meets no visited range is empty, and one that meets no masked range is full: there the mask
    region need not be evaluated. Ranges may overlap, be empty (begin >= end) and stand in any order. They may begin below 0
    and end past the length: the region clips nothing, and what lies outside of `[0, length)` means nothing. Whoever reads
    them, a lowering or a tool, intersects them with the indices that it streams. Without a mask region there is no ranges
    region; all is visited and full.

    Constraints: those of the operation it plans for the operands and regions that it shares, and
    - (O1) `dq`, `dkdv` and `fused` have lse, delta and d_out, and a gradient region exactly where there is a score region;
      `forward` has none of them.
    - (O2) the results have the types of the table.
    - (O3) constraint (S2) of the schedule.
    - (O4) a ranges region stands exactly where there is a mask region, and ends in `attn.yield_ranges`.
    - (O5) `key_outer` and `kv_splits > 1` are for `forward` only.
    - (O6) where there are block lists, block_m and block_n of the schedule divide the blocks of these.
    - (O7) `splits` is for `forward` with `kv_splits = 1` and `query_outer`; the results then have a dynamic number of parts.

    Example: causal, aligned to the top left.
    ```mlir
    %out, %lse = attn.online_attention forward %q, %k, %v scale(0.125)
      schedule(<block_m = 64, block_n = 64, vector_length = 16, register_rows = 8, register_vectors = 2>)
      mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
        %keep = arith.cmpi sle, %kv_idx, %q_idx : index
        attn.yield %keep : i1
      } ranges(%b: index, %h: index, %begin: index, %end: index) {
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %first_masked = arith.addi %begin, %c1 : index
        %kv_len = attn.kv_len %b
        attn.yield_ranges visited(%c0 to %end) masked(%first_masked to %kv_len)
      } : (tensor<1x8x?x64xf32>, tensor<1x8x?x64xf32>, tensor<1x8x?x64xf32>) -> (tensor<1x8x?x64xf32>, tensor<1x8x?xf32>)
    ```
  }];
  let arguments = (ins Attn_KernelKindAttr:$kind, Attn_Tensor4D:$query, Attn_Tensor4D:$key, Attn_Tensor4D:$value,
                       Optional<Attn_RowTensor>:$lse, Optional<Attn_RowTensor>:$delta, Optional<Attn_Tensor4D>:$d_out,
                       Variadic<Attn_Capture>:$captures, Optional<Attn_BlockListsTensor>:$block_lists,
                       OptionalAttr<F64Attr>:$scale, OptionalAttr<DenseI64ArrayAttr>:$blocks,
                       Attn_ScheduleAttr:$schedule, Optional<Index>:$splits, UnitAttr:$tf32);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let regions = (region MaxSizedRegion<1>:$score, MaxSizedRegion<1>:$mask, MaxSizedRegion<1>:$gradient,
                        MaxSizedRegion<1>:$ranges);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    /// Whether blocks of keys, not of queries, are the unit of work.
    bool blocksKeys() { return getKind() == KernelKind::dkdv || getKind() == KernelKind::fused; }
    /// Whether the results are a stack of parts.
    bool isSplit() { return getSplits() || getSchedule().getKvSplits() > 1; }
  }];
}

//===----------------------------------------------------------------------===//
// attn.block_lists
//===----------------------------------------------------------------------===//

def Attn_BlockListsOp : Attn_Op<"block_lists", [
    IsolatedFromAbove, Pure,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames", "getAsmBlockArgumentNames"]>]> {
  let summary = "The blocks of a mask that are not empty, and which of them are full";
  let description = [{
    Evaluates a mask, once for each pair, and says of each block of `blocks(m, n)`, m queries by n keys (fewer at the ends of
    the lengths), whether the mask keeps none of its pairs (the block is *empty*), all (*full*), or some. Attention that is
    given the lists neither loads nor computes empty blocks and does not evaluate the mask in full ones, whatever the mask is
    made of: documents, sparse patterns, any table of booleans. They are ordinary values: computed once for many calls,
    forward and backward, stored, or passed between functions. The memory is proportional to the number of blocks.

    Only the sizes of query and key matter. The result is two linked lists along each row and each column of blocks, one of
    those that are *partial*, neither empty nor full, and one of the full ones,

    ```
    lists[b, h, i, j, 0] = first J >= j such that block (i, J) is partial
    lists[b, h, i, j, 1] = first J >= j such that block (i, J) is full
    lists[b, h, i, j, 2] = first I >= i such that block (I, j) is partial
    lists[b, h, i, j, 3] = first I >= i such that block (I, j) is full
    ```

    where without such a block the number is that of the blocks of the row or column. So a read finds the next block of either
    kind, from wherever a kernel begins, and a kernel may take all of one kind before the other.

    | value | type |
    |---|---|
    | query | `(batch, q_heads, q_len, …)`, as in `attn.attention` |
    | key | `(…, …, kv_len, …)`, as in `attn.attention` |
    | captures, mask | as in `attn.attention` |
    | lists | `(batch or 1, q_heads or 1, ceil(q_len / m), ceil(kv_len / n), 4)` of i32 |

    A first or second size that is 1 in the type stands for all batch entries, or all heads.

    `ranges` is that of an `attn.online_attention forward` with blocks of m queries and n keys, for the same mask: where it
    decides, the mask is not evaluated. `--attn-plan` adds it.

    `--attn-build-block-lists` puts this operation before attention whose mask the compiler cannot tell empty and full
    blocks of, and `--attn-to-cuda-pipeline` does so on its own.

    Constraints:
    - (BL1) the mask region, which is there, and ranges are as (A5), (A6), (A8) and (O4) say.
    - (BL2) lists has the type of the table; a size that is 1 for all batch entries or heads, of which there are more or any
      number, stands only where the mask does not use b, or h, but to ask for a length.
    - (BL3) `blocks` has two numbers, multiples of 16 from 16 to 1024.

    Example: packed documents, the same for all heads.
    ```mlir
    %lists = attn.block_lists %q, %k captures(%documents : tensor<?x?xi32>) blocks(128, 128)
      mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
        %of_query = tensor.extract %documents[%b, %q_idx] : tensor<?x?xi32>
        %of_key = tensor.extract %documents[%b, %kv_idx] : tensor<?x?xi32>
        %same = arith.cmpi eq, %of_query, %of_key : i32
        attn.yield %same : i1
      } : (tensor<?x16x?x128xbf16>, tensor<?x4x?x128xbf16>) -> tensor<?x1x?x?x4xi32>
    ```
    and, with the same mask, `attn.attention %q, %k, %v captures(…) block_lists(%lists : tensor<?x1x?x?x4xi32>)
    blocks(128, 128) mask(…) {…} : …`.
  }];
  let arguments = (ins Attn_Tensor4D:$query, Attn_Tensor4D:$key, Variadic<Attn_Capture>:$captures,
                       DenseI64ArrayAttr:$blocks);
  let results = (outs Attn_BlockListsTensor:$lists);
  let regions = (region MaxSizedRegion<1>:$mask, MaxSizedRegion<1>:$ranges);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

//===----------------------------------------------------------------------===//
// attn.delta
//===----------------------------------------------------------------------===//

def Attn_DeltaOp : Attn_Op<"delta", [Pure, AllTypesMatch<["d_out", "out"]>,
    OptionalTypesMatchWith<"d_lse has the type of delta", "delta", "d_lse", "$_self">]> {
  let summary = "What softmax subtracts from the gradient of each score of a row";
  let description = [{
    `delta = sum_c d_out[c] * out[c] - d_lse`, without d_lse where it is missing: the gradient of a score s is
    `p * (d_p - delta)`, with p its probability and d_p the dot product of d_out and its value.

    Where a row gives all its weight to one key, out is the value of that key, and d_p - delta has to be 0: the sum is
    computed like the products of the kernels.

    Constraints:
    - (D1) delta, and d_lse, has the shape of out without its last dimension, and the compute type of out's elements.

    Example:
    ```mlir
    %delta = attn.delta %d_out, %out : tensor<1x8x?x64xbf16>, tensor<1x8x?xf32>
    ```
  }];
  let arguments = (ins Attn_Tensor4D:$d_out, Attn_Tensor4D:$out, Optional<Attn_RowTensor>:$d_lse);
  let results = (outs Attn_RowTensor:$delta);
  let assemblyFormat = "$d_out `,` $out (`,` $d_lse^)? attr-dict `:` type($d_out) `,` type($delta)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// attn.merge
//===----------------------------------------------------------------------===//

def Attn_MergeOp : Attn_Op<"merge", [Pure, SameVariadicOperandSize]> {
  let summary = "Combines the attention over disjoint sets of keys";
  let description = [{
    Takes *parts*, each the out and the lse of an attention of the same queries over some of the keys, and gives out and lse
    over all of these keys. For each row, over the parts p, with m = max_p lse[p]:

    ```
    w[p] = exp(lse[p] - m)    where lse[p] is not -inf
    lse  = m + log(sum_p w[p])
    out  = (sum_p w[p] * out[p]) / (sum_p w[p])
    ```

    A part with lse = -inf contributes exactly nothing, whatever its out; where all are so, or there is none, out = 0 and
    lse = -inf. Weights and sums are in the type of lse, added in the order of the parts; out is rounded once. Associative and
    commutative up to rounding.

    Parts come in one of two forms. As *pairs* of tensors, for parts that are made one after another (ring attention, a cache
    in two pieces); merging what there is with what arrives is then a merge of two pairs. Or as one *stack*, a single pair of
    tensors with the parts along one more, leading, dimension, which may be dynamic: what `attn.online_attention` with
    `kv_splits` returns (flash decoding). It is one kernel, whatever the number of parts.

    | value | type |
    |---|---|
    | out | `(batch, q_heads, q_len, value_dim)` of f64, f32, f16, bf16 (f8E4M3FN: accepted here, refused by lowerings) |
    | lse | `(batch, q_heads, q_len)` of the compute type of out's elements |
    | part_outs, part_lses | the shapes of out and lse, in a stack after a dimension for the parts; part_outs may be of the compute type |

    Canonicalization replaces the merge of a single pair of the results' types by its operands.

    Constraints:
    - (M1) lse, of a part and of the result, has the shape of out without its last dimension, and the compute type of the
      result's elements.
    - (M2) there is at least one part, as many lses as outs, and all parts have one type.
    - (M3) parts have the shape of the result; a single one may have a dimension for the parts before it.
    - (M4) the elements of the parts' out have the type of the result's, or its compute type.

    Example: two parts, and a stack of parts in f32 that is rounded in the end.
    ```mlir
    %out, %lse = attn.merge (%out_a, %lse_a), (%out_b, %lse_b)
      : tensor<1x8x?x64xf32>, tensor<1x8x?xf32> -> tensor<1x8x?x64xf32>, tensor<1x8x?xf32>
    %out, %lse = attn.merge (%outs, %lses)
      : tensor<?x1x8x?x64xf32>, tensor<?x1x8x?xf32> -> tensor<1x8x?x64xbf16>, tensor<1x8x?xf32>
    ```
  }];
  let arguments = (ins Variadic<Attn_PartTensor>:$part_outs, Variadic<Attn_PartRowTensor>:$part_lses);
  let results = (outs Attn_Tensor4D:$out, Attn_RowTensor:$lse);
  let assemblyFormat = [{
    custom<Parts>($part_outs, $part_lses) attr-dict `:`
    custom<PartTypes>(ref($part_outs), type($part_outs), type($part_lses)) `->` type($out) `,` type($lse)
  }];
  let hasVerifier = 1;
  let hasFolder = 1;
  let extraClassDeclaration = [{
    /// Whether the parts are stacked along a leading dimension of one pair of tensors.
    bool isStacked() {
      return ::llvm::cast<::mlir::RankedTensorType>(getPartOuts().front().getType()).getRank() == 5;
    }
  }];
}

//===----------------------------------------------------------------------===//
// Operations inside regions
//===----------------------------------------------------------------------===//

class Attn_LengthOp<string mnemonic, string what> : Attn_Op<mnemonic, [
    Pure, ParentOneOf<["AttentionOp", "AttentionBackwardOp", "OnlineAttentionOp", "BlockListsOp", "::mlir::scf::IfOp"]>]> {
  let summary = "The number of " # what # " of a batch entry, inside a region";
  let description = [{
    The current number of }] # what # [{ of batch entry `batch`: the length of the tensor, or of the packed sequence once
    there are such. Batch and result are of index type. Resolved when the region is inlined.

    Constraints:
    - (L1) it stands in a region of an attention operation, there possibly in `scf.if`.

    Example: `%n = attn.}] # mnemonic # [{ %b`
  }];
  let arguments = (ins Index:$batch);
  let results = (outs Index:$length);
  let assemblyFormat = "$batch attr-dict";
  let hasVerifier = 1;
}
def Attn_QLenOp : Attn_LengthOp<"q_len", "queries">;
def Attn_KvLenOp : Attn_LengthOp<"kv_len", "keys">;

def Attn_YieldOp : Attn_Op<"yield", [
    Pure, Terminator, ParentOneOf<["AttentionOp", "AttentionBackwardOp", "OnlineAttentionOp", "BlockListsOp"]>]> {
  let summary = "Ends a score, mask or gradient region with its value";
  let description = [{
    A score and a gradient region yield one value of the compute type, a mask an i1, true where the pair is kept; (A5) and
    (B3) check it.

    Example: `attn.yield %keep : i1`
  }];
  let arguments = (ins Attn_Scalar:$value);
  let assemblyFormat = "$value attr-dict `:` type($value)";
}

def Attn_YieldRangesOp : Attn_Op<"yield_ranges", [
    Pure, Terminator, AttrSizedOperandSegments, ParentOneOf<["OnlineAttentionOp", "BlockListsOp"]>]> {
  let summary = "Ends a ranges region with the ranges that a block visits and those it has to mask";
  let description = [{
    See `attn.online_attention`. A range `%begin to %end` is half-open, of index type; each list may be empty.

    *Inexact* are ranges that a streamed block may meet and be empty, or full, all the same. A lowering for a CPU evaluates
    the mask of such a block until it finds a pair that is kept, and skips the block if there is none.

    Constraints:
    - (R1) there are as many ends as begins, visited and masked.

    Example: `attn.yield_ranges visited(%c0 to %sink, %first to %end) masked(%sink to %last)`
  }];
  let arguments = (ins Variadic<Index>:$visited_begins, Variadic<Index>:$visited_ends,
                       Variadic<Index>:$masked_begins, Variadic<Index>:$masked_ends, UnitAttr:$inexact);
  let assemblyFormat = [{
    (`inexact` $inexact^)? `visited` `` custom<Ranges>($visited_begins, $visited_ends)
    `masked` `` custom<Ranges>($masked_begins, $masked_ends) attr-dict
  }];
  let hasVerifier = 1;
}

def Attn_GradientResource : Resource<"::attn::GradientResource">;

def Attn_AccumulateGradientOp : Attn_Op<"accumulate_gradient", [
    MemoryEffects<[MemWrite<Attn_GradientResource>]>,
    ParentOneOf<["AttentionBackwardOp", "OnlineAttentionOp", "::mlir::scf::IfOp"]>]> {
  let summary = "Adds to the gradient of one element of a capture, inside a gradient region";
  let description = [{
    Adds `value` to the gradient of `capture[indices]`; the gradient of a scalar capture has no indices. It is the transpose
    of `tensor.extract`: one stands for each read in the score region. Once for each pair that is kept and whose score is not
    -inf; for other pairs nothing is added, and indices may be out of bounds. The order of the additions is unspecified.

    Constraints:
    - (G1) capture is an argument of the enclosing gradient region, of floating type.
    - (G2) there are as many indices as the capture has dimensions.
    - (G3) value has the compute type of the attention.

    Example: `attn.accumulate_gradient %d_slope, %slopes[%h] : f32, tensor<16xf32>`
  }];
  let arguments = (ins AnyFloat:$value, Attn_Capture:$capture, Variadic<Index>:$indices);
  let assemblyFormat = "$value `,` $capture `[` $indices `]` attr-dict `:` type($value) `,` type($capture)";
  let hasVerifier = 1;
}

#endif // ATTN_DIALECT_ATTNOPS_TD
