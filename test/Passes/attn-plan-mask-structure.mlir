// RUN: attn-opt %s --attn-plan | FileCheck %s

// The ranges regions of masks by name (test/unit/MaskStructureTest.cpp checks that they are right).

!q = tensor<2x8x?x64xf32>
!l = tensor<2x8x?xf32>

module attributes {attn.target = #attn.target<arch = x86_64_v3, vector_bits = 256, vector_registers = 16>} {

// Causal, aligned to the top left.
// CHECK-LABEL: func @causal(
// CHECK: attn.online_attention forward
// CHECK: } ranges(%b: index, %h: index, %begin: index, %end: index) {
// CHECK-NEXT: %[[C0:.*]] = arith.constant 0
// CHECK-NEXT: %[[C1:.*]] = arith.constant 1
// CHECK-NEXT: %[[KV_LEN:.*]] = attn.kv_len %b
// CHECK-NEXT: %[[ADDI:.*]] = arith.addi %begin, %[[C1]]
// CHECK-NEXT: attn.yield_ranges visited(%[[C0]] to %end) masked(%[[ADDI]] to %[[KV_LEN]])
func.func @causal(%q: !q, %k: !q) -> (!q, !l) {
  %out, %lse = attn.attention %q, %k, %k
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %keep = arith.cmpi sle, %kv_idx, %q_idx : index
      attn.yield %keep : i1
    } : (!q, !q, !q) -> (!q, !l)
  return %out, %lse : !q, !l
}

// Causal, aligned to the bottom right: the diagonal moves with the lengths.
// CHECK-LABEL: func @bottom_right(
// CHECK: attn.online_attention forward
// CHECK: } ranges(%b: index, %h: index, %begin: index, %end: index) {
// CHECK-NEXT: %[[C0:.*]] = arith.constant 0
// CHECK-NEXT: %[[C1:.*]] = arith.constant 1
// CHECK-NEXT: %[[Q_LEN:.*]] = attn.q_len %b
// CHECK-NEXT: %[[KV_LEN:.*]] = attn.kv_len %b
// CHECK-NEXT: %[[ADDI:.*]] = arith.addi %end, %[[KV_LEN]]
// CHECK-NEXT: %[[SUBI:.*]] = arith.subi %[[ADDI]], %[[Q_LEN]]
// CHECK-NEXT: %[[ADDI2:.*]] = arith.addi %begin, %[[KV_LEN]]
// CHECK-NEXT: %[[SUBI2:.*]] = arith.subi %[[ADDI2]], %[[Q_LEN]]
// CHECK-NEXT: %[[ADDI3:.*]] = arith.addi %[[SUBI2]], %[[C1]]
// CHECK-NEXT: attn.yield_ranges visited(%[[C0]] to %[[SUBI]]) masked(%[[ADDI3]] to %[[KV_LEN]])
func.func @bottom_right(%q: !q, %k: !q) -> (!q, !l) {
  %out, %lse = attn.attention %q, %k, %k
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %q_len = attn.q_len %b
      %kv_len = attn.kv_len %b
      %shift = arith.subi %kv_len, %q_len : index
      %last = arith.addi %q_idx, %shift : index
      %keep = arith.cmpi sle, %kv_idx, %last : index
      attn.yield %keep : i1
    } : (!q, !q, !q) -> (!q, !l)
  return %out, %lse : !q, !l
}

