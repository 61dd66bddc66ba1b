"""The pydantic edge: a parsed document against the shape of its file, every difference as a problem with its line."""

from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from circuit.errors import LoadError, Problem
from circuit.load.source import Document, Path, line_of, path_text
from circuit.text import problem_at


class FileShape(BaseModel):
    """Base of the private file shapes: unknown keys are errors, nothing is coerced."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


Shape = TypeVar("Shape", bound=FileShape)


def validated(document: Document, shape: type[Shape]) -> Shape:
    """The document as `shape`, or a LoadError with all that is wrong."""
    try:
        return shape.model_validate(document.data)
    except ValidationError as error:
        problems = [
            _problem(document, tuple(_known(document, found["loc"])), found["type"], found["msg"])
            for found in error.errors()
        ]
        raise LoadError(dict.fromkeys(problems)) from None


def _known(document: Document, loc: tuple[int | str, ...]) -> list[str | int]:
    """The part of pydantic's place that names keys of the file: it also names the union members it tried."""
    path: list[str | int] = []
    value: object = document.data
    for place, part in enumerate(loc):
        last = place == len(loc) - 1
        if isinstance(value, dict) and isinstance(part, str) and (part in value or last):
            path.append(part)
            value = value.get(part)
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            path.append(part)
            value = value[part]
    return path


def _problem(document: Document, path: Path, kind: str, message: str) -> Problem:
    line = line_of(document, path)
    name = path_text(path[-1:]) if path and isinstance(path[-1], str) else path_text(path)
    if kind == "missing":
        return problem_at(document.source, line, f"missing key `{path_text(path)}`", f"add `{name} = ...`")
    if kind == "extra_forbidden":
        return problem_at(document.source, line, f"unknown key `{path_text(path)}`", f"remove or rename `{name}`")
    text = message[:1].lower() + message[1:].rstrip(".")
    return problem_at(document.source, line, f"`{path_text(path)}`: {text}", f"correct the value of `{name}`")
