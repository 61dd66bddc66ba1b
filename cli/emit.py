"""`met emit`: a model as a folder of C, which needs nothing of met to run."""

import json
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import to_builtins

from cli.models import ModelArgument
from cli.options import JsonOption, PolicyOption, RulesOption

if TYPE_CHECKING:
    from circuit_exec.emit import Emitted

EXAMPLES = """Examples:

\b
  met emit smollm2 -o smollm2-c
  make -C smollm2-c -j && smollm2-c/model "What is photosynthesis?"
  met emit smollm2 -o smollm2-avx512 --class avx512
  met emit ./config.json -o sizes-only --no-weights
"""


def emit(
    model: ModelArgument,
    out: Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="The folder, new or empty.")],
    no_weights: Annotated[
        bool, typer.Option("--no-weights", help="Leave the weights out; the program makes some up.")
    ] = False,
    ids_only: Annotated[
        bool, typer.Option("--ids-only", help="Leave out how text becomes ids; the program takes --ids.")
    ] = False,
    no_chat: Annotated[bool, typer.Option("--no-chat", help="Leave the chat template out: plain texts only.")] = False,
    date: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%d"], metavar="YYYY-MM-DD", help="For chat templates that write the date."),
    ] = None,
    hardware_class: Annotated[
        str, typer.Option("--class", metavar="C", help="The hardware class; `cpu` runs on any.")
    ] = "cpu",
    rules: RulesOption = "all",
    policy: PolicyOption = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files of a folder that is not empty.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write the program that runs a model as C: kernels, driver, Makefile, weights, vocabulary.

    The folder needs a C compiler, make and pthread. What it runs is what `met run` runs: same ids, same bytes.
    """
    from circuit_exec.cache import user_cache
    from circuit_exec.emit import Asked
    from circuit_exec.emit import emit as write
    from cli.models import model_path
    from cli.progress import progress_bar

    asked = Asked(
        hardware_class=hardware_class,
        rules=rules,
        policy=tuple(policy or ()),
        weights=not no_weights,
        ids_only=ids_only,
        chat=not no_chat,
        today=None if date is None else date.date(),
        force=force,
    )
    path = model_path(model)
    with progress_bar() as progress:
        found = write(path, out, asked, user_cache(), progress)
    print(json.dumps(to_builtins(found), indent=1) if as_json else _text(found))


def _text(found: "Emitted") -> str:
    n_bytes = sum(file.n_bytes for file in found.files)
    return f"{found.folder}: {len(found.files)} files, {n_bytes / 1e6:.1f} MB; build it with: make -C {found.folder} -j"
