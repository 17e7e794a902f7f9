//===- scalar.cuh - scalar operations with MLIR's meaning -------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What C++ leaves undefined and arith defines (wrap-around), or what must do no harm where its result is not
// wanted: score and mask are evaluated for pairs that do not count, too, so a division by zero, a shift too
// far, a number too large for an integer and a position outside a tensor all give some value. Here and in
// emitted code nothing depends on how the compiler contracts a multiplication and an addition.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attn/types.cuh"

namespace attn {

using int8 = signed char;
using int16 = short;
using uint8 = unsigned char;
using uint16 = unsigned short;

template <typename T>
struct UnsignedOf;
template <>
struct UnsignedOf<int8> {
  using Type = uint8;
  using Wide = uint32; // C++ would multiply two uint8 or uint16 as int
};
template <>
struct UnsignedOf<int16> {
  using Type = uint16;
  using Wide = uint32;
};
template <>
struct UnsignedOf<int> {
  using Type = uint32;
  using Wide = uint32;
};
template <>
struct UnsignedOf<int64> {
  using Type = uint64;
  using Wide = uint64;
};
template <typename T>
using Unsigned = typename UnsignedOf<T>::Type;
template <typename T>
using WideUnsigned = typename UnsignedOf<T>::Wide;

template <typename T>
constexpr int bit_width = 8 * int(sizeof(T));

//===----------------------------------------------------------------------===//
// Integers
//===----------------------------------------------------------------------===//

/// A captured index: saturated, so that a "no limit" stays one.
__device__ __forceinline__ int to_index(int64 value) {
  return value > 2147483647ll ? 2147483647 : value < -2147483647ll ? -2147483647 - 1 : int(value);
}

template <typename T>
__device__ __forceinline__ T wrap_add(T a, T b) {
  return T(WideUnsigned<T>(a) + WideUnsigned<T>(b));
}
template <typename T>
__device__ __forceinline__ T wrap_sub(T a, T b) {
  return T(WideUnsigned<T>(a) - WideUnsigned<T>(b));
}
template <typename T>
__device__ __forceinline__ T wrap_mul(T a, T b) {
  return T(WideUnsigned<T>(a) * WideUnsigned<T>(b));
}
template <typename T>
__device__ __forceinline__ T wrap_abs(T a) {
  return a < 0 ? wrap_sub(T(0), a) : a;
}

/// Toward zero; by 0 it is 0.
template <typename T>
__device__ __forceinline__ T divide(T a, T b) {
  return b == 0 ? T(0) : b == T(-1) ? wrap_sub(T(0), a) : T(a / b);
}
/// a - divide(a, b) * b; by 0 it is a.
template <typename T>
__device__ __forceinline__ T modulo(T a, T b) {
  return b == 0 ? a : b == T(-1) ? T(0) : T(a % b);
}
template <typename T>
__device__ __forceinline__ T divide_unsigned(T a, T b) {
  return b == 0 ? T(0) : T(Unsigned<T>(a) / Unsigned<T>(b));
}
template <typename T>
__device__ __forceinline__ T modulo_unsigned(T a, T b) {
  return b == 0 ? a : T(Unsigned<T>(a) % Unsigned<T>(b));
}
/// Toward negative infinity; by 0 it is 0 or -1.
template <typename T>
__device__ __forceinline__ T floor_divide(T a, T b) {
  const T quotient = divide(a, b);
  return T(quotient - (modulo(a, b) != 0 && (a < 0) != (b < 0)));
}
/// Toward positive infinity; by 0 it is 0 or 1.
template <typename T>
__device__ __forceinline__ T ceil_divide(T a, T b) {
  const T quotient = divide(a, b);
  return T(quotient + (modulo(a, b) != 0 && (a < 0) == (b < 0)));
}
template <typename T>
__device__ __forceinline__ T ceil_divide_unsigned(T a, T b) {
  return T(Unsigned<T>(divide_unsigned(a, b)) + (modulo_unsigned(a, b) != 0));
}

/// A shift by the width or more gives what shifting once more and again would give.
template <typename T>
__device__ __forceinline__ T shift_left(T a, T bits) {
  return Unsigned<T>(bits) < bit_width<T> ? T(WideUnsigned<T>(a) << bits) : T(0);
}
template <typename T>
__device__ __forceinline__ T shift_right(T a, T bits) {
  return T(a >> (Unsigned<T>(bits) < bit_width<T> ? bits : T(bit_width<T> - 1)));
}
template <typename T>
__device__ __forceinline__ T shift_right_unsigned(T a, T bits) {
  return Unsigned<T>(bits) < bit_width<T> ? T(Unsigned<T>(a) >> bits) : T(0);
}

template <typename T>
__device__ __forceinline__ T min_unsigned(T a, T b) {
  return Unsigned<T>(b) < Unsigned<T>(a) ? b : a;
}
template <typename T>
__device__ __forceinline__ T max_unsigned(T a, T b) {
  return Unsigned<T>(a) < Unsigned<T>(b) ? b : a;
}
template <typename T>
__device__ __forceinline__ T min_signed(T a, T b) {
  return b < a ? b : a;
}
template <typename T>
__device__ __forceinline__ T max_signed(T a, T b) {
  return a < b ? b : a;
}

template <typename T>
__device__ __forceinline__ T count_leading_zeros(T a) {
  int count = 0;
#pragma unroll
  for (int bit = bit_width<T> - 1; bit >= 0 && (Unsigned<T>(a) >> bit & 1) == 0; --bit)
    ++count;
  return T(count);
}
template <typename T>
__device__ __forceinline__ T count_trailing_zeros(T a) {
  int count = 0;
#pragma unroll
  for (int bit = 0; bit < bit_width<T> && (Unsigned<T>(a) >> bit & 1) == 0; ++bit)
    ++count;
  return T(count);
}
template <typename T>
__device__ __forceinline__ T count_ones(T a) {
  int count = 0;
#pragma unroll
  for (int bit = 0; bit < bit_width<T>; ++bit)
    count += int(Unsigned<T>(a) >> bit & 1);
  return T(count);
}

/// What numbers from 0 to 2^31 - 1 are divided by, itself one of them and not 0: by a multiplication and a
/// shift (Granlund and Montgomery 1994, theorem 4.2).
class Divisor {
public:
  __device__ __forceinline__ explicit Divisor(int number)
      : shift_(63 - count_leading_zeros(number - 1)),
        multiplier_((uint64(1) << shift_) / uint32(number) + 1) {}

