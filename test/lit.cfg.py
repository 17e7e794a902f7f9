# lit configuration of every suite below test/. Run with `tools/dev lit [PATH…]`.
#
# A test names its tools plainly (attn-opt, FileCheck): PATH holds the build's tools and LLVM's. `--param build=DIR`
# selects the build folder, so that a test runs from its path in the source tree without a build step.

import glob
import os
import sys

source_root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(source_root, "test"))
import verdicts

build = os.path.abspath(lit_config.params.get("build", os.path.join(source_root, "build")))
site = os.path.join(build, "test", "lit.site.cfg.py")
if not os.path.exists(site):
    lit_config.fatal(f"{site} is missing: run `tools/dev build` first, or name the build folder with --param build=DIR")
lit_config.load_config(config, site)

config.name = "attn"
config.test_format = verdicts.ShTest(source_root, build, execute_external=False)
config.suffixes = [".mlir", ".test", ".py"]
config.excludes = ["lit.cfg.py", "verdicts.py", "Inputs", "gpu"]
config.test_source_root = os.path.dirname(os.path.abspath(__file__))
config.test_exec_root = os.path.join(build, "test")

config.environment["PATH"] = os.pathsep.join(
    [os.path.join(build, "bin"), config.llvm_tools_dir, config.environment["PATH"]]
)
config.substitutions += [
    ("%python", config.python),  # has NumPy; the first python3 of PATH may not
    ("%root", source_root),
    ("%build", build),
    ("%cc", config.c_compiler),
]

# REQUIRES: avx2 (and FMA), avx512: what the host can run.
with open("/proc/cpuinfo") as cpuinfo:
    flags = set(next((line for line in cpuinfo if line.startswith("flags")), "").split())
if {"avx2", "fma"} <= flags:
    config.available_features.add("avx2")
if {"avx512f", "avx512vl", "avx512bw", "avx512dq"} <= flags:
    config.available_features.add("avx512")

# REQUIRES: attn-bench: built only where Google Benchmark is installed.
if os.path.exists(os.path.join(build, "bin", "attn-bench")):
    config.available_features.add("attn-bench")

# REQUIRES: nvrtc: NVIDIA's runtime compiler, where attn-translate finds it; it needs no GPU.
directories = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
directories += [os.path.join(home, "lib64") for home in glob.glob("/usr/local/cuda*")]
directories += [os.path.join(home, "lib") for home in glob.glob("/usr/local/cuda*")]
if any(glob.glob(os.path.join(directory, "libnvrtc.so*")) for directory in directories if directory):
    config.available_features.add("nvrtc")
