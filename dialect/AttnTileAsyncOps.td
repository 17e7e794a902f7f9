//===- AttnTileAsyncOps.td - roles, pipelines and asynchronous products ----*- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What kernels of the hopper schedule family have beyond those of the portable one: warpgroups with roles,
// copies by the tensor memory accelerator that signal barriers, and products that run while their warpgroup
// goes on.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTNTILEASYNCOPS_TD
#define ATTN_DIALECT_ATTNTILEASYNCOPS_TD

include "dialect/AttnTileMemoryOps.td"
include "mlir/IR/OpAsmInterface.td"

def AttnTile_Barriers : Resource<"::attn::tile::Barriers">;

class AttnTile_BarrierOp<string mnemonic, list<Trait> traits = []>
    : AttnTile_Op<mnemonic, !listconcat(traits, [MemoryEffects<[MemWrite<AttnTile_Barriers>, MemWrite<AttnTile_SharedMemory>,
                                                              MemWrite<AttnTile_RegisterFile>]>])>;

//===----------------------------------------------------------------------===//
// Roles
//===----------------------------------------------------------------------===//

def AttnTile_WarpSpecializeOp : AttnTile_Op<"warp_specialize", [
    SingleBlockImplicitTerminator<"YieldOp">, RecursiveMemoryEffects]> {
  let summary = "Divides the warps of a block into consumers, a producer and a storer";
  let description = [{
    The first `consumers` warpgroups (of 128 threads) execute the consumer region. The last one has the producer, one thread
    of its first warp, and the storer, its second warp, where there is such a region. The registers of the block are divided
    anew: a consumer thread has `consumer_registers`, one of the last warpgroup `producer_registers` (PTX ISA,
    `setmaxnreg`). Inside the regions there is no `gpu.barrier`: the roles meet only in pipelines and work queues.

    Fragments of the consumers are divided among their warps, `4 * consumers`; a warpgroup holds 64 consecutive rows.

    Constraints:
    - (WS1) there are 1 to 3 consumers, and the block has `4 * (consumers + 1)` warps.
    - (WS2) the numbers of registers are multiples of 8 from 24 to 256; those of all threads are at most what the block is
      launched with: with T threads in the blocks of a multiprocessor, `floor8(65536 / T)` each. A consumer has no fewer than these: it asks for more of
      them, and the producer gives some back.
    - (WS3) no `gpu.barrier` and no `gpu.all_reduce` stands in the regions: it would wait for threads that never come.
    - (WS4) the pipelines that are used in them have the same consumers, and are not `stored` without a storer; work queues have
      the warps of the consumers, and of the storer if there is one.

    Example:
    ```mlir
    attn_tile.warp_specialize consumers(2) registers(232) {
      %key_tile = attn_tile.pipeline_wait %keys "key_tile" : !attn_tile.pipeline<2x128x128xbf16, 2>
      …
    } producer registers(40) {
      %key_slot = attn_tile.pipeline_acquire %keys "key_slot" : !attn_tile.pipeline<2x128x128xbf16, 2>
      …
    } storer {
      %output_tile = attn_tile.pipeline_wait %queries "output_tile" : !attn_tile.pipeline<2x128x128xbf16, 2, stored>
      …
    }
    ```
  }];
  let arguments = (ins I64Attr:$consumers, I64Attr:$consumer_registers, I64Attr:$producer_registers);
  let regions = (region SizedRegion<1>:$consumer, SizedRegion<1>:$producer, MaxSizedRegion<1>:$storer);
  let assemblyFormat = [{
    `consumers` `(` $consumers `)` `registers` `(` $consumer_registers `)` $consumer
    `producer` `registers` `(` $producer_registers `)` $producer (`storer` $storer^)? attr-dict
  }];
  let extraClassDeclaration = [{
    /// Whether an operation stands in the storer region of one.
    static bool isInStorer(::mlir::Operation *op);
  }];
  let hasVerifier = 1;
}

def AttnTile_OpenTurnsOp : AttnTile_BarrierOp<"open_turns"> {
  let summary = "Gives the first turn to the first consumer warpgroup";
  let description = [{
    Consumer warpgroups take turns at issuing products, so that the products of one run while the others compute
    probabilities (FlashAttention-3, section 3.1). Stands once, before all `attn_tile.take_turn`.

    Constraints:
    - (TN1) `open_turns`, `take_turn` and `pass_turn` stand in the consumer region of an `attn_tile.warp_specialize`.

    Example: `attn_tile.open_turns`
  }];
  let assemblyFormat = "attr-dict";
  let hasVerifier = 1;
}

