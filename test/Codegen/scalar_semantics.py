# RUN: %python %s %root %t

"""Executes emitted scalar code for edge values, and compares it with what MLIR's constant folder says.

Each operation is printed as a function of its operands and compiled for the host, with the real scalar.cuh, under
the undefined behaviour sanitizer: no operand may lead to undefined behaviour, not even one for which the operation
has no meaning (such a result is not compared).
"""

import math
import pathlib
import re
import struct
import subprocess
import sys

root, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
out.mkdir(parents=True, exist_ok=True)

INTS = {"i8": 8, "i16": 16, "i32": 32, "i64": 64, "index": 32}
CPP = {"i1": "bool", "i8": "int8", "i16": "int16", "i32": "int", "i64": "int64", "index": "int",
       "bf16": "bf16", "f16": "f16", "f32": "float", "f64": "double"}  # fmt: skip
BITS = {"bf16": 16, "f16": 16, "f32": 32, "f64": 64, "i1": 1, **INTS}


def int_values(kind):
    width = INTS[kind]
    low, high = -(1 << width - 1), (1 << width - 1) - 1
    return [low, low + 1, -7, -2, -1, 0, 1, 2, 3, 5, width - 1, width, high // 3, high - 1, high]


def float_bits(kind):
    """Bit patterns: zeros, ordinary numbers, ties, subnormals, the largest, infinities and a NaN."""
    if kind == "f64":
        # 1 + 2^-8 + 2^-40 rounds to bf16 differently by way of f32; 2^31 - 0.5, 2^63 and others for integers.
        numbers = [0.0, -0.0, 1.0, -1.5, 0.5, 2.5, 1 + 2**-8 + 2**-40, 1 + 2**-11 + 2**-40, 3.0e38, -128.5, 127.9,
                   2147483647.5, -2147483648.9, 4294967295.5, 9.3e18, 1e-45, 5e-324, math.inf, -math.inf]  # fmt: skip
        return [struct.unpack("<Q", struct.pack("<d", x))[0] for x in numbers] + [0x7FF8000000000000]
    if kind == "f32":
        numbers = [0.0, -0.0, 1.0, -1.5, 0.5, 2.5, -2.5, 1.00390625, 1.01171875, 100.7, -128.5, 65520.0, 3.0e9,
                   -2147483648.0, 2147483520.0, 1e19, 1e-40, -1e-45, 3.4e38, math.inf, -math.inf]  # fmt: skip
        return [struct.unpack("<I", struct.pack("<f", x))[0] for x in numbers] + [0x7FC00000]
    if kind == "f16":
        return [0, 0x8000, 0x3C00, 0xBE00, 0x3800, 0x0001, 0x7BFF, 0x7C00, 0xFC00, 0x7E00, 0x4D55]
    return [0, 0x8000, 0x3F80, 0xBFC0, 0x3F00, 0x0001, 0x7F7F, 0x7F80, 0xFF80, 0x7FC0, 0x42C9]


def values(kind):
    if kind == "i1":
        return ["false", "true"]
    if kind in INTS:
        return [str(x) for x in int_values(kind)]
    return [f"0x{x:0{BITS[kind] // 4}X}" for x in float_bits(kind)]


# (name, operation, operand types, result type); {0} {1} are operands.
cases = []
INT_BINARY = ["addi", "subi", "muli", "divsi", "divui", "remsi", "remui", "ceildivsi", "ceildivui", "floordivsi",
              "andi", "ori", "xori", "shli", "shrsi", "shrui", "maxsi", "maxui", "minsi", "minui"]  # fmt: skip
for kind in INTS:
    cases += [(f"arith.{op} {{0}}, {{1}} : {kind}", (kind, kind), kind) for op in INT_BINARY]
for kind in ["i1", *INTS]:
    for predicate in ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"]:
        cases.append((f"arith.cmpi {predicate}, {{0}}, {{1}} : {kind}", (kind, kind), "i1"))
cases += [(f"arith.{op} {{0}}, {{1}} : i1", ("i1", "i1"), "i1") for op in ["addi", "subi", "muli", "andi", "ori", "xori"]]
WIDTHS = ["i1", "i8", "i16", "i32", "i64"]
for i, small in enumerate(WIDTHS):
    for large in WIDTHS[i + 1 :]:
        cases += [(f"arith.{op} {{0}} : {small} to {large}", (small,), large) for op in ["extsi", "extui"]]
        cases.append((f"arith.trunci {{0}} : {large} to {small}", (large,), small))
FLOATS = ["bf16", "f16", "f32", "f64"]
for kind in FLOATS:
    for op in ["addf", "subf", "mulf", "divf", "maximumf", "minimumf", "maxnumf", "minnumf"]:
        cases.append((f"arith.{op} {{0}}, {{1}} : {kind}", (kind, kind), kind))
    for predicate in ["oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno",
                      "true", "false"]:  # fmt: skip
        cases.append((f"arith.cmpf {predicate}, {{0}}, {{1}} : {kind}", (kind, kind), "i1"))
    cases.append((f"arith.negf {{0}} : {kind}", (kind,), kind))
    # The folder knows round and trunc of f32 and f64 only.
    for op in ["absf", "ceil", "floor", "roundeven"] + (["round", "trunc"] if kind in ("f32", "f64") else []):
        cases.append((f"math.{op} {{0}} : {kind}", (kind,), kind))
    cases.append((f"math.copysign {{0}}, {{1}} : {kind}", (kind, kind), kind))
    for integer in ["i8", "i16", "i32", "i64"]:
        cases += [(f"arith.{op} {{0}} : {integer} to {kind}", (integer,), kind) for op in ["sitofp", "uitofp"]]
        cases += [(f"arith.{op} {{0}} : {kind} to {integer}", (kind,), integer) for op in ["fptosi", "fptoui"]]
    cases += [(f"arith.{op} {{0}} : i1 to {kind}", ("i1",), kind) for op in ["sitofp", "uitofp"]]
for small, large in [("bf16", "f32"), ("f16", "f32"), ("bf16", "f64"), ("f16", "f64"), ("f32", "f64")]:
    cases.append((f"arith.extf {{0}} : {small} to {large}", (small,), large))
    cases.append((f"arith.truncf {{0}} : {large} to {small}", (large,), small))
for kind, integer in [("bf16", "i16"), ("f16", "i16"), ("f32", "i32"), ("f64", "i64")]:
    cases.append((f"arith.bitcast {{0}} : {kind} to {integer}", (kind,), integer))
    cases.append((f"arith.bitcast {{0}} : {integer} to {kind}", (integer,), kind))
for kind in ["i32", "i64"]:
    cases += [(f"math.{op} {{0}} : {kind}", (kind,), kind) for op in ["absi", "ctlz", "cttz", "ctpop"]]
cases.append(("arith.index_cast {0} : i32 to index", ("i32",), "index"))
cases.append(("arith.index_cast {0} : index to i64", ("index",), "i64"))
cases.append(("arith.index_cast {0} : i64 to index", ("i64",), "index"))


def combinations(kinds):
    if len(kinds) == 1:
        return [(x,) for x in values(kinds[0])]
    return [(x, y) for x in values(kinds[0]) for y in values(kinds[1])]


def run(*command, **kwargs):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, **kwargs)
    if result.returncode != 0:
        sys.exit(f"{command[0]} failed:\n{result.stderr[-4000:]}")
    return result.stdout


