"""The policy: the stated choices that may change bytes. One default for all classes; others are asked for by name."""

from collections.abc import Iterable
from dataclasses import dataclass

from circuit.errors import LoadError, PlanError, Problem
from circuit.formats import STATE_FORMATS
from circuit.load.edge import FileShape, validated
from circuit.load.inputs import Library, files_under
from circuit.load.shapes import Schema
from circuit.load.source import Document, line_of
from circuit.load.toml_text import read_toml
from circuit.text import listed, problem_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A policy key. `implemented` are the values that kernels exist for; `planned` are known, and refused by name."""

    name: str
    why: str
    implemented: tuple[str, ...]
    planned: tuple[str, ...]


KEYS: tuple[Key, ...] = (
    Key(
        name="activations",
        why="what a projection reads: the f32 row, or codes and scales of it",
        implemented=("f32", "int8/g32"),
        planned=(),
    ),
    Key(name="kv", why="the storage format of keys and values", implemented=STATE_FORMATS, planned=()),
    Key(
        name="parity",
        why="where bytes are equal: on every machine, on one class, on one build",
        implemented=("portable",),
        planned=("class", "free"),
    ),
)
"""Every key, sorted by name. All of them change bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A value for every key, in the order of KEYS."""

    entries: tuple[tuple[str, str], ...]


def policy_value(policy: Policy, key: str) -> str | None:
    """The value of `key`, or None where there is no such key."""
    return next((value for name, value in policy.entries if name == key), None)


def load_policy(library: Library) -> Policy:
    """`recipes/default.toml`, which states every key."""
    sources = files_under(library, "recipes", "default.toml")
    assert len(sources) == 1, "the library has one recipes/default.toml"
    document = read_toml(sources[0])
    stated = validated(document, _RecipeFile).policy
    problems = [p for name, value in stated.items() for p in _wrong_in_file(document, name, value)]
    for key in KEYS:
        if key.name not in stated:
            line = line_of(document, ("policy",))
            problems.append(problem_at(sources[0], line, f"missing policy key `{key.name}`", f"add `{key.name} = ...`"))
    if problems:
        raise LoadError(problems)
    return Policy(entries=tuple((key.name, stated[key.name]) for key in KEYS))


def with_choices(policy: Policy, choices: Iterable[str]) -> Policy:
    """The policy changed by `KEY=VALUE` texts; all that is wrong with them is one PlanError."""
    changed = dict(policy.entries)
    problems: list[Problem] = []
    asked: set[str] = set()
    for choice in choices:
        name, equals, value = choice.partition("=")
        if not equals:
            problems.append(Problem(message=f"policy `{choice}` is not KEY=VALUE", fix=f"the keys are: {_names()}"))
            continue
        if name in asked:
            problems.append(Problem(message=f"policy `{name}` is given twice", fix="give it once"))
        asked.add(name)
        problems += [Problem(message=message, fix=fix) for message, fix in _wrong(name, value)]
        changed[name] = value
    if problems:
        raise PlanError(problems)
    return Policy(entries=tuple((key.name, changed[key.name]) for key in KEYS))


class _RecipeFile(FileShape):
    schema_: Schema
    policy: dict[str, str]


def _wrong_in_file(document: Document, name: str, value: str) -> list[Problem]:
    line = line_of(document, ("policy", name))
    return [problem_at(document.source, line, message, fix) for message, fix in _wrong(name, value)]


def _wrong(name: str, value: str) -> list[tuple[str, str]]:
    key = next((key for key in KEYS if key.name == name), None)
    if key is None:
        return [(f"unknown policy key `{name}`", f"the keys are: {_names()}")]
    if value in key.planned:
        return [(f"policy {name} = {value} is not implemented yet", f"use {name}={' or '.join(key.implemented)}")]
    if value not in key.implemented:
        return [(f"policy {name} has no value `{value}`", f"use one of: {listed(key.implemented)}")]
    return []


def _names() -> str:
    return listed(key.name for key in KEYS)
