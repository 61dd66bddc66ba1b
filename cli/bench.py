"""`met bench`: how fast a model runs, and how much of the memory's bandwidth that is."""

import json
from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import to_builtins

from cli.models import ModelArgument
from cli.options import JsonOption, PolicyOption, RulesOption, ThreadsOption

if TYPE_CHECKING:
    from circuit_exec.bench import Measured, Work

EXAMPLES = """Examples:

\b
  met bench smollm2
  met bench smollm2 --threads 1 --json
  met bench smollm2 --work decode_8 --work decode_2048
"""


class WorkName(StrEnum):
    """The works by name, in the order in which they are measured."""

    PREFILL_512 = "prefill_512"
    DECODE_1 = "decode_1"
    DECODE_8 = "decode_8"
    DECODE_2048 = "decode_2048"


WorkOption = Annotated[
    list[WorkName] | None,
    typer.Option(
        "--work",
        show_default="prefill_512 and decode_1",
        help="What to measure; may be repeated. decode_8: 8 sequences at once; decode_2048: after 2048 positions.",
    ),
]
RoundsOption = Annotated[int, typer.Option("--rounds", metavar="N", min=1, help="Rounds that are counted.")]


def bench(
    model: ModelArgument,
    threads: ThreadsOption = None,
    rules: RulesOption = "all",
    policy: PolicyOption = None,
    work: WorkOption = None,
    rounds: RoundsOption = 5,
    as_json: JsonOption = False,
) -> None:
    """Measure prefill and decode speed.

    Each against the read bandwidth of the memory, measured in turn in the same run; medians of the rounds.
    """
    from circuit_exec import bench as measuring
    from circuit_exec.cache import user_cache
    from cli.loading import loaded
    from cli.progress import progress_bar

    works = tuple(each for each in measuring.WORKS if each.name in work) if work else measuring.USUAL
    with loaded(model, threads, rules, policy) as ready, progress_bar() as progress:
        ready.settle()
        found = measuring.bench(ready.program, ready.pages, user_cache(), progress, works, rounds)
    print(json.dumps(to_builtins(found), indent=1) if as_json else "\n".join(_lines(found)))


def _lines(found: "Measured") -> Iterator[str]:
    for rate in found.rates:
        lo, hi = rate.tok_s_range
        yield f"{_done(rate.work)}: {rate.tok_s:.1f} tok/s ({lo:.1f} to {hi:.1f})"
    uses = [f"read bandwidth: {found.bandwidth / 1e9:.1f} GB/s"]
    for rate in found.rates:
        if rate.work.mode == "decode":
            name = "decode" if rate.work.name == "decode_1" else rate.work.name
            reads = f"a {name} step reads {rate.step_bytes / 1e6:.1f} MB"
            uses.append(f"{reads}, so {name} uses {rate.share * 100:.0f} % of it")
    yield "; ".join(uses)
    yield f"threads: {found.n_threads}; median of {found.rounds} rounds (lowest to highest)"


def _done(work: "Work") -> str:
    if work.mode == "prefill":
        return f"prefill {work.n_tokens} tokens"
    together = f" in {work.n_sequences} sequences at once" if work.n_sequences > 1 else ""
    return f"decode {work.n_tokens} tokens after {work.n_before}{together}"
