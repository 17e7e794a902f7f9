// The picture is evaluated, not planned; the legend says how the plan compares.
//
// RUN: attn-run %s --entry=sink_window --q-len=12 --kv-len=12 --print-mask --mask-block=2 | FileCheck %s --strict-whitespace --check-prefix=TEXT
//      TEXT:mask of @sink_window, batch entry 0, head 0
// TEXT-NEXT:12 queries, 12 keys, blocks of 2 x 2; kept pairs: 50 (34.7%)
// TEXT-NEXT:         0  key
// TEXT-NEXT:       0 ▒·····
// TEXT-NEXT:         █▒····
// TEXT-NEXT:         █▒▒···
// TEXT-NEXT:         █·▒▒··
// TEXT-NEXT:         █··▒▒·
// TEXT-NEXT:         █···▒▒
// TEXT-NEXT:   query
// TEXT-NEXT:  █  full: every pair is kept (5)
// TEXT-NEXT:  ▒  partial: the mask is evaluated (10)
// TEXT-NEXT:  ·  empty: skipped (21)
// TEXT-NEXT:plan: visits 15 blocks, none of them empty;

// The size of the blocks is chosen to fit; --mask-batch and --mask-head choose the score matrix.
// RUN: attn-run %s --entry=by_head --q-len=1000 --kv-len=700 --print-mask --mask-head=1 | FileCheck %s --check-prefix=HEAD1
// HEAD1: mask of @by_head, batch entry 0, head 1
// HEAD1-NEXT: 1000 queries, 700 keys, blocks of 16 x 16; kept pairs: 700000 (100.0%)
// RUN: attn-run %s --entry=by_head --q-len=64 --kv-len=64 --print-mask --mask-head=0 | FileCheck %s --check-prefix=HEAD0
// HEAD0: kept pairs: 64 (1.6%)

// Without a query or without a key there is nothing to draw.
// RUN: attn-run %s --entry=by_head --q-len=0 --kv-len=7 --print-mask | FileCheck %s --check-prefix=NONE
// NONE: 0 queries, 7 keys

// RUN: attn-run %s --entry=sink_window --q-len=12 --kv-len=12 --print-mask=%t.svg --mask-block=2
// RUN: %python -c "import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])" %t.svg
// RUN: FileCheck %s --check-prefix=SVG < %t.svg
// SVG: <svg xmlns="http://www.w3.org/2000/svg"
// SVG: mask of @sink_window, batch entry 0, head 0
// SVG: key index
// SVG: query index
// SVG: full: every pair is kept (5)
// SVG: partial: the mask is evaluated (10)

// Key 0 and 1, and the query's own and the two before it.
func.func @sink_window(%q: tensor<1x1x?x16xf32>, %k: tensor<1x1x?x16xf32>, %v: tensor<1x1x?x16xf32>) -> tensor<1x1x?x16xf32> {
  %out, %lse = attn.attention %q, %k, %v
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %c2 = arith.constant 2 : index
      %c3 = arith.constant 3 : index
      %sink = arith.cmpi slt, %kv_idx, %c2 : index
      %distance = arith.subi %q_idx, %kv_idx : index
      %near = arith.cmpi slt, %distance, %c3 : index
      %either = arith.ori %sink, %near : i1
      %causal = arith.cmpi sle, %kv_idx, %q_idx : index
      %keep = arith.andi %either, %causal : i1
      attn.yield %keep : i1
    } : (tensor<1x1x?x16xf32>, tensor<1x1x?x16xf32>, tensor<1x1x?x16xf32>) -> (tensor<1x1x?x16xf32>, tensor<1x1x?xf32>)
  return %out : tensor<1x1x?x16xf32>
}

// Head 0 sees the diagonal, head 1 everything.
func.func @by_head(%q: tensor<1x2x?x16xf32>, %k: tensor<1x2x?x16xf32>, %v: tensor<1x2x?x16xf32>) -> tensor<1x2x?x16xf32> {
  %out, %lse = attn.attention %q, %k, %v
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %c1 = arith.constant 1 : index
      %second = arith.cmpi eq, %h, %c1 : index
      %same = arith.cmpi eq, %q_idx, %kv_idx : index
      %keep = arith.ori %second, %same : i1
      attn.yield %keep : i1
    } : (tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>) -> (tensor<1x2x?x16xf32>, tensor<1x2x?xf32>)
  return %out : tensor<1x2x?x16xf32>
}
