"""What is compiled for GPUs that are not here. A test for each case; to cover something new, add a row."""

import dataclasses
import itertools
import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
EXAMPLES = sorted(path.name for path in (FOLDER.parent / "Examples").glob("*.mlir"))

PORTABLE = ("sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a")


# One of each amount of shared memory that a schedule is chosen for, and the least and the most.
MEMORIES = ("sm_80", "sm_86", "sm_90a")
FEW = ("sm_86", "sm_90a")
# The variants of a launch plan that calls with many queries and aligned rows take. The others (rows of any alignment, keys in
# parts, few rows) have the same arithmetic around other loads and stores: they are compiled for a few masks and scores only.
USUAL = ("aligned", "short_lengths")


@dataclasses.dataclass(frozen=True)
class Row:
    """Functions of a file (of Inputs, or of ../Examples), its first where none is named, with all combinations of the rest."""

    file: str
    functions: tuple = ()
    types: tuple = ("bf16",)
    dims: tuple = (64, 96, 128, 192, 256)
    passes: tuple = ("forward", "backward")
    archs: tuple = PORTABLE
    options: tuple = ()  # of attn.compile, as pairs
    variants: tuple = USUAL  # of the launch plan, those that it has; none for all


GRID = (
    *(Row(file, variants=()) for file in ("plain.mlir", "causal.mlir")),
    *(Row(example) for example in EXAMPLES if example not in ("causal.mlir", "block_lists.mlir")),
    # All variants where a tensor is read beside the keys, where scores may be -inf, and where two ranges are visited.
    *(Row(file, dims=(64, 128), archs=FEW, variants=()) for file in ("additive_bias.mlir", "document_mask.mlir", "sink_window.mlir")),
    # A bias of which tiles are copied, where its rows are aligned, and two variants where they are not.
    Row("dense_bias.mlir", types=("bf16", "f16"), passes=("forward",), archs=("sm_90a",), variants=()),
    Row("dense_bias.mlir", functions=("causal_bias",), dims=(64, 128), passes=("forward",), archs=("sm_90a",)),
    Row("columns.mlir", dims=(64, 128), passes=("forward",), archs=("sm_90a",)),
    # The other types: f16 has the schedules of bf16, f32 has its own.
    Row("plain.mlir", types=("f16",), dims=(64, 128), archs=FEW),
    Row("plain.mlir", types=("f32",), archs=MEMORIES, variants=()),
    Row("causal.mlir", types=("f32",), archs=FEW),
    # Other functions of the examples. One of block_lists makes lists, one has two attentions: neither has a backward. That with lists
    # is document_mask's.
    Row("causal.mlir", functions=("bottom_right",), dims=(64, 128), archs=FEW),
    Row("sliding_window.mlir", functions=("captured_window",), dims=(64, 128), archs=FEW),
    Row("gqa.mlir", functions=("dynamic_heads",), dims=(64, 128), archs=FEW),
    Row("block_lists.mlir", functions=("make_lists", "layer", "two_layers"), dims=(64, 128), passes=("forward",), archs=FEW, variants=()),
    # Warps that divide the columns of the output, and what an option asks for.
    Row("plain.mlir", types=("bf16", "f32"), dims=(320, 512), passes=("forward",), archs=FEW),
    Row("plain.mlir", types=("f32",), dims=(64, 128), archs=FEW, options=(("tf32", True),)),
    Row("causal.mlir", dims=(64, 128, 256), passes=("backward",), archs=FEW, options=(("deterministic", True),)),
    # A GPU of the hopper family has portable kernels, too, and a maximum that need not be fixed.
    *(Row(file, passes=("forward",), archs=("sm_90a",), options=(("family", "portable"),)) for file in ("plain.mlir", "alibi.mlir")),
    Row("causal.mlir", dims=(64, 128, 256), passes=("forward",), archs=("sm_90a",), options=(("family", "portable"),)),
    Row("causal.mlir", dims=(64, 128, 256), passes=("forward",), archs=("sm_90a",), options=(("exact_maximum", True),)),
)


@dataclasses.dataclass(frozen=True)
class Case:
    name: str  # what lit calls it, below Compile
    file: str
    function: str
    type: str
    dim: int
    backward: bool
    arch: str
    options: tuple
    variants: tuple

    def get_module(self):
        """The file with other dimensions and types. All functions have one name, so that kernels in which they do not
        differ are the same text."""
        text = find(self.file).read_text()
        text = re.sub(r"x(64|80)x(f32|f16|bf16)>", f"x{self.dim}x{self.type}>", text)
        return re.sub(rf"@{self.function}\b", "@f", text)


def find(file):
    path = FOLDER / "Inputs" / file
    return path if path.exists() else FOLDER.parent / "Examples" / file


def list_cases():
    """In the order of the table; of two cases of one name the later row's is taken."""
    named = {}
    for row in GRID:
        functions = row.functions or re.findall(r"func\.func @(\w+)", find(row.file).read_text())[:1]
        options = [f"{key}{value}" for key, value in row.options]
        for function, direction, type, dim, arch in itertools.product(functions, row.passes, row.types, row.dims, row.archs):
            name = "/".join([function, *options, direction, type, f"d{dim}", arch])
            named[name] = Case(name, row.file, function, type, dim, direction == "backward", arch, row.options, row.variants)
    return list(named.values())
