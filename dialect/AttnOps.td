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
def Attn_Scalar : AnyTypeOf<[AnyFloat, AnySignlessInteger, Index], "floating, integer or index scalar">;
def Attn_Capture : AnyTypeOf<[RankedTensorOf<[AnyFloat, AnySignlessInteger, Index]>, Attn_Scalar],
                             "ranked tensor or scalar of floating, integer or index type">;

//===----------------------------------------------------------------------===//
// attn.attention
//===----------------------------------------------------------------------===//

def Attn_AttentionOp : Attn_Op<"attention", [
    IsolatedFromAbove, Pure, AttentionOpInterface, DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames", "getAsmBlockArgumentNames"]>]> {
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

    | value | type |
    |---|---|
    | query | `(batch, q_heads, q_len, head_dim)` of f64, f32, f16, bf16 (f8E4M3FN: accepted here, refused by lowerings) |
    | key | `(batch, kv_heads, kv_len, head_dim)`, same element type |
    | value | `(batch, kv_heads, kv_len, value_dim)`, same element type |
    | captures | ranked tensors or scalars that the regions read |
    | out | `(batch, q_heads, q_len, value_dim)`, same element type |
    | lse | `(batch, q_heads, q_len)` of the compute type |

    Numerics: scores, probabilities and sums are in the *compute type*: f64 for f64 tensors, f32 for all others. The scale
    is applied to the dot product before the score region. `lse` is a natural logarithm.

    Regions are pure and see nothing but their arguments. `score(s, b, h, q_idx, kv_idx)` yields a score of the compute type,
    `mask(b, h, q_idx, kv_idx)` yields an i1; h is the *query* head. Either may be missing (identity; keep all). Every
    capture is a trailing argument of both, printed under the name of the operand that it shadows. A region may use
    arith, math and index operations on scalars, `scf.if`, `tensor.extract` of a captured tensor, `attn.q_len` and
    `attn.kv_len`, and calls that the inliner resolves. An index out of a captured tensor's bounds is undefined behaviour where the pair is
    kept; where the mask drops the pair the score is not evaluated as far as anyone can tell.

    Constraints:
    - (A1) query, key and value have the same element type.
    - (A2) batch agrees; key and value agree in heads and length; q_heads is a multiple of kv_heads.
    - (A3) head_dim and value_dim are static, 1 to 512; head_dim of query and key agree.
    - (A4) out and lse have the types of the table, with a static value_dim.
    - (A5) the regions have the arguments and the result described above, in one block.
    - (A6) the regions hold only the operations listed above.
    - (A7) the scale is finite in the compute type.
    - (A8) q_len and kv_len are at most 2^31 - 1: indices in regions have 32 bits.
    - (A9) it has no attribute but the scale and those of other dialects (whose names have a dot): what nobody knows would be
      ignored.

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
                       OptionalAttr<F64Attr>:$scale);
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
    IsolatedFromAbove, Pure, AttrSizedOperandSegments, AttentionOpInterface, DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames", "getAsmBlockArgumentNames"]>]> {
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

    The results are d_query, d_key, d_value (types of query, key, value), then one tensor for each capture of floating
    type, in order: of the capture's shape and of the compute type; a scalar capture gives a tensor of rank 0.

    `gradient(d, s, b, h, q_idx, kv_idx, captures…)` is the derivative of the score region; d is d_s. It is missing where the
    score is, or before `--attn-differentiate` has derived it; by hand it can give a custom derivative.

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
  }];
  let arguments = (ins Attn_Tensor4D:$query, Attn_Tensor4D:$key, Attn_Tensor4D:$value, Attn_Tensor4D:$out,
                       Attn_RowTensor:$lse, Attn_Tensor4D:$d_out, Optional<Attn_RowTensor>:$d_lse,
                       Variadic<Attn_Capture>:$captures, OptionalAttr<F64Attr>:$scale);
  let results = (outs Attn_Tensor4D:$d_query, Attn_Tensor4D:$d_key, Attn_Tensor4D:$d_value,
                      Variadic<AnyRankedTensor>:$d_captures);
  let regions = (region MaxSizedRegion<1>:$score, MaxSizedRegion<1>:$mask, MaxSizedRegion<1>:$gradient);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

//===----------------------------------------------------------------------===//
// attn.online_attention
//===----------------------------------------------------------------------===//

