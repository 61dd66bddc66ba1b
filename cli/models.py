"""What the argument MODEL stands for: a path that exists, or the name of a fetched model."""

from pathlib import Path
from typing import Annotated

import typer

from circuit.errors import LoadError, Problem

ModelArgument = Annotated[
    str,
    typer.Argument(metavar="MODEL", help="A directory with config.json, a .gguf file, or the name of a fetched model."),
]


def model_path(model: str) -> str:
    """The path of MODEL, checked to exist. A path wins over a name."""
    if Path(model).exists():
        return model
    from circuit_exec.cache import user_cache
    from circuit_exec.fetch import KNOWN_MODELS, find_model

    found = find_model(model, user_cache())
    if found is not None:
        return str(found)
    names = [known.name for known in KNOWN_MODELS]
    fix = f"run `met fetch {model}`" if model in names else f"give a path, or a name to fetch: {', '.join(names)}"
    what = "the model is not fetched yet" if model in names else "there is no such file, directory or fetched model"
    raise LoadError(Problem(message=f"{what}: {model}", fix=fix))
