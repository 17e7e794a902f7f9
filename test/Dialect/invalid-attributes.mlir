// RUN: attn-opt %s -split-input-file -verify-diagnostics

// expected-error @+1 {{expected a CPU target to have vector_bits a power of two from 128 to 2048, vector_registers of at least 16 and no max_shared_memory, got 96, 16 and 0 [T1]}}
module attributes {attn.target = #attn.target<arch = x86_64, vector_bits = 96, vector_registers = 16>} {}

// -----

// expected-error @+1 {{got 192, 16 and 0 [T1]}}
module attributes {attn.target = #attn.target<arch = x86_64, vector_bits = 192, vector_registers = 16>} {}

// -----

// expected-error @+1 {{got 4096, 16 and 0 [T1]}}
module attributes {attn.target = #attn.target<arch = x86_64, vector_bits = 4096, vector_registers = 16>} {}

// -----

// expected-error @+1 {{got 256, 8 and 0 [T1]}}
module attributes {attn.target = #attn.target<arch = x86_64_v3, vector_bits = 256, vector_registers = 8>} {}

// -----

// expected-error @+1 {{got 256, 16 and 1024 [T1]}}
module attributes {attn.target = #attn.target<arch = x86_64_v3, vector_bits = 256, vector_registers = 16, max_shared_memory = 1024>} {}

// -----

// expected-error @+1 {{expected a GPU target to have max_shared_memory of at least 1024 and neither vector_bits nor vector_registers, got 0, 0 and 0 [T2]}}
module attributes {attn.target = #attn.target<arch = sm_90a>} {}

// -----

// expected-error @+1 {{got 232448, 128 and 0 [T2]}}
module attributes {attn.target = #attn.target<arch = sm_90a, max_shared_memory = 232448, vector_bits = 128>} {}

// -----

// expected-error @+1 {{got 232448, 0 and 16 [T2]}}
module attributes {attn.target = #attn.target<arch = sm_90a, max_shared_memory = 232448, vector_registers = 16>} {}

// -----

// expected-error @+1 {{expected l1_bytes, l2_bytes and multiprocessors of at least 1, got 0, 524288 and 1 [T3]}}
module attributes {attn.target = #attn.target<arch = x86_64, vector_bits = 128, vector_registers = 16, l1_bytes = 0>} {}

// -----

// expected-error @+1 {{got 32768, -1 and 1 [T3]}}
module attributes {attn.target = #attn.target<arch = x86_64, vector_bits = 128, vector_registers = 16, l2_bytes = -1>} {}

// -----

// expected-error @+1 {{got 32768, 524288 and 0 [T3]}}
module attributes {attn.target = #attn.target<arch = sm_90a, max_shared_memory = 232448, multiprocessors = 0>} {}

// -----

// expected-error @+2 {{expected ::attn::Arch to be one of}}
// expected-error @+1 {{failed to parse Attn_TargetAttr parameter 'arch'}}
module attributes {attn.target = #attn.target<arch = sm_12>} {}

// -----

// expected-error @+1 {{struct is missing required parameter: arch}}
module attributes {attn.target = #attn.target<vector_bits = 128>} {}

// -----

// expected-error @+1 {{unknown attribute 'attn.targets' of the attn dialect, expected 'attn.target'}}
module attributes {attn.targets = 1 : i32} {}

// -----

// expected-error @+1 {{expected 'attn.target' to be an #attn.target, got 1 : i32}}
module attributes {attn.target = 1 : i32} {}

// -----

// expected-error @+1 {{expected 'attn.target' on a module only}}
func.func private @f() attributes {attn.target = #attn.target<arch = sm_90a, max_shared_memory = 232448>}

// -----

// expected-error @+1 {{expected block_m from 1 to 2^31 - 1, got 0 [S1]}}
func.func private @f() attributes {schedule = #attn.schedule<block_m = 0, block_n = 64>}

// -----

// expected-error @+1 {{expected block_n from 1 to 2^31 - 1, got -64 [S1]}}
func.func private @f() attributes {schedule = #attn.schedule<block_m = 64, block_n = -64>}

// -----

// expected-error @+1 {{expected kv_splits from 1 to 2^31 - 1, got 0 [S1]}}
func.func private @f() attributes {schedule = #attn.schedule<block_m = 64, block_n = 64, kv_splits = 0>}

// -----

// expected-error @+1 {{expected vector_length from 1 to 2^31 - 1, got 4294967296 [S1]}}
func.func private @f() attributes {schedule = #attn.schedule<block_m = 64, block_n = 64, vector_length = 4294967296, register_vectors = 4294967296>}

// -----

// expected-error @+1 {{expected register_rows from 1 to 2^31 - 1, got 0 [S1]}}
func.func private @f() attributes {schedule = #attn.schedule<block_m = 64, block_n = 64, register_rows = 0>}

// -----

// expected-error @+1 {{expected register_vectors from 1 to 2^31 - 1, got 0 [S1]}}
func.func private @f() attributes {schedule = #attn.schedule<block_m = 64, block_n = 64, register_vectors = 0>}

// -----

// expected-error @+1 {{expected vector_length and register_rows * register_vectors of at most 256, got 512 and 1 [S4]}}
func.func private @f() attributes {schedule = #attn.schedule<block_m = 512, block_n = 64, vector_length = 512>}

// -----

// expected-error @+1 {{expected vector_length and register_rows * register_vectors of at most 256, got 1 and 4611686014132420609 [S4]}}
func.func private @f() attributes {schedule = #attn.schedule<block_m = 64, block_n = 64, register_rows = 2147483647, register_vectors = 2147483647>}

// -----

// expected-error @+1 {{expected kv_splits = 1 with order = key_outer, got 2 [S3]}}
func.func private @f() attributes {schedule = #attn.schedule<block_m = 64, block_n = 64, order = key_outer, kv_splits = 2>}

// -----

// expected-error @+1 {{struct is missing required parameter: block_n}}
func.func private @f() attributes {schedule = #attn.schedule<block_m = 64>}

// -----

// expected-error @+2 {{expected integer value}}
// expected-error @+1 {{failed to parse Attn_ScheduleAttr parameter 'block_m'}}
func.func private @f() attributes {schedule = #attn.schedule<block_m = wide, block_n = 64>}

// -----

// expected-error @below {{expected warps of at most 32, got 33 [S5]}}
#schedule = #attn.schedule<block_m = 64, block_n = 64, warps = 33>

// -----

// expected-error @below {{expected 8, 12 or 16 warps with family = hopper, got 4 [S5]}}
#schedule = #attn.schedule<block_m = 64, block_n = 64, warps = 4, family = hopper>

// -----

// expected-error @below {{expected key_warps of 1, or of all 4 warps with family = portable, got 2 with portable [S6]}}
#schedule = #attn.schedule<block_m = 16, block_n = 16, warps = 4, key_warps = 2>

// -----

// expected-error @below {{expected key_warps of 1, or of all 8 warps with family = portable, got 8 with hopper [S6]}}
#schedule = #attn.schedule<block_m = 128, block_n = 64, warps = 8, family = hopper, key_warps = 8>

// -----

// expected-error @below {{expected bias_stages from 0 to 2 with family = hopper and 0 without, got 1 with portable [S7]}}
#schedule = #attn.schedule<block_m = 64, block_n = 64, bias_stages = 1>

// -----

// expected-error @below {{expected bias_stages from 0 to 2 with family = hopper and 0 without, got 3 with hopper [S7]}}
#schedule = #attn.schedule<block_m = 128, block_n = 64, warps = 12, family = hopper, bias_stages = 3>

// -----

// expected-error @below {{expected fixed_maximum with family = hopper, got portable [S5]}}
#schedule = #attn.schedule<block_m = 64, block_n = 64, fixed_maximum = true>
