# Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""attn-run and attn-bench on a GPU, where the programs are: in build/bin, or in the folder that ATTN_TOOLS names."""

import json
import os
import pathlib
import subprocess

import numpy as np
import pytest
import torch
from conftest import root
from modules import MODS, Attention


def run(tool, *arguments, status=0):
    program = pathlib.Path(os.environ.get("ATTN_TOOLS", root / "build" / "bin")) / tool
    if not program.exists():
        pytest.skip(f"{program} is missing (tools/dev build {tool})")
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == status, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout if status == 0 else done.stderr


@pytest.fixture
def module(tmp_path):
    def write(*attention):
        path = tmp_path / "module.mlir"
        path.write_text(Attention(*attention).text())
        return path

    return write


@pytest.mark.parametrize("mod", ("causal", "alibi", "soft_cap", "document"))
@pytest.mark.parametrize("type", ("bf16", "f32"))
def test_check(module, type, mod):
    """Forward and gradients pass the check against the CPU's f64 reference; a fault would be exit code 1."""
    path = module(type, 4, 2, 64, 64, MODS[mod])
    sizes = ("--gpu", "--check", "--batch=2", "--q-len=203", "--kv-len=203")
    captures = ("--input", "cap=1.75") if mod == "soft_cap" else ()
    assert run("attn-run", path, *sizes, *captures).count("pass") == 2
    assert "d_k" in run("attn-run", path, *sizes, *captures, "--backward")


def test_files(module, tmp_path):
    """Inputs come from files, outputs go to files."""
    path = module("f32", 2, 1, 32, 32, MODS["causal"])
    generator = np.random.default_rng(0)
    arrays = {name: generator.standard_normal((1, heads, 77, 32), np.float32) for name, heads in zip("qkv", (2, 1, 1))}
    inputs = []
    for name, array in arrays.items():
        np.save(tmp_path / name, array)
        inputs += ["--input", f"{name}={tmp_path / name}.npy"]
    run("attn-run", path, "--gpu=0", *inputs, "--output", f"out={tmp_path / 'out.npy'}")
    q, k, v = (torch.from_numpy(array).double() for array in arrays.values())
    expected = torch.nn.functional.scaled_dot_product_attention(q, k.expand_as(q), v.expand_as(q), is_causal=True)
    assert np.abs(np.load(tmp_path / "out.npy") - expected.numpy()).max() < 1e-5


@pytest.mark.alone
def test_times(module):
    path = module("bf16", 16, 16, 128, 128, MODS["causal"])
    text = run("attn-run", path, "--gpu", "--q-len=4096", "--kv-len=4096", "--repeat=5")
    assert "of 5 runs" in text
    assert "--gpu: there is no CUDA device 99" in run("attn-run", path, "--gpu=99", status=1)


def test_explain(module):
    """Of the device at hand: its own number of multiprocessors."""
    text = run("attn-run", module("bf16", 16, 16, 128, 128, MODS["causal"]), "--gpu", "--explain")
    assert f"multiprocessors = {torch.cuda.get_device_properties(0).multi_processor_count}" in text
    assert "registers a thread" in text


@pytest.mark.alone
def test_tune(tmp_path):
    """The table has one entry a class, whose winner is one of the candidates, and other entries stay."""
    path = tmp_path / "table.json"
    options = ("--tune", "--n=512", "--d=256", "--repeats=3", f"--write={path}")
    text = run("attn-bench", *options, "--mods=full")
    assert "the present choice" in text and "chosen" in text and "differ" not in text, text
    run("attn-bench", *options, "--mods=full,causal")
    table = json.loads(path.read_text())
    assert [entry["class"]["mask"] for entry in table] == ["none", "comparison"]
    for entry in table:
        timed = {tuple(each["tile"]): each for each in entry["candidates"] if "tflops" in each}
        assert len(timed) > 1 and tuple(entry["best"]["tile"]) in timed
        assert all(each["tflops"] > 1 for each in timed.values())


@pytest.mark.alone
def test_bench():
    options = ("--gpu", "--n=512,1024", "--causal", "--mods=full,window", "--backward", "--repeats=3")
    cases = json.loads(run("attn-bench", *options, "--benchmark_format=json"))["benchmarks"]
    assert len(cases) == 12
    for case in cases:
        assert case["iterations"] == 3 and case["TFLOP/s"] > 1 and 0 < case["launch_us"] < 100, case
        assert case["median_ms"] == pytest.approx(case["real_time"], rel=0.5)
