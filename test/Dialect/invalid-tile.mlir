// RUN: attn-opt %s --split-input-file --verify-diagnostics

gpu.module @kernels {
  // expected-error @below {{expected warps from 1 to 32, blocks_per_multiprocessor of at least 1, shared_bytes of at least 0 and optimization from 0 to 3, got 33, 1, 0 and 3 [K1]}}
  gpu.func @kernel() kernel attributes {attn_tile.kernel = #attn_tile.kernel<warps = 33>} { gpu.return }
}

// -----

// expected-error @below {{expected 'attn_tile.kernel' on a gpu.func kernel only}}
func.func private @f() attributes {attn_tile.kernel = #attn_tile.kernel<warps = 4>}

// -----

// expected-error @below {{unknown attribute 'attn_tile.other' of the attn_tile dialect, expected 'attn_tile.kernel' or 'attn_tile.left_zero'}}
func.func private @f() attributes {attn_tile.other}

// -----

// expected-error @below {{expected 'attn_tile.left_zero' on a memref.alloc only, without a value}}
func.func private @f() attributes {attn_tile.left_zero}

// -----

// expected-error @below {{expected a shared tile of one to three dimensions of at least 1, of f32, f16 or bf16, got [64, 64] of 'f64' [TS1]}}
func.func private @f(!attn_tile.shared<64x64xf64>)

// -----

// expected-error @below {{expected rows of a multiple of 32 bytes, got 24 of 'bf16' [TS2]}}
func.func private @f(!attn_tile.shared<64x24xbf16>)

// -----

// expected-error @below {{expected accumulator, operand_a, rows, columns or thread, got diagonal}}
func.func private @f(!attn_tile.fragment<64x64xf32, diagonal, 4x1>)

// -----

// expected-error @below {{expected a fragment of layout accumulator to have two dimensions of f32, got [64, 64] of 'bf16' [TF1]}}
func.func private @f(!attn_tile.fragment<64x64xbf16, accumulator, 4x1>)

// -----

// expected-error @below {{expected a fragment of layout rows to have one dimension of f32, got [64, 64] of 'f32' [TF1]}}
func.func private @f(!attn_tile.fragment<64x64xf32, rows, 4x1>)

// -----

// expected-error @below {{expected a fragment of layout columns to have one dimension of at most 32 bits, got [64] of 'i64' [TF1]}}
func.func private @f(!attn_tile.fragment<64xi64, columns, 4x1>)

// -----

// expected-error @below {{and one warp column), got [12] for warps [4, 1] [TF2]}}
func.func private @f(!attn_tile.fragment<12xi32, columns, 4x1>)

// -----

// expected-error @below {{and one warp column), got [48, 64] for warps [4, 1] [TF2]}}
func.func private @f(!attn_tile.fragment<48x64xf32, accumulator, 4x1>)

// -----

// expected-error @below {{and one warp column), got [64, 64] for warps [2, 2] [TF2]}}
func.func private @f(!attn_tile.fragment<64x64xbf16, operand_a, 2x2>)

// -----

func.func @f() {
  // expected-error @below {{expected the name to be a C++ identifier, got "2nd" [SA1]}}
  %0 = attn_tile.shared_alloc "2nd" : !attn_tile.shared<64x64xbf16>
  return
}

// -----

func.func @f() {
  %0 = attn_tile.shared_alloc "tile" : !attn_tile.shared<64x64xbf16>
  // expected-error @below {{expected a tile of at most 8192 bytes, got 16384 [SR1]}}
  %1 = attn_tile.shared_reuse %0 "other" : !attn_tile.shared<64x64xbf16> to !attn_tile.shared<64x64xf32>
  return
}

// -----

func.func @f() {
  // expected-error @below {{expected the name to be a C++ identifier, got "a b" [FA1]}}
  %0 = attn_tile.fragment_alloc "a b" : !attn_tile.fragment<64xf32, rows, 4x1>
  return
}

// -----

func.func @f(%source: memref<?x?x?x64xf16>, %tile: !attn_tile.shared<64x64xbf16>, %i: index) {
  // expected-error @below {{expected source and a 2-D tile of the same element type, got 'memref<?x?x?x64xf16>' and '!attn_tile.shared<64x64xbf16>' [CA1]}}
  attn_tile.copy_async %source[%i, %i, %i] rows(%i) to %tile : memref<?x?x?x64xf16>, !attn_tile.shared<64x64xbf16>
  return
}

// -----

func.func @f(%source: memref<?x?x?x64xf16>, %tile: !attn_tile.shared<64x64xf16>, %i: index) {
  // expected-error @below {{expected an index for each dimension of 'memref<?x?x?x64xf16>' but the last, got 2 [CA1]}}
  attn_tile.copy_async %source[%i, %i] rows(%i) to %tile : memref<?x?x?x64xf16>, !attn_tile.shared<64x64xf16>
  return
}

// -----

func.func @f(%source: memref<?x?x?x80xf16>, %tile: !attn_tile.shared<64x64xf16>, %i: index) {
  // expected-error @below {{expected a static last dimension of stride 1 and at most 64 elements, got 'memref<?x?x?x80xf16>' [CA2]}}
  attn_tile.copy_async %source[%i, %i, %i] rows(%i) to %tile : memref<?x?x?x80xf16>, !attn_tile.shared<64x64xf16>
  return
}

// -----

func.func @f(%acc: !attn_tile.fragment<64xf32, rows, 4x1>, %a: !attn_tile.shared<64x64xf16>) {
  // expected-error @below {{expected acc to have layout accumulator, got rows [MM1]}}
  attn_tile.mma mma_sync %acc, %a, %a : !attn_tile.fragment<64xf32, rows, 4x1>, !attn_tile.shared<64x64xf16>, !attn_tile.shared<64x64xf16>
  return
}

// -----

func.func @f(%acc: !attn_tile.fragment<64x64xf32, accumulator, 4x1>, %a: !attn_tile.fragment<64x64xf16, operand_a, 2x1>, %b: !attn_tile.shared<64x64xf16>) {
  // expected-error @below {{expected a fragment as a not to be transposed, and to have the warps of acc}}
  attn_tile.mma mma_sync %acc, %a, %b : !attn_tile.fragment<64x64xf32, accumulator, 4x1>, !attn_tile.fragment<64x64xf16, operand_a, 2x1>, !attn_tile.shared<64x64xf16>
  return
}

// -----

func.func @f(%acc: !attn_tile.fragment<64x64xf32, accumulator, 4x1>, %a: !attn_tile.shared<64x32xf16>, %b: !attn_tile.shared<64x64xf16>) {
  // expected-error @below {{expected acc of 64x64 and the same inner dimension of a and b, a multiple of 16, got '!attn_tile.fragment<64x64xf32, accumulator, 4x1>', 32 and 64 [MM2]}}
  attn_tile.mma mma_sync %acc, %a, %b : !attn_tile.fragment<64x64xf32, accumulator, 4x1>, !attn_tile.shared<64x32xf16>, !attn_tile.shared<64x64xf16>
  return
}

// -----

func.func @f(%acc: !attn_tile.fragment<64x64xf32, accumulator, 4x1>, %a: !attn_tile.shared<64x64xf32>) {
  // expected-error @below {{expected a and b to have the same element type, f16 or bf16 for the atom mma_sync, got 'f32' and 'f32' [MM3]}}
  attn_tile.mma mma_sync %acc, %a, %a : !attn_tile.fragment<64x64xf32, accumulator, 4x1>, !attn_tile.shared<64x64xf32>, !attn_tile.shared<64x64xf32>
  return
}

// -----

func.func @f(%acc: !attn_tile.fragment<64xf32, rows, 4x1>, %a: !attn_tile.shared<64x64xf16>) {
  // expected-error @below {{expected acc to have layout accumulator, got rows [AF1]}}
  attn_tile.add_non_finite %acc, %a, %a : !attn_tile.fragment<64xf32, rows, 4x1>, !attn_tile.shared<64x64xf16>, !attn_tile.shared<64x64xf16>
  return
}

// -----

func.func @f(%acc: !attn_tile.fragment<64x64xf32, accumulator, 4x1>, %a: !attn_tile.fragment<64x64xf16, operand_a, 4x1>, %b: !attn_tile.shared<64x64xf16>) {
  // expected-error @below {{expected a to have layout accumulator, got operand_a [AF1]}}
  attn_tile.add_non_finite %acc, %a, %b : !attn_tile.fragment<64x64xf32, accumulator, 4x1>, !attn_tile.fragment<64x64xf16, operand_a, 4x1>, !attn_tile.shared<64x64xf16>
  return
}

// -----

func.func @f(%acc: !attn_tile.fragment<64x64xf32, accumulator, 2x2>, %b: !attn_tile.shared<64x64xf16>) {
  // expected-error @below {{expected a fragment as a to have the warps of acc, in one column, got}}
  attn_tile.add_non_finite %acc, %acc, %b : !attn_tile.fragment<64x64xf32, accumulator, 2x2>, !attn_tile.fragment<64x64xf32, accumulator, 2x2>, !attn_tile.shared<64x64xf16>
  return
}

// -----

func.func @f(%acc: !attn_tile.fragment<64x64xf32, accumulator, 4x1>, %a: !attn_tile.shared<64xf32>, %b: !attn_tile.shared<64x64xf16>) {
  // expected-error @below {{expected a and b to have two dimensions, got '!attn_tile.shared<64xf32>' and '!attn_tile.shared<64x64xf16>' [AF1]}}
  attn_tile.add_non_finite %acc, %a, %b : !attn_tile.fragment<64x64xf32, accumulator, 4x1>, !attn_tile.shared<64xf32>, !attn_tile.shared<64x64xf16>
  return
}

// -----

func.func @f(%acc: !attn_tile.fragment<64x64xf32, accumulator, 4x1>, %a: !attn_tile.shared<32x64xf16>, %b: !attn_tile.shared<64x64xf16>) {
  // expected-error @below {{expected acc of 32x64 and the same inner dimension of a and b, got '!attn_tile.fragment<64x64xf32, accumulator, 4x1>', 64 and 64 [AF2]}}
  attn_tile.add_non_finite %acc, %a, %b : !attn_tile.fragment<64x64xf32, accumulator, 4x1>, !attn_tile.shared<32x64xf16>, !attn_tile.shared<64x64xf16>
  return
}

// -----

func.func @f(%source: memref<?x?x?x64xf16>, %tile: !attn_tile.shared<64x64xbf16>, %i: index) {
  // expected-error @below {{expected source and a 2-D tile of the same element type, got 'memref<?x?x?x64xf16>' and '!attn_tile.shared<64x64xbf16>' [CF1]}}
  attn_tile.copy_finite %source[%i, %i, %i] rows(%i) to %tile : memref<?x?x?x64xf16>, !attn_tile.shared<64x64xbf16>
  return
}

// -----

func.func @f(%source: memref<?x?x?x80xf16>, %tile: !attn_tile.shared<64x64xf16>, %i: index) {
  // expected-error @below {{expected a static last dimension of stride 1 and at most 64 elements, got 'memref<?x?x?x80xf16>' [CF2]}}
  attn_tile.copy_finite %source[%i, %i, %i] rows(%i) to %tile : memref<?x?x?x80xf16>, !attn_tile.shared<64x64xf16>
  return
}

// -----

func.func @f(%a: !attn_tile.fragment<64x64xf32, accumulator, 4x1>, %r: !attn_tile.fragment<128xf32, rows, 4x1>) {
  // expected-error @below {{expected rows of type '!attn_tile.fragment<64xf32, rows, 4x1>', got '!attn_tile.fragment<128xf32, rows, 4x1>' [MP1]}}
  attn_tile.map ins(%r : !attn_tile.fragment<128xf32, rows, 4x1>) outs(%a : !attn_tile.fragment<64x64xf32, accumulator, 4x1>) {
  ^bb0(%row: index, %column: index, %m: f32, %s: f32):
    attn_tile.yield %s : f32
  }
  return
}

// -----

func.func @f(%a: !attn_tile.fragment<64x64xf32, accumulator, 4x1>, %c: !attn_tile.fragment<32xi32, columns, 4x1>) {
  // expected-error @below {{expected columns of the accumulators, got '!attn_tile.fragment<32xi32, columns, 4x1>' [MP1]}}
  attn_tile.map ins(%c : !attn_tile.fragment<32xi32, columns, 4x1>) outs(%a : !attn_tile.fragment<64x64xf32, accumulator, 4x1>) {
  ^bb0(%row: index, %column: index, %m: i32, %s: f32):
    attn_tile.yield %s : f32
  }
  return
}

// -----

func.func @f(%a: !attn_tile.fragment<64x64xf32, accumulator, 4x1>, %o: !attn_tile.fragment<64x32xbf16, operand_a, 4x1>) {
  // expected-error @below {{expected operands of 16 bits, of the shape and the warps of the accumulators, got '!attn_tile.fragment<64x32xbf16, operand_a, 4x1>' [MP1]}}
  attn_tile.map ins(%o : !attn_tile.fragment<64x32xbf16, operand_a, 4x1>) outs(%a : !attn_tile.fragment<64x64xf32, accumulator, 4x1>) {
  ^bb0(%row: index, %column: index, %m: bf16, %s: f32):
    attn_tile.yield %s : f32
  }
  return
}

// -----

func.func @f(%a: !attn_tile.fragment<64x64xf32, accumulator, 4x1>, %o: !attn_tile.fragment<64x64xbf16, operand_a, 4x1>) {
  // expected-error @below {{expected accumulators among the outs alone, since there is one [MP1]}}
  attn_tile.map ins(%a : !attn_tile.fragment<64x64xf32, accumulator, 4x1>) outs(%o : !attn_tile.fragment<64x64xbf16, operand_a, 4x1>) {
  ^bb0(%row: index, %column: index, %s: f32, %m: bf16):
    attn_tile.yield %m : bf16
  }
  return
}

// -----

func.func @f(%o: !attn_tile.fragment<64x64xbf16, operand_a, 4x1>) -> i1 {
  // expected-error @below {{expected operands of 16 bits, of the shape and the warps of the accumulators, got '!attn_tile.fragment<64x64xbf16, operand_a, 4x1>' [AN1]}}
  %any = attn_tile.any ins(%o : !attn_tile.fragment<64x64xbf16, operand_a, 4x1>) {
  ^bb0(%row: index, %column: index, %m: bf16):
    %true = arith.constant true
    attn_tile.yield %true : i1
  }
  return %any : i1
}

// -----

func.func @f(%c: !attn_tile.fragment<32xi32, columns, 4x1>) -> i1 {
  // expected-error @below {{expected columns of the accumulators, got '!attn_tile.fragment<32xi32, columns, 4x1>' [AN1]}}
  %any = attn_tile.any ins(%c : !attn_tile.fragment<32xi32, columns, 4x1>) {
  ^bb0(%row: index, %column: index, %m: i32):
    %true = arith.constant true
    attn_tile.yield %true : i1
  }
  return %any : i1
}

// -----

func.func @f(%a: !attn_tile.fragment<64x64xf32, accumulator, 4x1>, %r: !attn_tile.fragment<64xf32, rows, 4x1>) {
  // expected-error @below {{expected accumulators among the outs alone, since there is one [MP1]}}
  attn_tile.map ins(%a : !attn_tile.fragment<64x64xf32, accumulator, 4x1>) outs(%r : !attn_tile.fragment<64xf32, rows, 4x1>) {
  ^bb0(%row: index, %column: index, %s: f32, %m: f32):
    attn_tile.yield %s : f32
  }
  return
}

// -----

func.func @f(%r: !attn_tile.fragment<64xf32, rows, 4x1>) -> index {
  // expected-error @below {{expected the fragment to have layout accumulator, got rows [FC1]}}
  %first = attn_tile.first_column %r : !attn_tile.fragment<64xf32, rows, 4x1>
  return %first : index
}

// -----

func.func @f(%r: !attn_tile.fragment<64xf32, rows, 4x1>) {
  // expected-error @below {{expected region arguments of types 'index', 'f32', got 'index', 'index', 'f32' [MP2]}}
  attn_tile.map outs(%r : !attn_tile.fragment<64xf32, rows, 4x1>) {
  ^bb0(%row: index, %column: index, %s: f32):
    attn_tile.yield %s : f32
  }
  return
}

// -----

func.func @f(%r: !attn_tile.fragment<64xf32, rows, 4x1>) {
  // expected-error @below {{expected the region to yield 'f32', got  [MP2]}}
  attn_tile.map outs(%r : !attn_tile.fragment<64xf32, rows, 4x1>) {
  ^bb0(%row: index, %s: f32):
    attn_tile.yield
  }
  return
}

// -----

func.func @f(%a: !attn_tile.fragment<64x64xf32, accumulator, 4x1>, %r: !attn_tile.fragment<128xf32, rows, 4x1>) -> i1 {
  // expected-error @below {{expected rows of type '!attn_tile.fragment<64xf32, rows, 4x1>', got '!attn_tile.fragment<128xf32, rows, 4x1>' [AN1]}}
  %any = attn_tile.any ins(%a, %r : !attn_tile.fragment<64x64xf32, accumulator, 4x1>, !attn_tile.fragment<128xf32, rows, 4x1>) {
  ^bb0(%row: index, %column: index, %s: f32, %m: f32):
    %holds = arith.cmpf ogt, %s, %m : f32
    attn_tile.yield %holds : i1
  }
  return %any : i1
}

// -----

func.func @f(%r: !attn_tile.fragment<64xf32, rows, 4x1>) -> i1 {
  // expected-error @below {{expected the region to yield 'i1', got 'f32' [AN2]}}
  %any = attn_tile.any ins(%r : !attn_tile.fragment<64xf32, rows, 4x1>) {
  ^bb0(%row: index, %s: f32):
    attn_tile.yield %s : f32
  }
  return %any : i1
}

// -----

func.func @f(%a: !attn_tile.fragment<64x64xf32, accumulator, 4x1>, %b: !attn_tile.fragment<64x32xf16, operand_a, 4x1>) {
  // expected-error @below {{of its shape and warps, got '!attn_tile.fragment<64x64xf32, accumulator, 4x1>' and '!attn_tile.fragment<64x32xf16, operand_a, 4x1>' [CV1]}}
  attn_tile.convert %a to %b : !attn_tile.fragment<64x64xf32, accumulator, 4x1>, !attn_tile.fragment<64x32xf16, operand_a, 4x1>
  return
}

// -----

func.func @f(%a: !attn_tile.fragment<64x64xf32, accumulator, 4x1>, %r: !attn_tile.fragment<64xf32, rows, 2x1>) {
  // expected-error @below {{expected an accumulator and its rows, got '!attn_tile.fragment<64x64xf32, accumulator, 4x1>' and '!attn_tile.fragment<64xf32, rows, 2x1>' [RR1]}}
  attn_tile.row_reduce max %a into %r : !attn_tile.fragment<64x64xf32, accumulator, 4x1>, !attn_tile.fragment<64xf32, rows, 2x1>
  return
}

// -----

func.func @f(%a: !attn_tile.fragment<64x64xf32, accumulator, 4x1>) {
  // expected-error @below {{expected the fragment to have layout rows, got accumulator [RC1]}}
  attn_tile.row_combine add %a : !attn_tile.fragment<64x64xf32, accumulator, 4x1>
  return
}

// -----

func.func @f(%a: !attn_tile.fragment<64x64xf32, accumulator, 2x2>, %r: !attn_tile.fragment<64xf32, rows, 2x2>) {
  // expected-error @below {{expected a scratch of 128 f32, for the rows of 2 warp columns, got none [RR2]}}
  attn_tile.row_reduce max %a into %r : !attn_tile.fragment<64x64xf32, accumulator, 2x2>, !attn_tile.fragment<64xf32, rows, 2x2>
  return
}

// -----

func.func @f(%a: !attn_tile.fragment<64x64xf32, accumulator, 2x2>, %r: !attn_tile.fragment<64xf32, rows, 2x2>, %s: !attn_tile.shared<128xf32>) {
  // expected-error @below {{interleaves the elements of whole rows, expected `partial` [RR3]}}
  attn_tile.row_reduce add %a into %r interleaved through %s : !attn_tile.fragment<64x64xf32, accumulator, 2x2>, !attn_tile.fragment<64xf32, rows, 2x2>, !attn_tile.shared<128xf32>
  return
}

// -----

func.func @f(%a: !attn_tile.fragment<64x64xf32, accumulator, 2x2>, %r: !attn_tile.fragment<64xf32, rows, 2x2>, %s: !attn_tile.shared<128xf32>) {
  // expected-error @below {{expected no scratch, got '!attn_tile.shared<128xf32>' [RR2]}}
  attn_tile.row_reduce max %a into %r partial through %s : !attn_tile.fragment<64x64xf32, accumulator, 2x2>, !attn_tile.fragment<64xf32, rows, 2x2>, !attn_tile.shared<128xf32>
  return
}

// -----

func.func @f(%r: !attn_tile.fragment<64xf32, rows, 2x2>, %s: !attn_tile.shared<64xf32>) {
  // expected-error @below {{expected a scratch of 128 f32, for the rows of 2 warp columns, got '!attn_tile.shared<64xf32>' [RC2]}}
  attn_tile.row_combine add %r through %s : !attn_tile.fragment<64xf32, rows, 2x2>, !attn_tile.shared<64xf32>
  return
}

// -----

func.func @f(%documents: memref<?x?xi32>, %c: !attn_tile.fragment<64xi16, columns, 4x1>, %i: index) {
  // expected-error @below {{expected an index for each dimension of the source and columns of its elements, got 2 for 'memref<?x?xi32>', and '!attn_tile.fragment<64xi16, columns, 4x1>' [LC1]}}
  attn_tile.load_columns %documents[%i, %i] to %c : memref<?x?xi32>, !attn_tile.fragment<64xi16, columns, 4x1>
  return
}

// -----

func.func @f(%lse: memref<?x?x?xf16>, %r: !attn_tile.fragment<64xf32, rows, 4x1>, %i: index, %p: f32) {
  // expected-error @below {{expected f32 elements and an index for each dimension of 'memref<?x?x?xf16>', got 3 [LR1]}}
  attn_tile.load_rows %lse[%i, %i, %i] rows(%i) padding(%p) to %r : memref<?x?x?xf16>, !attn_tile.fragment<64xf32, rows, 4x1>
  return
}

// -----

func.func @f(%a: !attn_tile.fragment<64x64xf32, accumulator, 4x1>, %t: !attn_tile.shared<64x32xf16>) {
  // expected-error @below {{expected a tile of the fragment's shape, got '!attn_tile.fragment<64x64xf32, accumulator, 4x1>' and '!attn_tile.shared<64x32xf16>' [SS1]}}
  attn_tile.store_shared %a to %t : !attn_tile.fragment<64x64xf32, accumulator, 4x1>, !attn_tile.shared<64x32xf16>
  return
}

// -----

func.func @f(%a: !attn_tile.fragment<64x64xf32, accumulator, 4x1>, %out: memref<?x?x?x?xf16>, %i: index) {
  // expected-error @below {{expected a static last dimension of stride 1 and at most 64 elements, got 'memref<?x?x?x?xf16>' [ST1]}}
  attn_tile.store %a to %out[%i, %i, %i] rows(%i) : !attn_tile.fragment<64x64xf32, accumulator, 4x1>, memref<?x?x?x?xf16>
  return
}

// -----

func.func @f(%a: !attn_tile.fragment<64x64xf32, accumulator, 4x1>, %t: !attn_tile.shared<64x64xbf16>, %out: memref<?x?x?x64xf16>, %i: index) {
  // expected-error @below {{expected the tile to have the fragment's shape and the target's element type, got '!attn_tile.shared<64x64xbf16>' for '!attn_tile.fragment<64x64xf32, accumulator, 4x1>' and 'memref<?x?x?x64xf16>' [ST2]}}
  attn_tile.store %a via %t to %out[%i, %i, %i] rows(%i) : !attn_tile.fragment<64x64xf32, accumulator, 4x1>, memref<?x?x?x64xf16> via !attn_tile.shared<64x64xbf16>
  return
}

// -----

func.func @f(%r: !attn_tile.fragment<64xf32, rows, 4x1>, %lse: memref<?x?x?xf32>, %i: index) {
  // expected-error @below {{expected f32 elements and an index for each dimension of 'memref<?x?x?xf32>', got 2 [SO1]}}
  attn_tile.store_rows %r to %lse[%i, %i] rows(%i) : !attn_tile.fragment<64xf32, rows, 4x1>, memref<?x?x?xf32>
  return
}

// -----

func.func @f(%a: !attn_tile.fragment<64x64xf32, accumulator, 4x1>, %sum: memref<?x?x?x64xf16>, %i: index) {
  // expected-error @below {{expected a tensor of f32, got 'memref<?x?x?x64xf16>' [AA1]}}
  attn_tile.atomic_add %a to %sum[%i, %i, %i] rows(%i) : !attn_tile.fragment<64x64xf32, accumulator, 4x1>, memref<?x?x?x64xf16>
  return
}

// -----

func.func @f(%a: !attn_tile.fragment<64x64xf32, accumulator, 4x1>, %sum: memref<?x?x?x80xf32>, %i: index) {
  // expected-error @below {{expected a static last dimension of stride 1 and at most 64 elements, got 'memref<?x?x?x80xf32>' [LD1]}}
  attn_tile.load %sum[%i, %i, %i] rows(%i) to %a : memref<?x?x?x80xf32>, !attn_tile.fragment<64x64xf32, accumulator, 4x1>
  return
}

// -----

func.func @f(%a: !attn_tile.shared<64x64xf16>, %r: !attn_tile.fragment<128xf32, rows, 4x1>) {
  // expected-error @below {{expected 2-D tiles with the rows of '!attn_tile.fragment<128xf32, rows, 4x1>', got '!attn_tile.shared<64x64xf16>' [RD1]}}
  attn_tile.row_dot %a, %a into %r : !attn_tile.shared<64x64xf16>, !attn_tile.fragment<128xf32, rows, 4x1>
  return
}

// -----

func.func @f(%a: !attn_tile.fragment<64x64xf32, accumulator, 4x1>, %r: !attn_tile.fragment<64xf32, rows, 4x1>) {
  attn_tile.map outs(%a : !attn_tile.fragment<64x64xf32, accumulator, 4x1>) {
  ^bb0(%row: index, %column: index, %s: f32):
    // expected-error @below {{expected the sum to have layout thread, got rows [AC1]}}
    attn_tile.accumulate %s into %r : !attn_tile.fragment<64xf32, rows, 4x1>
    attn_tile.yield %s : f32
  }
  return
}

// -----

func.func @f(%sum: !attn_tile.fragment<f32, thread, 4x1>, %target: memref<16xf32>) {
  // expected-error @below {{expected f32 elements and an index for each dimension of 'memref<16xf32>', got 0 [FS1]}}
  attn_tile.flush_sum %sum to %target[] : !attn_tile.fragment<f32, thread, 4x1>, memref<16xf32>
  return
}

// -----

func.func @f(%a: !attn_tile.fragment<64x64xf32, accumulator, 4x1>, %sum: memref<?x?x?x64xf32>, %i: index) {
  // expected-error @below {{expected a last dimension of 4096, the elements of the fragment, got 'memref<?x?x?x64xf32>' [AA1]}}
  attn_tile.atomic_add %a to %sum[%i, %i, %i] rows(%i) opaque : !attn_tile.fragment<64x64xf32, accumulator, 4x1>, memref<?x?x?x64xf32>
  return
}

// -----

func.func @f(%ring: !attn_tile.shared<2x64x64xf16>, %i: index) {
  // expected-error @below {{expected a ring and the type of its slots, got '!attn_tile.shared<2x64x64xf16>' and '!attn_tile.shared<32x64xf16>' [RS1]}}
  %0 = attn_tile.ring_slot %ring[%i] "slot" : !attn_tile.shared<2x64x64xf16> to !attn_tile.shared<32x64xf16>
  return
}

// -----

func.func @f(%a: !attn_tile.fragment<64x64xf32, accumulator, 4x1>, %t: !attn_tile.shared<64x64xf32>) {
  // expected-error @below {{expected a tile of f16 or bf16, got '!attn_tile.shared<64x64xf32>' [LS1]}}
  attn_tile.load_shared %t to %a : !attn_tile.shared<64x64xf32>, !attn_tile.fragment<64x64xf32, accumulator, 4x1>
  return
}

// -----

func.func @f(%source: memref<?x64xf16>, %tile: !attn_tile.shared<64x64xf16>, %i: index) {
  // expected-error @below {{expected at least two indices of packed rows, got 1 [CA3]}}
  attn_tile.copy_async %source[%i] packed(%i) rows(%i) to %tile : memref<?x64xf16>, !attn_tile.shared<64x64xf16>
  return
}

// -----

func.func @f(%a: !attn_tile.fragment<64x64xf32, accumulator, 4x1>, %out: memref<?x64xf16>, %i: index) {
  // expected-error @below {{expected at least two indices of packed rows, got 1 [ST3]}}
  attn_tile.store %a to %out[%i] packed(%i) rows(%i) : !attn_tile.fragment<64x64xf32, accumulator, 4x1>, memref<?x64xf16>
  return
}

// -----

func.func @f(%r: !attn_tile.fragment<64xf32, rows, 4x1>, %lse: memref<?xf32>, %i: index) {
  // expected-error @below {{expected at least two indices of packed rows, got 1 [SO2]}}
  attn_tile.store_rows %r to %lse[%i] packed(%i) rows(%i) : !attn_tile.fragment<64xf32, rows, 4x1>, memref<?xf32>
  return
}

// -----

func.func @f(%condition: i1) {
  // expected-error @below {{expected the name to be a C++ identifier, got "split kv" [TI1]}}
  attn_tile.take_if %condition "split kv"
  return
}

// -----

// expected-error @below {{expected a box of 1 to 256 rows and of columns of 128 bytes in all, of f16 or bf16, got [257, 64] of 'bf16' [TM1]}}
func.func private @f(!attn_tile.tensor_map<257x64xbf16>)

// -----

// expected-error @below {{expected a box of 1 to 256 rows and of columns of 128 bytes in all, of f16 or bf16, got [64, 32] of 'f16' [TM1]}}
func.func private @f(!attn_tile.tensor_map<64x32xf16>)

// -----

// expected-error @below {{expected a box of 1 to 256 rows and of columns of 128 bytes in all, of f16 or bf16, got [64, 32] of 'f32' [TM1]}}
func.func private @f(!attn_tile.tensor_map<64x32xf32>)

// -----

// expected-error @below {{expected a box of 1 to 256 rows and of columns of 128 bytes in all, of f16 or bf16, got [64] of 'bf16' [TM1]}}
func.func private @f(!attn_tile.tensor_map<64xbf16>)

// -----

// expected-error @below {{expected a box of 1 to 256 rows and of columns of 128 bytes in all, of f16 or bf16, got [0, 64] of 'bf16' [TM1]}}
func.func private @f(!attn_tile.tensor_map<0x64xbf16>)

// -----

func.func @f(%buffer: memref<128xbf16>) {
  // expected-error @below {{expected a buffer of two to four dimensions, the last with stride 1, of 'bf16', got 'memref<128xbf16>' [TM2]}}
  %0 = attn_tile.tensor_map %buffer : memref<128xbf16> to !attn_tile.tensor_map<128x64xbf16>
  return
}

// -----

func.func @f(%buffer: memref<?x?x?x128xf16>) {
  // expected-error @below {{expected a buffer of two to four dimensions, the last with stride 1, of 'bf16', got 'memref<?x?x?x128xf16>' [TM2]}}
  %0 = attn_tile.tensor_map %buffer : memref<?x?x?x128xf16> to !attn_tile.tensor_map<128x64xbf16>
  return
}

// -----

func.func @f(%buffer: memref<?x?x?x128xbf16, strided<[?, ?, ?, 2]>>) {
  // expected-error @below {{expected a buffer of two to four dimensions, the last with stride 1, of 'bf16', got 'memref<?x?x?x128xbf16, strided<[?, ?, ?, 2]>>' [TM2]}}
  %0 = attn_tile.tensor_map %buffer : memref<?x?x?x128xbf16, strided<[?, ?, ?, 2]>> to !attn_tile.tensor_map<128x64xbf16>
  return
}

// -----

func.func @f(%buffer: memref<?x?x?x128xbf16, strided<[?, ?, ?, ?]>>) {
  // expected-error @below {{expected a buffer of two to four dimensions, the last with stride 1, of 'bf16', got 'memref<?x?x?x128xbf16, strided<[?, ?, ?, ?]>>' [TM2]}}
  %0 = attn_tile.tensor_map %buffer : memref<?x?x?x128xbf16, strided<[?, ?, ?, ?]>> to !attn_tile.tensor_map<128x64xbf16>
  return
}

// -----

func.func @f(%source: memref<?x?x?x64xf16>, %a: !attn_tile.fragment<16x64xbf16, operand_a, 1x1>, %i: index) {
  // expected-error @below {{expected source and fragment of the same element type, got 'memref<?x?x?x64xf16>' and '!attn_tile.fragment<16x64xbf16, operand_a, 1x1>' [LO1]}}
  attn_tile.load_operand %source[%i, %i, %i] rows(%i) to %a : memref<?x?x?x64xf16>, !attn_tile.fragment<16x64xbf16, operand_a, 1x1>
  return
}

// -----

func.func @f(%source: memref<?x?x?x80xf16>, %a: !attn_tile.fragment<16x64xf16, operand_a, 1x1>, %i: index) {
  // expected-error @below {{[LO2]}}
  attn_tile.load_operand %source[%i, %i, %i] rows(%i) to %a : memref<?x?x?x80xf16>, !attn_tile.fragment<16x64xf16, operand_a, 1x1>
  return
}

// -----

func.func @f(%source: memref<?x64xf16>, %a: !attn_tile.fragment<16x64xf16, operand_a, 1x1>, %i: index) {
  // expected-error @below {{[LO3]}}
  attn_tile.load_operand %source[%i] packed(%i) rows(%i) to %a : memref<?x64xf16>, !attn_tile.fragment<16x64xf16, operand_a, 1x1>
  return
}

// -----

func.func @f(%source: memref<?x?x?x64xf32>, %a: !attn_tile.fragment<16x64xf32, accumulator, 1x1>, %i: index) {
  // expected-error @below {{expected the fragment to have layout operand_a, got accumulator [LO4]}}
  attn_tile.load_operand %source[%i, %i, %i] rows(%i) to %a : memref<?x?x?x64xf32>, !attn_tile.fragment<16x64xf32, accumulator, 1x1>
  return
}

// -----

func.func @f(%a: !attn_tile.fragment<16x64xf32, accumulator, 1x1>, %r: !attn_tile.fragment<16xf32, rows, 1x1>, %s: !attn_tile.shared<4096xf32>) {
  // expected-error @below {{expected a scratch of 1024 f32, got '!attn_tile.shared<4096xf32>' [MW2]}}
  attn_tile.merge_warps %a, %r into %a, %r through %s, %s
      : !attn_tile.fragment<16x64xf32, accumulator, 1x1>, !attn_tile.fragment<16xf32, rows, 1x1>,
        !attn_tile.fragment<16x64xf32, accumulator, 1x1>, !attn_tile.fragment<16xf32, rows, 1x1>, !attn_tile.shared<4096xf32>, !attn_tile.shared<4096xf32>
  return
}

// -----

func.func @f(%a: !attn_tile.fragment<16x64xf32, accumulator, 1x4>, %r: !attn_tile.fragment<16xf32, rows, 1x4>, %s: !attn_tile.shared<4096xf32>) {
  // expected-error @below {{expected accumulators of one shape, of 1x1 and of 1xW warps, and their rows, got '!attn_tile.fragment<16x64xf32, accumulator, 1x4>', '!attn_tile.fragment<16xf32, rows, 1x4>', '!attn_tile.fragment<16x64xf32, accumulator, 1x4>' and '!attn_tile.fragment<16xf32, rows, 1x4>' [MW1]}}
  attn_tile.merge_warps %a, %r into %a, %r through %s, %s
      : !attn_tile.fragment<16x64xf32, accumulator, 1x4>, !attn_tile.fragment<16xf32, rows, 1x4>,
        !attn_tile.fragment<16x64xf32, accumulator, 1x4>, !attn_tile.fragment<16xf32, rows, 1x4>, !attn_tile.shared<4096xf32>, !attn_tile.shared<4096xf32>
  return
}
