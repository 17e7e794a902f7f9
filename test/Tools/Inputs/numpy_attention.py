"""Attention in NumPy, for attn-run-npy.mlir: `make FOLDER` writes inputs, `compare FOLDER` checks what attn-run wrote."""

import pathlib
import sys

import numpy as np

CAP = 5
command, folder = sys.argv[1], pathlib.Path(sys.argv[2])


def load(name, shape):
    array = np.load(folder / f"{name}.npy")
    assert array.dtype == np.float32 and array.shape == shape, (name, array.dtype, array.shape)
    return array.astype(np.float64)


if command == "make":
    random = np.random.default_rng(1)
    for name, shape in {"q": (2, 4, 9, 16), "v": (2, 2, 21, 16), "d_out": (2, 4, 9, 16), "d_lse": (2, 4, 9)}.items():
        np.save(folder / f"{name}.npy", random.standard_normal(shape, np.float32))
    # Fortran order: the file says so, and the reader has to undo it.
    np.save(folder / "k.npy", np.asfortranarray(random.standard_normal((2, 2, 21, 16), np.float32)))
    np.save(folder / "lengths.npy", np.array([13, 0]))
    sys.exit()

q, k, v = load("q", (2, 4, 9, 16)), load("k", (2, 2, 21, 16)), load("v", (2, 2, 21, 16))
k, v = (np.repeat(x, 2, axis=1) for x in (k, v))
keep = np.arange(21) < np.load(folder / "lengths.npy")[:, None, None, None]
squashed = np.tanh(np.einsum("bhic,bhjc->bhij", q, k) / 4 / CAP)
e = np.where(keep, np.exp(CAP * squashed), 0)
with np.errstate(divide="ignore"):
    lse = np.log(e.sum(-1))
p = e / np.maximum(e.sum(-1, keepdims=True), 1e-300)  # a row without a key: 0
out = p @ v

if command == "compare":
    np.testing.assert_allclose(load("lse", lse.shape), lse, rtol=0, atol=2e-6)
    np.testing.assert_allclose(load("out", out.shape), out, rtol=0, atol=2e-6)
    assert (load("out", out.shape)[1] == 0).all() and (lse[1] == -np.inf).all()
else:
    d_out, d_lse = load("d_out", out.shape), load("d_lse", lse.shape)
    delta = (d_out * out).sum(-1) - d_lse
    d_s = p * (d_out @ v.swapaxes(-1, -2) - delta[..., None])
    d_x = d_s * (1 - squashed**2)
    x = np.arctanh(squashed) * CAP
    d_v = (p.swapaxes(-1, -2) @ d_out).reshape(2, 2, 2, 21, 16).sum(2)
    np.testing.assert_allclose(load("d_q", q.shape), d_x @ k / 4, rtol=0, atol=5e-6)
    np.testing.assert_allclose(load("d_v", d_v.shape), d_v, rtol=0, atol=5e-6)
    np.testing.assert_allclose(load("d_cap", ()), (d_s * squashed - d_x * x / CAP).sum(), rtol=0, atol=5e-6)
