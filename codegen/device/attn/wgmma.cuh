//===- wgmma.cuh - products of warpgroups -----------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A warpgroup multiplies 64 rows by N columns while it goes on (PTX ISA 9.7.15, "Asynchronous warpgroup level
// matrix multiply-accumulate instructions"). The compiler moves other uses of the registers across these
// instructions, unless those before are operands of the statement that has the fence, and each register is
// held after the wait: hold().
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attn/fragment.cuh"
#include "attn/panels.cuh"

namespace attn {

__device__ __forceinline__ void wgmma_commit_group() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits until at most the `Pending` latest groups of this warpgroup are unfinished.
template <int Pending>
__device__ __forceinline__ void wgmma_wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}

/// D += A B (or D = A B, where `accumulates` is false) for `Steps` k steps of 16, 1 or 4, in one statement.
/// All of them have the whole accumulator as operands, and that is what a product takes to compile. Where it
/// `fences`, what other instructions wrote to the registers before is ordered first. d holds the 64 x N
/// accumulator; b is the lower half of a descriptor for the first step, and so is a where A is in shared
/// memory. Steps along columns stay in their panel.
template <int N, int Steps>
struct Wgmma;

// The operands of the instruction: registers 8 g to 8 g + 7 of the accumulator, and their names; the names of
// operands 4 r to 4 r + 3, registers of A.
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
#define ATTN_R3 "{%12, %13, %14, %15}"
#define ATTN_R4 "{%16, %17, %18, %19}"
#define ATTN_R5 "{%20, %21, %22, %23}"
#define ATTN_R6 "{%24, %25, %26, %27}"
#define ATTN_R7 "{%28, %29, %30, %31}"
#define ATTN_R8 "{%32, %33, %34, %35}"
#define ATTN_R9 "{%36, %37, %38, %39}"
#define ATTN_R10 "{%40, %41, %42, %43}"
#define ATTN_R11 "{%44, %45, %46, %47}"
#define ATTN_R12 "{%48, %49, %50, %51}"
#define ATTN_R13 "{%52, %53, %54, %55}"
#define ATTN_R14 "{%56, %57, %58, %59}"
#define ATTN_R15 "{%60, %61, %62, %63}"
#define ATTN_R16 "{%64, %65, %66, %67}"
#define ATTN_R17 "{%68, %69, %70, %71}"
#define ATTN_R18 "{%72, %73, %74, %75}"
#define ATTN_R19 "{%76, %77, %78, %79}"
#define ATTN_R20 "{%80, %81, %82, %83}"
#define ATTN_R21 "{%84, %85, %86, %87}"
#define ATTN_R22 "{%88, %89, %90, %91}"
#define ATTN_R23 "{%92, %93, %94, %95}"
#define ATTN_R24 "{%96, %97, %98, %99}"
#define ATTN_R25 "{%100, %101, %102, %103}"
#define ATTN_R26 "{%104, %105, %106, %107}"
#define ATTN_R27 "{%108, %109, %110, %111}"
#define ATTN_R28 "{%112, %113, %114, %115}"
#define ATTN_R29 "{%116, %117, %118, %119}"
#define ATTN_R30 "{%120, %121, %122, %123}"
#define ATTN_R31 "{%124, %125, %126, %127}"
#define ATTN_R32 "{%128, %129, %130, %131}"
#define ATTN_R33 "{%132, %133, %134, %135}"
#define ATTN_R34 "{%136, %137, %138, %139}"
#define ATTN_R35 "{%140, %141, %142, %143}"
#define ATTN_R36 "{%144, %145, %146, %147}"
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

// A step of N columns, GROUPS of 8 accumulators; STEP is to be added to descriptors, ADDS is a predicate.
#define ATTN_STEP(N, GROUPS, A, B, TYPE, STEP, ADDS, MODIFIERS)                                              \
  "add.u32 t, " B ", " STEP ";\nmov.b64 db, {t, upper};\nwgmma.mma_async.sync.aligned.m64n" #N               \
  "k16.f32." TYPE "." TYPE " {" ATTN_NS##GROUPS "}, " A ", db, " ADDS ", 1, 1, " MODIFIERS ";\n"
#define ATTN_SHARED_STEP(N, GROUPS, A, B, TYPE, STEP, ADDS)                                                  \
  "add.u32 t, " A ", " STEP                                                                                  \
  ";\nmov.b64 da, {t, upper};\n" ATTN_STEP(N, GROUPS, "da", B, TYPE, STEP, ADDS, "0, 0")
