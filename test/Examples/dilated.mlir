// Dilated causal attention: a query sees itself and every third key before it, 32 keys back at most.
//
// RUN: attn-run %s --q-len=139 --kv-len=139 --check
// RUN: attn-run %s --q-len=139 --kv-len=139 --check --backward

func.func @dilated(%q: tensor<?x2x?x64xf32>, %k: tensor<?x2x?x64xf32>, %v: tensor<?x2x?x64xf32>)
    -> (tensor<?x2x?x64xf32>, tensor<?x2x?xf32>) {
  %out, %lse = attn.attention %q, %k, %v
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %zero = arith.constant 0 : index
      %step = arith.constant 3 : index
      %reach = arith.constant 96 : index
      %distance = arith.subi %q_idx, %kv_idx : index
      %rest = arith.remsi %distance, %step : index
      %on_grid = arith.cmpi eq, %rest, %zero : index
      %near = arith.cmpi slt, %distance, %reach : index
      %causal = arith.cmpi sge, %distance, %zero : index
      %on_grid_and_near = arith.andi %on_grid, %near : i1
      %keep = arith.andi %on_grid_and_near, %causal : i1
      attn.yield %keep : i1
    } : (tensor<?x2x?x64xf32>, tensor<?x2x?x64xf32>, tensor<?x2x?x64xf32>)
        -> (tensor<?x2x?x64xf32>, tensor<?x2x?xf32>)
  return %out, %lse : tensor<?x2x?x64xf32>, tensor<?x2x?xf32>
}
