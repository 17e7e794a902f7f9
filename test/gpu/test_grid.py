# Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The numeric contract over a grid. A test compiles one function and calls it for many lengths."""

import pytest
from contract import check
from modules import MODS, Attention

LENGTHS = (0, 1, 63, 64, 65, 127, 128, 129, 257, 331, 1000)
CROSS = ((1, 1000), (1000, 1), (64, 331), (331, 64), (0, 5), (5, 0), (129, 257), (257, 65))
ALL_LENGTHS = tuple((n, n) for n in LENGTHS) + CROSS
SOME_LENGTHS = ((0, 0), (1, 1), (65, 65), (128, 128), (331, 331), (257, 129), (64, 331), (7, 0), (1, 257))

# head_dim, value_dim, query heads, key heads
DIMS = (
    (1, 1, 2, 2), (8, 16, 3, 1), (40, 24, 2, 2), (64, 64, 4, 2), (80, 96, 2, 1), (96, 64, 3, 3),
    (128, 128, 6, 2), (192, 128, 2, 2), (256, 256, 2, 1), (64, 256, 2, 2), (256, 8, 2, 2),
)  # fmt: skip


# Of the forward only.
WIDE_DIMS = ((512, 512, 2, 1), (512, 64, 2, 2), (64, 512, 2, 1), (320, 320, 1, 1), (257, 257, 2, 2), (500, 8, 1, 1))


def run(compiled, attention, lengths, backward, batch=2):
    fn = compiled(attention)
    problems = []
    for seed, (q_len, kv_len) in enumerate(lengths):
        problems += check(attention, fn, attention.shape(batch, q_len, kv_len), backward, seed)
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("direction", ("forward", "backward"))
@pytest.mark.parametrize("dims", DIMS, ids=lambda d: f"d{d[0]}v{d[1]}")
@pytest.mark.parametrize("mod", ("plain", "causal"))
@pytest.mark.parametrize("type", ("bf16", "f16", "f32"))
def test_dims(compiled, type, mod, dims, direction):
    if mod == "plain" and (type == "f16" or dims[0] not in (64, 80, 128)):
        pytest.skip("the causal case covers it")
    head_dim, value_dim, q_heads, kv_heads = dims
    attention = Attention(type, q_heads, kv_heads, head_dim, value_dim, MODS[mod])
    run(compiled, attention, ALL_LENGTHS if head_dim in (64, 128) else SOME_LENGTHS, direction == "backward")


@pytest.mark.parametrize("dims", WIDE_DIMS, ids=lambda d: f"d{d[0]}v{d[1]}")
@pytest.mark.parametrize("mod", ("causal", "alibi", "soft_cap_afn", "document"))
@pytest.mark.parametrize("type", ("bf16", "f16", "f32"))
def test_wide(compiled, type, mod, dims):
    if mod != "causal" and dims != (512, 512, 2, 1):
        pytest.skip("the causal case covers it")
    if type == "f32" and mod.endswith("_afn"):
        pytest.skip("an approximation is asked for, which shows in f32")
    head_dim, value_dim, q_heads, kv_heads = dims
    attention = Attention(type, q_heads, kv_heads, head_dim, value_dim, MODS[mod])
    run(compiled, attention, SOME_LENGTHS, False)


@pytest.mark.parametrize("direction", ("forward", "backward"))
@pytest.mark.parametrize("mod", [name for name in MODS if name not in ("plain", "causal")])
@pytest.mark.parametrize("type", ("bf16", "f32"))
def test_mods(compiled, type, mod, direction):
    if type == "f32" and mod.endswith("_afn"):
        pytest.skip("an approximation is asked for, which shows in f32")
    attention = Attention(type, 4, 2, 64, 64, MODS[mod])
    run(compiled, attention, ALL_LENGTHS if type == "bf16" else SOME_LENGTHS, direction == "backward", batch=3)


@pytest.mark.parametrize("direction", ("forward", "backward"))
@pytest.mark.parametrize("heads", ((12, 2), (7, 1), (5, 5), (6, 3)), ids=str)
def test_heads(compiled, heads, direction):
    """Heads that the module leaves open; ratios that are no powers of two; a scale of its own."""
    attention = Attention("f16", *heads, 64, 64, MODS["causal"], scale=0.3, dynamic_heads=True)
    run(compiled, attention, SOME_LENGTHS, direction == "backward")


@pytest.mark.parametrize("direction", ("forward", "backward"))
@pytest.mark.parametrize("blocks", ((64, 64), (64, 128), (128, 64)), ids=str)
def test_schedules(compiled, blocks, direction):
    """Tiles given by hand."""
    attention = Attention("bf16", 4, 2, 64, 64, MODS["alibi"])
    fn = compiled(attention, block_m=blocks[0], block_n=blocks[1])
    problems = []
    for seed, (q_len, kv_len) in enumerate(SOME_LENGTHS):
        problems += check(attention, fn, attention.shape(2, q_len, kv_len), direction == "backward", seed)
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("direction", ("forward", "backward"))
@pytest.mark.parametrize("mod", ("plain", "causal", "alibi", "soft_cap_causal"))
@pytest.mark.parametrize("dims", ((64, 64), (128, 128), (80, 40), (256, 256)), ids=str)
def test_tf32(compiled, dims, mod, direction):
    """Asked for, products of f32 have operands of tf32, and no larger error than that."""
    attention = Attention("f32", 4, 2, *dims, MODS[mod], tf32=True)
    fn = compiled(attention, tf32=True)
    problems = []
    for seed, (q_len, kv_len) in enumerate(SOME_LENGTHS):
        problems += check(attention, fn, attention.shape(2, q_len, kv_len), direction == "backward", seed)
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("dims", ((64, 64), (128, 128), (256, 256), (80, 40), (40, 256)), ids=str)
@pytest.mark.parametrize("mod", ("plain", "causal", "window", "soft_cap_afn", "document"))
@pytest.mark.parametrize("type", ("bf16", "f16", "f32"))
def test_deterministic(compiled, type, mod, dims):
    """Two kernels without atomic additions compute the gradients."""
    if mod != "causal" and (type == "f16" or dims != (64, 64)):
        pytest.skip("the causal case covers it")
    if type == "f32" and mod.endswith("_afn"):
        pytest.skip("an approximation is asked for, which shows in f32")
    attention = Attention(type, 4, 2, *dims, MODS[mod])
    fn = compiled(attention, deterministic=True)
    problems = []
    for seed, (q_len, kv_len) in enumerate(SOME_LENGTHS):
        problems += check(attention, fn, attention.shape(2, q_len, kv_len), True, seed)
    assert not problems, "\n".join(problems)
