# Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times attn's kernels beside PyTorch's: SDPA flash, SDPA cuDNN and FlexAttention, in one run on one GPU.

Each batch has 16384 tokens of hidden size 2048 where a table does not say otherwise, in bf16. Before each timed launch
the stream is drained, the GPU idles for 6 ms and its L2 cache is flushed; systems take turns in an order that is shuffled
each time; medians are reported, over the pairs that the mask keeps (4 FLOP forward and 10 backward for each pair and
dimension), or over the bytes of keys and values. The results are compared, too. Needs a GPU, PyTorch, and libattn_c.so (ATTN_LIBRARY names it); matplotlib for the plot.
"""

import argparse
import itertools
import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))

import report  # noqa: E402
from cases import GROUPS, MODS, PLAIN, QUICK_MODS, Case  # noqa: E402

EXAMPLE = """
examples:
  python3 tools/compare                                        all of it, several minutes
  python3 tools/compare --quick --json quick.json              fewer cases and repeats, about 40 seconds
  python3 tools/compare --tables plain -d 128 -n 4096 --passes forward
  ATTN_LIBRARY=libattn_c.so python3 tools/compare --plot speed.svg
"""


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(
        prog="compare", description=__doc__, epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    tables = ("plain", "mods", "grouped", "decode", "jit")
    add("--tables", nargs="+", choices=tables, default=list(tables),
        help="plain and causal attention beside SDPA; scores and masks beside FlexAttention; query heads that share keys; "
        "few queries and long keys; how long compiling takes")  # fmt: skip
    add("--passes", nargs="+", choices=("forward", "backward"), default=["forward", "backward"])
    add("--systems", nargs="+", choices=("attn", "flash", "cudnn", "flex"), default=["attn", "flash", "cudnn", "flex"])
    add("--masks", nargs="+", choices=PLAIN, default=list(PLAIN), help="of the plain table")
    add("--mods", nargs="+", choices=tuple(MODS), metavar="MOD", help=f"of the table of scores and masks: {', '.join(MODS)}")
    add("-d", nargs="+", type=int, metavar="HEAD_DIM", help="head_dim (default: 64 128 256; of mods and decode 64 128, of grouped 128)")
    add("-n", nargs="+", type=int, metavar="LENGTH", help="queries and keys (default: 1024 … 16384; of mods 4096 16384, of grouped 4096; keys of decode: 8192 131072)")
    add("--repeats", type=int, default=9, help="timed launches of each (default: 9)")
    add("--quick", action="store_true", help="d = 128, n = 2048 and 16384, few scores and masks, 5 repeats")
    add("--json", metavar="FILE", help="where to write all figures")
    add("--plot", metavar="FILE", help="where to draw the plain table: .svg, .png or .pdf")
    given = parser.parse_args(arguments)
    if given.repeats < 1:
        parser.error(f"--repeats: expected at least 1, got {given.repeats}")
    for option, values, most in (("-d", given.d, 512), ("-n", given.n, 1 << 20)):
        for value in values or ():
            if not 1 <= value <= most:
                parser.error(f"{option}: expected 1 to {most}, got {value}")
    if given.quick:
        given.repeats = min(given.repeats, 5)
    return given


def list_cases(given):
    """The cases of each table."""
    plain_d, plain_n = ([128], [2048, 16384]) if given.quick else ([64, 128, 256], [1024, 2048, 4096, 8192, 16384])
    mod_d, mod_n = ([128], [4096]) if given.quick else ([64, 128], [4096, 16384])
    mods = given.mods or (QUICK_MODS if given.quick else MODS)
    directions = [name == "backward" for name in ("forward", "backward") if name in given.passes]
    product = itertools.product
    few_d, few_q = ([128], [1, 16]) if given.quick else ([64, 128], [1, 4, 16, 32, 64])
    few_heads, batches = ([(32, 8)], [16]) if given.quick else ([(32, 8), (32, 32)], [16, 64])
    decode = [(batch, heads, n) for batch, heads, n in product(batches, few_heads, given.n or [8192])]
    decode += [(1, (32, 8), n) for n in given.n or [8192, 131072]]
    groups = GROUPS[:2] if given.quick else GROUPS
    tables = {
        "plain": [Case(*c) for c in product(given.masks, directions, given.d or plain_d, given.n or plain_n)],
        # Both passes of a case in a row: FlexAttention compiles them at once.
        "mods": [
            Case(m, b, d, n)
            for d, n, m, b in product(given.d or mod_d, given.n or mod_n, mods, directions)
            if ("backward" if b else "forward") in MODS[m].passes
        ],
        # Beside as many heads of queries with keys of their own.
        "grouped": [
            Case(m, b, d, n, h) for m, b, d, n, h in product(given.masks, directions, given.d or [128], given.n or [4096], groups)
        ],
        "decode": [
            Case("full", False, d, n, heads, q, batch) for d, (batch, heads, n), q in product(given.d or few_d, decode, few_q)
        ] if "forward" in given.passes else [],
    }  # fmt: skip
    return {name: cases for name, cases in tables.items() if name in given.tables}


class Progress:
    """One line on standard error that is written over."""

    def __init__(self, total):
        self.total, self.done, self.start, self.width = total, 0, time.monotonic(), 0

    def say(self, what):
        line = f"[{self.done}/{self.total}, {time.monotonic() - self.start:.0f} s] {what}"
        print("\r" + line.ljust(self.width), end="", file=sys.stderr, flush=True)
        self.width = len(line)

    def finish(self):
        print("\r" + " " * self.width + "\r", end="", file=sys.stderr, flush=True)


def find_obstacle():
    """Why this machine cannot run the comparison; empty if it can. Does not touch the GPU: JIT times are of processes
    that are forked before."""
    try:
        import torch
    except ImportError:
        return "PyTorch is not installed (pip install torch)"
    if not torch.cuda.device_count():  # asks NVML
        return "PyTorch finds no GPU"
    try:
        import attn  # noqa: F401
    except ImportError as error:
        return str(error)
    return ""


def main(arguments):
    given = parse_arguments(arguments)
    obstacle = find_obstacle()
    if obstacle:
        raise SystemExit(f"compare: {obstacle}")
    if given.plot:
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            raise SystemExit("compare: --plot: matplotlib is missing (pip install matplotlib)") from None

    results = {"cells": [], "jit": []}

    def save():
        if given.json:
            pathlib.Path(given.json).write_text(json.dumps(results, indent=1))

    tables = list_cases(given)
    progress = Progress(sum(map(len, tables.values())))
    if "jit" in given.tables:
        import jit

        progress.say("compile times, in processes of their own")
        results["jit"] = jit.measure(repeats=1 if given.quick else 3)
        save()

    import systems
    import timing

    results["machine"] = timing.describe_machine()
    clock = timing.Clock()
    if "decode" in tables:
        results["machine"]["copy"] = clock.copy_speed()
    for table, cases in tables.items():
        for case in cases:
            progress.say(f"{table}: {case}")
            wanted = [name for name in given.systems if systems.takes_part(name, table)]
            results["cells"].append({"table": table, **systems.time_case(case, wanted, clock, given.repeats)})
            progress.done += 1
            save()
    progress.finish()
    print(report.format_all(results))
    if given.plot and "plain" in tables:
        report.plot(results, given.plot)
    wrong = [cell for cell in results["cells"] if any("differs" in reason for reason in cell["missing"].values())]
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
