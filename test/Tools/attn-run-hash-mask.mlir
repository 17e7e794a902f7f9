// Indices in regions have 32 bits wherever they are computed: a mask drawn at random by hashing positions is the same in the
// kernels, where one position is a scalar and the other a lane, forward and backward, and in the reference.
//
// RUN: attn-run %s --entry=of_both --q-len=67 --kv-len=131 --check --backward
// RUN: attn-run %s --entry=of_both --q-len=67 --kv-len=131 --check --order=key-outer
// RUN: attn-run %s --entry=of_one --q-len=67 --kv-len=131 --check --backward
// RUN: attn-run %s --entry=of_head --q-len=67 --kv-len=131 --check --backward
// RUN: attn-run %s --entry=of_both --q-len=64 --kv-len=64 --print-mask --mask-block=8 | FileCheck %s
// CHECK: kept pairs: {{[0-9]+}} ({{(4|5)[0-9.]+}}%)

func.func @of_both(%q: tensor<?x2x?x16xf32>, %k: tensor<?x2x?x16xf32>, %v: tensor<?x2x?x16xf32>)
    -> (tensor<?x2x?x16xf32>, tensor<?x2x?xf32>) {
  %out, %lse = attn.attention %q, %k, %v
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %c0 = arith.constant 2654435761 : index
      %c1 = arith.constant 2246822519 : index
      %shift = arith.constant 15 : index
      %last = arith.constant 31 : index
      %zero = arith.constant 0 : index
      %x = arith.muli %q_idx, %c0 : index
      %y = index.mul %kv_idx, %c1
      %sum = arith.xori %x, %y : index
      %high = arith.shrui %sum, %shift : index
      %mixed = arith.xori %sum, %high : index
      %hash = arith.muli %mixed, %c0 : index
      %bit = index.shru %hash, %last
      %keep = index.cmp eq(%bit, %zero)
      attn.yield %keep : i1
    } : (tensor<?x2x?x16xf32>, tensor<?x2x?x16xf32>, tensor<?x2x?x16xf32>) -> (tensor<?x2x?x16xf32>, tensor<?x2x?xf32>)
  return %out, %lse : tensor<?x2x?x16xf32>, tensor<?x2x?xf32>
}

// Of the key alone: a scalar where lanes run along the queries.
func.func @of_one(%q: tensor<?x2x?x16xf32>, %k: tensor<?x2x?x16xf32>, %v: tensor<?x2x?x16xf32>)
    -> (tensor<?x2x?x16xf32>, tensor<?x2x?xf32>) {
  %out, %lse = attn.attention %q, %k, %v
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %c0 = arith.constant 2654435761 : index
      %zero = arith.constant 0 : index
      %hash = arith.muli %kv_idx, %c0 : index
      %keep = arith.cmpi sle, %hash, %zero : index
      attn.yield %keep : i1
    } : (tensor<?x2x?x16xf32>, tensor<?x2x?x16xf32>, tensor<?x2x?x16xf32>) -> (tensor<?x2x?x16xf32>, tensor<?x2x?xf32>)
  return %out, %lse : tensor<?x2x?x16xf32>, tensor<?x2x?xf32>
}

// Of what is uniform in a block, with the high bits of an index as a number of 64 bits.
func.func @of_head(%q: tensor<?x2x?x16xf32>, %k: tensor<?x2x?x16xf32>, %v: tensor<?x2x?x16xf32>)
    -> (tensor<?x2x?x16xf32>, tensor<?x2x?xf32>) {
  %out, %lse = attn.attention %q, %k, %v
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %c0 = arith.constant 2654435761 : index
      %hash = arith.muli %h, %c0 : index
      %wide = arith.index_cast %hash : index to i64
      %number = arith.sitofp %wide : i64 to f32
      %tiny = arith.constant 1.0e-9 : f32
      %bias = arith.mulf %number, %tiny : f32
      %biased = arith.addf %s, %bias : f32
      attn.yield %biased : f32
    } mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %c0 = arith.constant 2654435761 : index
      %shift = arith.constant 31 : index
      %hash = arith.muli %h, %c0 : index
      %step = arith.shrui %hash, %shift : index
      %limit = arith.addi %q_idx, %step : index
      %keep = arith.cmpi slt, %kv_idx, %limit : index
      attn.yield %keep : i1
    } : (tensor<?x2x?x16xf32>, tensor<?x2x?x16xf32>, tensor<?x2x?x16xf32>) -> (tensor<?x2x?x16xf32>, tensor<?x2x?xf32>)
  return %out, %lse : tensor<?x2x?x16xf32>, tensor<?x2x?xf32>
}
