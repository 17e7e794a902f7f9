//===- map.cuh - elementwise functions of fragments -------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attn/fragment.cuh"
#include "attn/scalar.cuh"

namespace attn {

/// The fragment that a map goes over: the first Fragment, or row vectors.
template <typename... Operands>
struct MappedShape;
template <typename T, int M, int N, int WarpsM, int WarpsN, typename... Operands>
struct MappedShape<Fragment<T, M, N, WarpsM, WarpsN>, Operands...> {
  using Type = Fragment<T, M, N, WarpsM, WarpsN>;
  static constexpr bool kHasColumns = true;
};
template <typename T, int M, int WarpsM, int WarpsN, typename Next, typename... Operands>
struct MappedShape<RowVector<T, M, WarpsM, WarpsN>, Next, Operands...> : MappedShape<Next, Operands...> {};
template <typename T, int N, int WarpsN, typename Next, typename... Operands>
struct MappedShape<ColumnVector<T, N, WarpsN>, Next, Operands...> : MappedShape<Next, Operands...> {};
template <typename T, int M, int K, int WarpsM, typename Next, typename... Operands>
struct MappedShape<Operand<T, M, K, WarpsM>, Next, Operands...> : MappedShape<Next, Operands...> {};
template <typename T, int M, int WarpsM, int WarpsN>
struct MappedShape<RowVector<T, M, WarpsM, WarpsN>> {
  using Type = RowVector<T, M, WarpsM, WarpsN>;
  static constexpr bool kHasColumns = false;
};

/// What a map's function gets of an operand: a reference to the element there, or to that of its row or
/// column.
template <typename T, int M, int N, int WarpsM, int WarpsN>
__device__ __forceinline__ T &mapped_element(Fragment<T, M, N, WarpsM, WarpsN> &fragment, int i, int j,
                                             int e) {
  return fragment.data[i][j][e];
}
template <typename T, int M, int WarpsM, int WarpsN>
__device__ __forceinline__ T &mapped_element(RowVector<T, M, WarpsM, WarpsN> &vector, int i, int, int e) {
  return vector.data[i][e / 2];
}
template <typename T, int N, int WarpsN>
__device__ __forceinline__ T &mapped_element(ColumnVector<T, N, WarpsN> &vector, int, int j, int e) {
  return vector.data[j][e % 2];
}
/// Not a reference: two elements share a register.
template <typename T, int M, int K, int WarpsM>
__device__ __forceinline__ T mapped_element(const Operand<T, M, K, WarpsM> &operand, int i, int j, int e) {
  static_assert(sizeof(T) == 2, "elements of 16 bits");
  const uint32 pair = operand.data[i][j / 2][j % 2 * 2 + e / 2];
  return __builtin_bit_cast(T, static_cast<unsigned short>(e % 2 ? pair >> 16 : pair));
}

/// map(function, operands...) calls function(row, column, elements...) for each element that the thread
/// holds, with the elements of all operands there. Those that the function takes by reference it may change.
/// Operands are Fragments of one shape, their RowVectors and ColumnVectors, and Operands of that shape, which
/// it does not change; where all are RowVectors the function has no column. With Relative it gets columns
/// from first_column() on: numbers that are known here.
template <bool Relative = false, typename Function, typename... Operands>
__device__ __forceinline__ void map(Function &&function, Operands &...operands) {
  using Shape = typename MappedShape<Operands...>::Type;
  const uint32 thread = opaque(threadIdx.x);
  const int first_row = Shape::first_row(thread);
#pragma unroll
  for (int i = 0; i < Shape::kRowTiles; ++i) {
    if constexpr (!MappedShape<Operands...>::kHasColumns) {
#pragma unroll
      for (int h = 0; h < 2; ++h)
        function(first_row + Shape::row_offset(i, h), operands.data[i][h]...);
    } else {
      const int first_column = Relative ? 0 : Shape::first_column(thread);
#pragma unroll
      for (int j = 0; j < Shape::kColumnTiles; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          function(first_row + Shape::row_offset(i, e), first_column + Shape::column_offset(j, e),
                   mapped_element(operands, i, j, e)...);
    }
  }
}

/// Where a relative map counts the columns of a fragment from.
template <typename T, int M, int N, int WarpsM, int WarpsN>
__device__ __forceinline__ int first_column(const Fragment<T, M, N, WarpsM, WarpsN> &) {
  return Fragment<T, M, N, WarpsM, WarpsN>::first_column(opaque(threadIdx.x));
}

/// Remembers whether a function was ever true.
template <typename Function>
struct Remembered {
  Function &function;
  bool holds = false;
  template <typename... Arguments>
  __device__ __forceinline__ void operator()(Arguments... arguments) {
    holds |= function(arguments...);
  }
};

/// Whether the function, called as by map, is true for one of the elements that the warp holds.
template <typename Function, typename... Operands>
__device__ __forceinline__ bool any(Function &&function, Operands &...operands) {
  Remembered<Function> remembered{function};
  map(remembered, operands...);
  return __any_sync(0xffffffff, remembered.holds);
}

/// Loads the elements from a position on, one a column. As load() does, it reads some other element where a
/// position is outside. Nearly always all of them are inside, and each is one instruction with a constant
/// offset.
template <typename T, int N, int WarpsN, int Rank, typename... Indices>
__device__ __forceinline__ void load_columns(ColumnVector<T, N, WarpsN> &vector,
                                             const Tensor<const T, Rank> &tensor, Indices... indices) {
  static_assert(sizeof...(Indices) == Rank, "an index for each dimension");
  int positions[] = {indices...};
  const int begin = positions[Rank - 1], first_column = vector.first_column(opaque(threadIdx.x));
  if (contains(tensor, indices...) && tensor.size(Rank - 1) - begin >= N) {
    const T *columns = tensor.at(indices...) + first_column;
#pragma unroll
    for (int j = 0; j < vector.kColumnTiles; ++j)
#pragma unroll
      for (int r = 0; r < 2; ++r)
        vector.data[j][r] = load_global(columns + vector.column_offset(j, r));
  } else {
#pragma unroll
    for (int j = 0; j < vector.kColumnTiles; ++j)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        positions[Rank - 1] = begin + first_column + vector.column_offset(j, r);
        vector.data[j][r] = load_at(tensor, positions);
      }
  }
}

} // namespace attn