// A sink and a window are two ranges. A window that may be empty needs the guard: between `begin - window` and
// `end` there may be indices that no query of the block sees.
// CHECK-LABEL: func @sink_and_window(
// CHECK: attn.online_attention forward
// CHECK: } ranges(%b: index, %h: index, %begin: index, %end: index) {
// CHECK-NEXT: %[[C4:.*]] = arith.constant 4
// CHECK-NEXT: %[[C0:.*]] = arith.constant 0
// CHECK-NEXT: %[[C1:.*]] = arith.constant 1
// CHECK-NEXT: %[[KV_LEN:.*]] = attn.kv_len %b
// CHECK-NEXT: %[[CAST:.*]] = arith.index_cast %{{.*}} : i32 to index
// CHECK-NEXT: %[[MINSI:.*]] = arith.minsi %end, %[[C4]]
// CHECK-NEXT: %[[SUBI:.*]] = arith.subi %begin, %[[CAST]]
// CHECK-NEXT: %[[ADDI:.*]] = arith.addi %[[SUBI]], %[[C1]]
// CHECK-NEXT: %[[CMPI:.*]] = arith.cmpi sgt, %[[CAST]], %[[C0]]
// CHECK-NEXT: %[[SELECT:.*]] = arith.select %[[CMPI]], %end, %[[C0]]
// CHECK-NEXT: %[[ADDI2:.*]] = arith.addi %begin, %[[C1]]
// CHECK-NEXT: %[[SUBI2:.*]] = arith.subi %end, %[[CAST]]
// CHECK-NEXT: attn.yield_ranges visited(%[[C0]] to %[[MINSI]], %[[ADDI]] to %[[SELECT]]) masked(%[[ADDI2]] to %[[KV_LEN]], %[[C4]] to %[[SUBI2]])
func.func @sink_and_window(%q: !q, %k: !q, %window: i32) -> (!q, !l) {
  %out, %lse = attn.attention %q, %k, %k captures(%window : i32)
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %sink = arith.constant 4 : index
      %width = arith.index_cast %window : i32 to index
      %distance = arith.subi %q_idx, %kv_idx : index
      %causal = arith.cmpi sle, %kv_idx, %q_idx : index
      %near = arith.cmpi slt, %distance, %width : index
      %first = arith.cmpi slt, %kv_idx, %sink : index
      %seen = arith.ori %first, %near : i1
      %keep = arith.andi %causal, %seen : i1
      attn.yield %keep : i1
    } : (!q, !q, !q) -> (!q, !l)
  return %out, %lse : !q, !l
}

// Two-sided, by the magnitude of the distance.
// CHECK-LABEL: func @two_sided(
// CHECK: attn.online_attention forward
// CHECK: } ranges(%b: index, %h: index, %begin: index, %end: index) {
// CHECK-NEXT: %[[C_128:.*]] = arith.constant -128
// CHECK-NEXT: %[[C128:.*]] = arith.constant 128
// CHECK-NEXT: %[[C_129:.*]] = arith.constant -129
// CHECK-NEXT: %[[C0:.*]] = arith.constant 0
// CHECK-NEXT: %[[C129:.*]] = arith.constant 129
// CHECK-NEXT: %[[KV_LEN:.*]] = attn.kv_len %b
// CHECK-NEXT: %[[ADDI:.*]] = arith.addi %begin, %[[C_128]]
// CHECK-NEXT: %[[ADDI2:.*]] = arith.addi %end, %[[C128]]
// CHECK-NEXT: %[[ADDI3:.*]] = arith.addi %end, %[[C_129]]
// CHECK-NEXT: %[[ADDI4:.*]] = arith.addi %begin, %[[C129]]
// CHECK-NEXT: attn.yield_ranges visited(%[[ADDI]] to %[[ADDI2]]) masked(%[[C0]] to %[[ADDI3]], %[[ADDI4]] to %[[KV_LEN]])
func.func @two_sided(%q: !q, %k: !q) -> (!q, !l) {
  %out, %lse = attn.attention %q, %k, %k
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %width = arith.constant 128 : index
      %distance = arith.subi %q_idx, %kv_idx : index
      %magnitude = math.absi %distance : index
      %keep = arith.cmpi sle, %magnitude, %width : index
      attn.yield %keep : i1
    } : (!q, !q, !q) -> (!q, !l)
  return %out, %lse : !q, !l
}

