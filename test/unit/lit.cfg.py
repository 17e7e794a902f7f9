# lit configuration of the GoogleTest programs: each bin/*Tests of the build, test by test.

import os
import sys

source_root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(source_root, "test"))
import verdicts

build = os.path.abspath(lit_config.params.get("build", os.path.join(source_root, "build")))

config.name = "attn-unit"
config.test_format = verdicts.GoogleTest("Tests")
config.test_source_root = os.path.join(build, "bin")
config.test_exec_root = os.path.join(build, "test", "unit")
