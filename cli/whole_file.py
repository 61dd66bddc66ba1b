"""A file that a command writes for its user: the whole of it, or none."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from circuit.errors import Problem, RunError


def write_whole(path: Path, write: Callable[[BinaryIO], object], what: str, option: str) -> None:
    """Makes the file from what `write` writes, beside its place, and renames it. `what` is in it; `option` named it."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("xb") as file:
            write(file)
        os.replace(beside, path)
    except OSError as error:
        message = f"{what} cannot be written: {(error.strerror or str(error)).lower()}"
        fix = f"make room, or give {option} a place that can be written"
        raise RunError(Problem(message=message, fix=fix, file=str(path))) from error
    finally:
        with suppress(OSError):  # what kept it from being written may keep it from being removed
            beside.unlink(missing_ok=True)
