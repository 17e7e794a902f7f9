// RUN: attn-opt %s --attn-tile-place-shared --split-input-file --verify-diagnostics | FileCheck %s

module attributes {attn.target = #attn.target<arch = sm_80, multiprocessors = 108, max_shared_memory = 8448>} {
  gpu.module @kernels {
    // CHECK-LABEL: gpu.func @places
    // CHECK-SAME:    shared_bytes = 8448
    gpu.func @places() kernel attributes {attn_tile.kernel = #attn_tile.kernel<warps = 2>} {
      // CHECK: shared_alloc "first" offset(0)
      %first = attn_tile.shared_alloc "first" : !attn_tile.shared<64x32xbf16>
      // CHECK: shared_alloc "vector" offset(4096)
      %vector = attn_tile.shared_alloc "vector" : !attn_tile.shared<40xf32>
      // CHECK: shared_reuse %first "again"
      %again = attn_tile.shared_reuse %first "again" : !attn_tile.shared<64x32xbf16> to !attn_tile.shared<32x32xbf16>
      // Aligned to 128 bytes, and placed anew whatever was there.
      // CHECK: shared_alloc "last" offset(4352)
      %last = attn_tile.shared_alloc "last" offset(64) : !attn_tile.shared<64x32xbf16>
      gpu.return
    }
    // CHECK-LABEL: gpu.func @none
    // CHECK-SAME:    #attn_tile.kernel<warps = 2>
    gpu.func @none() kernel attributes {attn_tile.kernel = #attn_tile.kernel<warps = 2>} {
      gpu.return
    }
  }
}

// -----

// Panels first, at multiples of 1024 bytes, and barriers last: two of 8 bytes for each slot.
module attributes {attn.target = #attn.target<arch = sm_90a, multiprocessors = 132, max_shared_memory = 232448>} {
  gpu.module @kernels {
    // CHECK-LABEL: gpu.func @pipelines
    // CHECK-SAME:    shared_bytes = 32864
    gpu.func @pipelines() kernel attributes {attn_tile.kernel = #attn_tile.kernel<warps = 12>} {
      // CHECK: shared_alloc "vector" offset(32768)
      %vector = attn_tile.shared_alloc "vector" : !attn_tile.shared<4xf32>
      // CHECK: pipeline_alloc "keys" offset(0) barriers(32784)
      %keys = attn_tile.pipeline_alloc "keys" : !attn_tile.pipeline<2x64x80xbf16, 2>
      // CHECK: work_queue_alloc "tiles" offset(32816)
      %tiles = attn_tile.work_queue_alloc "tiles" : !attn_tile.work_queue<8>
      gpu.return
    }
  }
}

// -----

module attributes {attn.target = #attn.target<arch = sm_90a, multiprocessors = 132, max_shared_memory = 16384>} {
  gpu.module @kernels {
    // expected-error @below {{needs 16400 bytes of shared memory, more than the 16384 of a block on sm_90a}}
    gpu.func @large_pipeline() kernel attributes {attn_tile.kernel = #attn_tile.kernel<warps = 12>} {
      // expected-note @below {{"keys" takes 16384 bytes}}
      %keys = attn_tile.pipeline_alloc "keys" : !attn_tile.pipeline<1x128x64xbf16, 2>
      gpu.return
    }
  }
}

// -----

module attributes {attn.target = #attn.target<arch = sm_80, multiprocessors = 108, max_shared_memory = 8448>} {
  gpu.module @kernels {
    // expected-error @below {{needs 12288 bytes of shared memory, more than the 8448 of a block on sm_80; choose smaller blocks or fewer stages}}
    gpu.func @too_large() kernel attributes {attn_tile.kernel = #attn_tile.kernel<warps = 2>} {
      // expected-note @below {{"first" takes 4096 bytes}}
      %first = attn_tile.shared_alloc "first" : !attn_tile.shared<64x32xbf16>
      // expected-note @below {{"second" takes 8192 bytes}}
      %second = attn_tile.shared_alloc "second" : !attn_tile.shared<64x64xbf16>
      gpu.return
    }
  }
}

// -----

gpu.module @kernels {
  // expected-error @below {{has shared tiles, but no 'attn_tile.kernel' attribute}}
  gpu.func @no_resources() kernel {
    %first = attn_tile.shared_alloc "first" : !attn_tile.shared<64x32xbf16>
    gpu.return
  }
}
