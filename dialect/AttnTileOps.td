//===- AttnTileOps.td - operations of the attn_tile dialect ----------------*- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTNTILEOPS_TD
#define ATTN_DIALECT_ATTNTILEOPS_TD

include "dialect/AttnTileAsyncOps.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

//===----------------------------------------------------------------------===//
// Storage
//===----------------------------------------------------------------------===//

def AttnTile_SharedAllocOp : AttnTile_Op<"shared_alloc", [
    MemoryEffects<[MemAlloc<AttnTile_SharedMemory>]>, DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "A tile of the block's shared memory";
  let description = [{
    Lives as long as the block. `offset`, in bytes from the start of the block's dynamic shared memory, is set by
    `--attn-tile-place-shared`. `name` is what the emitted code calls it.

    Constraints:
    - (SA1) name is a C++ identifier.

    Example: `%key = attn_tile.shared_alloc "key" : !attn_tile.shared<64x128xbf16>`
  }];
  let arguments = (ins StrAttr:$name, OptionalAttr<I64Attr>:$offset);
  let results = (outs AttnTile_SharedType:$tile);
  let assemblyFormat = "$name (`offset` `(` $offset^ `)`)? attr-dict `:` type($tile)";
  let hasVerifier = 1;
}

def AttnTile_SharedReuseOp : AttnTile_Op<"shared_reuse", [
    MemoryEffects<[MemAlloc<AttnTile_SharedMemory>]>, DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "The memory of a shared tile as another tile";
  let description = [{
    For a tile whose content is not needed any more, such as the query tile when the output is written.

    Constraints:
    - (SR1) the new tile is not larger than the old one; name is a C++ identifier.

    Example: `%staging = attn_tile.shared_reuse %query "staging" : !attn_tile.shared<128x128xbf16> to !attn_tile.shared<128x64xbf16>`
  }];
  let arguments = (ins AttnTile_SharedType:$source, StrAttr:$name);
  let results = (outs AttnTile_SharedType:$tile);
  let assemblyFormat = "$source $name attr-dict `:` type($source) `to` type($tile)";
  let hasVerifier = 1;
}

def AttnTile_RingSlotOp : AttnTile_Op<"ring_slot", [
    MemoryEffects<[MemAlloc<AttnTile_SharedMemory>]>, DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "One tile of a ring";
  let description = [{
    Constraints:
    - (RS1) the tile has the type of the ring's slots; name is a C++ identifier.

    Example: `%query = attn_tile.ring_slot %queries[%stage] "query" : !attn_tile.shared<2x64x128xbf16> to !attn_tile.shared<64x128xbf16>`
  }];
  let arguments = (ins AttnTile_SharedType:$ring, Index:$stage, StrAttr:$name);
  let results = (outs AttnTile_SharedType:$tile);
  let assemblyFormat = "$ring `[` $stage `]` $name attr-dict `:` type($ring) `to` type($tile)";
  let hasVerifier = 1;
}

