"""Options that several commands share."""

from pathlib import Path
from typing import Annotated, Literal

import typer

Rules = Literal["reference", "all"]
"""`Which` of circuit/lower/ir.py, which a command need not import before it is run."""
RulesOption = Annotated[
    Rules,
    typer.Option("--rules", help="all: fused kernels; reference: one kernel for each op. The bytes are the same."),
]
PolicyOption = Annotated[
    list[str] | None, typer.Option("--policy", metavar="KEY=VALUE", help="Change a policy key; may be repeated.")
]
ThreadsOption = Annotated[
    int | None, typer.Option("--threads", metavar="N", show_default="one a processor", help="Threads; no byte changes.")
]
ChunkOption = Annotated[
    int | None,
    typer.Option("--chunk", metavar="N", show_default="the most", help="Prompt rows in one step; no byte changes."),
]
RecipeOption = Annotated[
    Path | None, typer.Option("--recipe", metavar="FILE", help="Take checkpoint, policy and resources from a recipe.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
