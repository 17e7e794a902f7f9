// What a user gets wrong is one line that names it, and exit code 1.
//
// RUN: rm -rf %t && mkdir %t
// RUN: %python %S/Inputs/make_npy.py %t

// A file that is missing, is no MLIR, or has nothing to run.
// RUN: not attn-run %t/missing.mlir 2>&1 | FileCheck %s --check-prefix=MISSING --match-full-lines
// MISSING: attn-run: {{.*}}missing.mlir: No such file or directory
// MISSING-NOT: {{.}}
// RUN: not attn-run %t/broken.mlir 2>&1 | FileCheck %s --check-prefix=BROKEN --match-full-lines
// BROKEN: attn-run: {{.*}}broken.mlir:2:{{[0-9]+}}: {{.+}}
// BROKEN-NOT: {{.}}
// RUN: not attn-run %t/invalid.mlir 2>&1 | FileCheck %s --check-prefix=INVALID --match-full-lines
// INVALID: attn-run: {{.*}}invalid.mlir:2:{{[0-9]+}}: 'attn.attention' op {{.+}}
// INVALID-NOT: {{.}}
// RUN: not attn-run %t/empty.mlir 2>&1 | FileCheck %s --check-prefix=EMPTY --match-full-lines
// EMPTY: attn-run: {{.*}}empty.mlir: no public function holds an attention op: nothing to run
// RUN: not attn-run 2>&1 | FileCheck %s --check-prefix=NOFILE --match-full-lines
// NOFILE: attn-run: expected a file; attn-run --help shows how

// Functions.
// RUN: not attn-run %s --entry=nobody 2>&1 | FileCheck %s --check-prefix=ENTRY --match-full-lines
// ENTRY: attn-run: {{.*}}: unknown entry @nobody: expected one of @one, @two
// RUN: not attn-run %s 2>&1 | FileCheck %s --check-prefix=CHOOSE --match-full-lines
// CHOOSE: attn-run: {{.*}}: 2 functions hold an attention op (@one, @two): choose one with --entry

// Input files: shape, type, number, content.
// RUN: not attn-run %s --entry=one --input %t/q.npy --input %t/wrong_head_dim.npy 2>&1 | FileCheck %s --check-prefix=SHAPE --match-full-lines
// SHAPE: attn-run: dimension 3 of %k: {{.*}}wrong_head_dim.npy gives 32, but its type tensor<?x2x?x16xf32> gives 16
// RUN: not attn-run %s --entry=one --input %t/q.npy --input %t/other_batch.npy 2>&1 | FileCheck %s --check-prefix=BATCH --match-full-lines
// BATCH: attn-run: dimension 0 of %k (batch): {{.*}}other_batch.npy gives 3, but {{.*}}q.npy gives 1
// RUN: not attn-run %s --entry=one --input %t/rank3.npy 2>&1 | FileCheck %s --check-prefix=RANK --match-full-lines
// RANK: attn-run: %q: {{.*}}rank3.npy has 3 dimensions, expected 4 (tensor<?x4x?x16xf32>)
// RUN: not attn-run %s --entry=one --input %t/q_f64.npy 2>&1 | FileCheck %s --check-prefix=TYPE --match-full-lines
// TYPE: attn-run: %q: {{.*}}q_f64.npy holds f64, expected f32 (--cast-inputs converts)
// RUN: attn-run %s --entry=one --input %t/q_f64.npy --cast-inputs --check
// RUN: not attn-run %s --entry=one --input %t/missing.npy 2>&1 | FileCheck %s --check-prefix=NONPY --match-full-lines
// NONPY: attn-run: %q: {{.*}}missing.npy{{.*}}
// RUN: not attn-run %s --entry=one --input %t/truncated.npy 2>&1 | FileCheck %s --check-prefix=TRUNCATED --match-full-lines
// TRUNCATED: attn-run: %q: {{.*}}truncated.npy{{.*}}
// RUN: not attn-run %s --entry=one --input %s 2>&1 | FileCheck %s --check-prefix=NOTNPY --match-full-lines
// NOTNPY: attn-run: %q: {{.*}}attn-run-errors.mlir{{.*}}
// RUN: not attn-run %s --entry=one --input - --input - --input - --input - 2>&1 | FileCheck %s --check-prefix=MANY --match-full-lines
// MANY: attn-run: --input: got 4 files for the 3 arguments of @one (q, k, v)
// RUN: not attn-run %s --entry=one --input q=%t/q.npy --input q=%t/q.npy 2>&1 | FileCheck %s --check-prefix=TWICE --match-full-lines
// TWICE: attn-run: --input: %q is given twice: {{.*}}q.npy and {{.*}}q.npy
// RUN: not attn-run %s --entry=two --input window=1.5 2>&1 | FileCheck %s --check-prefix=WHOLE --match-full-lines
// WHOLE: attn-run: %window: expected a whole number (index), got '1.5'
// "No limit" stays the largest integer, and does not become the least.
// RUN: attn-run %s --entry=two --shape table=512 --input window=9223372036854775807 --output %t/all.npy
// RUN: attn-run %s --entry=two --shape table=512 --input window=256 --output %t/limit.npy
// RUN: cmp %t/all.npy %t/limit.npy
// RUN: %python -c "import sys, struct; open(sys.argv[1], 'wb').write(b'\x93NUMPY\x01\x00' + struct.pack('<H', 118) + b\"{'descr': '<i8', 'fortran_order': False, 'shape': ()}\".ljust(117) + b'\n' + struct.pack('<q', 2**63 - 1))" %t/window.npy
// RUN: attn-run %s --entry=two --shape table=512 --input window=%t/window.npy --output %t/file.npy
// RUN: cmp %t/all.npy %t/file.npy
// RUN: not attn-run %s --entry=two --input window=9223372036854775808 2>&1 | FileCheck %s --check-prefix=FITS --match-full-lines
// FITS: attn-run: %window: expected a number that fits index, got '9223372036854775808'

