"""Questions that are answered from the cache where they were asked before."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from circuit.errors import PolicyError, Problem

if TYPE_CHECKING:
    from circuit.load.inputs import Library
    from circuit_exec.checkpoint.records import Checkpoint

Option = None | bool | int | str | tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A command, the models it is about, and each of its options that a byte of the answer can depend on."""

    command: str
    models: "tuple[Checkpoint, ...]"
    options: Mapping[str, Option]


def answer(question: Question, form: str, make: "Callable[[Library], str]") -> str:
    """The answer as a text of that form, from the cache or made with the library."""
    return _answer(question, form, lambda library: (make(library), ()))[0]


def print_answer(question: Question, form: str, make: "Callable[[Library], tuple[str, tuple[Problem, ...]]]") -> None:
    """Prints the answer; what is refused after it is a PolicyError."""
    text, refused = _answer(question, form, make)
    print(text, end="")
    if refused:
        raise PolicyError(refused)


def _answer(
    question: Question, form: str, make: "Callable[[Library], tuple[str, tuple[Problem, ...]]]"
) -> tuple[str, tuple[Problem, ...]]:
    from circuit_exec.answers import Answer, answered
    from circuit_exec.cache import user_cache
    from circuit_exec.library import library

    texts, cache = library(), user_cache()

    def made() -> Answer:
        from circuit_exec.kept_library import KeptLibrary

        kept = KeptLibrary(texts, cache, f"{question.options.get('hardware')} {question.options.get('class')}")
        text, refused = make(texts)
        kept.keep()
        return Answer(text=text, refused=refused)

    words = (question.command, form, *(f"{name}={value!r}" for name, value in question.options.items()))
    found = answered(words, question.models, texts, cache, made)
    return found.text, found.refused
