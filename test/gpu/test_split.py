# Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Few queries and long keys: keys in parts, chosen by sizes or by hand, and merges of parts that callers made."""

import json
import math

import attn
import pytest
import torch
from conftest import compile_text
from contract import DEVICE, check, make_inputs, max_error, poisoned, ulp
from modules import MODS, TYPES, Attention

DECODE = ((1, 1), (1, 0), (1, 511), (1, 512), (1, 8192), (2, 5003), (5, 8191), (16, 8192), (17, 4099), (64, 8192), (64, 1031), (129, 2003), (0, 600))


def parts_of(fn, *tensors, attention, shape):
    """How many parts a call computes its keys in: each has an output of f32 in the workspace; 0 is one for all. What
    else may be there, flags of tiles, is smaller than a part."""
    out = poisoned((shape.batch, shape.q_heads, shape.q_len, shape.value_dim), attention.dtype)
    return fn.workspace_bytes(*tensors, out=(out, poisoned(out.shape[:3], torch.float32))) // (4 * out.numel())


@pytest.mark.parametrize("mod", ("plain", "causal", "bottom_right", "window", "sink_window", "captured_window", "padding", "alibi", "bias_bf16", "document"))
@pytest.mark.parametrize("splits", (0, 5), ids=("chosen", "five"))
def test_mods(compiled, mod, splits):
    attention = Attention("bf16", 32, 8, 128, 128, MODS[mod])
    fn = compiled(attention, kv_splits=splits)
    problems = []
    for seed, (q_len, kv_len) in enumerate(DECODE):
        batch = 1 if kv_len > 5000 else 3
        problems += check(attention, fn, attention.shape(batch, q_len, kv_len), False, seed)
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("mod", ("bottom_right", "padding", "alibi", "soft_cap", "bias_bf16", "minus_infinity"))
@pytest.mark.parametrize("heads", ((32, 8), (64, 8), (12, 4), (9, 3)), ids=str)
def test_groups(compiled, heads, mod):
    """Queries of the heads of a group in tiles of 16 rows, of 64, and in several of them."""
    attention = Attention("bf16", *heads, 128, 64, MODS[mod])
    fn = compiled(attention)
    problems = []
    for seed, (batch, q_len, kv_len) in enumerate(((2, 1, 1031), (3, 2, 4099), (1, 4, 8192), (2, 5, 3001), (2, 16, 2047), (1, 64, 5000))):
        problems += check(attention, fn, attention.shape(batch, q_len, kv_len), False, seed)
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("mod", ("plain", "bottom_right"))
@pytest.mark.parametrize("head_dim", (64, 128))
def test_all_lengths(compiled, head_dim, mod):
    """No hang and no wrong number for any number of blocks of keys in a part: 0 to 300 keys in three."""
    attention = Attention("bf16", 6, 2, head_dim, head_dim, MODS[mod])
    fn = compiled(attention, kv_splits=3)
    problems = []
    for kv_len in range(301):
        problems += check(attention, fn, attention.shape(1, kv_len * 7 % 45, kv_len), False, seed=kv_len)
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("q_len", (1, 4, 16))
def test_garbage(compiled, q_len):
    """What the values of dropped pairs hold does not show; infinities of others do. (The hopper family, which has tiles of 16
    queries otherwise, computes such rows again, in another order.)"""
    attention = Attention("bf16", 32, 8, 128, 128, MODS["padding"])
    fn = compiled(attention, family="portable")
    shape = attention.shape(3, q_len, 4099)
    inputs = make_inputs(attention, shape, seed=3)
    q, k, v, (lengths,) = (inputs[name] for name in ("q", "k", "v", "captures"))
    lengths.clamp_(min=1)
    clean = fn(q, k, v, lengths)
    beyond = torch.arange(4099, device=DEVICE)[None, None, :, None] >= lengths[:, None, None, None]
    for garbage in (math.nan, math.inf):
        for got, expected in zip(fn(q, k, torch.where(beyond, garbage, v), lengths), clean):
            assert torch.equal(got, expected)
    kept = torch.where(beyond, math.nan, v)
    kept[:, :, 0, 5] = math.inf
    out, lse = fn(q, k, kept, lengths)
    assert torch.equal(lse, clean[1]) and (out[..., 5] == math.inf).all()
    assert torch.equal(out[..., 6:], clean[0][..., 6:]) and torch.equal(out[..., :5], clean[0][..., :5])