// Sizes.
// RUN: not attn-run %s --entry=one --q-heads=6 2>&1 | FileCheck %s --check-prefix=STATIC --match-full-lines
// STATIC: attn-run: dimension 1 of %q (q-heads): --q-heads gives 6, but its type tensor<?x4x?x16xf32> gives 4
// RUN: not attn-run %s --entry=one --q-len=-1 2>&1 | FileCheck %s --check-prefix=NEGATIVE --match-full-lines
// NEGATIVE: attn-run: dimension 2 of %q (q-len): expected a size of at least 0, got -1
// RUN: not attn-run %s --entry=one --q-len=4000000000000 2>&1 | FileCheck %s --check-prefix=HUGE --match-full-lines
// HUGE: attn-run: {{.*}}more than this machine could hold
// RUN: not attn-run %s --entry=one --q-len=1000000000 2>&1 | FileCheck %s --check-prefix=MEMORY --match-full-lines
// MEMORY: attn-run: the inputs take {{.*}} GB, more than the {{.*}} GB of memory of this machine
// RUN: not attn-run %s --entry=two 2>&1 | FileCheck %s --check-prefix=OPEN --match-full-lines
// OPEN: attn-run: dimension 0 of %table is dynamic and follows from nothing: give it with --shape table=… or --input
// RUN: not attn-run %s --entry=two --shape table=7x7 2>&1 | FileCheck %s --check-prefix=SHAPERANK --match-full-lines
// SHAPERANK: attn-run: %table: --shape has 2 dimensions, expected 1 (tensor<?xf32>)
// RUN: not attn-run %s --entry=two --shape tabel=7 2>&1 | FileCheck %s --check-prefix=NOARG --match-full-lines
// NOARG: attn-run: --shape: unknown argument 'tabel', expected one of q, k, v, table, window
// RUN: not attn-run %s --entry=two --shape table=x 2>&1 | FileCheck %s --check-prefix=SHAPETEXT --match-full-lines
// SHAPETEXT: attn-run: --shape: expected sizes like 2x16x?, got 'x'
// RUN: not attn-run %s --entry=two --shape table=512 --fill table=gauss 2>&1 | FileCheck %s --check-prefix=FILL --match-full-lines
// FILL: attn-run: --fill: expected normal, uniform:LO:HI, constant:X, range, sorted:LO:HI or slopes, got 'gauss'
// RUN: not attn-run %s --entry=two --shape table=512 --fill window=normal 2>&1 | FileCheck %s --check-prefix=FILLINT --match-full-lines
// FILLINT: attn-run: --fill: %window has integers (index), which have no normal distribution

