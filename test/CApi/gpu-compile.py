# RUN: rm -rf %t.cache %t.dump && mkdir -p %t.dump
# RUN: env ATTN_LIBRARY=%build/lib/libattn_c.so PYTHONPATH=%root/python ATTN_CACHE_DIR=%t.cache ATTN_DUMP_DIR=%t.dump %python %s %root %t.dump

"""Compiles for GPUs that need not be here; machine code where NVRTC is."""

import json
import pathlib
import sys

import attn

examples, dump = pathlib.Path(sys.argv[1]) / "test" / "Examples", pathlib.Path(sys.argv[2])
causal = (examples / "causal.mlir").read_text().replace("x64xf32", "x64xbf16")
fn = attn.compile(causal, "cuda", entry="top_left", arch="sm_90a")
assert [(p.name, p.dtype) for p in fn.parameters] == [("q", "bfloat16"), ("k", "bfloat16"), ("v", "bfloat16")]
assert [(r.name, r.dtype) for r in fn.results] == [("out", "bfloat16"), ("lse", "float32")]
assert "__global__" in fn.source() and "causal" not in fn.source()
plan = json.loads(fn.launch_plan())
try:
    fn.prepare("sideways")
    raise AssertionError("prepared a variant that there is not")
except ValueError as error:
    assert "expected a variant of the plan (" in str(error) and "aligned, any), got sideways" in str(error), error
# One variant, then the rest.
compiled = []
for variant in ("any", None):
    try:
        fn.prepare(variant)
    except attn.CompileError as error:
        assert "NVRTC" in str(error) or "nvrtc" in str(error), error
    else:
        compiled.append(len(list(dump.glob("*.cubin"))))
assert compiled in ([], [len(plan["variants"][-1]["launches"]), len(plan["modules"])]), compiled
assert [p["name"] for p in plan["parameters"]] == ["q", "k", "v"]
assert {"condition", "message"} <= set(plan["requirements"][0])
assert "gpu.module" in fn.stage("kernels") and "attn.online_attention" in fn.stage("plan")
try:
    fn(None, None, None)
    raise AssertionError("called without a device")
except attn.Unavailable as error:
    assert "compiled for any sm_90a" in str(error), error

# Another architecture has less shared memory, and so may have another tile; the numbers given by hand are used.
given = attn.compile(causal, "cuda", entry="top_left", arch="sm_86", block_m=64, block_n=64)
assert "64 queries x 64 keys" in given.explain() and "sm_86" in given.explain()

# Products in tf32, where asked for by an option or in the module, of the derived backward too.
f32 = (examples / "causal.mlir").read_text()
plain = attn.compile(f32, "cuda", entry="top_left", arch="sm_80")
assert "mma_fma(" in plain.source() and "tf32" not in plain.source() + plain.explain()
in_module = f32.replace("} : (", "} {tf32} : (")
for rounded in (attn.compile(f32, "cuda", entry="top_left", arch="sm_80", tf32=True), attn.compile(in_module, "cuda", entry="top_left", arch="sm_80")):  # fmt: skip
    for function in (rounded, rounded.backward):
        assert "mma_tf32(" in function.source() and "mma_fma(" not in function.source()
        assert "rounded to tf32" in function.explain()
for device, text, message in (("cuda", causal, "expected tensors of f32 for tf32 products"), ("cpu", f32, "tf32 products are for a GPU")):
    try:
        attn.compile(text, device, entry="top_left", tf32=True, **({"arch": "sm_80"} if device == "cuda" else {}))
        raise AssertionError("tf32 was ignored")
    except attn.CompileError as error:
        assert message in str(error), error

# What kernels are made of: the fastest that can be, or what is asked for. The gradients of a forward of any family are portable.
assert "mma_async" in fn.source() and "family hopper" in fn.explain()
portable = attn.compile(causal, "cuda", entry="top_left", arch="sm_90a", family="portable")
assert "mma_async" not in portable.source() and "hopper" not in portable.explain() and "mma_async" not in fn.backward.source()
assert "top_left_forward_repair(" in fn.source()
exact = attn.compile(causal, "cuda", entry="top_left", arch="sm_90a", family="hopper", exact_maximum=True)
assert "mma_async" in exact.source() and "exact maximum" in exact.explain()
assert "1.2676506e+30f" in fn.source() and "1.2676506e+30f" not in exact.source()  # 2^100, what sums are compared with
for text, options, message in (
    (f32, {"arch": "sm_90a", "family": "hopper"}, "has no kernel of the hopper family: its products are of elements of 16 bits"),
    (causal, {"arch": "sm_80", "family": "hopper"}, "has no kernel of the hopper family: wgmma is of sm_90a, not of sm_80"),
    (causal, {"arch": "sm_90a", "family": "volta"}, "expected the family of GPU kernels to be auto, portable or hopper, got volta"),
):
    try:
        attn.compile(text, "cuda", entry="top_left", **options)
        raise AssertionError(f"compiled with {options}")
    except attn.CompileError as error:
        assert message in str(error), error

# Gradients without atomic additions, where asked for.
backward = attn.compile(causal, "cuda", entry="top_left", arch="sm_80").backward
assert "atomic_add" in backward.source() and "online_attention fused" in backward.stage("plan")
backward = attn.compile(causal, "cuda", entry="top_left", arch="sm_80", deterministic=True).backward
assert "atomic" not in backward.source() and "online_attention dq" in backward.stage("plan")

# The second time nothing is lowered: the plan comes from the cache, the same byte for byte.
assert attn.compile(causal, "cuda", entry="top_left", arch="sm_90a").launch_plan() == fn.launch_plan()

try:
    fn.prepare()
    assert "registers" in fn.explain() and "not compiled" not in fn.explain()
except attn.CompileError as error:
    assert "NVRTC" in str(error) or "nvrtc" in str(error), error
    assert "not compiled" in fn.explain()
