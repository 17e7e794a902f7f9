"""What is compiled for GPUs that are not here. A test for each case; to cover something new, add a row."""

import dataclasses
import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
EXAMPLES = sorted(path.name for path in (FOLDER.parent / "Examples").glob("*.mlir"))

PORTABLE = ("sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a")


@dataclasses.dataclass(frozen=True)
class Row:
    """All functions of a file (of Inputs, or of ../Examples), with all combinations of the rest."""

    file: str
    types: tuple = ("bf16",)
    dims: tuple = (64, 96, 128, 192, 256)
    passes: tuple = ("forward", "backward")
    archs: tuple = PORTABLE
    options: tuple = ()  # of attn.compile, as pairs


GRID = (
    Row("plain.mlir", types=("bf16", "f16", "f32")),
    Row("causal.mlir", types=("bf16", "f32")),
    *(Row(example) for example in EXAMPLES if example not in ("causal.mlir", "block_lists.mlir")),
    # One makes lists, one has two attentions: neither has a backward. That with lists is document_mask's.
    Row("block_lists.mlir", passes=("forward",)),
    # Warps that divide the columns of the output, and what an option asks for: on a GPU with much shared memory, and one with little.
    Row("plain.mlir", types=("bf16", "f32"), dims=(320, 512), passes=("forward",), archs=("sm_86", "sm_90a")),
    Row("plain.mlir", types=("f32",), dims=(64, 128), archs=("sm_86", "sm_90a"), options=(("tf32", True),)),
    Row("causal.mlir", dims=(64, 128, 256), passes=("backward",), archs=("sm_86", "sm_90a"), options=(("deterministic", True),)),
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
    for row in GRID:
        for function in re.findall(r"func\.func @(\w+)", find(row.file).read_text()):
            for direction in row.passes:
                for type in row.types:
                    for dim in row.dims:
                        for arch in row.archs:
                            parts = [function, *(f"{key}{value}" for key, value in row.options), direction, type]
                            name = "/".join([*parts, f"d{dim}", arch])
                            yield Case(
                                name, row.file, function, type, dim, direction == "backward", arch, row.options
                            )
