// Documents packed one behind the other: a query sees the keys of its own document, up to itself. Which position belongs to which document is
// data, so no formula bounds that part; the causal part still skips half of the blocks. Of the others a CPU evaluates the mask before it reads
// their keys, and skips those that keep no pair. For a GPU, and here with --block-lists, the mask is evaluated before the attention, to
// find the blocks that it leaves empty. block_lists.mlir does that once for many calls.
//
// RUN: attn-run %s --q-len=113 --kv-len=113 --fill documents=sorted:0:4 --check
// RUN: attn-run %s --q-len=113 --kv-len=113 --fill documents=sorted:0:4 --check --backward
// RUN: attn-run %s --q-len=301 --kv-len=301 --fill documents=sorted:0:4 --block-lists --check
// RUN: attn-run %s --q-len=301 --kv-len=301 --fill documents=sorted:0:4 --block-lists --check --backward
// RUN: attn-run %s --q-len=301 --kv-len=301 --fill documents=sorted:0:4 --block-lists --order=key-outer --check

func.func @document_mask(%q: tensor<?x2x?x64xf32>, %k: tensor<?x2x?x64xf32>, %v: tensor<?x2x?x64xf32>,
                         %documents: tensor<?x?xi32>) -> (tensor<?x2x?x64xf32>, tensor<?x2x?xf32>) {
  %out, %lse = attn.attention %q, %k, %v captures(%documents : tensor<?x?xi32>)
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %of_query = tensor.extract %documents[%b, %q_idx] : tensor<?x?xi32>
      %of_key = tensor.extract %documents[%b, %kv_idx] : tensor<?x?xi32>
      %same = arith.cmpi eq, %of_query, %of_key : i32
      %causal = arith.cmpi sle, %kv_idx, %q_idx : index
      %keep = arith.andi %same, %causal : i1
      attn.yield %keep : i1
    } : (tensor<?x2x?x64xf32>, tensor<?x2x?x64xf32>, tensor<?x2x?x64xf32>)
        -> (tensor<?x2x?x64xf32>, tensor<?x2x?xf32>)
  return %out, %lse : tensor<?x2x?x64xf32>, tensor<?x2x?xf32>
}
