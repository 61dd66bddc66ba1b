"""The results of the load comparison: rounds as they were measured, the rows that follow, and the file."""

import json
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins

from bench.paths import replaced
from bench.results import Setting, stored
from bench.serve_client import Answer

SCHEMA = 1


class Figures(Struct, frozen=True, kw_only=True):
    """What one server did in one round, in tokens a second of all streams together and seconds.

    A gap is the time between two pieces of one answer, which are a token each but where a character takes several.
    """

    tok_s: float
    first_median: float
    first_p95: float
    gap_median: float
    gap_p95: float
    n_prompt: int
    n_made: int


class Round(Struct, frozen=True, kw_only=True):
    """Both servers on the same requests, one after the other."""

    n_streams: int
    activations: str
    date: str
    met: Figures
    llama_cpp: Figures


class Row(Struct, frozen=True, kw_only=True):
    """A line of the table: the medians over the rounds, and those of the ratios of the rounds."""

    n_streams: int
    activations: str
    n_rounds: int
    met: Figures
    llama_cpp: Figures
    ratio: float
    gap_ratio: float


def figures(answers: Sequence[Answer]) -> Figures:
    """Of the answers of one round."""
    gaps = [b - a for each in answers for a, b in zip(each.came, each.came[1:], strict=False)]
    firsts = [each.came[0] - each.sent for each in answers]
    n_made = sum(each.n_made for each in answers)
    took = max(each.came[-1] for each in answers) - min(each.sent for each in answers)
    return Figures(
        tok_s=n_made / took,
        first_median=statistics.median(firsts),
        first_p95=p95(firsts),
        gap_median=statistics.median(gaps),
        gap_p95=p95(gaps),
        n_prompt=sum(each.n_prompt for each in answers),
        n_made=n_made,
    )


def p95(values: Sequence[float]) -> float:
    """The smallest of the values that 95 % of them do not exceed."""
    return sorted(values)[math.ceil(0.95 * len(values)) - 1]


def rows(rounds: Sequence[Round]) -> list[Row]:
    """One for each number of streams and kind of activations."""
    found = []
    for n_streams, activations in sorted({(each.n_streams, each.activations) for each in rounds}):
        these = [each for each in rounds if (each.n_streams, each.activations) == (n_streams, activations)]
        found.append(
            Row(
                n_streams=n_streams,
                activations=activations,
                n_rounds=len(these),
                met=_medians([each.met for each in these]),
                llama_cpp=_medians([each.llama_cpp for each in these]),
                ratio=statistics.median(each.met.tok_s / each.llama_cpp.tok_s for each in these),
                gap_ratio=statistics.median(each.met.gap_p95 / each.llama_cpp.gap_p95 for each in these),
            )
        )
    return found


def _medians(these: Sequence[Figures]) -> Figures:
    values = [to_builtins(each) for each in these]
    return Figures(**{name: statistics.median(each[name] for each in values) for name in values[0]})


def table(rounds: Sequence[Round]) -> str:
    """As it is printed: met's line, llama.cpp's, and the ratio between them."""
    head = ("", "tok/s", "ratio", "first ms", "p95", "gap ms", "p95")
    lines = [f"{head[0]:<28}" + "".join(f"{word:>10}" for word in head[1:])]
    for row in rows(rounds):
        for name, done, ratio in (
            (f"met {row.activations}", row.met, f"{row.ratio:.2f}x"),
            ("llama.cpp", row.llama_cpp, ""),
        ):
            times = (done.first_median, done.first_p95, done.gap_median, done.gap_p95)
            cells = (f"{done.tok_s:.0f}", ratio, *(f"{each * 1000:.0f}" for each in times))
            lines.append(f"{f'{row.n_streams} streams, {name}':<28}" + "".join(f"{cell:>10}" for cell in cells))
    return "\n".join(lines)


def write(path: Path, setting: Setting, rounds: Sequence[Round]) -> None:
    """Replaces the file as a whole."""
    document = {
        "schema": SCHEMA,
        **to_builtins(setting),
        "rows": [to_builtins(row) for row in rows(rounds)],
        "rounds": [to_builtins(each) for each in rounds],
    }
    replaced(path, json.dumps(document, indent=1) + "\n")


def read(path: Path, setting: Setting) -> list[Round]:
    """The rounds of a file, none if there is no file. A file of another machine or version is refused."""
    return [_round_of(each) for each in stored(path, setting, SCHEMA, "rounds")]


def _round_of(found: dict[str, Any]) -> Round:
    return Round(**{**found, "met": Figures(**found["met"]), "llama_cpp": Figures(**found["llama_cpp"])})
