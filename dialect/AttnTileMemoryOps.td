//===- AttnTileMemoryOps.td - from and to memory ---------------------------*- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTNTILEMEMORYOPS_TD
#define ATTN_DIALECT_ATTNTILEMEMORYOPS_TD

include "dialect/AttnTileDialect.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class AttnTile_Op<string mnemonic, list<Trait> traits = []> : Op<AttnTile_Dialect, mnemonic, traits>;

def AttnTile_RegisterFile : Resource<"::attn::tile::RegisterFile">;
def AttnTile_SharedMemory : Resource<"::attn::tile::SharedMemory">;

class AttnTile_SharedArg<list<MemoryEffect> effects> : Arg<AttnTile_SharedType, "", effects>;
class AttnTile_FragmentArg<list<MemoryEffect> effects> : Arg<AttnTile_FragmentType, "", effects>;

def ReadsShared : AttnTile_SharedArg<[MemRead<AttnTile_SharedMemory>]>;
def WritesShared : AttnTile_SharedArg<[MemWrite<AttnTile_SharedMemory>]>;
def UpdatesShared : AttnTile_SharedArg<[MemRead<AttnTile_SharedMemory>, MemWrite<AttnTile_SharedMemory>]>;
def ReadsFragment : AttnTile_FragmentArg<[MemRead<AttnTile_RegisterFile>]>;
def WritesFragment : AttnTile_FragmentArg<[MemWrite<AttnTile_RegisterFile>]>;
def UpdatesFragment : AttnTile_FragmentArg<[MemRead<AttnTile_RegisterFile>, MemWrite<AttnTile_RegisterFile>]>;
def UsesScratch : Arg<Optional<AttnTile_SharedType>, "",
                      [MemRead<AttnTile_SharedMemory>, MemWrite<AttnTile_SharedMemory>]>;
def ReadsGlobal : Arg<AnyStridedMemRef, "", [MemRead]>;
def WritesGlobal : Arg<AnyStridedMemRef, "", [MemWrite]>;

//===----------------------------------------------------------------------===//
// Global memory to shared memory
//===----------------------------------------------------------------------===//

def AttnTile_TensorMapOp : AttnTile_Op<"tensor_map", [Pure]> {
  let summary = "Describes a tensor to the tensor memory accelerator";
  let description = [{
    Stands in a function that launches kernels, one of which takes the map (PTX ISA, `cp.async.bulk.tensor`). The coordinates
    of a box in `(batch, heads, length, dim)` are, innermost first, (column, row, head, batch); rows and columns beyond the
    tensor's are read as zeros and not written. A tensor of fewer dimensions has 1 of each that it lacks in front.

    Base and strides but the last must be multiples of 16 bytes, strides not negative: a condition of the variant.
    Nothing may be read or written through the map of a tensor without elements.

    Constraints:
    - (TM2) the buffer has two to four dimensions, the last with stride 1, and the map's element type.

    Example:
    ```mlir
    %key_map = attn_tile.tensor_map %key
        : memref<?x4x?x128xbf16, strided<[?, ?, ?, 1], offset: ?>> to !attn_tile.tensor_map<128x64xbf16>
    ```
  }];
  let arguments = (ins AnyStridedMemRef:$buffer);
  let results = (outs AttnTile_TensorMapType:$map);
  let assemblyFormat = "$buffer attr-dict `:` type($buffer) `to` type($map)";
  let hasVerifier = 1;
}