// A captured number of 64 bits is clamped where it enters a sum: "no limit" is often the largest one.
// CHECK-LABEL: func @no_limit(
// CHECK: attn.online_attention forward
// CHECK: } ranges(%b: index, %h: index, %begin: index, %end: index) {
// CHECK-NEXT: %[[C_8589934592:.*]] = arith.constant -8589934592
// CHECK-NEXT: %[[C8589934592:.*]] = arith.constant 8589934592
// CHECK-NEXT: %[[C1:.*]] = arith.constant 1
// CHECK-NEXT: %[[C0:.*]] = arith.constant 0
// CHECK-NEXT: %[[KV_LEN:.*]] = attn.kv_len %b
// CHECK-NEXT: %[[MAXSI:.*]] = arith.maxsi %{{.*}}, %[[C_8589934592]]
// CHECK-NEXT: %[[MINSI:.*]] = arith.minsi %[[MAXSI]], %[[C8589934592]]
// CHECK-NEXT: %[[SUBI:.*]] = arith.subi %begin, %[[MINSI]]
// CHECK-NEXT: %[[ADDI:.*]] = arith.addi %[[SUBI]], %[[C1]]
// CHECK-NEXT: %[[SUBI2:.*]] = arith.subi %end, %[[MINSI]]
// CHECK-NEXT: attn.yield_ranges visited(%[[ADDI]] to %[[KV_LEN]]) masked(%[[C0]] to %[[SUBI2]])
func.func @no_limit(%q: !q, %k: !q, %window: index) -> (!q, !l) {
  %out, %lse = attn.attention %q, %k, %k captures(%window : index)
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %distance = arith.subi %q_idx, %kv_idx : index
      %keep = arith.cmpi slt, %distance, %window : index
      attn.yield %keep : i1
    } : (!q, !q, !q) -> (!q, !l)
  return %out, %lse : !q, !l
}

// Padding: a read at the batch entry is made once for a block.
// CHECK-LABEL: func @padding(
// CHECK: attn.online_attention forward
// CHECK: } ranges(%b: index, %h: index, %begin: index, %end: index) {
// CHECK-NEXT: %[[C0:.*]] = arith.constant 0
// CHECK-NEXT: %[[KV_LEN:.*]] = attn.kv_len %b
// CHECK-NEXT: %[[READ:.*]] = tensor.extract %{{.*}}[%b] : tensor<2xi32>
// CHECK-NEXT: %[[CAST:.*]] = arith.index_cast %[[READ]] : i32 to index
// CHECK-NEXT: attn.yield_ranges visited(%[[C0]] to %[[CAST]]) masked(%[[CAST]] to %[[KV_LEN]])
func.func @padding(%q: !q, %k: !q, %lengths: tensor<2xi32>) -> (!q, !l) {
  %out, %lse = attn.attention %q, %k, %k captures(%lengths : tensor<2xi32>)
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %len = tensor.extract %lengths[%b] : tensor<2xi32>
      %length = arith.index_cast %len : i32 to index
      %keep = arith.cmpi slt, %kv_idx, %length : index
      attn.yield %keep : i1
    } : (!q, !q, !q) -> (!q, !l)
  return %out, %lse : !q, !l
}

