# RUN: %python %s %root

"""Uses point one way: tools -> jit -> {cpu runtime, passes -> dialect}. Fails on an include against the arrows."""

import pathlib
import re
import sys

# What the sources below a folder may include, by folder; the longest prefix decides.
ALLOWED = {
    "dialect": {"dialect"},
    "passes": {"passes", "dialect"},
    "codegen": {"codegen", "passes", "dialect", "runtime/KernelSpec.h"},
    "runtime": {"runtime"},
    "runtime/cpu": {"runtime/cpu"},
    "runtime/jit": {"runtime", "passes", "dialect", "codegen"},
    "runtime/capi": {"runtime", "passes", "dialect", "codegen"},
    "tools": {"tools", "runtime", "codegen", "passes", "dialect"},
}
# No MLIR in a process that only runs kernels, and of LLVM no more than its utilities.
WITHOUT_MLIR = ("runtime", "runtime/cpu")
UTILITIES = ("llvm/ADT/", "llvm/Support/")

root = pathlib.Path(sys.argv[1])


def layer(path):
    return max((prefix for prefix in ALLOWED if f"{path}/".startswith(f"{prefix}/")), key=len, default=None)


def is_below(path, prefix):
    return path == prefix or path.startswith(f"{prefix}/")


failures = []
count = 0
for top in sorted({prefix.split("/")[0] for prefix in ALLOWED}):
    for source in sorted((root / top).rglob("*")):
        if source.suffix not in (".cpp", ".h", ".td", ".cuh"):
            continue
        name = source.relative_to(root).as_posix()
        owner = layer(name)
        for number, line in enumerate(source.read_text().splitlines(), 1):
            match = re.match(r'\s*#?\s*include\s+["<]([^">]+)[">]', line)
            if not match:
                continue
            count += 1
            included = match[1]
            where = f"{name}:{number}: '{included}'"
            target = layer(included)
            if target and not any(is_below(included, allowed) for allowed in ALLOWED[owner]):
                failures.append(f"{where} points against the layers: {owner} may use {sorted(ALLOWED[owner])}")
            if not target and (source.parent / included).exists():
                failures.append(f"{where}: includes are relative to the root of the repository")
            if included.startswith(("mlir/", "llvm/")) and not included.startswith(UTILITIES) and owner in WITHOUT_MLIR:
                failures.append(f"{where}: no MLIR or LLVM in {owner}")

assert count > 50, f"found only {count} includes below {root}"
sys.exit("\n".join(failures) or 0)
