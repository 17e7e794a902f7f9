// RUN: attn-opt %s --attn-set-target=arch=x86_64_v4 --attn-to-cpu-pipeline | FileCheck %s
// RUN: attn-opt %s --attn-set-target=arch=x86_64_v3 --attn-to-cpu-pipeline | FileCheck %s --check-prefix=V3
// RUN: attn-opt %s --attn-set-target=arch=x86_64_v4 --attn-to-cpu-pipeline="block-m=32 block-n=16" | FileCheck %s --check-prefix=BLOCKS
// RUN: attn-opt %s --attn-set-target=arch=x86_64_v4 --attn-to-cpu-pipeline=key-outer=true | FileCheck %s --check-prefix=OUTER
// RUN: attn-opt %s --attn-set-target=arch=x86_64_v4 --attn-to-cpu-pipeline=kv-splits=2 | FileCheck %s --check-prefix=SPLITS
// RUN: attn-opt %s --attn-set-target=arch=x86_64_v4 --attn-to-cpu-pipeline | mlir-translate --mlir-to-llvmir | FileCheck %s --check-prefix=IR

// The result is plain LLVM: mlir-translate, which knows nothing of attn, takes it.
// IR: call <16 x float> @llvm.fma.v16f32(

!q = tensor<2x4x?x64xbf16>
!k = tensor<2x2x?x64xbf16>
!l = tensor<2x4x?xf32>

// Results are the caller's buffers: nothing is allocated for them.
// CHECK-LABEL: llvm.func @causal(
// CHECK-NOT: @malloc
// CHECK: llvm.call @attn_cpu_parallel_for(
// CHECK-NOT: @malloc

// Work is handed to the thread pool as a function over a range of work items.
// CHECK-LABEL: llvm.func {{.*}}@causal_parallel_0(%{{[^ ]*}}: i64, %{{[^ ]*}}: i64, %{{[^ ]*}}: !llvm.ptr
// CHECK-COUNT-16: llvm.intr.fma({{.*}}) : (vector<16xf32>, vector<16xf32>, vector<16xf32>) -> vector<16xf32>
// Neither exp nor the conversion to bf16 is a call.
// CHECK-NOT: llvm.call @exp
// CHECK-NOT: __truncsfbf2
// CHECK-NOT: llvm.fptrunc {{.*}} to bf16
// CHECK: llvm.return

// V3-LABEL: llvm.func {{.*}}@causal_parallel_0(
// V3-COUNT-8: llvm.intr.fma({{.*}}) : (vector<8xf32>, vector<8xf32>, vector<8xf32>) -> vector<8xf32>
// V3-NOT: vector<16xf32>

// The options reach the plan: the tile of scores has block_n rows of block_m queries.
// BLOCKS-LABEL: llvm.func {{.*}}@causal_parallel_0(
// BLOCKS: %[[SIZE:.*]] = llvm.mlir.constant(512 : index)
// BLOCKS: llvm.alloca %[[SIZE]] x f32

// OUTER-LABEL: llvm.func {{.*}}@causal_parallel_0(
// OUTER-COUNT-3: llvm.call @malloc
// OUTER-COUNT-3: llvm.call @free

// The parts are memory of their own; merging them is a second parallel loop.
// SPLITS-LABEL: llvm.func @causal(
// SPLITS: llvm.call @malloc
// SPLITS: llvm.call @attn_cpu_parallel_for(
// SPLITS: llvm.call @attn_cpu_parallel_for(
// SPLITS: llvm.call @free
func.func @causal(%q: !q, %k: !k) -> (!q, !l) {
  %out, %lse = attn.attention %q, %k, %k mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
    %keep = func.call @is_causal(%q_idx, %kv_idx) : (index, index) -> i1
    attn.yield %keep : i1
  } : (!q, !k, !k) -> (!q, !l)
  return %out, %lse : !q, !l
}

// A mask may be a function: the pipeline inlines it.
func.func private @is_causal(%q_idx: index, %kv_idx: index) -> i1 {
  %keep = arith.cmpi sle, %kv_idx, %q_idx : index
  return %keep : i1
}