// Prefix-LM: causal, or within the prefix. Dropped are the keys after both.
// CHECK-LABEL: func @prefix(
// CHECK: attn.online_attention forward
// CHECK: } ranges(%b: index, %h: index, %begin: index, %end: index) {
// CHECK-NEXT: %[[C0:.*]] = arith.constant 0
// CHECK-NEXT: %[[C1:.*]] = arith.constant 1
// CHECK-NEXT: %[[KV_LEN:.*]] = attn.kv_len %b
// CHECK-NEXT: %[[READ:.*]] = tensor.extract %{{.*}}[%b] : tensor<2xi32>
// CHECK-NEXT: %[[CAST:.*]] = arith.index_cast %[[READ]] : i32 to index
// CHECK-NEXT: %[[ADDI:.*]] = arith.addi %begin, %[[C1]]
// CHECK-NEXT: %[[MAXSI:.*]] = arith.maxsi %[[CAST]], %[[ADDI]]
// CHECK-NEXT: attn.yield_ranges visited(%[[C0]] to %end, %[[C0]] to %[[CAST]]) masked(%[[MAXSI]] to %[[KV_LEN]])
func.func @prefix(%q: !q, %k: !q, %prefixes: tensor<2xi32>) -> (!q, !l) {
  %out, %lse = attn.attention %q, %k, %k captures(%prefixes : tensor<2xi32>)
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %p = tensor.extract %prefixes[%b] : tensor<2xi32>
      %prefix = arith.index_cast %p : i32 to index
      %causal = arith.cmpi sle, %kv_idx, %q_idx : index
      %within = arith.cmpi slt, %kv_idx, %prefix : index
      %keep = arith.ori %causal, %within : i1
      attn.yield %keep : i1
    } : (!q, !q, !q) -> (!q, !l)
  return %out, %lse : !q, !l
}

// Causal within chunks of 128: exact, by division of the block's bounds.
// CHECK-LABEL: func @chunks(
// CHECK: attn.online_attention forward
// CHECK: } ranges(%b: index, %h: index, %begin: index, %end: index) {
// CHECK-NEXT: %[[C128:.*]] = arith.constant 128
// CHECK-NEXT: %[[C127:.*]] = arith.constant 127
// CHECK-NEXT: %[[C_128:.*]] = arith.constant -128
// CHECK-NEXT: %[[C0:.*]] = arith.constant 0
// CHECK-NEXT: %[[C1:.*]] = arith.constant 1
// CHECK-NEXT: %[[KV_LEN:.*]] = attn.kv_len %b
// CHECK-NEXT: %[[DIVUI:.*]] = arith.divui %begin, %[[C128]]
// CHECK-NEXT: %[[MULI:.*]] = arith.muli %[[DIVUI]], %[[C128]]
// CHECK-NEXT: %[[ADDI:.*]] = arith.addi %end, %[[C127]]
// CHECK-NEXT: %[[DIVUI2:.*]] = arith.divui %[[ADDI]], %[[C128]]
// CHECK-NEXT: %[[MULI2:.*]] = arith.muli %[[DIVUI2]], %[[C128]]
// CHECK-NEXT: %[[ADDI2:.*]] = arith.addi %[[MULI2]], %[[C_128]]
// CHECK-NEXT: %[[ADDI3:.*]] = arith.addi %begin, %[[C1]]
// CHECK-NEXT: attn.yield_ranges visited(%[[MULI]] to %end) masked(%[[C0]] to %[[ADDI2]], %[[ADDI3]] to %[[KV_LEN]])
func.func @chunks(%q: !q, %k: !q) -> (!q, !l) {
  %out, %lse = attn.attention %q, %k, %k
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %size = arith.constant 128 : index
      %q_chunk = arith.floordivsi %q_idx, %size : index
      %kv_chunk = arith.floordivsi %kv_idx, %size : index
      %same = arith.cmpi eq, %q_chunk, %kv_chunk : index
      %causal = arith.cmpi sle, %kv_idx, %q_idx : index
      %keep = arith.andi %same, %causal : i1
      attn.yield %keep : i1
    } : (!q, !q, !q) -> (!q, !l)
  return %out, %lse : !q, !l
}