def AttnTile_FragmentAllocOp : AttnTile_Op<"fragment_alloc", [
    MemoryEffects<[MemAlloc<AttnTile_RegisterFile>]>, DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "A fragment in the registers of the block's threads";
  let description = [{
    Its content is undefined until something writes it. `name` is what the emitted code calls it.

    Constraints:
    - (FA1) name is a C++ identifier.

    Example: `%scores = attn_tile.fragment_alloc "scores" : !attn_tile.fragment<128x64xf32, accumulator, 4x1>`
  }];
  let arguments = (ins StrAttr:$name);
  let results = (outs AttnTile_FragmentType:$fragment);
  let assemblyFormat = "$name attr-dict `:` type($fragment)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

def AttnTile_MmaOp : AttnTile_Op<"mma"> {
  let summary = "Adds the product of two tiles to an accumulator";
  let description = [{
    `acc += a * b`, a of M x K and b of K x N, `transpose_a` and `transpose_b` where they are stored as K x M and N x K. Terms
    are added in f32.

    | atom | elements of a and b |
    |---|---|
    | `mma_sync` | f16 or bf16: `mma.sync.m16n8k16` |
    | `mma_sync_tf32` | f32, rounded to tf32: `mma.sync.m16n8k8` |
    | `fma` | f32: one multiply-add an element, full precision |
    | `wgmma` | f16 or bf16: `wgmma.mma_async.m64nNk16`, asynchronous: `attn_tile.mma_commit`, `attn_tile.mma_wait` |

    With `overwrite` it is `acc = a * b`.

    Constraints:
    - (MM1) acc is an accumulator, b a 2-D shared tile, a a 2-D shared tile or an `operand_a` fragment (not transposed, the
      warps of acc, of one warp column). For `wgmma` shared tiles are `panels`, for the other atoms `shared`.
    - (MM2) the dimensions match; K is a multiple of 16.
    - (MM3) a and b have the same element type, one of the atom's.
    - (MM4) `overwrite` is for `wgmma`, whose acc has 16 rows a warp and at most 256 columns, a multiple of 16, and whose a
      is not transposed.
    - (MM5) between a product of `wgmma` and the `attn_tile.mma_wait` that names acc, and a where it is a fragment, nothing
      else in their block touches these, but products that add to acc or read a.

    Example: scores += query * key^T.
    ```mlir
    attn_tile.mma mma_sync %scores, %query, %key transpose_b
        : !attn_tile.fragment<128x64xf32, accumulator, 4x1>, !attn_tile.shared<128x128xbf16>, !attn_tile.shared<64x128xbf16>
    ```
  }];
  let arguments = (ins AttnTile_AtomAttr:$atom, UpdatesFragment:$acc,
                       Arg<AnyTypeOf<[AttnTile_SharedType, AttnTile_PanelsType, AttnTile_FragmentType]>, "",
                           [MemRead<AttnTile_SharedMemory>, MemRead<AttnTile_RegisterFile>]>:$a,
                       Arg<AnyTypeOf<[AttnTile_SharedType, AttnTile_PanelsType]>, "", [MemRead<AttnTile_SharedMemory>]>:$b,
                       UnitAttr:$transpose_a, UnitAttr:$transpose_b, UnitAttr:$overwrite);
  let assemblyFormat = [{
    $atom $acc `,` $a `,` $b (`transpose_a` $transpose_a^)? (`transpose_b` $transpose_b^)? (`overwrite` $overwrite^)? attr-dict
    `:` type($acc) `,` type($a) `,` type($b)
  }];
  let hasVerifier = 1;
}

def AttnTile_AddNonFiniteOp : AttnTile_Op<"add_non_finite"> {
  let summary = "Adds what is not finite in the right operand of a product";
  let description = [{
    In `acc += a * b` a factor 0 of a pair that is dropped does not silence an infinity or a NaN: their product is a NaN. This
    operation adds to acc every `b[k, c]` that is not finite, in the rows m with `a[m, k] != 0`. With the product of a and of
    what `attn_tile.copy_finite` leaves of b that is the product in which a factor 0 is a select.

    It is slow: for the rare tile that has such elements.

    Constraints:
    - (AF1) acc is an accumulator, b a 2-D shared tile, a a 2-D shared tile or an accumulator with the warps of acc, in one
      column.
    - (AF2) the dimensions match.

    Example:
    ```mlir
    attn_tile.add_non_finite %output, %kept, %value
        : !attn_tile.fragment<128x64xf32, accumulator, 4x1>, !attn_tile.fragment<128x32xf32, accumulator, 4x1>, !attn_tile.shared<32x64xbf16>
    ```
  }];
  let arguments = (ins UpdatesFragment:$acc,
                       Arg<AnyTypeOf<[AttnTile_SharedType, AttnTile_FragmentType]>, "",
                           [MemRead<AttnTile_SharedMemory>, MemRead<AttnTile_RegisterFile>]>:$a,
                       ReadsShared:$b);
  let assemblyFormat = "$acc `,` $a `,` $b attr-dict `:` type($acc) `,` type($a) `,` type($b)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

def AttnTile_FillOp : AttnTile_Op<"fill"> {
  let summary = "Sets every element of a fragment";
  let description = "Example: `attn_tile.fill %row_max, %minus_infinity : !attn_tile.fragment<128xf32, rows, 4x1>`";
  let arguments = (ins WritesFragment:$fragment, F32:$value);
  let assemblyFormat = "$fragment `,` $value attr-dict `:` type($fragment)";
}

def AttnTile_MapOp : AttnTile_Op<"map", [
    AttrSizedOperandSegments, SingleBlock, RecursiveMemoryEffects,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>]> {
  let summary = "Computes each element of fragments from those at the same place";
  let description = [{
    Here score, mask, softmax and gradients land. The region is executed once for each element of the outs, with the row
    and (unless all fragments are `rows`) the column of the element in the tile, the elements of the ins and those of the
    outs; it yields the new elements of the outs. An element of a `rows` fragment is that of the row, one of a `columns` fragment
    that of the column; an `operand_a` of 16 bits has its elements where an accumulator has them. The region sees the values
    around it.

    A `rows` fragment among the outs makes all of them `rows`.

    With `relative` the column is counted from the first one that the thread has (`attn_tile.first_column`): the emitted
    code has a constant in its place, and what is computed of it alone.

    Constraints:
    - (MP1) fragments of one layout have one type; `rows` fragments are those of its rows and warps (`getRowsType`), and
      `columns` fragments, of any element types and among the ins alone, those of its columns (`getColumnsType`); an
      `operand_a`, among the ins alone, has the shape and the warps of an accumulator.
    - (MP2) the region's arguments are as said, and it yields a value for each of the outs, of its element type.

    Example: p = exp2(s * c - m), in place.
    ```mlir
    attn_tile.map ins(%max : !attn_tile.fragment<128xf32, rows, 4x1>) outs(%scores : !attn_tile.fragment<128x64xf32, accumulator, 4x1>) {
    ^bb0(%row: index, %column: index, %m: f32, %s: f32):
      %scaled = arith.mulf %s, %c : f32
      %shifted = arith.subf %scaled, %m : f32
      %p = math.exp2 %shifted : f32
      attn_tile.yield %p : f32
    }
    ```
  }];
  let arguments = (ins Arg<Variadic<AttnTile_FragmentType>, "", [MemRead<AttnTile_RegisterFile>]>:$ins,
                       Arg<Variadic<AttnTile_FragmentType>, "",
                           [MemRead<AttnTile_RegisterFile>, MemWrite<AttnTile_RegisterFile>]>:$outs,
                       UnitAttr:$relative);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    (`relative` $relative^)? (`ins` `(` $ins^ `:` type($ins) `)`)? (`outs` `(` $outs^ `:` type($outs) `)`)? $body attr-dict
  }];
  let hasVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [
    /// `buildBody(builder, loc, indices, elements)` returns what the region yields.
    OpBuilder<(ins "::mlir::ValueRange":$ins, "::mlir::ValueRange":$outs,
      "::llvm::function_ref<::llvm::SmallVector<::mlir::Value>(::mlir::OpBuilder &, ::mlir::Location, ::mlir::ValueRange, ::mlir::ValueRange)>":$buildBody,
      CArg<"bool", "false">:$relative)>
  ];
}