# What the folder says. An index has 64 bits there: its operations are folded as those of i32.
def fold_kind(kind):
    return "i32" if kind == "index" else kind


lines = []
for number, (op, kinds, result) in enumerate(cases):
    text = re.sub(r"\bindex\b", "i32", op)
    for position, operands in enumerate(combinations(kinds)):
        constants = [f"%{i} = arith.constant {x} : {fold_kind(k)}" if k != "i1" else f"%{i} = arith.constant {x}"
                     for i, (x, k) in enumerate(zip(operands, kinds))]  # fmt: skip
        if "index_cast" in text:
            text = {"i32 to i32": "arith.bitcast {0} : i32 to i32", "i32 to i64": "arith.extsi {0} : i32 to i64",
                    "i64 to i32": "arith.trunci {0} : i64 to i32"}[text.split(" : ")[1]]  # fmt: skip
        body = "\n  ".join([*constants, "%r = " + text.format(*[f"%{i}" for i in range(len(kinds))])])
        lines.append(f"func.func @f_{number}_{position}() -> {fold_kind(result)} {{\n  {body}\n  return %r : {fold_kind(result)}\n}}")
(out / "fold.mlir").write_text("\n".join(lines))
folded = run("attn-opt", "--canonicalize", out / "fold.mlir")

