//===- wgmma.cuh - products of warpgroups -----------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A warpgroup multiplies 64 rows by N columns while it goes on (PTX ISA 9.7.15, "Asynchronous warpgroup level
// matrix multiply-accumulate instructions"). ptxas moves other uses of the accumulators across these
// instructions unless each is held in its register on both sides: hold().
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attn/fragment.cuh"
#include "attn/panels.cuh"

namespace attn {

/// Orders the registers of a product that other instructions wrote before it.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit_group() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits until at most the `Pending` latest groups of this warpgroup are unfinished.
template <int Pending>
__device__ __forceinline__ void wgmma_wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}

/// D += A B (or D = A B, where `accumulates` is false) for one k step of 16: d holds the 64 x N accumulator,
/// a and b are the lower halves of descriptors; b_rows says that B is stored with its inner dimension along
/// the rows.
template <int N>
struct Wgmma;

// The operands of the instruction: registers 8 g to 8 g + 7 of the accumulator, and their names.
#define ATTN_D0                                                                                              \
  "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]), "+f"(d[1][2]),   \
      "+f"(d[1][3])
#define ATTN_D1                                                                                              \
  "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]), "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]),   \
      "+f"(d[3][3])
#define ATTN_D2                                                                                              \
  "+f"(d[4][0]), "+f"(d[4][1]), "+f"(d[4][2]), "+f"(d[4][3]), "+f"(d[5][0]), "+f"(d[5][1]), "+f"(d[5][2]),   \
      "+f"(d[5][3])
#define ATTN_D3                                                                                              \
  "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]), "+f"(d[7][0]), "+f"(d[7][1]), "+f"(d[7][2]),   \
      "+f"(d[7][3])
#define ATTN_D4                                                                                              \
  "+f"(d[8][0]), "+f"(d[8][1]), "+f"(d[8][2]), "+f"(d[8][3]), "+f"(d[9][0]), "+f"(d[9][1]), "+f"(d[9][2]),   \
      "+f"(d[9][3])
#define ATTN_D5                                                                                              \
  "+f"(d[10][0]), "+f"(d[10][1]), "+f"(d[10][2]), "+f"(d[10][3]), "+f"(d[11][0]), "+f"(d[11][1]),            \
      "+f"(d[11][2]), "+f"(d[11][3])
#define ATTN_D6                                                                                              \
  "+f"(d[12][0]), "+f"(d[12][1]), "+f"(d[12][2]), "+f"(d[12][3]), "+f"(d[13][0]), "+f"(d[13][1]),            \
      "+f"(d[13][2]), "+f"(d[13][3])
#define ATTN_D7                                                                                              \
  "+f"(d[14][0]), "+f"(d[14][1]), "+f"(d[14][2]), "+f"(d[14][3]), "+f"(d[15][0]), "+f"(d[15][1]),            \
      "+f"(d[15][2]), "+f"(d[15][3])
#define ATTN_D8                                                                                              \
  "+f"(d[16][0]), "+f"(d[16][1]), "+f"(d[16][2]), "+f"(d[16][3]), "+f"(d[17][0]), "+f"(d[17][1]),            \
      "+f"(d[17][2]), "+f"(d[17][3])
#define ATTN_D9                                                                                              \
  "+f"(d[18][0]), "+f"(d[18][1]), "+f"(d[18][2]), "+f"(d[18][3]), "+f"(d[19][0]), "+f"(d[19][1]),            \
      "+f"(d[19][2]), "+f"(d[19][3])
#define ATTN_D10                                                                                             \
  "+f"(d[20][0]), "+f"(d[20][1]), "+f"(d[20][2]), "+f"(d[20][3]), "+f"(d[21][0]), "+f"(d[21][1]),            \
      "+f"(d[21][2]), "+f"(d[21][3])
#define ATTN_D11                                                                                             \
  "+f"(d[22][0]), "+f"(d[22][1]), "+f"(d[22][2]), "+f"(d[22][3]), "+f"(d[23][0]), "+f"(d[23][1]),            \
      "+f"(d[23][2]), "+f"(d[23][3])
