# RUN: %python %s %root %t

"""Executes the device functions that read elements of captures on the host, for positions in and out of bounds, and divisors."""

import pathlib
import subprocess
import sys

root, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
out.mkdir(parents=True, exist_ok=True)

(out / "main.cpp").write_text(r"""
#include "attn/portable.cuh"
#include <cstdio>
#include <vector>
using namespace attn;

static int failures = 0;
static void expect(bool holds, const char *what) {
  if (!holds) {
    std::printf("%s\n", what);
    ++failures;
  }
}

/// Quotients near multiples of the divisor, for all bit widths of both.
static void check_divisors() {
  for (long long base = 1; base < 1ll << 31; base = base * 3 / 2 + 1)
    for (int number : {int(base), int(base) - (base > 1), 2147483647}) {
      const Divisor by(number);
      for (long long factor = 0; factor * number < 1ll << 31; factor = factor * 2 + 1)
        for (long long dividend : {factor * number - 1, factor * number, factor * number + number - 1, 2147483647ll})
          if (dividend >= 0 && dividend < 1ll << 31)
            expect(by.divide(int(dividend)) == int(dividend) / number, "a quotient is wrong");
    }
}

int main() {
  check_divisors();
  const int edges[] = {0, 1, 2, 3, 4, -1, -100, 1000, 2147483647, -2147483647 - 1};
  // Rows 5 apart, of 3; what is no element is marked.
  std::vector<int> data(4 * 5, -7);
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 3; ++j)
      data[i * 5 + j] = 10 * i + j;
  Tensor<const int, 2> matrix{data.data(), {5, 1}, {4, 3}};
  for (int i : edges)
    for (int j : edges) {
      const int value = load(matrix, i, j);
      if (i >= 0 && i < 4 && j >= 0 && j < 3)
        expect(value == 10 * i + j, "an element is not the one at the position");
      else
        expect(value >= 0, "outside something else than an element is read");
    }
  // A broadcast scalar. The stride of a last dimension of size 1 may be anything, and is not used.
  const double number = 2.5;
  Tensor<const double, 2> broadcast{&number, {0, 7}, {3, 1}};
  for (int i : edges)
    expect(load(broadcast, i, i) == 2.5, "a stride of 0");
  // No element, and no memory.
  Tensor<const long long, 3> empty{nullptr, {6, 3, 1}, {2, 0, 3}};
  Tensor<const bf16, 1> none{nullptr, {1}, {0}};
  for (int i : edges) {
    expect(load(empty, i, 1, 2) == 0, "an empty tensor");
    expect(float(load(none, i)) == 0, "an empty vector");
  }
  return failures;
}
""")
subprocess.run(["clang++-22", "-std=c++17", "-w", "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
                "-I", root / "test/Codegen/Inputs/host", "-I", root / "codegen/device", "-o", out / "main",
                out / "main.cpp"], check=True)  # fmt: skip
subprocess.run([out / "main"], check=True)
