#!/usr/bin/python3
"""Feeds mutated modules to attn-opt and reports the inputs on which it dies.

Every .mlir file below the corpus, split at `// -----`, is a seed. A case is a seed with a few mutations (of tokens, lines
and balanced regions, or spliced with another seed) and a random choice of passes and output forms. A case is refused
properly when attn-opt exits with 1 after an error message. It is a finding when attn-opt

  - dies by a signal: a crash, a failed assertion, no more memory,
  - does not end in time,
  - fails without an error message, or
  - prints a module that it cannot read again.

Findings are told apart by the assertion or the innermost stack frames, reduced by removing lines, and written to the
output folder as .mlir files whose first line says how to reproduce them. Those that a plain mlir-opt dies of as well are
faults of MLIR itself; they are told, and leave the exit code 0. A seed fixes the sequence of the cases.
"""

import argparse
import concurrent.futures
import hashlib
import pathlib
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time

from mutations import Mutator, choose_flags

# ---------------------------------------------------------------------------------------------------------------------
# Running
# ---------------------------------------------------------------------------------------------------------------------

# Frames that say that it died, not where.
UNINTERESTING = re.compile(
    r"llvm::sys::|SignalHandler|__restore_rt|\(/lib|/lib/x86_64|libc\.so|^raise$|abort|gsignal|__assert_fail"
    r"|report_bad_alloc|operator new|report_fatal_error|^std::|^void std::|llvm::function_ref|callback_fn"
)


