// The table names the choice, what lost and why, the ranges as formulas, and the cost for the sizes at hand.
//
// RUN: attn-run %s --entry=causal --explain --target=x86-64-v3 --q-len=200 --kv-len=200 | FileCheck %s --check-prefix=CAUSAL
// CAUSAL: target #attn.target<arch = x86_64_v3
// CAUSAL: forward
// CAUSAL-NEXT: query ?x4x?x64xf32, here 1x4x200x64
// CAUSAL-NEXT: key ?x2x?x64xf32, here 1x2x200x64
// CAUSAL-NEXT: value ?x2x?x64xf32, here 1x2x200x64
// CAUSAL-NEXT: schedule block_m = 64 queries, block_n = [[N:[0-9]+]] keys, query_outer
// CAUSAL: chosen 64 x [[N]]:
// CAUSAL-NEXT: ranges of keys, for the block of queries [begin, end)
// CAUSAL-NEXT: visited [0, {{.*}}end{{.*}})
// CAUSAL-NEXT: masked [begin + 1, {{.*}})
// CAUSAL: blocks {{[0-9]+}} in all: {{[0-9]+}} visited ({{.*}}%), of which {{[0-9]+}} full and {{[0-9]+}} evaluate the mask
// CAUSAL-NEXT: work {{.*}} in matrix products
// CAUSAL-NEXT: bytes {{.*}} of operands and results, {{.*}} through the caches
// CAUSAL-NEXT: intensity {{.*}} FLOP for each byte
// CAUSAL-NEXT: bound {{compute|memory|not predicted}}
// CAUSAL-NEXT: workspace {{.*}} of tiles for each of

// A table needs no queries, keys and values, however long they would be.
// RUN: attn-run %s --entry=causal --explain --target=x86-64-v3 --block-m=64 --block-n=128 --q-len=100000000 | FileCheck %s --check-prefix=LONG
// LONG: input %q 1x4x100000000x64xf32 not needed
// LONG: blocks 4882812500000 in all:

// Blocks can be counted by hand: 10 x 10 blocks of 32 x 32, 55 on or under the diagonal, 10 of them on it; for each of 4 heads.
// RUN: attn-run %s --entry=causal --explain --target=x86-64-v3 --block-m=32 --block-n=32 --q-len=320 --kv-len=320 | FileCheck %s --check-prefix=COUNT
// COUNT: chosen 32 x 32:
// COUNT: blocks 400 in all: 220 visited (55.0%), of which 180 full and 40 evaluate the mask
// 220 blocks x 1024 pairs x 2 products x 2 x 64.
// COUNT-NEXT: work 57.7 MFLOP in matrix products, 105 MFLOP without the mask

// A tile that is too large for the cache says so (which tile is depends on the machine's cache: the message is tested by
// attn-plan-remarks.mlir); the gradients are two kernels more.
// RUN: attn-run %s --entry=wide --explain --backward --target=x86-64-v3 --q-len=64 | FileCheck %s --check-prefix=WIDE
// WIDE: forward
// WIDE: {{(rejected 64 x 128: [0-9]+ bytes used in each step exceed half of the L2 cache)|(chosen 64 x 128: [0-9.]+ [kM]B used in each step, half of the L2 cache is)}}
// WIDE: ranges no mask: every block of queries visits all keys
// WIDE: {{^}}dq
// WIDE: {{^}}dkdv
// WIDE: ranges no mask: every block of keys visits all queries

// Captured lengths are symbols of the ranges.
// RUN: attn-run %s --entry=padded --explain --batch=2 --fill lengths=constant:50 | FileCheck %s --check-prefix=PADDED
// PADDED: capture ?xi64, here 2
// PADDED: visited {{.*}}lengths[b]

// The gradients of a masked attention: two kernels, with ranges of keys for queries and of queries for keys.
// RUN: attn-run %s --entry=padded --explain --backward --batch=2 --fill lengths=constant:50 | FileCheck %s --check-prefix=GRADIENTS
// GRADIENTS: {{^}}dq
// GRADIENTS: ranges of keys, for the block of queries [begin, end)
// GRADIENTS: {{^}}dkdv
// GRADIENTS: ranges of queries, for the block of keys [begin, end)

// What the ranges do not know is an upper bound.
// RUN: attn-run %s --entry=product --explain --q-len=320 | FileCheck %s --check-prefix=PRODUCT
// PRODUCT: inexact blocks that the mask leaves empty all the same are found by evaluating it
// PRODUCT: blocks {{[0-9]+}} in all: at most {{[0-9]+}} visited (100.0%)
func.func @product(%q: tensor<?x4x?x64xf32>) -> tensor<?x4x?x64xf32> {
  %out, %lse = attn.attention %q, %q, %q
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %product = arith.muli %q_idx, %kv_idx : index
      %c1000 = arith.constant 1000 : index
      %keep = arith.cmpi slt, %product, %c1000 : index
      attn.yield %keep : i1
    } : (tensor<?x4x?x64xf32>, tensor<?x4x?x64xf32>, tensor<?x4x?x64xf32>)
        -> (tensor<?x4x?x64xf32>, tensor<?x4x?xf32>)
  return %out : tensor<?x4x?x64xf32>
}

func.func @causal(%q: tensor<?x4x?x64xf32>, %k: tensor<?x2x?x64xf32>, %v: tensor<?x2x?x64xf32>) -> tensor<?x4x?x64xf32> {
  %out, %lse = attn.attention %q, %k, %v
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %keep = arith.cmpi sle, %kv_idx, %q_idx : index
      attn.yield %keep : i1
    } : (tensor<?x4x?x64xf32>, tensor<?x2x?x64xf32>, tensor<?x2x?x64xf32>)
        -> (tensor<?x4x?x64xf32>, tensor<?x4x?xf32>)
  return %out : tensor<?x4x?x64xf32>
}

func.func @wide(%q: tensor<1x1x?x512xf64>, %k: tensor<1x1x?x512xf64>, %v: tensor<1x1x?x512xf64>) -> tensor<1x1x?x512xf64> {
  %out, %lse = attn.attention %q, %k, %v : (tensor<1x1x?x512xf64>, tensor<1x1x?x512xf64>, tensor<1x1x?x512xf64>)
    -> (tensor<1x1x?x512xf64>, tensor<1x1x?xf64>)
  return %out : tensor<1x1x?x512xf64>
}

func.func @padded(%q: tensor<?x2x?x64xf32>, %k: tensor<?x2x?x64xf32>, %v: tensor<?x2x?x64xf32>, %lengths: tensor<?xi64>)
    -> tensor<?x2x?x64xf32> {
  %out, %lse = attn.attention %q, %k, %v captures(%lengths : tensor<?xi64>)
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %length_i64 = tensor.extract %lengths[%b] : tensor<?xi64>
      %length = arith.index_cast %length_i64 : i64 to index
      %keep = arith.cmpi slt, %kv_idx, %length : index
      attn.yield %keep : i1
    } : (tensor<?x2x?x64xf32>, tensor<?x2x?x64xf32>, tensor<?x2x?x64xf32>)
        -> (tensor<?x2x?x64xf32>, tensor<?x2x?xf32>)
  return %out : tensor<?x2x?x64xf32>
}
