# RUN: %python %s %root %t

"""Executes what maps compute of columns on the host, for every thread: load_columns() for positions in and out of
bounds, and masks as --attn-tile-relative-columns leaves them beside those that compute each position."""

import pathlib
import re
import subprocess
import sys

root, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
out.mkdir(parents=True, exist_ok=True)

COMPARISONS = {
    "causal": "%keep = arith.cmpi sle, %k, %q : i32",
    "query_first": "%keep = arith.cmpi sgt, %q, %k : i32",
    # Used twice at each of many levels: looked at once each.
    "deep": "%x0 = arith.addi %q, %q : i32\n"
    + "".join(f"        %x{i + 1} = arith.ori %x{i}, %x{i} : i32\n" for i in range(40))
    + "        %keep = arith.cmpi sle, %k, %x40 : i32",
    "below": "%keep = arith.cmpi slt, %kv_idx, %limit : index",
    "not_below": "%keep = arith.cmpi sle, %limit, %kv_idx : index",
    **{
        f"{name}_{predicate}_{'m' * (number < 0)}{abs(number)}": f"""%distance = arith.subi {operands} : i32
        %number = arith.constant {number} : i32
        %keep = arith.cmpi {predicate}, {compared} : i32"""
        for name, operands in (("behind", "%q, %k"), ("ahead", "%k, %q"))
        for predicate, compared in (("slt", "%distance, %number"), ("sge", "%distance, %number"), ("sle", "%number, %distance"))
        for number in (0, 1, 100, -1, -100, 700 if name == "ahead" else 2**31 - 1)
    },
}


def kernel(name, comparison):
    return f"""
  gpu.func @{name}(%q_begin: index, %kv_begin: index, %limit: index) kernel attributes {{attn_tile.kernel = #attn_tile.kernel<warps = 12>}} {{
    %none = arith.constant 0.0 : f32
    attn_tile.warp_specialize consumers(2) registers(232) {{
      %scores = attn_tile.fragment_alloc "scores" : !scores
      attn_tile.map outs(%scores : !scores) {{
      ^bb0(%row: index, %column: index, %s: f32):
        %q_idx = arith.addi %q_begin, %row overflow<nsw> : index
        %kv_idx = arith.addi %kv_begin, %column overflow<nsw> : index
        %q = arith.index_cast %q_idx : index to i32
        %k = arith.index_cast %kv_idx : index to i32
        {comparison}
        %kept = arith.select %keep, %s, %none : f32
        attn_tile.yield %kept : f32
      }}
    }} producer registers(40) {{
    }}
    gpu.return
  }}"""


module = "!scores = !attn_tile.fragment<128x64xf32, accumulator, 8x1>\ngpu.module @kernels {"
module += "".join(kernel(*item) for item in COMPARISONS.items()) + "\n}\n"
relative = subprocess.run(
    ["attn-opt", "--pass-pipeline=builtin.module(gpu.module(attn-tile-relative-columns))"],
    input=module, capture_output=True, text=True, check=True).stdout  # fmt: skip


def bodies(text):
    """The statements of each kernel that work on its scores."""
    emitted = subprocess.run(["attn-translate", "--attn-to-cuda", "-"], input=text, capture_output=True, text=True, check=True).stdout
    found = {}
    for name in COMPARISONS:
        start = emitted.index("\n" + name + "(")
        statements = re.search(r"Fragment<[^\n]*scores;\n(.*?\}, scores\);)", emitted[start:], re.S)
        found[name] = statements.group(1)
    return found


positions, columns = bodies(module), bodies(relative)
left = [name for name in COMPARISONS if "relative" not in columns[name]]
assert not left, f"not compared with columns: {left}"
assert not any("relative" in body for body in positions.values())

