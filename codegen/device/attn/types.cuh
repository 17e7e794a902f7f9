//===- types.cuh - element types and tensor parameters ----------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// NVRTC compiles these headers without an include path, so nothing here comes from a system or CUDA header.
//
//===----------------------------------------------------------------------===//
#pragma once

namespace attn {

using int64 = long long;
using uint32 = unsigned int;
using uint64 = unsigned long long;

/// 16-bit float with the range of f32. Arithmetic is done in float.
struct alignas(2) bf16 {
  unsigned short bits;
  bf16() = default;
  __device__ __forceinline__ explicit bf16(float value) {
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  }
  __device__ __forceinline__ operator float() const { return __uint_as_float(uint32(bits) << 16); }
};

/// IEEE binary16. Arithmetic is done in float.
struct alignas(2) f16 {
  unsigned short bits;
  f16() = default;
  __device__ __forceinline__ explicit f16(float value) {
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  }
  __device__ __forceinline__ operator float() const {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
  }
};

constexpr float kInfinity = __builtin_bit_cast(float, 0x7f800000);
constexpr float kLog2e = 1.44269504f;

template <typename A, typename B>
inline constexpr bool is_same = false;
template <typename A>
inline constexpr bool is_same<A, A> = true;

/// A strided tensor in global memory, passed to kernels by value. Strides count elements; the last one is 1.
/// Sizes fit 32 bits, offsets need 64.
template <typename T, int Rank>
struct Tensor {
  T *data;
  int64 strides[Rank];
  int sizes[Rank];

  __device__ __forceinline__ int64 stride(int dimension) const { return strides[dimension]; }
  __device__ __forceinline__ int size(int dimension) const { return sizes[dimension]; }

  /// The address of element (indices...); dimensions left out at the end are 0.
  template <typename... Indices>
  __device__ __forceinline__ T *at(Indices... indices) const {
    static_assert(sizeof...(Indices) <= Rank, "more indices than dimensions");
    const int64 positions[] = {int64(indices)..., 0};
    T *address = data;
#pragma unroll
    for (int i = 0; i < int(sizeof...(Indices)); ++i)
      address += positions[i] * strides[i];
    return address;
  }
};

/// The rows of `group` heads, interleaved, in place of a stride: row r of a tile is row (first + r) / group
/// of head (first + r) % group.
struct PackedRows {
  int group, first;
  int64 head_stride, row_stride;
};
/// How far a row of a tile lies from the first row of the first head.
__device__ __forceinline__ int64 operator*(int row, const PackedRows &rows) {
  const int number = rows.first + row;
  return number % rows.group * rows.head_stride + number / rows.group * rows.row_stride;
}

/// Two numbers rounded to T (bf16 or f16) in one register, `low` in the lower half.
template <typename T>
__device__ __forceinline__ uint32 pack(float low, float high) {
  uint32 packed;
  if constexpr (is_same<T, bf16>)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

} // namespace attn
