#!/usr/bin/python3
"""Stands for attn-opt in findings.test: what it does is decided by a word in its input."""

import os
import sys

text = sys.stdin.read()
if "crash" in text:
    print("opt: file.cpp:1: void f(): Assertion `size > 0' failed.", file=sys.stderr)
    sys.stderr.flush()
    os.abort()
if "silent" in text:
    sys.exit(1)
if "refused" in text:
    sys.exit("error: no such operation")
print("refused" if "unreadable" in text else text)