class Runner:
    def __init__(self, args):
        self.args = args
        self.folder = tempfile.mkdtemp(prefix="attn-fuzz-")

    def limit(self):
        resource.setrlimit(resource.RLIMIT_AS, (self.args.memory_mb << 20,) * 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (2 * self.args.timeout + 5,) * 2)

    def call(self, flags, data, program=None):
        """Return code (None: it did not end in time), stdout, stderr."""
        command = [program or self.args.attn_opt, "--mlir-disable-threading", *flags]
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.folder,
            preexec_fn=self.limit,
        )
        try:
            out, err = process.communicate(data, timeout=self.args.timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return None, b"", ""
        return process.returncode, out, err.decode(errors="replace")

    def signature(self, flags, text):
        """('ok' | 'refused', output), or ('finding', what tells it from others)."""
        code, out, err = self.call(flags, text.encode())
        if code is None:
            return "finding", f"did not end in {self.args.timeout} s with {self.passes(flags)}"
        if code == 1:
            return ("refused", b"") if err.strip() else ("finding", "failed without an error message")
        if code != 0:
            return "finding", self.cause(code, err)
        if "-----" not in text and out and "--remark-policy=all" not in flags:
            again = [f for f in flags if f == "--allow-unregistered-dialect"]
            code, _, err = self.call(again, out)
            if code is None:
                return "finding", f"the output cannot be read again in {self.args.timeout} s"
            if code == 1:
                first = next((line for line in err.splitlines() if "error:" in line), "").split("error:")[-1].strip()
                # Without the numbers, which differ from one case to the next.
                return "finding", "the output cannot be read again: " + re.sub(r"[%@]?\b[\w.]*\d+\w*\b", "N", first)
            if code != 0:
                return "finding", "reading the output again: " + self.cause(code, err)
        return "ok", out if b"\0" not in out else b""

    def is_upstream(self, flags, text, detail):
        """Whether mlir-opt dies of it too, or it died in MLIR's own parser of attributes and types."""
        if "mlir::detail::Parser::" in detail and "attn::" not in detail:
            return True
        if not shutil.which(self.args.mlir_opt) or "--attn" in " ".join(flags):
            return False
        code, _, _ = self.call(flags, text.encode(), self.args.mlir_opt)
        return code is not None and code < 0

    @staticmethod
    def passes(flags):
        return " ".join(f.split("=")[0] for f in flags if not f.startswith(("--mlir", "--emit", "--remark")))

    @staticmethod
    def cause(code, err):
        if "ssertion `" in err:
            return "assertion " + re.search(r"[Aa]ssertion `(.*?)' failed", err)[1]
        unreachable = re.search(r"^(.*)\nUNREACHABLE executed", err, re.MULTILINE)
        if unreachable:
            return "unreachable: " + unreachable[1]
        if "out of memory" in err.lower() or "bad_alloc" in err:
            kind = "out of memory"
        elif "LLVM ERROR" in err:
            return re.sub(r"\d+", "N", re.search(r"LLVM ERROR: (.*)", err)[0])
        else:
            kind = f"signal {-code}" if code < 0 else f"exit code {code}"
        frames = re.findall(r"^\s*#\d+ 0x[0-9a-f]+ (.*?)(?: \(?/\S+\)?)?$", err, re.MULTILINE)
        frames = [re.sub(r"\(.*|\d{4,}", "", f).strip() for f in frames if f and not UNINTERESTING.search(f)]
        top = list(dict.fromkeys(f for f in frames if f))[:3]
        return f"{kind} in " + (" < ".join(top) or "?")

    def reduce(self, flags, text, wanted, budget):
        """Removes lines, in ever smaller chunks, while the finding stays the same; then flags."""
        lines = text.split("\n")
        deadline = time.time() + budget

        def still(candidate_flags, candidate):
            return time.time() < deadline and self.signature(candidate_flags, candidate) == ("finding", wanted)

        size = max(1, len(lines) // 2)
        while size:
            i = 0
            while i < len(lines):
                candidate = lines[:i] + lines[i + size :]
                if still(flags, "\n".join(candidate)):
                    lines = candidate
                else:
                    i += size
            size //= 2
        for flag in list(flags):
            fewer = [f for f in flags if f is not flag]
            if still(fewer, "\n".join(lines)):
                flags = fewer
        return flags, "\n".join(lines)


# ---------------------------------------------------------------------------------------------------------------------
# The campaign
# ---------------------------------------------------------------------------------------------------------------------


def load_corpus(paths):
    """All seeds, and the set of those that come from tests of what is refused."""
    corpus, invalid = [], set()
    for path in paths:
        files = sorted(path.rglob("*.mlir")) if path.is_dir() else [path]
        for file in files:
            for part in re.split(r"^// -----.*$", file.read_text(), flags=re.MULTILINE):
                # Comments hold no IR, and the expectations of tests are most of them.
                part = "\n".join(line for line in part.split("\n") if not re.match(r"\s*//", line)).strip()
                if part:
                    corpus.append(part + "\n")
                    if "invalid" in file.name:
                        invalid.add(corpus[-1])
    return corpus, invalid


class Campaign:
    def __init__(self, args):
        self.args = args
        self.lock = threading.Lock()
        self.counts = {"ok": 0, "refused": 0, "finding": 0}
        self.findings = {}
        self.deadline = time.time() + args.seconds
        self.cases = 0

    def work(self, seed):
        rng = random.Random(seed)
        # What attn-opt makes of a seed is a seed of later stages; each worker has its own, so that a seed of the
        # campaign gives the same cases whatever the speed of the machine.
        corpus = list(self.corpus)
        mutator = Mutator(rng, corpus, self.invalid)
        runner = Runner(self.args)
        while time.time() < self.deadline:
            with self.lock:
                if self.args.cases and self.cases >= self.args.cases:
                    return
                self.cases += 1
            text, flags = mutator.case(lambda text: self.make_later_stage(rng, runner, text)), choose_flags(rng)
            verdict, detail = runner.signature(flags, text)
            with self.lock:
                self.counts[verdict] += 1
                is_new = verdict == "finding" and detail not in self.findings
                if is_new:
                    self.findings[detail] = None
            if verdict == "ok" and 0 < len(detail) < 10000 and rng.random() < 0.1:
                if len(corpus) >= 2 * len(self.corpus):
                    corpus[rng.randrange(len(self.corpus), len(corpus))] = detail.decode()
                else:
                    corpus.append(detail.decode())
            if is_new:
                flags, text = runner.reduce(flags, text, detail, self.args.reduce_seconds)
                self.report(detail, flags, text, runner.is_upstream(flags, text, detail))

    @staticmethod
    def make_later_stage(rng, runner, text):
        """The generic form of a seed, planned or not: properties and operands that the syntax does not let one write."""
        plan = ["--attn-set-target", "--attn-plan"] if rng.random() < 0.5 else []
        code, out, _ = runner.call([*plan, "--mlir-print-op-generic"], text.encode())
        return out.decode() if code == 0 and len(out) < 20000 else text

    def report(self, detail, flags, text, is_upstream):
        name = hashlib.sha256(detail.encode()).hexdigest()[:10] + ".mlir"
        quoted = " ".join(f"'{f}'" if " " in f else f for f in flags)
        with self.lock:
            self.findings[detail] = is_upstream
            command = f"attn-opt %s {quoted}".rstrip()
            kind = "finding in MLIR itself" if is_upstream else "finding"
            print(f"{kind}: {detail}\n  {self.args.out / name}: {command}", flush=True)
            self.args.out.mkdir(parents=True, exist_ok=True)
            (self.args.out / name).write_text(f"// {command}\n// {detail}\n{text}\n")

    def run(self):
        self.corpus, self.invalid = load_corpus(self.args.corpus)
        if not self.corpus:
            sys.exit(f"no .mlir files below {', '.join(map(str, self.args.corpus))}")
        with concurrent.futures.ThreadPoolExecutor(self.args.jobs) as pool:
            for worker in [pool.submit(self.work, f"{self.args.seed}.{job}") for job in range(self.args.jobs)]:
                worker.result()
        counts = self.counts
        upstream = sum(map(bool, self.findings.values()))
        print(
            f"{sum(counts.values())} cases from {len(self.corpus)} seeds: {counts['ok']} accepted, "
            f"{counts['refused']} refused, {counts['finding']} failed in {len(self.findings)} ways, "
            f"{upstream} of them MLIR's own"
        )
        return 1 if len(self.findings) > upstream else 0


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Example: PATH=build/bin:$PATH test/fuzz/mutate.py --seconds 600 --jobs 8",
    )
    parser.add_argument(
        "corpus", nargs="*", type=pathlib.Path, default=[root / "test"], help=".mlir files or folders (default: test)"
    )
    parser.add_argument("--attn-opt", default="attn-opt", help="the program (default: from PATH)")
    parser.add_argument("--mlir-opt", default="mlir-opt", help="a plain one (default: from PATH, if it is there)")
    parser.add_argument("--seed", type=int, default=0, help="fixes the sequence of cases (default: 0)")
    parser.add_argument("--seconds", type=float, default=60, help="for how long (default: 60)")
    parser.add_argument("--cases", type=int, default=0, help="stop after so many cases (default: no limit)")
    parser.add_argument("--jobs", type=int, default=1, help="cases at a time (default: 1)")
    parser.add_argument("--timeout", type=int, default=30, help="seconds a case may take (default: 30)")
    parser.add_argument("--memory-mb", type=int, default=2048, help="memory a case may use (default: 2048)")
    parser.add_argument("--reduce-seconds", type=float, default=30, help="time to reduce a finding (default: 30)")
    parser.add_argument(
        "--out",
        type=pathlib.Path,
        default=pathlib.Path("fuzz-findings"),
        help="folder for findings (default: fuzz-findings)",
    )
    args = parser.parse_args()
    args.out = args.out.resolve()
    sys.exit(Campaign(args).run())


if __name__ == "__main__":
    main()
