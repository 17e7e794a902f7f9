// RUN: attn-opt %s --split-input-file --attn-split-kv=by-lengths --remark-policy=all --remarks-filter=attn-split-kv 2>%t.remarks | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t.remarks
// RUN: attn-opt %s --split-input-file --attn-split-kv="by-lengths many-rows" | FileCheck %s --check-prefix=MANY
// RUN: attn-opt %s --split-input-file --attn-split-kv | FileCheck %s --check-prefix=STATIC
// RUN: not attn-opt %s --split-input-file --attn-split-kv="by-lengths splits=2" 2>&1 | FileCheck %s --check-prefix=BOTH
// RUN: sed -e 's/attn.target = .*}/attn.target = #attn.target<arch = x86_64, vector_bits = 128, vector_registers = 16>}/' %s \
// RUN:   | not attn-opt --split-input-file --attn-split-kv=by-lengths 2>&1 | FileCheck %s --check-prefix=BOTH

// BOTH: error: 'attn.online_attention' op expected a GPU target, and no number of splits, to split the keys by lengths

// Without being asked to, nothing is split.
// STATIC-NOT: attn.merge

// REMARK: remark: [Passed] kv-splits | Category:attn-split-kv | Function=forward
// REMARK-SAME: min(room / blocks of queries, visited keys / least keys) parts
// REMARK-SAME: heads_share_tiles=true, least_keys=256, most_parts=128, room=396

// The query heads of a key head share blocks, whose number and the keys give that of the parts.
// CHECK-LABEL: func @decode(
// CHECK-SAME: %[[Q:[^:]*]]: tensor<?x32x?x64xbf16>, %[[K:[^:]*]]: tensor<?x8x?x64xbf16>)
// CHECK: %[[Q_LEN:.*]] = tensor.dim %[[Q]], %c2
// CHECK: %[[GROUP:.*]] = arith.divsi %c32{{.*}}, %c8{{.*}} : index
// CHECK: %[[ROWS:.*]] = arith.muli %[[Q_LEN]], %[[GROUP]] : index
// CHECK: %[[OF_HEAD:.*]] = arith.ceildivsi %[[ROWS]], %{{.*}} : index
// CHECK: tensor.dim %[[K]], %c0
// CHECK: %[[BLOCKS:.*]] = arith.maxsi %{{.*}}, %c1{{.*}} : index
// CHECK: %[[BY_ROOM:.*]] = arith.divsi %c396{{.*}}, %[[BLOCKS]] : index
// CHECK: %[[KV_LEN:.*]] = tensor.dim %[[K]], %c2
// CHECK: %[[BY_KEYS:.*]] = arith.divsi %[[KV_LEN]], %c256{{.*}} : index
// CHECK: %[[LESS:.*]] = arith.minsi %[[BY_ROOM]], %[[BY_KEYS]] : index
// CHECK: %[[MOST:.*]] = arith.minsi %[[LESS]], %c128{{.*}} : index
// CHECK: %[[PARTS:.*]] = arith.maxsi %[[MOST]], %c1{{.*}} : index
// CHECK: %[[ENOUGH:.*]] = arith.cmpi sge, %[[KV_LEN]], %c1024{{.*}} : index
// CHECK: arith.cmpi sge, %[[PARTS]], %c2{{.*}} : index
// CHECK: arith.cmpi sge, %c64{{.*}}, %{{.*}} : index
// CHECK: arith.andi %{{.*}}, %[[ENOUGH]] : i1
// CHECK: %[[PAYS:.*]] = arith.ori %{{.*}} : i1
// CHECK: attn_tile.take_if %[[PAYS]] "split_kv"
// CHECK: %[[OUTS:.*]], %[[LSES:.*]] = attn.online_attention forward {{.*}} splits(%[[PARTS]]) : {{.*}} -> (tensor<?x?x32x?x64xf32>, tensor<?x?x32x?xf32>)
// CHECK: attn.merge (%[[OUTS]], %[[LSES]]) : tensor<?x?x32x?x64xf32>, tensor<?x?x32x?xf32> -> tensor<?x32x?x64xbf16>, tensor<?x32x?xf32>
module attributes {attn.target = #attn.target<arch = sm_90a, multiprocessors = 132, max_shared_memory = 232448>} {
func.func @decode(%q: tensor<?x32x?x64xbf16>, %k: tensor<?x8x?x64xbf16>) -> tensor<?x32x?x64xbf16> {
  %out, %lse = attn.online_attention forward %q, %k, %k schedule(<block_m = 64, block_n = 64, warps = 4, blocks_per_multiprocessor = 3>)
    : (tensor<?x32x?x64xbf16>, tensor<?x8x?x64xbf16>, tensor<?x8x?x64xbf16>) -> (tensor<?x32x?x64xbf16>, tensor<?x32x?xf32>)
  return %out : tensor<?x32x?x64xbf16>
}
}

