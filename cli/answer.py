"""Questions that are answered from the cache where they were asked before."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import typer
from msgspec import Struct

from circuit.errors import PolicyError, Problem

if TYPE_CHECKING:
    from circuit.load.inputs import Library
    from circuit_exec.answers import Answer
    from circuit_exec.checkpoint.records import Checkpoint

Option = None | bool | int | str | tuple[str, ...]


class Question(Struct, frozen=True, kw_only=True):
    """A command, the models it is about, and each of its options that a byte of the answer can depend on."""

    command: str
    models: "tuple[Checkpoint, ...]"
    options: Mapping[str, Option]


def answer(question: Question, form: str, make: "Callable[[Library], str]") -> str:
    """The answer as a text of that form, from the cache or made with the library."""
    return _answer(question, form, lambda library: (make(library), (), True)).text


def print_answer(question: Question, form: str, make: "Callable[[Library], tuple[str, tuple[Problem, ...]]]") -> None:
    """Prints the answer; what is refused after it is a PolicyError."""
    found = _answer(question, form, lambda library: (*make(library), True))
    print(found.text, end="")
    if found.refused:
        raise PolicyError(found.refused)


def print_compared(question: Question, form: str, make: "Callable[[Library], tuple[str, bool]]") -> None:
    """Prints what a comparison found; ends with 1 where the sides are not equal, which `make` says."""

    def made(library: "Library") -> tuple[str, tuple[Problem, ...], bool]:
        text, equal = make(library)
        return text, (), equal

    found = _answer(question, form, made)
    print(found.text, end="")
    if not found.equal:
        raise typer.Exit(1)


def _answer(
    question: Question, form: str, make: "Callable[[Library], tuple[str, tuple[Problem, ...], bool]]"
) -> "Answer":
    from circuit_exec.answers import Answer, answered
    from circuit_exec.cache import user_cache
    from circuit_exec.library import library

    texts, cache = library(), user_cache()

    def made(kept: "Library") -> Answer:
        text, refused, equal = make(kept)
        return Answer(text=text, refused=refused, equal=equal)

    words = (question.command, form, *(f"{name}={value!r}" for name, value in question.options.items()))
    return answered(words, question.models, texts, cache, made)
