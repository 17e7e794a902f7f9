# Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Faults that other attention kernels shipped: extreme scores, and sizes beyond 16 and 32 bits."""

import pytest
import torch
from contract import DEVICE, check, check_inputs, compute, make_inputs, max_error, ours, poisoned
from modules import MODS, Attention, Capture, Mod


def free_gigabytes():
    return torch.cuda.mem_get_info()[0] / 2**30 if DEVICE == "cuda" else 0


def check_rows(attention, tensors, results, rows, captures=()):
    """Compares some batch entries, or some rows, with the reference of those alone."""
    inputs = dict(zip("qkv", tensors), captures=list(captures))
    exact, standard = (compute(attention, inputs, is_exact, False) for is_exact in (True, False))
    for name in ("out", "lse"):
        got, unit = results[name], 2 * torch.finfo(results[name].dtype).eps * (exact[name].abs().max().item() + 1e-3)
        error, allowed = max_error(got, exact[name]), max_error(standard[name], exact[name])
        assert error <= 2 * allowed + unit, (rows, name, error, allowed)


@pytest.mark.parametrize("type", ("bf16", "f16"))
def test_steep_scores(compiled, type):
    """Derivatives of scores that f16 cannot hold, in places where the gradients are 0: one key."""
    attention = Attention(type, 1, 1, 64, 64, Mod(
        score="%r = math.exp %s : f32\n attn.yield %r : f32", torch_score=lambda s, b, h, q, k, n: torch.exp(s)
    ))  # fmt: skip
    inputs = make_inputs(attention, attention.shape(1, 3, 1))
    inputs["q"].fill_(1), inputs["k"].fill_(1.5)  # scores of 12
    inputs["d_lse"].zero_()  # that of one score is 1 times its derivative
    for name, result in ours(attention, compiled(attention), inputs, True).items():
        assert torch.isfinite(result).all(), name


@pytest.mark.parametrize("type", ("bf16", "f16", "f32"))
def test_very_negative_lse(compiled, type):
    """lse below -88.7, whose negated exponential overflows f32."""
    attention = Attention(type, 2, 2, 64, 64, Mod(
        captures=(Capture("shift", "f32", lambda shape, generator: -150.0),),
        score="%r = arith.addf %s, %shift : f32\n attn.yield %r : f32",
        torch_score=lambda s, b, h, q, k, n, shift: s + shift,
    ))  # fmt: skip
    fn = compiled(attention)
    problems = [p for shape in ((1, 128), (128, 128), (65, 257)) for p in check(attention, fn, attention.shape(1, *shape), True)]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("type", ("bf16", "f32"))
def test_scores_below_sentinels(compiled, type):
    """All scores near -6e4: below what others take for minus infinity. And scores near 6e4."""
    attention = Attention(type, 1, 1, 64, 64, Mod(
        captures=(Capture("shift", "f32", lambda shape, generator: -6e4),),
        score="%r = arith.addf %s, %shift : f32\n attn.yield %r : f32",
        torch_score=lambda s, b, h, q, k, n, shift: s + shift,
    ))  # fmt: skip
    fn = compiled(attention)
    inputs = make_inputs(attention, attention.shape(1, 100, 200))
    for shift in (-6e4, 6e4, -1e30):
        inputs["captures"] = [shift]
        got = ours(attention, fn, inputs, False)
        exact = compute(attention, inputs, False, False)  # the sum is f32's
        assert max_error(got["out"], exact["out"].double()) < 0.05, shift
        torch.testing.assert_close(got["lse"], exact["lse"])


def test_large_scores(compiled):
    """Raw scores of thousands: one key takes all; nothing overflows, in the gradients neither."""
    attention = Attention("bf16", 2, 1, 64, 64, MODS["causal"])
    fn = compiled(attention)
    inputs = make_inputs(attention, attention.shape(2, 200, 200))
    inputs["q"], inputs["k"] = inputs["q"] * 60, inputs["k"] * 60
    got, exact = ours(attention, fn, inputs, True), compute(attention, inputs, True, True)
    for name, result in got.items():
        assert result.isfinite().all(), name
    assert max_error(got["out"], exact["out"]) < 0.1
    assert max_error(got["lse"], exact["lse"]) < 0.05


