// NumPy in, NumPy out: the result is what NumPy computes from the same files.
//
// RUN: rm -rf %t && mkdir %t
// RUN: %python %S/Inputs/numpy_attention.py make %t
// RUN: attn-run %s --entry=masked --input %t/q.npy --input %t/k.npy --input %t/v.npy --input %t/lengths.npy --input cap=5 --output %t/out.npy --output %t/lse.npy
// RUN: %python %S/Inputs/numpy_attention.py compare %t

// By name, in any order; `-` leaves an argument random, the same for the same seed.
// RUN: attn-run %s --entry=masked --input cap=5 --input lengths=%t/lengths.npy --input v=%t/v.npy --input k=%t/k.npy --input q=%t/q.npy --output lse=%t/lse2.npy --output out=%t/out2.npy
// RUN: cmp %t/out.npy %t/out2.npy
// RUN: cmp %t/lse.npy %t/lse2.npy
// RUN: attn-run %s --entry=masked --input - --input %t/k.npy --input cap=5 --seed=3 --q-len=9 --output %t/a.npy
// RUN: attn-run %s --entry=masked --input - --input %t/k.npy --input cap=5 --seed=3 --q-len=9 --output %t/b.npy
// RUN: attn-run %s --entry=masked --input - --input %t/k.npy --input cap=5 --seed=4 --q-len=9 --output %t/c.npy
// RUN: cmp %t/a.npy %t/b.npy
// RUN: not cmp %t/a.npy %t/c.npy

// Gradients, those of captures included.
// RUN: attn-run %s --entry=masked --backward --input q=%t/q.npy --input k=%t/k.npy --input v=%t/v.npy --input lengths=%t/lengths.npy --input cap=5 --input d_out=%t/d_out.npy --input d_lse=%t/d_lse.npy --output %t/d_q.npy --output d_v=%t/d_v.npy --output d_cap=%t/d_cap.npy
// RUN: %python %S/Inputs/numpy_attention.py compare-gradients %t

func.func @masked(%q: tensor<?x4x?x16xf32>, %k: tensor<?x2x?x16xf32>, %v: tensor<?x2x?x16xf32>,
                  %lengths: tensor<?xi64>, %cap: f32) -> (tensor<?x4x?x16xf32>, tensor<?x4x?xf32>) {
  %out, %lse = attn.attention %q, %k, %v captures(%lengths : tensor<?xi64>, %cap : f32)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %relative = arith.divf %s, %cap : f32
      %squashed = math.tanh %relative : f32
      %capped = arith.mulf %cap, %squashed : f32
      attn.yield %capped : f32
    } mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %length_i64 = tensor.extract %lengths[%b] : tensor<?xi64>
      %length = arith.index_cast %length_i64 : i64 to index
      %keep = arith.cmpi slt, %kv_idx, %length : index
      attn.yield %keep : i1
    } : (tensor<?x4x?x16xf32>, tensor<?x2x?x16xf32>, tensor<?x2x?x16xf32>)
        -> (tensor<?x4x?x16xf32>, tensor<?x4x?xf32>)
  return %out, %lse : tensor<?x4x?x16xf32>, tensor<?x4x?xf32>
}
