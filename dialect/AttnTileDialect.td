//===- AttnTileDialect.td - the attn_tile dialect, its types and attributes --*- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTNTILEDIALECT_TD
#define ATTN_DIALECT_ATTNTILEDIALECT_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"

def AttnTile_Dialect : Dialect {
  let name = "attn_tile";
  let cppNamespace = "::attn::tile";
  let summary = "One attention kernel on a GPU: tiles, fragments and what moves between them";
  let description = [{
    Says *how* one kernel runs. A kernel is a `gpu.func` in a `gpu.module`; its scalar code is arith, math, index, scf,
    memref and gpu operations, and what works on whole tiles is in this dialect. Code generation prints each operation as
    one statement, so the operations are the vocabulary of the emitted CUDA and of the device headers
    (`codegen/device/attn`).

    - Global memory is memrefs: `(batch, heads, length, dim)` with any strides but a unit last one.
    - A *tensor map* (`!attn_tile.tensor_map`) is what the tensor memory accelerator knows of a tensor; the host makes it.
    - A *shared tile* (`!attn_tile.shared`) is a piece of the block's shared memory.
    - A *fragment* (`!attn_tile.fragment`) is register storage that all threads of the block hold together; its layout says
      which thread holds which element. Fragments are storage, not values: operations update them in place, since SSA
      values cannot say what an asynchronous product still writes.

    Operations on tiles are collective: all threads of the block (of the warpgroup, where a kernel has roles) execute them.
    None synchronises threads beyond what it says: `gpu.barrier` stands where one thread's shared memory is read by another.
  }];
  let dependentDialects = ["::mlir::gpu::GPUDialect"];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let extraClassDeclaration = [{
    /// Name of the discardable attribute, on a kernel (a `gpu.func`), that holds its `#attn_tile.kernel`.
    static constexpr ::llvm::StringLiteral getKernelAttrName() { return "attn_tile.kernel"; }
    /// Name of the discardable unit attribute, on a `memref.alloc` around kernels, that says: where the memory is zero before
    /// the first of them, it is zero again after the last. Whoever keeps it between calls fills it once.
    static constexpr ::llvm::StringLiteral getLeftZeroAttrName() { return "attn_tile.left_zero"; }
  }];
}

//===----------------------------------------------------------------------===//
// Enumerations
//===----------------------------------------------------------------------===//

class AttnTile_Enum<string name, string summary, list<I32EnumAttrCase> cases> : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::attn::tile";
  let genSpecializedAttr = 0;
}

def AttnTile_Layout : AttnTile_Enum<"Layout", "which thread holds which element of a fragment", [
    I32EnumAttrCase<"accumulator", 0>, I32EnumAttrCase<"operand_a", 1>, I32EnumAttrCase<"rows", 2>,
    I32EnumAttrCase<"thread", 3>, I32EnumAttrCase<"columns", 4>]>;

def AttnTile_Atom : AttnTile_Enum<"Atom", "the instruction that a tile product is made of", [
    I32EnumAttrCase<"fma", 0>, I32EnumAttrCase<"mma_sync", 1>, I32EnumAttrCase<"mma_sync_tf32", 2>,
    I32EnumAttrCase<"wgmma", 3>]>;
def AttnTile_AtomAttr : EnumAttr<AttnTile_Dialect, AttnTile_Atom, "atom">;

def AttnTile_TileUse : AttnTile_Enum<"TileUse", "what consumers do with the tiles of a pipeline", [
    I32EnumAttrCase<"multiplied", 0>, I32EnumAttrCase<"stored", 1>, I32EnumAttrCase<"loaded", 2>]>;

def AttnTile_Combine : AttnTile_Enum<"Combine", "how a reduction combines two values", [
    I32EnumAttrCase<"add", 0>, I32EnumAttrCase<"max", 1>]>;
def AttnTile_CombineAttr : EnumAttr<AttnTile_Dialect, AttnTile_Combine, "combine">;

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

