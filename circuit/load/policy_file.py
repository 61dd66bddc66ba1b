"""`recipes/default.toml`: the shape of the file, and how it is read to the records of `policy.py`."""

from circuit.errors import LoadError, Problem
from circuit.load.edge import FileShape, validated
from circuit.load.inputs import Library, files_under
from circuit.load.policy import KEYS, Policy, wrong_choice
from circuit.load.shapes import Schema
from circuit.load.source import Document, line_of
from circuit.load.toml_text import read_toml
from circuit.text import problem_at


def read_policy(library: Library) -> Policy:
    """A value for every key, read."""
    sources = files_under(library, "recipes", "default.toml")
    assert len(sources) == 1, "the library has one recipes/default.toml"
    document = read_toml(sources[0])
    stated = validated(document, _DefaultFile).policy
    problems = [p for name, value in stated.items() for p in _wrong_in_file(document, name, value)]
    for key in KEYS:
        if key.name not in stated:
            line = line_of(document, ("policy",))
            problems.append(problem_at(sources[0], line, f"missing policy key `{key.name}`", f"add `{key.name} = ...`"))
    if problems:
        raise LoadError(problems)
    return Policy(entries=tuple((key.name, stated[key.name]) for key in KEYS))


class _DefaultFile(FileShape, frozen=True, kw_only=True):
    schema: Schema
    policy: dict[str, str]


def _wrong_in_file(document: Document, name: str, value: str) -> list[Problem]:
    line = line_of(document, ("policy", name))
    return [problem_at(document.source, line, message, fix) for message, fix in wrong_choice(name, value)]
