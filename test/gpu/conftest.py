# Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import functools
import pathlib
import sys

import pytest

root = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(root / "python"), str(root / "test" / "gpu")]


def find_obstacle():
    """Why this machine cannot run the tests; empty if it can."""
    try:
        import torch
    except ImportError:
        return "PyTorch is not installed"
    from contract import DEVICE

    if DEVICE == "cuda" and not torch.cuda.is_available():
        return "PyTorch finds no GPU"
    major, minor = torch.cuda.get_device_capability() if DEVICE == "cuda" else (8, 0)
    if major < 8:
        return f"the GPU is of compute capability {major}.{minor}, expected 8.0 or later"
    try:
        import attn  # noqa: F401
    except ImportError as error:
        return str(error)
    return ""


def pytest_configure(config):
    config.addinivalue_line("markers", "alone: needs the GPU, or its memory, for itself")
    obstacle = find_obstacle()
    if obstacle:
        pytest.exit(f"no GPU tests: {obstacle}", returncode=3)
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False


@functools.cache
def compile_text(text, **options):
    import attn
    from contract import DEVICE

    return attn.compile(text, DEVICE, **options)


@pytest.fixture
def compiled():
    """Compiles an Attention, once a process."""
    return lambda attention, **options: compile_text(attention.text(), **options)