def AttnTile_CopyAsyncOp : AttnTile_Op<"copy_async", [AttrSizedOperandSegments]> {
  let summary = "Starts copying rows of a tensor to a shared tile";
  let description = [{
    Row r of the tile becomes `source[indices…, first + r, :]`, where `first` is the last index, for r < rows; rows from
    there and columns beyond the source's are filled with zeros. `rows` may be negative or larger than the tile. The copy
    belongs to the group that the next `attn_tile.copy_commit` closes, and is seen by a thread after the
    `attn_tile.copy_wait` that waits for it, by other threads after a barrier too.

    With `aligned`, base, row stride and row length are multiples of 16 bytes, and the copy is made by 16-byte `cp.async`;
    without it, element by element and done when the operation returns.

    With `by_warp` each warp copies a tile of its own, and only its lanes see it after a barrier of the warp
    (`attn_tile.warp_barrier`).

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
                       UnitAttr:$by_warp, Optional<Index>:$group);
  let assemblyFormat = [{
    $source `[` $indices `]` (`packed` `(` $group^ `)`)? `rows` `(` $rows `)` `to` $tile (`aligned` $aligned^)?
    (`by_warp` $by_warp^)? attr-dict `:` type($source) `,` type($tile)
  }];
  let builders = [
    OpBuilder<(ins "::mlir::Value":$source, "::mlir::ValueRange":$indices, "::mlir::Value":$rows, "::mlir::Value":$tile,
                   "bool":$aligned, CArg<"bool", "false">:$byWarp),
              [{ build($_builder, $_state, source, indices, rows, tile, aligned, byWarp, ::mlir::Value()); }]>
  ];
  let hasVerifier = 1;
}

def AttnTile_CopyFiniteOp : AttnTile_Op<"copy_finite"> {
  let summary = "Copies rows of a tensor to a shared tile, without infinities and NaNs";
  let description = [{
    As `attn_tile.copy_async` without `aligned`, but with 0 for what is not finite, which `attn_tile.add_non_finite` takes care
    of. Element by element, done when the operation returns; other threads see it after a barrier. `by_warp` is as there.

    Constraints:
    - (CF1) there is an index for each dimension of the source but the last; source and tile have the same element type.
    - (CF2) the last dimension of the source is static, has stride 1 and at most the tile's columns.

    Example:
    ```mlir
    attn_tile.copy_finite %value[%b, %h, %kv_begin] rows(%rows) to %value_tile
        : memref<?x4x?x128xbf16, strided<[?, ?, ?, 1], offset: ?>>, !attn_tile.shared<64x128xbf16>
    ```
  }];
  let arguments = (ins ReadsGlobal:$source, Variadic<Index>:$indices, Index:$rows, WritesShared:$tile, UnitAttr:$by_warp);
  let assemblyFormat = [{
    $source `[` $indices `]` `rows` `(` $rows `)` `to` $tile (`by_warp` $by_warp^)? attr-dict `:` type($source) `,` type($tile)
  }];
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
// Who waits for whom
//===----------------------------------------------------------------------===//

def AttnTile_WarpBarrierOp : AttnTile_Op<"warp_barrier", [
    MemoryEffects<[MemRead<AttnTile_SharedMemory>, MemWrite<AttnTile_SharedMemory>]>]> {
  let summary = "Waits for the lanes of the warp";
  let description = [{
    What one of them wrote to shared memory before, the others see after it. `gpu.barrier` does the same for the block.

    Example: `attn_tile.warp_barrier`
  }];
  let assemblyFormat = "attr-dict";
}

class AttnTile_KernelOrderOp<string mnemonic>
    : AttnTile_Op<mnemonic, [MemoryEffects<[MemRead, MemWrite, MemWrite<AttnTile_SharedMemory>]>]> {
  let assemblyFormat = "attr-dict";
}

def AttnTile_AwaitKernelsOp : AttnTile_KernelOrderOp<"await_kernels"> {
  let summary = "Waits until the kernels launched before are done, and their memory is written";
  let description = [{
    A kernel with this operation may start while the kernel before it still runs (PTX ISA, `griddepcontrol.wait`; "programmatic
    dependent launch"): it is there when that ends. Nothing that others write may be touched before. For sm_90 and later.

    Example: `attn_tile.await_kernels`
  }];
}

def AttnTile_ReleaseKernelsOp : AttnTile_KernelOrderOp<"release_kernels"> {
  let summary = "Lets the kernel launched next start, if it waits for this one itself";
  let description = [{
    Once all blocks have come here, or ended (PTX ISA, `griddepcontrol.launch_dependents`). Without it they do at the end. For
    sm_90 and later.

    Example: `attn_tile.release_kernels`
  }];
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

def AttnTile_LoadOperandOp : AttnTile_Op<"load_operand", [AttrSizedOperandSegments]> {
  let summary = "Loads a left operand of products from rows of a tensor";
  let description = [{
    `fragment[r, c] = source[indices…, first + r, c]`, where `first` is the last index, for r < rows; other rows, and columns
    beyond the source's, are 0. `packed(%group)` says of the source what it says of that of `attn_tile.copy_async`, and so does
    `aligned`, without which elements are loaded one by one.

    Constraints:
    - (LO1) there is an index for each dimension of the source but the last; source and fragment have the same element type.
    - (LO2) the last dimension of the source is static, has stride 1 and at most the fragment's columns.
    - (LO3) with `packed` there are at least two indices.
    - (LO4) fragment is an `operand_a` of 16 bits.

    Example:
    ```mlir
    attn_tile.load_operand %query[%b, %h, %first] packed(%group) rows(%rows) to %query_rows aligned
        : memref<?x16x?x128xbf16, strided<[?, ?, ?, 1], offset: ?>>, !attn_tile.fragment<16x128xbf16, operand_a, 1x1>
    ```
  }];
  let arguments = (ins ReadsGlobal:$source, Variadic<Index>:$indices, Index:$rows, WritesFragment:$fragment,
                       UnitAttr:$aligned, Optional<Index>:$group);
  let assemblyFormat = [{
    $source `[` $indices `]` (`packed` `(` $group^ `)`)? `rows` `(` $rows `)` `to` $fragment (`aligned` $aligned^)? attr-dict
    `:` type($source) `,` type($fragment)
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

#endif // ATTN_DIALECT_ATTNTILEMEMORYOPS_TD
