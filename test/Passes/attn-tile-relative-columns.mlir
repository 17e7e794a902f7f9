// RUN: attn-opt %s --pass-pipeline='builtin.module(gpu.module(attn-tile-relative-columns,canonicalize))' --split-input-file | FileCheck %s

!scores = !attn_tile.fragment<128x64xf32, accumulator, 8x1>

gpu.module @kernels {
  // A causal mask, a window of 100 keys, and the length: positions are not computed for each element. Positions may be in 32 bits.
  // CHECK-LABEL: gpu.func @window(
  // CHECK:       %[[C:.*]] = attn_tile.first_column %scores
  // CHECK-NEXT:  %[[FIRST:.*]] = arith.addi %{{.*}}, %[[C]] overflow<nsw> : index
  // CHECK-NEXT:  attn_tile.map relative outs(%scores
  // CHECK-NEXT:  ^bb0(%row: index, %column: index, %[[S:.*]]: f32):
  // CHECK-NEXT:    %[[Q:.*]] = arith.addi %{{.*}}, %row overflow<nsw> : index
  // q - k < 100: k > q - 100, which may be negative.
  // CHECK:         %[[BEGIN:.*]] = arith.addi %[[Q]], %c-100 overflow<nsw> : index
  // CHECK:         %[[CLAMPED:.*]] = arith.maxsi %[[BEGIN]], %{{.*}} : index
  // CHECK-NEXT:    %[[LIMIT:.*]] = arith.subi %[[CLAMPED]], %[[FIRST]] overflow<nsw> : index
  // CHECK-NEXT:    %[[NEAR:.*]] = arith.cmpi sgt, %column, %[[LIMIT]] : index
  // CHECK-NEXT:    %[[LAST:.*]] = arith.subi %[[Q]], %[[FIRST]] overflow<nsw> : index
  // CHECK-NEXT:    %[[CAUSAL:.*]] = arith.cmpi sle, %column, %[[LAST]] : index
  // CHECK:         %[[END:.*]] = arith.maxsi %{{.*}}, %{{.*}} : index
  // CHECK-NEXT:    %[[LENGTH:.*]] = arith.subi %[[END]], %[[FIRST]] overflow<nsw> : index
  // CHECK-NEXT:    arith.cmpi slt, %column, %[[LENGTH]] : index
  // CHECK-NOT:     arith.addi %{{.*}}, %column
  gpu.func @window(%q_begin: index, %kv_begin: index, %kv_len: index) kernel {
    %none = arith.constant 0.0 : f32
    %c100 = arith.constant 100 : i32
    attn_tile.warp_specialize consumers(2) registers(232) {
      %scores = attn_tile.fragment_alloc "scores" : !scores
      attn_tile.map outs(%scores : !scores) {
      ^bb0(%row: index, %column: index, %s: f32):
        %q_idx = arith.addi %q_begin, %row overflow<nsw> : index
        %kv_idx = arith.addi %kv_begin, %column overflow<nsw> : index
        %q = arith.index_cast %q_idx : index to i32
        %k = arith.index_cast %kv_idx : index to i32
        %distance = arith.subi %q, %k : i32
        %near = arith.cmpi slt, %distance, %c100 : i32
        %causal = arith.cmpi sge, %q, %k : i32
        %inside = arith.cmpi slt, %kv_idx, %kv_len : index
        %both = arith.andi %near, %causal : i1
        %keep = arith.andi %both, %inside : i1
        %kept = arith.select %keep, %s, %none : f32
        attn_tile.yield %kept : f32
      }
    } producer registers(40) {
    }
    gpu.return
  }

  // Left: a position that is used for something else, an equation, a difference from what may be negative, one compared with a limit
  // that is far beyond the lengths, and a kernel without roles.
  // CHECK-LABEL: gpu.func @left(
  // CHECK-NOT:   relative
  gpu.func @left(%q_begin: index, %kv_begin: index, %other: index) kernel {
    %none = arith.constant 0.0 : f32
    %c2 = arith.constant 2 : index
    %far = arith.constant 2000 : index
    attn_tile.warp_specialize consumers(2) registers(232) {
      %scores = attn_tile.fragment_alloc "scores" : !scores
      attn_tile.map outs(%scores : !scores) {
      ^bb0(%row: index, %column: index, %s: f32):
        %kv_idx = arith.addi %kv_begin, %column overflow<nsw> : index
        %half = arith.divui %kv_idx, %c2 : index
        %keep = arith.cmpi sle, %half, %other : index
        %kept = arith.select %keep, %s, %none : f32
        attn_tile.yield %kept : f32
      }
      attn_tile.map outs(%scores : !scores) {
      ^bb0(%row: index, %column: index, %s: f32):
        %kv_idx = arith.addi %kv_begin, %column overflow<nsw> : index
        %keep = arith.cmpi ne, %kv_idx, %other : index
        %kept = arith.select %keep, %s, %none : f32
        attn_tile.yield %kept : f32
      }
      attn_tile.map outs(%scores : !scores) {
      ^bb0(%row: index, %column: index, %s: f32):
        %kv_idx = arith.addi %kv_begin, %column overflow<nsw> : index
        %distance = arith.subi %other, %kv_idx : index
        %keep = arith.cmpi slt, %distance, %c2 : index
        %kept = arith.select %keep, %s, %none : f32
        attn_tile.yield %kept : f32
      }
      attn_tile.map outs(%scores : !scores) {
      ^bb0(%row: index, %column: index, %s: f32):
        %q_idx = arith.addi %q_begin, %row overflow<nsw> : index
        %kv_idx = arith.addi %kv_begin, %column overflow<nsw> : index
        %distance = arith.subi %kv_idx, %q_idx : index
        %keep = arith.cmpi slt, %distance, %far : index
        %kept = arith.select %keep, %s, %none : f32
        attn_tile.yield %kept : f32
      }
    } producer registers(40) {
    }
    %scores = attn_tile.fragment_alloc "scores" : !scores
    attn_tile.map outs(%scores : !scores) {
    ^bb0(%row: index, %column: index, %s: f32):
      %kv_idx = arith.addi %kv_begin, %column overflow<nsw> : index
      %keep = arith.cmpi sle, %kv_idx, %other : index
      %kept = arith.select %keep, %s, %none : f32
      attn_tile.yield %kept : f32
    }
    gpu.return
  }
}
