// RUN: attn-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{expected panels of two dimensions, a multiple of 8 rows and of 16 columns, of f16 or bf16, got [64, 24] of 'bf16' [TP1]}}
func.func private @f(!attn_tile.panels<64x24xbf16>)

// -----

// expected-error @below {{expected panels of two dimensions, a multiple of 8 rows and of 16 columns, of f16 or bf16, got [64, 64] of 'f32' [TP1]}}
func.func private @f(!attn_tile.panels<64x64xf32>)

// -----

// expected-error @below {{expected a pipeline of 1 to 8 stages, rows and columns, and 1 to 3 consumers, got [9, 64, 64] and 2 [TL1]}}
func.func private @f(!attn_tile.pipeline<9x64x64xbf16, 2>)

// -----

// expected-error @below {{expected a pipeline of 1 to 8 stages, rows and columns, and 1 to 3 consumers, got [2, 64, 64] and 4 [TL1]}}
func.func private @f(!attn_tile.pipeline<2x64x64xbf16, 4>)

// -----

// expected-error @below {{expected panels of two dimensions, a multiple of 8 rows and of 16 columns, of f16 or bf16, got [60, 64] of 'bf16' [TP1]}}
func.func private @f(!attn_tile.pipeline<2x60x64xbf16, 2>)

// -----

// A block of one warpgroup more than there are consumers.
gpu.module @kernels {
  gpu.func @f() kernel attributes {attn_tile.kernel = #attn_tile.kernel<warps = 8>} {
    // expected-error @below {{expected 1 to 3 consumer warpgroups and a block of one warpgroup more, got 2 and 8 warps [WS1]}}
    attn_tile.warp_specialize consumers(2) registers(232) {
    } producer registers(40) {
    }
    gpu.return
  }
}

// -----

func.func @f() {
  // expected-error @below {{expected registers that are multiples of 8 from 24 to 256 and at most 504 in a thread of each warpgroup together, got 240 and 32, together 512 [WS2]}}
  attn_tile.warp_specialize consumers(2) registers(240) {
  } producer registers(32) {
  }
  return
}

// -----

gpu.module @m {
  gpu.func @f() kernel attributes {attn_tile.kernel = #attn_tile.kernel<warps = 8, blocks_per_multiprocessor = 2>} {
    // expected-error @below {{at most 256 in a thread of each warpgroup together, got 224 and 40, together 264 [WS2]}}
    attn_tile.warp_specialize consumers(1) registers(224) {
    } producer registers(40) {
    }
    gpu.return
  }
}

// -----

func.func @f() {
  // expected-error @below {{got 100 and 24, together 124 [WS2]}}
  attn_tile.warp_specialize consumers(1) registers(100) {
  } producer registers(24) {
  }
  return
}

// -----

func.func @f() {
  // expected-error @below {{expected at least the 168 registers that a thread is launched with for a consumer, got 160 [WS2]}}
  attn_tile.warp_specialize consumers(2) registers(160) {
  } producer registers(40) {
  }
  return
}

// -----

func.func @f(%keep: i1) {
  attn_tile.warp_specialize consumers(2) registers(232) {
    scf.if %keep {
      // expected-error @below {{waits for all threads of the block, but stands in a region that only some execute [WS3]}}
      gpu.barrier
    }
  } producer registers(40) {
  }
  return
}

// -----

func.func @f(%queries: !attn_tile.pipeline<2x64x64xbf16, 2, stored>) {
  attn_tile.warp_specialize consumers(2) registers(232) {
    // expected-error @below {{expected pipelines of the 2 consumers, none of them stored without a storer, and work queues of 8 warps, got '!attn_tile.pipeline<2x64x64xbf16, 2, stored>' [WS4]}}
    %0 = attn_tile.pipeline_wait %queries "query_tile" : !attn_tile.pipeline<2x64x64xbf16, 2, stored>
  } producer registers(40) {
  }
  return
}

