"""What a report was made from, each value with where it is from: the checkpoint's keys, the policy, the class."""

from collections.abc import Iterator

from msgspec import Struct

from circuit.load.hardware import HardwareClass
from circuit.load.ledger import Entry, Ledger
from circuit.load.policy import Policy, policy_value
from circuit.load.quantization_keys import LEFT_OUT, OF_ACTIVATIONS, OF_CACHE, STORED
from circuit.text import listed


class Input(Struct, frozen=True, kw_only=True):
    """A value under its name. `origin`: file and line, `default`, `--policy`, ...; `why` where that needs a word."""

    name: str
    value: str
    origin: str
    why: str


class Declared(Struct, frozen=True, kw_only=True):
    """What a checkpoint declares about a precision, and what the plan does about it."""

    what: str
    declared: str
    origin: str
    planned: str


def inputs(ledger: Ledger, policy: Policy, default: Policy, stated_in: str) -> tuple[Input, ...]:
    """Every value that the plan depends on: first what is in the files, then what is not, then the policy.

    `default` is the policy of the file `stated_in`; what differs from it was asked for.
    """
    found = [_input(entry) for entry in ledger.entries if entry.became]
    absent = [each for each in found if each.origin in _ABSENT]
    stated = [each for each in found if each.origin not in _ABSENT]
    return (*stated, *absent, *_policy(policy, default, stated_in))


def relations_of(hardware: HardwareClass, proven_by: str) -> Input:
    """Whose proofs speak for the relations that a report's plans use."""
    why = "its definitions are those of every class; what runs needs proofs of its own class"
    return Input(
        name="relations",
        value=f"proven on {proven_by}",
        origin=f"kernels/{proven_by}/common/PROOFS.toml",
        why="" if proven_by == hardware.name else why,
    )


def declared(ledger: Ledger, policy: Policy) -> tuple[Declared, ...]:
    """The keys of the checkpoint that are about precision."""
    of_rows, of_cache = (f"{key}={policy_value(policy, key)}" for key in ("activations", "kv"))
    found = []
    for entry in ledger.entries:
        what, planned = _precision(entry, of_rows, of_cache)
        if what:
            short = entry.key.rpartition(".")[2]
            origin = entry.kind if entry.line is None else _place(entry)
            found.append(
                Declared(what=what, declared=f"{short} = {_short(entry.value)}", origin=origin, planned=planned)
            )
    for what, planned in (("rows", of_rows), ("keys, values", of_cache)):
        if not any(each.what == what for each in found):
            found.append(Declared(what=what, declared="nothing", origin="", planned=planned))
    return tuple(found)


_ABSENT = ("default", "derived", "const", "tensor")
"""Kinds of entries that no line has."""
_WIDTH = 24


def _precision(entry: Entry, of_rows: str, of_cache: str) -> tuple[str, str]:
    """What an entry is about, and what the plan does about it; two empty texts where it is about no precision."""
    if "format" in entry.became:
        return "weights", "as declared"
    if STORED in entry.became:
        return "projections", "as declared"
    if LEFT_OUT in entry.became:
        return "not projections", "as declared"
    if entry.why == OF_ACTIVATIONS:
        return "rows", of_rows
    return ("keys, values", of_cache) if entry.why == OF_CACHE else ("", "")


def _input(entry: Entry) -> Input:
    origin = entry.kind if entry.line is None else _place(entry)
    return Input(name=listed(entry.became), value=_short(entry.value), origin=origin, why=entry.why)


def _place(entry: Entry) -> str:
    """File and line, without the folders: where a file lies is no part of a report."""
    return f"{entry.file.replace(chr(92), '/').rpartition('/')[2]}:{entry.line}"


def _policy(policy: Policy, default: Policy, stated_in: str) -> Iterator[Input]:
    for (key, value), (_, stated) in zip(policy.entries, default.entries, strict=True):
        yield Input(name=f"policy {key}", value=value, origin=stated_in if value == stated else "--policy", why="")


def _short(text: str) -> str:
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"