// Keys of the same chunk of 200 that are more than a captured distance before the query: a block of 64 queries
// meets at most two chunks, and each of them is a range.
// CHECK-LABEL: func @far_in_chunk(
// CHECK: attn.online_attention forward
// CHECK: } ranges(%b: index, %h: index, %begin: index, %end: index) {
// CHECK-NEXT: %[[C200:.*]] = arith.constant 200
// CHECK-NEXT: %[[C199:.*]] = arith.constant 199
// CHECK-NEXT: %[[C_1:.*]] = arith.constant -1
// CHECK-NEXT: %[[C400:.*]] = arith.constant 400
// CHECK-NEXT: %[[C_200:.*]] = arith.constant -200
// CHECK-NEXT: %[[C0:.*]] = arith.constant 0
// CHECK-NEXT: %[[KV_LEN:.*]] = attn.kv_len %b
// CHECK-NEXT: %[[CAST:.*]] = arith.index_cast %{{.*}} : i32 to index
// CHECK-NEXT: %[[DIVUI:.*]] = arith.divui %begin, %[[C200]]
// CHECK-NEXT: %[[MULI:.*]] = arith.muli %[[DIVUI]], %[[C200]]
// CHECK-NEXT: %[[ADDI:.*]] = arith.addi %end, %[[C199]]
// CHECK-NEXT: %[[DIVUI2:.*]] = arith.divui %[[ADDI]], %[[C200]]
// CHECK-NEXT: %[[MULI2:.*]] = arith.muli %[[DIVUI2]], %[[C200]]
// CHECK-NEXT: %[[SUBI:.*]] = arith.subi %end, %[[CAST]]
// CHECK-NEXT: %[[ADDI2:.*]] = arith.addi %[[SUBI]], %[[C_1]]
// CHECK-NEXT: %[[MINSI:.*]] = arith.minsi %[[MULI2]], %[[ADDI2]]
// CHECK-NEXT: %[[MULI3:.*]] = arith.muli %[[DIVUI]], %[[C200]]
// CHECK-NEXT: %[[ADDI3:.*]] = arith.addi %[[MULI3]], %[[C200]]
// CHECK-NEXT: %[[MINSI2:.*]] = arith.minsi %[[MINSI]], %[[ADDI3]]
// CHECK-NEXT: %[[MULI4:.*]] = arith.muli %[[DIVUI]], %[[C200]]
// CHECK-NEXT: %[[SUBI2:.*]] = arith.subi %[[MULI4]], %[[CAST]]
// CHECK-NEXT: %[[ADDI4:.*]] = arith.addi %[[SUBI2]], %[[C199]]
// CHECK-NEXT: %[[MINSI3:.*]] = arith.minsi %[[MINSI2]], %[[ADDI4]]
// CHECK-NEXT: %[[MINSI4:.*]] = arith.minsi %[[MULI2]], %[[ADDI2]]
// CHECK-NEXT: %[[MULI5:.*]] = arith.muli %[[DIVUI]], %[[C200]]
// CHECK-NEXT: %[[ADDI5:.*]] = arith.addi %[[MULI5]], %[[C400]]
// CHECK-NEXT: %[[MINSI5:.*]] = arith.minsi %[[MINSI4]], %[[ADDI5]]
// CHECK-NEXT: %[[MULI6:.*]] = arith.muli %[[DIVUI2]], %[[C200]]
// CHECK-NEXT: %[[ADDI6:.*]] = arith.addi %[[MULI6]], %[[C_200]]
// CHECK-NEXT: %[[SUBI3:.*]] = arith.subi %begin, %[[CAST]]
// CHECK-NEXT: attn.yield_ranges visited(%[[MULI]] to %[[MINSI3]], %[[ADDI3]] to %[[MINSI5]]) masked(%[[ADDI3]] to %[[KV_LEN]], %[[C0]] to %[[ADDI6]], %[[SUBI3]] to %[[KV_LEN]])
func.func @far_in_chunk(%q: !q, %k: !q, %least: i32) -> (!q, !l) {
  %out, %lse = attn.attention %q, %k, %k captures(%least : i32)
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %size = arith.constant 200 : index
      %far = arith.index_cast %least : i32 to index
      %q_chunk = arith.floordivsi %q_idx, %size : index
      %kv_chunk = arith.floordivsi %kv_idx, %size : index
      %same = arith.cmpi eq, %q_chunk, %kv_chunk : index
      %distance = arith.subi %q_idx, %kv_idx : index
      %before = arith.cmpi sgt, %distance, %far : index
      %keep = arith.andi %same, %before : i1
      attn.yield %keep : i1
    } : (!q, !q, !q) -> (!q, !l)
  return %out, %lse : !q, !l
}

