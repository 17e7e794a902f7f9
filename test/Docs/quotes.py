#!/usr/bin/env python3
"""Checks, or rewrites, the blocks that the documentation quotes from tests and from commands.

A fenced block that follows one of these comments is a quotation:

    <!-- quote: test/Examples/alibi.mlir -->            the file, without the lines of lit and FileCheck
    <!-- quote: test/Examples/causal.mlir @top_left --> one function of it, with the comment above it
    <!-- run: attn-opt FILE --flag -->                  what the command prints

Commands run in a shell in the root of the repository, with the build's tools on PATH. So what a reader sees is what a test
runs, and documentation breaks in the test suite rather than in the reader's head.

Example: quotes.py README.md           fails, with a diff, where a quotation is out of date
         quotes.py --update README.md  rewrites them
"""

import argparse
import difflib
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(
    r"(?P<head><!-- (?P<kind>quote|run): (?P<what>[^\n]+?) -->\n```(?P<language>\w*)\n)(?P<body>.*?)(?P<tail>^```$)",
    re.DOTALL | re.MULTILINE,
)
DIRECTIVE = re.compile(r"^\s*// [A-Z][A-Z0-9_-]*:")


def quote(what):
    name, _, function = what.partition(" @")
    lines = [line for line in (ROOT / name).read_text().splitlines() if not DIRECTIVE.match(line)]
    if function:
        start = next((i for i, line in enumerate(lines) if f"func.func @{function}(" in line), None)
        if start is None:
            raise SystemExit(f"{name}: expected a function @{function}")
        end = next(i for i in range(start, len(lines)) if lines[i] == "}")
        while start > 0 and lines[start - 1].startswith("//"):
            start -= 1
        lines = lines[start : end + 1]
    text = "\n".join(lines)
    return re.sub(r"\n//\n(?=\n|func)", "\n", text).strip("\n") + "\n"


def run(what):
    done = subprocess.run(what, shell=True, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"`{what}` failed with exit code {done.returncode}:\n{done.stderr}")
    return done.stdout.strip("\n") + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="rewrite the quotations instead of checking them")
    parser.add_argument("documents", nargs="+", help="Markdown files")
    arguments = parser.parse_args()

    stale = False
    for name in arguments.documents:
        path = Path(name)
        old = path.read_text()
        count = 0

        def renew(match):
            nonlocal count
            count += 1
            body = quote(match["what"]) if match["kind"] == "quote" else run(match["what"])
            return match["head"] + body + match["tail"]

        new = BLOCK.sub(renew, old)
        if count == 0:
            raise SystemExit(f"{name}: expected at least one quotation")
        if new == old:
            print(f"{name}: {count} quotations are up to date")
        elif arguments.update:
            path.write_text(new)
            print(f"{name}: updated")
        else:
            stale = True
            sys.stdout.writelines(
                difflib.unified_diff(old.splitlines(True), new.splitlines(True), name, f"{name} as it should be")
            )
    return int(stale)


if __name__ == "__main__":
    sys.exit(main())
