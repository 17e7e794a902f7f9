# RUN: %python %s %root

"""Each constraint has a label, in three places: where it is documented, in its diagnostic, in a test that provokes it."""

import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])


def labels(pattern, files):
    text = "\n".join(path.read_text() for path in files)
    return {label for match in re.findall(pattern, text) for label in match.split(", ")}


documented = labels(r"- \(([A-Z]+\d+)\)", root.glob("dialect/*.td"))
diagnosed = labels(r'(?:\[|")([A-Z]+\d+(?:, [A-Z]+\d+)*)(?:\]|")', root.glob("dialect/*.cpp"))
tested = labels(r"expected-error.*\[([A-Z]+\d+(?:, [A-Z]+\d+)*)\]\}\}", root.glob("test/Dialect/invalid*.mlir"))

assert len(documented) >= 20, f"found only {sorted(documented)} in the ODS"
failures = [
    f"({label}) is documented in dialect/*.td, but {lack}"
    for labels, lack in [
        (diagnosed, "no diagnostic in dialect/*.cpp has it"),
        (tested, "no test/Dialect/invalid*.mlir expects it"),
    ]
    for label in sorted(documented - labels)
] + [f"[{label}] is not documented in dialect/*.td" for label in sorted((diagnosed | tested) - documented)]
sys.exit("\n".join(failures) or 0)
