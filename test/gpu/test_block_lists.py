# Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Block lists: what they say, and that they change the time of attention but nothing else."""

import numpy as np
import pytest
import torch
from conftest import compile_text
from contract import DEVICE
from listed import MASKS, expected_lists, make_text

LENGTHS = ((1, 1), (127, 127), (128, 128), (129, 129), (331, 331), (1000, 257), (257, 1000), (0, 5), (5, 0))


def bits(x):
    return x.view(torch.int16 if x.element_size() == 2 else torch.int32)


def make_call(mask, type, q_heads, kv_heads, head_dim, q_len, kv_len, seed=0):
    rng = np.random.default_rng(seed)
    generator = torch.Generator(DEVICE).manual_seed(seed)
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}[type]

    def normal(heads, length):
        return torch.randn((2, heads, length, head_dim), generator=generator, device=DEVICE).to(dtype)

    table = mask.make(rng, 2, q_heads, q_len, kv_len)
    keep = mask.keep(table, 2, q_heads, q_len, kv_len)
    tensors = (normal(q_heads, q_len), normal(kv_heads, kv_len), normal(kv_heads, kv_len), torch.from_numpy(table).to(DEVICE))
    return tensors, keep, (normal(q_heads, q_len), torch.randn((2, q_heads, q_len), generator=generator, device=DEVICE))


@pytest.mark.parametrize("blocks", ((128, 128), (64, 128), (128, 64), (64, 64)), ids=str)
@pytest.mark.parametrize("name", MASKS)
def test_lists(name, blocks):
    mask = MASKS[name]
    make = compile_text(make_text(mask, "bf16", 4, 2, 64, blocks), entry="make_lists")
    for q_len, kv_len in LENGTHS:
        (q, k, _, table), keep, _ = make_call(mask, "bf16", 4, 2, 64, q_len, kv_len)
        lists = make(q, k, table).cpu().numpy()
        assert np.array_equal(lists, expected_lists(keep, blocks, mask.per_batch, mask.per_head)), (q_len, kv_len)


CASES = [(name, "bf16", 128, (128, 128)) for name in MASKS] + [
    ("causal_documents", "bf16", 64, (128, 128)),
    ("causal_documents", "f32", 64, (128, 128)),
    ("causal_documents", "bf16", 64, (64, 128)),
    ("sparse_of_head", "bf16", 64, (128, 64)),
]


@pytest.mark.parametrize("name,type,head_dim,blocks", CASES)
def test_same_results(name, type, head_dim, blocks):
    """With lists that were made before, with lists that the compiler adds, and without: the same bit by bit. One pair of
    lists serves the forward and the backward. (The order of additions to d_q is open, so it is compared loosely.)"""
    mask = MASKS[name]
    text = make_text(mask, type, 4, 2, head_dim, blocks)
    make = compile_text(text, entry="make_lists")
    # Tiles that divide the blocks, so that the results are those of the same tiles.
    tile = {"block_m": 64, "block_n": 64} if blocks != (128, 128) else {}
    # Without lists the keys could be in parts, and the kernel one of the hopper family; none are made for a mask that
    # depends on the head.
    tile["family"] = "portable"
    plain = compile_text(text, entry="plain", block_lists=False, kv_splits=1, **tile)
    listed = compile_text(text, entry="listed", **tile)
    inside = compile_text(text, entry="plain", block_lists=True, kv_splits=1, **tile)
    for q_len, kv_len in LENGTHS:
        tensors, keep, gradients = make_call(mask, type, 4, 2, head_dim, q_len, kv_len)
        q, k, _, table = tensors
        lists = make(q, k, table)
        expected = plain(*tensors)
        for fn, given in ((listed, (*tensors, lists)), (inside, tensors)):
            for got, reference in zip(fn(*given), expected):
                assert torch.equal(bits(got), bits(reference)), (q_len, kv_len)
        d_expected = plain.backward(*tensors, *expected, *gradients)
        for fn, given in ((listed, (*tensors, lists)), (inside, tensors)):
            d_q, d_k, d_v = fn.backward(*given, *expected, *gradients)
            assert torch.equal(bits(d_k), bits(d_expected[1])) and torch.equal(bits(d_v), bits(d_expected[2])), (q_len, kv_len)
            torch.testing.assert_close(d_q, d_expected[0], rtol=2e-2, atol=1e-3)