def Attn_OnlineAttentionOp : Attn_Op<"online_attention", [
    IsolatedFromAbove, Pure, AttrSizedOperandSegments, AttentionOpInterface, DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames", "getAsmBlockArgumentNames"]>]> {
  let summary = "One planned attention kernel: a schedule, and the ranges that each block visits";
  let description = [{
    The hinge of the compiler: what `attn.attention` and `attn.attention_backward` are planned into, and what each backend
    lowers with its own loops. Because the online softmax is associative over keys, tiling, split-KV and either loop order
    are choices of the schedule, not other operations.

    | kind | operands after query, key, value | blocks | results |
    |---|---|---|---|
    | `forward` | none | of queries | out, lse |
    | `dq` | lse, delta, d_out | of queries | d_query, then the gradient of each floating capture |
    | `dkdv` | lse, delta, d_out | of keys | d_key, d_value |
    | `fused` | lse, delta, d_out | of keys | d_query, d_key, d_value, then the gradient of each floating capture |

    `delta` is that of `attn.delta`. `fused` computes each tile of scores once, where `dq` and `dkdv` compute it twice, but its
    blocks add to d_query in an order that is not determined. With `kv_splits = S > 1` the results of `forward` have a
    leading dimension of S (part p of a row covers keys `[p * ceil(kv_len / S), (p + 1) * ceil(kv_len / S))`), and out is in
    the compute type.

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
                       Variadic<Attn_Capture>:$captures, OptionalAttr<F64Attr>:$scale, Attn_ScheduleAttr:$schedule);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let regions = (region MaxSizedRegion<1>:$score, MaxSizedRegion<1>:$mask, MaxSizedRegion<1>:$gradient,
                        MaxSizedRegion<1>:$ranges);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    /// Whether blocks of keys, not of queries, are the unit of work.
    bool blocksKeys() { return getKind() == KernelKind::dkdv || getKind() == KernelKind::fused; }
  }];
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

def Attn_MergeOp : Attn_Op<"merge", [
    Pure, AllTypesMatch<["lhs_out", "rhs_out", "out"]>, AllTypesMatch<["lhs_lse", "rhs_lse", "lse"]>]> {
  let summary = "Combines the attention over two disjoint sets of keys";
  let description = [{
    For each row, with m = max(lhs_lse, rhs_lse), l = exp(lhs_lse - m) and r = exp(rhs_lse - m):

    ```
    lse = m + log(l + r)
    out = (l * lhs_out + r * rhs_out) / (l + r)
    ```

    A side with lse = -inf contributes exactly nothing, whatever its out; two such sides give out = 0 and lse = -inf. The sum
    is in the type of lse. Associative and commutative up to rounding: the rule of split-KV decoding and of ring attention.

    Constraints:
    - (M1) lse has the shape of out without its last dimension, and the compute type of out's elements.

    Example:
    ```mlir
    %out, %lse = attn.merge %out_a, %lse_a, %out_b, %lse_b : tensor<1x8x?x64xf32>, tensor<1x8x?xf32>
    ```
  }];
  let arguments = (ins Attn_Tensor4D:$lhs_out, Attn_RowTensor:$lhs_lse, Attn_Tensor4D:$rhs_out, Attn_RowTensor:$rhs_lse);
  let results = (outs Attn_Tensor4D:$out, Attn_RowTensor:$lse);
  let assemblyFormat = [{
    $lhs_out `,` $lhs_lse `,` $rhs_out `,` $rhs_lse attr-dict `:` type($out) `,` type($lse)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Operations inside regions
//===----------------------------------------------------------------------===//

class Attn_LengthOp<string mnemonic, string what> : Attn_Op<mnemonic, [
    Pure, ParentOneOf<["AttentionOp", "AttentionBackwardOp", "OnlineAttentionOp", "::mlir::scf::IfOp"]>]> {
  let summary = "The number of " # what # " of a batch entry, inside a region";
  let description = [{
    The current number of }] # what # [{ of batch entry `batch`: the length of the tensor, or of the packed sequence once
    there are such. Resolved when the region is inlined.

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
    Pure, Terminator, ParentOneOf<["AttentionOp", "AttentionBackwardOp", "OnlineAttentionOp"]>]> {
  let summary = "Ends a score, mask or gradient region with its value";
  let description = "Example: `attn.yield %keep : i1`";
  let arguments = (ins Attn_Scalar:$value);
  let assemblyFormat = "$value attr-dict `:` type($value)";
}

def Attn_YieldRangesOp : Attn_Op<"yield_ranges", [
    Pure, Terminator, AttrSizedOperandSegments, HasParent<"OnlineAttentionOp">]> {
  let summary = "Ends a ranges region with the ranges that a block visits and those it has to mask";
  let description = [{
    See `attn.online_attention`. A range is half-open.

    Constraints:
    - (R1) there are as many ends as begins, visited and masked.

    Example: `attn.yield_ranges visited(%c0 to %sink, %first to %end) masked(%sink to %last)`
  }];
  let arguments = (ins Variadic<Index>:$visited_begins, Variadic<Index>:$visited_ends,
                       Variadic<Index>:$masked_begins, Variadic<Index>:$masked_ends);
  let assemblyFormat = [{
    `visited` `` custom<Ranges>($visited_begins, $visited_ends) `masked` `` custom<Ranges>($masked_begins, $masked_ends)
    attr-dict
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
    of `tensor.extract`: one stands for each read in the score region. The order of the additions is unspecified.

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
