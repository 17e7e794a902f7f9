//===- AttnTileOps.td - operations of the attn_tile dialect ----------------*- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTNTILEOPS_TD
#define ATTN_DIALECT_ATTNTILEOPS_TD

include "dialect/AttnTileDialect.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class AttnTile_Op<string mnemonic, list<Trait> traits = []> : Op<AttnTile_Dialect, mnemonic, traits>;

def AttnTile_RegisterFile : Resource<"::attn::tile::RegisterFile">;
def AttnTile_SharedMemory : Resource<"::attn::tile::SharedMemory">;

class AttnTile_SharedArg<list<MemoryEffect> effects> : Arg<AttnTile_SharedType, "", effects>;
class AttnTile_FragmentArg<list<MemoryEffect> effects> : Arg<AttnTile_FragmentType, "", effects>;

def ReadsShared : AttnTile_SharedArg<[MemRead<AttnTile_SharedMemory>]>;
def WritesShared : AttnTile_SharedArg<[MemWrite<AttnTile_SharedMemory>]>;
def ReadsFragment : AttnTile_FragmentArg<[MemRead<AttnTile_RegisterFile>]>;
def WritesFragment : AttnTile_FragmentArg<[MemWrite<AttnTile_RegisterFile>]>;
def UpdatesFragment : AttnTile_FragmentArg<[MemRead<AttnTile_RegisterFile>, MemWrite<AttnTile_RegisterFile>]>;
def UsesScratch : Arg<Optional<AttnTile_SharedType>, "",
                      [MemRead<AttnTile_SharedMemory>, MemWrite<AttnTile_SharedMemory>]>;
def ReadsGlobal : Arg<AnyStridedMemRef, "", [MemRead]>;
def WritesGlobal : Arg<AnyStridedMemRef, "", [MemWrite]>;

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
// Global memory to shared memory
//===----------------------------------------------------------------------===//

def AttnTile_CopyAsyncOp : AttnTile_Op<"copy_async", [AttrSizedOperandSegments]> {
  let summary = "Starts copying rows of a tensor to a shared tile";
  let description = [{
    Row r of the tile becomes `source[indices…, first + r, :]`, where `first` is the last index, for r < rows; rows from
    there and columns beyond the source's are filled with zeros. `rows` may be negative or larger than the tile. The copy
    belongs to the group that the next `attn_tile.copy_commit` closes, and is seen by a thread after the
    `attn_tile.copy_wait` that waits for it, by other threads after a barrier too.

    With `aligned`, base, row stride and row length are multiples of 16 bytes, and the copy is made by 16-byte `cp.async`;
    without it, element by element and done when the operation returns.

    With `packed(%group)` the rows are those of `group` consecutive heads, interleaved: row r of the tile becomes
    `source[…, head + (first + r) mod group, (first + r) floordiv group, :]`, where `head` is the index before `first`. So
    the query heads that share a key head share a tile.

    Constraints:
    - (CA1) there is an index for each dimension of the source but the last; source and tile have the same element type.
    - (CA2) the last dimension of the source is static, has stride 1 and at most the tile's columns.
    - (CA3) with `packed` there are at least two indices.

    Example:
    ```mlir
    attn_tile.copy_async %key[%b, %h, %kv_begin] rows(%rows) to %key_tile aligned
        : memref<?x4x?x128xbf16, strided<[?, ?, ?, 1], offset: ?>>, !attn_tile.shared<64x128xbf16>
    attn_tile.copy_async %query[%b, %h, %first] packed(%group) rows(%rows) to %query_tile aligned
        : memref<?x16x?x128xbf16, strided<[?, ?, ?, 1], offset: ?>>, !attn_tile.shared<64x128xbf16>
    ```
  }];
  let arguments = (ins ReadsGlobal:$source, Variadic<Index>:$indices, Index:$rows, WritesShared:$tile, UnitAttr:$aligned,
                       Optional<Index>:$group);
  let assemblyFormat = [{
    $source `[` $indices `]` (`packed` `(` $group^ `)`)? `rows` `(` $rows `)` `to` $tile (`aligned` $aligned^)? attr-dict
    `:` type($source) `,` type($tile)
  }];
  let builders = [
    OpBuilder<(ins "::mlir::Value":$source, "::mlir::ValueRange":$indices, "::mlir::Value":$rows, "::mlir::Value":$tile,
                   "bool":$aligned),
              [{ build($_builder, $_state, source, indices, rows, tile, aligned, ::mlir::Value()); }]>
  ];
  let hasVerifier = 1;
}

