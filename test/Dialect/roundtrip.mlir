// Every operation with every optional part, in the custom form. Printing is a fixed point, and the generic form and
// bytecode hold the same module, locations or not.

// RUN: attn-opt %s > %t.custom && FileCheck %s --input-file %t.custom
// RUN: attn-opt %t.custom | diff %t.custom -
// RUN: attn-opt %s --mlir-print-op-generic | attn-opt | diff %t.custom -
// RUN: attn-opt %s --emit-bytecode | attn-opt | diff %t.custom -
// RUN: attn-opt %s --mlir-print-debuginfo | attn-opt | diff %t.custom -

// CHECK: module attributes {attn.target = #attn.target<arch = x86_64_v3, vector_bits = 256, vector_registers = 16>}
module attributes {attn.target = #attn.target<arch = x86_64_v3, vector_bits = 256, vector_registers = 16,
                                              l1_bytes = 32768, l2_bytes = 524288, multiprocessors = 1>} {

// CHECK: targets = [
// CHECK-SAME: #attn.target<arch = x86_64, vector_bits = 128, vector_registers = 16, l1_bytes = 49152, l2_bytes = 2097152, multiprocessors = 8>
// CHECK-SAME: #attn.target<arch = aarch64, vector_bits = 128, vector_registers = 32>
// CHECK-SAME: #attn.target<arch = sm_90a, multiprocessors = 132, max_shared_memory = 232448>
func.func private @targets() attributes {targets = [
  #attn.target<arch = x86_64, vector_bits = 128, vector_registers = 16, l1_bytes = 49152, l2_bytes = 2097152, multiprocessors = 8>,
  #attn.target<arch = x86_64_v4, vector_bits = 512, vector_registers = 32>,
  #attn.target<arch = aarch64, vector_bits = 128, vector_registers = 32>,
  #attn.target<max_shared_memory = 232448, arch = sm_90a, multiprocessors = 132>,
  #attn.target<arch = sm_80, max_shared_memory = 166912>, #attn.target<arch = sm_86, max_shared_memory = 101376>,
  #attn.target<arch = sm_89, max_shared_memory = 101376>, #attn.target<arch = sm_100a, max_shared_memory = 232448>,
  #attn.target<arch = sm_120a, max_shared_memory = 101376>]}

// CHECK: schedules = [
// CHECK-SAME: #attn.schedule<block_m = 64, block_n = 128>
// CHECK-SAME: #attn.schedule<block_m = 16, block_n = 32, order = key_outer>
// CHECK-SAME: #attn.schedule<block_m = 64, block_n = 64, kv_splits = 4, vector_length = 16, register_rows = 8, register_vectors = 2>
func.func private @schedules() attributes {schedules = [
  #attn.schedule<block_m = 64, block_n = 128, order = query_outer, kv_splits = 1>,
  #attn.schedule<order = key_outer, block_m = 16, block_n = 32>,
  #attn.schedule<block_m = 64, block_n = 64, kv_splits = 4, vector_length = 16, register_rows = 8, register_vectors = 2>]}

//===----------------------------------------------------------------------===//
// attn.attention
//===----------------------------------------------------------------------===//

// CHECK-LABEL: func @attention_plain
// CHECK: %{{.*}}, %{{.*}} = attn.attention %arg0, %arg1, %arg2 : (tensor<1x8x?x64xf32>, tensor<1x8x?x64xf32>, tensor<1x8x?x64xf32>) -> (tensor<1x8x?x64xf32>, tensor<1x8x?xf32>)
func.func @attention_plain(%q: tensor<1x8x?x64xf32>, %k: tensor<1x8x?x64xf32>, %v: tensor<1x8x?x64xf32>)
    -> (tensor<1x8x?x64xf32>, tensor<1x8x?xf32>) {
  %out, %lse = attn.attention %q, %k, %v
    : (tensor<1x8x?x64xf32>, tensor<1x8x?x64xf32>, tensor<1x8x?x64xf32>) -> (tensor<1x8x?x64xf32>, tensor<1x8x?xf32>)
  return %out, %lse : tensor<1x8x?x64xf32>, tensor<1x8x?xf32>
}

// CHECK-LABEL: func @attention_all_parts(
// CHECK-SAME: %arg0: tensor<?x16x?x64xbf16>, %arg1: tensor<?x4x?x64xbf16>, %arg2: tensor<?x4x?x32xbf16>, %arg3: tensor<16xf32>, %arg4: f32, %arg5: tensor<?xi32>)
// CHECK: %out, %lse = attn.attention %arg0, %arg1, %arg2 captures(%arg3 : tensor<16xf32>, %arg4 : f32, %arg5 : tensor<?xi32>) scale(1.250000e-01)
// CHECK-SAME: score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
// CHECK: tensor.extract %arg3[%h] : tensor<16xf32>
// CHECK: scf.if
// CHECK: attn.yield %{{.*}} : f32
// CHECK: } mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
// CHECK: tensor.extract %arg5[%b] : tensor<?xi32>
// CHECK: attn.q_len %b
// CHECK: attn.kv_len %b
// CHECK: attn.yield %{{.*}} : i1
// CHECK: } {tool.note = "kept"} : (tensor<?x16x?x64xbf16>, tensor<?x4x?x64xbf16>, tensor<?x4x?x32xbf16>) -> (tensor<?x16x?x32xbf16>, tensor<?x16x?xf32>)
func.func @attention_all_parts(%q: tensor<?x16x?x64xbf16>, %k: tensor<?x4x?x64xbf16>, %v: tensor<?x4x?x32xbf16>,
                               %slopes: tensor<16xf32>, %cap: f32, %lengths: tensor<?xi32>)
    -> tensor<?x16x?x32xbf16> {
  %out, %lse = attn.attention %q, %k, %v captures(%slopes : tensor<16xf32>, %cap : f32, %lengths : tensor<?xi32>)
    scale(0.125) score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %slope = tensor.extract %slopes[%h] : tensor<16xf32>
      %near = arith.cmpi eq, %q_idx, %kv_idx : index
      %biased = scf.if %near -> f32 {
        %sum = arith.addf %s, %slope : f32
        scf.yield %sum : f32
      } else {
        %t = math.tanh %s : f32
        %capped = arith.mulf %t, %cap : f32
        scf.yield %capped : f32
      }
      attn.yield %biased : f32
    } mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %length = tensor.extract %lengths[%b] : tensor<?xi32>
      %limit = arith.index_cast %length : i32 to index
      %q_len = attn.q_len %b
      %kv_len = attn.kv_len %b
      %shift = index.sub %kv_len, %q_len
      %last = index.add %q_idx, %shift
      %causal = index.cmp sle(%kv_idx, %last)
      %inside = arith.cmpi slt, %kv_idx, %limit : index
      %keep = arith.andi %causal, %inside : i1
      attn.yield %keep : i1
    } {tool.note = "kept"} : (tensor<?x16x?x64xbf16>, tensor<?x4x?x64xbf16>, tensor<?x4x?x32xbf16>)
      -> (tensor<?x16x?x32xbf16>, tensor<?x16x?xf32>)
  return %out : tensor<?x16x?x32xbf16>
}

// A region can stand alone, scores of f64 tensors are f64, and the widest and narrowest head sizes are legal.
// CHECK-LABEL: func @attention_f64
// CHECK: attn.attention %{{.*}}, %{{.*}}, %{{.*}} score(%s: f64, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
// CHECK-NOT: mask
// CHECK: attn.attention %{{.*}}, %{{.*}}, %{{.*}} mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
func.func @attention_f64(%q: tensor<2x3x5x512xf64>, %k: tensor<2x3x7x512xf64>, %v: tensor<2x3x7x1xf64>) {
  %out, %lse = attn.attention %q, %k, %v score(%s: f64, %b: index, %h: index, %i: index, %j: index) {
    %negated = arith.negf %s : f64
    attn.yield %negated : f64
  } : (tensor<2x3x5x512xf64>, tensor<2x3x7x512xf64>, tensor<2x3x7x1xf64>) -> (tensor<2x3x5x1xf64>, tensor<2x3x5xf64>)
  %out_2, %lse_2 = attn.attention %q, %k, %v mask(%b: index, %h: index, %i: index, %j: index) {
    %keep = arith.cmpi ne, %i, %j : index
    attn.yield %keep : i1
  } : (tensor<2x3x5x512xf64>, tensor<2x3x7x512xf64>, tensor<2x3x7x1xf64>) -> (tensor<2x3x5x1xf64>, tensor<2x3x5xf64>)
  return
}

// Lengths of zero, f16 and f8 tensors, captures of every kind.
// CHECK-LABEL: func @attention_types
// CHECK: captures(%{{.*}} : f16, %{{.*}} : i1, %{{.*}} : index, %{{.*}} : tensor<f64>, %{{.*}} : tensor<?x2xi8>, %{{.*}} : tensor<3xindex>)
func.func @attention_types(%q: tensor<0x2x0x8xf16>, %k: tensor<0x1x0x8xf16>, %q8: tensor<1x1x1x16xf8E4M3FN>,
                           %a: f16, %b: i1, %c: index, %d: tensor<f64>, %e: tensor<?x2xi8>, %f: tensor<3xindex>) {
  %out, %lse = attn.attention %q, %k, %k
    captures(%a : f16, %b : i1, %c : index, %d : tensor<f64>, %e : tensor<?x2xi8>, %f : tensor<3xindex>)
    : (tensor<0x2x0x8xf16>, tensor<0x1x0x8xf16>, tensor<0x1x0x8xf16>) -> (tensor<0x2x0x8xf16>, tensor<0x2x0xf32>)
  %out_8, %lse_8 = attn.attention %q8, %q8, %q8
    : (tensor<1x1x1x16xf8E4M3FN>, tensor<1x1x1x16xf8E4M3FN>, tensor<1x1x1x16xf8E4M3FN>)
    -> (tensor<1x1x1x16xf8E4M3FN>, tensor<1x1x1xf32>)
  return
}

// A value captured again has no second name: the regions list an argument for it.
// CHECK-LABEL: func @attention_duplicate_capture
// CHECK: captures(%arg1 : f32, %arg1 : f32, %arg1 : f32)
// CHECK-SAME: score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index, %[[SECOND:again[_0-9]*]]: f32, %[[THIRD:again[_0-9]*]]: f32) {
// CHECK: arith.addf %s, %arg1 : f32
// CHECK: arith.mulf %{{.*}}, %[[THIRD]] : f32
func.func @attention_duplicate_capture(%q: tensor<1x1x4x8xf32>, %x: f32) {
  %out, %lse = attn.attention %q, %q, %q captures(%x : f32, %x : f32, %x : f32)
    score(%s: f32, %b: index, %h: index, %i: index, %j: index, %second: f32, %third: f32) {
      %sum = arith.addf %s, %x : f32
      %product = arith.mulf %sum, %third : f32
      attn.yield %product : f32
    } : (tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>) -> (tensor<1x1x4x8xf32>, tensor<1x1x4xf32>)
  return
}

// A capture of a result of an operation with several, whose names the arguments of the regions repeat.
// CHECK-LABEL: func @attention_capture_result
// CHECK: %[[PAIR:.*]]:2 = call @pair()
// CHECK: captures(%[[PAIR]]#1 : f32, %[[PAIR]]#0 : f32)
// CHECK: arith.subf %[[PAIR]]#0, %[[PAIR]]#1 : f32
func.func private @pair() -> (f32, f32)
func.func @attention_capture_result(%s: tensor<1x1x4x8xf32>, %b: tensor<1x1x4x8xf32>) {
  %x:2 = call @pair() : () -> (f32, f32)
  %out, %lse = attn.attention %s, %b, %b captures(%x#1 : f32, %x#0 : f32)
    score(%s: f32, %b: index, %h: index, %i: index, %j: index) {
      %difference = arith.subf %x#0, %x#1 : f32
      attn.yield %difference : f32
    } : (tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>) -> (tensor<1x1x4x8xf32>, tensor<1x1x4xf32>)
  return
}

//===----------------------------------------------------------------------===//
// attn.attention_backward
//===----------------------------------------------------------------------===//

// CHECK-LABEL: func @backward_plain
// CHECK: %d_query, %d_key, %d_value = attn.attention_backward %arg0, %arg1, %arg2, %arg0, %arg3, %arg0 : (
func.func @backward_plain(%q: tensor<2x8x?x64xf32>, %k: tensor<2x8x?x64xf32>, %v: tensor<2x8x?x64xf32>,
                          %lse: tensor<2x8x?xf32>) {
  %dq, %dk, %dv = attn.attention_backward %q, %k, %v, %q, %lse, %q
    : (tensor<2x8x?x64xf32>, tensor<2x8x?x64xf32>, tensor<2x8x?x64xf32>, tensor<2x8x?x64xf32>, tensor<2x8x?xf32>,
       tensor<2x8x?x64xf32>) -> (tensor<2x8x?x64xf32>, tensor<2x8x?x64xf32>, tensor<2x8x?x64xf32>)
  return
}

// The gradient of each capture of one value is that of its own reads.
// CHECK-LABEL: func @backward_duplicate_capture
// CHECK: gradient(%d: f32, %s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index, %[[AGAIN:again[_0-9]*]]: f32) {
// CHECK: attn.accumulate_gradient %s, %[[AGAIN]][] : f32, f32
// CHECK: attn.accumulate_gradient %d, %arg2[] : f32, f32
// CHECK: } {deterministic, tf32} :
func.func @backward_duplicate_capture(%q: tensor<1x1x4x8xf32>, %lse: tensor<1x1x4xf32>, %x: f32) {
  %d:5 = attn.attention_backward %q, %q, %q, %q, %lse, %q captures(%x : f32, %x : f32)
    score(%s: f32, %b: index, %h: index, %i: index, %j: index, %y: f32) {
      %product = arith.mulf %s, %y : f32
      %sum = arith.addf %product, %x : f32
      attn.yield %sum : f32
    } gradient(%d: f32, %s: f32, %b: index, %h: index, %i: index, %j: index, %y: f32) {
      attn.accumulate_gradient %s, %y[] : f32, f32
      attn.accumulate_gradient %d, %x[] : f32, f32
      attn.yield %d : f32
    } {deterministic, tf32}
    : (tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>, tensor<1x1x4xf32>, tensor<1x1x4x8xf32>)
   -> (tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>, tensor<f32>, tensor<f32>)
  return
}

// CHECK-LABEL: func @backward_all_parts
// CHECK: %d_query, %d_key, %d_value, %d_capture, %d_capture_0 = attn.attention_backward %arg0, %arg1, %arg1, %arg0, %arg2, %arg0, %arg2
// CHECK-SAME: captures(%arg3 : tensor<4xbf16>, %arg4 : index, %arg5 : f32) scale(5.000000e-01)
// CHECK-SAME: score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
// CHECK: } mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
// CHECK: } gradient(%d: f32, %s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
// CHECK: attn.accumulate_gradient %{{.*}}, %arg3[%h] : f32, tensor<4xbf16>
// CHECK: attn.accumulate_gradient %{{.*}}, %arg5[] : f32, f32
// CHECK: attn.yield %{{.*}} : f32
// CHECK: } {tool.note} : (tensor<2x4x?x8xbf16>, tensor<2x2x?x8xbf16>, tensor<2x2x?x8xbf16>, tensor<2x4x?x8xbf16>, tensor<2x4x?xf32>, tensor<2x4x?x8xbf16>, tensor<2x4x?xf32>)
// CHECK-SAME: -> (tensor<2x4x?x8xbf16>, tensor<2x2x?x8xbf16>, tensor<2x2x?x8xbf16>, tensor<4xf32>, tensor<f32>)
func.func @backward_all_parts(%q: tensor<2x4x?x8xbf16>, %k: tensor<2x2x?x8xbf16>, %lse: tensor<2x4x?xf32>,
                              %slopes: tensor<4xbf16>, %offset: index, %cap: f32) {
  %d:5 = attn.attention_backward %q, %k, %k, %q, %lse, %q, %lse
    captures(%slopes : tensor<4xbf16>, %offset : index, %cap : f32) scale(0.5)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %slope = tensor.extract %slopes[%h] : tensor<4xbf16>
      %wide = arith.extf %slope : bf16 to f32
      %sum = arith.addf %s, %wide : f32
      %product = arith.mulf %sum, %cap : f32
      attn.yield %product : f32
    } mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %last = arith.addi %q_idx, %offset : index
      %keep = arith.cmpi sle, %kv_idx, %last : index
      attn.yield %keep : i1
    } gradient(%d: f32, %s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %d_sum = arith.mulf %d, %cap : f32
      attn.accumulate_gradient %d_sum, %slopes[%h] : f32, tensor<4xbf16>
      %always = arith.cmpi eq, %b, %b : index
      scf.if %always {
        %d_cap = arith.mulf %d, %s : f32
        attn.accumulate_gradient %d_cap, %cap[] : f32, f32
      }
      attn.yield %d_sum : f32
    } {tool.note} : (tensor<2x4x?x8xbf16>, tensor<2x2x?x8xbf16>, tensor<2x2x?x8xbf16>, tensor<2x4x?x8xbf16>,
                tensor<2x4x?xf32>, tensor<2x4x?x8xbf16>, tensor<2x4x?xf32>)
    -> (tensor<2x4x?x8xbf16>, tensor<2x2x?x8xbf16>, tensor<2x2x?x8xbf16>, tensor<4xf32>, tensor<f32>)
  return
}

//===----------------------------------------------------------------------===//
// attn.online_attention
//===----------------------------------------------------------------------===//

// CHECK-LABEL: func @online_forward
// CHECK: %out, %lse = attn.online_attention forward %arg0, %arg0, %arg0 schedule(<block_m = 64, block_n = 64>) : (
// CHECK: %{{.*}}, %{{.*}} = attn.online_attention forward %arg0, %arg0, %arg0 captures(%arg1 : index) scale(1.250000e-01) schedule(<block_m = 64, block_n = 64, order = key_outer>)
// CHECK-SAME: mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
// CHECK: } ranges(%b: index, %h: index, %begin: index, %end: index) {
// CHECK: attn.yield_ranges inexact visited(%{{.*}} to %arg1, %begin to %end) masked()
// CHECK: } {tool.note} : (
// CHECK: attn.online_attention forward {{.*}}kv_splits = 3{{.*}} -> (tensor<3x1x8x?x64xf32>, tensor<3x1x8x?xf32>)
// CHECK: attn.online_attention forward {{.*}} captures(%arg1 : index) schedule(<block_m = 64, block_n = 64>) splits(%arg1) score(
// CHECK: } : ({{[^)]*}}) -> (tensor<?x1x8x?x64xf32>, tensor<?x1x8x?xf32>)
func.func @online_forward(%q: tensor<1x8x?x64xf32>, %sink: index, %h: tensor<1x8x?x64xf16>) {
  %out, %lse = attn.online_attention forward %q, %q, %q schedule(<block_m = 64, block_n = 64>)
    : (tensor<1x8x?x64xf32>, tensor<1x8x?x64xf32>, tensor<1x8x?x64xf32>) -> (tensor<1x8x?x64xf32>, tensor<1x8x?xf32>)
  %out_2, %lse_2 = attn.online_attention forward %q, %q, %q captures(%sink : index) scale(0.125)
    schedule(<block_m = 64, block_n = 64, order = key_outer>)
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %keep = arith.cmpi slt, %kv_idx, %sink : index
      attn.yield %keep : i1
    } ranges(%b: index, %h: index, %begin: index, %end: index) {
      %c0 = arith.constant 0 : index
      attn.yield_ranges inexact visited(%c0 to %sink, %begin to %end) masked()
    } {tool.note} : (tensor<1x8x?x64xf32>, tensor<1x8x?x64xf32>, tensor<1x8x?x64xf32>)
    -> (tensor<1x8x?x64xf32>, tensor<1x8x?xf32>)
  %out_3, %lse_3 = attn.online_attention forward %h, %h, %h schedule(<block_m = 64, block_n = 64, kv_splits = 3>)
    : (tensor<1x8x?x64xf16>, tensor<1x8x?x64xf16>, tensor<1x8x?x64xf16>)
    -> (tensor<3x1x8x?x64xf32>, tensor<3x1x8x?xf32>)
  %out_4, %lse_4 = attn.online_attention forward %h, %h, %h captures(%sink : index) schedule(<block_m = 64, block_n = 64>) splits(%sink)
    score(%s: f32, %b: index, %hh: index, %q_idx: index, %kv_idx: index) {
      attn.yield %s : f32
    } : (tensor<1x8x?x64xf16>, tensor<1x8x?x64xf16>, tensor<1x8x?x64xf16>)
    -> (tensor<?x1x8x?x64xf32>, tensor<?x1x8x?xf32>)
  return
}

// CHECK-LABEL: func @online_gradients
// CHECK: %d_query, %d_capture = attn.online_attention dq %arg0, %arg1, %arg1, %arg2, %arg2, %arg0 captures(%arg3 : f32) schedule(
// CHECK-SAME: score(
// CHECK: } gradient(%d: f32, %s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
// CHECK: attn.accumulate_gradient
// CHECK: %d_key, %d_value = attn.online_attention dkdv %arg0, %arg1, %arg1, %arg2, %arg2, %arg0 schedule(<block_m = 5, block_n = 64, vector_length = 16, register_rows = 4, register_vectors = 4>)
func.func @online_gradients(%q: tensor<2x4x?x8xbf16>, %k: tensor<2x2x?x8xbf16>, %lse: tensor<2x4x?xf32>, %x: f32) {
  %d:2 = attn.online_attention dq %q, %k, %k, %lse, %lse, %q captures(%x : f32)
    schedule(<block_m = 64, block_n = 5, vector_length = 16, register_rows = 4, register_vectors = 4>)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %product = arith.mulf %s, %x : f32
      attn.yield %product : f32
    } gradient(%d: f32, %s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %d_x = arith.mulf %d, %s : f32
      attn.accumulate_gradient %d_x, %x[] : f32, f32
      %d_s = arith.mulf %d, %x : f32
      attn.yield %d_s : f32
    } : (tensor<2x4x?x8xbf16>, tensor<2x2x?x8xbf16>, tensor<2x2x?x8xbf16>, tensor<2x4x?xf32>, tensor<2x4x?xf32>,
         tensor<2x4x?x8xbf16>) -> (tensor<2x4x?x8xbf16>, tensor<f32>)
  %e:2 = attn.online_attention dkdv %q, %k, %k, %lse, %lse, %q
    schedule(<block_m = 5, block_n = 64, vector_length = 16, register_rows = 4, register_vectors = 4>)
    : (tensor<2x4x?x8xbf16>, tensor<2x2x?x8xbf16>, tensor<2x2x?x8xbf16>, tensor<2x4x?xf32>, tensor<2x4x?xf32>,
       tensor<2x4x?x8xbf16>) -> (tensor<2x2x?x8xbf16>, tensor<2x2x?x8xbf16>)
  return
}

