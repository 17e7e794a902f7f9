# RUN: %python %s %root

"""What the device headers declare, and emitted code may call, must be reserved: no variable may hide it."""

import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
table = (root / "codegen/NameSelection.cpp").read_text().split("words[] = {")[1].split("};")[0]
reserved = set(re.findall(r'"([^"]+)"', table))
# What the printer writes: identifiers inside the string literals of the sources that print.
printed = set()
for name in ["CudaExpr.cpp", "CudaMath.cpp", "CudaPrinter.cpp", "CudaTileOps.cpp", "CudaTypes.cpp"]:
    for literal in re.findall(r'"((?:[^"\\]|\\.)*)"', (root / "codegen" / name).read_text()):
        printed |= set(re.findall(r"[A-Za-z_][A-Za-z_0-9]*", literal))
declared = set()
for header in sorted((root / "codegen/device/attn").glob("*.cuh")):
    text = header.read_text()
    declared |= set(re.findall(r"^__device__ __forceinline__ [^;{(]*?\b(\w+)\(", text, re.M))
    declared |= set(re.findall(r"^(?:struct|class|using) (?:alignas\(\d+\) )?(\w+)", text, re.M))
    declared |= set(re.findall(r"^(?:inline )?constexpr \w+ (\w+)", text, re.M))
assert len(declared) > 60, declared
declared.discard("element")  # a word of messages, too
missing = sorted((declared & printed) - reserved)
sys.exit(f"reserve in codegen/NameSelection.cpp: {missing}" if missing else 0)
