// Block lists of a document mask, computed once and used many times: by several layers of one function, or by calls of other
// functions, forward and backward, that are given them as an argument. Lists change no result; attention skips the blocks
// that they call empty and does not evaluate the mask in those that they call full.
//
// RUN: attn-run %s --entry=two_layers --q-len=301 --kv-len=301 --fill documents=sorted:0:4 --check
// In Python, @make_lists and then @layer as often as one likes:
//
//   lists = attn.compile(text, entry="make_lists")(q, k, documents)
//   layer = attn.compile(text, entry="layer")
//   out, lse = layer(q, k, v, documents, lists)
//   d_q, d_k, d_v = layer.backward(q, k, v, documents, lists, out, lse, d_out, d_lse)

!q = tensor<?x2x?x64xf32>
!lse = tensor<?x2x?xf32>
!documents = tensor<?x?xi32>
!lists = tensor<?x1x?x?x4xi32>

// Only the lengths of queries and keys matter. The mask does not use %h: one list is for all heads.
func.func @make_lists(%q: !q, %k: !q, %documents: !documents) -> !lists {
  %lists = attn.block_lists %q, %k captures(%documents : !documents) blocks(128, 128)
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %of_query = tensor.extract %documents[%b, %q_idx] : !documents
      %of_key = tensor.extract %documents[%b, %kv_idx] : !documents
      %same = arith.cmpi eq, %of_query, %of_key : i32
      %causal = arith.cmpi sle, %kv_idx, %q_idx : index
      %keep = arith.andi %same, %causal : i1
      attn.yield %keep : i1
    } : (!q, !q) -> !lists
  return %lists : !lists
}

// The backward function that --attn-differentiate makes takes the lists, too.
func.func @layer(%q: !q, %k: !q, %v: !q, %documents: !documents, %lists: !lists) -> (!q, !lse) {
  %out, %lse = attn.attention %q, %k, %v captures(%documents : !documents) block_lists(%lists : !lists) blocks(128, 128)
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %of_query = tensor.extract %documents[%b, %q_idx] : !documents
      %of_key = tensor.extract %documents[%b, %kv_idx] : !documents
      %same = arith.cmpi eq, %of_query, %of_key : i32
      %causal = arith.cmpi sle, %kv_idx, %q_idx : index
      %keep = arith.andi %same, %causal : i1
      attn.yield %keep : i1
    } : (!q, !q, !q) -> (!q, !lse)
  return %out, %lse : !q, !lse
}

func.func @two_layers(%q: !q, %k: !q, %v: !q, %documents: !documents) -> !q {
  %lists = attn.block_lists %q, %k captures(%documents : !documents) blocks(128, 128)
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %of_query = tensor.extract %documents[%b, %q_idx] : !documents
      %of_key = tensor.extract %documents[%b, %kv_idx] : !documents
      %same = arith.cmpi eq, %of_query, %of_key : i32
      attn.yield %same : i1
    } : (!q, !q) -> !lists
  %hidden, %lse_0 = attn.attention %q, %k, %v captures(%documents : !documents) block_lists(%lists : !lists) blocks(128, 128)
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %of_query = tensor.extract %documents[%b, %q_idx] : !documents
      %of_key = tensor.extract %documents[%b, %kv_idx] : !documents
      %same = arith.cmpi eq, %of_query, %of_key : i32
      attn.yield %same : i1
    } : (!q, !q, !q) -> (!q, !lse)
  %out, %lse_1 = attn.attention %hidden, %k, %v captures(%documents : !documents) block_lists(%lists : !lists) blocks(128, 128)
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %of_query = tensor.extract %documents[%b, %q_idx] : !documents
      %of_key = tensor.extract %documents[%b, %kv_idx] : !documents
      %same = arith.cmpi eq, %of_query, %of_key : i32
      attn.yield %same : i1
    } : (!q, !q, !q) -> (!q, !lse)
  return %out : !q
}
