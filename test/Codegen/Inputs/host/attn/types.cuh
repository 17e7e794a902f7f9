// What emitted scalar code needs of CUDA, on the host: for scalar_semantics.py. Found before the real header.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#define __device__
#define __forceinline__ inline
#define __global__

namespace attn {

using int64 = long long;
using uint32 = unsigned int;
using uint64 = unsigned long long;

struct bf16 {
  unsigned short bits;
  bf16() = default;
  explicit bf16(float value) {
    uint32 word;
    std::memcpy(&word, &value, 4);
    bits = value != value ? (word >> 16) | 0x40 : (word + 0x7fff + (word >> 16 & 1)) >> 16;
  }
  operator float() const {
    uint32 word = uint32(bits) << 16;
    float value;
    std::memcpy(&value, &word, 4);
    return value;
  }
};

struct f16 {
  _Float16 value;
  f16() = default;
  explicit f16(float value) : value(_Float16(value)) {}
  operator float() const { return float(value); }
};

constexpr float kInfinity = __builtin_huge_valf();

template <typename T, int Rank>
struct Tensor {
  T *data;
  int64 strides[Rank];
  int sizes[Rank];
  int size(int dimension) const { return sizes[dimension]; }
  template <typename... Indices>
  T *at(Indices... indices) const {
    const int64 positions[] = {int64(indices)...};
    T *address = data;
    for (int i = 0; i < Rank; ++i)
      address += positions[i] * strides[i];
    return address;
  }
};

template <typename T>
T min(T a, T b) {
  return b < a ? b : a;
}
template <typename T>
T max(T a, T b) {
  return a < b ? b : a;
}

} // namespace attn