// Every fourth key: nothing is to be skipped but what lies before the first and after the last of them.
// CHECK-LABEL: func @dilated(
// CHECK: attn.online_attention forward
// CHECK: } ranges(%b: index, %h: index, %begin: index, %end: index) {
// CHECK-NEXT: %[[C1:.*]] = arith.constant 1
// CHECK-NEXT: %[[C_1:.*]] = arith.constant -1
// CHECK-NEXT: %[[C3:.*]] = arith.constant 3
// CHECK-NEXT: %[[C4:.*]] = arith.constant 4
// CHECK-NEXT: %[[C_2:.*]] = arith.constant -2
// CHECK-NEXT: %[[C_3:.*]] = arith.constant -3
// CHECK-NEXT: %[[C0:.*]] = arith.constant 0
// CHECK-NEXT: %[[C2:.*]] = arith.constant 2
// CHECK-NEXT: %[[KV_LEN:.*]] = attn.kv_len %b
// CHECK-NEXT: %[[ADDI:.*]] = arith.addi %end, %[[C_1]]
// CHECK-NEXT: %[[ADDI2:.*]] = arith.addi %[[KV_LEN]], %[[C_1]]
// CHECK-NEXT: %[[MINSI:.*]] = arith.minsi %[[ADDI]], %[[ADDI2]]
// CHECK-NEXT: %[[ADDI3:.*]] = arith.addi %[[MINSI]], %[[C3]]
// CHECK-NEXT: %[[DIVUI:.*]] = arith.divui %[[ADDI3]], %[[C4]]
// CHECK-NEXT: %[[MULI:.*]] = arith.muli %[[DIVUI]], %[[C4]]
// CHECK-NEXT: %[[ADDI4:.*]] = arith.addi %[[MULI]], %[[C_2]]
// CHECK-NEXT: %[[ADDI5:.*]] = arith.addi %[[KV_LEN]], %[[C3]]
// CHECK-NEXT: %[[DIVUI2:.*]] = arith.divui %[[ADDI5]], %[[C4]]
// CHECK-NEXT: %[[MULI2:.*]] = arith.muli %[[DIVUI2]], %[[C4]]
// CHECK-NEXT: %[[ADDI6:.*]] = arith.addi %[[MULI2]], %[[C_3]]
// CHECK-NEXT: %[[ADDI7:.*]] = arith.addi %[[KV_LEN]], %[[C1]]
// CHECK-NEXT: %[[DIVUI3:.*]] = arith.divui %[[ADDI7]], %[[C4]]
// CHECK-NEXT: %[[MULI3:.*]] = arith.muli %[[DIVUI3]], %[[C4]]
// CHECK-NEXT: %[[ADDI8:.*]] = arith.addi %[[MULI3]], %[[C_1]]
// CHECK-NEXT: %[[MINSI2:.*]] = arith.minsi %[[ADDI2]], %[[ADDI8]]
// CHECK-NEXT: %[[ADDI9:.*]] = arith.addi %[[MINSI2]], %[[C1]]
// CHECK-NEXT: %[[ADDI10:.*]] = arith.addi %begin, %[[C1]]
// CHECK-NEXT: attn.yield_ranges visited(%[[C1]] to %[[ADDI4]]) masked(%[[C0]] to %[[ADDI6]], %[[C2]] to %[[ADDI9]], %[[ADDI10]] to %[[KV_LEN]])
func.func @dilated(%q: !q, %k: !q) -> (!q, !l) {
  %out, %lse = attn.attention %q, %k, %k
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %four = arith.constant 4 : index
      %one = arith.constant 1 : index
      %phase = arith.remui %kv_idx, %four : index
      %dilated = arith.cmpi eq, %phase, %one : index
      %causal = arith.cmpi sle, %kv_idx, %q_idx : index
      %keep = arith.andi %dilated, %causal : i1
      attn.yield %keep : i1
    } : (!q, !q, !q) -> (!q, !l)
  return %out, %lse : !q, !l
}

