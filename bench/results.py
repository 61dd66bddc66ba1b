"""The results file: what was measured, cell by cell, and the rows that follow from it."""

import json
import statistics
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins

from bench.ceilings import Needs, Speeds, ceiling, mean, steady
from bench.contestants import Contestant
from bench.errors import BenchError
from bench.paths import FORMATS, replaced
from bench.works import COMPARED

SCHEMA = 1


class Raw(Struct, frozen=True, kw_only=True):
    """What one contestant did: tokens a second of all sequences together, round by round."""

    contestant: Contestant
    info: str
    tok_s: tuple[float, ...]


class Cell(Struct, frozen=True, kw_only=True):
    """One format and work. `raw` ran in turn, round by round; `before` and `after` are the probes of each ISA."""

    format: str
    work: str
    date: str
    n_sequences: int
    step_tokens: int
    needs: Needs
    before: dict[str, Speeds]
    after: dict[str, Speeds]
    raw: tuple[Raw, ...]


class Setting(Struct, frozen=True, kw_only=True):
    """What cells of one file have in common."""

    machine: dict[str, str]
    versions: dict[str, str]
    threads: int


class Row(Struct, frozen=True, kw_only=True):
    """A line of the table: met, as compiled for one ISA. `ratio_to_llama_cpp` is to llama.cpp compiled for the same.

    `of_ceiling` is the part of the roofline that was reached, and `bound` says which of its sides that is.
    """

    format: str
    activations: str
    work: str
    isa: str
    tok_s: float
    ratio_to_llama_cpp: float
    of_ceiling: float
    bound: str
    ceiling_tok_s: float
    unsteady: bool


class PeerRow(Struct, frozen=True, kw_only=True):
    """What a peer did in the same cell."""

    engine: str
    format: str
    activations: str
    work: str
    isa: str
    tok_s: float


def rows(cell: Cell) -> tuple[Row, ...]:
    """One row for each setting of met."""
    return tuple(_row(cell, raw) for raw in cell.raw if raw.contestant.engine == "met")


def peer_rows(cell: Cell) -> tuple[PeerRow, ...]:
    """One row for each peer."""
    return tuple(
        PeerRow(
            engine=raw.contestant.engine,
            format=cell.format,
            activations=raw.contestant.activations,
            work=cell.work,
            isa=raw.contestant.isa,
            tok_s=statistics.median(raw.tok_s),
        )
        for raw in cell.raw
        if raw.contestant.engine != "met"
    )


def _row(cell: Cell, raw: Raw) -> Row:
    isa = raw.contestant.isa
    peer = next(p for p in cell.raw if p.contestant.engine == "llama.cpp" and p.contestant.isa == isa)
    before, after = cell.before[isa], cell.after[isa]
    steps_s, bound = ceiling(cell.needs, mean(before, after), raw.contestant.activations)
    tok_s = statistics.median(raw.tok_s)
    return Row(
        format=cell.format,
        activations=raw.contestant.activations,
        work=cell.work,
        isa=isa,
        tok_s=tok_s,
        # Round by round: what slows a round slows both.
        ratio_to_llama_cpp=statistics.median(a / b for a, b in zip(raw.tok_s, peer.tok_s, strict=True)),
        of_ceiling=tok_s / (steps_s * cell.step_tokens),
        bound=bound,
        ceiling_tok_s=steps_s * cell.step_tokens,
        unsteady=not steady(before, after),
    )


def document(setting: Setting, cells: list[Cell], isa: str) -> dict[str, Any]:
    """The whole file. `rows` holds one row for each format, activations and work: as compiled for `isa`; `other_isa`
    holds those for the other one.
    """
    ordered = sorted(cells, key=lambda cell: (FORMATS.index(cell.format), _place(cell.work)))
    found = [row for cell in ordered for row in rows(cell)]
    return {
        "schema": SCHEMA,
        "isa": isa,
        **to_builtins(setting),
        "date": max((cell.date for cell in cells), default=""),
        "rows": [to_builtins(row) for row in found if row.isa == isa],
        "other_isa": [to_builtins(row) for row in found if row.isa != isa],
        "peers": [to_builtins(row) for cell in ordered for row in peer_rows(cell)],
        "cells": [to_builtins(cell) for cell in ordered],
    }


def write(path: Path, setting: Setting, cells: list[Cell], isa: str) -> None:
    """Replaces the file as a whole."""
    replaced(path, json.dumps(document(setting, cells, isa), indent=1) + "\n")


def read(path: Path, setting: Setting) -> list[Cell]:
    """The cells of a file, none if there is no file. A file of another machine or version is refused."""
    return [cell_of(each) for each in stored(path, setting, SCHEMA, "cells")]


def stored(path: Path, setting: Setting, schema: int, what: str) -> list[dict[str, Any]]:
    """The records `what` of a results file, none if there is no file. One of another machine or version is refused."""
    if not path.exists():
        return []
    found = json.loads(path.read_text(encoding="utf-8"))
    mine = to_builtins(setting)
    different = [name for name in ("machine", "versions", "threads") if found.get(name) != mine[name]]
    if found.get("schema") != schema or different:
        of_what = " and ".join(different) or "schema"
        raise BenchError(f"{path} has results of another {of_what}", "remove it, or give --out another file")
    records: list[dict[str, Any]] = found[what]
    return records


def merged(cells: list[Cell], cell: Cell) -> list[Cell]:
    """With a cell that takes the place of the one measured before."""
    return [each for each in cells if (each.format, each.work) != (cell.format, cell.work)] + [cell]


def cell_of(found: dict[str, Any]) -> Cell:
    """A cell as it was written."""
    return Cell(
        **{
            **found,
            "needs": Needs(**found["needs"]),
            "before": {isa: Speeds(**each) for isa, each in found["before"].items()},
            "after": {isa: Speeds(**each) for isa, each in found["after"].items()},
            "raw": tuple(
                Raw(contestant=Contestant(**raw["contestant"]), info=raw["info"], tok_s=tuple(raw["tok_s"]))
                for raw in found["raw"]
            ),
        }
    )


def _place(work: str) -> int:
    return [each.name for each in COMPARED].index(work)