@pytest.mark.parametrize("batch, q_len, kv_len", ((1, 1, 8192), (40, 1, 2048), (1, 16, 8192)))
def test_nan(compiled, batch, q_len, kv_len):
    """A NaN that a row reads is in its results, whether all parts of it have one, or one has, or there is one."""
    attention = Attention("bf16", 32, 8, 128, 128, MODS["plain"])
    fn = compiled(attention)
    inputs = make_inputs(attention, attention.shape(batch, q_len, kv_len))
    q, k, v = (inputs[name].clone() for name in ("q", "k", "v"))
    q[:, 3, 0, 5] = math.nan
    out, lse = fn(q, k, v)
    expected = torch.zeros_like(lse, dtype=torch.bool)
    expected[:, 3, 0] = True
    assert torch.equal(lse.isnan(), expected) and torch.equal(out.isnan(), expected[..., None].expand_as(out))
    k[:, 1, 7] = math.nan  # of the heads 4 to 7
    out, lse = fn(q, k, v)
    expected[:, 4:8] = True
    assert torch.equal(lse.isnan(), expected) and torch.equal(out.isnan(), expected[..., None].expand_as(out))


@pytest.mark.parametrize("dims", ((64, 64, 8, 1), (40, 24, 6, 2), (80, 96, 5, 5), (256, 256, 4, 2), (33, 31, 3, 1)), ids=str)
@pytest.mark.parametrize("type", ("bf16", "f16", "f32"))
def test_dims(compiled, type, dims):
    head_dim, value_dim, q_heads, kv_heads = dims
    attention = Attention(type, q_heads, kv_heads, head_dim, value_dim, MODS["bottom_right"], dynamic_heads=True)
    fn = compiled(attention)
    problems = []
    for seed, (q_len, kv_len) in enumerate(((1, 4099), (3, 777), (64, 2048), (100, 1500), (2, 0), (1, 8192))):
        problems += check(attention, fn, attention.shape(2, q_len, kv_len), False, seed)
    assert not problems, "\n".join(problems)


def test_long(compiled):
    """128k keys, against the sums of a few rows."""
    attention = Attention("bf16", 32, 8, 128, 128, MODS["bottom_right"])
    problems = check(attention, compiled(attention), attention.shape(1, 1, 131072), False)
    problems += check(attention, compiled(attention), attention.shape(1, 3, 131071), False)
    assert not problems, "\n".join(problems)


def test_choice(compiled):
    """Parts where there are few queries, and none elsewhere; nothing is compiled for another length."""
    attention = Attention("bf16", 32, 8, 128, 128, MODS["causal"])
    fn = compiled(attention)
    for batch, q_len, kv_len, is_split in ((1, 1, 1000, False), (1, 2048, 2048, False), (4, 1024, 1024, False)):
        shape = attention.shape(batch, q_len, kv_len)
        inputs = make_inputs(attention, shape)
        assert bool(parts_of(fn, *(inputs[n] for n in "qkv"), attention=attention, shape=shape)) == is_split, shape
    plain = Attention("bf16", 32, 8, 128, 128, MODS["plain"])
    fn = compiled(plain)
    for kv_len, is_split in ((100, False), (8192, True), (131072, True)):
        shape = plain.shape(1, 1, kv_len)
        inputs = make_inputs(plain, shape)
        assert bool(parts_of(fn, *(inputs[n] for n in "qkv"), attention=plain, shape=shape)) == is_split, shape
    assert [v["name"] for v in json.loads(fn.launch_plan())["variants"]] == ["many_rows", "split_kv", "aligned", "any"]


@pytest.mark.parametrize("q_len", (1, 4, 16))
def test_repeats(compiled, q_len):
    attention = Attention("bf16", 32, 8, 128, 128, MODS["bottom_right"])
    fn = compiled(attention)
    inputs = make_inputs(attention, attention.shape(1, q_len, 8191))
    tensors = [inputs[name] for name in "qkv"]
    first = fn(*tensors)
    for _ in range(100):
        for got, expected in zip(fn(*tensors), first):
            assert torch.equal(got, expected)


def test_graph(compiled):
    """A graph holds the parts that its call had, and a workspace that later calls leave alone."""
    attention = Attention("bf16", 32, 8, 128, 128, MODS["bottom_right"])
    fn = compiled(attention)
    tensors = [make_inputs(attention, attention.shape(1, 1, 8192))[name] for name in "qkv"]
    out, lse = poisoned(tensors[0].shape, torch.bfloat16), poisoned(tensors[0].shape[:3], torch.float32)
    fn(*tensors, out=(out, lse))
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        fn(*tensors, out=(out, lse))
    fresh = make_inputs(attention, attention.shape(1, 1, 8192), seed=7)
    for to, name in zip(tensors, "qkv"):
        to.copy_(fresh[name])
    graph.replay()
    torch.cuda.synchronize()
    expected = fn(*tensors)
    assert torch.equal(out, expected[0]) and torch.equal(lse, expected[1])


def merge_text(type, heads, value_dim, count, stacked=False):
    out, lse = f"tensor<?x{heads}x?x{value_dim}x{type}>", f"tensor<?x{heads}x?xf32>"
    if stacked:
        part, part_lse = f"tensor<?x?x{heads}x?x{value_dim}xf32>", f"tensor<?x?x{heads}x?xf32>"
    else:
        part, part_lse = out, lse
    arguments = ", ".join(f"%o{i}: {part}, %l{i}: {part_lse}" for i in range(count))
    parts = ", ".join(f"(%o{i}, %l{i})" for i in range(count))
    return f"""
func.func @merge({arguments}) -> ({out}, {lse}) {{
  %out, %lse = attn.merge {parts} : {part}, {part_lse} -> {out}, {lse}
  return %out, %lse : {out}, {lse}
}}
"""


