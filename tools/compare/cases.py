# Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The attentions that are compared: each as MLIR, and as functions for FlexAttention."""

import dataclasses
import itertools
import math
import random
from typing import Callable, Optional

TOKENS, HIDDEN, WINDOW, CAP = 16384, 2048, 1024, 20.0
LISTS = "tensor<?x1x?x?x4xi32>"


@dataclasses.dataclass(frozen=True)
class Mod:
    """What is done to scores. FlexAttention's functions take b, h, q, k (a score: s first), and are made for a case and
    what it captures."""

    score: str = ""
    mask: str = ""
    capture: str = ""  # "%documents: tensor<?x?xi32>"
    make_capture: Optional[Callable] = None  # the tensor, for a case
    has_lists: bool = False  # whether block lists are made before the calls, as FlexAttention's are
    flex_score: Optional[Callable] = None
    flex_mask: Optional[Callable] = None
    exact: bool = False  # probabilities relative to the true maximum of their row
    passes: tuple = ("forward", "backward")
    plain: str = "full"  # what its cost is relative to; of forwards, with an exact maximum


CAUSAL = """
      %keep = arith.cmpi sle, %kv_idx, %q_idx : index
      attn.yield %keep : i1"""


def _soft_cap(flags):
    return f"""
      %cap = arith.constant {CAP} : f32
      %inverse = arith.constant {1 / CAP} : f32
      %relative = arith.mulf %s, %inverse : f32
      %squashed = math.tanh %relative{flags} : f32
      %capped = arith.mulf %cap, %squashed : f32
      attn.yield %capped : f32"""


def _flex_soft_cap(case, captured):
    import torch  # here, so that the cases can be listed without it

    return lambda s, b, h, q, k: CAP * torch.tanh(s * (1 / CAP))


def _flex_alibi(case, captured):
    import torch

    return lambda s, b, h, q, k: s + torch.exp2((h + 1) * (-8.0 / case.heads)) * (k - q)


def _alibi(case):
    # Slopes are computed and not captured, so that neither side has a gradient of them to compute.
    return f"""
      %one = arith.constant 1.0 : f32
      %step = arith.constant {-8.0 / case.heads} : f32
      %h_i = arith.index_cast %h : index to i32
      %h_f = arith.sitofp %h_i : i32 to f32
      %next = arith.addf %h_f, %one : f32
      %exponent = arith.mulf %next, %step : f32
      %slope = math.exp2 %exponent : f32
      %distance = arith.subi %kv_idx, %q_idx : index
      %i = arith.index_cast %distance : index to i32
      %f = arith.sitofp %i : i32 to f32
      %bias = arith.mulf %slope, %f : f32
      %r = arith.addf %s, %bias : f32
      attn.yield %r : f32"""


BIAS = """
      %value = tensor.extract %bias[%q_idx, %kv_idx] : tensor<?x?xbf16>
      %wide = arith.extf %value : bf16 to f32
      %biased = arith.addf %s, %wide : f32
      attn.yield %biased : f32"""
WINDOWED = f"""
      %window = arith.constant {WINDOW} : index
      %distance = arith.subi %q_idx, %kv_idx : index
      %near = arith.cmpi slt, %distance, %window : index
      %causal = arith.cmpi sle, %kv_idx, %q_idx : index
      %keep = arith.andi %near, %causal : i1
      attn.yield %keep : i1"""


def _make_bias(case):
    import torch

    generator = torch.Generator("cuda").manual_seed(case.n)
    return torch.randn((case.n, case.n), device="cuda", generator=generator).bfloat16()


def _make_prefixes(case):
    import torch

    return torch.tensor(case.prefixes(), dtype=torch.int32, device="cuda")


def _make_documents(case):
    import torch

    entries = [
        list(itertools.chain.from_iterable([number] * length for number, length in enumerate(lengths)))
        for lengths in case.document_lengths()
    ]
    return torch.tensor(entries, dtype=torch.int32, device="cuda")