expected = {}
for block in folded.split("func.func @f_")[1:]:
    name = block.split("(")[0]
    returned = re.search(r"return (%\S+) : (\S+)", block)
    constant = re.search(rf"{re.escape(returned[1])} = arith.constant (\S+)(?: : \S+)?\n", block)
    if not constant:
        continue  # not folded, or poison
    word, kind = constant[1], returned[2]
    if word in ("true", "false"):
        bits = int(word == "true")
    elif word.startswith("0x"):
        bits = int(word, 16)
    elif kind in BITS and not kind.startswith("i"):
        number = float(word)
        if kind == "f64":
            bits = struct.unpack("<Q", struct.pack("<d", number))[0]
        elif kind == "f16":
            bits = struct.unpack("<H", struct.pack("<e", number))[0]
        else:
            bits = struct.unpack("<I", struct.pack("<f", number))[0]
            if kind == "bf16":
                bits = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    else:
        bits = int(word)
    expected[name] = bits & (1 << BITS[kind]) - 1

# What emitted code says.
functions, calls = [], []
for number, (op, kinds, result) in enumerate(cases):
    arguments = ", ".join(f"%a{i}: {kind}" for i, kind in enumerate(kinds))
    body = op.format(*[f"%a{i}" for i in range(len(kinds))])
    functions.append(f"gpu.func @f_{number}({arguments}) -> {result} {{\n  %r = {body}\n  gpu.return %r : {result}\n}}")
    for position, operands in enumerate(combinations(kinds)):
        def literal(text, kind):
            if kind == "i1":
                return text
            if kind in INTS:
                return f"{CPP[kind]}({int(text) & (1 << INTS[kind]) - 1}ull)"
            return f"from_bits<{CPP[kind]}>({text}ull)"

        call = f"f_{number}({', '.join(literal(x, k) for x, k in zip(operands, kinds))})"
        calls.append(f'  print("{number}_{position}", {call});')
(out / "emit.mlir").write_text("gpu.module @scalars {\n" + "\n".join(functions) + "\n}\n")
(out / "emit.cu").write_text(run("attn-translate", "--attn-to-cuda", out / "emit.mlir"))
# Many small functions: one large main takes the compiler minutes.
chunks = [calls[i : i + 500] for i in range(0, len(calls), 500)]
(out / "main.cpp").write_text(
    '#include "emit.cu"\n#include <cstdio>\n'
    "template <typename T> T from_bits(unsigned long long bits) { T value; std::memcpy(&value, &bits, sizeof(T)); return value; }\n"
    "template <typename T> void print(const char *name, T value) {\n"
    "  unsigned long long bits = 0; std::memcpy(&bits, &value, sizeof(T)); std::printf(\"%s %llx\\n\", name, bits);\n}\n"
    + "".join("static void part%d() {\n%s\n}\n" % (i, "\n".join(chunk)) for i, chunk in enumerate(chunks))
    + "int main() {\n" + "\n".join(f"  part{i}();" for i in range(len(chunks))) + "\n}\n"
)  # fmt: skip
run("clang++-22", "-std=c++17", "-O0", "-w", "-ffp-contract=off", "-fsanitize=undefined,float-cast-overflow",
    "-fno-sanitize=float-divide-by-zero", "-fno-sanitize-recover=all", "-I", root / "test/Codegen/Inputs/host",
    "-I", root / "codegen/device", "-o", out / "main", out / "main.cpp")  # fmt: skip
actual = {}
for line in run(out / "main").splitlines():
    name, bits = line.split()
    actual[name] = int(bits, 16)


def is_nan(bits, kind):
    exponent, mantissa = {"bf16": (8, 7), "f16": (5, 10), "f32": (8, 23), "f64": (11, 52)}[kind]
    return bits >> mantissa & (1 << exponent) - 1 == (1 << exponent) - 1 and bits & (1 << mantissa) - 1 != 0


failures, compared = [], 0
for name, bits in expected.items():
    number, position = map(int, name.split("_"))
    op, kinds, result = cases[number]
    got = actual[name] & (1 << BITS[result]) - 1
    compared += 1
    if got == bits or (result in FLOATS and is_nan(got, result) and is_nan(bits, result)):
        continue
    failures.append(f"{op.format(*combinations(kinds)[position])}: expected {bits:#x}, got {got:#x}")
uncompared = sorted({cases[n][0] for n in range(len(cases)) if not any(k.startswith(f"{n}_") for k in expected)})
print(f"{compared} results of {len(actual)} compared, {len(failures)} differ; never folded: {uncompared}")
if uncompared:
    failures.append(f"operations that are not compared at all: {uncompared}")
sys.exit("\n".join(failures[:40]) or 0)
