# RUN: env ATTN_LIBRARY=%build/lib/libattn_c.so PYTHONPATH=%root/python %python %s %root
# RUN: not env ATTN_LIBRARY=%t/nowhere.so PYTHONPATH=%root/python %python -c "import attn" 2>&1 | FileCheck %s
# CHECK: ImportError: libattn_c.so is missing (looked for {{.*}}nowhere.so); build it with

"""What is wrong is said in one sentence, before anything runs."""

import ctypes
import pathlib
import sys

import attn
import numpy as np
from attn import _library

examples = pathlib.Path(sys.argv[1]) / "test" / "Examples"
causal = (examples / "causal.mlir").read_text()
soft_cap = (examples / "soft_cap.mlir").read_text()


def expect(kind, message, call):
    try:
        call()
    except kind as error:
        assert type(error) is kind and message in str(error) and "\n" not in str(error), repr(error)
    else:
        raise AssertionError(f"no error, expected: {message}")


# Modules.
expect(attn.CompileError, "module.mlir:1:13: ", lambda: attn.compile("func.func @f(", "cpu"))
expect(attn.CompileError, "choose one with --entry", lambda: attn.compile(causal, "cpu"))
expect(attn.CompileError, "unknown entry @none: expected one of @top_left, @bottom_right",
       lambda: attn.compile(causal, "cpu", entry="none"))  # fmt: skip
expect(attn.CompileError, "no public function holds an attention op", lambda: attn.compile("module {}", "cpu"))
expect(ValueError, "unknown device 'tpu', expected cpu, cuda or cuda:N", lambda: attn.compile(causal, "tpu"))
expect(ValueError, "unknown device 'cuda:x'", lambda: attn.compile(causal, "cuda:x"))
expect(ValueError, "arch names a GPU's architecture; the device is cpu",
       lambda: attn.compile(soft_cap, "cpu", arch="sm_80"))  # fmt: skip
for options in ({"family": "portable"}, {"exact_maximum": True}):
    expect(ValueError, "family and exact_maximum are of a GPU; the device is cpu", lambda: attn.compile(soft_cap, "cpu", **options))
expect(ValueError, "are 0 or positive", lambda: attn.compile(soft_cap, "cpu", block_m=-1))
expect(attn.CompileError, "unknown GPU architecture 'sm_70', expected sm_80", lambda: attn.compile(soft_cap, arch="sm_70"))
expect(ValueError, "expected a variant of the plan (on a CPU there is none), got aligned",
       lambda: attn.compile(soft_cap, "cpu").prepare("aligned"))  # fmt: skip
expect(TypeError, "entry: expected a string, got int", lambda: attn.compile(soft_cap, "cpu", entry=5))
expect(TypeError, "device: expected a string, got NoneType", lambda: attn.compile(soft_cap, None))
expect(TypeError, "block_m: expected an integer, got str", lambda: attn.compile(soft_cap, "cpu", block_m="a"))

# Calls.
fn = attn.compile(soft_cap, "cpu")
q, k, v = (np.zeros((1, 4, 8, 64), np.float32) for _ in range(3))
out, lse = fn(q, k, v, 1.0)
expect(TypeError, "expected 4 arguments (q, k, v, cap), got 3", lambda: fn(q, k, v))
expect(TypeError, "argument 'k': expected elements of type float32, got float64", lambda: fn(q, k.astype("d"), v, 1.0))
expect(TypeError, "argument 'cap': expected a number, got ndarray", lambda: fn(q, k, v, q))
expect(TypeError, "argument 'v': expected a tensor", lambda: fn(q, k, [1.0], 1.0))
expect(TypeError, "strides of whole elements", lambda: fn(q, k, np.zeros(9000, np.uint8)[1:8193].view(np.float32)
                                                          .reshape(1, 4, 8, 64)[..., ::-1].astype(">f4"), 1.0))  # fmt: skip