def test_obeyed():
    """The lists decide what is computed: with lists that call all blocks empty nothing is left."""
    mask = MASKS["documents"]
    listed = compile_text(make_text(mask, "bf16", 4, 2, 64), entry="listed")
    tensors, _, gradients = make_call(mask, "bf16", 4, 2, 64, 300, 300)
    none = torch.full((2, 1, 3, 3, 4), 3, dtype=torch.int32, device=DEVICE)
    out, lse = listed(*tensors, none)
    assert not out.any() and torch.isneginf(lse).all()
    with pytest.raises(ValueError, match="rounded up"):
        listed(*tensors, none[:, :, :2])


hopper = pytest.mark.skipif(
    torch.cuda.is_available() and torch.cuda.get_device_capability() != (9, 0), reason="for sm_90a"
)


def expect_right(tensors, keep, got, what):
    """Against f64, within what rounding probabilities and the output to 16 bits explains."""
    q, k, v = (x.double() for x in tensors[:3])
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    keep = torch.from_numpy(keep.copy()).to(q.device)
    scores = torch.where(keep, q @ k.mT * q.shape[3] ** -0.5, -torch.inf)
    lse = scores.logsumexp(-1)
    out = torch.where(keep, (scores - torch.where(lse.isneginf(), 0.0, lse)[..., None]).exp(), 0.0) @ v
    assert torch.equal(got[1].isneginf(), lse.isneginf()), what
    assert not got[0][lse.isneginf()].any(), what
    torch.testing.assert_close(got[1].double(), lse, rtol=2e-6, atol=2e-6, msg=what)
    torch.testing.assert_close(got[0].double(), out, rtol=2**-7, atol=2**-7, msg=what)


@hopper
@pytest.mark.parametrize(
    "name,type,head_dim,blocks",
    [(name, "bf16", head_dim, (128, 128)) for name in MASKS for head_dim in (64, 128, 256)]
    + [("documents", "f16", 128, (128, 128)), ("causal_documents", "bf16", 128, (256, 256)), ("sparse", "bf16", 64, (384, 128))],
)
def test_hopper(name, type, head_dim, blocks):
    """Any lengths, one set of lists for several calls, each of which has the same bits; rows and tiles without a key."""
    mask = MASKS[name]
    text = make_text(mask, type, 4, 2, head_dim, blocks)
    make = compile_text(text, entry="make_lists")
    listed = compile_text(text, entry="listed", family="hopper")
    for seed, (q_len, kv_len) in enumerate((*LENGTHS, (256, 256), (640, 640), (1300, 1411))):
        tensors, keep, _ = make_call(mask, type, 4, 2, head_dim, q_len, kv_len, seed)
        lists = make(*tensors[:2], tensors[3])
        out = torch.full_like(tensors[0], torch.nan), torch.full(tensors[0].shape[:3], torch.nan, device=DEVICE)
        listed(*tensors, lists, out=out)
        expect_right(tensors, keep, out, f"{q_len} x {kv_len}")
        for _ in range(4):
            assert all(torch.equal(bits(x), bits(y)) for x, y in zip(listed(*tensors, lists), out)), (q_len, kv_len)


