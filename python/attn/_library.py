# Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finds libattn_c and declares its functions (runtime/capi/attn.h)."""

import ctypes
import os
import pathlib

from ctypes import POINTER, Structure, c_char_p, c_int32, c_int64, c_size_t, c_uint8, c_uint16, c_uint64, c_void_p


class DLDevice(Structure):
    _fields_ = [("device_type", c_int32), ("device_id", c_int32)]


class DLDataType(Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class DLTensor(Structure):
    _fields_ = [
        ("data", c_void_p),
        ("device", DLDevice),
        ("ndim", c_int32),
        ("dtype", DLDataType),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


class CompileOptions(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("entry", c_char_p),
        ("arch", c_char_p),
        ("backward", c_int32),
        ("threads", c_int32),
        ("block_m", c_int64),
        ("block_n", c_int64),
        ("kv_splits", c_int64),
        ("block_lists", c_int32),
        ("tf32", c_int32),
        ("deterministic", c_int32),
        ("family", c_char_p),
        ("exact_maximum", c_int32),
    ]


class LaunchOptions(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("stream", c_void_p),
        ("workspace", c_void_p),
        ("workspace_bytes", c_int64),
    ]


class Value(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("type", DLDataType),
        ("is_scalar", c_int32),
        ("rank", c_int32),
        ("sizes", POINTER(c_int64)),
    ]


Tensors = POINTER(POINTER(DLTensor))

_FUNCTIONS = {
    "attn_get_error": (c_char_p, []),
    "attn_get_api_version": (c_int32, []),
    "attn_compile": (c_int32, [c_char_p, c_size_t, c_char_p, POINTER(CompileOptions), POINTER(c_void_p)]),
    "attn_destroy": (None, [c_void_p]),
    "attn_prepare_variant": (c_int32, [c_void_p, c_char_p]),
    "attn_get_num_parameters": (c_int32, [c_void_p]),
    "attn_get_num_results": (c_int32, [c_void_p]),
    "attn_get_parameter": (c_int32, [c_void_p, c_int32, POINTER(Value)]),
    "attn_get_result": (c_int32, [c_void_p, c_int32, POINTER(Value)]),
    "attn_get_text": (c_int32, [c_void_p, c_char_p, POINTER(c_char_p)]),
    "attn_launch": (c_int32, [c_void_p, Tensors, c_int32, Tensors, c_int32, POINTER(LaunchOptions)]),
    "attn_get_result_sizes": (c_int32, [c_void_p, Tensors, c_int32, c_int32, POINTER(c_int64)]),
    "attn_get_workspace_bytes": (c_int32, [c_void_p, Tensors, c_int32, Tensors, c_int32, POINTER(c_int64)]),
    "attn_synchronize": (c_int32, [c_void_p, c_void_p]),
}


def _candidates():
    named = os.environ.get("ATTN_LIBRARY")
    if named:
        return [pathlib.Path(named)]
    here = pathlib.Path(__file__).resolve().parent
    return [here / "libattn_c.so", here.parent.parent / "build" / "lib" / "libattn_c.so"]


def _load():
    candidates = _candidates()
    for path in candidates:
        if path.exists():
            library = ctypes.CDLL(str(path))
            break
    else:
        places = ", ".join(map(str, candidates))
        raise ImportError(
            f"libattn_c.so is missing (looked for {places}); build it with 'tools/dev build attn_c', or name it in "
            "ATTN_LIBRARY"
        )
    version = library.attn_get_api_version()  # of every version, and an int is what ctypes takes it for
    if version < 4:
        raise ImportError(f"{path} has an interface of version {version}, expected 4 or later")
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


library = _load()
