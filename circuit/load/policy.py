"""The policy: the stated choices that may change bytes. One default for all classes; others are asked for by name."""

from collections.abc import Iterable

from msgspec import Struct

from circuit.errors import PlanError, Problem
from circuit.formats import STATE_FORMATS
from circuit.load.inputs import Library, once
from circuit.text import listed


class Key(Struct, frozen=True, kw_only=True):
    """A key of the policy. `implemented` are values that kernels exist for; `planned` are known, and refused by name.

    `effects`: what each implemented value does to the output. `read_by`: what the key steers before the rules, None
    where it only chooses rules; whether it is the policy's or the compiler's follows from those (`load.owners`).
    """

    name: str
    why: str
    read_by: str | None
    implemented: tuple[str, ...]
    effects: tuple[str, ...]
    planned: tuple[str, ...]


_STORED = {
    "f32": "kept as they were computed",
    "f16": "each value rounded once to f16, which holds up to 65504",
    "bf16": "each value rounded once to bf16, 8 bits of precision",
    "int8": "8-bit codes with one scale for each position, head and side",
}


KEYS: tuple[Key, ...] = (
    Key(
        name="activations",
        why="what a projection reads: the f32 row, or codes and scales of it",
        read_by="the rewrite of the typed circuit that puts act_quant on edges",
        implemented=("f32", "int8/g32"),
        effects=(
            "every projection reads the row as it was computed",
            "a row that meets 4- to 8-bit weights becomes 8-bit codes with a scale for each 32: other numerics",
        ),
        planned=(),
    ),
    Key(
        name="kv",
        why="the storage format of keys and values",
        read_by="the formats of states",
        implemented=STATE_FORMATS,
        effects=tuple(_STORED[format] for format in STATE_FORMATS),
        planned=(),
    ),
    Key(
        name="parity",
        why="where bytes are equal: on every machine, on one class, on one build",
        read_by="the certificate and the meaning of the digest bytes",
        implemented=("portable",),
        effects=("the same bytes on every machine, thread count and vector width",),
        planned=("class", "free"),
    ),
    Key(
        name="speculation",
        why="whether tokens are guessed ahead and verified",
        read_by="the steps of a sequence",
        implemented=("none",),
        effects=("each step gives one token of a sequence",),
        planned=(),
    ),
)
"""Every key, sorted by name."""


class Policy(Struct, frozen=True, kw_only=True):
    """A value for every key, in the order of KEYS."""

    entries: tuple[tuple[str, str], ...]


def policy_value(policy: Policy, key: str) -> str | None:
    """The value of `key`, or None where there is no such key."""
    return next((value for name, value in policy.entries if name == key), None)


def load_policy(library: Library) -> Policy:
    """`recipes/default.toml`, which states every key."""

    def read() -> Policy:
        from circuit.load.policy_file import read_policy  # kept records need no reader

        return read_policy(library)

    return once(library, "policy", read)


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
        problems += [Problem(message=message, fix=fix) for message, fix in wrong_choice(name, value)]
        changed[name] = value
    if problems:
        raise PlanError(problems)
    return Policy(entries=tuple((key.name, changed[key.name]) for key in KEYS))


def wrong_choice(name: str, value: str) -> list[tuple[str, str]]:
    """What is wrong with a value for a key, as (message, fix); nothing where it can be kept."""
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