def AttnTile_TakeTurnOp : AttnTile_BarrierOp<"take_turn"> {
  let summary = "Waits until it is the turn of the executing warpgroup";
  let description = [{
    Every warpgroup takes and passes as many turns as the others: they wait for each other in a circle.

    Example: `attn_tile.take_turn`
  }];
  let assemblyFormat = "attr-dict";
  let hasVerifier = 1;
}

def AttnTile_PassTurnOp : AttnTile_BarrierOp<"pass_turn"> {
  let summary = "Gives the turn to the next consumer warpgroup";
  let description = "Example: `attn_tile.pass_turn`";
  let assemblyFormat = "attr-dict";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Pipelines
//===----------------------------------------------------------------------===//

def AttnTile_PipelineAllocOp : AttnTile_Op<"pipeline_alloc", [
    MemoryEffects<[MemAlloc<AttnTile_SharedMemory>]>, DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "A ring of shared tiles that a producer fills and consumers, or a storer after them, empty";
  let description = [{
    Each slot has two barriers (PTX ISA, `mbarrier`): one says that its tile has arrived, the other that every consumer
    warpgroup is done with it. Which slot is next, and which phase of its barriers, each role remembers for itself.

    The producer, for each tile: `pipeline_acquire`, copies into the slot, `pipeline_commit`. A consumer: `pipeline_wait`,
    whatever reads the tile, `pipeline_release`. Both sides go through the slots in order, one at a time, and through the same
    number of tiles.

    A pipeline that is `stored` has a third barrier: it says that the consumers have written a tile of their own over the one
    that arrived (`attn_tile.store_panels`) and released it. The storer, for each: `pipeline_wait`, `attn_tile.store_bulk`,
    `pipeline_release`, which waits until the copies have read the slot and gives it to the producer.

    `offset` and `barrier_offset`, in bytes from the start of the block's shared memory, are set by
    `--attn-tile-place-shared`.

    Constraints:
    - (PA1) name is a C++ identifier.
    - (PA2) `pipeline_acquire`, `pipeline_commit` and `copy_bulk` stand in the producer region of an
      `attn_tile.warp_specialize`, `pipeline_wait` and `pipeline_release` in its consumer or storer region.
    - (PA3) in the storer region they are of a pipeline that is `stored`.

    Example: `%keys = attn_tile.pipeline_alloc "keys" : !attn_tile.pipeline<2x128x128xbf16, 2>`
  }];
  let arguments = (ins StrAttr:$name, OptionalAttr<I64Attr>:$offset, OptionalAttr<I64Attr>:$barrier_offset);
  let results = (outs AttnTile_PipelineType:$pipeline);
  let assemblyFormat = [{
    $name (`offset` `(` $offset^ `)`)? (`barriers` `(` $barrier_offset^ `)`)? attr-dict `:` type($pipeline)
  }];
  let hasVerifier = 1;
}

class AttnTile_PipelineSlotOp<string mnemonic> : AttnTile_BarrierOp<mnemonic, [
    TypesMatchWith<"the tile is one of the pipeline", "pipeline", "tile",
                   "::llvm::cast<::attn::tile::PipelineType>($_self).getTileType()">,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let arguments = (ins AttnTile_PipelineType:$pipeline, StrAttr:$name);
  let results = (outs AttnTile_PanelsType:$tile);
  let assemblyFormat = "$pipeline $name attr-dict `:` type($pipeline)";
  let hasVerifier = 1;
}

def AttnTile_PipelineAcquireOp : AttnTile_PipelineSlotOp<"pipeline_acquire"> {
  let summary = "The producer's next slot, once all consumers, or the storer, have released it";
  let description = [{
    Announces the bytes of a whole tile to the slot's barrier: the copies that follow must fill it.

    Constraints:
    - (PS1) name is a C++ identifier.

    Example: `%slot = attn_tile.pipeline_acquire %keys "key_slot" : !attn_tile.pipeline<2x128x128xbf16, 2>`
  }];
}

def AttnTile_PipelineWaitOp : AttnTile_PipelineSlotOp<"pipeline_wait"> {
  let summary = "A consumer's next tile, once it has arrived; the storer's, once all consumers have released it";
  let description = "Example: `%key_tile = attn_tile.pipeline_wait %keys \"key_tile\" : !attn_tile.pipeline<2x128x128xbf16, 2>`";
}

def AttnTile_PipelineCommitOp : AttnTile_BarrierOp<"pipeline_commit"> {
  let summary = "Goes on to the producer's next slot";
  let description = "Example: `attn_tile.pipeline_commit %keys : !attn_tile.pipeline<2x128x128xbf16, 2>`";
  let arguments = (ins AttnTile_PipelineType:$pipeline);
  let assemblyFormat = "$pipeline attr-dict `:` type($pipeline)";
  let hasVerifier = 1;
}

def AttnTile_PipelineReleaseOp : AttnTile_BarrierOp<"pipeline_release"> {
  let summary = "Says that the executing warpgroup, or the storer, is done with its tile, and goes on to the next slot";
  let description = [{
    Products that read the tile have to be finished (`attn_tile.mma_wait`). The storer waits until its copies have read it. Of a
    pipeline that is `loaded` each warp says so for itself.

    Example: `attn_tile.pipeline_release %keys : !attn_tile.pipeline<2x128x128xbf16, 2>`
  }];
  let arguments = (ins AttnTile_PipelineType:$pipeline);
  let assemblyFormat = "$pipeline attr-dict `:` type($pipeline)";
  let hasVerifier = 1;
}

def AttnTile_CopyBulkOp : AttnTile_BarrierOp<"copy_bulk", [AttrSizedOperandSegments]> {
  let summary = "Starts copying a tile by the tensor memory accelerator";
  let description = [{
    Row r of the tile becomes `tensor[indices…, first + r, :]`, where `first` is the last index; what lies beyond the tensor is
    filled with zeros. With `column` the columns of the tensor are counted from that one on. The copy signals the barrier of the
    pipeline's slot, which is the tile (PTX ISA, `cp.async.bulk.tensor`). One thread executes it.

    Constraints:
    - (CB1) the boxes of the map have the rows and the element type of the tile, and the columns of a panel; the tile is one
      of the pipeline; there are three indices.

    Example:
    ```mlir
    attn_tile.copy_bulk %key_map[%b, %h, %kv_begin] to %slot signals %keys
        : !attn_tile.tensor_map<128x64xbf16>, !attn_tile.panels<128x128xbf16>, !attn_tile.pipeline<2x128x128xbf16, 2>
    ```
  }];
  let arguments = (ins AttnTile_TensorMapType:$map, Variadic<Index>:$indices, Optional<Index>:$column,
                       AttnTile_PanelsType:$tile, AttnTile_PipelineType:$pipeline);
  let assemblyFormat = [{
    $map `[` $indices `]` (`column` `(` $column^ `)`)? `to` $tile `signals` $pipeline attr-dict `:` type($map) `,` type($tile) `,` type($pipeline)
  }];
  let hasVerifier = 1;
}

def AttnTile_LoadPanelsOp : AttnTile_BarrierOp<"load_panels"> {
  let summary = "Consumers load their rows of a tile of a pipeline that is loaded";
  let description = [{
    Each warp its own rows, into registers, as `ldmatrix` loads an operand of a product; elements are then at the places of
    those of an accumulator of the same shape, two in a register (`attn_tile.map`).

    Constraints:
    - (LP1) the fragment is an `operand_a` of the shape and the element type of the tile, of which a warp has 16 rows.
    - (LP2) the tile is what `pipeline_wait` gave of a pipeline that is `loaded`.

    Example:
    ```mlir
    attn_tile.load_panels %bias_tile to %bias
        : !attn_tile.panels<128x128xbf16>, !attn_tile.fragment<128x128xbf16, operand_a, 8x1>
    ```
  }];
  let arguments = (ins AttnTile_PanelsType:$tile, AttnTile_FragmentType:$fragment);
  let assemblyFormat = "$tile `to` $fragment attr-dict `:` type($tile) `,` type($fragment)";
  let hasVerifier = 1;
}

def AttnTile_StorePanelsOp : AttnTile_BarrierOp<"store_panels"> {
  let summary = "Consumers write an accumulator, rounded, over their tile of a pipeline that is stored";
  let description = [{
    Over the one that `pipeline_wait` gave and that is not released yet: each warp its own rows, in the order of panels, for
    the tensor memory accelerator to read once `pipeline_release` has given them to the storer. Products that read the tile
    have to be finished (`attn_tile.mma_wait`).

    Constraints:
    - (SP1) the fragment is an accumulator of as many rows as the tiles of the pipeline, which is stored, has no more panels, and
      a multiple of 16 columns; its warps are those of the consumers, in one column.
    - (SP2) it stands in the consumer region of an `attn_tile.warp_specialize`.

    Example:
    ```mlir
    attn_tile.store_panels %output to %queries
        : !attn_tile.fragment<128x128xf32, accumulator, 8x1>, !attn_tile.pipeline<2x128x128xbf16, 2, stored>
    ```
  }];
  let arguments = (ins AttnTile_FragmentType:$fragment, AttnTile_PipelineType:$pipeline);
  let assemblyFormat = "$fragment `to` $pipeline attr-dict `:` type($fragment) `,` type($pipeline)";
  let hasVerifier = 1;
}

def AttnTile_StoreBulkOp : AttnTile_BarrierOp<"store_bulk"> {
  let summary = "Starts storing a tile by the tensor memory accelerator";
  let description = [{
    `tensor[indices…, first + r, :]` becomes row r of the tile, where `first` is the last index; what lies beyond the tensor is
    dropped (PTX ISA, `cp.async.bulk.tensor`). The tile must not be written until the `pipeline_release` that follows.

    Constraints:
    - (SB1) the boxes of the map have the rows and the element type of the tile, and the columns of a panel; there are three
      indices.
    - (SB2) it stands in the storer region of an `attn_tile.warp_specialize`.

    Example:
    ```mlir
    attn_tile.store_bulk %output_tile to %out_map[%b, %h, %q_begin]
        : !attn_tile.panels<128x128xbf16>, !attn_tile.tensor_map<128x64xbf16>
    ```
  }];
  let arguments = (ins AttnTile_PanelsType:$tile, AttnTile_TensorMapType:$map, Variadic<Index>:$indices);
  let assemblyFormat = "$tile `to` $map `[` $indices `]` attr-dict `:` type($tile) `,` type($map)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Which tile is next
//===----------------------------------------------------------------------===//

def AttnTile_WorkQueueAllocOp : AttnTile_Op<"work_queue_alloc", [
    MemoryEffects<[MemAlloc<AttnTile_SharedMemory>]>, DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "A queue of tile numbers between the producer and the other roles";
  let description = [{
    Blocks of the grid that stay draw the tiles that they work on from one counter, so that none waits for the others where
    tiles take different times. `offset`, in bytes, is set by `--attn-tile-place-shared`.

    Constraints:
    - (WQ1) name is a C++ identifier.
    - (WQ2) `work_draw` stands in the producer region of an `attn_tile.warp_specialize`, `work_take` in its consumer or
      storer region.

    Example: `%queue = attn_tile.work_queue_alloc "tiles" : !attn_tile.work_queue<8>`
  }];
  let arguments = (ins StrAttr:$name, OptionalAttr<I64Attr>:$offset);
  let results = (outs AttnTile_WorkQueueType:$queue);
  let assemblyFormat = "$name (`offset` `(` $offset^ `)`)? attr-dict `:` type($queue)";
  let hasVerifier = 1;
}

def AttnTile_WorkDrawOp : AttnTile_BarrierOp<"work_draw"> {
  let summary = "The producer draws the next number and tells the other roles";
  let description = [{
    The first draw gives the number of blocks of the grid, the next one that plus 1: every block begins with the tile of its own number,
    and draws once for each tile that it has. The counter, the first `i32`, is 0 when the kernel starts, and when it ends: of `count`
    tiles, the last draw of all sets it back.

    Example: `%tile = attn_tile.work_draw %queue from %counter of %count : !attn_tile.work_queue<8>, memref<1xi32>`
  }];
  let arguments = (ins AttnTile_WorkQueueType:$queue, Arg<AnyStridedMemRef, "", [MemRead, MemWrite]>:$counter, Index:$count);
  let results = (outs Index:$number);
  let assemblyFormat = "$queue `from` $counter `of` $count attr-dict `:` type($queue) `,` type($counter)";
  let hasVerifier = 1;
}

def AttnTile_WorkTakeOp : AttnTile_BarrierOp<"work_take"> {
  let summary = "The number that the producer drew next";
  let description = "Example: `%tile = attn_tile.work_take %queue : !attn_tile.work_queue<8>`";
  let arguments = (ins AttnTile_WorkQueueType:$queue);
  let results = (outs Index:$number);
  let assemblyFormat = "$queue attr-dict `:` type($queue)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Asynchronous products
//===----------------------------------------------------------------------===//

def AttnTile_MmaCommitOp : AttnTile_BarrierOp<"mma_commit"> {
  let summary = "Closes a group of asynchronous products";
  let description = [{
    Products of the atom `wgmma` since the last group (PTX ISA, `wgmma.commit_group`).

    Example: `attn_tile.mma_commit`
  }];
  let assemblyFormat = "attr-dict";
}

def AttnTile_MmaWaitOp : AttnTile_BarrierOp<"mma_wait"> {
  let summary = "Waits until at most `pending` of the newest groups of products are unfinished";
  let description = [{
    Names the fragments that may be used from here on: accumulators that the finished products wrote and operands that they
    read. Until then nothing may touch them.

    Example: `attn_tile.mma_wait pending(1) %scores : !attn_tile.fragment<128x128xf32, accumulator, 8x1>`
  }];
  let arguments = (ins ConfinedAttr<I64Attr, [IntNonNegative]>:$pending, Variadic<AttnTile_FragmentType>:$fragments);
  let assemblyFormat = "`pending` `(` $pending `)` ($fragments^ `:` type($fragments))? attr-dict";
}

#endif // ATTN_DIALECT_ATTNTILEASYNCOPS_TD