// -----

func.func @f(%keys: !attn_tile.pipeline<2x64x64xbf16, 3>) {
  attn_tile.warp_specialize consumers(2) registers(232) {
    // expected-error @below {{got '!attn_tile.pipeline<2x64x64xbf16, 3>' [WS4]}}
    attn_tile.pipeline_release %keys : !attn_tile.pipeline<2x64x64xbf16, 3>
  } producer registers(40) {
  }
  return
}

// -----

func.func @f(%tiles: !attn_tile.work_queue<8>) {
  attn_tile.warp_specialize consumers(2) registers(232) {
    // expected-error @below {{expected pipelines of the 2 consumers, and work queues of 9 warps, got '!attn_tile.work_queue<8>' [WS4]}}
    %0 = attn_tile.work_take %tiles : !attn_tile.work_queue<8>
  } producer registers(40) {
  } storer {
    attn_tile.yield
  }
  return
}

// -----

func.func @f() {
  attn_tile.warp_specialize consumers(2) registers(232) {
  } producer registers(40) {
    // expected-error @below {{expected to stand in the consumer region of an attn_tile.warp_specialize [TN1]}}
    attn_tile.take_turn
  }
  return
}

// -----

func.func @f() {
  // expected-error @below {{expected the name to be a C++ identifier, got "2nd" [PA1]}}
  %0 = attn_tile.pipeline_alloc "2nd" : !attn_tile.pipeline<2x64x64xbf16, 2>
  return
}

// -----

func.func @f(%keys: !attn_tile.pipeline<2x64x64xbf16, 2>) {
  attn_tile.warp_specialize consumers(2) registers(232) {
  } producer registers(40) {
    // expected-error @below {{expected to stand in the consumer or storer region of an attn_tile.warp_specialize [PA2]}}
    %0 = attn_tile.pipeline_wait %keys "key_tile" : !attn_tile.pipeline<2x64x64xbf16, 2>
  }
  return
}

// -----

func.func @f(%keys: !attn_tile.pipeline<2x64x64xbf16, 2>) {
  attn_tile.warp_specialize consumers(2) registers(232) {
    // expected-error @below {{expected to stand in the producer region of an attn_tile.warp_specialize [PA2]}}
    attn_tile.pipeline_commit %keys : !attn_tile.pipeline<2x64x64xbf16, 2>
  } producer registers(40) {
  }
  return
}

// -----

func.func @f(%keys: !attn_tile.pipeline<2x64x64xbf16, 2>) {
  // expected-error @below {{expected to stand in the consumer or storer region of an attn_tile.warp_specialize [PA2]}}
  attn_tile.pipeline_release %keys : !attn_tile.pipeline<2x64x64xbf16, 2>
  return
}

// -----

func.func @f(%keys: !attn_tile.pipeline<2x64x64xbf16, 2>) {
  attn_tile.warp_specialize consumers(2) registers(232) {
  } producer registers(40) {
    // expected-error @below {{expected the name to be a C++ identifier, got "key slot" [PS1]}}
    %0 = attn_tile.pipeline_acquire %keys "key slot" : !attn_tile.pipeline<2x64x64xbf16, 2>
  }
  return
}

// -----

func.func @f(%map: !attn_tile.tensor_map<128x64xbf16>, %keys: !attn_tile.pipeline<2x64x64xbf16, 2>, %i: index) {
  attn_tile.warp_specialize consumers(2) registers(232) {
  } producer registers(40) {
    %0 = attn_tile.pipeline_acquire %keys "key_slot" : !attn_tile.pipeline<2x64x64xbf16, 2>
    // expected-error @below {{expected boxes of the tile's rows, 64 columns and its element type, a tile of the pipeline, and three indices, got '!attn_tile.tensor_map<128x64xbf16>', '!attn_tile.panels<64x64xbf16>' of '!attn_tile.pipeline<2x64x64xbf16, 2>' and 3 [CB1]}}
    attn_tile.copy_bulk %map[%i, %i, %i] to %0 signals %keys : !attn_tile.tensor_map<128x64xbf16>, !attn_tile.panels<64x64xbf16>, !attn_tile.pipeline<2x64x64xbf16, 2>
  }
  return
}

