"""`met bench`: how fast a model runs, and how much of the memory's bandwidth that is."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from cli.models import ModelArgument
from cli.options import JsonOption, PolicyOption, RulesOption, ThreadsOption

if TYPE_CHECKING:
    from circuit_exec.bench import Measured

EXAMPLES = """Examples:

\b
  met bench smollm2
  met bench smollm2 --threads 1 --json
"""


def bench(
    model: ModelArgument,
    threads: ThreadsOption = None,
    rules: RulesOption = "all",
    policy: PolicyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure prefill and decode speed.

    Both against the read bandwidth of the memory, measured in turn in the same run; medians of 5 rounds.
    """
    from circuit_exec import bench as measuring
    from circuit_exec.cache import user_cache
    from cli.loading import loaded
    from cli.progress import progress_bar

    with loaded(model, threads, rules, policy) as ready, progress_bar() as progress:
        found = measuring.bench(ready.program, ready.pages, user_cache(), progress)
    print(json.dumps(asdict(found), indent=1) if as_json else _text(found))


def _text(found: "Measured") -> str:
    (prefill_lo, prefill_hi), (decode_lo, decode_hi) = found.prefill_range, found.decode_range
    return "\n".join(
        [
            f"prefill {found.n_prefill} tokens: {found.prefill:.1f} tok/s ({prefill_lo:.1f} to {prefill_hi:.1f})",
            f"decode {found.n_decode} tokens after {found.n_before}: {found.decode:.1f} tok/s"
            f" ({decode_lo:.1f} to {decode_hi:.1f})",
            f"read bandwidth: {found.bandwidth / 1e9:.1f} GB/s; a decode step reads {found.decode_bytes / 1e6:.1f} MB,"
            f" so decode uses {found.share * 100:.0f} % of it",
            f"threads: {found.n_threads}; median of {found.rounds} rounds (lowest to highest)",
        ]
    )
