// RUN: attn-opt %s --attn-verify-emittable --split-input-file --verify-diagnostics

gpu.module @unknown_operation {
  gpu.func @f(%x: f32) -> f32 {
    // expected-error @below {{'math.sincos' op has no CUDA C++ form}}
    %s, %c = math.sincos %x : f32
    gpu.return %s : f32
  }
}

// -----

gpu.module @unknown_types {
  // expected-error @below {{has a value of type 'i128', which has no CUDA C++ form}}
  gpu.func @f(%x: i128) -> f32 {
    %0 = arith.constant 0.0 : f32
    gpu.return %0 : f32
  }
  gpu.func @g(%x: i64) -> i64 {
    // expected-error @below {{'arith.extsi' op has no CUDA C++ form}}
    %0 = arith.extsi %x : i64 to i128
    // expected-error @below {{'arith.trunci' op has no CUDA C++ form}}
    %1 = arith.trunci %0 : i128 to i64
    gpu.return %1 : i64
  }
}

// -----

gpu.module @resources {
  // expected-error @below {{expected the attribute 'attn_tile.kernel' on a kernel}}
  gpu.func @f() kernel {
    gpu.return
  }
  gpu.func @g() kernel attributes {attn_tile.kernel = #attn_tile.kernel<warps = 2>} {
    // expected-error @below {{has no offset; run --attn-tile-place-shared}}
    %0 = attn_tile.shared_alloc "first" : !attn_tile.shared<64x32xbf16>
    // expected-error @below {{expected shared tiles of a multiple of 8 rows and of 16 columns, got '!attn_tile.shared<64x8xf32>'}}
    %1 = attn_tile.shared_alloc "second" offset(0) : !attn_tile.shared<64x8xf32>
    gpu.return
  }
  gpu.func @h() kernel attributes {attn_tile.kernel = #attn_tile.kernel<warps = 2>} {
    // expected-error @below {{expected the 2 warps of the kernel, got '!attn_tile.fragment<64x64xf32, accumulator, 4x1>'}}
    %0 = attn_tile.fragment_alloc "acc" : !attn_tile.fragment<64x64xf32, accumulator, 4x1>
    gpu.return
  }
  gpu.func @i() kernel attributes {attn_tile.kernel = #attn_tile.kernel<warps = 12>} {
    // expected-error @below {{has no offset; run --attn-tile-place-shared}}
    %keys = attn_tile.pipeline_alloc "keys" : !attn_tile.pipeline<1x128x64xbf16, 2>
    gpu.return
  }
  gpu.func @queue() kernel attributes {attn_tile.kernel = #attn_tile.kernel<warps = 12>} {
    // expected-error @below {{has no offset; run --attn-tile-place-shared}}
    %tiles = attn_tile.work_queue_alloc "tiles" : !attn_tile.work_queue<8>
    gpu.return
  }
  gpu.func @j() kernel attributes {attn_tile.kernel = #attn_tile.kernel<warps = 12>} {
    attn_tile.warp_specialize consumers(2) registers(232) {
      %ok = attn_tile.fragment_alloc "ok" : !attn_tile.fragment<128x64xf32, accumulator, 8x1>
      // expected-error @below {{expected the 8 warps of the consumers, got '!attn_tile.fragment<192x64xf32, accumulator, 12x1>'}}
      %acc = attn_tile.fragment_alloc "acc" : !attn_tile.fragment<192x64xf32, accumulator, 12x1>
    } producer registers(40) {
    }
    gpu.return
  }
  // expected-error @below {{expected a name that is a C++ identifier and not taken, got 'while'}}
  gpu.func @while() kernel attributes {attn_tile.kernel = #attn_tile.kernel<warps = 2>} {
    gpu.return
  }
}

// -----

gpu.module @atomics {
  gpu.func @f(%m: memref<4xf32>, %i: index, %x: f32) kernel attributes {attn_tile.kernel = #attn_tile.kernel<warps = 2>} {
    // expected-error @below {{expected an addition of f32, f64 or i32}}
    %0 = memref.atomic_rmw maximumf %x, %m[%i] : (f32, memref<4xf32>) -> f32
    gpu.return
  }
}

// -----

gpu.module @functions {
  // expected-error @below {{'func.func' op has no CUDA C++ form}}
  func.func @f() {
    return
  }
}

// -----

gpu.module @votes {
  gpu.func @f(%x: i32) -> i32 {
    // expected-error @below {{expected a uniform 'and' or 'or' of i1}}
    %0 = gpu.all_reduce add %x uniform {} : (i32) -> i32
    gpu.return %0 : i32
  }
  gpu.func @g(%x: i1) -> i1 {
    // expected-error @below {{expected a uniform 'and' or 'or' of i1}}
    %0 = gpu.all_reduce or %x {} : (i1) -> i1
    gpu.return %0 : i1
  }
}

// -----

!map = !attn_tile.tensor_map<128x64xbf16>
gpu.module @tensor_maps {
  // expected-error @below {{has a value of type '!attn_tile.tensor_map<128x64xbf16>', which has no CUDA C++ form}}
  gpu.func @f(%map: !map) -> i32 {
    %0 = arith.constant 0 : i32
    gpu.return %0 : i32
  }
  gpu.func @g(%buffer: memref<?x?x?x128xbf16>) kernel attributes {attn_tile.kernel = #attn_tile.kernel<warps = 2>} {
    // expected-error @below {{'attn_tile.tensor_map' op has no CUDA C++ form}}
    %0 = attn_tile.tensor_map %buffer : memref<?x?x?x128xbf16> to !map
    gpu.return
  }
}
