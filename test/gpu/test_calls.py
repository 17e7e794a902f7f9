# Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls: streams, graphs, workspaces, threads, repeats, refusals."""

import concurrent.futures
import json
import os
import subprocess
import sys
import time

import attn
import numpy as np
import pytest
import torch
from conftest import root
from contract import make_inputs, poisoned
from modules import MODS, Attention

CAUSAL = Attention("bf16", 8, 2, 64, 64, MODS["causal"])


def make_tensors(attention, batch, q_len, kv_len, seed=0):
    inputs = make_inputs(attention, attention.shape(batch, q_len, kv_len), seed)
    return [inputs[name] for name in "qkv"] + inputs["captures"]


def bits(x):
    return x.view(torch.int16 if x.element_size() == 2 else torch.int32)


@pytest.mark.parametrize("mod", ("causal", "alibi"))
@pytest.mark.parametrize("type", ("bf16", "f32"))
def test_bit_equal(compiled, type, mod):
    """The forward is the same bit by bit, however often it runs, and alone or in a batch."""
    attention = Attention(type, 8, 2, 128, 128, MODS[mod])
    fn = compiled(attention, kv_splits=1)  # chosen, their number may depend on the batch
    tensors = make_tensors(attention, 3, 777, 777)
    first = fn(*tensors)
    for _ in range(100):
        for got, expected in zip(fn(*tensors), first):
            assert torch.equal(bits(got), bits(expected))
    alone = fn(*(x[1:2] if x.ndim == 4 else x for x in tensors))
    assert torch.equal(bits(alone[0]), bits(first[0][1:2]))


@pytest.mark.parametrize("type", ("bf16", "f32"))
def test_bit_equal_backward(compiled, type):
    """So are the gradients where that is asked for, with several query heads for a key head."""
    attention = Attention(type, 8, 2, 64, 64, MODS["causal"])
    fn = compiled(attention, deterministic=True)
    inputs = make_inputs(attention, attention.shape(3, 777, 777))
    tensors = [inputs[name] for name in "qkv"]
    given = (*tensors, *fn(*tensors), inputs["d_out"], inputs["d_lse"])
    first = fn.backward(*given)
    for _ in range(30):
        for got, expected in zip(fn.backward(*given), first):
            assert torch.equal(bits(got), bits(expected))


def test_bit_equal_captures(compiled):
    """Gradients of captures have no order, and are refused."""
    attention = Attention("bf16", 4, 2, 64, 64, MODS["alibi"])
    with pytest.raises(attn.CompileError, match="gradients of captures are summed in an order"):
        compiled(attention, deterministic=True).backward


@pytest.mark.alone
def test_streams(compiled):
    """The work goes to PyTorch's current stream: it waits for what is there, and nothing else has to."""
    fn = compiled(CAUSAL)
    q, k, v = make_tensors(CAUSAL, 2, 512, 512)
    expected = fn(q, k, v)[0]
    late = torch.zeros_like(q)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(2_000_000_000)
        late.copy_(q)
        start = time.perf_counter()
        out, _ = fn(late, k, v)
        assert time.perf_counter() - start < 0.3, "the call waited"
    other, _ = fn(late, k, v, stream=stream)
    stream.synchronize()
    assert torch.equal(out, expected) and torch.equal(other, expected)


def test_graph(compiled):
    """A call is captured into a CUDA graph, the first of its function too, and replayed on other numbers."""
    attention = Attention("bf16", 4, 2, 64, 64, MODS["soft_cap_causal"])
    fn = attn.compile(attention.text())
    q, k, v, cap = make_tensors(attention, 2, 300, 300)
    inputs = make_inputs(attention, attention.shape(2, 300, 300))
    out, lse = poisoned(q.shape, q.dtype), poisoned(q.shape[:3], torch.float32)
    gradients = (*(poisoned(x.shape, x.dtype) for x in (q, k, v)), poisoned((), torch.float32))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        fn(q, k, v, cap, out=(out, lse))
        fn.backward(q, k, v, cap, out, lse, inputs["d_out"], inputs["d_lse"], out=gradients)
    for seed in (1, 2):
        for to, fresh in zip((q, k, v), make_tensors(attention, 2, 300, 300, seed)):
            to.copy_(fresh)
        graph.replay()
        torch.cuda.synchronize()
        expected = fn(q, k, v, cap)
        assert torch.equal(out, expected[0]) and torch.equal(lse, expected[1])
        expected = fn.backward(q, k, v, cap, *expected, inputs["d_out"], inputs["d_lse"])
        for got, right in zip(gradients, expected):
            torch.testing.assert_close(got, right, rtol=1e-2, atol=1e-2 * (right.abs().max().item() + 1))


