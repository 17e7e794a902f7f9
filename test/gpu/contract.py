# Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The numeric contract: our error is at most twice that of the standard computation plus one unit in the last place."""

import math
import os

import torch

# The references can be checked where there is no GPU, against the compiler's CPU half.
DEVICE = os.environ.get("ATTN_TEST_DEVICE", "cuda")

ENOUGH_ERRORS, MOST_COMPUTATIONS, FAR = 64, 32, 3


def make_inputs(attention, shape, seed=0, device=DEVICE):
    """Query, key, value, the captures, and the gradients of out and lse."""
    generator = torch.Generator(device).manual_seed(seed)
    b, h, g = shape.batch, shape.q_heads, shape.kv_heads

    def normal(*size, dtype=attention.dtype):
        return torch.randn(size, generator=generator, device=device).to(dtype)

    q = normal(b, h, shape.q_len, shape.head_dim)
    k, v = normal(b, g, shape.kv_len, shape.head_dim), normal(b, g, shape.kv_len, shape.value_dim)
    captures = [capture.make(shape, generator) for capture in attention.mod.captures]
    d_out, d_lse = normal(b, h, shape.q_len, shape.value_dim), normal(b, h, shape.q_len, dtype=torch.float32)
    return {"q": q, "k": k, "v": v, "captures": captures, "d_out": d_out, "d_lse": d_lse}