#define ATTN_D12                                                                                             \
  "+f"(d[24][0]), "+f"(d[24][1]), "+f"(d[24][2]), "+f"(d[24][3]), "+f"(d[25][0]), "+f"(d[25][1]),            \
      "+f"(d[25][2]), "+f"(d[25][3])
#define ATTN_D13                                                                                             \
  "+f"(d[26][0]), "+f"(d[26][1]), "+f"(d[26][2]), "+f"(d[26][3]), "+f"(d[27][0]), "+f"(d[27][1]),            \
      "+f"(d[27][2]), "+f"(d[27][3])
#define ATTN_D14                                                                                             \
  "+f"(d[28][0]), "+f"(d[28][1]), "+f"(d[28][2]), "+f"(d[28][3]), "+f"(d[29][0]), "+f"(d[29][1]),            \
      "+f"(d[29][2]), "+f"(d[29][3])
#define ATTN_D15                                                                                             \
  "+f"(d[30][0]), "+f"(d[30][1]), "+f"(d[30][2]), "+f"(d[30][3]), "+f"(d[31][0]), "+f"(d[31][1]),            \
      "+f"(d[31][2]), "+f"(d[31][3])
#define ATTN_N0 "%0, %1, %2, %3, %4, %5, %6, %7"
#define ATTN_N1 "%8, %9, %10, %11, %12, %13, %14, %15"
#define ATTN_N2 "%16, %17, %18, %19, %20, %21, %22, %23"
#define ATTN_N3 "%24, %25, %26, %27, %28, %29, %30, %31"
#define ATTN_N4 "%32, %33, %34, %35, %36, %37, %38, %39"
#define ATTN_N5 "%40, %41, %42, %43, %44, %45, %46, %47"
#define ATTN_N6 "%48, %49, %50, %51, %52, %53, %54, %55"
#define ATTN_N7 "%56, %57, %58, %59, %60, %61, %62, %63"
#define ATTN_N8 "%64, %65, %66, %67, %68, %69, %70, %71"
#define ATTN_N9 "%72, %73, %74, %75, %76, %77, %78, %79"
#define ATTN_N10 "%80, %81, %82, %83, %84, %85, %86, %87"
#define ATTN_N11 "%88, %89, %90, %91, %92, %93, %94, %95"
#define ATTN_N12 "%96, %97, %98, %99, %100, %101, %102, %103"
#define ATTN_N13 "%104, %105, %106, %107, %108, %109, %110, %111"
#define ATTN_N14 "%112, %113, %114, %115, %116, %117, %118, %119"
#define ATTN_N15 "%120, %121, %122, %123, %124, %125, %126, %127"
#define ATTN_DS1 ATTN_D0
#define ATTN_NS1 ATTN_N0
#define ATTN_DS2 ATTN_DS1, ATTN_D1
#define ATTN_NS2 ATTN_NS1 ", " ATTN_N1
#define ATTN_DS3 ATTN_DS2, ATTN_D2
#define ATTN_NS3 ATTN_NS2 ", " ATTN_N2
#define ATTN_DS4 ATTN_DS3, ATTN_D3
#define ATTN_NS4 ATTN_NS3 ", " ATTN_N3
#define ATTN_DS5 ATTN_DS4, ATTN_D4
#define ATTN_NS5 ATTN_NS4 ", " ATTN_N4
#define ATTN_DS6 ATTN_DS5, ATTN_D5
#define ATTN_NS6 ATTN_NS5 ", " ATTN_N5
#define ATTN_DS7 ATTN_DS6, ATTN_D6
#define ATTN_NS7 ATTN_NS6 ", " ATTN_N6
#define ATTN_DS8 ATTN_DS7, ATTN_D7
#define ATTN_NS8 ATTN_NS7 ", " ATTN_N7
#define ATTN_DS9 ATTN_DS8, ATTN_D8
#define ATTN_NS9 ATTN_NS8 ", " ATTN_N8
#define ATTN_DS10 ATTN_DS9, ATTN_D9
#define ATTN_NS10 ATTN_NS9 ", " ATTN_N9
#define ATTN_DS11 ATTN_DS10, ATTN_D10
#define ATTN_NS11 ATTN_NS10 ", " ATTN_N10
#define ATTN_DS12 ATTN_DS11, ATTN_D11
#define ATTN_NS12 ATTN_NS11 ", " ATTN_N11
#define ATTN_DS13 ATTN_DS12, ATTN_D12
#define ATTN_NS13 ATTN_NS12 ", " ATTN_N12
#define ATTN_DS14 ATTN_DS13, ATTN_D13
#define ATTN_NS14 ATTN_NS13 ", " ATTN_N13
#define ATTN_DS15 ATTN_DS14, ATTN_D14
#define ATTN_NS15 ATTN_NS14 ", " ATTN_N14
#define ATTN_DS16 ATTN_DS15, ATTN_D15
#define ATTN_NS16 ATTN_NS15 ", " ATTN_N15

