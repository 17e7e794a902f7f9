# Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks which variant of split-kv.mlir's launch plan calls take, and in how many parts: the plan is evaluated here. The
argument is the family of its kernels."""

import json
import sys

plan = json.load(sys.stdin)


def evaluate(expr, sizes):
    if isinstance(expr, int):
        return expr
    ((kind, operands),) = expr.items()
    if kind == "dim":
        return sizes[operands[0]][operands[1]]
    if kind.endswith("aligned"):
        return 1
    a, b = (evaluate(operand, sizes) for operand in operands)
    return {
        "add": lambda: a + b, "sub": lambda: a - b, "mul": lambda: a * b, "ceildiv": lambda: -(-a // b), "floordiv": lambda: a // b,
        "min": lambda: min(a, b), "max": lambda: max(a, b), "less": lambda: int(a < b), "less_equal": lambda: int(a <= b),
        "equal": lambda: int(a == b),
    }[kind]()  # fmt: skip


def choose(batch, q_len, kv_len):
    """The name of the variant, and its parts."""
    sizes = [(batch, 32, q_len, 64), (batch, 8, kv_len, 64), (batch, 8, kv_len, 64)]
    variant = next(v for v in plan["variants"] if evaluate(v["condition"], sizes))
    is_split = variant["name"] in ("few_rows", "split_kv", "many_rows")
    # What would be a single part has no room of its own.
    return variant["name"], max(1, evaluate(variant["workspaces"][0]["sizes"][0], sizes)) if is_split else 1


HOPPER = {
    # A tile of 16 rows holds 4 queries of 4 heads. 123 of 132 multiprocessors are to have a block, of 256 keys or more.
    (1, 1, 131072): ("few_rows", 16),
    (1, 4, 131072): ("few_rows", 16),
    (1, 1, 2048): ("few_rows", 8),
    (1, 1, 8192): ("few_rows", 16),
    (8, 1, 8192): ("few_rows", 2),
    (15, 1, 100000): ("few_rows", 2),
    (16, 1, 100000): ("few_rows", 1),
    (64, 1, 1024): ("few_rows", 1),
    (0, 1, 8192): ("few_rows", 32),
    (1, 0, 8192): ("few_rows", 32),
    # One of 64 rows 16 queries.
    (1, 5, 131072): ("split_kv", 16),
    (1, 16, 131072): ("split_kv", 16),
    (1, 16, 8192): ("split_kv", 16),
    (15, 16, 8192): ("split_kv", 2),
    # A full machine: one tile for the query heads of a key head still pays, where there are keys enough.
    (16, 16, 8192): ("split_kv", 1),
    (64, 16, 1024): ("split_kv", 1),
    (64, 16, 1023): ("short_lengths", 1),
    # One of 128 rows 32 queries; 8 tiles for 132 multiprocessors, and 16. Tiles of one head each would be mostly empty.
    (1, 17, 131072): ("many_rows", 16),
    (1, 64, 8192): ("many_rows", 8),
    (16, 64, 8192): ("many_rows", 1),
    (16, 64, 1023): ("short_lengths", 1),
    (1, 1024, 8192): ("short_lengths", 1),
    # Few keys.
    (1, 1, 511): ("short_lengths", 1),
    (1, 1, 512): ("split_kv", 2),
    # Ordinary shapes, and none. Short ones have a tile of their own.
    (16, 1024, 1024): ("short_lengths", 1),
    (16, 1536, 1536): ("short_lengths", 1),
    (16, 1537, 1537): ("aligned", 1),
    (1, 16384, 16384): ("aligned", 1),
    (1, 1, 0): ("short_lengths", 1),
    # Most of the keys lie after the last query: only what a call sees counts.
    (1, 8192, 300): ("aligned", 1),
}
# Of an A100, with 108 multiprocessors: 8 tiles of 64 rows in 324 places.
PORTABLE = {
    (1, 1, 131072): ("few_rows", 13),
    (1, 5, 131072): ("split_kv", 40),
    (1, 17, 131072): ("split_kv", 20),
    (1, 16, 8192): ("split_kv", 32),
    (20, 16, 100000): ("split_kv", 2),
    (21, 16, 100000): ("split_kv", 1),
    (64, 16, 1023): ("aligned", 1),
    (64, 17, 100000): ("aligned", 1),
    (16, 1024, 1024): ("aligned", 1),
}
for call, expected in {"hopper": HOPPER, "portable": PORTABLE}[sys.argv[1]].items():
    got = choose(*call)
    assert got == expected, (call, got, expected)
