//===- AttnDialect.td - the attn dialect and its attributes ---------------*- tablegen -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTNDIALECT_TD
#define ATTN_DIALECT_ATTNDIALECT_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"

def Attn_Dialect : Dialect {
  let name = "attn";
  let cppNamespace = "::attn";
  let summary = "Attention over tensors, with the score and the mask as regions";
  let description = [{
    Says *what* attention is computed. `attn.attention` and `attn.attention_backward` carry the score and the mask as
    regions of ordinary IR; `attn.online_attention` is the same computation with a plan (a schedule, and for each block
    the ranges it has to visit) and is what every backend lowers. `attn.merge` combines partial results.

    Shapes, always in this order: query `(batch, q_heads, q_len, head_dim)`, key `(batch, kv_heads, kv_len, head_dim)`,
    value `(batch, kv_heads, kv_len, value_dim)`. Query head `h` reads key head `h floordiv (q_heads / kv_heads)`.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::tensor::TensorDialect"];
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let extraClassDeclaration = [{
    /// Name of the discardable attribute, on a module, that holds the `#attn.target` to compile for.
    static constexpr ::llvm::StringLiteral getTargetAttrName() { return "attn.target"; }
  }];
}

//===----------------------------------------------------------------------===//
// Enumerations
//===----------------------------------------------------------------------===//

class Attn_Enum<string name, string summary, list<I32EnumAttrCase> cases> : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::attn";
  let genSpecializedAttr = 0;
}

def Attn_Arch : Attn_Enum<"Arch", "instruction set that code is generated for", [
    I32EnumAttrCase<"x86_64", 0>, I32EnumAttrCase<"x86_64_v3", 1>, I32EnumAttrCase<"x86_64_v4", 2>,
    I32EnumAttrCase<"aarch64", 3>,
    I32EnumAttrCase<"sm_80", 80>, I32EnumAttrCase<"sm_86", 86>, I32EnumAttrCase<"sm_89", 89>,
    I32EnumAttrCase<"sm_90a", 90>, I32EnumAttrCase<"sm_100a", 100>, I32EnumAttrCase<"sm_120a", 120>]>;

def Attn_ScheduleFamily : Attn_Enum<"ScheduleFamily", "the instructions that a GPU kernel is made of", [
    I32EnumAttrCase<"portable", 0>, I32EnumAttrCase<"hopper", 1>]>;

def Attn_LoopOrder : Attn_Enum<"LoopOrder", "which loop over blocks is the outer one", [
    I32EnumAttrCase<"query_outer", 0>, I32EnumAttrCase<"key_outer", 1>]>;

def Attn_KernelKind : Attn_Enum<"KernelKind", "what one online attention computes", [
    I32EnumAttrCase<"forward", 0>, I32EnumAttrCase<"dq", 1>, I32EnumAttrCase<"dkdv", 2>,
    I32EnumAttrCase<"fused", 3>]>;
def Attn_KernelKindAttr : EnumAttr<Attn_Dialect, Attn_KernelKind, "kernel_kind">;

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

class Attn_Attr<string name, string attrMnemonic> : AttrDef<Attn_Dialect, name> {
  let mnemonic = attrMnemonic;
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Attn_TargetAttr : Attn_Attr<"Target", "target"> {
  let summary = "The machine that code is generated for";
  let description = [{
    Filled from the machine by the runtime, by `--attn-set-target` in `attn-opt`. Passes are pure functions of it: the
    same module and target always give the same code, on any host.

    | parameter | unit | CPU | GPU |
    |---|---|---|---|
    | `arch` | | `x86_64`, `x86_64_v3` (AVX2, FMA), `x86_64_v4` (AVX-512), `aarch64` | `sm_…` |
    | `vector_bits` | bits | width of the widest vector used | 0 |
    | `vector_registers` | | architectural vector registers | 0 |
    | `l1_bytes`, `l2_bytes` | bytes | data caches of one core | not used |
    | `multiprocessors` | | cores | multiprocessors |
    | `max_shared_memory` | bytes | 0 | largest dynamic shared memory of a block |

    Constraints:
    - (T1) a CPU has `vector_bits` a power of two from 128 to 2048, `vector_registers` of at least 16 and no shared memory.
    - (T2) a GPU has `max_shared_memory` of at least 1024 and neither vectors nor their registers.
    - (T3) `l1_bytes`, `l2_bytes` and `multiprocessors` are at least 1.

    A parameter that is left out has the value 0, but for the caches (32 KiB and 512 KiB) and `multiprocessors` (1).

    Example: a CPU, and a GPU.
    ```mlir
    module attributes {attn.target = #attn.target<arch = x86_64_v3, vector_bits = 256, vector_registers = 16>} {}
    module attributes {attn.target = #attn.target<arch = sm_90a, multiprocessors = 132, max_shared_memory = 232448>} {}
    ```
  }];
  let parameters = (ins
    EnumParameter<Attn_Arch>:$arch,
    DefaultValuedParameter<"int64_t", "0">:$vector_bits,
    DefaultValuedParameter<"int64_t", "0">:$vector_registers,
    DefaultValuedParameter<"int64_t", "32768">:$l1_bytes,
    DefaultValuedParameter<"int64_t", "524288">:$l2_bytes,
    DefaultValuedParameter<"int64_t", "1">:$multiprocessors,
    DefaultValuedParameter<"int64_t", "0">:$max_shared_memory);
  let extraClassDeclaration = [{
    bool isGpu() const { return getArch() >= Arch::sm_80; }
    /// Elements of a type of `bits` bits that one vector register holds.
    int64_t getVectorLength(unsigned bits) const { return getVectorBits() / bits; }
  }];
}

def Attn_ScheduleAttr : Attn_Attr<"Schedule", "schedule"> {
  let summary = "The tile sizes and loop order chosen for one online attention";
  let description = [{
    Chosen by one pure function of shape class, element type and target (`passes/ChooseSchedule.h`), or given by hand.

    - `block_m` queries and `block_n` keys make a tile of the score matrix.
    - `order`: `query_outer` keeps a block of queries and streams the keys (FlashAttention-2); `key_outer` keeps a block of
      keys and streams the queries, with the running maximum, sum and output of every query in memory (FlashAttention-1).
    - `kv_splits` computes the keys in that many independent parts, which `attn.merge` combines (flash decoding). Their
      number may also follow from the sizes when the function runs: `splits` of `attn.online_attention`.
    - On a CPU `vector_length` elements of the compute type make a vector; a micro-kernel of a matrix product keeps
      `register_rows` x `register_vectors` of them in registers.
    - On a GPU a block of the grid has `warps` warps, and `blocks_per_multiprocessor` of them are to fit one multiprocessor;
      streamed tiles have `stages` places in shared memory. The `family` says what its kernel is made of: `portable`
      (mma.sync and cp.async, sm_80 and later) or `hopper` (wgmma, the tensor memory accelerator and a warpgroup that only
      loads, one of `warps / 4`; sm_90a).
    - With `fixed_maximum`, bf16 probabilities of blocks of keys without a masked pair are relative to the maximum of their row
      in the blocks before, not to the true one; where scores are a multiple of an approximated tanh, and need no maximum, that
      is a polynomial there. A second kernel computes exactly what came out wrong by that (a sum of exponentials outside 2^-40 to
      2^100, an exponent of the maximum above 2^26, a sum that scores may have for which the polynomial is not made) and, where pairs
      may be dropped, what is not finite; it returns at once where there is nothing of that kind.
    - With `key_warps` of more than 1 so many warps of a block share its rows and divide its keys: each warp streams
      `block_n` keys at a time, through tiles of its own, and what they come to is merged in the end. For tiles of few rows,
      whose warps would have none.
    - With `bias_stages` the tensor memory accelerator copies tiles of a dense bias, the captured tensor of which the score region
      reads an element for each pair (`passes/DenseBias.h`), to so many places in shared memory. With 0 elements are
      loaded one by one.

    Only `block_m` and `block_n` have to be given; the order is `query_outer`, `bias_stages` 0 and every other number 1 where it
    is left out.

    Constraints:
    - (S1) every number but `bias_stages` is from 1 to 2^31 - 1.
    - (S2) the blocked dimension that lies along vector lanes (`block_m` for forward and dq, `block_n` for dkdv) is a
      multiple of `vector_length * register_vectors`; checked by the op that carries the schedule.
    - (S3) `key_outer` and `kv_splits > 1` exclude each other.
    - (S4) `vector_length` and `register_rows * register_vectors` are at most 256: micro-kernels are unrolled.
    - (S5) `warps` is at most 32; with `family = hopper` they are 2 to 4 warpgroups. `fixed_maximum` is for `family = hopper`.
    - (S6) `key_warps` is 1, or all `warps` of `family = portable`.
    - (S7) `bias_stages` is from 0 to 2, and 0 but for `family = hopper`.

    Example: `#attn.schedule<block_m = 64, block_n = 64, vector_length = 16, register_rows = 8, register_vectors = 2>`
  }];
  let parameters = (ins
    "int64_t":$block_m,
    "int64_t":$block_n,
    DefaultValuedParameter<"::attn::LoopOrder", "::attn::LoopOrder::query_outer">:$order,
    DefaultValuedParameter<"int64_t", "1">:$kv_splits,
    DefaultValuedParameter<"int64_t", "1">:$vector_length,
    DefaultValuedParameter<"int64_t", "1">:$register_rows,
    DefaultValuedParameter<"int64_t", "1">:$register_vectors,
    DefaultValuedParameter<"int64_t", "1">:$warps,
    DefaultValuedParameter<"int64_t", "1">:$blocks_per_multiprocessor,
    DefaultValuedParameter<"int64_t", "1">:$stages,
    DefaultValuedParameter<"::attn::ScheduleFamily", "::attn::ScheduleFamily::portable">:$family,
    DefaultValuedParameter<"bool", "false">:$fixed_maximum,
    DefaultValuedParameter<"int64_t", "1">:$key_warps,
    DefaultValuedParameter<"int64_t", "0">:$bias_stages);
  let extraClassDeclaration = [{
    ScheduleAttr withKvSplits(int64_t kvSplits) const;
  }];
}

#endif // ATTN_DIALECT_ATTNDIALECT_TD