// -----

func.func @f(%keys: !attn_tile.pipeline<2x64x64xbf16, 2>) {
  attn_tile.warp_specialize consumers(2) registers(232) {
  } producer registers(40) {
  } storer {
    // expected-error @below {{expected a pipeline that is stored in the storer region, got '!attn_tile.pipeline<2x64x64xbf16, 2>' [PA3]}}
    attn_tile.pipeline_release %keys : !attn_tile.pipeline<2x64x64xbf16, 2>
  }
  return
}

// -----

func.func @f(%biases: !attn_tile.pipeline<1x128x64xbf16, 2, loaded>, %bias: !attn_tile.fragment<128x64xf16, operand_a, 8x1>) {
  attn_tile.warp_specialize consumers(2) registers(232) {
    %0 = attn_tile.pipeline_wait %biases "bias_tile" : !attn_tile.pipeline<1x128x64xbf16, 2, loaded>
    // expected-error @below {{expected an operand_a of the shape and the element type of the tile, with 16 rows a warp, got '!attn_tile.fragment<128x64xf16, operand_a, 8x1>' and '!attn_tile.panels<128x64xbf16>' [LP1]}}
    attn_tile.load_panels %0 to %bias : !attn_tile.panels<128x64xbf16>, !attn_tile.fragment<128x64xf16, operand_a, 8x1>
  } producer registers(40) {
  }
  return
}

// -----

func.func @f(%tile: !attn_tile.panels<128x64xbf16>, %bias: !attn_tile.fragment<128x64xbf16, operand_a, 4x1>) {
  // expected-error @below {{got '!attn_tile.fragment<128x64xbf16, operand_a, 4x1>' and '!attn_tile.panels<128x64xbf16>' [LP1]}}
  attn_tile.load_panels %tile to %bias : !attn_tile.panels<128x64xbf16>, !attn_tile.fragment<128x64xbf16, operand_a, 4x1>
  return
}

// -----

func.func @f(%keys: !attn_tile.pipeline<1x128x64xbf16, 2>, %bias: !attn_tile.fragment<128x64xbf16, operand_a, 8x1>) {
  attn_tile.warp_specialize consumers(2) registers(232) {
    %0 = attn_tile.pipeline_wait %keys "key_tile" : !attn_tile.pipeline<1x128x64xbf16, 2>
    // expected-error @below {{expected a tile of a pipeline that is loaded [LP2]}}
    attn_tile.load_panels %0 to %bias : !attn_tile.panels<128x64xbf16>, !attn_tile.fragment<128x64xbf16, operand_a, 8x1>
  } producer registers(40) {
  }
  return
}

// -----

!acc = !attn_tile.fragment<128x128xf32, accumulator, 8x1>
func.func @f(%output: !acc, %queries: !attn_tile.pipeline<2x128x64xbf16, 2, stored>) {
  // expected-error @below {{expected an accumulator of the rows of the tiles of a pipeline that is stored, no more panels, a multiple of 16 columns, and one column of the consumers' warps, got '!attn_tile.fragment<128x128xf32, accumulator, 8x1>' and '!attn_tile.pipeline<2x128x64xbf16, 2, stored>' [SP1]}}
  attn_tile.store_panels %output to %queries : !acc, !attn_tile.pipeline<2x128x64xbf16, 2, stored>
  return
}

// -----

!acc = !attn_tile.fragment<128x64xf32, accumulator, 8x1>
func.func @f(%output: !acc, %queries: !attn_tile.pipeline<2x128x64xbf16, 2>) {
  // expected-error @below {{and '!attn_tile.pipeline<2x128x64xbf16, 2>' [SP1]}}
  attn_tile.store_panels %output to %queries : !acc, !attn_tile.pipeline<2x128x64xbf16, 2>
  return
}