// ROWS: "1" where the inner dimension of B is its rows.
#define ATTN_REGISTERS_STEP(N, GROUPS, R, B, TYPE, STEP, ADDS, ROWS)                                         \
  ATTN_STEP(N, GROUPS, ATTN_R##R, B, TYPE, STEP, ADDS, ROWS)
#define ATTN_REGISTERS(STEP) "r"(a[STEP][0]), "r"(a[STEP][1]), "r"(a[STEP][2]), "r"(a[STEP][3])
// STEPS, and the operands of A.
#define ATTN_STATEMENT(GROUPS, ADDS, FENCES, UPPER, STEPS, ...)                                              \
  asm volatile("{\n.reg .pred p;\n.reg .b32 t, upper;\n.reg .b64 da, db;\nsetp.ne.b32 p, " FENCES            \
               ", 0;\n@p wgmma.fence.sync.aligned;\nsetp.ne.b32 p, " ADDS ", 0;\nmov.b32 upper, " UPPER      \
               ";\n" STEPS "}"                                                                               \
               : ATTN_DS##GROUPS                                                                             \
               : "r"(b), "r"(int(accumulates)), "r"(int(fences)), "n"(kUpperDescriptor), __VA_ARGS__         \
               : "memory")
static_assert(PanelTile<bf16, 64, 64>::column_step(1) == 2 && PanelTile<bf16, 64, 64>::row_step(1) == 128,
              "the texts here have these numbers");
// All steps of a statement, 1 or 4: of A in shared memory; in registers, B by its rows (steps of 128) or
// columns.
#define ATTN_SHARED_1(N, GROUPS, A, B, TYPE) ATTN_SHARED_STEP(N, GROUPS, A, B, TYPE, "0", "p")
#define ATTN_SHARED_4(N, GROUPS, A, B, TYPE)                                                                 \
  ATTN_SHARED_1(N, GROUPS, A, B, TYPE)                                                                       \
  ATTN_SHARED_STEP(N, GROUPS, A, B, TYPE, "2", "1")                                                          \
  ATTN_SHARED_STEP(N, GROUPS, A, B, TYPE, "4", "1")                                                          \
  ATTN_SHARED_STEP(N, GROUPS, A, B, TYPE, "6", "1")
#define ATTN_BY_ROWS_1(N, GROUPS, B, TYPE, R0, ...) ATTN_REGISTERS_STEP(N, GROUPS, R0, B, TYPE, "0", "p", "1")
#define ATTN_BY_ROWS_4(N, GROUPS, B, TYPE, R0, R1, R2, R3)                                                   \
  ATTN_REGISTERS_STEP(N, GROUPS, R0, B, TYPE, "0", "p", "1")                                                 \
  ATTN_REGISTERS_STEP(N, GROUPS, R1, B, TYPE, "128", "1", "1")                                               \
  ATTN_REGISTERS_STEP(N, GROUPS, R2, B, TYPE, "256", "1", "1")                                               \
  ATTN_REGISTERS_STEP(N, GROUPS, R3, B, TYPE, "384", "1", "1")
#define ATTN_BY_COLUMNS_1(N, GROUPS, B, TYPE, R0, ...)                                                       \
  ATTN_REGISTERS_STEP(N, GROUPS, R0, B, TYPE, "0", "p", "0")
#define ATTN_BY_COLUMNS_4(N, GROUPS, B, TYPE, R0, R1, R2, R3)                                                \
  ATTN_REGISTERS_STEP(N, GROUPS, R0, B, TYPE, "0", "p", "0")                                                 \
  ATTN_REGISTERS_STEP(N, GROUPS, R1, B, TYPE, "2", "1", "0")                                                 \
  ATTN_REGISTERS_STEP(N, GROUPS, R2, B, TYPE, "4", "1", "0")                                                 \
  ATTN_REGISTERS_STEP(N, GROUPS, R3, B, TYPE, "6", "1", "0")
#define ATTN_REGISTERS_OF_1 ATTN_REGISTERS(0)
#define ATTN_REGISTERS_OF_4 ATTN_REGISTERS(0), ATTN_REGISTERS(1), ATTN_REGISTERS(2), ATTN_REGISTERS(3)
// Both types: which one is part of the instruction's name.
#define ATTN_DEFINE_STEPS(N, STEPS, GROUPS, B, ADDS, FENCES, UPPER, A, ...)                                  \
  template <>                                                                                                \
  struct Wgmma<N, STEPS> {                                                                                   \
    template <typename T>                                                                                    \
    __device__ __forceinline__ static void multiply(float (&d)[N / 8][4], uint32 a, uint32 b,                \
                                                    bool accumulates, bool fences) {                         \
      if constexpr (is_same<T, bf16>)                                                                        \
        ATTN_STATEMENT(GROUPS, ADDS, FENCES, UPPER, ATTN_SHARED_##STEPS(N, GROUPS, A, B, "bf16"), "r"(a));   \
      else                                                                                                   \
        ATTN_STATEMENT(GROUPS, ADDS, FENCES, UPPER, ATTN_SHARED_##STEPS(N, GROUPS, A, B, "f16"), "r"(a));    \
    }                                                                                                        \
    template <typename T, bool BRows>                                                                        \
    __device__ __forceinline__ static void multiply(float (&d)[N / 8][4], const uint32 (*a)[4], uint32 b,    \
                                                    bool accumulates, bool fences) {                         \
      if constexpr (is_same<T, bf16> && BRows)                                                               \
        ATTN_STATEMENT(GROUPS, ADDS, FENCES, UPPER, ATTN_BY_ROWS_##STEPS(N, GROUPS, B, "bf16", __VA_ARGS__), \
                       ATTN_REGISTERS_OF_##STEPS);                                                           \
      else if constexpr (BRows)                                                                              \
        ATTN_STATEMENT(GROUPS, ADDS, FENCES, UPPER, ATTN_BY_ROWS_##STEPS(N, GROUPS, B, "f16", __VA_ARGS__),  \
                       ATTN_REGISTERS_OF_##STEPS);                                                           \
      else if constexpr (is_same<T, bf16>)                                                                   \
        ATTN_STATEMENT(GROUPS, ADDS, FENCES, UPPER,                                                          \
                       ATTN_BY_COLUMNS_##STEPS(N, GROUPS, B, "bf16", __VA_ARGS__),                           \
                       ATTN_REGISTERS_OF_##STEPS);                                                           \
      else                                                                                                   \
        ATTN_STATEMENT(GROUPS, ADDS, FENCES, UPPER,                                                          \
                       ATTN_BY_COLUMNS_##STEPS(N, GROUPS, B, "f16", __VA_ARGS__),                            \
                       ATTN_REGISTERS_OF_##STEPS);                                                           \
    }                                                                                                        \
  }
#define ATTN_DEFINE_WGMMA(N, GROUPS, B, ADDS, FENCES, UPPER, A, R0, R1, R2, R3)                              \
  ATTN_DEFINE_STEPS(N, 1, GROUPS, B, ADDS, FENCES, UPPER, A, R0);                                            \
  ATTN_DEFINE_STEPS(N, 4, GROUPS, B, ADDS, FENCES, UPPER, A, R0, R1, R2, R3)

ATTN_DEFINE_WGMMA(16, 1, "%8", "%9", "%10", "%11", "%12", 3, 4, 5, 6);
ATTN_DEFINE_WGMMA(32, 2, "%16", "%17", "%18", "%19", "%20", 5, 6, 7, 8);
ATTN_DEFINE_WGMMA(48, 3, "%24", "%25", "%26", "%27", "%28", 7, 8, 9, 10);
ATTN_DEFINE_WGMMA(64, 4, "%32", "%33", "%34", "%35", "%36", 9, 10, 11, 12);
ATTN_DEFINE_WGMMA(80, 5, "%40", "%41", "%42", "%43", "%44", 11, 12, 13, 14);
ATTN_DEFINE_WGMMA(96, 6, "%48", "%49", "%50", "%51", "%52", 13, 14, 15, 16);
ATTN_DEFINE_WGMMA(112, 7, "%56", "%57", "%58", "%59", "%60", 15, 16, 17, 18);
ATTN_DEFINE_WGMMA(128, 8, "%64", "%65", "%66", "%67", "%68", 17, 18, 19, 20);
ATTN_DEFINE_WGMMA(144, 9, "%72", "%73", "%74", "%75", "%76", 19, 20, 21, 22);
ATTN_DEFINE_WGMMA(160, 10, "%80", "%81", "%82", "%83", "%84", 21, 22, 23, 24);
ATTN_DEFINE_WGMMA(176, 11, "%88", "%89", "%90", "%91", "%92", 23, 24, 25, 26);
ATTN_DEFINE_WGMMA(192, 12, "%96", "%97", "%98", "%99", "%100", 25, 26, 27, 28);
ATTN_DEFINE_WGMMA(208, 13, "%104", "%105", "%106", "%107", "%108", 27, 28, 29, 30);
ATTN_DEFINE_WGMMA(224, 14, "%112", "%113", "%114", "%115", "%116", 29, 30, 31, 32);
ATTN_DEFINE_WGMMA(240, 15, "%120", "%121", "%122", "%123", "%124", 31, 32, 33, 34);
ATTN_DEFINE_WGMMA(256, 16, "%128", "%129", "%130", "%131", "%132", 33, 34, 35, 36);

#undef ATTN_DEFINE_WGMMA
#undef ATTN_DEFINE_STEPS
#undef ATTN_REGISTERS_OF_1
#undef ATTN_REGISTERS_OF_4
#undef ATTN_BY_COLUMNS_1
#undef ATTN_BY_COLUMNS_4
#undef ATTN_BY_ROWS_1
#undef ATTN_BY_ROWS_4
#undef ATTN_SHARED_1
#undef ATTN_SHARED_4
#undef ATTN_STATEMENT
#undef ATTN_REGISTERS
#undef ATTN_REGISTERS_STEP
#undef ATTN_SHARED_STEP
#undef ATTN_STEP
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
#undef ATTN_R3
#undef ATTN_R4
#undef ATTN_R5
#undef ATTN_R6
#undef ATTN_R7
#undef ATTN_R8
#undef ATTN_R9
#undef ATTN_R10
#undef ATTN_R11
#undef ATTN_R12
#undef ATTN_R13
#undef ATTN_R14
#undef ATTN_R15
#undef ATTN_R16
#undef ATTN_R17
#undef ATTN_R18
#undef ATTN_R19
#undef ATTN_R20
#undef ATTN_R21
#undef ATTN_R22
#undef ATTN_R23
#undef ATTN_R24
#undef ATTN_R25
#undef ATTN_R26
#undef ATTN_R27
#undef ATTN_R28
#undef ATTN_R29
#undef ATTN_R30
#undef ATTN_R31
#undef ATTN_R32
#undef ATTN_R33
#undef ATTN_R34
#undef ATTN_R35
#undef ATTN_R36

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
#pragma unroll
  for (int k = 0; k < K / 64 * 4; k += 4)
    Wgmma<N, 4>::template multiply<T>(acc.data[0], a_first + a.column_step(k),
                                      b_first + b.tile.column_step(k), !Overwrite || k > 0, k == 0);
#pragma unroll
  for (int k = K / 64 * 4; k < K / 16; ++k)
    Wgmma<N, 1>::template multiply<T>(acc.data[0], a_first + a.column_step(k),
                                      b_first + b.tile.column_step(k), !Overwrite || k > 0, k == 0);
}

/// Starts acc += a b^T (Overwrite: acc = a b^T), a in registers.
template <bool Overwrite, typename T, int M, int N, int K, int WarpsM>
__device__ __forceinline__ void mma_async(Fragment<float, M, N, WarpsM, 1> &acc, Operand<T, M, K, WarpsM> &a,
                                          const Transposed<PanelTile<T, N, K>> &b) {
  const uint32 b_first = b.tile.column_descriptor(0);
#pragma unroll
  for (int k = 0; k < K / 64 * 4; k += 4)
    Wgmma<N, 4>::template multiply<T, /*BRows*/ false>(
        acc.data[0], a.data[0] + k, b_first + b.tile.column_step(k), !Overwrite || k > 0, k == 0);
#pragma unroll
  for (int k = K / 64 * 4; k < K / 16; ++k)
    Wgmma<N, 1>::template multiply<T, /*BRows*/ false>(
        acc.data[0], a.data[0] + k, b_first + b.tile.column_step(k), !Overwrite || k > 0, k == 0);
}

/// Starts acc += a b (Overwrite: acc = a b), a in registers.
template <bool Overwrite, typename T, int M, int N, int K, int WarpsM>
__device__ __forceinline__ void mma_async(Fragment<float, M, N, WarpsM, 1> &acc, Operand<T, M, K, WarpsM> &a,
                                          const PanelTile<T, K, N> &b) {
  const uint32 b_first = b.row_descriptor();
#pragma unroll
  for (int k = 0; k < K / 64 * 4; k += 4)
    Wgmma<N, 4>::template multiply<T, /*BRows*/ true>(acc.data[0], a.data[0] + k, b_first + b.row_step(k),
                                                      !Overwrite || k > 0, k == 0);
#pragma unroll
  for (int k = K / 64 * 4; k < K / 16; ++k)
    Wgmma<N, 1>::template multiply<T, /*BRows*/ true>(acc.data[0], a.data[0] + k, b_first + b.row_step(k),
                                                      !Overwrite || k > 0, k == 0);
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