// Options.
// RUN: not attn-run %s --entry=one --target=pentium 2>&1 | FileCheck %s --check-prefix=TARGET
// TARGET: attn-run: --target: {{.*}}pentium
// RUN: not attn-run %s --entry=one --target=sm_90a 2>&1 | FileCheck %s --check-prefix=GPU
// GPU: attn-run: {{.*}}sm_90a
// RUN: not attn-run %s --entry=one --block-m=7 2>&1 | FileCheck %s --check-prefix=BLOCK
// BLOCK: attn-run: {{.*}}block_m{{.*}}multiple of{{.*}}got 7
// RUN: not attn-run %s --entry=one --block-m=0 2>&1 | FileCheck %s --check-prefix=BLOCK0 --match-full-lines
// BLOCK0: attn-run: --block-m: expected at least 1, got 0
// RUN: not attn-run %s --entry=one --block-m=64 --lowering=reference 2>&1 | FileCheck %s --check-prefix=REFBLOCK --match-full-lines
// REFBLOCK: attn-run: --block-m: the reference lowering has no schedule
// RUN: not attn-run %s --entry=one --repeat=-3 2>&1 | FileCheck %s --check-prefix=REPEAT --match-full-lines
// REPEAT: attn-run: --repeat: expected at least 0, got -3
// RUN: not attn-run %s --entry=one --order=sideways 2>&1 | FileCheck %s --check-prefix=ORDER --match-full-lines
// ORDER: attn-run: --order: expected query-outer or key-outer, got 'sideways'
// RUN: not attn-run %s --entry=one --input nope=%t/q.npy 2>&1 | FileCheck %s --check-prefix=NOARGUMENT --match-full-lines
// NOARGUMENT: attn-run: --input: unknown argument 'nope', expected one of q, k, v
// RUN: not attn-run %s --entry=one --input= 2>&1 | FileCheck %s --check-prefix=NOINPUT --match-full-lines
// NOINPUT: attn-run: --input: expected a file or a number, got ''
// RUN: not attn-run %s --entry=one --input k= 2>&1 | FileCheck %s --check-prefix=NOINPUTOF --match-full-lines
// NOINPUTOF: attn-run: --input: expected a file or a number, got 'k='
// RUN: not attn-run %s --entry=one --output= 2>&1 | FileCheck %s --check-prefix=NOOUTPUT
// NOOUTPUT: attn-run: --output: expected a file, got ''
// RUN: not attn-run %s --entry=one --mask-block=8 2>&1 | FileCheck %s --check-prefix=NOMASK --match-full-lines
// NOMASK: attn-run: --mask-block: is about --print-mask, which is not given
// RUN: not attn-run %s --entry=one --mask-head=1 2>&1 | FileCheck %s --check-prefix=NOMASKHEAD --match-full-lines
// NOMASKHEAD: attn-run: --mask-head: is about --print-mask, which is not given
// RUN: not attn-run %s --entry=one --print-mask --mask-block=0 2>&1 | FileCheck %s --check-prefix=MASKBLOCK --match-full-lines
// MASKBLOCK: attn-run: --mask-block: expected at least 1, got 0

// What cannot be compiled is said before inputs are listed.
// RUN: not attn-run %s --entry=one --block-m=7 2>&1 | FileCheck %s --check-prefix=FIRST
// RUN: not attn-run %s --entry=one --block-m=7 --explain 2>&1 | FileCheck %s --check-prefix=FIRST
// RUN: not attn-run %s --entry=one --target=pentium 2>&1 | FileCheck %s --check-prefix=FIRST
// FIRST-NOT: input %q

// Who reads the output may stop reading it; what cannot be written is an error.
// RUN: %python -c "import signal, subprocess, sys; signal.signal(signal.SIGPIPE, signal.SIG_IGN); p = subprocess.Popen(['attn-run', sys.argv[1], '--entry=one'], stdout=subprocess.PIPE, stderr=subprocess.PIPE, restore_signals=False); p.stdout.close(); assert p.stderr.read() == b''" %s
// RUN: not attn-run %s --entry=one 2>&1 >/dev/full | FileCheck %s --check-prefix=DISK
// DISK: attn-run: cannot write the output: No space left on device