@hopper
@pytest.mark.parametrize("head_dim", (64, 128))
def test_hopper_full(head_dim):
    """Lists that call every block full: what it is without a mask, also where the keys do not fill the last block."""
    mask = MASKS["documents"]
    text = make_text(mask, "bf16", 4, 2, head_dim)
    make, listed = (compile_text(text, entry=entry) for entry in ("make_lists", "listed"))
    for q_len, kv_len in (*LENGTHS, (1536, 1536), (1536, 1600)):
        tensors, keep, _ = make_call(mask, "bf16", 4, 2, head_dim, q_len, kv_len)
        tensors[3].zero_()
        lists = make(*tensors[:2], tensors[3])
        blocks = torch.arange(lists.shape[3], dtype=torch.int32, device=DEVICE)
        assert (lists[..., 1] == blocks).all() and (lists[..., 0] == len(blocks)).all()
        expect_right(tensors, np.ones_like(keep), listed(*tensors, lists), f"{q_len} x {kv_len}")


@hopper
def test_hopper_outgrown():
    """The kernel that repairs walks the lists, too: scores of full blocks that exceed those of the partial ones by far, and
    infinities in values of dropped pairs."""
    mask = MASKS["documents"]
    text = make_text(mask, "bf16", 4, 2, 128)
    make, listed = (compile_text(text, entry=entry) for entry in ("make_lists", "listed"))
    (q, k, v, table), keep, _ = make_call(mask, "bf16", 4, 2, 128, 1000, 1000)
    table[:] = (torch.arange(1000, device=DEVICE) // 450).to(torch.int32)
    q[..., 0], k[..., 0] = 16, 0
    k[:, :, 200:220, 0] = 100
    keep = (table[:, None, :, None] == table[:, None, None, :]).expand(keep.shape).cpu().numpy()
    lists = make(q, k, table)
    expect_right((q, k, v), keep, listed(q, k, v, table, lists), "jump")
    v[:, :, 950] = torch.inf
    out, lse = listed(q, k, v, table, lists)
    assert out[:, :, :900].isfinite().all() and (out[:, :, 900:] == torch.inf).all() and lse.isfinite().all()


@pytest.mark.alone
def test_speed(capsys):
    """Packed documents, about 1000 positions each, of 16384: with lists a small part of the time that it takes without."""
    mask, heads, length = MASKS["documents"], 16, 16384
    text = make_text(mask, "bf16", heads, heads, 128)
    make, listed = (compile_text(text, entry=entry) for entry in ("make_lists", "listed"))
    plain = compile_text(text, entry="plain", block_lists=False)
    inside = compile_text(text, entry="plain", block_lists=True)
    q, k, v, d_out = (torch.randn((1, heads, length, 128), device=DEVICE).to(torch.bfloat16) for _ in range(4))
    table = (torch.arange(length, device=DEVICE) // 1000).to(torch.int32)[None].contiguous()
    lists = make(q, k, table)
    out, lse = plain(q, k, v, table)
    given = (out, lse, d_out, torch.zeros_like(lse))

    def milliseconds(call, repeats=5):
        times = []
        for _ in range(repeats + 1):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            call()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end))
        return sorted(times[1:])[repeats // 2]

    making = milliseconds(lambda: make(q, k, table))
    forward = [milliseconds(lambda fn=fn, x=x: fn(q, k, v, table, *x)) for fn, x in ((plain, ()), (listed, (lists,)), (inside, ()))]
    backward = [
        milliseconds(lambda fn=fn, x=x: fn.backward(q, k, v, table, *x, *given))
        for fn, x in ((plain, ()), (listed, (lists,)), (inside, ()))
    ]
    with capsys.disabled():
        print(f"\nmaking the lists {making:.3f} ms; without, with given, with own lists:")
        for name, times in (("forward", forward), ("backward", backward)):
            print(f"  {name} " + ", ".join(f"{t:.3f} ms" for t in times) + f"; {times[0] / times[1]:.1f} times as fast")
    assert forward[0] > 5 * forward[1] and backward[0] > 5 * backward[1]
    assert forward[0] > 3 * forward[2] and backward[0] > 3 * backward[2]
