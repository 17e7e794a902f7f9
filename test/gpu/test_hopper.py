# Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The hopper family of forward kernels: every trip count, scores that outgrow a fixed maximum, the same bits each time."""

import dataclasses

import attn
import pytest
import torch
from contract import check, compute, make_inputs
from modules import MODS, TYPES, Attention, Capture, Mod

pytestmark = pytest.mark.skipif(
    torch.cuda.is_available() and torch.cuda.get_device_capability() != (9, 0), reason="for sm_90a"
)


# Scores of which the compiler knows a part, as a row's or as a multiple of the key's number.
DISTANCE = """
      %distance = arith.subi %kv_idx, %q_idx : index
      %i = arith.index_cast %distance : index to i32
      %f = arith.sitofp %i : i32 to f32"""
SLOPES = Capture("slopes", "tensor<?xf32>", lambda shape, generator: torch.linspace(-0.2, 0.4, shape.q_heads, device="cuda"))
ROWS = Capture("rows", "tensor<?xf32>", lambda shape, generator: 50 * torch.randn(shape.q_len, device="cuda", generator=generator))
TABLE = Capture("table", "tensor<?xf32>", lambda shape, generator: torch.randn(shape.kv_len, device="cuda", generator=generator))
PARTS = {
    "column": Mod(
        captures=(SLOPES,),
        score=f"""{DISTANCE}
      %slope = tensor.extract %slopes[%h] : tensor<?xf32>
      %bias = arith.mulf %slope, %f : f32
      %r = arith.addf %s, %bias : f32
      attn.yield %r : f32""",
        torch_score=lambda s, b, h, q, k, n, slopes: s + slopes[h].to(s.dtype) * (k - q).to(s.dtype),
    ),
    "row": Mod(
        captures=(ROWS,),
        score="""
      %row = tensor.extract %rows[%q_idx] : tensor<?xf32>
      %one = arith.constant 1.0 : f32
      %i = arith.index_cast %q_idx : index to i32
      %f = arith.sitofp %i : i32 to f32
      %number = arith.addf %f, %one : f32
      %log = math.log %number : f32
      %scaled = arith.mulf %s, %log : f32
      %r = arith.subf %scaled, %row : f32
      attn.yield %r : f32""",
        torch_score=lambda s, b, h, q, k, n, rows: s * torch.log((q + 1).to(s.dtype)) - rows[q].to(s.dtype),
    ),
    "composed": Mod(  # with a slope for each row, and a table of keys
        captures=(TABLE,),
        score=f"""{DISTANCE}
      %entry = tensor.extract %table[%kv_idx] : tensor<?xf32>
      %two = arith.constant 2.0 : f32
      %small = arith.constant 0.001 : f32
      %q_i = arith.index_cast %q_idx : index to i32
      %q_f = arith.sitofp %q_i : i32 to f32
      %sine = math.sin %q_f : f32
      %row_slope = arith.mulf %sine, %small : f32
      %bias = arith.mulf %f, %row_slope : f32
      %half = arith.divf %s, %two : f32
      %with = arith.addf %entry, %half : f32
      %r = arith.subf %bias, %with : f32
      attn.yield %r : f32""",
        torch_score=lambda s, b, h, q, k, n, table: 0.001 * torch.sin(q.to(s.dtype)) * (k - q).to(s.dtype)
        - (table[k].to(s.dtype) + s / 2),
    ),
}
# And one whose tanh is a polynomial where scores are small.
PARTS["soft_cap"] = Mod(
    score="""
      %cap = arith.constant 20.0 : f32
      %x = arith.divf %s, %cap : f32
      %t = math.tanh %x fastmath<afn> : f32
      %r = arith.mulf %t, %cap : f32
      attn.yield %r : f32""",
    torch_score=lambda s, b, h, q, k, n: 20 * torch.tanh(s / 20),
)
PARTS |= {"causal_" + name: dataclasses.replace(mod, mask=MODS["causal"].mask, torch_mask=MODS["causal"].torch_mask) for name, mod in PARTS.items()}


