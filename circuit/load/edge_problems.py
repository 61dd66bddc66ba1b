"""All that is wrong with a document that is not of its file's shape.

The check that every file goes through stops at the first difference. So of a file with one, the shape is made a model
of pydantic's, which names them all; nobody whose files are right waits for it.
"""

from functools import cache, reduce
from operator import or_
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from msgspec import NODEFAULT, Meta, Struct
from msgspec.structs import fields
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, create_model

from circuit.errors import Problem
from circuit.load.source import Document, Path, line_of, path_text
from circuit.text import problem_at

_BOUNDS = ("gt", "ge", "lt", "le", "pattern", "min_length", "max_length")


def problems(document: Document, shape: type[Struct]) -> tuple[Problem, ...]:
    """What is wrong with the document, each once; there is something."""
    try:
        model_of(shape).model_validate(document.data)
    except ValidationError as error:
        found = [
            _problem(document, tuple(_known(document, each["loc"])), each["type"], each["msg"])
            for each in error.errors()
        ]
        return tuple(dict.fromkeys(found))
    raise AssertionError(f"{document.source.path} is of the shape {shape.__name__} to one check, not to the other")


@cache
def model_of(shape: type[Struct]) -> type[BaseModel]:
    """The shape as a model of pydantic's, which accepts what the shape does."""
    unknown: Literal["forbid", "ignore"] = "forbid" if shape.__struct_config__.forbid_unknown_fields else "ignore"
    made: dict[str, Any] = {}
    for place, each in enumerate(fields(shape)):
        required = each.default is NODEFAULT and each.default_factory is NODEFAULT
        made[f"field{place}"] = (_type_of(each.type), Field(... if required else None, alias=each.encode_name))
    config = ConfigDict(extra=unknown, strict=True, regex_engine="python-re")  # with Python's expressions, as msgspec
    return create_model(shape.__name__, __config__=config, **made)


def _type_of(kind: Any) -> Any:  # noqa: ANN401 - a type annotation has no type of its own
    """The type of a field, with the shapes and bounds in it as pydantic knows them."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        bounds = (bound for bound in inner[1:] if isinstance(bound, Meta))
        named = [{name: getattr(bound, name) for name in _BOUNDS} for bound in bounds]
        found = [Field(**{name: value for name, value in each.items() if value is not None}) for each in named]
        return Annotated[_type_of(inner[0]), *found]
    if origin in (list, dict):
        return origin[tuple(map(_type_of, inner))]
    if origin in (Union, type(int | str)):
        return reduce(or_, map(_type_of, inner))
    if isinstance(kind, type) and issubclass(kind, Struct):
        return model_of(kind)
    if origin is Literal:
        return Annotated[kind, BeforeValidator(_whole)]
    assert kind in (bool, int, float, str, object, type(None)), f"a shape has a field of {kind}"
    return kind


def _whole(value: object) -> object:
    """What a literal is compared with: 1.0 and true are not 1, though Python says so."""
    return repr(value) if isinstance(value, bool | float) else value


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
