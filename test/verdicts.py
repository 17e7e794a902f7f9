"""Test formats of lit that remember verdicts: a test that passed is not run again until something changes.

A verdict is kept under a hash of all that it can depend on: the test and its lit configuration, the content of the
programs that it runs and of the files that it reads, the machine, the installed packages. Only passes are kept; what
fails, or is expected to, runs each time. Where the hash after a run is not that before it, nothing is kept.

Verdicts are used only where lit has `--param verdicts=DIR`, as `tools/dev test` gives it. `--param fresh=1` renews them.
A test served so is no `Passed` of lit's: it is counted as `Unchanged`, and its report tells when it was run.

Another kind of test becomes one with verdicts by deriving from `Cached` and a format of lit's, and by naming what its
verdict depends on in `get_dependencies`. What is cheap to compute may stand there instead of what it is computed from:
for a slow compiler the text that it compiles, instead of the program that writes the text.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import lit
import lit.formats
import lit.Test
import lit.TestRunner
import lit.util

# Older verdicts do not count: whatever the hashes miss, is found within a week.
MAX_AGE = 7 * 24 * 3600

UNCHANGED = lit.Test.ResultCode("UNCHANGED", "Unchanged", False)

# What differs from run to run, and has no influence.
IGNORED_ENVIRONMENT = {"TMP", "TMPDIR", "TEMP", "TEMPDIR", "SSH_AUTH_SOCK"}

# ---------------------------------------------------------------------------------------------------------------------
# Hashes
# ---------------------------------------------------------------------------------------------------------------------

_hashes = {}  # by path: what stat told, the hash. lit's workers are forks, so what is hashed before they start is shared.


def hash_file(path):
    try:
        stat = os.stat(path)
        signature = (stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino)
        known = _hashes.get(path)
        if known is None or known[0] != signature:
            with open(path, "rb") as file:
                known = _hashes[path] = signature, hashlib.file_digest(file, "blake2b").hexdigest()
        return known[1]
    except OSError as error:
        return f"unreadable: {error.strerror}"


def list_files(folder, excluded=()):
    """All files of a folder, without those of folders named like build outputs and caches."""
    for path, folders, files in os.walk(folder):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(("build", ".git", ".cache", ".venv", "__pycache__"))
            and os.path.join(path, name) not in excluded
        )
        for name in sorted(files):
            yield os.path.join(path, name)


def describe_machine():
    cpu = []
    with open("/proc/cpuinfo") as cpuinfo:
        for line in cpuinfo:
            if line.startswith(("model name", "flags", "microcode")):
                cpu.append(line)
            elif not line.strip():
                break
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return cpu, len(os.sched_getaffinity(0)), memory, os.uname().release, sys.version, lit.__version__


def compute_key(test, dependencies):
    """The hash of everything; of a dependency's content where it is a path, else of itself."""
    config = test.config
    environment = {name: value for name, value in config.environment.items() if name not in IGNORED_ENVIRONMENT}
    parts = [
        test.getFullName(),
        describe_machine(),
        hash_file("/var/lib/dpkg/status"),  # which versions of the system's programs and libraries are installed
        hash_file("/usr/local/cuda/version.json"),  # and of what comes from elsewhere
        hash_file("/proc/driver/nvidia/version"),
        hash_file(os.path.abspath(__file__)),
        hash_file(os.path.join(test.suite.source_root, "lit.cfg.py")),
        sorted(environment.items()),
        config.substitutions,
        sorted(config.available_features),
    ]
    for dependency in sorted(set(dependencies), key=str):
        parts.append((str(dependency), hash_file(str(dependency))) if isinstance(dependency, Path) else dependency)
    return hashlib.blake2b(repr(parts).encode(), digest_size=20).hexdigest()


# ---------------------------------------------------------------------------------------------------------------------
# Verdicts
# ---------------------------------------------------------------------------------------------------------------------


class Unchanged(lit.Test.Result):
    """A verdict from an earlier run. It lasted as long as the test did then, which is what orders the next run."""

    def __init__(self, verdict):
        self.lasted = verdict["elapsed"]
        super().__init__(UNCHANGED)
        self.addMetric("verified", lit.Test.toMetricValue(int(verdict["time"])))

    elapsed = property(lambda self: self.lasted, lambda self, value: None)


class Cached:
    """A mixin: put it before a format of lit's, or define `run`."""

    def run(self, test, lit_config):
        return super().execute(test, lit_config)

    def get_dependencies(self, test):
        """Paths of files, and strings. None where the test has no verdict to keep, as where it is not supported."""
        raise NotImplementedError

    def get_key(self, test):
        dependencies = self.get_dependencies(test)
        return None if dependencies is None else compute_key(test, dependencies)

    def getTestsInDirectory(self, suite, path_in_suite, lit_config, config):
        for test in super().getTestsInDirectory(suite, path_in_suite, lit_config, config):
            if "verdicts" in lit_config.params:
                self.get_key(test)  # hashes what the workers would hash once each
            yield test

    def execute(self, test, lit_config):
        folder = lit_config.params.get("verdicts")
        if not folder or lit_config.noExecute or lit_config.useValgrind:
            return self.run(test, lit_config)
        key = self.get_key(test)
        if key and not lit_config.params.get("fresh"):
            verdict = load(folder, key)
            if verdict:
                return Unchanged(verdict)
        start = time.time()
        result = self.run(test, lit_config)
        code = result.code if isinstance(result, lit.Test.Result) else result[0]
        if key and code is lit.Test.PASS and not test.isExpectedToFail() and self.get_key(test) == key:
            store(folder, key, {"test": test.getFullName(), "time": start, "elapsed": time.time() - start})
        return result


