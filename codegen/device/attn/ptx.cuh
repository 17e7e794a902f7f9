//===- ptx.cuh - one function an instruction --------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each function is one PTX instruction, named as in the PTX ISA, with its section. Synchronous instructions
// (ldmatrix, mma) are volatile, so that they stay behind the barrier before them, but carry no memory
// clobber: the compiler may still mix them with arithmetic.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attn/types.cuh"

namespace attn {

/// The 32-bit address of shared memory that the instructions below take.
__device__ __forceinline__ uint32 shared_address(const void *pointer) {
  return uint32(__cvta_generic_to_shared(pointer));
}

/// The same value, of which the compiler knows nothing: keeps cheap arithmetic on it where it is written.
/// Hoisted out of the loop over keys, the addresses of each copy and the positions of each element would hold
/// registers there, and spill.
__device__ __forceinline__ uint32 opaque(uint32 value) {
  asm volatile("" : "+r"(value));
  return value;
}

/// An element of global memory, of 1, 2 or 4 bytes, that nobody writes meanwhile; here and not where it is
/// used. As C++ the loads of both branches of a condition would become loads of selected addresses. PTX
/// ISA 9.7.9.8 (ld).
template <typename T>
__device__ __forceinline__ T load_global(const T *global) {
  static_assert(sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4, "ld.global of 8 to 32 bits");
  if constexpr (sizeof(T) == 4) {
    uint32 bits;
    asm volatile("ld.global.b32 %0, [%1];" : "=r"(bits) : "l"(global));
    return __builtin_bit_cast(T, bits);
  } else if constexpr (sizeof(T) == 2) {
    unsigned short bits;
    asm volatile("ld.global.b16 %0, [%1];" : "=h"(bits) : "l"(global));
    return __builtin_bit_cast(T, bits);
  } else {
    uint32 bits;
    asm volatile("ld.global.u8 %0, [%1];" : "=r"(bits) : "l"(global));
    return __builtin_bit_cast(T, static_cast<unsigned char>(bits));
  }
}

//===----------------------------------------------------------------------===//
// Asynchronous copies, PTX ISA 9.7.9.25.3 (cp.async)
//===----------------------------------------------------------------------===//

/// Copies `valid_bytes` from global memory and zeroes the rest of `Bytes`. With no valid byte nothing is
/// read.
template <int Bytes>
__device__ __forceinline__ void cp_async(uint32 shared, const void *global, int valid_bytes) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16, "cp.async copies 4, 8 or 16 bytes");
  if constexpr (Bytes == 16)
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared), "l"(global),
                 "r"(valid_bytes)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared), "l"(global), "n"(Bytes),
                 "r"(valid_bytes)
                 : "memory");
}

/// Closes the group of this thread's copies issued since the last call.
__device__ __forceinline__ void commit_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }

/// Waits until at most the `Pending` latest groups of this thread are in flight. Other threads' copies are
/// visible only after a barrier that follows.
template <int Pending>
__device__ __forceinline__ void wait_group() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

//===----------------------------------------------------------------------===//
// Matrix loads, PTX ISA 9.7.14.5.15 (ldmatrix)
//===----------------------------------------------------------------------===//

/// Four 8 x 8 matrices of 16-bit elements. Lanes 8i to 8i+7 hold the addresses of the 16-byte rows of matrix
/// i; of each matrix, lane l receives elements (l / 4, 2 (l % 4)) and the next.
__device__ __forceinline__ void ldmatrix_x4(uint32 (&matrices)[4], uint32 shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
               : "r"(shared));
}

/// The same of the transposed matrices: lane l receives elements (2 (l % 4), l / 4) and the one below.
__device__ __forceinline__ void ldmatrix_x4_trans(uint32 (&matrices)[4], uint32 shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
               : "r"(shared));
}

#if __CUDA_ARCH__ >= 900
//===----------------------------------------------------------------------===//
// Kernels that overlap, PTX ISA 9.7.13.14 (griddepcontrol)
//===----------------------------------------------------------------------===//

/// Waits until the kernels launched before are done, and what they wrote can be read.
__device__ __forceinline__ void await_kernels() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

/// Lets the kernel launched next start once all blocks have come here, or ended.
__device__ __forceinline__ void release_kernels() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
#endif

#if __CUDA_ARCH__ >= 900
/// The inverse of ldmatrix_x4, PTX ISA 9.7.14.5.16 (stmatrix).
__device__ __forceinline__ void stmatrix_x4(uint32 shared, const uint32 (&matrices)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared),
               "r"(matrices[0]), "r"(matrices[1]), "r"(matrices[2]), "r"(matrices[3])
               : "memory");
}
#endif

//===----------------------------------------------------------------------===//
// Matrix products, PTX ISA 9.7.14.5.8 (mma.m16n8k16) and 9.7.14.5.7 (mma.m16n8k8)
//===----------------------------------------------------------------------===//

/// d += a b for one 16 x 8 x 16 product of bf16 or f16. With g = lane / 4 and t = lane % 4:
///   a[0], a[1]  rows g, g + 8, columns 2t, 2t + 1;   a[2], a[3]  the same rows, columns 2t + 8, 2t + 9
///   b0, b1      column g, rows 2t, 2t + 1 and 2t + 8, 2t + 9
///   d[0], d[1]  row g, columns 2t, 2t + 1;           d[2], d[3]  row g + 8
template <typename T>
__device__ __forceinline__ void mma_m16n8k16(float (&d)[4], const uint32 (&a)[4], uint32 b0, uint32 b1) {
  if constexpr (is_same<T, bf16>)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

/// 2^x with a relative error of 2^-22; 0 for -inf. PTX ISA 9.7.3.21 (ex2).
__device__ __forceinline__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// log2(x) with an absolute error of 2^-22 near 1; -inf for 0. PTX ISA 9.7.3.20 (lg2).
__device__ __forceinline__ float log2_approx(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// a / b with an error of 2 units in the last place. PTX ISA 9.7.3.8 (div.full).
__device__ __forceinline__ float divide_approx(float a, float b) {
  float y;
  asm("div.full.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}

/// tanh(x) with a relative error of 2^-11. PTX ISA 9.7.3.22 (tanh).
__device__ __forceinline__ float tanh_approx(float x) {
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

//===----------------------------------------------------------------------===//
// Reductions in global memory, PTX ISA 9.7.13.16 (red)
//===----------------------------------------------------------------------===//

__device__ __forceinline__ void red_add(float *global, float value) {
  asm volatile("red.global.add.f32 [%0], %1;" ::"l"(global), "f"(value) : "memory");
}

/// Adds to two neighbours, 8-byte aligned. One instruction from sm_90 on.
__device__ __forceinline__ void red_add(float *global, float value0, float value1) {
#if __CUDA_ARCH__ >= 900
  asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" ::"l"(global), "f"(value0), "f"(value1) : "memory");
#else
  red_add(global, value0);
  red_add(global + 1, value1);
#endif
}

/// Adds to four neighbours, 16-byte aligned. One instruction from sm_90 on.
__device__ __forceinline__ void red_add(float *global, float value0, float value1, float value2,
                                        float value3) {
#if __CUDA_ARCH__ >= 900
  asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(global), "f"(value0), "f"(value1),
               "f"(value2), "f"(value3)
               : "memory");
#else
  red_add(global, value0, value1);
  red_add(global + 2, value2, value3);
#endif
}

} // namespace attn