def AttnTile_FirstColumnOp : AttnTile_Op<"first_column", [Pure]> {
  let summary = "The column of the first element of an accumulator that the thread has";
  let description = [{
    Where a `relative` map counts columns from. Threads differ in it.

    Constraints:
    - (FC1) the fragment is an accumulator.

    Example: `%first = attn_tile.first_column %scores : !attn_tile.fragment<128x64xf32, accumulator, 8x1>`
  }];
  let arguments = (ins AttnTile_FragmentType:$fragment);
  let results = (outs Index:$column);
  let assemblyFormat = "$fragment attr-dict `:` type($fragment)";
  let hasVerifier = 1;
}

def AttnTile_AnyOp : AttnTile_Op<"any", [
    SingleBlock, RecursiveMemoryEffects, DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>]> {
  let summary = "Whether something holds for any element that the warp has";
  let description = [{
    The region is executed as that of `attn_tile.map`, and yields an `i1`. The result is true where one of the elements of the
    warp that executes it gives true: all threads of a warp have the same result, so that a branch on it does not
    diverge, but warps may differ. There may be no barrier in such a branch.

    Constraints:
    - (AN1) fragments of one layout have one type; `rows` fragments are those of its rows and warps (`getRowsType`), and
      `columns` fragments, of any element types, those of its columns (`getColumnsType`); an `operand_a` has the shape and the
      warps of an accumulator.
    - (AN2) the region's arguments are as said, and it yields an `i1`.

    Example: whether any row of the warp is rescaled.
    ```mlir
    %rescales = attn_tile.any ins(%rescale : !attn_tile.fragment<128xf32, rows, 4x1>) {
    ^bb0(%row: index, %factor: f32):
      %differs = arith.cmpf une, %factor, %one : f32
      attn_tile.yield %differs : i1
    }
    ```
  }];
  let arguments = (ins Arg<Variadic<AttnTile_FragmentType>, "", [MemRead<AttnTile_RegisterFile>]>:$ins);
  let results = (outs I1:$holds);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "`ins` `(` $ins `:` type($ins) `)` $body attr-dict";
  let hasVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [
    /// `buildBody(builder, loc, indices, elements)` returns what the region yields.
    OpBuilder<(ins "::mlir::ValueRange":$ins,
      "::llvm::function_ref<::mlir::Value(::mlir::OpBuilder &, ::mlir::Location, ::mlir::ValueRange, ::mlir::ValueRange)>":$buildBody)>
  ];
}

