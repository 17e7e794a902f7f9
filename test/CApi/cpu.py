# RUN: env ATTN_LIBRARY=%build/lib/libattn_c.so PYTHONPATH=%root/python %python %s %root

"""Attention on NumPy arrays on the CPU, through the Python package and DLPack, against NumPy in f64."""

import pathlib
import sys
import threading

import attn
import numpy as np

examples = pathlib.Path(sys.argv[1]) / "test" / "Examples"
rng = np.random.default_rng(0)


def normal(*shape, dtype=np.float32):
    return rng.standard_normal(shape).astype(dtype)


def reference(q, k, v, score=lambda s: s, keep=None):
    """Output and lse; `keep` says which pairs count."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    s = score(q @ np.repeat(k, group, axis=1).swapaxes(-1, -2) / np.sqrt(q.shape[-1]))
    if keep is not None:
        s = np.where(keep, s, -np.inf)
    top = s.max(-1, keepdims=True, initial=-np.inf)
    p = np.exp(s - np.where(np.isinf(top), 0, top))
    total = p.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = (np.log(total) + np.where(np.isinf(top), 0, top))[..., 0]
    return p / np.where(total == 0, 1, total) @ np.repeat(v, group, axis=1), lse


def check(got, expected, bound=2e-6):
    assert got.shape == expected.shape, (got.shape, expected.shape)
    with np.errstate(invalid="ignore"):
        error = np.where(got == expected, 0, np.abs(got - expected))
    assert error.max(initial=0) <= bound, error.max()


# Lengths that are no multiple of anything; layouts that need no copy.
causal = attn.compile((examples / "causal.mlir").read_text(), "cpu", entry="bottom_right")
assert [p.name for p in causal.parameters] == ["q", "k", "v"] and [r.name for r in causal.results] == ["out", "lse"]
for q_len, kv_len in [(1, 1), (64, 64), (67, 131), (5, 0), (0, 7), (9, 4)]:
    q = normal(2, q_len, 4, 64).swapaxes(1, 2)
    k, v = normal(2, 4, kv_len + 3, 64)[:, :, 3:], normal(2, 4, kv_len, 72)[..., 1:65]
    keep = np.arange(kv_len)[None, :] <= np.arange(q_len)[:, None] + kv_len - q_len
    for got, expected in zip(causal(q, k, v), reference(q, k, v, keep=keep)):
        check(got, expected)

# Outputs of the caller, poisoned, in a layout of its own; several threads at once.
q, k, v = (normal(2, 4, 33, 64) for _ in range(3))
expected = reference(q, k, v, keep=np.tri(33, dtype=bool))


def call():
    out, lse = np.full((2, 33, 4, 64), np.nan, np.float32).swapaxes(1, 2), np.full((2, 4, 33), np.nan, np.float32)
    assert causal(q, k, v, out=(out, lse))[0] is out
    check(out, expected[0])
    check(lse, expected[1])
    done.append(1)


done = []
threads = [threading.Thread(target=call) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert len(done) == 4

# A captured number, and the gradients: against differences of the reference.
cap = attn.compile((examples / "soft_cap.mlir").read_text(), "cpu", threads=1, block_m=64, block_n=64)
out, lse = cap(q, k, v, np.float32(2.0))
expected = reference(q, k, v, score=lambda s: 2 * np.tanh(s / 2))
check(out, expected[0])
check(lse, expected[1])
d_out, d_lse = normal(*out.shape), normal(*lse.shape)
gradients = cap.backward(q, k, v, 2.0, out, lse, d_out, d_lse)
assert [r.name for r in cap.backward.results] == ["d_q", "d_k", "d_v", "d_cap"]


def loss(q, k, v, c):
    o, l = reference(q, k, v, score=lambda s: c * np.tanh(s / c))
    return (o * d_out).sum() + (l * d_lse).sum()


point = [x.astype(np.float64) for x in (q, k, v)] + [np.float64(2.0)]
for index, gradient in enumerate(gradients):
    direction = rng.standard_normal(np.shape(point[index]))
    h = 1e-5
    moved = [loss(*(x + sign * h * direction if i == index else x for i, x in enumerate(point))) for sign in (1, -1)]
    assert abs((moved[0] - moved[1]) / (2 * h) - (gradient * direction).sum()) < 2e-3, (index, moved, gradient.shape)

# f16 and f64, query heads that share keys, a captured tensor, an integer scalar.
gqa = attn.compile((examples / "gqa.mlir").read_text(), "cpu", entry="dynamic_heads")
q, k, v = normal(1, 6, 20, 64, dtype=np.float16), *(normal(1, 2, 30, 64, dtype=np.float16) for _ in range(2))
check(gqa(q, k, v), reference(q, k, v)[0], 2e-3)
window = (examples / "sliding_window.mlir").read_text().replace("f32", "f64")
window = attn.compile(window, "cpu", entry="captured_window")
q, k, v = (normal(1, 2, 40, 64, dtype=np.float64) for _ in range(3))
distance = np.arange(40)[:, None] - np.arange(40)[None, :]
check(window(q, k, v, 7)[0], reference(q, k, v, keep=np.abs(distance) <= 7)[0], 1e-12)

# Everything that a program says of itself.
for text, expected in [
    (cap.explain(), "64 queries x 64 keys"),
    (cap.source(), "vmov"),
    (cap.stage("module"), "math.tanh"),
    (cap.stage("plan"), "attn.online_attention forward"),
    (cap.stage("loops"), "scf.forall"),
    (cap.stage("llvm-dialect"), "llvm.func"),
    (cap.stage("llvm-ir"), "define"),
    (cap.backward.stage("module"), "attn.attention_backward"),
]:
    assert expected in text, (expected, text[:400])
