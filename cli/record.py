"""`met record`: when each launch of a model's own program began and ended."""

from pathlib import Path
from typing import Annotated

import typer

from cli.models import ModelArgument, model_path
from cli.options import PolicyOption, RulesOption, ThreadsOption
from cli.whole_file import write_whole

EXAMPLES = """Examples:

\b
  met record smollm2 -o trace.json
  met record smollm2 -o trace.json --tokens 512 --steps 16 --threads 1
  met circuit trace smollm2 trace.json --class avx2
"""


def record(
    model: ModelArgument,
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FILE", help="Where to write the trace, as JSON.")],
    tokens: Annotated[int, typer.Option("--tokens", metavar="N", min=1, help="How many tokens to run.")] = 64,
    steps: Annotated[
        int, typer.Option("--steps", metavar="N", min=0, help="How many of the last are decode steps.")
    ] = 4,
    threads: ThreadsOption = None,
    rules: RulesOption = "all",
    policy: PolicyOption = None,
) -> None:
    """Run a model once and write a Chrome trace of its launches: when the first thread began and ended each.

    Browsers' trace viewers and Perfetto show it; `met circuit trace` compares it with the plan.
    """
    from circuit_exec.build import available_threads
    from circuit_exec.cache import user_cache
    from circuit_exec.checkpoint.open import opened
    from circuit_exec.diff.sides import Side, Sides
    from circuit_exec.trace.record import record as run
    from cli.progress import progress_bar

    path = model_path(model)
    side = Side(
        rules=rules, policy=tuple(policy or ()), threads=threads or available_threads(), chunk=None, steps=steps
    )
    with progress_bar() as progress:
        checkpoint = opened(path, user_cache())
        found = run(Sides(checkpoint=checkpoint, cache=user_cache(), progress=progress), side, tokens)
    write_whole(out, lambda file: file.write(found.text.encode()), "the trace", "--out")
    print(f"{found.launches} launches in {found.seconds * 1e3:.1f} ms; class {found.hardware_class}; written to {out}")