@pytest.mark.parametrize("deterministic", (False, True))
def test_huge_scores(compiled, deterministic):
    """Scores of 2^39, which f32 holds in steps of thousands: still one key takes all."""
    attention = Attention("bf16", 2, 1, 64, 64, MODS["causal"])
    fn = compiled(attention, deterministic=deterministic)
    inputs = make_inputs(attention, attention.shape(2, 200, 200))
    inputs["q"], inputs["k"] = inputs["q"] * 3e5, inputs["k"] * 3e5
    inputs["d_lse"].zero_()
    got, exact = ours(attention, fn, inputs, True), compute(attention, inputs, True, True)
    for name, result in got.items():
        assert result.isfinite().all(), name
    assert max_error(got["out"], exact["out"]) < 0.05 and max_error(got["d_v"], exact["d_v"]) < 0.1


def spoil(inputs, name, share, seed):
    """Infinities and NaNs in some elements of a share of the rows."""
    x = inputs[name]
    generator = torch.Generator(x.device).manual_seed(seed)

    def some(share, *size):
        return torch.rand(size, generator=generator, device=x.device) < share

    kind = torch.randint(3, x.shape, generator=generator, device=x.device)
    garbage = torch.tensor([torch.nan, torch.inf, -torch.inf], dtype=x.dtype, device=x.device)[kind]
    inputs[name] = torch.where(some(share, *x.shape[:3], 1) & some(0.1, *x.shape), garbage, x)


def replace_rows(inputs, names, begin, end, number):
    """Rows of the tensors from `begin` on, which may be one position for each batch entry."""
    for name in names:
        at = torch.arange(inputs[name].shape[2], device=DEVICE)[:, None]
        inputs[name] = torch.where((at >= begin) & (at < end), number, inputs[name])


