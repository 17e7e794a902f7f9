#!/usr/bin/python3
#===- demo.py - inputs for tools/dev demo, and NumPy's own attention ---------===#
#
# Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===--------------------------------------------------------------------------===#

"""demo.py inputs DIR writes q.npy, k.npy and v.npy; demo.py compare DIR checks o.npy, causal attention over them."""

import pathlib
import sys

import numpy as np

# @top_left of test/Examples/causal.mlir says heads and head_dim; no tile divides the length.
SHAPE = BATCH, HEADS, LENGTH, HEAD_DIM = 2, 4, 1000, 64
TOLERANCE = 1e-5


def inputs(folder):
    rng = np.random.default_rng(seed=0)
    for name in "qkv":
        x = rng.standard_normal(SHAPE, dtype=np.float32)
        np.save(folder / f"{name}.npy", x)
        print(f"    {folder / name}.npy: {x.shape} {x.dtype}")


def compare(folder):
    q, k, v = (np.load(folder / f"{name}.npy").astype(np.float64) for name in "qkv")
    o = np.load(folder / "o.npy")
    s = q @ k.swapaxes(-1, -2) / np.sqrt(HEAD_DIM)
    s[..., np.triu(np.ones((LENGTH, LENGTH), bool), k=1)] = -np.inf
    p = np.exp(s - s.max(axis=-1, keepdims=True))
    expected = p / p.sum(axis=-1, keepdims=True) @ v
    if o.shape != expected.shape:
        sys.exit(f"    expected {folder}/o.npy of shape {expected.shape}, got {o.shape}")
    error = np.abs(o - expected).max()
    print(f"    largest difference from NumPy in float64: {error:.2e} (allowed: {TOLERANCE:.0e})")
    if not error <= TOLERANCE:  # NaN is no success
        sys.exit("    the output is wrong")


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("inputs", "compare"):
        sys.exit(__doc__)
    {"inputs": inputs, "compare": compare}[sys.argv[1]](pathlib.Path(sys.argv[2]))