  __device__ __forceinline__ int divide(int dividend) const {
    return int(uint32(dividend) * multiplier_ >> shift_);
  }

private:
  int shift_;         ///< 31, and the bits that number - 1 has.
  uint64 multiplier_; ///< 2^shift_ / number, rounded down, and 1: 2^32 at most.
};

//===----------------------------------------------------------------------===//
// Floats
//===----------------------------------------------------------------------===//

template <typename To, typename From>
__device__ __forceinline__ To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From), "types of different size");
  return __builtin_bit_cast(To, from);
}

template <typename T>
__device__ __forceinline__ bool is_nan(T a) {
  return a != a;
}
template <typename T>
__device__ __forceinline__ bool is_finite(T a) {
  return a - a == 0; // inf - inf is NaN
}
template <typename T>
__device__ __forceinline__ bool is_infinite(T a) {
  return a == a && a - a != 0;
}
/// Neither is a NaN.
template <typename T>
__device__ __forceinline__ bool is_ordered(T a, T b) {
  return a == a && b == b;
}
template <typename T>
__device__ __forceinline__ bool is_less_or_greater(T a, T b) {
  return a < b || a > b;
}

/// The sign bit decides between zeros.
template <typename T>
__device__ __forceinline__ bool is_negative(T a) {
  if constexpr (sizeof(T) == 8)
    return bit_cast<int64>(a) < 0;
  else if constexpr (sizeof(T) == 4)
    return bit_cast<int>(a) < 0;
  else
    return bit_cast<int16>(a) < 0;
}
/// The smaller, -0 below +0; NaN where one is.
template <typename T>
__device__ __forceinline__ T minimum(T a, T b) {
  if (a != a || b != b)
    return a != a ? a : b;
  return a < b || (a == b && is_negative(a)) ? a : b;
}
template <typename T>
__device__ __forceinline__ T maximum(T a, T b) {
  if (a != a || b != b)
    return a != a ? a : b;
  return a > b || (a == b && !is_negative(a)) ? a : b;
}
/// The other number where one is a NaN.
template <typename T>
__device__ __forceinline__ T minimum_number(T a, T b) {
  if (a != a || b != b)
    return a != a ? b : a;
  return a < b || (a == b && is_negative(a)) ? a : b;
}
template <typename T>
__device__ __forceinline__ T maximum_number(T a, T b) {
  if (a != a || b != b)
    return a != a ? b : a;
  return a > b || (a == b && !is_negative(a)) ? a : b;
}

#ifdef __CUDA_ARCH__
// min.f32 and max.f32 are these, and take one instruction.
__device__ __forceinline__ float minimum_number(float a, float b) { return fminf(a, b); }
__device__ __forceinline__ float maximum_number(float a, float b) { return fmaxf(a, b); }
#endif

/// What a float is computed as: its own type, or float for a 16-bit one.
template <typename T>
struct ComputeType {
  using Type = float;
};
template <>
struct ComputeType<double> {
  using Type = double;
};