// Global heads and local heads: a condition of the head alone guards a whole range.
// CHECK-LABEL: func @heads(
// CHECK: attn.online_attention forward
// CHECK: } ranges(%b: index, %h: index, %begin: index, %end: index) {
// CHECK-NEXT: %[[C4:.*]] = arith.constant 4
// CHECK-NEXT: %[[C0:.*]] = arith.constant 0
// CHECK-NEXT: %[[C_63:.*]] = arith.constant -63
// CHECK-NEXT: %[[C_64:.*]] = arith.constant -64
// CHECK-NEXT: %[[C1:.*]] = arith.constant 1
// CHECK-NEXT: %[[KV_LEN:.*]] = attn.kv_len %b
// CHECK-NEXT: %[[CMPI:.*]] = arith.cmpi slt, %h, %[[C4]]
// CHECK-NEXT: %[[SELECT:.*]] = arith.select %[[CMPI]], %[[KV_LEN]], %[[C0]]
// CHECK-NEXT: %[[ADDI:.*]] = arith.addi %begin, %[[C_63]]
// CHECK-NEXT: %[[ADDI2:.*]] = arith.addi %end, %[[C_64]]
// CHECK-NEXT: %[[SELECT2:.*]] = arith.select %[[CMPI]], %[[C0]], %[[ADDI2]]
// CHECK-NEXT: %[[ADDI3:.*]] = arith.addi %begin, %[[C1]]
// CHECK-NEXT: %[[SELECT3:.*]] = arith.select %[[CMPI]], %[[C0]], %[[KV_LEN]]
// CHECK-NEXT: attn.yield_ranges visited(%[[C0]] to %[[SELECT]], %[[ADDI]] to %end) masked(%[[C0]] to %[[SELECT2]], %[[ADDI3]] to %[[SELECT3]])
func.func @heads(%q: !q, %k: !q) -> (!q, !l) {
  %out, %lse = attn.attention %q, %k, %k
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %four = arith.constant 4 : index
      %width = arith.constant 64 : index
      %is_global = arith.cmpi slt, %h, %four : index
      %distance = arith.subi %q_idx, %kv_idx : index
      %near = arith.cmpi ult, %distance, %width : index
      %keep = arith.ori %is_global, %near : i1
      attn.yield %keep : i1
    } : (!q, !q, !q) -> (!q, !l)
  return %out, %lse : !q, !l
}

// Documents are read at the indices and unknown; causality prunes, but no block is known to be full, or not to be empty.
// CHECK-LABEL: func @documents(
// CHECK: attn.online_attention forward
// CHECK: } ranges(%b: index, %h: index, %begin: index, %end: index) {
// CHECK-NEXT: %[[C0:.*]] = arith.constant 0
// CHECK-NEXT: %[[KV_LEN:.*]] = attn.kv_len %b
// CHECK-NEXT: attn.yield_ranges inexact visited(%[[C0]] to %end) masked(%[[C0]] to %[[KV_LEN]])
func.func @documents(%q: !q, %k: !q, %documents: tensor<2x?xi32>) -> (!q, !l) {
  %out, %lse = attn.attention %q, %k, %k captures(%documents : tensor<2x?xi32>)
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %q_document = tensor.extract %documents[%b, %q_idx] : tensor<2x?xi32>
      %kv_document = tensor.extract %documents[%b, %kv_idx] : tensor<2x?xi32>
      %same = arith.cmpi eq, %q_document, %kv_document : i32
      %causal = arith.cmpi sle, %kv_idx, %q_idx : index
      %keep = arith.andi %same, %causal : i1
      attn.yield %keep : i1
    } : (!q, !q, !q) -> (!q, !l)
  return %out, %lse : !q, !l
}