def load(folder, key):
    try:
        verdict = json.loads(Path(folder, key).read_text())
        return verdict if 0 <= time.time() - verdict["time"] < MAX_AGE else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def store(folder, key, verdict):
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, key)
    staging = f"{path}.{os.getpid()}"
    Path(staging).write_text(json.dumps(verdict))
    os.replace(staging, path)


# ---------------------------------------------------------------------------------------------------------------------
# Formats
# ---------------------------------------------------------------------------------------------------------------------


class ShTest(Cached, lit.formats.ShTest):
    """Depends on every program and file that is named in a RUN line, and on the Inputs beside the test.

    What a script reads is not to be seen from outside. Where a file of the project that is named can be run, all sources
    and all programs of the build count.
    """

    def __init__(self, source_root, build, **options):
        super().__init__(**options)
        self.source_root, self.build = source_root, build

    def get_dependencies(self, test):
        script = lit.TestRunner.parseIntegratedTestScript(test)
        if isinstance(script, lit.Test.Result):
            return None
        substitutions = lit.TestRunner.getDefaultSubstitutions(test, *lit.TestRunner.getTempPaths(test))
        conditions = {feature: True for feature in test.config.available_features}
        limit = test.config.recursiveExpansionLimit
        lines = lit.TestRunner.applySubstitutions(script, substitutions, conditions, recursion_limit=limit)

        source = test.getSourcePath()
        words = {word for line in lines for word in re.findall(r"[^\s\"'`|&;<>(){}=,:]+", line)}
        words |= {source, os.path.join(os.path.dirname(source), "Inputs")}
        files = set()
        for word in words:
            if word.startswith(test.suite.exec_root):
                continue  # what tests write
            if os.path.isabs(word):
                if os.path.normpath(word) in (self.build, os.path.join(self.build, "bin")):
                    files.update(list_files(os.path.join(self.build, "bin")))
                elif os.path.isfile(word):
                    files.add(word)
                elif os.path.isdir(word) and self.is_inside(word):  # not the / of a regular expression
                    files.update(list_files(word, excluded=(self.build,)))
            else:
                program = shutil.which(word, path=test.config.environment["PATH"])
                if program:
                    files.add(program)
        if any(self.is_script(file) for file in files):
            files.update(list_files(self.source_root, excluded=(self.build,)))
            files.update(list_files(os.path.join(self.build, "bin")))
        return [Path(file) for file in files]

    def is_inside(self, path):
        path = os.path.normpath(path) + os.sep
        return path.startswith(self.source_root + os.sep) and not path.startswith(self.build + os.sep)

    def is_script(self, file):
        return self.is_inside(file) and (file.endswith(".py") or os.access(file, os.X_OK))


class GoogleTest(Cached, lit.formats.FileBasedTest):
    """Each test of each program whose name ends in `suffix` is a test of lit's: it has a verdict, and a time, of its
    own. Depends on the program."""

    def __init__(self, suffix):
        self.suffix = suffix

    def getTestsForPath(self, suite, path_in_suite, lit_config, config):
        program = suite.getSourcePath(path_in_suite)
        if not program.endswith(self.suffix):
            return
        listing = subprocess.run([program, "--gtest_list_tests"], env=config.environment, capture_output=True, text=True)
        names = []
        for line in listing.stdout.splitlines():
            line = line.partition("#")[0].rstrip()  # a comment tells types and parameters
            if line.startswith("  "):
                names.append(group + line.strip())
            elif line.endswith("."):
                group = line
        if listing.returncode or not names:
            names = ["cannot list its tests"]
        for name in names:
            if "DISABLED_" not in name:
                yield lit.Test.Test(suite, path_in_suite + (name,), config, file_path=program)

    def get_dependencies(self, test):
        return [Path(test.file_path)]

    def run(self, test, lit_config):
        command = [test.file_path, "--gtest_filter=" + test.path_in_suite[-1]]
        limit = lit_config.maxIndividualTestTime
        try:
            out, err, code = lit.util.executeCommand(command, env=test.config.environment, timeout=limit)
        except lit.util.ExecuteCommandTimeoutException as error:
            return lit.Test.TIMEOUT, f"{' '.join(command)}\n{error.out}{error.err}reached the limit of {limit} s"
        output = f"{' '.join(command)}\n{out}{err}exit code {code}\n"
        if code == 0 and "[  SKIPPED ] 1 test" in out:
            return lit.Test.SKIPPED, output
        # A filter that matches nothing is no success either.
        return lit.Test.PASS if code == 0 and "[  PASSED  ] 1 test" in out else lit.Test.FAIL, output
