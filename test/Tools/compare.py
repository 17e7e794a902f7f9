# RUN: %python %s %root

"""What tools/compare computes and prints, without a GPU."""

import pathlib
import subprocess
import sys

root = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(root / "tools" / "compare"))

import cases
import report
from cases import MODS, Case

# The pairs that are counted are those that the masks keep.
cases.TOKENS, cases.WINDOW = 800, 150
for mod in MODS:
    case = Case(mod, False, 512, 400)
    assert (case.batch, case.heads) == (2, 4)
    documents = [[i for i, length in enumerate(lengths) for _ in range(length)] for lengths in case.document_lengths()]
    assert all(len(entry) == case.n for entry in documents)
    near = lambda b, q, k: q >= k and q - k < cases.WINDOW  # noqa: E731
    keep = {
        "window": near,
        "soft-cap (afn) and window": near,
        "prefix-LM": lambda b, q, k: q >= k or k < case.prefixes()[b],
        "documents": lambda b, q, k: q >= k and documents[b][q] == documents[b][k],
    }.get(mod, lambda b, q, k: q >= k or not MODS[mod].mask)
    exact = sum(keep(b, q, k) for b in range(2) for q in range(case.n) for k in range(case.n))
    assert case.kept_pairs() == 4 * exact, mod
assert Case("full", True, 64, 1024).flops() == 10 * 64 * Case("full", True, 64, 1024).kept_pairs()

# Every case is a module that compiles, with and without lse, and so does its backward, and what makes its lists.
def compile(text, *passes):
    command = ["attn-opt", "--attn-set-target=arch=sm_90a", *passes, "--attn-to-cuda-pipeline", "-o", "/dev/null"]
    subprocess.run(command, input=text, text=True, check=True)


for mod in MODS:
    case = Case(mod, False, 128, 4096)
    for has_lse in (True, False):
        compile(case.text(has_lse), "--attn-differentiate")
    if MODS[mod].has_lists:
        compile(case.lists_text())

# Heads that share keys, and few queries: 16 of 4 heads a key head for 1000 keys.
few = Case("full", False, 64, 1000, (8, 2), 16, 3)
compile(few.text(has_lse=True))
assert (few.batch, few.heads, few.kv_heads, few.queries) == (3, 8, 2, 16)
assert few.kept_pairs() == 3 * 8 * 16 * 1000 and few.key_bytes() == 2 * 3 * 2 * 1000 * 64 * 2


def cell(table, mod, direction, n, missing=(), heads=(16, 16), queries=0, **tflops):
    systems = {name: {"tflops": x, "ms": 1.0, "spread": 0.01} for name, x in tflops.items()}
    return {
        "table": table, "mod": mod, "pass": direction, "d": 128, "n": n, "systems": systems, "missing": dict(missing),
        "batch": 1, "heads": heads[0], "kv_heads": heads[1], "queries": queries or n, "key_bytes": 3e9,
    }  # fmt: skip


unsupported = {"cudnn": "RuntimeError: no kernel"}
text = report.format_all(
    {
        "machine": {"gpu": "G", "torch": "2", "cudnn": 9, "date": "today", "copy": 4e12},
        "cells": [
            cell("plain", "full", "backward", 1024, attn=50.0, flash=100.0, cudnn=100.0),
            cell("plain", "full", "forward", 1024, attn=200.0, flash=100.0, cudnn=400.0),
            cell("plain", "full", "forward", 2048, unsupported, attn=300.0, flash=600.0),
            cell("mods", "full", "forward", 4096, attn=330.0, flex=440.0),
            cell("mods", "full (exact)", "forward", 4096, attn=300.0, flex=400.0),
            cell("mods", "soft-cap", "forward", 4096, {"flex": "KeyError: gone"}, attn=200.0),
            cell("mods", "soft-cap", "backward", 4096, attn=200.0),
            cell("mods", "full", "backward", 4096, attn=220.0),
            cell("grouped", "full", "forward", 4096, attn=300.0, flash=200.0),
            cell("grouped", "full", "forward", 4096, heads=(16, 4), attn=330.0, flash=300.0),
            cell("decode", "full", "forward", 8192, unsupported, heads=(16, 4), queries=4, attn=1.0, flash=1.0),
        ],
        "jit": [{"what": "cold", "seconds": [1.5, 0.5, 0.25]}, {"what": "launch", "seconds": [8e-6]}],
    }
)
print(text)
for line in (
    "G, PyTorch 2, cuDNN 9, today",
    "TFLOP/s of attn; in parentheses the ratio to SDPA flash and to SDPA cuDNN.",
    # The forward comes first.
    "| forward | 128 | full | 200 (2.00, 0.50) | 300 (0.50, –[1]) |\n| backward | 128 | full | 50 (0.50, 0.50) |  |",
    # sqrt(2 x 0.5)
    "| forward | 128 | 1.00, least 0.50 | 0.50, least 0.50 |",
    "[1] SDPA cuDNN: RuntimeError: no kernel",
    "| forward | 128 | 4096 | full | 330 | -9% | 440 | 0.75 |",
    "| forward | 128 | 4096 | full (exact) | 300 |  | 400 | 0.75 |",
    "| forward | 128 | 4096 | soft-cap | 200 | +50% | –[1] |  |",
    "| backward | 128 | 4096 | soft-cap | 200 | +10% | – |  |",
    "[1] FlexAttention: KeyError: gone",
    "| forward | 128 | 4096 | full | 16 : 16 | 300 (1.50) |  |",
    "| forward | 128 | 4096 | full | 16 : 4 | 330 (1.10) | 1.10 |",
    "which are read once; a copy reads and writes 4000 GB/s.",
    "| 128 | 1 | 16 : 4 | 8192 | 4 | 3000 | 0.75 | 3000 | –[1] |",
    "| cold | 500 ms | 250 ms | 1.5 s |",
    "| launch | 8 µs | 8 µs | 8 µs |",
    "Distance of the quartiles: 1.0% of the median at the median, 1.0% at most.",
):
    assert line in text, line

# The command line: errors are one line, and the help has an example.
compare = [sys.executable, str(root / "tools" / "compare")]
for arguments, message in (
    (["-d", "0"], "-d: expected 1 to 512, got 0"),
    (["--repeats", "0"], "--repeats: expected at least 1, got 0"),
    (["--mods", "none"], "invalid choice: 'none'"),
):
    done = subprocess.run([*compare, *arguments], capture_output=True, text=True)
    assert done.returncode == 2 and message in done.stderr, done.stderr
done = subprocess.run([*compare, "--help"], capture_output=True, text=True, check=True)
assert "python3 tools/compare --quick" in done.stdout