// -----

// A window: only what it shows counts, for the last queries. Each query head has tiles of its own where the ranges
// depend on it.
// CHECK-LABEL: func @window(
// CHECK: %[[Q_LEN:.*]] = tensor.dim %{{.*}}, %c2
// CHECK: arith.ceildivsi %[[Q_LEN]], %c64
// CHECK: %[[BEGIN:.*]] = arith.subi %{{.*}}, %c64
// CHECK: %[[FIRST:.*]] = arith.maxsi %[[BEGIN]], %c0
// CHECK: %[[LOWEST:.*]] = arith.subi %[[FIRST]], %c1000
// CHECK: arith.subi %{{.*}}, %{{.*}} : index
// CHECK: attn_tile.take_if
// CHECK: attn.merge
module attributes {attn.target = #attn.target<arch = sm_90a, multiprocessors = 132, max_shared_memory = 232448>} {
func.func @window(%q: tensor<?x32x?x64xbf16>, %k: tensor<?x8x?x64xbf16>) -> tensor<?x32x?x64xbf16> {
  %out, %lse = attn.online_attention forward %q, %k, %k schedule(<block_m = 64, block_n = 64, warps = 4, blocks_per_multiprocessor = 3>)
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %c1000 = arith.constant 1000 : index
      %first = arith.subi %q_idx, %c1000 : index
      %least = arith.addi %first, %h : index
      %keep = arith.cmpi sge, %kv_idx, %least : index
      attn.yield %keep : i1
    } ranges(%b: index, %h: index, %begin: index, %end: index) {
      %c0 = arith.constant 0 : index
      %c1000 = arith.constant 1000 : index
      %first = arith.subi %begin, %c1000 : index
      %least = arith.addi %first, %h : index
      %kv_len = attn.kv_len %b
      attn.yield_ranges visited(%least to %kv_len) masked(%c0 to %end)
    } : (tensor<?x32x?x64xbf16>, tensor<?x8x?x64xbf16>, tensor<?x8x?x64xbf16>) -> (tensor<?x32x?x64xbf16>, tensor<?x32x?xf32>)
  return %out : tensor<?x32x?x64xbf16>
}
}

// -----

// Block lists have no ranges that parts could divide.
// CHECK-LABEL: func @listed(
// CHECK-NOT: attn_tile.take_if
// CHECK-NOT: attn.merge
// CHECK: return
module attributes {attn.target = #attn.target<arch = sm_90a, multiprocessors = 132, max_shared_memory = 232448>} {
func.func @listed(%q: tensor<?x32x?x64xbf16>, %k: tensor<?x8x?x64xbf16>, %lists: tensor<1x1x?x?x4xi32>) -> tensor<?x32x?x64xbf16> {
  %out, %lse = attn.online_attention forward %q, %k, %k block_lists(%lists : tensor<1x1x?x?x4xi32>) blocks(64, 64)
    schedule(<block_m = 64, block_n = 64, warps = 4, blocks_per_multiprocessor = 3>)
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %keep = arith.cmpi sle, %kv_idx, %q_idx : index
      attn.yield %keep : i1
    } ranges(%b: index, %h: index, %begin: index, %end: index) {
      %c0 = arith.constant 0 : index
      attn.yield_ranges visited(%c0 to %end) masked(%begin to %end)
    } : (tensor<?x32x?x64xbf16>, tensor<?x8x?x64xbf16>, tensor<?x8x?x64xbf16>) -> (tensor<?x32x?x64xbf16>, tensor<?x32x?xf32>)
  return %out : tensor<?x32x?x64xbf16>
}
}