def make_garbage(attention, shape, seed, backward):
    """What dropped pairs hold is not finite: values that some queries keep and others drop, keys that all drop. For gradients also
    keys that late queries keep, and early queries whose keys others keep, too."""
    inputs = make_inputs(attention, shape, seed)
    names = [capture.name for capture in attention.mod.captures]
    if "lengths" in names:
        lengths = torch.tensor([shape.kv_len // 5, shape.kv_len - 3], device=DEVICE)
        inputs["captures"][names.index("lengths")] = lengths
        replace_rows(inputs, "k", lengths[:, None, None, None], shape.kv_len, torch.nan)
        replace_rows(inputs, "v", lengths[:, None, None, None], shape.kv_len, torch.inf)
    if not backward:
        spoil(inputs, "v", 0.05, seed)
        return [inputs]
    if "lengths" in names:
        return [inputs]
    few = attention.mod is MODS["minus_infinity"]  # of many keys each query would keep some
    late, early, d_out = dict(inputs), dict(inputs), dict(inputs)
    replace_rows(late, "kv", shape.kv_len - (1 if few else 41), shape.kv_len, torch.nan)
    replace_rows(early, ("q", "d_out"), 0, 1 if few else 23, torch.inf)
    spoil(d_out, "d_out", 0.02, seed)
    return [late, early, d_out]


def check_garbage(attention, fn, sizes, backward):
    """What dropped pairs hold does not show, and what kept ones hold does."""
    problems = []
    for seed, (q_len, kv_len) in enumerate(sizes):
        shape = attention.shape(2, q_len, kv_len)
        for number, inputs in enumerate(make_garbage(attention, shape, seed, backward)):
            problems += [f"{number}: {problem}" for problem in check_inputs(attention, fn, shape, inputs, backward)]
    assert not problems, "\n".join(problems)


GARBAGE_SIZES = ((200, 200), (129, 70), (1, 33), (300, 300))


@pytest.mark.parametrize("dim", (64, 128, 256, 512))
@pytest.mark.parametrize("mod", ("causal", "padding", "window", "document", "soft_cap_afn", "minus_infinity"))
@pytest.mark.parametrize("type", ("bf16", "f16", "f32"))
def test_garbage(compiled, type, mod, dim):
    if dim != 64 and mod not in ("causal", "padding"):
        pytest.skip("the other masks cover it")
    if type == "f32" and mod.endswith("_afn"):
        pytest.skip("an approximation is asked for, which shows in f32")
    attention = Attention(type, 4, 2, dim, dim, MODS[mod])
    check_garbage(attention, compiled(attention), GARBAGE_SIZES, False)


@pytest.mark.parametrize(
    "dim, mod",
    [
        *((64, mod) for mod in ("causal", "padding", "window", "document", "lines", "alibi", "minus_infinity", "soft_cap_afn")),
        (80, "bottom_right"), (128, "causal"), (128, "minus_infinity"), (128, "window"), (256, "causal"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("type", ("bf16", "f16", "f32"))
def test_garbage_backward(compiled, type, dim, mod):
    if type == "f16" and (dim != 64 or mod == "alibi"):
        pytest.skip("bf16 covers it; probabilities of far keys are 0 in f16")
    if type == "f32" and mod.endswith("_afn"):
        pytest.skip("an approximation is asked for, which shows in f32")
    attention = Attention(type, 4, 2, dim, dim, MODS[mod])
    check_garbage(attention, compiled(attention), GARBAGE_SIZES, True)


@pytest.mark.parametrize("dim", (64, 128))
@pytest.mark.parametrize("type", ("bf16", "f32"))
def test_garbage_deterministic(compiled, type, dim):
    attention = Attention(type, 4, 2, dim, dim, MODS["causal"])
    check_garbage(attention, compiled(attention, deterministic=True), GARBAGE_SIZES, True)


@pytest.mark.parametrize("mod", ("bias_f32", "soft_cap"))
def test_garbage_captures(compiled, mod):
    """The gradients of captures have nothing of dropped pairs, and nothing of queries beyond the last."""
    base, mask = MODS[mod], MODS["causal" if mod == "bias_f32" else "padding"]
    count = len(base.captures)
    attention = Attention("bf16", 4, 2, 64, 64, Mod(
        captures=base.captures + mask.captures, score=base.score, mask=mask.mask,
        torch_score=lambda s, b, h, q, k, n, *captures: base.torch_score(s, b, h, q, k, n, *captures[:count]),
        torch_mask=lambda s, b, h, q, k, n, *captures: mask.torch_mask(s, b, h, q, k, n, *captures[count:]),
    ))  # fmt: skip
    check_garbage(attention, compiled(attention), ((200, 200), (129, 70)), True)


@pytest.mark.parametrize("mod", ("bottom_right", "padding"))
def test_garbage_in_parts(compiled, mod):
    attention = Attention("bf16", 8, 2, 128, 128, MODS[mod])
    check_garbage(attention, compiled(attention, kv_splits=3), ((1, 700), (5, 300)), False)
    check_garbage(attention, compiled(attention), ((2, 2000), (16, 2048), (40, 3001)), False)


def test_garbage_tf32(compiled):
    attention = Attention("f32", 4, 2, 64, 64, MODS["causal"], tf32=True)
    for backward in (False, True):
        check_garbage(attention, compiled(attention, tf32=True), ((200, 200),), backward)


def test_same_key(compiled):
    """(1, 1, 1, 16) in f16: with one key the softmax is 1, and dQ is 0."""
    attention = Attention("f16", 1, 1, 16, 16, MODS["plain"])
    fn = compiled(attention)
    inputs = make_inputs(attention, attention.shape(1, 1, 1))
    inputs["d_lse"].zero_()
    got = ours(attention, fn, inputs, True)
    assert torch.equal(got["out"], inputs["v"])
    assert got["d_q"].abs().max() <= 1e-3 and got["d_k"].abs().max() <= 1e-3


@pytest.mark.parametrize(
    "batch, heads, q_len, kv_len, dim, type",
    (
        (1, 65536, 10, 10, 16, "f32"), (65536, 1, 3, 5, 40, "bf16"), (1600, 16, 29, 29, 72, "bf16"),
        (3, 1, 70001, 33, 64, "bf16"), (1, 1, 33, 70001, 64, "bf16"),
    ),
)  # fmt: skip
def test_many(compiled, batch, heads, q_len, kv_len, dim, type):
    """More batch entries, heads, queries or keys than a grid's dimension or 16 bits hold."""
    attention = Attention(type, heads, heads, dim, dim, MODS["plain"], dynamic_heads=True)
    fn = compiled(attention)
    inputs = make_inputs(attention, attention.shape(batch, q_len, kv_len))
    got = ours(attention, fn, inputs, True)
    assert all(result.isfinite().all() for result in got.values())
    for b in (0, batch - 1):
        for h in (0, heads - 1):
            part = {name: x if name == "captures" else x[b : b + 1, h : h + 1] for name, x in inputs.items()}
            exact, standard = (compute(attention, part, is_exact, True) for is_exact in (True, False))
            for name, result in got.items():
                error = max_error(result[b : b + 1, h : h + 1], exact[name])
                allowed = max_error(standard[name], exact[name])
                unit = 2 * torch.finfo(result.dtype).eps * (exact[name].abs().max().item() + 1e-3)
                assert error <= 3 * allowed + unit, (name, b, h, error, allowed)


@pytest.mark.alone
@pytest.mark.parametrize("which", ("queries", "keys", "batch", "strides"))
def test_beyond_32_bits(compiled, which):
    """Tensors of more than 2^31 elements, and strides that reach so far."""
    if free_gigabytes() < 40:
        pytest.skip(f"needs 40 GB of GPU memory, {free_gigabytes():.0f} are free")
    attention = Attention("bf16", 1, 1, 64, 64, MODS["plain"])
    fn = compiled(attention)
    many = (1 << 25) + 77  # rows of 64
    dims = {"queries": (1, many, 40), "keys": (1, 1, many), "batch": (1 << 19, 65, 3), "strides": (2, 65, 65)}[which]
    batch, q_len, kv_len = dims

    def normal(length):
        if which == "strides":
            memory = torch.empty(batch, 1, length, 1 << 25, dtype=torch.bfloat16, device="cuda")
            part = memory[..., -64:]
            part.copy_(torch.randn(batch, 1, length, 64, device="cuda"))
            return part
        return torch.randn(batch, 1, length, 64, dtype=torch.bfloat16, device="cuda")

    q = normal(q_len)
    k, v = (normal(kv_len), normal(kv_len)) if which != "strides" else (q, q)
    out = poisoned((batch, 1, q_len, 64), torch.bfloat16)
    lse = poisoned((batch, 1, q_len), torch.float32)
    fn(q, k, v, out=(out, lse))
    if which == "keys":
        # The standard computation of so many keys, in parts.
        s = torch.cat([q.double() @ part.double().mT for part in k.split(1 << 22, 2)], -1) / 8
        top = s.amax(-1, keepdim=True)
        p = torch.exp(s - top)
        exact = sum(w @ x.double() for w, x in zip(p.split(1 << 22, 3), v.split(1 << 22, 2))) / p.sum(-1, keepdim=True)
        assert max_error(lse, (top + torch.log(p.sum(-1, keepdim=True)))[..., 0]) < 2e-3  # a sum of so many in f32
        assert max_error(out, exact) < 1e-4
        return
    last = min(64, q_len)
    for rows in (slice(0, last), slice(q_len - last, q_len)):
        for b in (0, batch - 1):
            part = (q[b : b + 1, :, rows], k[b : b + 1], v[b : b + 1])
            check_rows(attention, part, {"out": out[b : b + 1, :, rows], "lse": lse[b : b + 1, :, rows]}, rows)


def test_bias_for_many(compiled):
    """(262144, 1, 1, 40) with a bias."""
    attention = Attention("bf16", 1, 1, 40, 40, MODS["bias_bf16"])
    fn = compiled(attention)
    inputs = make_inputs(attention, attention.shape(262144, 1, 1))
    got = ours(attention, fn, inputs, False)
    assert torch.equal(got["out"], inputs["v"])
