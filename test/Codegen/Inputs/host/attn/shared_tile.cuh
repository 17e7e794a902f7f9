// What fragments and maps need of the device, on the host: for map_columns.py. Found before the real header.
#pragma once

#include "attn/scalar.cuh"

struct float2 {
  float x, y;
};
inline float2 make_float2(float x, float y) { return {x, y}; }

/// The thread whose elements a function is called for.
struct Thread {
  unsigned x;
};
inline Thread threadIdx;

template <typename T>
T __shfl_xor_sync(unsigned, T value, int) {
  return value;
}
inline bool __any_sync(unsigned, bool value) { return value; }

namespace attn {

template <typename A, typename B>
inline constexpr bool is_same = false;
template <typename A>
inline constexpr bool is_same<A, A> = true;

inline uint32 opaque(uint32 value) { return value; }

template <typename T, int Rows, int Columns>
struct SharedTile;

template <typename T>
T load_global(const T *global) {
  return *global;
}

} // namespace attn