// -----

// The rounding of lse would show in f32.
// CHECK-LABEL: func @exact(
// CHECK-NOT: attn_tile.take_if
// CHECK-NOT: attn.merge
// CHECK: return
module attributes {attn.target = #attn.target<arch = sm_90a, multiprocessors = 132, max_shared_memory = 232448>} {
func.func @exact(%q: tensor<?x32x?x64xf32>, %k: tensor<?x8x?x64xf32>) -> tensor<?x32x?x64xf32> {
  %out, %lse = attn.online_attention forward %q, %k, %k schedule(<block_m = 64, block_n = 64, warps = 4, blocks_per_multiprocessor = 3>)
    : (tensor<?x32x?x64xf32>, tensor<?x8x?x64xf32>, tensor<?x8x?x64xf32>) -> (tensor<?x32x?x64xf32>, tensor<?x32x?xf32>)
  return %out : tensor<?x32x?x64xf32>
}
}

// -----

// The hopper family. Of tiles of 64 rows nearly every multiprocessor is to have one, as of those of few rows.
// CHECK-LABEL: func @hopper(
// CHECK: %[[BLOCKS:.*]] = arith.maxsi %{{.*}}, %c1{{.*}} : index
// CHECK: arith.ceildivsi %c124{{.*}}, %[[BLOCKS]] : index
// CHECK: attn_tile.take_if %{{.*}} "split_kv"
module attributes {attn.target = #attn.target<arch = sm_90a, multiprocessors = 132, max_shared_memory = 232448>} {
func.func @hopper(%q: tensor<?x32x?x64xbf16>, %k: tensor<?x8x?x64xbf16>) -> tensor<?x32x?x64xbf16> {
  %out, %lse = attn.online_attention forward %q, %k, %k
    schedule(<block_m = 64, block_n = 128, warps = 8, blocks_per_multiprocessor = 2, stages = 3, family = hopper>)
    : (tensor<?x32x?x64xbf16>, tensor<?x8x?x64xbf16>, tensor<?x8x?x64xbf16>) -> (tensor<?x32x?x64xbf16>, tensor<?x32x?xf32>)
  return %out : tensor<?x32x?x64xbf16>
}
}

// -----

// A variant for many rows is for more than 64, in several parts, or where heads share tiles that would be a third more. A tile of
// 128 rows that was asked for serves few rows as well.
// CHECK-LABEL: func @many_rows(
// CHECK: attn_tile.take_if %{{.*}} "split_kv"
// MANY-LABEL: func @many_rows(
// MANY: %[[BLOCKS:.*]] = arith.maxsi %{{.*}}, %c1{{.*}} : index
// MANY: arith.divsi %c132{{.*}}, %[[BLOCKS]] : index
// MANY: arith.muli %[[BLOCKS]], %c4{{.*}} : index
// MANY: arith.muli %{{.*}}, %c3{{.*}} : index
// MANY: arith.cmpi sge, %{{.*}}, %c65{{.*}} : index
// MANY: attn_tile.take_if %{{.*}} "many_rows"
module attributes {attn.target = #attn.target<arch = sm_90a, multiprocessors = 132, max_shared_memory = 232448>} {
func.func @many_rows(%q: tensor<?x32x?x64xbf16>, %k: tensor<?x8x?x64xbf16>) -> tensor<?x32x?x64xbf16> {
  %out, %lse = attn.online_attention forward %q, %k, %k
    schedule(<block_m = 128, block_n = 128, warps = 12, stages = 4, family = hopper>)
    : (tensor<?x32x?x64xbf16>, tensor<?x8x?x64xbf16>, tensor<?x8x?x64xbf16>) -> (tensor<?x32x?x64xbf16>, tensor<?x32x?xf32>)
  return %out : tensor<?x32x?x64xbf16>
}
}
