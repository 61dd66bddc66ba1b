"""What a checkpoint's quantization config declares: how its projections are stored, and which are left out."""

import re
from typing import Literal

from msgspec import Struct

from circuit.text import Source


class Pattern(Struct, frozen=True, kw_only=True):
    """A module, or several. `exact`: the whole name; `segments`: a run of whole segments of it, so that `mlp.up` is
    no part of `mlp.upper`; `glob`: the whole name with `*`; `regex`: from the beginning of the name on."""

    kind: Literal["exact", "segments", "glob", "regex"]
    text: str


class Precision(Struct, frozen=True, kw_only=True):
    """How every projection is stored that is not left out.

    `rows` x `columns` values share a scale, None: all of the tensor. `zero`: see tir's Quantized. `scales`: the last
    part of the scale tensor's name; where there are several, the file has one of them. `zeros` and `order` say whether
    there are such tensors.
    """

    scheme: Literal["fp8", "packed", "awq", "gptq", "gptq_v2"]
    codes: str
    scales: tuple[str, ...]
    zeros: str | None
    order: str | None
    rows: int | None
    columns: int | None
    zero: int


class Quantization(Struct, frozen=True, kw_only=True):
    """The declaration. `said` is the key that makes it, for messages. `head` says whether the head is a projection like
    the others. `unread` are tensors that no value depends on: the last part of the name, and why."""

    source: Source
    line: int | None
    said: str
    precision: Precision
    head: bool
    targets: tuple[Pattern, ...]
    skipped: tuple[Pattern, ...]
    skip_key: str
    unread: tuple[tuple[str, str], ...]


def covers(quantization: Quantization, module: str, role: str | None) -> bool:
    """Whether the declaration says that the projection `module` is quantized."""
    if role == "head" and not quantization.head:
        return False
    if skipped_by(quantization, module) is not None:
        return False
    return not quantization.targets or any(_fits(pattern, module) for pattern in quantization.targets)


def skipped_by(quantization: Quantization, module: str) -> str | None:
    """The entry that leaves the module out, as it is written."""
    return next((pattern.text for pattern in quantization.skipped if _fits(pattern, module)), None)


def _fits(pattern: Pattern, module: str) -> bool:
    match pattern.kind:
        case "exact":
            return pattern.text == module
        case "segments":
            return f".{pattern.text}." in f".{module}."
        case "glob":
            return re.fullmatch(".*".join(map(re.escape, pattern.text.split("*"))), module) is not None
        case "regex":
            return re.match(pattern.text, module) is not None