def AttnTile_CopyCommitOp : AttnTile_Op<"copy_commit", [MemoryEffects<[MemWrite<AttnTile_SharedMemory>]>]> {
  let summary = "Closes a group of asynchronous copies";
  let description = "PTX ISA, `cp.async.commit_group`. An empty group is a group. Example: `attn_tile.copy_commit`";
  let assemblyFormat = "attr-dict";
}

def AttnTile_CopyWaitOp : AttnTile_Op<"copy_wait", [MemoryEffects<[MemWrite<AttnTile_SharedMemory>]>]> {
  let summary = "Waits until at most `pending` of the newest groups of copies are unfinished";
  let description = [{
    PTX ISA, `cp.async.wait_group`: for the copies of the executing thread; a `gpu.barrier` makes them those of the block.

    Example: `attn_tile.copy_wait pending(1)`
  }];
  let arguments = (ins ConfinedAttr<I64Attr, [IntNonNegative]>:$pending);
  let assemblyFormat = "`pending` `(` $pending `)` attr-dict";
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

    Constraints:
    - (MM1) acc is an accumulator, b a 2-D shared tile, a a 2-D shared tile or an `operand_a` fragment (not transposed, the
      warps of acc, of one warp column).
    - (MM2) the dimensions match; K is a multiple of 16.
    - (MM3) a and b have the same element type, one of the atom's.

    Example: scores += query * key^T.
    ```mlir
    attn_tile.mma mma_sync %scores, %query, %key transpose_b
        : !attn_tile.fragment<128x64xf32, accumulator, 4x1>, !attn_tile.shared<128x128xbf16>, !attn_tile.shared<64x128xbf16>
    ```
  }];
  let arguments = (ins AttnTile_AtomAttr:$atom, UpdatesFragment:$acc,
                       Arg<AnyTypeOf<[AttnTile_SharedType, AttnTile_FragmentType]>, "",
                           [MemRead<AttnTile_SharedMemory>, MemRead<AttnTile_RegisterFile>]>:$a,
                       ReadsShared:$b, UnitAttr:$transpose_a, UnitAttr:$transpose_b);
  let assemblyFormat = [{
    $atom $acc `,` $a `,` $b (`transpose_a` $transpose_a^)? (`transpose_b` $transpose_b^)? attr-dict
    `:` type($acc) `,` type($a) `,` type($b)
  }];
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
    outs; it yields the new elements of the outs. An element of a `rows` fragment is that of the row. The region sees the
    values around it.

    A `rows` fragment among the outs makes all of them `rows`.

    Constraints:
    - (MP1) fragments of one layout have one type; `rows` fragments are those of its rows and warps (`getRowsType`).
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
                           [MemRead<AttnTile_RegisterFile>, MemWrite<AttnTile_RegisterFile>]>:$outs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    (`ins` `(` $ins^ `:` type($ins) `)`)? (`outs` `(` $outs^ `:` type($outs) `)`)? $body attr-dict
  }];
  let hasVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [
    /// `buildBody(builder, loc, indices, elements)` returns what the region yields.
    OpBuilder<(ins "::mlir::ValueRange":$ins, "::mlir::ValueRange":$outs,
      "::llvm::function_ref<::llvm::SmallVector<::mlir::Value>(::mlir::OpBuilder &, ::mlir::Location, ::mlir::ValueRange, ::mlir::ValueRange)>":$buildBody)>
  ];
}

