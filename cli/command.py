"""A command whose arguments are read without what checks them, where there is nothing to check.

typer makes a checker of pydantic for every option before it reads one, given or not, which takes longer than a report
that the cache has. Here an option that is not given, a plain text or number and a word of a list that has it are taken
as they are; everything else, and so every refusal, is typer's own.
"""

import re
from collections.abc import Sequence
from typing import Any, Literal, cast, get_args, get_origin

from typer.core import TyperCommand, TyperGroup

_PLAIN = re.compile("[0-9]{1,9}")


class Command(TyperCommand):
    """A command of typer's whose options are checked when they are given."""

    def get_params(self, ctx: Any) -> Any:  # noqa: ANN401 - private types of typer's
        """Its options and arguments, and --help."""
        return _light(super().get_params(ctx))


class Group(TyperGroup):
    """The same for what has commands."""

    def get_params(self, ctx: Any) -> Any:  # noqa: ANN401 - private types of typer's
        """Its options, and --help."""
        return _light(super().get_params(ctx))


def _light(parameters: list[Any]) -> list[Any]:
    for parameter in parameters:
        # Typer's place for the checker; a version that has none makes its own.
        if getattr(parameter, "_runtime_param", parameter) is None:
            parameter._runtime_param = _Later(parameter)
    return parameters


class _Later:
    """Stands where typer keeps a parameter's checker, and makes it where a value must be checked."""

    def __init__(self, parameter: Any) -> None:  # noqa: ANN401 - a private type of typer's
        self._parameter = parameter
        self._made: Any = None

    def coerce(self, value: object, *arguments: Any, **named: Any) -> object:  # noqa: ANN401 - as typer's
        """The value as typer would give it."""
        parameter = self._parameter
        many = parameter.multiple or parameter.nargs == -1
        if value is None:
            return () if many else None
        kind = parameter.type_descriptor.annotation
        if many:
            if get_origin(kind) is list and get_args(kind) == (str,) and _are_texts(value):
                return list(cast("Sequence[str]", value))
        elif _is_whole(kind, value) or (value is parameter.default and type(value) is kind):
            return value
        elif kind is int and isinstance(value, str) and _PLAIN.fullmatch(value):
            limits = parameter.type_descriptor.parameter_info
            if limits.min is None and limits.max is None:
                return int(value)
        return self._checker().coerce(value, *arguments, **named)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever typer's own has
        return getattr(self._checker(), name)

    def _checker(self) -> Any:  # noqa: ANN401 - a private type of typer's
        if self._made is None:
            self._parameter._runtime_param = None
            self._made = self._parameter.get_runtime_param()
        return self._made


def _is_whole(kind: object, value: object) -> bool:
    """Whether a text is one that needs no check: of any text, or one of a written list."""
    if not isinstance(value, str):
        return False
    return kind is str or (get_origin(kind) is Literal and value in get_args(kind))


def _are_texts(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)