def merged(outs, lses):
    """In f64, by the formula; a part without a key has a weight of 0, whatever its out is."""
    outs, lses = torch.stack(outs).double(), torch.stack(lses).double()
    top = lses.amax(0)
    weights = torch.where(lses == -math.inf, 0.0, torch.exp(lses - torch.where(top == -math.inf, 0.0, top)))
    total = weights.sum(0)
    sums = torch.where(weights[..., None] == 0, 0.0, weights[..., None] * outs).sum(0)
    out = torch.where(total[..., None] == 0, 0.0, sums / torch.where(total == 0, 1.0, total)[..., None])
    return out, torch.where(total == 0, -math.inf, top + torch.log(total))


@pytest.mark.parametrize("count", (2, 3, 8, 70))
@pytest.mark.parametrize("type", ("bf16", "f16", "f32"))
@pytest.mark.parametrize("value_dim", (1, 40, 128, 512))
def test_merge(type, count, value_dim):
    """Separate parts, as of ring attention: some without a key, whose out is NaN, and rows that no part has a key for."""
    if count == 70 and value_dim != 40:
        pytest.skip("the other numbers of columns cover it")
    fn = compile_text(merge_text(type, 3, value_dim, count), entry="merge")
    for batch, q_len in ((2, 65), (1, 1), (1, 0)):
        generator = torch.Generator(DEVICE).manual_seed(count)
        shape = (batch, 3, q_len)
        outs = [torch.randn((*shape, value_dim), generator=generator, device=DEVICE).to(TYPES[type]) for _ in range(count)]
        lses = [10 * torch.randn(shape, generator=generator, device=DEVICE) for _ in range(count)]
        for number, (out, lse) in enumerate(zip(outs, lses)):
            empty = torch.rand(shape, generator=generator, device=DEVICE) < 0.3
            empty[:, 0] = True  # no part has a key for this head
            lse[empty], out[empty] = -math.inf, math.nan
        result = poisoned((*shape, value_dim), TYPES[type]), poisoned(shape, torch.float32)
        fn(*(x for part in zip(outs, lses) for x in part), out=result)
        for got, exact in zip(result, merged(outs, lses)):
            finite = exact[torch.isfinite(exact)]
            largest = finite.abs().amax().item() if finite.numel() else 0.0
            assert max_error(got, exact) <= ulp(got.dtype, largest) * (1 if got.dtype != torch.float32 else 8)


def test_merge_of_pieces(compiled):
    """A cache in two pieces, merged, is the attention over both; a stack of parts as well."""
    attention = Attention("bf16", 8, 2, 64, 64, MODS["plain"])
    fn = compiled(attention)
    inputs = make_inputs(attention, attention.shape(2, 33, 1000))
    q, k, v = (inputs[name] for name in "qkv")
    whole = fn(q, k, v)
    cuts = [(0, 700), (700, 700), (700, 1000)]
    parts = [fn(q, k[:, :, a:b].contiguous(), v[:, :, a:b].contiguous()) for a, b in cuts]
    merge = compile_text(merge_text("bf16", 8, 64, 3), entry="merge")
    got = merge(*(x for part in parts for x in part))
    stack = compile_text(merge_text("bf16", 8, 64, 1, stacked=True), entry="merge")
    stacked = stack(torch.stack([out.float() for out, _ in parts]), torch.stack([lse for _, lse in parts]))
    for result in (got, stacked):
        torch.testing.assert_close(result[0], whole[0], rtol=2e-2, atol=1e-2)
        torch.testing.assert_close(result[1], whole[1], rtol=1e-6, atol=1e-5)
    with pytest.raises(ValueError, match="must be"):
        merge(*(x for part in parts[:2] for x in part), parts[2][0][:, :, :5].contiguous(), parts[2][1])


def test_strides(compiled):
    """Heads beside each other in memory, as projections leave them; tensors that are not aligned take no parts."""
    attention = Attention("bf16", 32, 8, 64, 64, MODS["bottom_right"])
    fn = compiled(attention)
    inputs = make_inputs(attention, attention.shape(2, 3, 4099))
    q, k, v = (inputs[name] for name in "qkv")
    expected = fn(q, k, v)
    got = fn(*(x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)))
    assert all(torch.equal(x, y) for x, y in zip(got, expected))
    odd = [torch.empty(x.numel() + 1, dtype=x.dtype, device=x.device)[1:].view(x.shape).copy_(x) for x in (q, k, v)]
    for x, y in zip(fn(*odd), expected):
        torch.testing.assert_close(x, y, rtol=2e-2, atol=1e-2)
