# RUN: env ATTN_LIBRARY=%build/lib/libattn_c.so PYTHONPATH=%root/python %python %s %root

"""Block lists on the CPU: the lists against NumPy, and attention that is given them against attention that is not, bit by bit."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(sys.argv[1]) / "test" / "gpu"))
import attn
import numpy as np
from listed import MASKS, expected_lists, make_text

rng = np.random.default_rng(0)
LENGTHS = [(1, 1), (127, 127), (128, 128), (129, 129), (331, 331), (300, 70), (70, 300), (0, 5), (5, 0)]


def normal(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def same(got, expected, what):
    for x, y in zip(got, expected):
        assert np.array_equal(x.view(np.int32), y.view(np.int32)), what


for name, blocks in [("documents", (128, 128)), ("causal_documents", (64, 128)), ("sparse", (128, 64)), ("sparse_of_head", (64, 64))]:
    mask = MASKS[name]
    text = make_text(mask, "f32", 4, 2, 16, blocks)
    # One tile for all, so that the results are those of the same tiles.
    tile = {"block_m": 64, "block_n": 64}
    make = attn.compile(text, "cpu", entry="make_lists")
    listed, plain = (attn.compile(text, "cpu", entry=entry, **tile) for entry in ("listed", "plain"))
    inside = attn.compile(text, "cpu", entry="plain", block_lists=True, **tile)
    assert ("block_lists(" in inside.stage("plan")) == (not mask.per_head) and "block_lists(" not in plain.stage("plan")
    for q_len, kv_len in LENGTHS:
        what = f"{name}, {q_len} x {kv_len}"
        q, k, v = normal(2, 4, q_len, 16), normal(2, 2, kv_len, 16), normal(2, 2, kv_len, 16)
        table = mask.make(rng, 2, 4, q_len, kv_len)
        lists = make(q, k, table)
        keep = mask.keep(table, 2, 4, q_len, kv_len)
        assert np.array_equal(lists, expected_lists(keep, blocks, mask.per_batch, mask.per_head)), what
        expected = plain(q, k, v, table)
        same(listed(q, k, v, table, lists), expected, what)
        same(inside(q, k, v, table), expected, what)
        given = (*expected, normal(*q.shape), normal(*q.shape[:3]))
        gradients = plain.backward(q, k, v, table, *given)
        same(listed.backward(q, k, v, table, lists, *given), gradients, what)
        same(inside.backward(q, k, v, table, *given), gradients, what)

# A GPU has no parts with lists: where parts are asked for there are none by default.
text = make_text(MASKS["documents"], "bf16", 4, 2, 64, (128, 128))
for given, is_listed in (({}, True), ({"kv_splits": 3}, False)):
    gpu = attn.compile(text, "cuda", entry="plain", arch="sm_90a", **given)
    assert ("block_lists(" in gpu.stage("plan")) == is_listed and "_forward" in gpu.source(), given
try:
    attn.compile(text, "cuda", entry="plain", arch="sm_90a", kv_splits=3, block_lists=True)
    raise AssertionError("parts with block lists were accepted")
except attn.CompileError as error:
    assert "expected no block lists where the keys are computed in parts" in str(error), error

# Lists of other lengths are refused.
q = normal(2, 4, 200, 16)
k = v = normal(2, 2, 200, 16)
table = mask.make(rng, 2, 4, 200, 200)
try:
    listed(q, k, v, table, np.zeros((2, 4, 3, 4, 4), np.int32))
    raise AssertionError("lists for fewer queries were accepted")
except ValueError as error:
    assert "size 2 of 'lists' must be size 2 of 'q' divided by 64, rounded up" in str(error), error

# Every pair that the lists call dropped is skipped: with lists that call all of them so nothing is left.
none = np.empty((2, 4, 4, 4, 4), np.int32)
none[...] = 4
out, lse = listed(q, k, v, table, none)
assert not out.any() and np.isneginf(lse).all()

# The example, as its comment says.
text = (pathlib.Path(sys.argv[1]) / "test" / "Examples" / "block_lists.mlir").read_text()
q, k, v, d_out = (normal(2, 2, 301, 64) for _ in range(4))
documents = np.sort(rng.integers(0, 4, (2, 301)).astype(np.int32))
lists = attn.compile(text, "cpu", entry="make_lists")(q, k, documents)
assert lists.shape == (2, 1, 3, 3, 4)
layer = attn.compile(text, "cpu", entry="layer")
out, lse = layer(q, k, v, documents, lists)
gradients = layer.backward(q, k, v, documents, lists, out, lse, d_out, np.zeros_like(lse))
own = attn.compile((pathlib.Path(sys.argv[1]) / "test" / "Examples" / "document_mask.mlir").read_text(), "cpu")
same((out, lse), own(q, k, v, documents), "example")
same(gradients, own.backward(q, k, v, documents, out, lse, d_out, np.zeros_like(lse)), "example, backward")
