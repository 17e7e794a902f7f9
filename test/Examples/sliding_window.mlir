// Sliding window: a query sees itself and the 31 keys before it. The compiler bounds the keys that a block of queries can see, so
// the work grows with the length, not with its square.
//
// RUN: attn-run %s --entry=causal_window --q-len=131 --kv-len=131 --check
// RUN: attn-run %s --entry=causal_window --q-len=131 --kv-len=131 --check --backward
// RUN: attn-run %s --entry=captured_window --q-len=97 --kv-len=113 --input window=17 --check
// RUN: attn-run %s --entry=captured_window --q-len=97 --kv-len=113 --input window=17 --check --backward
// RUN: attn-run %s --entry=captured_window --q-len=97 --kv-len=113 --input window=0 --check

func.func @causal_window(%q: tensor<?x2x?x64xf32>, %k: tensor<?x2x?x64xf32>, %v: tensor<?x2x?x64xf32>)
    -> (tensor<?x2x?x64xf32>, tensor<?x2x?xf32>) {
  %out, %lse = attn.attention %q, %k, %v
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %window = arith.constant 32 : index
      %distance = arith.subi %q_idx, %kv_idx : index
      %near = arith.cmpi slt, %distance, %window : index
      %causal = arith.cmpi sle, %kv_idx, %q_idx : index
      %keep = arith.andi %near, %causal : i1
      attn.yield %keep : i1
    } : (tensor<?x2x?x64xf32>, tensor<?x2x?x64xf32>, tensor<?x2x?x64xf32>)
        -> (tensor<?x2x?x64xf32>, tensor<?x2x?xf32>)
  return %out, %lse : tensor<?x2x?x64xf32>, tensor<?x2x?xf32>
}

// The same to both sides, with a size that is known only when the function is called: it is not compiled again for another one.
func.func @captured_window(%q: tensor<?x2x?x64xf32>, %k: tensor<?x2x?x64xf32>, %v: tensor<?x2x?x64xf32>, %window: index)
    -> (tensor<?x2x?x64xf32>, tensor<?x2x?xf32>) {
  %out, %lse = attn.attention %q, %k, %v captures(%window : index)
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %zero = arith.constant 0 : index
      %distance = arith.subi %q_idx, %kv_idx : index
      %least = arith.subi %zero, %window : index
      %not_after = arith.cmpi sge, %distance, %least : index
      %not_before = arith.cmpi sle, %distance, %window : index
      %keep = arith.andi %not_after, %not_before : i1
      attn.yield %keep : i1
    } : (tensor<?x2x?x64xf32>, tensor<?x2x?x64xf32>, tensor<?x2x?x64xf32>)
        -> (tensor<?x2x?x64xf32>, tensor<?x2x?xf32>)
  return %out, %lse : tensor<?x2x?x64xf32>, tensor<?x2x?xf32>
}
