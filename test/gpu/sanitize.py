# Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small calls, forward and backward, to run under compute-sanitizer: tools/dev gpu-test --sanitize."""

import sys
import time

import conftest  # noqa: F401 (finds the package)
import attn
import torch
from contract import make_inputs, ours
from modules import MODS, Attention

CASES = (
    ("bf16", 64, 64, "causal"), ("bf16", 128, 128, "bottom_right"), ("f16", 40, 24, "alibi"), ("f32", 64, 80, "bias_f32"),
    ("bf16", 256, 256, "padding"), ("f32", 8, 8, "document"), ("bf16", 64, 64, "sink_window"), ("f16", 96, 96, "soft_cap"),
    ("bf16", 64, 64, "document"), ("bf16", 64, 64, "soft_cap_afn"),
)  # fmt: skip

# Other kernels of the forward: parts of the keys and their merge, wide heads, families and maxima that are asked for.
FORWARDS = (
    ("bf16", 64, 64, "causal", {"kv_splits": 2}), ("f32", 40, 40, "alibi", {"kv_splits": 2}),
    ("bf16", 320, 320, "causal", {}), ("f16", 512, 512, "sink_window", {}),
    ("bf16", 128, 128, "causal", {"family": "portable"}), ("bf16", 128, 128, "causal", {"exact_maximum": True}),
)  # fmt: skip


def run(type, head_dim, value_dim, mod, options, backward):
    start = time.monotonic()
    attention = Attention(type, 2, 1, head_dim, value_dim, MODS[mod])
    fn = attn.compile(attention.text(), **options)
    for q_len, kv_len in ((1, 1), (65, 129), (130, 70)):
        ours(attention, fn, make_inputs(attention, attention.shape(2, q_len, kv_len)), backward)
    torch.cuda.synchronize()
    asked = "".join(f" {name}={value}" for name, value in options.items())
    print(f"{type} {head_dim} x {value_dim} {mod}{asked}: {time.monotonic() - start:.1f} s", flush=True)


for case in CASES:
    run(*case, {}, backward="--forward" not in sys.argv)
for case in FORWARDS:
    run(*case, backward=False)