def _flex_bias(case, bias):
    return lambda s, b, h, q, k: s + bias[q, k]


def _flex_causal(case, captured):
    return lambda b, h, q, k: q >= k


def _flex_window(case, captured):
    return lambda b, h, q, k: (q >= k) & (q - k < WINDOW)


# Neighbours with the same functions share what FlexAttention compiles.
MODS = {
    "full": Mod(),
    "full (exact)": Mod(exact=True, passes=("forward",)),
    "causal": Mod(mask=CAUSAL, flex_mask=_flex_causal, plain="causal"),
    "causal (exact)": Mod(mask=CAUSAL, flex_mask=_flex_causal, exact=True, passes=("forward",), plain="causal"),
    "soft-cap": Mod(score=_soft_cap(""), flex_score=_flex_soft_cap),
    "soft-cap (afn)": Mod(score=_soft_cap(" fastmath<afn>"), flex_score=_flex_soft_cap),
    "ALiBi": Mod(score=_alibi, mask=CAUSAL, flex_score=_flex_alibi, flex_mask=_flex_causal, plain="causal"),
    # Forward alone: a gradient would be that of the bias, too.
    "bias": Mod(
        score=BIAS,
        capture="%bias: tensor<?x?xbf16>",
        make_capture=_make_bias,
        flex_score=_flex_bias,
        passes=("forward",),
    ),
    "window": Mod(mask=WINDOWED, flex_mask=_flex_window, plain="causal"),
    "soft-cap (afn) and window": Mod(
        score=_soft_cap(" fastmath<afn>"), mask=WINDOWED, flex_score=_flex_soft_cap, flex_mask=_flex_window, plain="causal"
    ),
    "prefix-LM": Mod(
        capture="%prefixes: tensor<?xi32>",
        make_capture=_make_prefixes,
        mask="""
      %prefix_i = tensor.extract %prefixes[%b] : tensor<?xi32>
      %prefix = arith.index_cast %prefix_i : i32 to index
      %in_prefix = arith.cmpi slt, %kv_idx, %prefix : index
      %causal = arith.cmpi sle, %kv_idx, %q_idx : index
      %keep = arith.ori %in_prefix, %causal : i1
      attn.yield %keep : i1""",
        flex_mask=lambda case, prefixes: lambda b, h, q, k: (q >= k) | (k < prefixes[b]),
        plain="causal",
    ),
    "documents": Mod(
        capture="%documents: tensor<?x?xi32>",
        make_capture=_make_documents,
        has_lists=True,
        mask="""
      %of_query = tensor.extract %documents[%b, %q_idx] : tensor<?x?xi32>
      %of_key = tensor.extract %documents[%b, %kv_idx] : tensor<?x?xi32>
      %same = arith.cmpi eq, %of_query, %of_key : i32
      %causal = arith.cmpi sle, %kv_idx, %q_idx : index
      %keep = arith.andi %same, %causal : i1
      attn.yield %keep : i1""",
        flex_mask=lambda case, documents: lambda b, h, q, k: (q >= k) & (documents[b, q] == documents[b, k]),
        plain="causal",
    ),
}
# Heads of queries and of keys: shared by four, eight and three, each behind as many that share none.
GROUPS = ((32, 32), (32, 8), (64, 64), (64, 8), (12, 12), (12, 4), (9, 9), (9, 3))
PLAIN, QUICK_MODS = ("full", "causal"), ("full", "full (exact)", "soft-cap (afn)", "causal", "causal (exact)", "window")


