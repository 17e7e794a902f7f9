// The sizes of results follow from those of the arguments, through other operations too, or are refused by the name of the
// operation that hides them.
//
// RUN: attn-run %s --entry=between --q-len=19 --kv-len=31 --check | FileCheck %s --check-prefix=BETWEEN
// BETWEEN: {{.}}
// RUN: attn-run %s --entry=between --q-len=19 --kv-len=31 --output %t.npy
// RUN: %python -c "import numpy, sys; shape = numpy.load(sys.argv[1]).shape; assert shape == (1, 4, 16, 16), shape" %t.npy
// RUN: not attn-run %s --entry=product 2>&1 | FileCheck %s --check-prefix=PRODUCT --match-full-lines
// PRODUCT: attn-run: result {{.*}}: the size of dimension 0 does not follow from the sizes of the arguments, since it is no linear function of them {{.*}}; give its type a static size
// RUN: not attn-run %s --entry=data 2>&1 | FileCheck %s --check-prefix=DATA --match-full-lines
// DATA: attn-run: result {{.*}}: the size of dimension 2 does not follow from the sizes of the arguments, since it depends on what 'arith.index_cast' computes; give its type a static size

!q = tensor<?x4x?x16xf32>
!l = tensor<?x4x?xf32>

// Between two attentions: all but the first three rows, as what the second one asks with.
func.func @between(%q: !q, %k: !q) -> !q {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %first, %lse = attn.attention %q, %k, %k : (!q, !q, !q) -> (!q, !l)
  %batch = tensor.dim %first, %c0 : !q
  %rows = tensor.dim %first, %c2 : !q
  %rest = arith.subi %rows, %c3 : index
  %part = tensor.extract_slice %first[0, 0, 3, 0] [%batch, 4, %rest, 16] [1, 1, 1, 1] : !q to !q
  %out, %lse2 = attn.attention %part, %k, %k : (!q, !q, !q) -> (!q, !l)
  return %out : !q
}

// Batch times rows.
func.func @product(%q: !q) -> tensor<?x4x16xf32> {
  %out, %lse = attn.attention %q, %q, %q : (!q, !q, !q) -> (!q, !l)
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %batch = tensor.dim %q, %c0 : !q
  %rows = tensor.dim %q, %c2 : !q
  %size = arith.muli %batch, %rows : index
  %zero = arith.constant 0.0 : f32
  %filled = tensor.splat %zero[%size] : tensor<?x4x16xf32>
  return %filled : tensor<?x4x16xf32>
}

func.func @data(%q: !q, %length: tensor<i32>) -> !q {
  %c0 = arith.constant 0 : index
  %batch = tensor.dim %q, %c0 : !q
  %n = tensor.extract %length[] : tensor<i32>
  %size = arith.index_cast %n : i32 to index
  %part = tensor.extract_slice %q[0, 0, 0, 0] [%batch, 4, %size, 16] [1, 1, 1, 1] : !q to !q
  %out, %lse = attn.attention %part, %q, %q : (!q, !q, !q) -> (!q, !l)
  return %out : !q
}
