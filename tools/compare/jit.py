# Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How long compiling takes, and launching: each measurement in a process of its own, with a cache of its own."""

import json
import os
import tempfile
import time
import traceback

from cases import Case

# So many blocks of queries that the keys are not computed in parts, here and for the second shape.
D, N = 128, 2048


def measure(repeats):
    """Rows of (what, seconds of each repeat). Forks, and so must come before the process touches the GPU."""
    rows = {}
    for _ in range(repeats):
        with tempfile.TemporaryDirectory(prefix="attn-compare-") as cache:
            for state in ("cold", "warm"):
                for what, seconds in _run_forked(state, cache).items():
                    rows.setdefault(what, []).extend(seconds)
    return [{"what": what, "seconds": seconds} for what, seconds in rows.items()]


def _run_forked(state, cache):
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(readable)
            os.environ["ATTN_CACHE_DIR"] = cache
            os.environ["CUDA_CACHE_DISABLE"] = "1"  # NVRTC 13 has a cache of its own
            with os.fdopen(writable, "w") as pipe:
                json.dump(_measure_here(state, cache), pipe)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writable)
    with os.fdopen(readable) as pipe:
        text = pipe.read()
    if os.waitpid(child, 0)[1]:
        raise SystemExit("compare: the process that measures compile times failed")
    return json.loads(text)


def _measure_here(state, cache):
    import torch

    import attn

    def normal(batch, n, heads=HEADS):
        return torch.randn(batch, heads, n, D, device="cuda", dtype=torch.bfloat16)

    def timed(call):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        return time.perf_counter() - start

    case = Case("causal", False, D, N)
    tensors = {n: [normal(1, n) for _ in range(4)] for n in (N, 3 * N)}
    functions, rows = {}, {}
    for name, has_lse in (("forward", True), ("backward", False)):
        outputs = {n: _make_outputs(name, *tensors[n]) for n in tensors}

        def call(n):
            q, k, v, d_out = tensors[n]
            lse = torch.zeros(q.shape[:3], device="cuda")
            inputs = (q, k, v) if name == "forward" else (q, k, v, q, lse, d_out)
            return lambda: functions[name](*inputs, out=outputs[n])

        def compile_and_call():
            functions[name] = attn.compile(case.text(has_lse), backward=name == "backward")
            first()

        first, second = call(N), call(3 * N)
        cache_state = "empty cache" if state == "cold" else "warm disk cache"
        rows[f"{name}, module text to kernels that have run, {cache_state}"] = [timed(compile_and_call)]
        if state == "cold":
            continue
        before = _count_files(cache)
        rows[f"{name}, first call of a second shape"] = [timed(second)]
        if _count_files(cache) != before:
            raise RuntimeError("a second shape compiled something")
        rows[f"{name}, a call of a shape seen before"] = [timed(second) for _ in range(5)]
        rows[f"{name}, launch from Python"] = [_time_launches(first)]
        rows[f"{name}, launch through the C interface (attn_launch, by ctypes)"] = [
            _time_launches(_get_raw_launch(attn, functions[name], first))
        ]
    return rows


HEADS = Case("causal", False, D, N).heads


def _make_outputs(name, q, k, v, d_out):
    import torch

    if name == "forward":
        return torch.empty_like(q), torch.empty(q.shape[:3], device="cuda")
    return tuple(torch.empty_like(x) for x in (q, k, v))


def _count_files(directory):
    return sum(len(files) for _, _, files in os.walk(directory))


def _time_launches(launch, count=200):
    """Seconds that the host spends on one; fewer in a row than the driver's queue of 1024 holds, with up to four entries each."""
    import torch

    for _ in range(20):
        launch()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(count):
        launch()
    seconds = (time.perf_counter() - start) / count
    torch.cuda.synchronize()
    return seconds


def _get_raw_launch(attn, function, call):
    """The C call that a call of the function ends in, with its arguments made once."""
    recorded = []
    launch = attn.library.attn_launch

    class Recorder:
        def __getattr__(self, name):
            return getattr(library, name)

        def attn_launch(self, *arguments):
            recorded.append(arguments)
            return launch(*arguments)

    library = attn.library
    attn.library = Recorder()
    try:
        call()
    finally:
        attn.library = library
    return lambda: launch(*recorded[0])
