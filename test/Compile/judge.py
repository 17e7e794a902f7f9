"""What is wrong with a compiled case."""

import fnmatch
import functools
from pathlib import Path


@functools.cache
def load_spills():
    """The version of NVRTC that the table is for, and its lines: patterns of names, each with a number of bytes."""
    version, spills = "", {}
    for line in Path(__file__).with_name("spills.txt").read_text().splitlines():
        words = line.partition("#")[0].split()
        if words[:1] == ["nvrtc"]:
            version = words[1]
        elif words:
            spills[words[0]] = int(words[1])
    return version, spills


def get_limit(name, spills):
    """How many bytes the kernels of a case may spill, of one thread each: the first pattern that fits says."""
    return next((limit for pattern, limit in spills.items() if fnmatch.fnmatchcase(name, pattern)), 0)


def find_problems(name, answer, spills):
    """Sentences, none if all is well. Spilled registers count where `spills` is given."""
    if "error" in answer:
        return [answer["error"] + "\n" + answer.get("log", "")]
    problems, spilled, hopper_spilled = [], 0, 0
    for kernel in answer["kernels"]:
        for function in kernel["functions"]:
            stack = function["stack_bytes"]
            if stack and not function["spill_store_bytes"]:
                problems.append(f"{kernel['name']}: {stack} bytes of arrays in local memory")
            elif kernel.get("is_hopper"):
                hopper_spilled += stack
            else:
                spilled += stack
        problems += [f"{kernel['name']}: {warning}" for warning in kernel["warnings"] if "(C75" in warning]
    if not answer["kernels"]:
        problems.append("nothing was compiled")
    if not problems and spills is not None:
        limit = get_limit(name, spills)
        if spilled > limit:
            problems.append(f"spilled {spilled} bytes, spills.txt allows {limit}: {name}")
        elif spills.get(name) and not spilled:
            problems.append(f"spills nothing, spills.txt must not list it: {name}")
        limit = get_limit("hopper/" + name, spills)
        if hopper_spilled > limit:
            problems.append(f"kernels of the hopper family spilled {hopper_spilled} bytes, spills.txt allows {limit}: {name}")
    return problems