/// Toward zero, to the nearest number in the range of the integer; 0 for NaN.
template <typename To, typename From>
__device__ __forceinline__ To to_integer(From value) {
  using Float = typename ComputeType<From>::Type;
  constexpr Float kLimit = Float(1ull << (bit_width<To> - 1));
  constexpr To kLargest = To((1ull << (bit_width<To> - 1)) - 1);
  const Float wide = value;
  if (!(wide > -kLimit - 1)) // also where -kLimit - 1 is rounded to -kLimit
    return wide != wide ? To(0) : To(-kLargest - 1);
  return wide < kLimit ? To(wide) : kLargest;
}
template <typename To, typename From>
__device__ __forceinline__ To to_unsigned(From value) {
  using Float = typename ComputeType<From>::Type;
  constexpr Float kLimit = 2 * Float(1ull << (bit_width<To> - 1));
  const Float wide = value;
  if (!(wide > -1))
    return To(0);
  return wide < kLimit ? To(Unsigned<To>(wide)) : To(-1);
}

/// Rounds to bf16 or f16 once. A rounding to float on the way must keep what it drops as a sticky last bit.
template <typename To>
__device__ __forceinline__ To round_to(double value) {
  float nearest = float(value);
  const double error = value - double(nearest);
  if (error != 0 && error == error) { // inexact, and finite
    // Toward zero, then odd.
    const bool isTooLarge = (value < 0) == (error > 0);
    nearest = bit_cast<float>((bit_cast<int>(nearest) - (isTooLarge ? 1 : 0)) | 1);
  }
  return To(nearest);
}

/// The same of a 64-bit integer, signed or not. Where double does not hold it, what is dropped makes the last
/// bit odd.
template <typename To, typename Integer>
__device__ __forceinline__ To round_integer_to(Integer value) {
  constexpr Integer kExact = Integer(1) << 53, kDropped = (Integer(1) << 11) - 1;
  if (value >= kExact || (Integer(-1) < Integer(0) && value <= Integer(0) - kExact))
    value = (value & ~kDropped) | ((value & kDropped) != 0 ? kDropped + 1 : Integer(0));
  return round_to<To>(double(value));
}

template <typename T>
__device__ __forceinline__ T power(T base, int exponent) {
  T result = T(1), factor = base;
  for (uint32 left = exponent < 0 ? 0u - uint32(exponent) : uint32(exponent); left != 0; left >>= 1) {
    if (left & 1)
      result *= factor;
    factor *= factor;
  }
  return exponent < 0 ? T(1) / result : result;
}

//===----------------------------------------------------------------------===//
// Elements of tensors
//===----------------------------------------------------------------------===//

template <typename T, int Rank, typename... Indices>
__device__ __forceinline__ bool contains(const Tensor<T, Rank> &tensor, Indices... indices) {
  static_assert(sizeof...(Indices) == Rank, "an index for each dimension");
  const int positions[] = {indices...};
  bool inside = true;
#pragma unroll
  for (int i = 0; i < Rank; ++i)
    inside &= uint32(positions[i]) < uint32(tensor.sizes[i]);
  return inside;
}

/// What is read of a tensor that is empty.
__device__ const uint64 kNothing = 0;

/// The element at a position; some other one where the position is outside, 0 where there is none. Without a
/// branch: loads of one element are one load, and many are in flight at once.
template <typename T, int Rank, typename Positions>
__device__ __forceinline__ T load_at(const Tensor<T, Rank> &tensor, const Positions &positions) {
  bool is_empty = false;
#pragma unroll
  for (int i = 0; i < Rank; ++i)
    is_empty |= tensor.sizes[i] == 0;
  const T *address = is_empty ? reinterpret_cast<const T *>(&kNothing) : tensor.data;
#pragma unroll
  for (int i = 0; i < Rank; ++i)
    address += min(uint32(positions[i]), uint32(is_empty ? 0 : tensor.sizes[i] - 1)) *
               (i + 1 == Rank ? 1 : tensor.strides[i]);
  return *address;
}
template <typename T, int Rank, typename... Indices>
__device__ __forceinline__ T load(const Tensor<T, Rank> &tensor, Indices... indices) {
  static_assert(sizeof...(Indices) == Rank, "an index for each dimension");
  const int positions[] = {indices...};
  return load_at(tensor, positions);
}

/// Adds to the element at a position, and returns what it was; nothing, and 0, where the position is outside.
template <typename T, int Rank, typename... Indices>
__device__ __forceinline__ T add_to(const Tensor<T, Rank> &tensor, T value, Indices... indices) {
  return contains(tensor, indices...) ? atomicAdd(tensor.at(indices...), value) : T(0);
}

} // namespace attn
