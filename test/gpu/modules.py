# Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attentions, each as MLIR and as PyTorch functions of scores and indices."""

import dataclasses
from typing import Callable, Optional

import torch

TYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64}


@dataclasses.dataclass(frozen=True)
class Capture:
    name: str
    type: str  # "f32" for a scalar, "tensor<?xi32>"
    make: Callable  # of a Shape and a generator, to a tensor or a number

    @property
    def is_float(self):
        return any(self.type.startswith(p) or f"x{p}" in self.type for p in ("f", "bf"))


@dataclasses.dataclass(frozen=True)
class Mod:
    """A score and a mask. The PyTorch functions take s, b, h, q, k (broadcast), the lengths, and the captures."""

    captures: tuple = ()
    score: str = ""
    mask: str = ""
    torch_score: Optional[Callable] = None
    torch_mask: Optional[Callable] = None


@dataclasses.dataclass(frozen=True)
class Shape:
    batch: int
    q_heads: int
    kv_heads: int
    q_len: int
    kv_len: int
    head_dim: int
    value_dim: int


@dataclasses.dataclass(frozen=True)
class Attention:
    """A function: element type, head counts, head_dim, value_dim, and what is done to scores."""

    type: str
    q_heads: int
    kv_heads: int
    head_dim: int
    value_dim: int
    mod: Mod
    scale: Optional[float] = None
    dynamic_heads: bool = False
    tf32: bool = False  # products round their operands

    @property
    def dtype(self):
        return TYPES[self.type]

    @property
    def scale_or_default(self):
        return self.scale if self.scale is not None else self.head_dim**-0.5

    def shape(self, batch, q_len, kv_len):
        return Shape(batch, self.q_heads, self.kv_heads, q_len, kv_len, self.head_dim, self.value_dim)

    def text(self):
        hq, hkv = ("?", "?") if self.dynamic_heads else (self.q_heads, self.kv_heads)
        q = f"tensor<?x{hq}x?x{self.head_dim}x{self.type}>"
        k = f"tensor<?x{hkv}x?x{self.head_dim}x{self.type}>"
        v = f"tensor<?x{hkv}x?x{self.value_dim}x{self.type}>"
        o = f"tensor<?x{hq}x?x{self.value_dim}x{self.type}>"
        lse = f"tensor<?x{hq}x?xf32>"
        captures = self.mod.captures
        arguments = "".join(f", %{c.name}: {c.type}" for c in captures)
        capture = ""
        if captures:
            names, types = ", ".join(f"%{c.name}" for c in captures), ", ".join(c.type for c in captures)
            capture = f" captures({', '.join(f'%{c.name} : {c.type}' for c in captures)})"
        indices = "%b: index, %h: index, %q_idx: index, %kv_idx: index"
        scale = f" scale({self.scale!r})" if self.scale is not None else ""
        score = f"\n    score(%s: f32, {indices}) {{{self.mod.score}}}" if self.mod.score else ""
        mask = f"\n    mask({indices}) {{{self.mod.mask}}}" if self.mod.mask else ""
        return f"""
func.func @f(%q: {q}, %k: {k}, %v: {v}{arguments}) -> ({o}, {lse}) {{
  %out, %lse = attn.attention %q, %k, %v{capture}{scale}{score}{mask}
    : ({q}, {k}, {v}) -> ({o}, {lse})
  return %out, %lse : {o}, {lse}
}}
"""


def _index(value):
    return f"%{value}_i = arith.index_cast %{value} : index to i32\n"


CAUSAL = "%keep = arith.cmpi sle, %kv_idx, %q_idx : index\n attn.yield %keep : i1"


def causal(s, b, h, q, k, lengths, *captures):
    return k <= q


def _alibi_slopes(shape, generator):
    return torch.rand(shape.q_heads, generator=generator, device=generator.device) * 0.2


def _bias(dtype):
    def make(shape, generator):
        size = (shape.q_heads, shape.q_len, shape.kv_len)
        return torch.randn(size, generator=generator, device=generator.device).to(dtype)

    return make


