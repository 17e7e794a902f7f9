# Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Views of the frameworks' tensors as DLPack's, and outputs in their kind. Imports no framework."""

import ctypes
import sys

from ._library import DLDataType, DLDevice, DLTensor

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13

# What the frameworks call DLPack's types: code and bits.
_NAMES = {
    (0, 8): "int8", (0, 16): "int16", (0, 32): "int32", (0, 64): "int64",
    (1, 8): "uint8", (1, 16): "uint16", (1, 32): "uint32", (1, 64): "uint64",
    (2, 16): "float16", (2, 32): "float32", (2, 64): "float64", (4, 16): "bfloat16", (6, 8): "bool",
}  # fmt: skip
_CODES = {name: code for code, name in _NAMES.items()}


def type_name(code, bits):
    return _NAMES.get((code, bits), f"type {code} of {bits} bits")


class View:
    """A DLTensor, with all that must live as long."""

    def __init__(self, tensor, keep):
        self.tensor, self.keep = tensor, keep

    @property
    def device(self):
        return self.tensor.device.device_type, self.tensor.device.device_id


def _make(pointer, device, name, shape, strides, keep):
    if name not in _CODES:
        raise TypeError(f"tensors of type {name} are not supported")
    rank = len(shape)
    sizes, steps = (ctypes.c_int64 * rank)(*shape), (ctypes.c_int64 * rank)(*strides)
    tensor = DLTensor()
    tensor.data, tensor.device, tensor.ndim = pointer, DLDevice(*device), rank
    tensor.dtype = DLDataType(*_CODES[name], 1)
    tensor.shape, tensor.strides = sizes, steps  # a field takes an array for its pointer; to cast costs 10 µs
    return View(tensor, (keep, sizes, steps))


def _is_torch(x):
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def _is_numpy(x):
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(x, (numpy.ndarray, numpy.generic))


def framework(x):
    """The package that a tensor is of: "torch", "numpy", "jax", "cupy" or another."""
    if _is_torch(x):
        return "torch"
    if _is_numpy(x):
        return "numpy"
    root = type(x).__module__.partition(".")[0]
    return "jax" if root.startswith("jax") else root


def count_bytes(view):
    """Of a compact tensor."""
    count = view.tensor.dtype.bits // 8
    for dim in reversed(range(view.tensor.ndim)):
        if view.tensor.shape[dim] != 1 and view.tensor.strides[dim] * view.tensor.dtype.bits // 8 != count:
            raise ValueError("expected a contiguous workspace")
        count *= view.tensor.shape[dim]
    return count


_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype, _get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def view(x, stream=None):
    """`x` as it lies in memory, without a copy. `stream` is the one that will read it."""
    if _is_torch(x):
        if x.layout != sys.modules["torch"].strided:
            raise TypeError(f"expected a strided tensor, got {x.layout}")
        device = (CUDA, x.device.index) if x.device.type == "cuda" else (CPU, 0)
        if x.device.type not in ("cuda", "cpu"):
            raise TypeError(f"tensors on {x.device} are not supported")
        name = str(x.dtype).removeprefix("torch.")
        return _make(x.data_ptr(), device, name, x.shape, x.stride(), x)
    if _is_numpy(x):
        numpy = sys.modules["numpy"]
        x = numpy.asarray(x)
        if x.dtype.byteorder == ">" or any(stride % x.itemsize for stride in x.strides):
            raise TypeError("expected a NumPy array in native byte order, with strides of whole elements")
        strides = [stride // x.itemsize for stride in x.strides]
        return _make(x.__array_interface__["data"][0], (CPU, 0), x.dtype.name, x.shape, strides, x)
    if not hasattr(x, "__dlpack__"):
        raise TypeError(f"expected a tensor (torch, NumPy, JAX, CuPy or another with __dlpack__), got {type(x).__name__}")
    is_cuda = int(x.__dlpack_device__()[0]) in (CUDA, CUDA_MANAGED)
    # DLPack calls the legacy default stream 1.
    capsule = x.__dlpack__(stream=stream or 1) if is_cuda else x.__dlpack__()
    # The capsule stays ours: it deletes the tensor when it goes.
    tensor = DLTensor.from_address(_get_pointer(capsule, b"dltensor"))
    return View(tensor, (capsule, x))


def is_scalar(x):
    """A number of Python's or NumPy's, or a tensor without dimensions."""
    return isinstance(x, (bool, int, float)) or getattr(x, "ndim", None) == 0


def view_scalar(x, code, bits):
    """A number as a tensor without dimensions in memory of the host."""
    value = x if isinstance(x, (bool, int, float)) else x.item()
    if code in (0, 1, 6):
        if not float(value).is_integer():
            raise TypeError(f"expected an integer, got {value}")
        value = int(value)
        least, most = (0, 1) if code == 6 else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        if not least <= value <= most:
            raise OverflowError(f"{value} does not fit {type_name(code, bits)}")
        data = value.to_bytes(bits // 8, sys.byteorder, signed=code == 0)
    elif (code, bits) == (4, 16):
        import struct

        (rounded,) = struct.unpack("<I", struct.pack("<f", value))
        is_nan = value != value
        rounded = rounded >> 16 | 0x40 if is_nan else (rounded + 0x7FFF + (rounded >> 16 & 1)) >> 16
        data = rounded.to_bytes(2, sys.byteorder)
    else:
        import struct

        data = struct.pack({16: "<e", 32: "<f", 64: "<d"}[bits], value)
    buffer = ctypes.create_string_buffer(data, len(data))
    return _make(ctypes.addressof(buffer), (CPU, 0), type_name(code, bits), (), (), buffer)


def empty(like, shape, code, bits):
    """An uninitialized tensor of the kind of `like`, on its device."""
    kind, name = framework(like), type_name(code, bits)
    if kind == "torch":
        torch = sys.modules["torch"]
        return torch.empty(shape, dtype=getattr(torch, name), device=like.device)
    if kind == "numpy":
        numpy = sys.modules["numpy"]
        # bfloat16 is a type of ml_dtypes, which the input that has it came with.
        return numpy.empty(shape, dtype=like.dtype if like.dtype.name == name else name)
    if kind == "jax":
        import jax

        # A buffer of its own, which nothing has seen yet: the one moment at which it may be written to.
        out = jax.device_put(jax.numpy.empty(shape, dtype=name), next(iter(like.devices())))
        return jax.block_until_ready(out)
    if kind == "cupy":
        return sys.modules["cupy"].empty(shape, dtype=name)
    if hasattr(like, "__array_namespace__"):
        namespace = like.__array_namespace__()
        return namespace.empty(shape, dtype=getattr(namespace, name), device=like.device)
    raise TypeError(f"cannot make an output for inputs of type {type(like).__name__}; pass out=")


def current_stream(like, device_id):
    """The stream that the framework of `like` works on, as an address."""
    kind = framework(like)
    if kind == "torch":
        return sys.modules["torch"].cuda.current_stream(device_id).cuda_stream
    if kind == "cupy":
        return sys.modules["cupy"].cuda.get_current_stream().ptr
    return 0
