"""The report of `met circuit diff`, for people and as JSON."""

import json
import math
import struct

from msgspec import to_builtins

from circuit_exec.diff.against import Agreement
from circuit_exec.diff.compare import Comparison, Difference, Where
from circuit_exec.diff.run import Pair, Report
from circuit_exec.diff.sides import Side, varied

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

NAMES = {
    "repeat": "repeat of the same side: must be equal",
    "unwatched": "the program that runs, against the same with every edge kept: must be equal",
}


def report_text(report: Report) -> str:
    """One block a comparison, then what holds."""
    asked = report.asked
    which = "all" if len(asked) == report.n_tokens else ", ".join(map(str, asked))
    lines = [
        f"{report.n_tokens} tokens; logits compared at positions: {which}",
        f"first side: {side_text(report.pairs[0].one)}",
    ]
    for pair in report.pairs:
        lines += ["", _head(pair, report.changed), *_found(pair.found)]
        lines += [] if pair.holds else [f"  FAILED: it must {pair.must}"]
    if report.against is not None:
        lines += ["", *_against(report.against)]
    failed = sum(not pair.holds for pair in report.pairs)
    failed += report.against is not None and not report.against.holds
    lines += ["", f"{failed} of the checks failed" if failed else "every check holds"]
    return "\n".join(lines) + "\n"


def report_json(report: Report) -> str:
    """The report for programs; words are hexadecimal, a value that is no number is a string."""
    data: dict[str, Json] = {
        "holds": report.holds,
        "tokens": report.n_tokens,
        "positions": list(report.asked),
        "control": dict(zip(("position", "from", "to"), report.changed, strict=True)),
        "pairs": [_pair(pair) for pair in report.pairs],
        "against": None if report.against is None else _agreement(report.against),
    }
    return json.dumps(data, indent=1, allow_nan=False) + "\n"


def side_text(side: Side) -> str:
    """`rules=all policy=default threads=2 chunk=64 steps=0`."""
    return " ".join(f"{name}={value}" for name, value in _options(side).items())


def value_text(format: str, word: int) -> str:
    """The value of a word and its bits: `0.5 (0x3f000000)`."""
    value = _value(format, word)
    return f"{value:.9g} (0x{word:08x})" if isinstance(value, float) else f"{value} (0x{word:08x})"


def _options(side: Side) -> dict[str, str]:
    return {
        "rules": side.rules,
        "policy": "+".join(side.policy) or "default",
        "threads": str(side.threads),
        "chunk": "most" if side.chunk is None else str(side.chunk),
        "steps": str(side.steps),
    }


def _head(pair: Pair, changed: tuple[int, int, int]) -> str:
    match pair.name:
        case "repeat" | "unwatched":
            return NAMES[pair.name]
        case "control":
            position, before, after = changed
            return f"control, token {position} is {after} in place of {before}: must differ"
        case "side":
            options = _options(pair.other)
            names = " ".join(f"{name}={options[name]}" for name in varied(pair.one, pair.other))
            claim = "must be equal" if pair.must == "be equal" else "no claim that they are equal"
            return f"{names}: {claim}"


def _found(found: Comparison) -> list[str]:
    seen = f"{found.n_elements} elements of {_edges(found.n_edges)}"
    only = [f"{_edges(n)} only in the {side}" for n, side in zip(found.only, ("first", "other"), strict=True) if n]
    skipped = f" (skipped: {', '.join(only)})" if only else ""
    if found.first is None:
        return [f"  equal: {seen}{skipped}"]
    return [f"  {found.n_different} of {seen} differ{skipped}", *_difference(found.first)]


def _edges(n: int) -> str:
    return f"{n} edge" if n == 1 else f"{n} edges"


def _difference(first: Difference) -> list[str]:
    one, other = first.at
    away = "one is no number" if first.ulps is None and first.format == "f32" else f"{first.ulps} ulp apart"
    apart = f"; {away}" if first.format == "f32" else ""
    lines = [
        f"  first: {first.edge} at position {first.position}, column {first.column}: "
        f"{value_text(first.format, first.words[0])} and {value_text(first.format, first.words[1])}{apart}",
        f"    in the first:  {_where(one)}",
        f"    in the other:  {_where(other)}",
        f"    {first.n_different} of the {first.n_elements} elements of this edge differ there",
    ]
    return lines


def _where(at: Where) -> str:
    members = " ".join(at.members)
    return f"step {at.step} ({at.mode}), row {at.row}; launch {at.launch}: {at.rule} [{members}]"


def _against(found: Agreement) -> list[str]:
    other = "" if found.other_token is None else f" (first other: position {found.other_token})"
    beyond = f" at {found.outside} of {found.n_positions} positions it is not, first at {found.first_outside}"
    return [
        f"{found.file}: must be within {found.tolerance:g}",
        f"  same most likely token at {found.argmax} of {found.n_positions} positions{other}",
        f"  largest difference {found.largest:.9g}, at position {found.position}, column {found.column}: "
        f"{found.ours:.9g} and {found.theirs:.9g}",
        *([] if found.holds else [f"  FAILED: it must be within {found.tolerance:g};{beyond}"]),
    ]


def _pair(pair: Pair) -> dict[str, Json]:
    found = pair.found
    return {
        "name": pair.name,
        "first": dict(_options(pair.one)),
        "other": dict(_options(pair.other)),
        "must": pair.must,
        "holds": pair.holds,
        "edges": found.n_edges,
        "only_in_first": found.only[0],
        "only_in_other": found.only[1],
        "elements": found.n_elements,
        "different": found.n_different,
        "difference": None if found.first is None else _difference_json(found.first),
    }


def _difference_json(first: Difference) -> dict[str, Json]:
    return {
        "edge": first.edge,
        "position": first.position,
        "column": first.column,
        "values": [_number(_value(first.format, word)) for word in first.words],
        "words": [f"0x{word:08x}" for word in first.words],
        "ulps": first.ulps,
        "different_in_edge": first.n_different,
        "elements_of_edge": first.n_elements,
        "at": [{**to_builtins(at), "members": list(at.members)} for at in first.at],
    }


def _agreement(found: Agreement) -> dict[str, Json]:
    return {
        "file": found.file,
        "tolerance": found.tolerance,
        "holds": found.holds,
        "positions": found.n_positions,
        "outside": found.outside,
        "first_outside": found.first_outside,
        "same_argmax": found.argmax,
        "first_other_argmax": found.other_token,
        "largest": _number(found.largest),
        "position": found.position,
        "column": found.column,
        "values": [_number(found.ours), _number(found.theirs)],
    }


def _value(format: str, word: int) -> float | int:
    data = struct.pack("<I", word)
    value: float | int = struct.unpack("<i" if format == "i32" else "<f", data)[0]
    return value


def _number(value: float | int) -> float | int | str:
    return value if math.isfinite(value) else str(value)