def round_to_tf32(x):
    """To 10 bits of mantissa, ties away from 0."""
    rounded = ((x.contiguous().view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)
    return torch.where(x.isfinite(), rounded, x)


def compute(attention, inputs, exact, backward):
    """All results by name: in f64, or by the standard computation in f32 with its roundings."""
    compute_type = torch.float64 if exact else torch.float32
    element = attention.dtype

    def round(x):
        return x if exact else x.to(element).to(compute_type)

    def multiply(a, b):
        return round_to_tf32(a) @ round_to_tf32(b) if attention.tf32 and not exact else a @ b

    def product(a, b):
        """A factor 0 of a makes a term 0, whatever b has."""
        if b.isfinite().all():
            return multiply(a, b)
        result = multiply(a, torch.where(b.isfinite(), b, 0.0))
        for infinity in (torch.inf, -torch.inf):  # a NaN is both
            reach = (a != 0).to(compute_type) @ (b.isnan() | (b == infinity)).to(compute_type)
            result = torch.where(reach > 0, result + infinity, result)
        return result

    q, k, v = (inputs[name].to(compute_type) for name in "qkv")
    group = q.shape[1] // max(1, k.shape[1])
    kk, vv = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    b, h, q_len, kv_len = q.shape[0], q.shape[1], q.shape[2], k.shape[2]
    indices = [
        torch.arange(size, device=q.device).view([-1 if i == dim else 1 for i in range(4)])
        for dim, size in enumerate((b, h, q_len, kv_len))
    ]
    lengths = (q_len, kv_len)
    specs, given = attention.mod.captures, inputs["captures"]

    # What score regions see of a number is an f32.
    captures = []
    for spec, value in zip(specs, given):
        if spec.is_float:
            value = torch.as_tensor(value, device=q.device).to(torch.float32 if not torch.is_tensor(value) else value.dtype)
            value = value.to(compute_type).requires_grad_(backward)
        captures.append(value)
    raw = (round(multiply(q, kk.mT)) * attention.scale_or_default).detach().requires_grad_(backward)
    score = raw if attention.mod.torch_score is None else attention.mod.torch_score(raw, *indices, lengths, *captures)
    x = score.detach()
    if attention.mod.torch_mask is not None:
        keep = attention.mod.torch_mask(None, *indices, lengths, *captures)
        x = torch.where(keep, x, -torch.inf)
    top = x.amax(-1, keepdim=True) if kv_len else torch.full((b, h, q_len, 1), -torch.inf, dtype=x.dtype, device=x.device)
    safe = torch.where(top == -torch.inf, 0.0, top)
    p = torch.exp(x - safe)
    total = p.sum(-1, keepdim=True)
    lse = safe + torch.log(total)
    out = product(round(p / torch.where(total == 0, 1.0, total)), vv)
    results = {"out": out if exact else out.to(element), "lse": lse[..., 0]}
    if not backward:
        return results

    d_out, d_lse = inputs["d_out"].to(compute_type), inputs["d_lse"].to(compute_type)
    o = results["out"].to(compute_type)
    p = torch.where(x == -torch.inf, 0.0, torch.exp(x - torch.where(lse == -torch.inf, 0.0, lse)))
    p = round(p)
    delta = (d_out * o).sum(-1, keepdim=True) - d_lse[..., None]
    d_score = p * (round(multiply(d_out, vv.mT)) - delta)
    d_score = torch.where(x == -torch.inf, 0.0, d_score)
    floats = [c for c, spec in zip(captures, specs) if spec.is_float]
    if attention.mod.torch_score is None:
        d_raw, d_captures = d_score, []
    else:
        # What the derivative makes of a dropped pair is not wanted.
        kept = torch.where(x == -torch.inf, 0.0, raw.detach()).requires_grad_()
        score = attention.mod.torch_score(kept, *indices, lengths, *captures)
        d_raw, *d_captures = torch.autograd.grad(score, [kept, *floats], d_score)
        d_raw = torch.where(x == -torch.inf, 0.0, d_raw)
    d_raw = round(d_raw * attention.scale_or_default)

    def fold(x):  # sums over the query heads that share a key head
        return x.unflatten(1, (k.shape[1], group)).sum(2) if group != 1 else x

    gradients = {"d_q": product(d_raw, kk), "d_k": fold(product(d_raw.mT, q)), "d_v": fold(product(p.mT, d_out))}
    for name, gradient in gradients.items():
        results[name] = gradient if exact else gradient.to(element)
    for spec, gradient in zip([spec for spec in specs if spec.is_float], d_captures):
        results["d_" + spec.name] = gradient
    return {name: result.detach() for name, result in results.items()}


def poisoned(shape, dtype, device=DEVICE):
    return torch.full(shape, torch.nan, dtype=dtype, device=device)


def ours(attention, fn, inputs, backward):
    """Our results by name, in outputs that held NaN. The backward works on our own out and lse."""
    q, v = inputs["q"], inputs["v"]
    tensors = (q, inputs["k"], v, *inputs["captures"])
    lse_shape = q.shape[:3]
    out, lse = poisoned((*lse_shape, v.shape[3]), attention.dtype), poisoned(lse_shape, torch.float32)
    fn(*tensors, out=(out, lse))
    results = {"out": out, "lse": lse}
    if not backward:
        return results
    outputs = [poisoned(inputs[name].shape, attention.dtype) for name in "qkv"]
    names = ["d_q", "d_k", "d_v"]
    for spec, value in zip(attention.mod.captures, inputs["captures"]):
        if spec.is_float:
            names.append("d_" + spec.name)
            outputs.append(poisoned(value.shape if torch.is_tensor(value) else (), torch.float32))
    fn.backward(*tensors, out, lse, inputs["d_out"], inputs["d_lse"], out=tuple(outputs))
    results.update(zip(names, outputs))
    return results


def ulp(dtype, value):
    """The distance from a number of the type to the next."""
    info = torch.finfo(dtype)
    if not math.isfinite(value) or value < info.tiny:
        return info.tiny * info.eps
    return 2.0 ** math.floor(math.log2(value)) * info.eps


def max_error(result, exact):
    """What is not finite has no error where the reference has the same, and an infinite one elsewhere."""
    if result.numel() == 0:
        return 0.0
    result = result.to(torch.float64)
    is_same = (result == exact) | (result.isnan() & exact.isnan())
    error = torch.where(is_same, 0.0, (result - exact).abs())
    return torch.nan_to_num(error, nan=math.inf, posinf=math.inf).amax().item()


def perturb(inputs, seed):
    generator = torch.Generator(inputs["q"].device).manual_seed(seed)

    def scaled(x):
        factor = 1 - torch.rand(x.shape, generator=generator, device=x.device) / 16
        return (x * factor).to(x.dtype)

    return {name: value if name == "captures" else scaled(value) for name, value in inputs.items()}


def check(attention, fn, shape, backward, seed=0, lse_slack=0.0):
    """What is wrong with the results of this shape: a list of sentences. `lse_slack` is what lse may be off beyond the contract
    where the module asks for approximated scores."""
    return check_inputs(attention, fn, shape, make_inputs(attention, shape, seed), backward, lse_slack)


def evaluate(attention, fn, inputs, backward):
    """Our results, the exact ones and those of the standard computation, alike where which infinity or NaN one has says nothing."""
    got = ours(attention, fn, inputs, backward)
    exact, standard = (compute(attention, inputs, is_exact, backward) for is_exact in (True, False))
    for name in got:
        if not name.startswith("d_"):
            continue
        # Which infinity or NaN a gradient is depends on the order of sums; ours may show all over a row.
        spoiled, ours_spoiled = ~exact[name].isfinite(), ~got[name].isfinite()
        if name in ("d_q", "d_k", "d_v"):
            spoiled = spoiled | (spoiled.any(-1, keepdim=True) & ours_spoiled)
        got[name] = torch.where(ours_spoiled, torch.nan, got[name])
        exact[name], standard[name] = (torch.where(spoiled, torch.nan, results[name]) for results in (exact, standard))
    return got, exact, standard


def check_inputs(attention, fn, shape, inputs, backward, lse_slack=0.0):
    got, exact, standard = evaluate(attention, fn, inputs, backward)
    rows = shape.batch * shape.q_heads * shape.q_len
    problems = []
    for name, result in got.items():
        where = f"{name} of {shape.q_len} x {shape.kv_len}"
        if result.shape != exact[name].shape:
            problems.append(f"{where}: shape {tuple(result.shape)}, expected {tuple(exact[name].shape)}")
            continue
        error = max_error(result, exact[name])
        finite = exact[name][torch.isfinite(exact[name])]
        unit = ulp(result.dtype, finite.abs().amax().item() if finite.numel() else 0.0)
        if name == "lse":
            unit += lse_slack
        if error <= unit:
            continue
        allowed = max_error(standard[name], exact[name])
        # The errors of a row are not independent: of its few probabilities that count, each is in all columns.
        count = min(MOST_COMPUTATIONS, math.ceil(ENOUGH_ERRORS / max(1, min(rows, result.numel()))))
        if error > 2 * allowed + unit and count > 1 and math.isfinite(error):
            # So few numbers say little: root mean squares over several computations.
            errors, alloweds = [error**2], [allowed**2]
            for computation in range(1, count):
                other = evaluate(attention, fn, perturb(inputs, computation), backward)
                other_got, other_exact, other_standard = (results[name] for results in other)
                errors.append(max_error(other_got, other_exact) ** 2)
                alloweds.append(max_error(other_standard, other_exact) ** 2)
            error, allowed = math.sqrt(sum(errors) / count), math.sqrt(sum(alloweds) / count)
            # A mean hides what is rare: none of them may be far off.
            worst = math.sqrt(max(errors))
            if not worst <= FAR * 2 * math.sqrt(max(alloweds)) + unit:
                problems.append(f"{where}: error {worst:.3g} in one of {count} computations, allowed {FAR} x 2 x {math.sqrt(max(alloweds)):.3g} + {unit:.3g}")
        if not error <= (2 * allowed if math.isfinite(allowed) else 0.0) + unit:
            problems.append(f"{where}: error {error:.3g}, allowed 2 x {allowed:.3g} + {unit:.3g}")
    return problems
