// What attn-run says of a GPU where there is none: the table of --explain, and errors. Results on a GPU are in test/gpu.
//
// RUN: env ATTN_CACHE_DIR=%t.cache attn-run %s --entry=causal --explain --family=portable --target=sm_90a --batch=2 --q-len=1000 --kv-len=1000 | FileCheck %s --check-prefix=PORTABLE
// PORTABLE: target #attn.target<arch = sm_90a, multiprocessors = 132, max_shared_memory = 232448>
// PORTABLE: {{^}}forward
// PORTABLE-NEXT: query ?x16x?x128xbf16, here 2x16x1000x128
// PORTABLE: schedule block_m = 128 queries, block_n = 64 keys, 4 warps, 1 stage
// PORTABLE-NEXT: by rule not measured: portable forward of sm_90a, 16 bits, head_dim 128, value_dim 128, mask comparison, score none, long lengths
// PORTABLE-NEXT: rejected 128 x 128, 4 warps, 2 blocks a multiprocessor: 256 registers of accumulators a thread exceed 208
// Query 128 x 128, keys and values 64 x 128 of 2 bytes; scores 128 x 64 and out 128 x 128 over 128 threads.
// PORTABLE-NEXT: chosen 128 x 64, 4 warps, 2 blocks a multiprocessor: 65536 of 116224 bytes of shared memory, 192 of 208 registers of accumulators a thread
// PORTABLE-NEXT: ranges of keys, for the block of queries [begin, end)
// PORTABLE-NEXT: visited [0, end)
// PORTABLE-NEXT: masked [begin + 1, kv_len)
// 8 x 16 blocks a head, of which the queries of block i visit 2 (i + 1), the last all 16; the 2 on the diagonal evaluate the mask.
// PORTABLE-NEXT: blocks 4096 in all: 2304 visited (56.2%), of which 1792 full and 512 evaluate the mask
// PORTABLE-NEXT: work
// PORTABLE-NEXT: bytes
// PORTABLE-NEXT: intensity
// PORTABLE-NEXT: bound products: {{.*}} at least; products {{.*}} at 989 TFLOP/s, exponentials {{.*}} at 3.86 T/s, memory {{.*}} at 4.80 TB/s
// PORTABLE-NEXT: figures of the data sheet of H200 SXM; the products of its own instructions, which mma.sync does not reach
// PORTABLE: {{^}}launch plan
// PORTABLE-NEXT: variant few_rows, if min(
// PORTABLE-NEXT: variant split_kv, if min(
// PORTABLE-NEXT: variant aligned, taken here, if min(q.aligned(16), k.aligned(16), v.aligned(16), out.aligned(16))
// PORTABLE-NEXT: variant any
// PORTABLE-NEXT: kernel causal_forward: 256 blocks (ceildiv(q.size(2), 128) * q.size(0) * 16) of 128 threads, 65536 bytes of shared memory
// PORTABLE-NEXT: registers
// The lse, which is not returned.
// PORTABLE-NEXT: workspace workspace_0: 2x16x1000xf32, 128 kB
// PORTABLE-NEXT: workspaces 128 kB in all

// The instructions that only this GPU has, unless others are asked for; and why not, where they do not go.
// RUN: env ATTN_CACHE_DIR=%t.cache attn-run %s --entry=causal --explain --target=sm_90a --q-len=1000 --kv-len=1000 | FileCheck %s --check-prefix=HOPPER
// HOPPER: schedule block_m = 128 queries, block_n = 128 keys, 12 warps, 2 stages, family hopper, fixed maximum
// HOPPER-NEXT: chosen hopper 128 x 128, 12 warps, 1 block a multiprocessor: {{.*}} of 232448 bytes of shared memory, 160 of 204 registers of accumulators a thread; measured: {{[0-9.]+}} TFLOP/s against {{[0-9.]+}} of {{.*}}
// HOPPER: figures of the data sheet of H200 SXM{{$}}
// HOPPER: kernel causal_forward: 128 blocks
// HOPPER: kernel causal_forward_repair: 128 blocks
// RUN: env ATTN_CACHE_DIR=%t.cache attn-run %s --entry=causal --explain --target=sm_90a --exact-maximum | FileCheck %s --check-prefix=EXACT
// EXACT: family hopper, exact maximum
// RUN: env ATTN_CACHE_DIR=%t.cache attn-run %s --entry=full --explain --target=sm_90a | FileCheck %s --check-prefix=FLOAT
// FLOAT: rejected family hopper: its products are of elements of 16 bits, not of 32
// RUN: not attn-run %s --entry=full --explain --target=sm_90a --family=hopper 2>&1 | FileCheck %s --check-prefix=REFUSED
// REFUSED: has no kernel of the hopper family: its products are of elements of 16 bits, not of 32; compile with family = auto or portable
// RUN: not attn-run %s --entry=causal --explain --target=sm_90a --family=volta 2>&1 | FileCheck %s --check-prefix=FAMILY
// FAMILY: expected the family of GPU kernels to be auto, portable or hopper, got volta
// RUN: not attn-run %s --entry=causal --explain --family=portable 2>&1 | FileCheck %s --check-prefix=CPU --match-full-lines
// CPU: attn-run: --family and --exact-maximum are for a GPU

