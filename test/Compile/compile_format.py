"""The tests of this folder: each compiles a case of cases.py to machine code, and reads what ptxas says of it.

A verdict is kept under a hash of the CUDA that the compiler emits, not of the compiler: a change that leaves a kernel as
it was costs its emission, a few hundredths of a second.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import lit.Test
import verdicts

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cases
import judge

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent


class Compiler:
    """A process of compiler.py, begun when first asked and again when it has died."""

    def __init__(self, python, build):
        self.command = [python, FOLDER / "compiler.py", build / "test" / "Compile"]
        self.environment = dict(
            os.environ, ATTN_LIBRARY=str(build / "lib" / "libattn_c.so"), PYTHONPATH=str(ROOT / "python")
        )
        self.process = None

    def ask(self, action, case):
        if self.process is None:
            self.errors = tempfile.TemporaryFile()
            self.process = subprocess.Popen(
                self.command, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
                text=True,
            )  # fmt: skip
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps({"action": action, "case": dataclasses.asdict(case)}) + "\n")
            self.process.stdin.flush()
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        self.close()
        self.errors.seek(0)
        return {"error": "the compiler died: " + self.errors.read().decode(errors="replace")}

    def close(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait()
        self.process = None


_compilers = {}  # of this process, which is one of lit's workers


class Grid:
    def __init__(self, python, build):
        self.python, self.build = python, Path(build).resolve()
        self.memory = self.build / "test" / "Compile"
        self.files = [*(ROOT / "codegen" / "device").rglob("*.cuh"), *FOLDER.glob("*.py")]
        self.files += [ROOT / "runtime" / "KernelCompiler.cpp", ROOT / "runtime" / "Nvrtc.cpp"]

    def getTestsInDirectory(self, suite, path_in_suite, lit_config, config):
        self.memory.mkdir(parents=True, exist_ok=True)
        self.nvrtc = self.probe()
        if "error" in self.nvrtc:
            test = lit.Test.Test(suite, (*path_in_suite, "all cases, for want of NVRTC"), config)
            test.case = None
            yield test
            return
        for case, emitted in self.emit():
            test = lit.Test.Test(suite, (*path_in_suite, *case.name.split("/")), config, file_path=cases.find(case.file))
            test.case, test.emitted = case, emitted
            yield test

    def probe(self):
        """NVRTC's version and options, or why there is none."""
        case = next(case for case in cases.list_cases() if not case.backward)
        compiler = Compiler(self.python, self.build)
        answer = compiler.ask("compile", case)
        compiler.close()
        if "NVRTC is missing" in answer.get("error", ""):
            return {"error": answer["error"]}
        kernels = answer.get("kernels") or [{"nvrtc": "", "options": []}]
        return {"version": kernels[0]["nvrtc"], "options": kernels[0]["options"]}

    def emit(self):
        """All cases, each with the hash of what is emitted; remembered while library and modules are the same."""
        everything = list(cases.list_cases())
        identity = hashlib.sha256(verdicts.hash_file(str(self.build / "lib" / "libattn_c.so")).encode())
        for case in everything:
            identity.update(repr(case).encode())
        for file in sorted({cases.find(case.file) for case in everything} | set(FOLDER.glob("*.py"))):
            identity.update(file.read_bytes())
        memory = self.memory / "emitted.json"
        with contextlib.suppress(OSError, ValueError):
            known = json.loads(memory.read_text())
            if known["identity"] == identity.hexdigest():
                return list(zip(everything, known["emitted"]))

        emitted = [None] * len(everything)

        def work(begin, step):
            compiler = Compiler(self.python, self.build)
            for index in range(begin, len(everything), step):
                emitted[index] = compiler.ask("emit", everything[index])
            compiler.close()

        count = len(os.sched_getaffinity(0))
        threads = [threading.Thread(target=work, args=(number, count)) for number in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        memory.write_text(json.dumps({"identity": identity.hexdigest(), "emitted": emitted}))
        return list(zip(everything, emitted))


class CompileTest(verdicts.Cached, Grid):
    def get_dependencies(self, test):
        if test.case is None or "error" in test.emitted:
            return None
        version, spills = judge.load_spills()
        limits = [judge.get_limit(prefix + test.case.name, spills) for prefix in ("", "hopper/")]
        return [
            "emitted " + test.emitted["hash"],
            "nvrtc " + self.nvrtc["version"],
            "options " + " ".join(self.nvrtc["options"]),
            f"arch {test.case.arch}",
            f"spills {version} {limits} {spills.get(test.case.name)}",
            *self.files,
        ]

    def run(self, test, lit_config):
        if test.case is None:
            return lit.Test.UNSUPPORTED, self.nvrtc["error"]
        compiler = _compilers.setdefault(self.build, Compiler(self.python, self.build))
        answer = compiler.ask("compile", test.case)
        report = [f"{test.case.name}: @{test.case.function} of {cases.find(test.case.file)}"]
        for kernel in answer.get("kernels", []):
            for function in kernel["functions"]:
                report.append(
                    f"{kernel['name']}: {function['registers']} registers, {function['stack_bytes']} bytes of stack, "
                    f"{function['spill_store_bytes']} + {function['spill_load_bytes']} bytes spilled"
                )
        version, spills = judge.load_spills()
        # Another version of ptxas spills elsewhere.
        is_judged = self.nvrtc["version"].partition(" ")[0] == version
        problems = judge.find_problems(test.case.name, answer, spills if is_judged else None)
        return lit.Test.FAIL if problems else lit.Test.PASS, "\n".join(report + problems) + "\n"
