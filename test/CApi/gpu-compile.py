# RUN: env ATTN_LIBRARY=%build/lib/libattn_c.so PYTHONPATH=%root/python ATTN_CACHE_DIR=%t.cache %python %s %root

"""Compiles for GPUs that need not be here; machine code where NVRTC is."""

import json
import pathlib
import sys

import attn

examples = pathlib.Path(sys.argv[1]) / "test" / "Examples"
causal = (examples / "causal.mlir").read_text().replace("x64xf32", "x64xbf16")
fn = attn.compile(causal, "cuda", entry="top_left", arch="sm_90a")
assert [(p.name, p.dtype) for p in fn.parameters] == [("q", "bfloat16"), ("k", "bfloat16"), ("v", "bfloat16")]
assert [(r.name, r.dtype) for r in fn.results] == [("out", "bfloat16"), ("lse", "float32")]
assert "__global__" in fn.source() and "causal" not in fn.source()
plan = json.loads(fn.launch_plan())
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

# The second time nothing is lowered: the plan comes from the cache, the same byte for byte.
assert attn.compile(causal, "cuda", entry="top_left", arch="sm_90a").launch_plan() == fn.launch_plan()

try:
    fn.prepare()
    assert "registers" in fn.explain() and "not compiled" not in fn.explain()
except attn.CompileError as error:
    assert "NVRTC" in str(error) or "nvrtc" in str(error), error
    assert "not compiled" in fn.explain()