def AttnTile_YieldOp : AttnTile_Op<"yield", [Pure, Terminator, ParentOneOf<["MapOp", "AnyOp", "WarpSpecializeOp"]>]> {
  let summary = "Ends the region of a map with the new elements, that of an any, or of a role";
  let description = "Example: `attn_tile.yield %p : f32`";
  let arguments = (ins Variadic<AnyType>:$values);
  let builders = [OpBuilder<(ins)>];
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
}

def AttnTile_AccumulateOp : AttnTile_Op<"accumulate"> {
  let summary = "Adds to the sum of a thread, inside a map";
  let description = [{
    For what is summed over all elements, such as the gradient of a scalar: each thread sums what its elements give, and
    `attn_tile.flush_sum` adds these sums up.

    Constraints:
    - (AC1) sum is a `thread` fragment.

    Example: `attn_tile.accumulate %value into %sum : !attn_tile.fragment<f32, thread, 4x2>`
  }];
  let arguments = (ins F32:$value, UpdatesFragment:$sum);
  let assemblyFormat = "$value `into` $sum attr-dict `:` type($sum)";
  let hasVerifier = 1;
}

def AttnTile_FlushSumOp : AttnTile_Op<"flush_sum"> {
  let summary = "Adds the sums of all threads to one element of a tensor";
  let description = [{
    `target[indices…] += sum over the threads of the block`, at once; other blocks may add to it as well. The order of
    additions is unspecified. Nothing is added, and the element is not touched, where the sum is 0.

    Constraints:
    - (FS1) sum is a `thread` fragment; there is an index for each dimension of the target, whose elements are f32.

    Example: `attn_tile.flush_sum %sum to %d_slopes[%h] : !attn_tile.fragment<f32, thread, 4x2>, memref<16xf32>`
  }];
  let arguments = (ins ReadsFragment:$sum, Arg<AnyStridedMemRef, "", [MemRead, MemWrite]>:$target, Variadic<Index>:$indices);
  let assemblyFormat = "$sum `to` $target `[` $indices `]` attr-dict `:` type($sum) `,` type($target)";
  let hasVerifier = 1;
}