//===----------------------------------------------------------------------===//
// attn.block_lists
//===----------------------------------------------------------------------===//

// CHECK-LABEL: func @block_lists(
// CHECK: %lists = attn.block_lists %arg0, %arg1 captures(%arg2 : tensor<?xi32>) blocks(128, 64) mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
// CHECK: } ranges(%b: index, %h: index, %begin: index, %end: index) {
// CHECK: attn.yield_ranges visited() masked()
// CHECK: } {note} : (tensor<2x4x?x8xbf16>, tensor<2x2x?x8xbf16>) -> tensor<1x1x?x?x4xi32>
// CHECK: attn.attention %arg0, %arg1, %arg1 captures(%arg2 : tensor<?xi32>) scale(1.000000e+00) block_lists(%lists : tensor<1x1x?x?x4xi32>) blocks(128, 64) mask(
// CHECK: attn.attention_backward %arg0, %arg1, %arg1, %arg0, %lse, %arg0, %lse captures(%arg2 : tensor<?xi32>) block_lists(%lists : tensor<1x1x?x?x4xi32>) blocks(128, 64) mask(
// CHECK: attn.online_attention forward %arg0, %arg1, %arg1 captures(%arg2 : tensor<?xi32>) block_lists(%lists : tensor<1x1x?x?x4xi32>) blocks(128, 64) schedule(<block_m = 32, block_n = 64>) splits(%arg3) mask(
func.func @block_lists(%q: tensor<2x4x?x8xbf16>, %k: tensor<2x2x?x8xbf16>, %ids: tensor<?xi32>, %parts: index) {
  %lists = attn.block_lists %q, %k captures(%ids : tensor<?xi32>) blocks(128, 64)
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %n = attn.kv_len %b
      %keep = arith.cmpi slt, %q_idx, %n : index
      attn.yield %keep : i1
    } ranges(%b: index, %h: index, %begin: index, %end: index) {
      attn.yield_ranges visited() masked()
    } {note} : (tensor<2x4x?x8xbf16>, tensor<2x2x?x8xbf16>) -> tensor<1x1x?x?x4xi32>
  %out, %lse = attn.attention %q, %k, %k captures(%ids : tensor<?xi32>) scale(1.0)
    block_lists(%lists : tensor<1x1x?x?x4xi32>) blocks(128, 64)
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %keep = arith.cmpi slt, %q_idx, %kv_idx : index
      attn.yield %keep : i1
    } : (tensor<2x4x?x8xbf16>, tensor<2x2x?x8xbf16>, tensor<2x2x?x8xbf16>) -> (tensor<2x4x?x8xbf16>, tensor<2x4x?xf32>)
  %d:3 = attn.attention_backward %q, %k, %k, %q, %lse, %q, %lse captures(%ids : tensor<?xi32>)
    block_lists(%lists : tensor<1x1x?x?x4xi32>) blocks(128, 64)
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %keep = arith.cmpi slt, %q_idx, %kv_idx : index
      attn.yield %keep : i1
    } : (tensor<2x4x?x8xbf16>, tensor<2x2x?x8xbf16>, tensor<2x2x?x8xbf16>, tensor<2x4x?x8xbf16>, tensor<2x4x?xf32>,
         tensor<2x4x?x8xbf16>, tensor<2x4x?xf32>) -> (tensor<2x4x?x8xbf16>, tensor<2x2x?x8xbf16>, tensor<2x2x?x8xbf16>)
  %o:2 = attn.online_attention forward %q, %k, %k captures(%ids : tensor<?xi32>)
    block_lists(%lists : tensor<1x1x?x?x4xi32>) blocks(128, 64) schedule(<block_m = 32, block_n = 64>) splits(%parts)
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %keep = arith.cmpi slt, %q_idx, %kv_idx : index
      attn.yield %keep : i1
    } ranges(%b: index, %h: index, %begin: index, %end: index) {
      attn.yield_ranges visited() masked()
    } : (tensor<2x4x?x8xbf16>, tensor<2x2x?x8xbf16>, tensor<2x2x?x8xbf16>) -> (tensor<?x2x4x?x8xf32>, tensor<?x2x4x?xf32>)
  return
}

