"""Which verdicts test/verdicts.py keeps, tried on a tiny suite of its own.

RUN: rm -rf %t && mkdir -p %t
RUN: %python %s %root/test %t
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

verdicts_module, root = sys.argv[1], Path(sys.argv[2])

CONFIG = f"""
import os, sys
sys.path.insert(0, {verdicts_module!r})
import verdicts
config.name = "tiny"
config.suffixes = [".test"]
config.excludes = ["Inputs"]
config.test_source_root = {str(root / "project/suite")!r}
config.test_exec_root = {str(root / "build/suite")!r}
config.test_format = verdicts.ShTest({str(root / "project")!r}, {str(root / "build")!r})
config.environment["PATH"] = {str(root / "build/bin")!r} + os.pathsep + config.environment["PATH"]
config.substitutions.append(("%project", {str(root / "project")!r}))
"""

UNIT_CONFIG = f"""
import sys
sys.path.insert(0, {verdicts_module!r})
import verdicts
config.name = "unit"
config.test_source_root = {str(root / "build/bin")!r}
config.test_exec_root = {str(root / "build/suite")!r}
config.test_format = verdicts.GoogleTest("Tests")
"""

# Behaves like a GoogleTest program with a test that passes, one that fails and one that skips itself.
UNIT = """#!/bin/sh
case $1 in
--gtest_list_tests) printf 'Unit.\\n  Good\\n  Bad\\n  Skips\\n' ;;
--gtest_filter=Unit.Good) echo '[  PASSED  ] 1 test.' ;;
--gtest_filter=Unit.Skips) echo '[  PASSED  ] 0 tests.'; echo '[  SKIPPED ] 1 test, listed below:' ;;
*) exit 1 ;;
esac
"""


def write(path, text):
    path = root / path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755 if text.startswith("#!") else 0o644)


def run(*options):
    """The result code of every test."""
    report = root / "report.json"
    report.unlink(missing_ok=True)
    parameters = ["--param", f"verdicts={root / 'verdicts'}", "--output", report, *options]
    subprocess.run(["lit", "-q", "-j1", *parameters, root / "project/suite"], stdout=subprocess.DEVNULL)
    tests = json.loads(report.read_text())["tests"]
    for test in tests:
        verified = test.get("metrics", {}).get("verified")
        assert (verified is not None) == (test["code"] == "UNCHANGED"), test
        assert verified is None or 0 <= time.time() - verified < 3600, test
    return {test["name"].rpartition(" :: ")[2]: test["code"] for test in tests}


def expect(why, found, **expected):
    """All tests are unchanged, but for those that always run and those named here, without .test."""
    wanted = dict.fromkeys(ALL, "UNCHANGED") | ALWAYS | {f"{name}.test": code for name, code in expected.items()}
    assert found == wanted, f"{why}: expected {wanted}, got {found}"


ALL = ["uses.test", "inputs.test", "folder.test", "script.test", "fails.test", "xfails.test", "moves.test"]
ALL += ["FakeTests/Unit.Good", "FakeTests/Unit.Bad"]  # a report has no skipped tests
ALWAYS = {"fails.test": "FAIL", "xfails.test": "XFAIL", "moves.test": "PASS", "FakeTests/Unit.Bad": "FAIL"}

write("build/bin/tool", "#!/bin/sh\nexit 0\n")
write("build/bin/other", "#!/bin/sh\nexit 0\n")
write("build/bin/FakeTests", UNIT)
write("project/suite/lit.cfg.py", CONFIG)
write("project/suite/unit/lit.cfg.py", UNIT_CONFIG)
write("project/source.cpp", "// nothing\n")
write("project/suite/uses.test", "RUN: tool %s > %t\n")
write("project/suite/Inputs/data", "old\n")
write("project/suite/inputs.test", "RUN: true\n")
write("project/data/file", "old\n")
write("project/suite/folder.test", "RUN: ls %project/data | sed 's/^ *//'\n")
write("project/script.py", "#!/bin/sh\nexit 0\n")
write("project/suite/script.test", "RUN: sh %project/script.py\n")
write("project/suite/fails.test", "RUN: false\n")
write("project/suite/xfails.test", "XFAIL: *\nRUN: false\n")
write("project/suite/moves.test", "RUN: echo >> %project/moved && cat %project/moved\n")
write("project/moved", "")


def main():
    rerun_all = {name: "PASS" for name in ALL} | ALWAYS
    assert (found := run()) == rerun_all, found
    # moves.test changes what it depends on while it runs, and script.test depends on all sources.
    expect("nothing changed", run(), script="PASS")
    os.remove(root / "project/suite/moves.test")
    ALL.remove("moves.test")
    del ALWAYS["moves.test"]
    run()
    expect("nothing changed", run())

    old = (root / "build/bin/tool").read_text()
    write("build/bin/tool", "#!/bin/sh\n# another\nexit 0\n")
    expect("another tool", run(), uses="PASS", script="PASS")
    expect("the same again", run())
    write("build/bin/tool", old)
    expect("the first tool again", run())
    write("build/bin/tool", "#!/bin/sh\nexit 1\n")
    expect("the tool fails", run(), uses="FAIL", script="PASS")
    expect("a failure is not kept", run(), uses="FAIL")
    write("build/bin/tool", old)
    expect("the first tool again", run())

    write("project/suite/Inputs/data", "new\n")
    found = run()
    assert found == {name: "PASS" for name in ALL} | {"FakeTests/Unit.Good": "UNCHANGED"} | ALWAYS, found
    write("project/data/file", "new\n")
    expect("a file of a folder", run(), folder="PASS", script="PASS")
    write("project/data/second", "new\n")
    expect("another file of a folder", run(), folder="PASS", script="PASS")
    write("project/source.cpp", "// something\n")
    expect("a source", run(), script="PASS")
    write("project/suite/uses.test", "RUN: tool %s\n")
    expect("the test itself", run(), uses="PASS", script="PASS")
    write("build/bin/FakeTests", UNIT + "# another\n")
    found = run()
    assert found["FakeTests/Unit.Good"] == "PASS" and found["uses.test"] == "UNCHANGED", found
    write("project/suite/lit.cfg.py", CONFIG + "config.available_features.add('feature')\n")
    found = run()
    assert found["uses.test"] == "PASS", found
    expect("nothing changed", run())

    for entry in (root / "verdicts").iterdir():
        entry.write_text(entry.read_text()[:-1])
    found = run()
    assert "UNCHANGED" not in found.values(), found
    expect("damaged verdicts are replaced", run())
    shutil.rmtree(root / "verdicts")
    run()
    for entry in (root / "verdicts").iterdir():
        verdict = json.loads(entry.read_text())
        entry.write_text(json.dumps(verdict | {"time": verdict["time"] - 8 * 24 * 3600}))
    found = run()
    assert "UNCHANGED" not in found.values(), found
    expect("old verdicts are replaced", run())
    found = run("--param", "fresh=1")
    assert "UNCHANGED" not in found.values(), found
    run("--no-execute", "--param", "fresh=1")
    write("build/bin/tool", "#!/bin/sh\nexit 2\n")
    run("--no-execute")
    expect("what did not run has no verdict", run(), uses="FAIL", script="PASS")


main()
