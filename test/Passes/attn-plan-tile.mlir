// A tile that is given in full, as a tuner gives it.
// RUN: attn-opt %s --attn-set-target=arch=sm_90a --attn-plan="family=hopper tile=128,160,12,1,2" | FileCheck %s
// RUN: attn-opt %s --attn-set-target=arch=sm_90a --attn-plan="family=portable tile=64,64,8,1,1" | FileCheck %s --check-prefix=PORTABLE
// RUN: attn-opt %s --attn-set-target=arch=sm_90a --attn-to-cuda-pipeline="family=hopper tile=128,160,12,1,2" | FileCheck %s --check-prefix=CUDA
// RUN: not attn-opt %s --attn-set-target=arch=sm_90a --attn-plan="tile=128,160,12,1,2" -o /dev/null 2>&1 | FileCheck %s --check-prefix=AUTO
// RUN: not attn-opt %s --attn-set-target=arch=sm_90a --attn-plan="family=hopper tile=128,160" -o /dev/null 2>&1 | FileCheck %s --check-prefix=SHORT
// RUN: not attn-opt %s --attn-set-target=arch=sm_90a --attn-plan="family=hopper tile=128,256,12,1,2" -o /dev/null 2>&1 | FileCheck %s --check-prefix=LARGE
// RUN: not attn-opt %s --attn-set-target=arch=sm_90a --attn-plan="family=hopper tile=128,160,8,1,2" -o /dev/null 2>&1 | FileCheck %s --check-prefix=WARPS
// RUN: not attn-opt %s --attn-set-target=arch=sm_90a --attn-plan="family=portable tile=64,64,0,1,1" -o /dev/null 2>&1 | FileCheck %s --check-prefix=ZERO
// RUN: not attn-opt %s --attn-set-target=arch=sm_90a --attn-plan="family=portable tile=40,64,4,1,1" -o /dev/null 2>&1 | FileCheck %s --check-prefix=ROWS
// RUN: not attn-opt %s --attn-set-target=arch=sm_90a --attn-plan="family=portable tile=64,64,8,1,1 block-m=32" -o /dev/null 2>&1 | FileCheck %s --check-prefix=BOTH

// CHECK: schedule(<block_m = 128, block_n = 160, warps = 12, stages = 2, family = hopper,
// PORTABLE: schedule(<block_m = 64, block_n = 64, warps = 8>)
// CUDA: gpu.func @f_forward
// CUDA: !attn_tile.fragment<128x160xf32
// AUTO: error: 'attn.attention' op expected the tile of GPU kernels as block_m, block_n, warps, blocks_per_multiprocessor and stages, all of at least 1, with family = hopper or portable, got 128, 160, 12, 1, 2 with family = auto
// SHORT: got 128, 160 with family = hopper
// ZERO: got 64, 64, 0, 1, 1 with family = portable
// ROWS: expected block_m to be a multiple of 16 for each warp and block_n of 16, got 40 and 64
// BOTH: expected either a tile or block_m and block_n, got both
// LARGE: has no kernel of the hopper family: 224 registers of accumulators and probabilities a thread exceed 204
// WARPS: has no kernel of the hopper family: expected 12 warps, 1 block a multiprocessor and 2 stages of a tile of 128 x 160
func.func @f(%q: tensor<1x2x?x64xbf16>, %k: tensor<1x2x?x64xbf16>) -> tensor<1x2x?x64xbf16> {
  %out, %lse = attn.attention %q, %k, %k
    : (tensor<1x2x?x64xbf16>, tensor<1x2x?x64xbf16>, tensor<1x2x?x64xbf16>)
    -> (tensor<1x2x?x64xbf16>, tensor<1x2x?xf32>)
  return %out : tensor<1x2x?x64xbf16>
}