// wgmma of N columns; GROUPS of 8 accumulators, and the names of the operands after them.
#define ATTN_WGMMA(N, GROUPS, TYPE, A, ...)                                                                  \
  "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" ATTN_NS##GROUPS                       \
      "}, " A ", db, p, " __VA_ARGS__ ";\n}"
#define ATTN_DEFINE_WGMMA(N, GROUPS, P0, P1, P2, P3, P4, P5, P6, P7)                                         \
  template <>                                                                                                \
  struct Wgmma<N> {                                                                                          \
    template <typename T, bool BRows>                                                                        \
    __device__ __forceinline__ static void multiply(float (&d)[N / 8][4], uint32 a, uint32 b,                \
                                                    bool accumulates) {                                      \
      if constexpr (is_same<T, bf16>)                                                                        \
        asm volatile(ATTN_DESCRIBED(P0, P1, P2, P4) ATTN_WGMMA(N, GROUPS, "bf16", "da", "1, 1, 0, " P3)      \
                     : ATTN_DS##GROUPS                                                                       \
                     : "r"(a), "r"(b), "r"(int(accumulates)), "n"(int(BRows)), "r"(kUpperDescriptor));       \
      else                                                                                                   \
        asm volatile(ATTN_DESCRIBED(P0, P1, P2, P4) ATTN_WGMMA(N, GROUPS, "f16", "da", "1, 1, 0, " P3)       \
                     : ATTN_DS##GROUPS                                                                       \
                     : "r"(a), "r"(b), "r"(int(accumulates)), "n"(int(BRows)), "r"(kUpperDescriptor));       \
    }                                                                                                        \
    template <typename T, bool BRows>                                                                        \
    __device__ __forceinline__ static void multiply(float (&d)[N / 8][4], const uint32 (&a)[4], uint32 b,    \
                                                    bool accumulates) {                                      \
      if constexpr (is_same<T, bf16>)                                                                        \
        asm volatile(ATTN_DESCRIBED_B(P4, P5, P7)                                                            \
                         ATTN_WGMMA(N, GROUPS, "bf16", "{" P0 ", " P1 ", " P2 ", " P3 "}", "1, 1, " P6)      \
                     : ATTN_DS##GROUPS                                                                       \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "r"(int(accumulates)),            \
                       "n"(int(BRows)), "r"(kUpperDescriptor));                                              \
      else                                                                                                   \
        asm volatile(ATTN_DESCRIBED_B(P4, P5, P7)                                                            \
                         ATTN_WGMMA(N, GROUPS, "f16", "{" P0 ", " P1 ", " P2 ", " P3 "}", "1, 1, " P6)       \
                     : ATTN_DS##GROUPS                                                                       \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "r"(int(accumulates)),            \
                       "n"(int(BRows)), "r"(kUpperDescriptor));                                              \
    }                                                                                                        \
  }
