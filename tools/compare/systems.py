# Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""attn and its peers, each as a call that can be timed."""

import functools

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import attn
import timing
from cases import MODS, Case

SDPA = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
# Of results, relative to the largest: bf16 has 8 bits, and probabilities are rounded to it too.
TOLERANCE = 0.03


def takes_part(name, table):
    return name == "attn" or (name == "flex") == (table == "mods")


@functools.lru_cache(maxsize=None)
def _compile(text, is_backward, exact):
    return attn.compile(text, backward=is_backward, exact_maximum=exact)


class Inputs:
    """The tensors of a case, the same for every system."""

    def __init__(self, case):
        torch.manual_seed(0)
        query, key = ((case.batch, *rest, case.d) for rest in ((case.heads, case.queries), (case.kv_heads, case.n)))
        sizes = (query, key, key, query)
        self.q, self.k, self.v, self.d_out = (torch.randn(size, device="cuda", dtype=torch.bfloat16) for size in sizes)
        make_capture = MODS[case.mod].make_capture
        self.captured = make_capture(case) if make_capture else None

    def with_gradients(self):
        return [x.detach().requires_grad_() for x in (self.q, self.k, self.v)]


def make_attn(case, inputs):
    """The call, and its results."""
    q, k, v = inputs.q, inputs.k, inputs.v
    mod = MODS[case.mod]
    captures = [inputs.captured] if mod.capture else []
    if mod.has_lists:
        captures.append(attn.compile(case.lists_text(), entry="lists")(q, k, inputs.captured))
    out, lse = torch.empty_like(q), torch.empty(q.shape[:3], device="cuda")
    forward = _compile(case.text(has_lse=True), False, mod.exact)
    call = functools.partial(forward, q, k, v, *captures, out=(out, lse))
    if not case.is_backward:
        return call, [out]
    call()
    gradients = tuple(torch.empty_like(x) for x in (q, k, v))
    backward = _compile(case.text(has_lse=False), True, mod.exact)
    return functools.partial(backward, q, k, v, *captures, out, lse, inputs.d_out, out=gradients), list(gradients)


def _make_torch(case, inputs, attention, with_gradients=False):
    operands = inputs.with_gradients() if case.is_backward or with_gradients else [inputs.q, inputs.k, inputs.v]
    if not case.is_backward:
        results = [None]

        def forward():
            results[0] = attention(*operands).detach()

        return forward, results
    out = attention(*operands)
    results = [None, None, None]

    def backward():
        results[:] = torch.autograd.grad(out, operands, inputs.d_out, retain_graph=True)

    return backward, results


def make_sdpa(backend, case, inputs):
    def attention(q, k, v):
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(
                q, k, v, is_causal=case.mod == "causal", enable_gqa=case.heads != case.kv_heads
            )

    return _make_torch(case, inputs, attention)


@functools.lru_cache(maxsize=1)
def _compile_flex(make_score, make_mask, make_capture, d, n):
    """FlexAttention for both passes of a case."""
    import torch._dynamo
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    # Beyond its limit of variants dynamo takes an unfused path that needs memory for all scores, and says nothing.
    torch._dynamo.reset()
    torch._dynamo.config.fail_on_recompile_limit_hit = True
    case = Case("full", False, d, n)
    captured = make_capture and make_capture(case)
    score = make_score and make_score(case, captured)
    mask = None
    if make_mask:
        batch = case.batch if make_capture else None
        mask = create_block_mask(make_mask(case, captured), batch, None, n, n, device="cuda")
    return functools.partial(torch.compile(flex_attention, dynamic=False), score_mod=score, block_mask=mask)


def make_flex(case, inputs):
    mod = MODS[case.mod]
    attention = _compile_flex(mod.flex_score, mod.flex_mask, mod.make_capture, case.d, case.n)
    return _make_torch(case, inputs, attention, with_gradients=True)


MAKERS = {
    "attn": make_attn,
    "flash": functools.partial(make_sdpa, SDPA["flash"]),
    "cudnn": functools.partial(make_sdpa, SDPA["cudnn"]),
    "flex": make_flex,
}


def _first_line(error):
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:200]


def _difference(results, reference):
    return max(((x - y).abs().max() / y.abs().max()).item() for x, y in zip(results, reference))


def time_case(case, names, clock, repeats):
    """The cell of a case: times of each system, or why it has none."""
    inputs = Inputs(case)
    calls, missing, reference = {}, {}, None
    for name in names:
        try:
            call, results = MAKERS[name](case, inputs)
            call()
            torch.cuda.synchronize()
            # The results of a peer tell whether ours are right: times of something else would be worth nothing.
            if reference is None:
                reference = [x.clone() for x in results]
            elif not (difference := _difference(results, reference)) <= TOLERANCE:
                raise RuntimeError(f"its result differs from that of {next(iter(calls))} by {difference:.3g} of the largest")
            call()
            calls[name] = call
        except Exception as error:  # whatever a peer raises: it has no figure, and the rest goes on
            missing[name] = _first_line(error)
    times = clock.compare(calls, repeats)
    cell = {"mod": case.mod, "pass": "backward" if case.is_backward else "forward", "d": case.d, "n": case.n}
    cell.update(batch=case.batch, heads=case.heads, kv_heads=case.kv_heads, queries=case.queries)
    cell.update(flops=case.flops(), key_bytes=case.key_bytes(), missing=missing, systems={})
    for name, seconds in times.items():
        median, spread = timing.summarize(seconds)
        cell["systems"][name] = {
            "tflops": case.flops() / median * 1e-12, "ms": median * 1e3, "spread": spread,
            "samples_ms": [x * 1e3 for x in seconds],
        }  # fmt: skip
    return cell