//===----------------------------------------------------------------------===//
// attn.merge
//===----------------------------------------------------------------------===//

// CHECK-LABEL: func @merge(
// CHECK: %{{.*}}, %{{.*}} = attn.merge (%arg0, %arg1), (%arg0, %arg1) {note} : tensor<1x8x?x64xbf16>, tensor<1x8x?xf32> -> tensor<1x8x?x64xbf16>, tensor<1x8x?xf32>
// CHECK: %{{.*}}, %{{.*}} = attn.merge (%arg2, %arg1), (%arg2, %arg1), (%arg2, %arg1) : tensor<1x8x?x64xf32>, tensor<1x8x?xf32> -> tensor<1x8x?x64xbf16>, tensor<1x8x?xf32>
// CHECK: %{{.*}}, %{{.*}} = attn.merge (%arg3, %arg4) : tensor<?x1x8x?x64xf32>, tensor<?x1x8x?xf32> -> tensor<1x8x3x64xf16>, tensor<1x8x3xf32>
func.func @merge(%out: tensor<1x8x?x64xbf16>, %lse: tensor<1x8x?xf32>, %wide: tensor<1x8x?x64xf32>,
                 %outs: tensor<?x1x8x?x64xf32>, %lses: tensor<?x1x8x?xf32>) {
  %0, %1 = attn.merge (%out, %lse), (%out, %lse) {note} : tensor<1x8x?x64xbf16>, tensor<1x8x?xf32> -> tensor<1x8x?x64xbf16>, tensor<1x8x?xf32>
  %2, %3 = attn.merge (%wide, %lse), (%wide, %lse), (%wide, %lse)
    : tensor<1x8x?x64xf32>, tensor<1x8x?xf32> -> tensor<1x8x?x64xbf16>, tensor<1x8x?xf32>
  %4, %5 = attn.merge (%outs, %lses) : tensor<?x1x8x?x64xf32>, tensor<?x1x8x?xf32> -> tensor<1x8x3x64xf16>, tensor<1x8x3xf32>
  return
}
}
