// RUN: attn-opt %s --pass-pipeline='builtin.module(gpu.module(attn-tile-load-columns))' | FileCheck %s

!scores = !attn_tile.fragment<64x32xf32, accumulator, 4x1>

gpu.module @kernels {
  // The documents of the keys are loaded before the wait, where the first key is known; that of the query, which differs between rows,
  // stays.
  // CHECK-LABEL: gpu.func @documents(
  // CHECK:       scf.for %[[KV:.*]] =
  // CHECK-NEXT:  attn_tile.mma_commit
  // CHECK-NEXT:  %columns = attn_tile.fragment_alloc "columns" : <32xi32, columns, 4x1>
  // CHECK-NEXT:  attn_tile.load_columns %{{.*}}[%{{.*}}, %[[KV]]] to %columns : memref<?x?xi32>, <32xi32, columns, 4x1>
  // CHECK-NEXT:  attn_tile.mma_wait pending(1) %scores
  // CHECK-NEXT:  attn_tile.map ins(%columns : !attn_tile.fragment<32xi32, columns, 4x1>) outs(%scores :
  // CHECK-NEXT:  ^bb0(%row: index, %column: index, %[[KEY:.*]]: i32, %[[S:.*]]: f32):
  // CHECK-NEXT:    %[[Q:.*]] = arith.addi
  // CHECK-NEXT:    arith.addi
  // CHECK-NEXT:    %[[QUERY:.*]] = memref.load %{{.*}}[%{{.*}}, %[[Q]]]
  // CHECK-NEXT:    arith.cmpi eq, %[[QUERY]], %[[KEY]]
  gpu.func @documents(%documents: memref<?x?xi32>, %batch: index, %q_begin: index, %kv_len: index, %none: f32) kernel {
    %c0 = arith.constant 0 : index
    %c32 = arith.constant 32 : index
    %scores = attn_tile.fragment_alloc "scores" : !scores
    scf.for %kv = %c0 to %kv_len step %c32 {
      attn_tile.mma_commit
      attn_tile.mma_wait pending(1) %scores : !scores
      attn_tile.map outs(%scores : !scores) {
      ^bb0(%row: index, %column: index, %s: f32):
        %q_idx = arith.addi %q_begin, %row : index
        %kv_idx = arith.addi %kv, %column : index
        %of_query = memref.load %documents[%batch, %q_idx] : memref<?x?xi32>
        %of_key = memref.load %documents[%batch, %kv_idx] : memref<?x?xi32>
        %same = arith.cmpi eq, %of_query, %of_key : i32
        %kept = arith.select %same, %s, %none : f32
        attn_tile.yield %kept : f32
      }
    }
    gpu.return
  }

  // An any too. Not before the wait where the first key is found after it.
  // CHECK-LABEL: gpu.func @late(
  // CHECK:       attn_tile.mma_wait
  // CHECK-NEXT:  %[[FIRST:.*]] = arith.addi
  // CHECK-NEXT:  attn_tile.fragment_alloc
  // CHECK-NEXT:  attn_tile.load_columns %{{.*}}[%[[FIRST]]] to %columns : memref<?xbf16>, <32xbf16, columns, 4x1>
  // CHECK-NEXT:  attn_tile.any ins(%scores, %columns :
  // CHECK-NEXT:  ^bb0(%row: index, %column: index, %{{.*}}: f32, %[[BIAS:.*]]: bf16):
  // CHECK-NEXT:    arith.addi
  // CHECK-NEXT:    arith.extf %[[BIAS]]
  gpu.func @late(%biases: memref<?xbf16>, %kv_begin: index, %written: memref<1xi32>) kernel {
    %c1 = arith.constant 1 : index
    %scores = attn_tile.fragment_alloc "scores" : !scores
    attn_tile.mma_wait pending(0) %scores : !scores
    %first = arith.addi %kv_begin, %c1 : index
    %any = attn_tile.any ins(%scores : !scores) {
    ^bb0(%row: index, %column: index, %s: f32):
      %kv_idx = arith.addi %column, %first : index
      %bias = memref.load %biases[%kv_idx] : memref<?xbf16>
      %wide = arith.extf %bias : bf16 to f32
      %larger = arith.cmpf ogt, %s, %wide : f32
      attn_tile.yield %larger : i1
    }
    %one = arith.extui %any : i1 to i32
    memref.store %one, %written[%c1] : memref<1xi32>
    gpu.return
  }

  // One of two where registers are left for one: 64 scores, 64 of the output and 24 others leave 48 of 200, a vector takes 32.
  // CHECK-LABEL: gpu.func @registers(
  // CHECK-COUNT-1: attn_tile.load_columns
  // CHECK-NOT:   attn_tile.load_columns
  // CHECK:       memref.load
  gpu.func @registers(%documents: memref<?xi32>, %biases: memref<?xf32>, %kv_begin: index) kernel {
    attn_tile.warp_specialize consumers(2) registers(200) {
      %scores = attn_tile.fragment_alloc "scores" : !attn_tile.fragment<128x128xf32, accumulator, 8x1>
      %output = attn_tile.fragment_alloc "output" : !attn_tile.fragment<128x128xf32, accumulator, 8x1>
      attn_tile.map outs(%scores : !attn_tile.fragment<128x128xf32, accumulator, 8x1>) {
      ^bb0(%row: index, %column: index, %s: f32):
        %kv_idx = arith.addi %kv_begin, %column : index
        %document = memref.load %documents[%kv_idx] : memref<?xi32>
        %bias = memref.load %biases[%kv_idx] : memref<?xf32>
        %number = arith.sitofp %document : i32 to f32
        %sum = arith.addf %s, %bias : f32
        %all = arith.addf %sum, %number : f32
        attn_tile.yield %all : f32
      }
    } producer registers(40) {
    }
    gpu.return
  }

  // So it is where two operations of an iteration read columns; another iteration counts anew.
  // CHECK-LABEL: gpu.func @iterations(
  // CHECK:       attn_tile.load_columns
  // CHECK:       scf.if
  // CHECK-NOT:   attn_tile.load_columns
  // CHECK:         memref.load
  // CHECK:       scf.for
  // CHECK:         attn_tile.load_columns
  gpu.func @iterations(%documents: memref<?xi32>, %biases: memref<?xf32>, %kv_begin: index, %masked: i1) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    attn_tile.warp_specialize consumers(2) registers(200) {
      %scores = attn_tile.fragment_alloc "scores" : !attn_tile.fragment<128x128xf32, accumulator, 8x1>
      %output = attn_tile.fragment_alloc "output" : !attn_tile.fragment<128x128xf32, accumulator, 8x1>
      attn_tile.map outs(%scores : !attn_tile.fragment<128x128xf32, accumulator, 8x1>) {
      ^bb0(%row: index, %column: index, %s: f32):
        %kv_idx = arith.addi %kv_begin, %column : index
        %bias = memref.load %biases[%kv_idx] : memref<?xf32>
        %sum = arith.addf %s, %bias : f32
        attn_tile.yield %sum : f32
      }
      scf.if %masked {
        attn_tile.map outs(%scores : !attn_tile.fragment<128x128xf32, accumulator, 8x1>) {
        ^bb0(%row: index, %column: index, %s: f32):
          %kv_idx = arith.addi %kv_begin, %column : index
          %document = memref.load %documents[%kv_idx] : memref<?xi32>
          %number = arith.sitofp %document : i32 to f32
          %sum = arith.addf %s, %number : f32
          attn_tile.yield %sum : f32
        }
      }
      scf.for %kv = %c0 to %kv_begin step %c1 {
        attn_tile.map outs(%scores : !attn_tile.fragment<128x128xf32, accumulator, 8x1>) {
        ^bb0(%row: index, %column: index, %s: f32):
          %kv_idx = arith.addi %kv, %column : index
          %bias = memref.load %biases[%kv_idx] : memref<?xf32>
          %sum = arith.addf %s, %bias : f32
          attn_tile.yield %sum : f32
        }
      }
    } producer registers(40) {
    }
    gpu.return
  }

  // Left: what depends on the row too, or is not the column plus something, what the kernel writes, and what is wider than a register.
  // CHECK-LABEL: gpu.func @left(
  // CHECK-NOT:   attn_tile.load_columns
  gpu.func @left(%bias: memref<?x?xf32>, %written: memref<?xf32>, %wide: memref<?xf64>, %kv_begin: index) kernel {
    %c2 = arith.constant 2 : index
    %scores = attn_tile.fragment_alloc "scores" : !scores
    attn_tile.map outs(%scores : !scores) {
    ^bb0(%row: index, %column: index, %s: f32):
      %kv_idx = arith.addi %kv_begin, %column : index
      %twice = arith.muli %kv_idx, %c2 : index
      %a = memref.load %bias[%row, %kv_idx] : memref<?x?xf32>
      %b = memref.load %bias[%kv_begin, %twice] : memref<?x?xf32>
      %c = memref.load %written[%kv_idx] : memref<?xf32>
      %d = memref.load %wide[%kv_idx] : memref<?xf64>
      %e = arith.truncf %d : f64 to f32
      %ab = arith.addf %a, %b : f32
      %abc = arith.addf %ab, %c : f32
      %abce = arith.addf %abc, %e : f32
      attn_tile.yield %abce : f32
    }
    %zero = arith.constant 0.0 : f32
    memref.store %zero, %written[%c2] : memref<?xf32>
    gpu.return
  }
}