// RUN: not attn-run %s --entry=one --print-mask --mask-head=4 2>&1 | FileCheck %s --check-prefix=MASKHEAD
// MASKHEAD: attn-run: --mask-head: expected a number from 0 to 3, got 4
// RUN: not attn-run %s --entry=two --shape table=1 --print-mask --q-len=100000000 2>&1 | FileCheck %s --check-prefix=PAIRS
// PAIRS: attn-run: --print-mask: expected at most 4.4e+12 pairs, since the mask is evaluated at each, got 1e+16
// RUN: not attn-run %s --entry=one --print-mask=%t/missing/mask.svg 2>&1 | FileCheck %s --check-prefix=SVG
// SVG: attn-run: --print-mask: {{.*}}missing/mask.svg: No such file or directory
// RUN: not attn-run %s --entry=one --output %t/missing/o.npy 2>&1 | FileCheck %s --check-prefix=OUTPUT
// OUTPUT: attn-run: {{.*}}missing/o.npy{{.*}}
// RUN: not attn-run %s --entry=one --output a.npy --output b.npy 2>&1 | FileCheck %s --check-prefix=OUTPUTS
// OUTPUTS: attn-run: --output: got 2 files for the 1 results of @one

// What the verifier accepts and no lowering does, and what has no derivative.
// RUN: not attn-run %t/f8.mlir 2>&1 | FileCheck %s --check-prefix=F8
// F8: attn-run: {{.*}}f8.mlir:3:{{[0-9]+}}: 'attn.attention' op f8E4M3FN tensors are not lowered yet
// RUN: not attn-run %t/f80.mlir 2>&1 | FileCheck %s --check-prefix=F80
// F80: 'attn.attention' op has 'arith.extf' of 'f80' in its regions, which no lowering computes in; use f16, bf16, f32 or f64
// RUN: not attn-run %t/powers.mlir 2>&1 | FileCheck %s --check-prefix=IPOWI
// IPOWI: 'attn.attention' op has 'math.ipowi' in its regions, which no lowering has a form of; multiply, or use math.fpowi
// RUN: not attn-run %t/two_ops.mlir --backward 2>&1 | FileCheck %s --check-prefix=TWOOPS
// TWOOPS: attn-run: {{.*}}two_ops.mlir:{{.*}}

func.func @one(%q: tensor<?x4x?x16xf32>, %k: tensor<?x2x?x16xf32>, %v: tensor<?x2x?x16xf32>) -> tensor<?x4x?x16xf32> {
  %out, %lse = attn.attention %q, %k, %v
    : (tensor<?x4x?x16xf32>, tensor<?x2x?x16xf32>, tensor<?x2x?x16xf32>) -> (tensor<?x4x?x16xf32>, tensor<?x4x?xf32>)
  return %out : tensor<?x4x?x16xf32>
}

// A bias looked up by distance: how long the table has to be is nothing that the tool could know.
func.func @two(%q: tensor<?x4x?x16xf32>, %k: tensor<?x2x?x16xf32>, %v: tensor<?x2x?x16xf32>, %table: tensor<?xf32>,
               %window: index) -> tensor<?x4x?x16xf32> {
  %out, %lse = attn.attention %q, %k, %v captures(%table : tensor<?xf32>, %window : index)
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %sum = arith.addi %q_idx, %kv_idx : index
      %bias = tensor.extract %table[%sum] : tensor<?xf32>
      %biased = arith.addf %s, %bias : f32
      attn.yield %biased : f32
    } mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %keep = arith.cmpi slt, %kv_idx, %window : index
      attn.yield %keep : i1
    } : (tensor<?x4x?x16xf32>, tensor<?x2x?x16xf32>, tensor<?x2x?x16xf32>) -> (tensor<?x4x?x16xf32>, tensor<?x4x?xf32>)
  return %out : tensor<?x4x?x16xf32>
}
