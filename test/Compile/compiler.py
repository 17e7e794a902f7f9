"""Emits and compiles cases, one a line of standard input; answers with a line of JSON each.

A process of its own: the library may crash. Its cache is a folder that only it uses, below the one that it is given.
"""

import dataclasses
import hashlib
import json
import os
import sys
import tempfile
from pathlib import Path

import cases


def emit(case):
    import attn

    direction = {"backward": case.backward, **dict(case.options)}
    return attn.compile(case.get_module(), "cuda", entry="f", arch=case.arch, **direction)


def list_variants(case, plan):
    return [variant for variant in plan["variants"] if variant["name"] in case.variants or not case.variants]


def hash_emitted(case):
    """Of all that is compiled, which is the plan's sources; or what is wrong with the module."""
    try:
        plan = json.loads(emit(case).launch_plan())
        numbers = {launch["module"] for variant in list_variants(case, plan) for launch in variant["launches"]}
        modules = [plan["modules"][number] for number in sorted(numbers)]
        return {"hash": hashlib.sha256(json.dumps(modules).encode()).hexdigest()}
    except Exception as error:
        return {"error": str(error)}


def compile(case, dump):
    """What ptxas says of each kernel, from the files that the library dumps."""
    for file in dump.iterdir():
        file.unlink()
    try:
        function = emit(case)
        for variant in list_variants(case, json.loads(function.launch_plan())):
            function.prepare(variant["name"])
    except Exception as error:
        return {"error": str(error), "log": "".join(file.read_text() for file in dump.glob("*.log"))}
    kernels = [json.loads(file.read_text()) for file in sorted(dump.glob("*.json"))]
    for kernel, source in zip(kernels, sorted(dump.glob("*.cu"))):
        # Not what repairs: it mostly has nothing to do.
        kernel["is_hopper"] = "attn/hopper.cuh" in source.read_text() and "_repair." not in kernel["name"]
    return {"kernels": kernels}


def main():
    with tempfile.TemporaryDirectory(dir=sys.argv[1]) as folder:
        dump = Path(folder, "dump")
        dump.mkdir()
        os.environ["ATTN_CACHE_DIR"], os.environ["ATTN_DUMP_DIR"] = folder + "/cache", str(dump)
        for line in sys.stdin:
            request = json.loads(line)
            case = cases.Case(**request["case"])
            case = dataclasses.replace(case, options=tuple(map(tuple, case.options)))
            answer = hash_emitted(case) if request["action"] == "emit" else compile(case, dump)
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