def test_workspace(compiled):
    """The caller's workspace serves, poisoned, and is as large as the library says; a smaller one is refused."""
    attention = Attention("bf16", 8, 2, 64, 64, MODS["causal"])
    fn = compiled(attention)
    inputs = make_inputs(attention, attention.shape(2, 500, 500))
    tensors = [inputs[name] for name in "qkv"]
    out, lse = fn(*tensors)
    given = (*tensors, out, lse, inputs["d_out"], inputs["d_lse"])
    gradients = tuple(poisoned(x.shape, x.dtype) for x in tensors)
    size = fn.backward.workspace_bytes(*given, out=gradients)
    # O(n): never a score matrix.
    assert size < 40 * sum(x.numel() * 4 for x in tensors)
    expected = fn.backward(*given)
    if size == 0:
        pytest.skip("this backward needs no workspace")
    workspace = torch.full((size,), 0xFF, dtype=torch.uint8, device="cuda")
    fn.backward(*given, out=gradients, workspace=workspace)
    for got, right in zip(gradients, expected):
        torch.testing.assert_close(got, right, rtol=1e-2, atol=1e-2 * right.abs().max().item())
    if size <= 256:
        return
    with pytest.raises(ValueError, match=f"got a workspace of {size - 256} bytes, expected {size}"):
        fn.backward(*given, out=gradients, workspace=workspace[: size - 256])


@pytest.mark.alone
def test_no_allocation(compiled):
    """After the first call nothing is allocated but what PyTorch makes outputs of."""
    fn = compiled(CAUSAL)
    inputs = make_inputs(CAUSAL, CAUSAL.shape(2, 500, 500))
    tensors = [inputs[name] for name in "qkv"]
    out = fn(*tensors)
    given = (*tensors, *out, inputs["d_out"], inputs["d_lse"])
    gradients = fn.backward(*given)
    torch.cuda.synchronize()
    free = torch.cuda.mem_get_info()[0]
    for _ in range(20):
        fn(*tensors, out=out)
        fn.backward(*given, out=gradients)
    torch.cuda.synchronize()
    assert torch.cuda.mem_get_info()[0] == free


def test_threads(compiled):
    """Many threads, each on a stream of its own, through one function that none has called yet."""
    attention = Attention("f16", 4, 4, 64, 64, MODS["window"])
    fn = attn.compile(attention.text())
    tensors = make_tensors(attention, 2, 400, 400)

    def call(_):
        with torch.cuda.stream(torch.cuda.Stream()):
            out, _ = fn(*tensors)
            torch.cuda.current_stream().synchronize()
            return out

    torch.cuda.synchronize()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        outs = list(pool.map(call, range(32)))
    assert all(torch.equal(out, outs[0]) for out in outs)


@pytest.mark.alone
def test_overhead(compiled):
    """Not the 10 µs of C++, but no compilation, no synchronisation."""
    fn = compiled(CAUSAL)
    tensors = make_tensors(CAUSAL, 1, 16, 16)
    out = fn(*tensors)
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(200):
        fn(*tensors, out=out)
    each = (time.perf_counter() - start) / 200
    torch.cuda.synchronize()
    assert each < 5e-4, each


@pytest.mark.alone
def test_cache(tmp_path):
    """A second process with a warm cache neither lowers nor compiles."""
    (tmp_path / "module.mlir").write_text(CAUSAL.text())
    script = f"""
import sys, time
sys.path.insert(0, {str(root / "python")!r})
import torch, attn
x = torch.ones(1, 8, 64, 64, device="cuda", dtype=torch.bfloat16)
k = torch.ones(1, 2, 64, 64, device="cuda", dtype=torch.bfloat16)
torch.cuda.synchronize()
start = time.perf_counter()
fn = attn.compile(open({str(tmp_path / "module.mlir")!r}).read())
out, _ = fn(x, k, k)
torch.cuda.synchronize()
print(time.perf_counter() - start, float(out.float().mean()))
"""
    times = []
    for _ in range(2):
        environment = {**os.environ, "ATTN_CACHE_DIR": str(tmp_path / "cache")}
        done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
        seconds, mean = map(float, done.stdout.split())
        assert mean == 1.0
        times.append(seconds)
    print(f"cold {1000 * times[0]:.0f} ms, warm {1000 * times[1]:.0f} ms")
    assert times[1] < times[0] / 3 and times[1] < 0.2, times


def test_numpy_is_refused(compiled):
    q = np.zeros((1, 8, 4, 64), np.float16)
    fn = compiled(Attention("f16", 8, 8, 64, 64, MODS["causal"]))
    with pytest.raises(ValueError, match="parameter 'q' is on cpu, expected cuda:0"):
        fn(q, q, q)
    cpu = torch.zeros(1, 8, 4, 64, dtype=torch.float16)
    with pytest.raises(ValueError, match="is on cpu, expected cuda:0"):
        fn(cpu.cuda(), cpu, cpu)


def test_jax(compiled):
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # else it takes most of the memory
    jax = pytest.importorskip("jax")
    fn = compiled(Attention("f32", 2, 2, 64, 64, MODS["causal"]))
    tensors = [torch.randn(1, 2, 70, 64, device="cuda") for _ in range(3)]
    if jax.default_backend() != "gpu":
        pytest.skip("JAX finds no GPU")
    arrays = [jax.device_put(x.cpu().numpy()) for x in tensors]
    out, lse = fn(*arrays)
    assert isinstance(out, jax.Array)
    expected = fn(*tensors)
    assert np.array_equal(np.asarray(out), expected[0].cpu().numpy())
    assert np.array_equal(np.asarray(lse), expected[1].cpu().numpy())


def test_texts(compiled):
    fn = compiled(CAUSAL).prepare()
    assert "__global__" in fn.source() and "registers" in fn.explain()
    assert json.loads(fn.launch_plan())["variants"]