source = r"""
#include "attn/map.cuh"
#include <climits>
#include <cstdio>
#include <initializer_list>
#include <vector>
using namespace attn;
using Scores = Fragment<float, 128, 64, 8, 1>;

static int failures = 0;
static void expect(bool holds, const char *what) {
  if (!holds && ++failures < 10)
    std::printf("%s\n", what);
}

static Scores ones() {
  Scores scores;
  for (auto &tile : scores.data[0])
    for (float &value : tile)
      value = 1;
  return scores;
}
"""
# attn-opt does not keep the names of arguments.
for kind, bodies_by_name, arguments in (
    ("positions", positions, "int q_begin, int kv_begin, int limit"),
    ("columns", columns, "int arg0, int arg1, int arg2"),
):
    for name, body in bodies_by_name.items():
        source += f"static void {name}_{kind}(Scores &scores, {arguments}) {{\n{body}\n}}\n"
source += r"""
using Mask = void (*)(Scores &, int, int, int);
static void compare(Mask positions, Mask columns, const char *name) {
  for (threadIdx.x = 0; threadIdx.x < 256; threadIdx.x += 5)
    for (int q_begin : {0, 128, 4096, 2147482496})
      for (int kv_begin : {0, 64, 128, 3968, 4032, 4096, 2147482496})
        for (int limit : {INT_MIN, -1, 0, 1, 64, 100, 4000, 2147482624, INT_MAX}) {
          Scores expected = ones(), got = ones();
          positions(expected, q_begin, kv_begin, limit);
          columns(got, q_begin, kv_begin, limit);
          for (int j = 0; j < Scores::kColumnTiles; ++j)
            for (int e = 0; e < 4; ++e)
              expect(expected.data[0][j][e] == got.data[0][j][e], name);
        }
}

/// Rows 300 apart, of 200; what is no element is marked.
template <typename T, int WarpsN>
static void check_loads() {
  constexpr int kRows = 3, kStride = 300, kSize = 200;
  std::vector<T> data((kRows - 1) * kStride + kSize, T(-1));
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < kSize; ++j)
      data[i * kStride + j] = T(i * 40 + j % 40);
  const Tensor<const T, 2> tensor{data.data(), {kStride, 1}, {kRows, kSize}};
  for (threadIdx.x = 0; threadIdx.x < 256; ++threadIdx.x)
    for (int i : {0, 1, 2, 3, -1, INT_MAX})
      for (int begin : {0, 1, 64, 136, 137, 150, 199, 200, 1000, -1, -64, INT_MIN, 2147482624}) {
        ColumnVector<T, 64, WarpsN> columns;
        load_columns(columns, tensor, i, begin);
        for (int j = 0; j < columns.kColumnTiles; ++j)
          for (int r = 0; r < 2; ++r) {
            const int column = Fragment<float, 64, 64, 4, WarpsN>::column(j, r), position = begin + column;
            const T value = columns.data[j][r];
            if (i >= 0 && i < kRows && position >= 0 && position < kSize)
              expect(float(value) == float(T(i * 40 + position % 40)), "a column has not its element");
            else
              expect(float(value) >= 0, "outside something else than an element is read");
          }
      }
  const Tensor<const T, 1> empty{nullptr, {1}, {0}};
  ColumnVector<T, 64, WarpsN> columns;
  load_columns(columns, empty, 0);
  expect(float(columns.data[0][0]) == 0, "an empty vector");
}

int main() {
  check_loads<int, 1>();
  check_loads<int, 2>();
  check_loads<signed char, 1>();
  check_loads<bf16, 1>();
  check_loads<float, 2>();
"""
source += "".join(f'  compare({name}_positions, {name}_columns, "{name}");\n' for name in COMPARISONS)
source += "  return failures != 0;\n}\n"
(out / "main.cpp").write_text(source)
subprocess.run(["clang++-22", "-std=c++17", "-O1", "-w", "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
                "-I", root / "test/Codegen/Inputs/host", "-I", root / "codegen/device", "-o", out / "main",
                out / "main.cpp"], check=True)  # fmt: skip
subprocess.run([out / "main"], check=True)