// -----

!acc = !attn_tile.fragment<128x56xf32, accumulator, 8x1>
func.func @f(%output: !acc, %queries: !attn_tile.pipeline<2x128x64xbf16, 2, stored>) {
  // expected-error @below {{got '!attn_tile.fragment<128x56xf32, accumulator, 8x1>' and '!attn_tile.pipeline<2x128x64xbf16, 2, stored>' [SP1]}}
  attn_tile.store_panels %output to %queries : !acc, !attn_tile.pipeline<2x128x64xbf16, 2, stored>
  return
}

// -----

!acc = !attn_tile.fragment<128x64xf32, accumulator, 4x2>
func.func @f(%output: !acc, %queries: !attn_tile.pipeline<2x128x64xbf16, 2, stored>) {
  // expected-error @below {{got '!attn_tile.fragment<128x64xf32, accumulator, 4x2>' and '!attn_tile.pipeline<2x128x64xbf16, 2, stored>' [SP1]}}
  attn_tile.store_panels %output to %queries : !acc, !attn_tile.pipeline<2x128x64xbf16, 2, stored>
  return
}

// -----

!acc = !attn_tile.fragment<128x64xf32, accumulator, 8x1>
func.func @f(%output: !acc, %queries: !attn_tile.pipeline<2x128x64xbf16, 2, stored>) {
  // expected-error @below {{expected to stand in the consumer region of an attn_tile.warp_specialize [SP2]}}
  attn_tile.store_panels %output to %queries : !acc, !attn_tile.pipeline<2x128x64xbf16, 2, stored>
  return
}

// -----

func.func @f(%map: !attn_tile.tensor_map<64x64xbf16>, %tile: !attn_tile.panels<128x64xbf16>, %i: index) {
  // expected-error @below {{expected boxes of the tile's rows, 64 columns and its element type, and three indices, got '!attn_tile.tensor_map<64x64xbf16>', '!attn_tile.panels<128x64xbf16>' and 3 [SB1]}}
  attn_tile.store_bulk %tile to %map[%i, %i, %i] : !attn_tile.panels<128x64xbf16>, !attn_tile.tensor_map<64x64xbf16>
  return
}

// -----

func.func @f(%map: !attn_tile.tensor_map<128x64xbf16>, %tile: !attn_tile.panels<128x64xbf16>, %i: index) {
  attn_tile.warp_specialize consumers(2) registers(232) {
  } producer registers(40) {
    // expected-error @below {{expected to stand in the storer region of an attn_tile.warp_specialize [SB2]}}
    attn_tile.store_bulk %tile to %map[%i, %i, %i] : !attn_tile.panels<128x64xbf16>, !attn_tile.tensor_map<128x64xbf16>
  }
  return
}

// -----

// expected-error @below {{expected a work queue of 1 to 13 warps that take, got 14 [TW1]}}
func.func private @f(!attn_tile.work_queue<14>)

// -----

func.func @f() {
  // expected-error @below {{expected the name to be a C++ identifier, got "next tile" [WQ1]}}
  %0 = attn_tile.work_queue_alloc "next tile" : !attn_tile.work_queue<8>
  return
}

// -----

func.func @f(%tiles: !attn_tile.work_queue<8>) {
  attn_tile.warp_specialize consumers(2) registers(232) {
  } producer registers(40) {
    // expected-error @below {{expected to stand in the consumer or storer region of an attn_tile.warp_specialize [WQ2]}}
    %0 = attn_tile.work_take %tiles : !attn_tile.work_queue<8>
  }
  return
}

// -----

func.func @f(%tiles: !attn_tile.work_queue<8>, %counter: memref<1xi32>, %count: index) {
  // expected-error @below {{expected to stand in the producer region of an attn_tile.warp_specialize [WQ2]}}
  %0 = attn_tile.work_draw %tiles from %counter of %count : !attn_tile.work_queue<8>, memref<1xi32>
  return
}

