# Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles attention, given as MLIR, and calls it on tensors of PyTorch, NumPy, JAX, CuPy and others.

    fn = attn.compile(text)             # for the GPU of the tensors
    out, lse = fn(q, k, v)
    dq, dk, dv = fn.backward(q, k, v, out, lse, d_out, d_lse)
"""

import ctypes
import numbers
import threading

from . import _tensors
from ._library import CompileOptions, DLTensor, LaunchOptions, Value, library

__all__ = ["AttnError", "CompileError", "Function", "Unavailable", "compile"]


class AttnError(RuntimeError):
    """What the library refuses or fails to do."""


class CompileError(AttnError):
    """The module is wrong, or cannot be compiled for the device."""


class Unavailable(AttnError):
    """This machine lacks a GPU, a driver or NVRTC."""


_ERRORS = {1: ValueError, 2: CompileError, 3: Unavailable, 4: ValueError}


def _check(status):
    if status:
        raise _ERRORS.get(status, AttnError)(library.attn_get_error().decode())


class _Value:
    def __init__(self, value):
        self.name = value.name.decode()
        self.code, self.bits = value.type.code, value.type.bits
        self.is_scalar = bool(value.is_scalar)
        self.rank = value.rank
        self.sizes = tuple(None if value.sizes[i] < 0 else value.sizes[i] for i in range(value.rank))

    @property
    def dtype(self):
        return _tensors.type_name(self.code, self.bits)

    def __repr__(self):
        if self.is_scalar:
            return f"{self.name}: {self.dtype}"
        return f"{self.name}: {self.dtype}[{', '.join('?' if size is None else str(size) for size in self.sizes)}]"


class _Program:
    """A program for one device."""

    def __init__(self, text, device, options):
        handle = ctypes.c_void_p()
        _check(library.attn_compile(text, len(text), device.encode(), ctypes.byref(options), ctypes.byref(handle)))
        self.handle = handle
        self.parameters = self._values(library.attn_get_num_parameters, library.attn_get_parameter)
        self.results = self._values(library.attn_get_num_results, library.attn_get_result)

    def __del__(self):
        if getattr(self, "handle", None):
            library.attn_destroy(self.handle)

    def _values(self, count, get):
        values = []
        for index in range(count(self.handle)):
            value = Value(struct_size=ctypes.sizeof(Value))
            _check(get(self.handle, index, ctypes.byref(value)))
            values.append(_Value(value))
        return values

    def text(self, name):
        text = ctypes.c_char_p()
        _check(library.attn_get_text(self.handle, name.encode(), ctypes.byref(text)))
        return text.value.decode()

    def result_sizes(self, parameters, index):
        sizes = (ctypes.c_int64 * max(1, self.results[index].rank))()
        _check(library.attn_get_result_sizes(self.handle, parameters, len(self.parameters), index, sizes))
        return tuple(sizes[: self.results[index].rank])


def _pointers(views):
    return (ctypes.POINTER(DLTensor) * max(1, len(views)))(*(ctypes.pointer(view.tensor) for view in views))


class Function:
    """A compiled function; see `compile`. May be called from several threads at once."""

    def __init__(self, text, device, options, backward):
        self._text = text.encode() if isinstance(text, str) else bytes(text)
        self._device = device
        self._given = dict(options)
        self._is_backward = backward
        self._programs = {}
        self._lock = threading.Lock()
        self._backward = None
        # What is wrong with the module shows now, not in the first call.
        self._first = self._program("cuda:0" if device == "cuda" else device)

    def _program(self, device):
        with self._lock:
            if device not in self._programs:
                given = {key: value.encode() if isinstance(value, str) else value for key, value in self._given.items()}
                options = CompileOptions(
                    struct_size=ctypes.sizeof(CompileOptions), backward=int(self._is_backward), **given
                )
                self._programs[device] = _Program(self._text, device, options)
            return self._programs[device]

    @property
    def parameters(self):
        return tuple(self._first.parameters)

    @property
    def results(self):
        return tuple(self._first.results)

    @property
    def backward(self):
        """The backward function that the compiler derives: of the parameters, out, lse, d_out (and d_lse, if lse is
        returned) to the gradients of query, key, value and floating captures."""
        if self._is_backward:
            raise AttributeError("there is no backward function of a backward function")
        with self._lock:
            if self._backward is None:
                self._backward = Function(self._text, self._device, self._given, backward=True)
            return self._backward

    def prepare(self, variant=None):
        """Makes the machine code now that the first calls would otherwise make: all, or that of a variant of the launch plan,
        by its name there."""
        _check(library.attn_prepare_variant(self._first.handle, None if variant is None else variant.encode()))
        return self

    def source(self):
        """The generated code: CUDA C++, or assembly on a CPU."""
        return self._first.text("source")

    def explain(self):
        """What the compiler chose, and why."""
        return self._first.text("explain")

    def stage(self, name):
        """The function after a stage of the compiler: module, plan; loops, llvm-dialect, llvm-ir (CPU); kernels (GPU)."""
        return self._first.text("stage:" + name)

    def launch_plan(self):
        """Kernels, grids and workspaces as JSON (GPU)."""
        return self._first.text("launch-plan")

    def __repr__(self):
        kind = " (backward)" if self._is_backward else ""
        arrow = ", ".join(map(repr, self._first.parameters)) + " -> " + ", ".join(map(repr, self._first.results))
        return f"<attn.Function{kind} on {self._device}: {arrow}>"

    def workspace_bytes(self, *tensors, out):
        """What a call needs beside its tensors."""
        program, parameters, results, _, _ = self._bind(tensors, None, out)
        size = ctypes.c_int64()
        _check(
            library.attn_get_workspace_bytes(
                program.handle, _pointers(parameters), len(parameters), _pointers(results), len(results),
                ctypes.byref(size),
            )  # fmt: skip
        )
        return size.value

    def __call__(self, *tensors, stream=None, out=None, workspace=None):
        """Calls the function; returns its result, or a tuple of them.

        Results are made in the framework of the first tensor, or written to `out` (a tensor, or a tuple of them). On a
        GPU the work goes to `stream` (an address, or an object of PyTorch's or CuPy's), by default the framework's
        current one, and the call returns without waiting for it. `workspace` is memory on the GPU for the call alone, of
        `workspace_bytes(…)` bytes at least and aligned to 256; without it the library has its own.
        """
        program, parameters, results, outputs, stream = self._bind(tensors, stream, out)
        options = LaunchOptions(struct_size=ctypes.sizeof(LaunchOptions), stream=stream)
        if workspace is not None:
            lent = _tensors.view(workspace, stream)
            options.workspace, options.workspace_bytes = lent.tensor.data, _tensors.count_bytes(lent)
        _check(
            library.attn_launch(
                program.handle, _pointers(parameters), len(parameters), _pointers(results), len(results),
                ctypes.byref(options),
            )  # fmt: skip
        )
        if _tensors.framework(outputs[0]) == "jax" and results[0].device[0] == _tensors.CUDA:
            # JAX knows nothing of our stream.
            _check(library.attn_synchronize(program.handle, stream))
        return outputs[0] if len(outputs) == 1 else outputs

    def _bind(self, tensors, stream, out):
        expected = self._first.parameters
        if len(tensors) != len(expected):
            names = ", ".join(parameter.name for parameter in expected)
            raise TypeError(f"expected {len(expected)} arguments ({names}), got {len(tensors)}")
        if "arch" in self._given:
            raise Unavailable(
                f"the function was compiled for any {self._given['arch']}, not for a device; compile it without arch to "
                "call it"
            )
        first = next((x for x, spec in zip(tensors, expected) if not spec.is_scalar), None)
        if first is None:
            raise TypeError("a function without tensors has no device to run on")
        if stream is None:
            address = None
        elif isinstance(stream, int):
            address = stream
        else:
            address = getattr(stream, "cuda_stream", None)
            address = stream.ptr if address is None else address
        parameters = []
        for x, spec in zip(tensors, expected):
            try:
                if spec.is_scalar:
                    if not _tensors.is_scalar(x):
                        raise TypeError(f"expected a number, got {type(x).__name__}")
                    parameters.append(_tensors.view_scalar(x, spec.code, spec.bits))
                    continue
                # The stream is that of the first tensor's framework, on its device.
                view = _tensors.view(x, address)
                if address is None and view.device[0] == _tensors.CUDA:
                    address = _tensors.current_stream(first, view.device[1])
                if (view.tensor.dtype.code, view.tensor.dtype.bits) != (spec.code, spec.bits):
                    got = _tensors.type_name(view.tensor.dtype.code, view.tensor.dtype.bits)
                    raise TypeError(f"expected elements of type {spec.dtype}, got {got}")
                parameters.append(view)
            except (TypeError, OverflowError) as error:
                raise type(error)(f"argument '{spec.name}': {error}") from None
        device = next(view.device for view, spec in zip(parameters, expected) if not spec.is_scalar)
        program = self._first
        if self._device == "cuda" and device[0] == _tensors.CUDA:
            program = self._program(f"cuda:{device[1]}")
        if out is None:
            pointers = _pointers(parameters)
            outputs = tuple(
                _tensors.empty(first, program.result_sizes(pointers, index), spec.code, spec.bits)
                for index, spec in enumerate(program.results)
            )
        else:
            outputs = tuple(out) if isinstance(out, (tuple, list)) else (out,)
        for output in outputs:
            if _tensors.framework(output) == "numpy" and not output.flags.writeable:
                raise ValueError("an output is a read-only array")
        results = [_tensors.view(output, address) for output in outputs]
        return program, parameters, results, outputs, address or None


def compile(
    text, device="cuda", entry=None, backward=False, *,
    arch=None, threads=0, block_m=0, block_n=0, kv_splits=0, block_lists=None, tf32=False, deterministic=False,
    family="auto", exact_maximum=False,
):  # fmt: skip
    """Compiles a function of a module (MLIR text, or bytecode) for any sizes.

    device     "cpu", "cuda:N", or "cuda": the GPU that the tensors of a call are on
    entry      the function; by default the only public one with attention
    backward   compile its backward function instead (see Function.backward)
    arch       "sm_80" … "sm_120a": for such a GPU, which need not be here; the function cannot be called then
    threads    of one call on a CPU; 0 is all
    block_m, block_n, kv_splits   queries and keys in a block, parts of the keys; 0 lets the compiler choose
                                  (on a GPU each call chooses its parts, by its sizes)
    block_lists   whether to compute, in each call, which blocks a mask that depends on data leaves empty or full; by
               default on a GPU only, without kv_splits
    tf32       products of f32 tensors round their operands to tf32, as allow_tf32 of PyTorch does (GPU)
    deterministic   the same tensors give the same gradients bit by bit; slower on a GPU, refused for gradients of captures
    family     what GPU kernels are made of: "portable" (sm_80 and later), "hopper" (sm_90a: forwards of float16 and bfloat16),
               or "auto", the fastest that can be
    exact_maximum   probabilities of the hopper family are relative to the true maximum of their row, not to one that a second
               kernel corrects where it was too far off; slower
    """
    for name, value in (("device", device), ("entry", entry), ("arch", arch), ("family", family)):
        if not (isinstance(value, str) or value is None and name in ("entry", "arch")):
            raise TypeError(f"{name}: expected a string, got {type(value).__name__}")
    for name, value in (("threads", threads), ("block_m", block_m), ("block_n", block_n), ("kv_splits", kv_splits)):
        if not isinstance(value, numbers.Integral):
            raise TypeError(f"{name}: expected an integer, got {type(value).__name__}")
    options = {"threads": threads, "block_m": block_m, "block_n": block_n, "kv_splits": kv_splits}
    if block_lists is not None:
        options["block_lists"] = 1 if block_lists else -1
    options |= {"tf32": int(tf32), "deterministic": int(deterministic), "exact_maximum": int(exact_maximum)}
    if family != "auto":
        options["family"] = family
    if entry is not None:
        options["entry"] = entry
    if arch is not None:
        options["arch"] = arch
    return Function(text, device, options, backward)
