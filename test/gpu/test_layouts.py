# Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Strides: what a view of a tensor holds is what counts, not how it lies in memory."""

import attn
import pytest
import torch
from contract import DEVICE, make_inputs, poisoned
from modules import MODS, Attention

LENGTHS = ((1, 1), (65, 130), (128, 128), (331, 257))


def compact(x):
    return x


def transposed(x):
    """Stored as [batch, length, heads, dim]."""
    return x.transpose(1, 2).contiguous().transpose(1, 2)


def odd_rows(x):
    """Rows of an odd number of elements."""
    pad = 1 + x.shape[-1] % 2
    return torch.nn.functional.pad(x, (0, pad), value=torch.nan)[..., : x.shape[-1]]


def odd_address(x):
    """From the second element of an allocation on."""
    memory = torch.full((x.numel() + 1,), torch.nan, dtype=x.dtype, device=x.device)
    memory[1:] = x.flatten()
    return memory[1:].view(x.shape)


def packed(x):
    """The middle of three in one row, as of a fused projection."""
    return torch.cat([torch.full_like(x, torch.nan), x, torch.full_like(x, torch.nan)], -1)[..., x.shape[-1] : 2 * x.shape[-1]]


def heads_first(x):
    return x.permute(1, 2, 0, 3).contiguous().permute(2, 0, 1, 3)


LAYOUTS = (transposed, odd_rows, odd_address, packed, heads_first)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("type", ("bf16", "f32"))
def test_layout(compiled, type, layout):
    """The same numbers as of compact tensors, in outputs of the layout, too; nothing beside them is written."""
    attention = Attention(type, 4, 2, 64, 80, MODS["bias_f32"])
    fn = compiled(attention)
    for q_len, kv_len in LENGTHS:
        inputs = make_inputs(attention, attention.shape(2, q_len, kv_len))
        (bias,) = inputs["captures"]
        tensors = [inputs[name] for name in "qkv"]

        def call(arrange):
            out = arrange(poisoned((2, 4, q_len, 80), attention.dtype))
            lse = poisoned((2, 4, q_len), torch.float32)
            fn(*map(arrange, tensors), bias, out=(out, lse))
            gradients = [arrange(poisoned(x.shape, attention.dtype)) for x in tensors]
            d_bias = poisoned(bias.shape, torch.float32)
            given = [arrange(out.contiguous()), lse, arrange(inputs["d_out"]), inputs["d_lse"]]
            fn.backward(*map(arrange, tensors), bias, *given, out=(*gradients, d_bias))
            return out, lse, *gradients, d_bias

        names = ("out", "lse", "d_q", "d_k", "d_v", "d_bias")
        for name, got, expected in zip(names, call(layout), call(compact)):
            # Another variant of the kernels may sum in another order.
            tolerance = 2e-2 if type == "bf16" else 2e-5
            scale = expected.abs().max().item() + 1
            torch.testing.assert_close(got, expected, rtol=0, atol=tolerance * scale, msg=lambda m: f"{name}: {m}")
            if name == "out" and layout is packed:
                assert got.as_strided(got.shape, got.stride(), got.storage_offset() - 80).isnan().all(), "written before"


@pytest.mark.parametrize("type", ("bf16", "f32"))
def test_broadcast_keys(compiled, type):
    """Keys and values of stride 0 over batch and heads."""
    attention = Attention(type, 4, 4, 64, 64, MODS["causal"])
    fn = compiled(attention)
    q, k, v = (torch.randn(3, 4, 129, 64, device=DEVICE).to(attention.dtype) for _ in range(3))
    k, v = (x[:1, :1].expand(3, 4, 129, 64) for x in (k, v))
    for got, expected in zip(fn(q, k, v), fn(q, k.contiguous(), v.contiguous())):
        assert torch.equal(got, expected)


def test_captured_view(compiled):
    """A captured tensor with strides of its own."""
    attention = Attention("bf16", 4, 2, 64, 64, MODS["bias_f32"])
    fn = compiled(attention)
    inputs = make_inputs(attention, attention.shape(2, 100, 90))
    (bias,) = inputs["captures"]
    tensors = [inputs[name] for name in "qkv"]
    view = torch.nn.functional.pad(bias, (3, 2, 1, 0), value=torch.nan)[:, 1:, 3:-2]
    assert torch.equal(fn(*tensors, view)[0], fn(*tensors, bias)[0])


def test_last_stride(compiled):
    fn = compiled(Attention("bf16", 1, 1, 64, 64, MODS["causal"]))
    q = torch.zeros(1, 1, 8, 64, device=DEVICE, dtype=torch.bfloat16)
    with pytest.raises(ValueError, match="parameter 'k' has stride 8 in its last dimension, expected 1"):
        fn(q, torch.zeros(1, 1, 64, 8, device=DEVICE, dtype=torch.bfloat16).mT, q)
    assert isinstance(fn, attn.Function)