// Descriptors of 64 bits from their halves, and the predicate that says whether D is added to.
#define ATTN_DESCRIBED(A, B, ACCUMULATES, UPPER)                                                             \
  "{\n.reg .pred p;\n.reg .b64 da, db;\nsetp.ne.b32 p, " ACCUMULATES ", 0;\nmov.b64 da, {" A ", " UPPER      \
  "};\nmov.b64 db, {" B ", " UPPER "};\n"
#define ATTN_DESCRIBED_B(B, ACCUMULATES, UPPER)                                                              \
  "{\n.reg .pred p;\n.reg .b64 db;\nsetp.ne.b32 p, " ACCUMULATES ", 0;\nmov.b64 db, {" B ", " UPPER "};\n"

ATTN_DEFINE_WGMMA(16, 1, "%8", "%9", "%10", "%11", "%12", "%13", "%14", "%15");
ATTN_DEFINE_WGMMA(32, 2, "%16", "%17", "%18", "%19", "%20", "%21", "%22", "%23");
ATTN_DEFINE_WGMMA(48, 3, "%24", "%25", "%26", "%27", "%28", "%29", "%30", "%31");
ATTN_DEFINE_WGMMA(64, 4, "%32", "%33", "%34", "%35", "%36", "%37", "%38", "%39");
ATTN_DEFINE_WGMMA(80, 5, "%40", "%41", "%42", "%43", "%44", "%45", "%46", "%47");
ATTN_DEFINE_WGMMA(96, 6, "%48", "%49", "%50", "%51", "%52", "%53", "%54", "%55");
ATTN_DEFINE_WGMMA(112, 7, "%56", "%57", "%58", "%59", "%60", "%61", "%62", "%63");
ATTN_DEFINE_WGMMA(128, 8, "%64", "%65", "%66", "%67", "%68", "%69", "%70", "%71");
ATTN_DEFINE_WGMMA(144, 9, "%72", "%73", "%74", "%75", "%76", "%77", "%78", "%79");
ATTN_DEFINE_WGMMA(160, 10, "%80", "%81", "%82", "%83", "%84", "%85", "%86", "%87");
ATTN_DEFINE_WGMMA(176, 11, "%88", "%89", "%90", "%91", "%92", "%93", "%94", "%95");
ATTN_DEFINE_WGMMA(192, 12, "%96", "%97", "%98", "%99", "%100", "%101", "%102", "%103");
ATTN_DEFINE_WGMMA(208, 13, "%104", "%105", "%106", "%107", "%108", "%109", "%110", "%111");
ATTN_DEFINE_WGMMA(224, 14, "%112", "%113", "%114", "%115", "%116", "%117", "%118", "%119");
ATTN_DEFINE_WGMMA(240, 15, "%120", "%121", "%122", "%123", "%124", "%125", "%126", "%127");
ATTN_DEFINE_WGMMA(256, 16, "%128", "%129", "%130", "%131", "%132", "%133", "%134", "%135");

#undef ATTN_DEFINE_WGMMA
#undef ATTN_WGMMA
#undef ATTN_DESCRIBED
#undef ATTN_DESCRIBED_B
#undef ATTN_D0
#undef ATTN_N0
#undef ATTN_D1
#undef ATTN_N1
#undef ATTN_D2
#undef ATTN_N2
#undef ATTN_D3
#undef ATTN_N3
#undef ATTN_D4
#undef ATTN_N4
#undef ATTN_D5
#undef ATTN_N5
#undef ATTN_D6
#undef ATTN_N6
#undef ATTN_D7
#undef ATTN_N7
#undef ATTN_D8
#undef ATTN_N8
#undef ATTN_D9
#undef ATTN_N9
#undef ATTN_D10
#undef ATTN_N10
#undef ATTN_D11
#undef ATTN_N11
#undef ATTN_D12
#undef ATTN_N12
#undef ATTN_D13
#undef ATTN_N13
#undef ATTN_D14
#undef ATTN_N14
#undef ATTN_D15
#undef ATTN_N15
#undef ATTN_DS1
#undef ATTN_NS1
#undef ATTN_DS2
#undef ATTN_NS2
#undef ATTN_DS3
#undef ATTN_NS3
#undef ATTN_DS4
#undef ATTN_NS4
#undef ATTN_DS5
#undef ATTN_NS5
#undef ATTN_DS6
#undef ATTN_NS6
#undef ATTN_DS7
#undef ATTN_NS7
#undef ATTN_DS8
#undef ATTN_NS8
#undef ATTN_DS9
#undef ATTN_NS9
#undef ATTN_DS10
#undef ATTN_NS10
#undef ATTN_DS11
#undef ATTN_NS11
#undef ATTN_DS12
#undef ATTN_NS12
#undef ATTN_DS13
#undef ATTN_NS13
#undef ATTN_DS14
#undef ATTN_NS14
#undef ATTN_DS15
#undef ATTN_NS15
#undef ATTN_DS16
#undef ATTN_NS16