def AttnTile_KernelAttr : AttrDef<AttnTile_Dialect, "Kernel"> {
  let mnemonic = "kernel";
  let summary = "The resources of one kernel";
  let description = [{
    Stands on a `gpu.func` as `attn_tile.kernel`.

    | parameter | unit | |
    |---|---|---|
    | `warps` | | warps of a block; its threads are 32 times as many |
    | `blocks_per_multiprocessor` | | blocks that are to fit one multiprocessor at once; bounds the registers of a thread |
    | `shared_bytes` | bytes | dynamic shared memory of a block, 0 until `--attn-tile-place-shared` has placed the tiles |
    | `optimization` | | level of the assembler: 3 is all, 2 what takes no more registers for speed, 1 and 0 as `ptxas -O` |

    Constraints:
    - (K1) warps is from 1 to 32, blocks_per_multiprocessor at least 1, shared_bytes at least 0, optimization from 0 to 3.


    Example: `#attn_tile.kernel<warps = 4, blocks_per_multiprocessor = 2>`
  }];
  let parameters = (ins
    "int64_t":$warps,
    DefaultValuedParameter<"int64_t", "1">:$blocks_per_multiprocessor,
    DefaultValuedParameter<"int64_t", "0">:$shared_bytes,
    DefaultValuedParameter<"int64_t", "3">:$optimization);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

class AttnTile_Type<string name, string typeMnemonic> : TypeDef<AttnTile_Dialect, name> {
  let mnemonic = typeMnemonic;
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def AttnTile_SharedType : AttnTile_Type<"Shared", "shared"> {
  let summary = "A tile in shared memory";
  let description = [{
    Rows of elements, a vector, or (of three dimensions) a *ring* of tiles, the stages of a pipeline. The chunks of 16 bytes of each row permuted by an exclusive or
    with the row number so that eight rows of one column of chunks lie in different banks: `ldmatrix` and 16-byte copies
    are free of bank conflicts.

    Constraints:
    - (TS1) the shape has one to three static dimensions, each at least 1; elements are of f32, f16 or bf16.
    - (TS2) a row of a tile is a multiple of 32 bytes.

    Example: `!attn_tile.shared<64x128xbf16>`
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape, "::mlir::FloatType":$elementType);
  let extraClassDeclaration = [{
    int64_t getBytes() const;
    bool is2D() const { return getShape().size() == 2; }
    bool isRing() const { return getShape().size() == 3; }
    /// The tiles of a ring.
    SharedType getSlotType() const { return get(getContext(), getShape().drop_front(), getElementType()); }
  }];
}

def AttnTile_PanelsType : AttnTile_Type<"Panels", "panels"> {
  let summary = "A tile in shared memory as the tensor memory accelerator writes and wgmma reads it";
  let description = [{
    The columns are cut into panels of 128 bytes, the last one filled up; the panels follow one another, each of all rows.
    In a panel, chunk c (of 16 bytes) of row r lies at position c ^ (r mod 8): the 128-byte swizzle (PTX ISA, "Swizzling
    modes"). The tile begins at a multiple of 1024 bytes.

    Constraints:
    - (TP1) there are two static dimensions, of f16 or bf16; rows are a multiple of 8, columns of 16.

    Example: `!attn_tile.panels<128x80xbf16>` has two panels of 16384 bytes.
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape, "::mlir::FloatType":$elementType);
  let extraClassDeclaration = [{
    static constexpr int64_t kPanelColumns = 64;
    int64_t getNumPanels() const { return (getShape()[1] + kPanelColumns - 1) / kPanelColumns; }
    int64_t getBytes() const { return getNumPanels() * getShape()[0] * 128; }
  }];
}

def AttnTile_PipelineType : AttnTile_Type<"Pipeline", "pipeline"> {
  let summary = "A ring of shared tiles between a producer and consumers";
  let description = [{
    `stages` tiles (`!attn_tile.panels`) of rows x columns, each with the barriers of a slot, and the number of consumer
    warpgroups that release a slot. Where it is `stored`, they release it to the storer, with a tile of their own in it, and
    the storer to the producer. Where it is `loaded`, they load tiles into registers, each warp its own rows, and each warp
    releases the slot for itself; tiles of any other are operands of products.

    Constraints:
    - (TL1) there are three static dimensions: 1 to 8 stages, and the tile's; 1 to 3 consumers.

    Example: `!attn_tile.pipeline<2x128x128xbf16, 2>`, `!attn_tile.pipeline<2x128x128xbf16, 2, stored>`
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape, "::mlir::FloatType":$elementType, "int64_t":$consumers,
                        EnumParameter<AttnTile_TileUse>:$use);
  let extraClassDeclaration = [{
    bool isStored() const { return getUse() == TileUse::stored; }
    int64_t getStages() const { return getShape()[0]; }
    PanelsType getTileType() const { return PanelsType::get(getContext(), getShape().drop_front(), getElementType()); }
    int64_t getBytes() const { return getStages() * getTileType().getBytes(); }
    /// A barrier has 8 bytes.
    static int64_t getSlotBarrierBytes(bool stored) { return stored ? 24 : 16; }
    int64_t getBarrierBytes() const { return getSlotBarrierBytes(isStored()) * getStages(); }
  }];
}

def AttnTile_WorkQueueType : AttnTile_Type<"WorkQueue", "work_queue"> {
  let summary = "How the producer of a block tells the other roles which tile is next";
  let description = [{
    For up to two tiles ahead of them, of which a producer that draws late uses one. It has the number of warps that take each: those of the consumers, and the storer.

    Constraints:
    - (TW1) there are 1 to 13 warps.

    Example: `!attn_tile.work_queue<8>`
  }];
  let parameters = (ins "int64_t":$warps);
  let hasCustomAssemblyFormat = 0;
  let assemblyFormat = "`<` $warps `>`";
  let extraClassDeclaration = [{
    /// Two numbers, and the barriers of two slots.
    static constexpr int64_t kBytes = 48;
  }];
}

def AttnTile_DivisorType : AttnTile_Type<"Divisor", "divisor"> {
  let summary = "A number that many others are divided by";
  let description = "Example: `!attn_tile.divisor`";
  let hasCustomAssemblyFormat = 0;
}

def AttnTile_FragmentType : AttnTile_Type<"Fragment", "fragment"> {
  let summary = "Register storage that the threads of a block hold together";
  let description = [{
    The block's warps form a grid of `warps[0]` x `warps[1]`, which cuts a fragment of M x N into as many bands: warp w holds
    the M / warps[0] rows of band w / warps[1], and the N / warps[1] columns of band w % warps[1]. A fragment of 1x1 warps in a
    block of several is one of each warp: they work on tiles of their own.

    | layout | within 16 rows of a warp (PTX ISA, "Matrix fragments for mma.m16n8k16") |
    |---|---|
    | `accumulator` | f32, the fragment of C and D: lane l has rows l / 4 and l / 4 + 8, columns 2 (l % 4) and the next, of every 8 |
    | `operand_a` | f16 or bf16, the fragment of A; what an accumulator becomes, in the same lanes, when it is converted |
    | `thread` | f32, no dimension: one number a thread, that of no element |
    | `rows` | f32, one dimension: the rows that the lane has in an accumulator, the same in its four lanes and in every warp column |
    | `columns` | at most 32 bits, one dimension: the columns that the lane has in an accumulator, the same in every fourth lane and in every warp row |

    Constraints:
    - (TF1) `accumulator` and `operand_a` have two dimensions, `rows` and `columns` one, `thread` none; elements are as in
      the table.
    - (TF2) the rows are a multiple of 16 * warps[0], the columns of 8 * warps[1] (16 for `operand_a`, which has one warp
      column).

    Example: `!attn_tile.fragment<128x64xf32, accumulator, 4x1>`
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape, "::mlir::Type":$elementType,
                        EnumParameter<AttnTile_Layout>:$layout, ArrayRefParameter<"int64_t">:$warps);
  let extraClassDeclaration = [{
    bool isRows() const { return getLayout() == Layout::rows; }
    bool isColumns() const { return getLayout() == Layout::columns; }
    /// 32-bit registers that one thread needs for it.
    int64_t getRegisters() const;
    /// The same rows and warps, with one f32 value a row.
    FragmentType getRowsType() const;
    /// The columns and warps of an accumulator, with one value a column.
    FragmentType getColumnsType(::mlir::Type elementType) const;
  }];
}

def AttnTile_TensorMapType : AttnTile_Type<"TensorMap", "tensor_map"> {
  let summary = "A tensor as the tensor memory accelerator copies it";
  let description = [{
    In boxes of rows x columns, whose rows are 128 bytes each in shared memory, one after another, with the chunks of 16 bytes
    of each permuted: PTX ISA, 128-byte swizzle. A kernel takes the map by value.

    Constraints:
    - (TM1) the shape has two dimensions: 1 to 256 rows, and columns of 128 bytes in all; elements are of f16 or bf16.

    Example: `!attn_tile.tensor_map<128x64xbf16>`
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape, "::mlir::FloatType":$elementType);
  let extraClassDeclaration = [{
    int64_t getRows() const { return getShape()[0]; }
    int64_t getColumns() const { return getShape()[1]; }
  }];
}

#endif // ATTN_DIALECT_ATTNTILEDIALECT_TD