def AttnTile_AnyOp : AttnTile_Op<"any", [
    SingleBlock, RecursiveMemoryEffects, DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>]> {
  let summary = "Whether something holds for any element that the warp has";
  let description = [{
    The region is executed as that of `attn_tile.map`, and yields an `i1`. The result is true where one of the elements of the
    warp that executes it gives true: all threads of a warp have the same result, so that a branch on it does not
    diverge, but warps may differ. There may be no barrier in such a branch.

    Constraints:
    - (AN1) fragments of one layout have one type; `rows` fragments are those of its rows and warps (`getRowsType`).
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

def AttnTile_YieldOp : AttnTile_Op<"yield", [Pure, Terminator, ParentOneOf<["MapOp", "AnyOp"]>]> {
  let summary = "Ends the region of a map with the new elements, or that of an any";
  let description = "Example: `attn_tile.yield %p : f32`";
  let arguments = (ins Variadic<AnyType>:$values);
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

    Several warp columns exchange their parts of a row through `scratch`; the operation then synchronises the block, before
    and after it is read.

    Constraints:
    - (RR1) source is an accumulator, rows its rows fragment.
    - (RR2) scratch stands exactly where rows has several warp columns and the operation is not partial: a vector with an
      element for each row and warp column.

    Example:
    ```mlir
    attn_tile.row_reduce max %scores into %row_max
        : !attn_tile.fragment<128x64xf32, accumulator, 4x1>, !attn_tile.fragment<128xf32, rows, 4x1>
    ```
  }];
  let arguments = (ins AttnTile_CombineAttr:$combine, ReadsFragment:$source, UpdatesFragment:$rows, UsesScratch:$scratch,
                       UnitAttr:$partial);
  let assemblyFormat = [{
    $combine $source `into` $rows (`partial` $partial^)? (`through` $scratch^)? attr-dict
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

//===----------------------------------------------------------------------===//
// Fragments from and to memory
//===----------------------------------------------------------------------===//

def AttnTile_LoadSharedOp : AttnTile_Op<"load_shared"> {
  let summary = "Reads a shared tile into an accumulator";
  let description = [{
    What `attn_tile.store_shared` wrote from a fragment of the same type needs no barrier: each warp reads what it wrote.

    Constraints:
    - (LS1) fragment is an accumulator and the 16-bit tile has its shape.

    Example:
    ```mlir
    attn_tile.load_shared %probabilities_tile to %probabilities
        : !attn_tile.shared<64x128xbf16>, !attn_tile.fragment<64x128xf32, accumulator, 2x4>
    ```
  }];
  let arguments = (ins ReadsShared:$tile, WritesFragment:$fragment);
  let assemblyFormat = "$tile `to` $fragment attr-dict `:` type($tile) `,` type($fragment)";
  let hasVerifier = 1;
}

def AttnTile_LoadOp : AttnTile_Op<"load"> {
  let summary = "Loads an accumulator from rows of an f32 tensor";
  let description = [{
    `fragment[r, c] = source[indices…, first + r, c]`, where `first` is the last index, for r < rows; other rows, and columns
    beyond the source's, are 0.

    With `opaque`, `source[indices…, :]` is what `attn_tile.atomic_add … opaque` of a fragment of the same type wrote, and
    `rows` means nothing.

    Constraints:
    - (LD1) there is an index for each dimension of the source but the last, which is static, has stride 1 and at most the
      fragment's columns; with `opaque`, it has as many as the fragment has elements. Its elements are f32, and the fragment is an accumulator.

    Example:
    ```mlir
    attn_tile.load %d_query_sum[%b, %h, %q_begin] rows(%rows) to %d_query
        : memref<?x16x?x128xf32>, !attn_tile.fragment<64x128xf32, accumulator, 4x1>
    ```
  }];
  let arguments = (ins ReadsGlobal:$source, Variadic<Index>:$indices, Index:$rows, WritesFragment:$fragment, UnitAttr:$opaque);
  let assemblyFormat = [{
    $source `[` $indices `]` `rows` `(` $rows `)` `to` $fragment (`opaque` $opaque^)? attr-dict `:` type($source) `,` type($fragment)
  }];
  let hasVerifier = 1;
}

def AttnTile_StoreSharedOp : AttnTile_Op<"store_shared"> {
  let summary = "Writes an accumulator to a shared tile, rounded to its element type";
  let description = [{
    Constraints:
    - (SS1) fragment is an accumulator and the tile has its shape.

    Example:
    ```mlir
    attn_tile.store_shared %d_scores to %d_scores_tile
        : !attn_tile.fragment<64x128xf32, accumulator, 4x2>, !attn_tile.shared<64x128xbf16>
    ```
  }];
  let arguments = (ins ReadsFragment:$fragment, WritesShared:$tile);
  let assemblyFormat = "$fragment `to` $tile attr-dict `:` type($fragment) `,` type($tile)";
  let hasVerifier = 1;
}

def AttnTile_StoreOp : AttnTile_Op<"store", [AttrSizedOperandSegments]> {
  let summary = "Writes an accumulator to rows of a tensor, rounded to its element type";
  let description = [{
    Row r goes to `target[indices…, first + r, :]`, where `first` is the last index, for r < rows; columns beyond the target's
    are dropped. With `via`, the rows go through a shared tile, so that global memory is written in whole lines; the
    operation then synchronises the block (before it writes the tile, too). `packed(%group)` says of the target what it says
    of the source of `attn_tile.copy_async`.

    Constraints:
    - (ST1) there is an index for each dimension of the target but the last, which is static, has stride 1 and at most the
      fragment's columns.
    - (ST2) fragment is an accumulator; the `via` tile has its shape and the target's element type.
    - (ST3) with `packed` there are at least two indices.

    Example:
    ```mlir
    attn_tile.store %output via %staging to %out[%b, %h, %q_begin] rows(%rows)
        : !attn_tile.fragment<128x128xf32, accumulator, 4x1>, memref<?x16x?x128xbf16, strided<[?, ?, ?, 1], offset: ?>>
          via !attn_tile.shared<128x128xbf16>
    ```
  }];
  let arguments = (ins ReadsFragment:$fragment, Arg<Optional<AttnTile_SharedType>, "", [MemWrite<AttnTile_SharedMemory>]>:$via, WritesGlobal:$target,
                       Variadic<Index>:$indices, Index:$rows, UnitAttr:$aligned, Optional<Index>:$group);
  let assemblyFormat = [{
    $fragment (`via` $via^)? `to` $target `[` $indices `]` (`packed` `(` $group^ `)`)? `rows` `(` $rows `)`
    (`aligned` $aligned^)? attr-dict `:` type($fragment) `,` type($target) (`via` type($via)^)?
  }];
  let builders = [
    OpBuilder<(ins "::mlir::Value":$fragment, "::mlir::Value":$via, "::mlir::Value":$target, "::mlir::ValueRange":$indices,
                   "::mlir::Value":$rows, "bool":$aligned),
              [{ build($_builder, $_state, fragment, via, target, indices, rows, aligned, ::mlir::Value()); }]>
  ];
  let hasVerifier = 1;
}

def AttnTile_StoreRowsOp : AttnTile_Op<"store_rows", [AttrSizedOperandSegments]> {
  let summary = "Writes a rows fragment to a tensor of statistics";
  let description = [{
    `target[indices…, first + r] = fragment[r]`, where `first` is the last index, for r < rows. `packed(%group)` says of the
    target what it says of the source of `attn_tile.copy_async`.

    Constraints:
    - (SO1) there is an index for each dimension of the target, whose elements are f32; fragment is a rows fragment.
    - (SO2) with `packed` there are at least two indices.

    Example:
    ```mlir
    attn_tile.store_rows %row_lse to %lse[%b, %h, %q_begin] rows(%rows) : !attn_tile.fragment<128xf32, rows, 4x1>, memref<?x?x?xf32>
    ```
  }];
  let arguments = (ins ReadsFragment:$fragment, WritesGlobal:$target, Variadic<Index>:$indices, Index:$rows,
                       Optional<Index>:$group);
  let assemblyFormat = [{
    $fragment `to` $target `[` $indices `]` (`packed` `(` $group^ `)`)? `rows` `(` $rows `)` attr-dict
    `:` type($fragment) `,` type($target)
  }];
  let builders = [
    OpBuilder<(ins "::mlir::Value":$fragment, "::mlir::Value":$target, "::mlir::ValueRange":$indices, "::mlir::Value":$rows),
              [{ build($_builder, $_state, fragment, target, indices, rows, ::mlir::Value()); }]>
  ];
  let hasVerifier = 1;
}

def AttnTile_AtomicAddOp : AttnTile_Op<"atomic_add"> {
  let summary = "Adds an accumulator to rows of an f32 tensor that other blocks add to as well";
  let description = [{
    As `attn_tile.store`, but `target[…] += …`, each element at once. The order of additions is unspecified.

    With `opaque`, the fragment is added to `target[indices…, :]` as a whole, in an order that only `attn_tile.load … opaque` of a
    fragment of the same type knows: whole lines, no positions and no bounds.

    Constraints:
    - (AA1) those of `attn_tile.load`, for the target.

    Example:
    ```mlir
    attn_tile.atomic_add %d_query to %d_query_sum[%b, %h, %q_begin] rows(%rows)
        : !attn_tile.fragment<64x128xf32, accumulator, 4x2>, memref<?x16x?x128xf32>
    ```
  }];
  let arguments = (ins ReadsFragment:$fragment, Arg<AnyStridedMemRef, "", [MemRead, MemWrite]>:$target,
                       Variadic<Index>:$indices, Index:$rows, UnitAttr:$opaque);
  let assemblyFormat = [{
    $fragment `to` $target `[` $indices `]` `rows` `(` $rows `)` (`opaque` $opaque^)? attr-dict `:` type($fragment) `,` type($target)
  }];
  let hasVerifier = 1;
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