def _lengths(dtype):
    """Of the keys of each batch entry: none, all, and between."""

    def make(shape, generator):
        lengths = torch.linspace(0, shape.kv_len, shape.batch).round() if shape.batch > 1 else torch.tensor([shape.kv_len // 2])
        return lengths.to(dtype).to(generator.device)

    return make


def _documents(shape, generator):
    length = max(shape.q_len, shape.kv_len)
    starts = torch.rand((shape.batch, length), generator=generator, device=generator.device) < 0.02
    return starts.cumsum(1).to(torch.int32)


def _line(i, q, k):
    return q + k if i % 2 else q - k


def _lines_mask():
    text = """
      %keep_0 = arith.constant false
      %line_0 = arith.subi %q_idx, %kv_idx : index
      %line_1 = arith.addi %q_idx, %kv_idx : index"""
    for i in range(20):
        text += f"""
      %c_{i} = arith.constant {7 * i * i} : index
      %on_{i} = arith.cmpi eq, %line_{i % 2}, %c_{i} : index
      %keep_{i + 1} = arith.ori %keep_{i}, %on_{i} : i1"""
    return text + "\n      attn.yield %keep_20 : i1"


def _bias_score(type):
    extend = "%y = arith.extf %x : {0} to f32".format(type) if type != "f32" else "%y = arith.addf %x, %zero : f32"
    return f"""
      %zero = arith.constant 0.0 : f32
      %x = tensor.extract %bias[%h, %q_idx, %kv_idx] : tensor<?x?x?x{type}>
      {extend}
      %r = arith.addf %s, %y : f32
      attn.yield %r : f32"""


def _bias_mod(type):
    return Mod(
        captures=(Capture("bias", f"tensor<?x?x?x{type}>", _bias(TYPES[type])),),
        score=_bias_score(type),
        torch_score=lambda s, b, h, q, k, n, bias: s + bias[h, q, k].to(s.dtype),
    )


SOFT_CAP = """
      %x = arith.divf %s, %cap : f32
      %t = math.tanh %x : f32
      %r = arith.mulf %t, %cap : f32
      attn.yield %r : f32"""

SOFT_CAP_AFN = """
      %cap = arith.constant 4.5 : f32
      %x = arith.divf %s, %cap : f32
      %t = math.tanh %x fastmath<afn> : f32
      %r = arith.mulf %t, %cap : f32
      attn.yield %r : f32"""

MODS = {
    "plain": Mod(),
    "causal": Mod(mask=CAUSAL, torch_mask=causal),
    "bottom_right": Mod(
        mask="""
      %q_len = attn.q_len %b
      %kv_len = attn.kv_len %b
      %offset = arith.subi %kv_len, %q_len : index
      %last = arith.addi %q_idx, %offset : index
      %keep = arith.cmpi sle, %kv_idx, %last : index
      attn.yield %keep : i1""",
        torch_mask=lambda s, b, h, q, k, n: k <= q + (n[1] - n[0]),
    ),
    "window": Mod(
        mask="""
      %window = arith.constant 70 : index
      %distance = arith.subi %q_idx, %kv_idx : index
      %near = arith.cmpi slt, %distance, %window : index
      %causal = arith.cmpi sle, %kv_idx, %q_idx : index
      %keep = arith.andi %near, %causal : i1
      attn.yield %keep : i1""",
        torch_mask=lambda s, b, h, q, k, n: (k <= q) & (q - k < 70),
    ),
    "captured_window": Mod(
        captures=(Capture("window", "index", lambda shape, generator: 33),),
        mask="""
      %distance = arith.subi %q_idx, %kv_idx : index
      %zero = arith.constant 0 : index
      %least = arith.subi %zero, %window : index
      %not_after = arith.cmpi sge, %distance, %least : index
      %not_before = arith.cmpi sle, %distance, %window : index
      %keep = arith.andi %not_after, %not_before : i1
      attn.yield %keep : i1""",
        torch_mask=lambda s, b, h, q, k, n, window: (q - k).abs() <= window,
    ),
    "sink_window": Mod(
        mask="""
      %sinks = arith.constant 4 : index
      %window = arith.constant 32 : index
      %sink = arith.cmpi slt, %kv_idx, %sinks : index
      %distance = arith.subi %q_idx, %kv_idx : index
      %near = arith.cmpi slt, %distance, %window : index
      %either = arith.ori %sink, %near : i1
      %causal = arith.cmpi sle, %kv_idx, %q_idx : index
      %keep = arith.andi %either, %causal : i1
      attn.yield %keep : i1""",
        torch_mask=lambda s, b, h, q, k, n: (k <= q) & ((k < 4) | (q - k < 32)),
    ),
    "prefix_lm": Mod(
        captures=(Capture("prefix", "tensor<?xi32>", _lengths(torch.int32)),),
        mask="""
      %length_i32 = tensor.extract %prefix[%b] : tensor<?xi32>
      %length = arith.index_cast %length_i32 : i32 to index
      %in_prefix = arith.cmpi slt, %kv_idx, %length : index
      %causal = arith.cmpi sle, %kv_idx, %q_idx : index
      %keep = arith.ori %in_prefix, %causal : i1
      attn.yield %keep : i1""",
        torch_mask=lambda s, b, h, q, k, n, prefix: (k <= q) | (k < prefix[b]),
    ),
    "padding": Mod(
        captures=(Capture("lengths", "tensor<?xi64>", _lengths(torch.int64)),),
        mask="""
      %length_i64 = tensor.extract %lengths[%b] : tensor<?xi64>
      %length = arith.index_cast %length_i64 : i64 to index
      %keep = arith.cmpi slt, %kv_idx, %length : index
      attn.yield %keep : i1""",
        torch_mask=lambda s, b, h, q, k, n, lengths: (k < lengths[b]) & (q >= 0),
    ),
    "document": Mod(
        captures=(Capture("documents", "tensor<?x?xi32>", _documents),),
        mask="""
      %of_query = tensor.extract %documents[%b, %q_idx] : tensor<?x?xi32>
      %of_key = tensor.extract %documents[%b, %kv_idx] : tensor<?x?xi32>
      %same = arith.cmpi eq, %of_query, %of_key : i32
      %causal = arith.cmpi sle, %kv_idx, %q_idx : index
      %keep = arith.andi %same, %causal : i1
      attn.yield %keep : i1""",
        torch_mask=lambda s, b, h, q, k, n, documents: (documents[b, q] == documents[b, k]) & (k <= q),
    ),
    # More comparisons than the compiler takes apart: block lists find the blocks.
    "lines": Mod(mask=_lines_mask(), torch_mask=lambda s, b, h, q, k, n: sum(_line(i, q, k) == 7 * i * i for i in range(20)) > 0),
    "alibi": Mod(
        captures=(Capture("slopes", "tensor<?xf32>", _alibi_slopes),),
        score="""
      %slope = tensor.extract %slopes[%h] : tensor<?xf32>
      %distance = arith.subi %kv_idx, %q_idx : index
      %i = arith.index_cast %distance : index to i32
      %f = arith.sitofp %i : i32 to f32
      %bias = arith.mulf %slope, %f : f32
      %r = arith.addf %s, %bias : f32
      attn.yield %r : f32""",
        mask=CAUSAL,
        torch_score=lambda s, b, h, q, k, n, slopes: s + slopes[h].to(s.dtype) * (k - q).to(s.dtype),
        torch_mask=causal,
    ),
    "soft_cap": Mod(
        captures=(Capture("cap", "f32", lambda shape, generator: 1.75),),
        score=SOFT_CAP,
        torch_score=lambda s, b, h, q, k, n, cap: cap * torch.tanh(s / cap),
    ),
    # An approximated tanh with a constant cap: blocks whose scores are all small get a polynomial, the others not; bounded scores get
    # no maximum.
    "soft_cap_afn": Mod(
        score=SOFT_CAP_AFN,
        mask=CAUSAL,
        torch_score=lambda s, b, h, q, k, n: 4.5 * torch.tanh(s / 4.5),
        torch_mask=causal,
    ),
    # Scores whose derivative is a factor that is not bounded by 1, or differs from branch to branch (without a step: how a score
    # near it is rounded would show).
    "signed_square": Mod(
        score="""
      %abs = math.absf %s : f32
      %quarter = arith.constant 0.25 : f32
      %square = arith.mulf %s, %abs : f32
      %r = arith.mulf %square, %quarter : f32
      attn.yield %r : f32""",
        torch_score=lambda s, b, h, q, k, n: s * s.abs() * 0.25,
    ),
    "bent": Mod(
        score="""
      %zero = arith.constant 0.0 : f32
      %tenth = arith.constant 0.1 : f32
      %square = arith.mulf %s, %s : f32
      %small = arith.mulf %square, %tenth : f32
      %curved = arith.addf %s, %small : f32
      %is_positive = arith.cmpf ogt, %s, %zero : f32
      %r = arith.select %is_positive, %s, %curved : f32
      attn.yield %r : f32""",
        mask=CAUSAL,
        torch_score=lambda s, b, h, q, k, n: torch.where(s > 0, s, s + 0.1 * s * s),
        torch_mask=causal,
    ),
    "soft_cap_causal": Mod(
        captures=(Capture("cap", "f32", lambda shape, generator: 1.75),),
        score=SOFT_CAP,
        mask=CAUSAL,
        torch_score=lambda s, b, h, q, k, n, cap: cap * torch.tanh(s / cap),
        torch_mask=causal,
    ),
    "bias_f32": _bias_mod("f32"),
    "bias_bf16": _bias_mod("bf16"),
    "minus_infinity": Mod(  # a score of -inf, not a mask: pairs of even distance count
        score="""
      %one = arith.constant 1 : i32
      %zero = arith.constant 0 : i32
      %minus_infinity = arith.constant 0xFF800000 : f32
      %distance = arith.subi %kv_idx, %q_idx : index
      %i = arith.index_cast %distance : index to i32
      %bit = arith.andi %i, %one : i32
      %even = arith.cmpi eq, %bit, %zero : i32
      %r = arith.select %even, %s, %minus_infinity : f32
      attn.yield %r : f32""",
        torch_score=lambda s, b, h, q, k, n: torch.where((k - q) % 2 == 0, s, -torch.inf),
    ),
}