@dataclasses.dataclass(frozen=True)
class Case:
    mod: str
    is_backward: bool
    d: int
    n: int
    # Where they are not those of 16384 tokens: the heads of queries and of keys, queries, and batch entries.
    given_heads: tuple = ()
    given_queries: int = 0
    given_batch: int = 0

    @property
    def batch(self):
        return self.given_batch or max(1, TOKENS // self.n)

    @property
    def heads(self):
        return self.given_heads[0] if self.given_heads else max(1, HIDDEN // self.d)

    @property
    def kv_heads(self):
        return self.given_heads[1] if self.given_heads else self.heads

    @property
    def queries(self):
        return self.given_queries or self.n

    def __str__(self):
        text = f"{'backward' if self.is_backward else 'forward'} {self.mod} d={self.d} n={self.n}"
        return text + (f" heads {self.heads}:{self.kv_heads} queries {self.queries}" if self.given_heads else "")

    @property
    def _tensors(self):
        """The types of queries, and of keys."""
        return tuple(f"tensor<?x{heads}x?x{self.d}xbf16>" for heads in (self.heads, self.kv_heads))

    def _regions(self, only_mask=False):
        mod = MODS[self.mod]
        indices = "%b: index, %h: index, %q_idx: index, %kv_idx: index"
        score = mod.score(self) if callable(mod.score) else mod.score
        regions = f"\n    score(%s: f32, {indices}) {{{score}\n    }}" if score and not only_mask else ""
        return regions + (f"\n    mask({indices}) {{{mod.mask}\n    }}" if mod.mask else "")

    def text(self, has_lse):
        """The forward function as MLIR. The backward of one without lse has no gradient of lse, as in training."""
        (query, key), lse, mod = self._tensors, f"tensor<?x{self.heads}x?xf32>", MODS[self.mod]
        data = f", {mod.capture}" if mod.capture else ""
        given = f" captures({mod.capture})" if mod.capture else ""
        if mod.has_lists:
            data += f", %lists: {LISTS}"
            given += f" block_lists(%lists : {LISTS}) blocks(128, 128)"
        return f"""
func.func @attention(%q: {query}, %k: {key}, %v: {key}{data}) -> ({query}{f", {lse}" * has_lse}) {{
  %out, %lse = attn.attention %q, %k, %v{given}{self._regions()}
    : ({query}, {key}, {key}) -> ({query}, {lse})
  return %out{", %lse" * has_lse} : {query}{f", {lse}" * has_lse}
}}
"""

    def lists_text(self):
        """What makes the lists of such a mask."""
        (query, key), capture = self._tensors, MODS[self.mod].capture
        return f"""
func.func @lists(%q: {query}, %k: {key}, {capture}) -> {LISTS} {{
  %lists = attn.block_lists %q, %k captures({capture}) blocks(128, 128){self._regions(only_mask=True)}
    : ({query}, {key}) -> {LISTS}
  return %lists : {LISTS}
}}
"""

    def document_lengths(self):
        """Of each batch entry: eight documents on average, of any lengths."""
        generator = random.Random(self.n)
        lengths = []
        for _ in range(self.batch):
            cuts = sorted({0, self.n, *(generator.randrange(self.n) for _ in range(7))})
            lengths.append([end - begin for begin, end in zip(cuts, cuts[1:])])
        return lengths

    def prefixes(self):
        """Of each batch entry: the keys that all queries see."""
        generator = random.Random(self.n)
        return [generator.randrange(1, self.n) for _ in range(self.batch)]

    def kept_pairs(self):
        """Of queries and keys, in all batch entries and heads."""

        def causal(length):
            return length * (length + 1) // 2

        if self.mod == "documents":
            return self.heads * sum(causal(length) for entry in self.document_lengths() for length in entry)
        if self.mod == "prefix-LM":
            # Query i sees prefix - i - 1 keys more than a causal one.
            return self.heads * sum(causal(self.n) + causal(prefix - 1) for prefix in self.prefixes())
        if MODS[self.mod].mask == WINDOWED:
            pairs = causal(self.n) - causal(max(0, self.n - WINDOW))
        elif MODS[self.mod].mask:
            pairs = causal(self.n)
        else:
            pairs = self.queries * self.n
        return self.batch * self.heads * pairs

    def flops(self):
        return self.kept_pairs() * self.d * (10 if self.is_backward else 4)

    def key_bytes(self):
        """Of keys and values."""
        return 2 * 2 * self.batch * self.kv_heads * self.n * self.d


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))
