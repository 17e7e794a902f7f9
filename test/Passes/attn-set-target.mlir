// RUN: attn-opt %s --attn-set-target | FileCheck %s --check-prefix=V3
// RUN: attn-opt %s --attn-set-target=arch=x86_64 | FileCheck %s --check-prefix=BASELINE
// RUN: attn-opt %s --attn-set-target=arch=x86-64-v4 | FileCheck %s --check-prefix=V4
// RUN: attn-opt %s --attn-set-target=arch=aarch64 | FileCheck %s --check-prefix=AARCH64
// RUN: attn-opt %s --attn-set-target=arch=sm_80 | FileCheck %s --check-prefix=SM80
// RUN: attn-opt %s --attn-set-target=arch=sm_90a | FileCheck %s --check-prefix=SM90A
// RUN: attn-opt %s --attn-set-target=arch=sm_120a | FileCheck %s --check-prefix=SM120A
// RUN: echo "module {}" | attn-opt --attn-set-target | FileCheck %s --check-prefix=V3
// RUN: not attn-opt %s --attn-set-target=arch=x86-64-v5 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// The module's own target is replaced: the last word counts. Dashes, as compilers write the levels, do too.
module attributes {attn.target = #attn.target<arch = x86_64, vector_bits = 1024, vector_registers = 64>} {}

// V3: attn.target = #attn.target<arch = x86_64_v3, vector_bits = 256, vector_registers = 16, l2_bytes = 1048576>
// BASELINE: attn.target = #attn.target<arch = x86_64, vector_bits = 128, vector_registers = 16,
// V4: attn.target = #attn.target<arch = x86_64_v4, vector_bits = 512, vector_registers = 32,
// AARCH64: attn.target = #attn.target<arch = aarch64, vector_bits = 128, vector_registers = 32,
// SM80: attn.target = #attn.target<arch = sm_80, multiprocessors = 108, max_shared_memory = 166912>
// SM90A: attn.target = #attn.target<arch = sm_90a, multiprocessors = 132, max_shared_memory = 232448>
// SM120A: attn.target = #attn.target<arch = sm_120a, multiprocessors = 170, max_shared_memory = 101376>
// UNKNOWN: error: unknown arch 'x86-64-v5', expected x86_64, x86_64_v3, x86_64_v4, aarch64, sm_80,
