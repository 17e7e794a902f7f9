# Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small calls, forward and backward, to run under compute-sanitizer: tools/dev gpu-test --sanitize."""

import sys

import conftest  # noqa: F401 (finds the package)
import attn
import torch
from contract import make_inputs, ours
from modules import MODS, Attention

CASES = (
    ("bf16", 64, 64, "causal"), ("bf16", 128, 128, "bottom_right"), ("f16", 40, 24, "alibi"), ("f32", 64, 80, "bias_f32"),
    ("bf16", 256, 256, "padding"), ("f32", 8, 8, "document"), ("bf16", 64, 64, "sink_window"), ("f16", 96, 96, "soft_cap"),
)  # fmt: skip

backward = "--forward" not in sys.argv
for type, head_dim, value_dim, mod in CASES:
    attention = Attention(type, 2, 1, head_dim, value_dim, MODS[mod])
    fn = attn.compile(attention.text())
    for q_len, kv_len in ((1, 1), (65, 129), (130, 70)):
        ours(attention, fn, make_inputs(attention, attention.shape(2, q_len, kv_len)), backward)
    torch.cuda.synchronize()
    print(f"{type} {head_dim} x {value_dim} {mod}", flush=True)