// Kept is everything, dropped is nothing.
// CHECK-LABEL: func @all(
// CHECK: attn.online_attention forward
// CHECK: } ranges(%b: index, %h: index, %begin: index, %end: index) {
// CHECK-NEXT: %[[C0:.*]] = arith.constant 0
// CHECK-NEXT: %[[KV_LEN:.*]] = attn.kv_len %b
// CHECK-NEXT: attn.yield_ranges visited(%[[C0]] to %[[KV_LEN]]) masked()
func.func @all(%q: !q, %k: !q) -> (!q, !l) {
  %out, %lse = attn.attention %q, %k, %k
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %zero = arith.constant 0 : index
      %keep = arith.cmpi sge, %q_idx, %zero : index
      attn.yield %keep : i1
    } : (!q, !q, !q) -> (!q, !l)
  return %out, %lse : !q, !l
}

// Gradients: dq has blocks of queries, dkdv blocks of keys and ranges of queries.
// CHECK-LABEL: func @backward(
// CHECK: attn.online_attention dq
// CHECK: } ranges(%b: index, %h: index, %begin: index, %end: index) {
// CHECK-NEXT: %[[C_63:.*]] = arith.constant -63
// CHECK-NEXT: %[[C_64:.*]] = arith.constant -64
// CHECK-NEXT: %[[C0:.*]] = arith.constant 0
// CHECK-NEXT: %[[C1:.*]] = arith.constant 1
// CHECK-NEXT: %[[KV_LEN:.*]] = attn.kv_len %b
// CHECK-NEXT: %[[ADDI:.*]] = arith.addi %begin, %[[C_63]]
// CHECK-NEXT: %[[ADDI2:.*]] = arith.addi %end, %[[C_64]]
// CHECK-NEXT: %[[ADDI3:.*]] = arith.addi %begin, %[[C1]]
// CHECK-NEXT: attn.yield_ranges visited(%[[ADDI]] to %end) masked(%[[C0]] to %[[ADDI2]], %[[ADDI3]] to %[[KV_LEN]])
// CHECK: attn.online_attention dkdv
// CHECK: } ranges(%b: index, %h: index, %begin: index, %end: index) {
// CHECK-NEXT: %[[C63:.*]] = arith.constant 63
// CHECK-NEXT: %[[C64:.*]] = arith.constant 64
// CHECK-NEXT: %[[C_1:.*]] = arith.constant -1
// CHECK-NEXT: %[[C0:.*]] = arith.constant 0
// CHECK-NEXT: %[[Q_LEN:.*]] = attn.q_len %b
// CHECK-NEXT: %[[ADDI:.*]] = arith.addi %end, %[[C63]]
// CHECK-NEXT: %[[ADDI2:.*]] = arith.addi %begin, %[[C64]]
// CHECK-NEXT: %[[ADDI3:.*]] = arith.addi %end, %[[C_1]]
// CHECK-NEXT: attn.yield_ranges visited(%begin to %[[ADDI]]) masked(%[[ADDI2]] to %[[Q_LEN]], %[[C0]] to %[[ADDI3]])
func.func @backward(%q: !q, %k: !q, %lse: !l) -> (!q, !q, !q) {
  %dq, %dk, %dv = attn.attention_backward %q, %k, %k, %q, %lse, %q
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %width = arith.constant 64 : index
      %distance = arith.subi %q_idx, %kv_idx : index
      %keep = arith.cmpi ult, %distance, %width : index
      attn.yield %keep : i1
    } : (!q, !q, !q, !q, !l, !q) -> (!q, !q, !q)
  return %dq, %dk, %dv : !q, !q, !q
}

}