// -----

!acc = !attn_tile.fragment<128x64xf32, accumulator, 8x1>
func.func @f(%acc: !acc, %a: !attn_tile.shared<128x64xbf16>, %b: !attn_tile.shared<64x64xbf16>) {
  // expected-error @below {{expected shared tiles of type panels for the atom wgmma, got '!attn_tile.shared<128x64xbf16>' and '!attn_tile.shared<64x64xbf16>' [MM1]}}
  attn_tile.mma wgmma %acc, %a, %b transpose_b : !acc, !attn_tile.shared<128x64xbf16>, !attn_tile.shared<64x64xbf16>
  return
}

// -----

!acc = !attn_tile.fragment<128x64xf32, accumulator, 8x1>
func.func @f(%acc: !acc, %a: !attn_tile.shared<128x64xbf16>, %b: !attn_tile.shared<64x64xbf16>) {
  // expected-error @below {{for mma_sync [MM4]}}
  attn_tile.mma mma_sync %acc, %a, %b transpose_b overwrite : !acc, !attn_tile.shared<128x64xbf16>, !attn_tile.shared<64x64xbf16>
  return
}

// -----

// 32 rows a warp.
!acc = !attn_tile.fragment<128x64xf32, accumulator, 4x1>
func.func @f(%acc: !acc, %a: !attn_tile.panels<128x64xbf16>, %b: !attn_tile.panels<64x64xbf16>) {
  // expected-error @below {{expected overwrite with the atom wgmma only, and for that an acc of 16 rows a warp and at most 256 columns, a multiple of 16, and a not to be transposed, got '!attn_tile.fragment<128x64xf32, accumulator, 4x1>' for wgmma [MM4]}}
  attn_tile.mma wgmma %acc, %a, %b transpose_b : !acc, !attn_tile.panels<128x64xbf16>, !attn_tile.panels<64x64xbf16>
  return
}

// -----

// Before the wait that names them, fragments are the product's: here the operand, not the accumulator.
!acc = !attn_tile.fragment<128x64xf32, accumulator, 8x1>
!operand = !attn_tile.fragment<128x64xbf16, operand_a, 8x1>
func.func @f(%acc: !acc, %p: !operand, %b: !attn_tile.panels<64x64xbf16>, %keep: i1, %zero: f32) {
  // expected-error @below {{is unfinished where its fragment is used; name that in an attn_tile.mma_wait before [MM5]}}
  attn_tile.mma wgmma %acc, %p, %b : !acc, !operand, !attn_tile.panels<64x64xbf16>
  attn_tile.mma wgmma %acc, %p, %b : !acc, !operand, !attn_tile.panels<64x64xbf16>
  attn_tile.mma_commit
  attn_tile.mma_wait pending(0) %acc : !acc
  attn_tile.fill %acc, %zero : !acc
  scf.if %keep {
    // expected-note @above {{used here}}
    attn_tile.convert %acc to %p : !acc, !operand
  }
  attn_tile.mma_wait pending(0) %p : !operand
  return
}

// -----

!acc = !attn_tile.fragment<128x64xf32, accumulator, 8x1>
!tile = !attn_tile.panels<64x64xbf16>
func.func @f(%acc: !acc, %a: !attn_tile.panels<128x64xbf16>, %b: !tile, %zero: f32) {
  // expected-error @below {{is unfinished where its fragment is used; name that in an attn_tile.mma_wait before [MM5]}}
  attn_tile.mma wgmma %acc, %a, %b transpose_b overwrite : !acc, !attn_tile.panels<128x64xbf16>, !tile
  attn_tile.mma_commit
  attn_tile.mma_wait pending(0)
  // expected-note @below {{used here}}
  attn_tile.fill %acc, %zero : !acc
  return
}