// Less shared memory, smaller tiles; the gradients are the forward and three kernels more, with what they share.
// RUN: env ATTN_CACHE_DIR=%t.cache attn-run %s --entry=causal --explain --backward --target=sm_86 --q-len=1000 --kv-len=1000 | FileCheck %s --check-prefix=AMPERE
// AMPERE: target #attn.target<arch = sm_86
// AMPERE: {{^}}forward
// AMPERE: rejected 128 x 64, 4 warps, 2 blocks a multiprocessor: 65536 bytes of shared memory exceed 50688, those of a block of which 2 share a multiprocessor
// AMPERE: chosen 128 x 32
// AMPERE: {{^}}fused
// AMPERE: ranges of queries, for the block of keys [begin, end)
// AMPERE: bound products: {{.*}} at 150 TFLOP/s
// AMPERE-NEXT: figures of the data sheet of A40
// AMPERE: kernel causal_gradients_forward
// AMPERE: kernel causal_gradients_delta
// AMPERE: kernel causal_gradients_fused
// AMPERE: kernel causal_gradients_d_query
// AMPERE: workspace d_query_sum: {{.*}}, zeroed in each call
// AMPERE: workspaces {{.*}} in all

// The products of a fused gradient are five: 2 x 2 x 64 x (3 + 2) FLOP for each of the 256 x 256 pairs of 4 heads.
// RUN: env ATTN_CACHE_DIR=%t.cache attn-run %s --entry=full --explain --backward --target=sm_80 --block-m=64 --block-n=64 --q-len=256 --kv-len=256 | FileCheck %s --check-prefix=FULL
// FULL: {{^}}fused
// FULL: blocks 64 in all: 64 visited (100.0%), of which 64 full and 0 evaluate the mask
// FULL-NEXT: work 168 MFLOP in matrix products
// Without tensor cores.
// FULL: bound products: {{.*}} at 19.5 TFLOP/s

// Numbers given by hand count, and what no kernel can be is refused.
// RUN: env ATTN_CACHE_DIR=%t.cache attn-run %s --entry=causal --explain --target=sm_120a --block-m=64 --block-n=32 | FileCheck %s --check-prefix=GIVEN
// GIVEN: schedule block_m = 64 queries, block_n = 32 keys
// RUN: not attn-run %s --entry=causal --explain --target=sm_80 --block-m=100 2>&1 | FileCheck %s --check-prefix=ODD
// ODD: attn-run: {{.*}}expected block_m to be a multiple of 16

// RUN: not attn-run %s --entry=causal --explain --target=sm_77 2>&1 | FileCheck %s --check-prefix=UNKNOWN --match-full-lines
// UNKNOWN: attn-run: --target: unknown GPU architecture 'sm_77', expected sm_80, sm_86, sm_89, sm_90a, sm_100a or sm_120a
// RUN: not attn-run %s --entry=causal --target=sm_90a 2>&1 | FileCheck %s --check-prefix=SHOWN --match-full-lines
// SHOWN: attn-run: --target: sm_90a is for --explain alone; --gpu runs on a GPU
// RUN: not attn-run %s --entry=causal --gpu --target=sm_90a 2>&1 | FileCheck %s --check-prefix=BOTH --match-full-lines
// BOTH: attn-run: --gpu: not with --target, which names another machine
// RUN: not attn-run %s --entry=causal --explain --target=sm_90a --lowering=reference 2>&1 | FileCheck %s --check-prefix=REFERENCE --match-full-lines
// REFERENCE: attn-run: --lowering: the reference is for a CPU
// RUN: not attn-run %s --entry=causal --gpu=first 2>&1 | FileCheck %s --check-prefix=NUMBER --match-full-lines
// NUMBER: attn-run: --gpu: expected the number of a CUDA device, got 'first'
// Whether there is a driver, another device or neither.
// RUN: not attn-run %s --entry=causal --gpu=4000 2>&1 | FileCheck %s --check-prefix=NONE --match-full-lines
// NONE: attn-run: --gpu: {{the CUDA driver is missing: .*libcuda.so.1.*|there is no CUDA device 4000.*|cuInit failed.*}}
// NONE-NOT: {{.}}

func.func @causal(%q: tensor<?x16x?x128xbf16>, %k: tensor<?x16x?x128xbf16>, %v: tensor<?x16x?x128xbf16>) -> tensor<?x16x?x128xbf16> {
  %out, %lse = attn.attention %q, %k, %v
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %keep = arith.cmpi sle, %kv_idx, %q_idx : index
      attn.yield %keep : i1
    } : (tensor<?x16x?x128xbf16>, tensor<?x16x?x128xbf16>, tensor<?x16x?x128xbf16>)
        -> (tensor<?x16x?x128xbf16>, tensor<?x16x?xf32>)
  return %out : tensor<?x16x?x128xbf16>
}

func.func @full(%q: tensor<?x4x?x64xf32>, %k: tensor<?x4x?x64xf32>, %v: tensor<?x4x?x64xf32>) -> tensor<?x4x?x64xf32> {
  %out, %lse = attn.attention %q, %k, %v : (tensor<?x4x?x64xf32>, tensor<?x4x?x64xf32>, tensor<?x4x?x64xf32>)
    -> (tensor<?x4x?x64xf32>, tensor<?x4x?xf32>)
  return %out : tensor<?x4x?x64xf32>
}