/// Keeps the compiler from moving uses of the registers across.
template <typename T, int M, int N, int WarpsM>
__device__ __forceinline__ void hold(Fragment<T, M, N, WarpsM, 1> &fragment) {
#pragma unroll
  for (int j = 0; j < fragment.kColumnTiles; ++j)
#pragma unroll
    for (int e = 0; e < 4; ++e)
      asm volatile("" : "+f"(fragment.data[0][j][e])::"memory");
}
template <typename T, int M, int K, int WarpsM>
__device__ __forceinline__ void hold(Operand<T, M, K, WarpsM> &operand) {
#pragma unroll
  for (int k = 0; k < operand.kColumnTiles; ++k)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      asm volatile("" : "+r"(operand.data[0][k][i])::"memory");
}

/// The number of this thread's warpgroup, the same for the compiler in all threads of a warp.
__device__ __forceinline__ int warpgroup_index() {
  return __shfl_sync(0xffffffff, int(threadIdx.x / 128), 0);
}

/// Starts acc += a b^T (Overwrite: acc = a b^T). The warpgroup multiplies its own 64 rows of a.
template <bool Overwrite, typename T, int M, int N, int K, int WarpsM>
__device__ __forceinline__ void mma_async(Fragment<float, M, N, WarpsM, 1> &acc, const PanelTile<T, M, K> &a,
                                          const Transposed<PanelTile<T, N, K>> &b) {
  const uint32 a_first = a.column_descriptor(64 * warpgroup_index()), b_first = b.tile.column_descriptor(0);
  hold(acc);
  wgmma_fence();
#pragma unroll
  for (int k = 0; k < K / 16; ++k)
    Wgmma<N>::template multiply<T, /*BRows*/ false>(acc.data[0], a_first + a.column_step(k),
                                                    b_first + b.tile.column_step(k), !Overwrite || k > 0);
  hold(acc);
}

/// Starts acc += a b (Overwrite: acc = a b), a in registers.
template <bool Overwrite, typename T, int M, int N, int K, int WarpsM>
__device__ __forceinline__ void mma_async(Fragment<float, M, N, WarpsM, 1> &acc, Operand<T, M, K, WarpsM> &a,
                                          const PanelTile<T, K, N> &b) {
  const uint32 b_first = b.row_descriptor();
  hold(acc);
  hold(a);
  wgmma_fence();
#pragma unroll
  for (int k = 0; k < K / 16; ++k)
    Wgmma<N>::template multiply<T, /*BRows*/ true>(acc.data[0], a.data[0][k], b_first + b.row_step(k),
                                                   !Overwrite || k > 0);
  hold(acc);
}

/// Closes a group of products.
__device__ __forceinline__ void mma_commit() { wgmma_commit_group(); }

/// Waits until at most the `Pending` latest groups are unfinished; the fragments may be used from here on.
template <int Pending, typename... Fragments>
__device__ __forceinline__ void mma_wait(Fragments &...fragments) {
  wgmma_wait_group<Pending>();
  (hold(fragments), ...);
}

} // namespace attn
