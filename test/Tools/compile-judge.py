"""Which compiled kernels test/Compile objects to.

RUN: %python %s %root/test/Compile
"""

import sys

sys.path.insert(0, sys.argv[1])
import cases
import judge


def kernel(stack=0, spilled=0, warnings=()):
    return {"name": "k", "functions": [{"stack_bytes": stack, "spill_store_bytes": spilled}], "warnings": list(warnings)}


def find(*kernels, spills={}):
    return judge.find_problems("case", {"kernels": list(kernels)}, spills)


spill = "ptxas warning : Registers are spilled to local memory in function 'k', 8 bytes spill stores"
assert find(kernel()) == []
assert find() == ["nothing was compiled"]
assert find(kernel(8, 8, [spill]), kernel(16, 16)) == ["spilled 24 bytes, spills.txt allows 0: case"]
assert find(kernel(8, 8, [spill]), kernel(16, 16), spills={"case": 24}) == []
assert find(kernel(8, 8), kernel(24, 24), spills={"case": 24}) == ["spilled 32 bytes, spills.txt allows 24: case"]
assert find(kernel(), spills={"case": 24}) == ["spills nothing, spills.txt must not list it: case"]
assert find(kernel(8, 8), spills={"c*": 0, "case": 24}) == ["spilled 8 bytes, spills.txt allows 0: case"]
assert find(kernel(8, 8), spills={"other": 0, "c*": 24}) == [] == find(kernel(), spills={"other": 0, "c*": 24})
assert find(kernel(8, 8), spills=None) == []  # another ptxas
assert find(kernel(64), spills={"case": 64}) == ["k: 64 bytes of arrays in local memory"]
serialized = "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized"
assert find(kernel(warnings=[serialized]), spills=None) == ["k: " + serialized]
spilling = {**kernel(8, 8), "is_hopper": True}
assert find(spilling, spills={"hopper/*": 0, "*": 8}) == ["kernels of the hopper family spilled 8 bytes, spills.txt allows 0: case"]
assert find(spilling, kernel(8, 8), spills={"hopper/c*": 8, "hopper/*": 0, "*": 8}) == []
assert judge.find_problems("case", {"error": "no tile fits"}, {}) == ["no tile fits\n"]

# Every line of the table is about some case.
version, spills = judge.load_spills()
names = [case.name for case in cases.list_cases()]
assert len(set(names)) == len(names)
assert version
for pattern in spills:
    assert any(judge.get_limit(prefix + name, {pattern: 1}) for name in names for prefix in ("", "hopper/")), pattern
module = next(case for case in cases.list_cases() if case.name == "alibi/forward/bf16/d96/sm_80").get_module()
assert "tensor<?x8x?x96xbf16>" in module and "tensor<8xf32>" in module and "@f(" in module, module