def run(fn, inputs, like):
    out = torch.full_like(like["out"], torch.nan)
    lse = torch.full(like["lse"].shape, torch.nan, device="cuda")
    fn(inputs["q"], inputs["k"], inputs["v"], *inputs["captures"], out=(out, lse))
    return out, lse


@pytest.mark.parametrize("mod", ("plain", "causal", "window"))
@pytest.mark.parametrize("head_dim, block_m", ((64, 0), (64, 192), (128, 0), (256, 0)))
def test_all_lengths(head_dim, block_m, mod):
    """No hang and no wrong number for any number of blocks of queries and keys: 0 to 300 in both. (Few queries under a mask
    would not be given tiles of 192.)"""
    attention = Attention("bf16", 2, 1, head_dim, head_dim, MODS[mod])
    fn = attn.compile(attention.text(), family="hopper", block_m=block_m)
    problems = []
    for length in range(301):
        for q_len, kv_len in ((length, length), (length, 300 - length)):
            problems += check(attention, fn, attention.shape(1, q_len, kv_len), backward=False, seed=length)
    assert not problems, "\n".join(problems)


def grow(kind, q, k, v):
    """Scores that leave the maximum of the first block of keys behind, or lie far from 0."""
    n = k.shape[2]
    place = torch.arange(n, device=k.device)
    if kind == "jump":
        q[..., 0], k[..., 0] = 16, 0
        k[:, :, n // 2 : n // 2 + 20, 0], k[:, :, -40:, 0] = 60, 100
    elif kind == "ramp":
        q[..., 0], k[..., 0] = 8, place.to(k.dtype) / 4
    elif kind in ("wide", "peaky"):
        q *= 6 if kind == "wide" else 24
    elif kind == "negative":
        q[..., 0], k[..., 0] = 64, -1000
    elif kind == "large_values":  # the sum of a row fits, but not its product with values
        q[..., 0], k[..., 0] = 16, 0
        k[:, :, n // 2 : n // 2 + 20, 0] = 46
        v *= 2.0**30
    else:  # huge, of both signs, and all different: lse, by which parts are merged, cannot tell how many keys share a maximum of 1e35
        order = torch.randperm(n, generator=torch.Generator().manual_seed(0)).to(k.device)
        size = (1 + order % 128 / 128) * 2.0 ** (order // 128 + 52)
        q[..., 0], k[..., 0] = 2e18, torch.where(place % 2 == 0, size, -size).to(k.dtype)


@pytest.mark.parametrize("kind", ("jump", "ramp", "wide", "peaky", "negative", "huge", "large_values"))
@pytest.mark.parametrize("mod", ("plain", "causal", "alibi", "column", "row", "causal_composed", "soft_cap", "causal_soft_cap", "bias_bf16"))
@pytest.mark.parametrize("exact", (False, True))
def test_outgrown_maximum(kind, mod, exact):
    attention = Attention("bf16", 4, 2, 128, 128, PARTS.get(mod) or MODS[mod])
    fn = attn.compile(attention.text(), family="hopper", exact_maximum=exact)
    inputs = make_inputs(attention, attention.shape(1, 1000, 1100))
    grow(kind, inputs["q"], inputs["k"], inputs["v"])
    expected, standard = (compute(attention, inputs, is_exact, False) for is_exact in (True, False))
    out, lse = run(fn, inputs, standard)
    is_approximate = "afn" in attention.mod.score
    rounding = 2**-6 if is_approximate else 2**-8
    bound = 2 * (standard["out"].double() - expected["out"]).abs().max() + rounding * expected["out"].abs().max()
    assert (out.double() - expected["out"]).abs().max() <= bound
    # Terms of a score may cancel each other: its rounding is that of them.
    size = expected["lse"].abs().clamp_min(1)
    if attention.mod.score:
        size = size.amax()
    assert ((lse.double() - expected["lse"]) / size).abs().max() < (1e-3 if is_approximate else 2e-6)


@pytest.mark.parametrize("mod", tuple(PARTS))
@pytest.mark.parametrize("type, head_dim", (("bf16", 128), ("bf16", 64), ("f16", 64)))
def test_parts_of_scores(type, head_dim, mod):
    attention = Attention(type, 4, 2, head_dim, head_dim, PARTS[mod])
    fn = attn.compile(attention.text(), family="hopper")
    # The hardware's tanh has a relative error of 2^-11, and the mean of the scores, as probabilities weigh them, is about 1.
    slack = 2**-10 if "afn" in attention.mod.score else 0.0
    problems = []
    for q_len, kv_len in ((0, 5), (1, 1), (130, 127), (513, 769), (1000, 1100), (64, 20001), (4099, 4096)):
        problems += check(attention, fn, attention.shape(1, q_len, kv_len), backward=False, seed=kv_len, lse_slack=slack)
    assert not problems, "\n".join(problems)


VALID = Capture("valid", "tensor<?x?xi1>", lambda shape, generator: torch.rand(shape.batch, shape.kv_len, device="cuda", generator=generator) < 0.8)


@pytest.mark.parametrize("type, head_dim", (("bf16", 128), ("f16", 64)))
def test_columns(type, head_dim):
    """Two tensors that are read at the key alone, one of them of i1."""
    mod = Mod(
        captures=(VALID, TABLE),
        score="""
      %entry = tensor.extract %table[%kv_idx] : tensor<?xf32>
      %r = arith.addf %s, %entry : f32
      attn.yield %r : f32""",
        mask="""
      %keep = tensor.extract %valid[%b, %kv_idx] : tensor<?x?xi1>
      attn.yield %keep : i1""",
        torch_score=lambda s, b, h, q, k, n, valid, table: s + table[k],
        torch_mask=lambda s, b, h, q, k, n, valid, table: valid[b, k],
    )
    attention = Attention(type, 4, 2, head_dim, head_dim, mod)
    fn = attn.compile(attention.text(), family="hopper")
    problems = []
    for q_len, kv_len in ((0, 5), (1, 1), (130, 127), (513, 769), (64, 20001), (4099, 4096)):
        problems += check(attention, fn, attention.shape(2, q_len, kv_len), backward=False, seed=kv_len)
    assert not problems, "\n".join(problems)


def _bias(name, size, type, score, torch_score, make=None):
    """A score that reads `type` elements of `name`, which has the sizes that `size` says of a shape."""
    dtype = TYPES[type]

    def make_bias(shape, generator):
        return torch.randn(size(shape), generator=generator, device="cuda").to(dtype)

    rank = len(size(Attention("bf16", 4, 2, 64, 64, Mod()).shape(1, 1, 1)))
    capture = Capture(name, f"tensor<{'?x' * rank}{type}>", make or make_bias)
    return Mod(captures=(capture,), score=score.format(type=type), torch_score=torch_score)


def _minus_infinity(shape, generator):
    bias = torch.randn((shape.batch, shape.q_len, shape.kv_len), generator=generator, device="cuda")
    return torch.where(bias > 1.0, -torch.inf, bias).half()


# Tiles of these come through the tensor memory accelerator.
BIASES = {
    "matrix": _bias(
        "bias", lambda s: (s.q_len, s.kv_len), "bf16",
        """
      %x = tensor.extract %bias[%q_idx, %kv_idx] : tensor<?x?x{type}>
      %wide = arith.extf %x : {type} to f32
      %r = arith.addf %s, %wide : f32
      attn.yield %r : f32""",
        lambda s, b, h, q, k, n, bias: s + bias[q, k].to(s.dtype),
    ),
    "group": _bias(
        "bias", lambda s: (s.batch, s.q_heads // 2, s.q_len, s.kv_len), "f16",
        """
      %two = arith.constant 2 : index
      %group = arith.divsi %h, %two : index
      %x = tensor.extract %bias[%b, %group, %q_idx, %kv_idx] : tensor<?x?x?x?x{type}>
      %wide = arith.extf %x : {type} to f32
      %half = arith.constant 0.5 : f32
      %scaled = arith.mulf %wide, %half : f32
      %r = arith.subf %s, %scaled : f32
      attn.yield %r : f32""",
        lambda s, b, h, q, k, n, bias: s - 0.5 * bias[b, h // 2, q, k].to(s.dtype),
    ),
    "factor": _bias(
        "gate", lambda s: (s.q_heads, s.q_len, s.kv_len), "bf16",
        """
      %x = tensor.extract %gate[%h, %q_idx, %kv_idx] : tensor<?x?x?x{type}>
      %wide = arith.extf %x : {type} to f32
      %r = arith.mulf %s, %wide : f32
      attn.yield %r : f32""",
        lambda s, b, h, q, k, n, gate: s * gate[h, q, k].to(s.dtype),
    ),
    "minus_infinity": _bias(
        "bias", lambda s: (s.batch, s.q_len, s.kv_len), "f16",
        """
      %x = tensor.extract %bias[%b, %q_idx, %kv_idx] : tensor<?x?x?x{type}>
      %wide = arith.extf %x : {type} to f32
      %r = arith.addf %s, %wide : f32
      attn.yield %r : f32""",
        lambda s, b, h, q, k, n, bias: s + bias[b, q, k].to(s.dtype),
        make=_minus_infinity,
    ),
}  # fmt: skip
BIASES |= {"causal_" + name: dataclasses.replace(mod, mask=MODS["causal"].mask, torch_mask=MODS["causal"].torch_mask) for name, mod in BIASES.items()}


DIMS_OF_BIASES = {
    "matrix": (64, 128, 256), "causal_matrix": (64, 128), "group": (96, 128), "causal_group": (128, 192),
}  # fmt: skip


@pytest.mark.parametrize("mod, head_dim", [(mod, d) for mod in BIASES for d in DIMS_OF_BIASES.get(mod, (128,))])
@pytest.mark.parametrize("type", ("bf16", "f16"))
def test_dense_bias(type, head_dim, mod):
    """Rows of a length that is no multiple of 8 are none that the accelerator copies: another variant loads elements then."""
    attention = Attention(type, 4, 2, head_dim, head_dim, BIASES[mod])
    fn = attn.compile(attention.text(), family="hopper")
    assert "tiles of capture 0" in fn.explain()
    problems = []
    for q_len, kv_len in ((0, 8), (1, 8), (7, 0), (130, 136), (129, 127), (513, 776), (1100, 1000)):
        problems += check(attention, fn, attention.shape(2, q_len, kv_len), backward=False, seed=kv_len)
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("mod", ("factor", "causal_factor"))
def test_sections_of_bias(mod):
    """Two sections, of the keys of 23 and 22 heads, where entries of the batch read the same of a bias: a section has no more
    than a quarter of the blocks of the grid, 33 with 132 multiprocessors."""
    attention = Attention("bf16", 30, 15, 64, 64, BIASES[mod])
    fn = attn.compile(attention.text(), family="hopper")
    problems = check(attention, fn, attention.shape(3, 300, 1000), backward=False)
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("mod", ("matrix", "causal_matrix"))
def test_strides_of_bias(mod):
    """One row for all queries, and rows that are longer than the keys."""
    attention = Attention("bf16", 4, 2, 128, 128, BIASES[mod])
    fn = attn.compile(attention.text(), family="hopper")
    inputs = make_inputs(attention, attention.shape(1, 700, 712))
    (bias,) = inputs["captures"]
    tensors = [inputs[name] for name in "qkv"]
    padded = torch.nn.functional.pad(bias, (8, 16, 3, 5), value=torch.nan)[3:-5, 8:-16]
    assert torch.equal(fn(*tensors, padded)[0], fn(*tensors, bias)[0])
    # Its tensor may be larger, too: what is beyond the lengths is not seen.
    larger = torch.nn.functional.pad(bias, (0, 16, 0, 5), value=torch.nan)
    assert torch.equal(fn(*tensors, larger)[0], fn(*tensors, bias)[0])
    one = bias[:1].expand_as(bias)
    assert torch.equal(fn(*tensors, one)[0], fn(*tensors, one.contiguous())[0])


def test_bias_without_elements():
    """No tile of it is copied where nothing is to be read of it."""
    mod = _bias(
        "bias", lambda s: (0, s.q_len, s.kv_len), "bf16",
        """
      %two = arith.constant 2 : index
      %number = arith.subi %b, %two : index
      %has_bias = arith.cmpi sge, %b, %two : index
      %r = scf.if %has_bias -> (f32) {{
        %x = tensor.extract %bias[%number, %q_idx, %kv_idx] : tensor<?x?x?x{type}>
        %wide = arith.extf %x : {type} to f32
        %biased = arith.addf %s, %wide : f32
        scf.yield %biased : f32
      }} else {{
        scf.yield %s : f32
      }}
      attn.yield %r : f32""",
        lambda s, b, h, q, k, n, bias: s,
    )  # fmt: skip
    attention = Attention("bf16", 4, 2, 128, 128, mod)
    fn = attn.compile(attention.text(), family="hopper")
    assert "tiles of capture 0" in fn.explain()
    problems = check(attention, fn, attention.shape(2, 400, 400), backward=False)
    assert not problems, "\n".join(problems)


def test_same_bits_of_bias():
    """32 times the same call, with more tiles than the GPU computes at once."""
    attention = Attention("bf16", 24, 24, 128, 128, BIASES["matrix"])
    fn = attn.compile(attention.text(), family="hopper")
    inputs = make_inputs(attention, attention.shape(1, 2048, 2048))
    like = {"out": inputs["q"], "lse": inputs["q"][..., 0]}
    first = run(fn, inputs, like)
    for _ in range(32):
        assert all(torch.equal(a, b) for a, b in zip(first, run(fn, inputs, like)))


@pytest.mark.parametrize("mod", ("causal_column", "column"))
def test_long_scores_with_slopes(mod):
    """Positions far from 0 leave no bits for what is near."""
    attention = Attention("bf16", 2, 1, 128, 128, PARTS[mod])
    fn = attn.compile(attention.text(), family="hopper")
    assert not check(attention, fn, attention.shape(1, 16384, 16384), backward=False)


@pytest.mark.parametrize("mod", ("plain", "causal"))
@pytest.mark.parametrize("head_dim", (64, 128, 256))
def test_same_bits(head_dim, mod):
    """A missing fence shows only so: 32 times the same call, with more tiles than the GPU computes at once."""
    attention = Attention("bf16", 24, 24, head_dim, head_dim, MODS[mod])
    fn = attn.compile(attention.text(), family="hopper")
    inputs = make_inputs(attention, attention.shape(1, 2048, 2048))
    like = {"out": inputs["q"], "lse": inputs["q"][..., 0]}
    first = run(fn, inputs, like)
    for _ in range(32):
        again = run(fn, inputs, like)
        assert all(torch.equal(a, b) for a, b in zip(first, again))


@pytest.mark.parametrize("dims", ((128, 128), (128, 64), (96, 64)), ids=str)
@pytest.mark.parametrize("mod, lengths", (("plain", (2048, 0)), ("bottom_right", (2048, 100)), ("causal", (2048, 2048))), ids=str)
@pytest.mark.parametrize("type", ("bf16", "f16"))
def test_many_tiles(type, dims, mod, lengths):
    """More tiles than the GPU computes at once, so that every slot of the queries is used again; some without any key."""
    attention = Attention(type, 24, 24, *dims, MODS[mod])
    fn = attn.compile(attention.text(), family="hopper")
    assert not check(attention, fn, attention.shape(1, *lengths), backward=False)


def test_many_queries():
    """Sections of heads that fit the L2 cache are not larger than there are heads: their tiles have 32 bits."""
    attention = Attention("bf16", 8, 1, 64, 64, MODS["causal"])
    fn = attn.compile(attention.text(), family="hopper")
    q = torch.zeros(1, 8, 1 << 20, 64, dtype=torch.bfloat16, device="cuda")
    k, v = (torch.randn(1, 1, 1, 64, device="cuda").to(q.dtype) for _ in range(2))
    out = run(fn, {"q": q, "k": k, "v": v, "captures": []}, {"out": q, "lse": q[..., 0]})[0]
    assert torch.equal(out, v.expand_as(out))