expect(ValueError, "'soft_cap': parameter 'q' has rank 3, expected 4", lambda: fn(q[0], k, v, 1.0))
expect(ValueError, "parameter 'q' has size 3 in dimension 1, expected 4", lambda: fn(q[:, :3], k, v, 1.0))
expect(ValueError, "size 2 of 'v' must be size 2 of 'k'", lambda: fn(q, k, v[:, :, :7], 1.0))
expect(ValueError, "size 0 of 'k' must be size 0 of 'q'", lambda: fn(q, np.concatenate([k, k]), v, 1.0))
expect(ValueError, "parameter 'k' has stride 2 in its last dimension", lambda: fn(q, np.repeat(k, 2, -1)[..., ::2], v, 1.0))
expect(ValueError, "result 'out' begins where parameter 'k' does, expected memory of its own",
       lambda: fn(q, k, v, 1.0, out=(k, lse)))  # fmt: skip
expect(ValueError, "result 'out' has size 7 in dimension 2, expected 8 (q.size(2))",
       lambda: fn(q, k, v, 1.0, out=(out[:, :, :7], lse)))  # fmt: skip
expect(ValueError, "result 'out' has stride 0 in dimension 0",
       lambda: fn(np.concatenate([q, q]), np.concatenate([k, k]), np.concatenate([v, v]), 1.0, out=(
           np.lib.stride_tricks.as_strided(out, (2, 4, 8, 64), (0, *out.strides[1:])), lse.repeat(2, 0))))  # fmt: skip
expect(ValueError, "got 1 results, expected 2", lambda: fn(q, k, v, 1.0, out=out))
locked = out.copy()
locked.flags.writeable = False
expect(ValueError, "read-only", lambda: fn(q, k, v, 1.0, out=(locked, lse)))
grouped = attn.compile((examples / "gqa.mlir").read_text(), "cpu", entry="dynamic_heads")
h = q.astype(np.float16)
expect(ValueError, "size 1 of 'q' (heads) must be a multiple of size 1 of 'k'", lambda: grouped(h, h[:, :3], h[:, :3]))
bias = attn.compile((examples / "additive_bias.mlir").read_text(), "cpu")
two = q[:, :2]
expect(ValueError, "size 2 of 'bias' must be at least size 2 of 'k'", lambda: bias(two, two, two, np.zeros((2, 8, 7), "f")))
expect(AttributeError, "no backward function of a backward", lambda: fn.backward.backward)
expect(ValueError, "unknown text 'stage:none', expected explain", lambda: fn.stage("none"))

# Captured tensors have their types, too.
window = attn.compile((examples / "prefix_lm.mlir").read_text(), "cpu")
expect(TypeError, "argument 'prefix': expected elements of type int32, got int64", lambda: window(two, two, two, np.array([3])))

# A device that is not here.
library = _library.library
try:
    attn.compile(soft_cap, "cuda:0")
except attn.Unavailable as error:
    assert "libcuda.so.1" in str(error) and "compile for 'cpu'" in str(error), error

# Wrong use of the C functions themselves is an error, too.
assert library.attn_compile(None, 0, None, None, None) == 1
assert b"must not be null" in library.attn_get_error()
handle = ctypes.c_void_p()
options = _library.CompileOptions()
text = soft_cap.encode()
assert library.attn_compile(text, len(text), b"cpu", ctypes.byref(options), ctypes.byref(handle)) == 1
assert b"struct_size" in library.attn_get_error()
assert library.attn_launch(None, None, 0, None, 0, None) == 1
library.attn_destroy(None)

# An older caller knows fewer fields: those that it lacks have their defaults.
options = _library.CompileOptions(struct_size=_library.CompileOptions.entry.offset + 8, block_m=-5)
assert library.attn_compile(text, len(text), b"cpu", ctypes.byref(options), ctypes.byref(handle)) == 0
assert library.attn_launch(handle, None, 0, None, 0, None) == 4
assert b"'soft_cap': got 0 parameters, expected 4" in library.attn_get_error()
library.attn_destroy(handle)
