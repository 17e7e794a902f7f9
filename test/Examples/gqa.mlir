// Grouped-query attention: several query heads share one head of keys and values. Nothing says so but the shapes: here query
// head h reads key head h floordiv 3. The gradients of keys and values are summed over the heads that share them.
//
// RUN: attn-run %s --entry=static_heads --q-len=65 --kv-len=131 --check
// RUN: attn-run %s --entry=static_heads --q-len=65 --kv-len=131 --check --backward
// RUN: attn-run %s --entry=dynamic_heads --q-heads=10 --kv-heads=2 --q-len=33 --kv-len=47 --check
// RUN: attn-run %s --entry=dynamic_heads --q-heads=7 --kv-heads=1 --q-len=33 --kv-len=47 --check --backward
// RUN: not attn-run %s --entry=dynamic_heads --q-heads=10 --kv-heads=4 --check 2>&1 | FileCheck %s --check-prefix=RATIO
// RATIO: attn-run: q-heads: expected a multiple of the 4 kv-heads, got 10

func.func @static_heads(%q: tensor<?x6x?x64xbf16>, %k: tensor<?x2x?x64xbf16>, %v: tensor<?x2x?x80xbf16>)
    -> (tensor<?x6x?x80xbf16>, tensor<?x6x?xf32>) {
  %out, %lse = attn.attention %q, %k, %v
    : (tensor<?x6x?x64xbf16>, tensor<?x2x?x64xbf16>, tensor<?x2x?x80xbf16>) -> (tensor<?x6x?x80xbf16>, tensor<?x6x?xf32>)
  return %out, %lse : tensor<?x6x?x80xbf16>, tensor<?x6x?xf32>
}

func.func @dynamic_heads(%q: tensor<?x?x?x64xf16>, %k: tensor<?x?x?x64xf16>, %v: tensor<?x?x?x64xf16>)
    -> tensor<?x?x?x64xf16> {
  %out, %lse = attn.attention %q, %k, %v
    : (tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>) -> (tensor<?x?x?x64xf16>, tensor<?x?x?xf32>)
  return %out : tensor<?x?x?x64xf16>
}