def AttnTile_ConvertOp : AttnTile_Op<"convert"> {
  let summary = "Rounds an accumulator to an operand of the next product, in registers";
  let description = [{
    Every thread has the elements already (FlashAttention-2, section 3.3): no data moves between lanes.

    Constraints:
    - (CV1) source is an accumulator of one warp column, target an `operand_a` of its shape and warps.

    Example:
    ```mlir
    attn_tile.convert %scores to %probabilities
        : !attn_tile.fragment<128x64xf32, accumulator, 4x1>, !attn_tile.fragment<128x64xbf16, operand_a, 4x1>
    ```
  }];
  let arguments = (ins ReadsFragment:$source, WritesFragment:$target);
  let assemblyFormat = "$source `to` $target attr-dict `:` type($source) `,` type($target)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

def AttnTile_RowReduceOp : AttnTile_Op<"row_reduce"> {
  let summary = "Combines each row of an accumulator into its value in a rows fragment";
  let description = [{
    `rows[i] = combine(rows[i], source[i, 0], source[i, 1], …)`. With `partial`, each thread combines only the columns that it
    holds: a later `attn_tile.row_combine` makes the values those of the whole row. `max` ignores a NaN.

    With `interleaved` a thread combines its elements in two sequences that do not wait for each other, and then these: of
    sums the last bits differ.

    Several warp columns exchange their parts of a row through `scratch`; the operation then synchronises the block, before
    and after it is read.

    Constraints:
    - (RR1) source is an accumulator, rows its rows fragment.
    - (RR2) scratch stands exactly where rows has several warp columns and the operation is not partial: a vector with an
      element for each row and warp column.
    - (RR3) only what is partial is interleaved.

    Example:
    ```mlir
    attn_tile.row_reduce max %scores into %row_max
        : !attn_tile.fragment<128x64xf32, accumulator, 4x1>, !attn_tile.fragment<128xf32, rows, 4x1>
    ```
  }];
  let arguments = (ins AttnTile_CombineAttr:$combine, ReadsFragment:$source, UpdatesFragment:$rows, UsesScratch:$scratch,
                       UnitAttr:$partial, UnitAttr:$interleaved);
  let assemblyFormat = [{
    $combine $source `into` $rows (`partial` $partial^)? (`interleaved` $interleaved^)? (`through` $scratch^)? attr-dict
    `:` type($source) `,` type($rows) (`,` type($scratch)^)?
  }];
  let hasVerifier = 1;
}

def AttnTile_RowCombineOp : AttnTile_Op<"row_combine"> {
  let summary = "Combines the partial values that the threads of a row hold";
  let description = [{
    Afterwards all of them hold the same value. `scratch` is that of `attn_tile.row_reduce`.

    Constraints:
    - (RC1) rows is a rows fragment.
    - (RC2) scratch as (RR2) says.

    Example: `attn_tile.row_combine add %row_sum : !attn_tile.fragment<128xf32, rows, 4x1>`
  }];
  let arguments = (ins AttnTile_CombineAttr:$combine, UpdatesFragment:$rows, UsesScratch:$scratch);
  let assemblyFormat = "$combine $rows (`through` $scratch^)? attr-dict `:` type($rows) (`,` type($scratch)^)?";
  let hasVerifier = 1;
}

def AttnTile_LoadRowsOp : AttnTile_Op<"load_rows"> {
  let summary = "Loads one value a row from a tensor of statistics";
  let description = [{
    `fragment[r] = source[indices…, first + r]`, where `first` is the last index, for r < rows, and `padding` for the others.

    Constraints:
    - (LR1) there is an index for each dimension of the source, whose elements are f32; fragment is a rows fragment.

    Example:
    ```mlir
    attn_tile.load_rows %lse[%b, %h, %q_begin] rows(%rows) padding(%infinity) to %row_lse
        : memref<?x?x?xf32>, !attn_tile.fragment<64xf32, rows, 4x1>
    ```
  }];
  let arguments = (ins ReadsGlobal:$source, Variadic<Index>:$indices, Index:$rows, F32:$padding, WritesFragment:$fragment);
  let assemblyFormat = [{
    $source `[` $indices `]` `rows` `(` $rows `)` `padding` `(` $padding `)` `to` $fragment attr-dict
    `:` type($source) `,` type($fragment)
  }];
  let hasVerifier = 1;
}

def AttnTile_LoadColumnsOp : AttnTile_Op<"load_columns"> {
  let summary = "Loads one value a column from a tensor";
  let description = [{
    `fragment[c] = source[indices…, first + c]`, where `first` is the last index. What lies outside the source is some element
    of it, as of a `memref.load` in the region of a map, or 0 where it has none.

    Constraints:
    - (LC1) there is an index for each dimension of the source, at least one; fragment is a columns fragment of its element
      type.

    Example:
    ```mlir
    attn_tile.load_columns %documents[%b, %kv_begin] to %of_key : memref<?x?xi32>, !attn_tile.fragment<128xi32, columns, 8x1>
    ```
  }];
  let arguments = (ins ReadsGlobal:$source, Variadic<Index>:$indices, WritesFragment:$fragment);
  let assemblyFormat = "$source `[` $indices `]` `to` $fragment attr-dict `:` type($source) `,` type($fragment)";
  let hasVerifier = 1;
}

def AttnTile_RowDotOp : AttnTile_Op<"row_dot", [AllTypesMatch<["a", "b"]>]> {
  let summary = "Adds the dot product of each row of two shared tiles to its value in a rows fragment";
  let description = [{
    `rows[r] += sum_c a[r, c] * b[r, c]` in f32. Each thread of a row adds the columns that are its own: a later
    `attn_tile.row_combine` makes the values those of the whole row.

    Constraints:
    - (RD1) a and b have two dimensions, and as many rows as the rows fragment.

    Example:
    ```mlir
    attn_tile.row_dot %d_out_tile, %out_tile into %delta
        : !attn_tile.shared<64x128xbf16>, !attn_tile.fragment<64xf32, rows, 4x1>
    ```
  }];
  let arguments = (ins ReadsShared:$a, ReadsShared:$b, UpdatesFragment:$rows);
  let assemblyFormat = "$a `,` $b `into` $rows attr-dict `:` type($a) `,` type($rows)";
  let hasVerifier = 1;
}

def AttnTile_MergeWarpsOp : AttnTile_Op<"merge_warps"> {
  let summary = "Merges the attention that each warp computed over keys of its own";
  let description = [{
    `part` and `part_lse` are of each warp: the normalised output of its keys, and their lse. `out` and `lse` become those of the
    keys of all of them, by the rule of `attn.merge`, divided among the warps of the block. Through `scratch` and `lse_scratch`; the block is
    synchronised before they are written, and before they are read.

    Constraints:
    - (MW1) part and out are accumulators of one shape, part of 1x1 warps and out of 1xW; part_lse and lse are their rows.
    - (MW2) scratch and lse_scratch are vectors of f32, with W times the elements of part and of part_lse.

    Example:
    ```mlir
    attn_tile.merge_warps %part, %part_lse into %out, %lse through %scratch, %lses
        : !attn_tile.fragment<16x64xf32, accumulator, 1x1>, !attn_tile.fragment<16xf32, rows, 1x1>,
          !attn_tile.fragment<16x64xf32, accumulator, 1x4>, !attn_tile.fragment<16xf32, rows, 1x4>,
          !attn_tile.shared<4096xf32>, !attn_tile.shared<64xf32>
    ```
  }];
  let arguments = (ins ReadsFragment:$part, ReadsFragment:$part_lse, WritesFragment:$out, WritesFragment:$lse,
                       UpdatesShared:$scratch, UpdatesShared:$lse_scratch);
  let assemblyFormat = [{
    $part `,` $part_lse `into` $out `,` $lse `through` $scratch `,` $lse_scratch attr-dict
    `:` type($part) `,` type($part_lse) `,` type($out) `,` type($lse) `,` type($scratch) `,` type($lse_scratch)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

def AttnTile_DivisorOp : AttnTile_Op<"divisor", [Pure]> {
  let summary = "Makes a number one to divide by";
  let description = [{
    Where many numbers are divided by one that is not known before the kernel runs: a multiplication and a shift for each, a
    division for the divisor (Granlund and Montgomery 1994). A division takes some 150 cycles on a GPU. The number is from 1 to 2^31 - 1.

    Example: `%by_blocks = attn_tile.divisor %num_blocks : !attn_tile.divisor`
  }];
  let arguments = (ins Index:$number);
  let results = (outs AttnTile_DivisorType:$divisor);
  let assemblyFormat = "$number attr-dict `:` type($divisor)";
}

def AttnTile_DivideOp : AttnTile_Op<"divide", [Pure]> {
  let summary = "Divides a number from 0 to 2^31 - 1";
  let description = [{
    The result is rounded down.

    Example: `%head = attn_tile.divide %tile by %by_blocks : !attn_tile.divisor`
  }];
  let arguments = (ins Index:$dividend, AttnTile_DivisorType:$divisor);
  let results = (outs Index:$quotient);
  let assemblyFormat = "$dividend `by` $divisor attr-dict `:` type($divisor)";
}

//===----------------------------------------------------------------------===//
// On the host
//===----------------------------------------------------------------------===//

def AttnTile_LaunchPlan : Resource<"::attn::tile::LaunchPlan">;

def AttnTile_TakeIfOp : AttnTile_Op<"take_if", [MemoryEffects<[MemWrite<AttnTile_LaunchPlan>]>]> {
  let summary = "Says for which calls the way in which a function was lowered is meant";
  let description = [{
    Stands in a function that launches kernels. A function may be lowered in several ways, the variants of a launch plan:
    a call takes the first one of which all conditions hold. `name` is what the plan calls such a variant.

    Constraints:
    - (TI1) name is a C++ identifier.

    Example: `attn_tile.take_if %pays "split_kv"`
  }];
  let arguments = (ins I1:$condition, StrAttr:$name);
  let assemblyFormat = "$condition $name attr-dict";
  let hasVerifier = 1;
}

#endif // ATTN_DIALECT_ATTNTILEOPS_TD
