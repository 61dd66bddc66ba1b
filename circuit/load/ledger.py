"""The ledger: what became of every key of a checkpoint's config, and where each absent value came from."""

import json
import textwrap
from typing import Literal

from msgspec import Struct

EntryKind = Literal["dim", "param", "run", "require", "ignore", "object", "default", "derived", "const", "tensor"]
"""`default`: absent, the class default; `derived`: absent, computed from other facts; `const`: so in every model of the
type; `tensor`: read off the tensors."""


class Entry(Struct, frozen=True, kw_only=True):
    """One key. `became` are the facts it gives; `nodes` the nodes that read them; `why` the reason or the source."""

    file: str
    line: int | None
    key: str
    value: str
    kind: EntryKind
    became: tuple[str, ...]
    nodes: tuple[str, ...]
    why: str


class Ledger(Struct, frozen=True, kw_only=True):
    """All keys, in file order, then the absent ones. `ignored_tensors` are name patterns with the reason.

    `uses`: for each fact, the nodes that read it, as `attn.q`, or `attn.q.bias` where a param or a tensor does.
    """

    arch: str
    model_type: str
    map_file: str
    entries: tuple[Entry, ...]
    ignored_tensors: tuple[tuple[str, str], ...]
    uses: tuple[tuple[str, tuple[str, ...]], ...]


def ledger_text(ledger: Ledger) -> str:
    """The ledger for people, within 80 columns."""
    lines = [f"{ledger.model_type} -> {ledger.arch} ({ledger.map_file})"]
    file = None
    for entry in ledger.entries:
        if entry.file != file:
            file = entry.file
            lines.append(f"{file}:")
        lines.append(f"  {_short(f'{entry.key} = {entry.value}', 62):<62} {entry.kind:>12}")
        notes = []
        if entry.became:
            notes.append(f"-> {', '.join(entry.became)}")
        if entry.nodes:
            notes.append(f"at {', '.join(entry.nodes)}")
        if entry.why:
            notes.append(entry.why)
        for note in notes:
            lines.extend(textwrap.wrap(note, width=78, initial_indent="      ", subsequent_indent="      "))
    if ledger.ignored_tensors:
        lines.append("tensors that no node reads:")
        for pattern, why in ledger.ignored_tensors:
            lines.append(f"  {pattern}")
            lines.extend(textwrap.wrap(why, width=78, initial_indent="      ", subsequent_indent="      "))
    return "\n".join(lines) + "\n"


def ledger_json(ledger: Ledger) -> str:
    """The ledger for programs."""
    data = {
        "arch": ledger.arch,
        "model_type": ledger.model_type,
        "map": ledger.map_file,
        "keys": [
            {
                "file": entry.file,
                "line": entry.line,
                "key": entry.key,
                "value": entry.value,
                "class": entry.kind,
                "became": list(entry.became),
                "nodes": list(entry.nodes),
                "why": entry.why,
            }
            for entry in ledger.entries
        ],
        "ignored_tensors": [{"pattern": pattern, "why": why} for pattern, why in ledger.ignored_tensors],
    }
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def keys_of(ledger: Ledger, facts: tuple[str, ...]) -> tuple[str, ...]:
    """The keys that gave these facts, as `key = value`, for messages that contradict them."""
    return tuple(
        dict.fromkeys(
            f"{entry.key} = {_short(entry.value, 40)}"
            for fact in facts
            for entry in ledger.entries
            if fact in entry.became
        )
    )


def _short(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."
