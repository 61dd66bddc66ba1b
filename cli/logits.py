"""`met logits`: the logits of every position of a token list, and their hash, so that anyone can compare bytes."""

from pathlib import Path
from typing import Annotated

import typer

from circuit.errors import LoadError, Problem
from cli.models import ModelArgument
from cli.options import ChunkOption, PolicyOption, RulesOption, ThreadsOption
from cli.whole_file import write_whole

EXAMPLES = """Examples:

\b
  echo 1 2 3 4 > ids.txt
  met logits smollm2 --tokens ids.txt --out logits.npy
  met logits smollm2 --tokens ids.txt --out again.npy --threads 1 --chunk 1 --rules reference
"""


def logits(
    model: ModelArgument,
    tokens: Annotated[
        Path, typer.Option("--tokens", metavar="FILE", help="Token ids: white space, commas, or a JSON list.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE.npy", help="Where the logits go, as float32.")],
    threads: ThreadsOption = None,
    chunk: ChunkOption = None,
    rules: RulesOption = "all",
    policy: PolicyOption = None,
) -> None:
    """Write the logits of a token list, print their hash.

    The file holds float32 [positions, vocabulary]; equal hashes (SHA-256) are equal bytes.
    """
    import numpy as np

    from cli.loading import loaded
    from cli.tokens import parse_tokens, read_tokens

    ids = parse_tokens(read_tokens(tokens))
    _check_writable(out)
    from circuit_exec.logits import all_logits, logits_hash

    with loaded(model, threads, rules, policy) as ready:
        rows = ready.program.max_rows("prefill") if chunk is None else chunk
        found = all_logits(ready.program, ready.pages, ids, rows)
    write_whole(out, lambda file: np.save(file, found), "the logits", "--out")
    print(f"{logits_hash(found)}  {found.shape[0]} x {found.shape[1]} float32")


def _check_writable(path: Path) -> None:
    """Refuses early what would fail after the work."""
    if path.suffix != ".npy":
        raise LoadError(_problem(path, "the output is a NumPy file", "give --out a name that ends in .npy"))
    if not path.parent.is_dir():
        raise LoadError(_problem(path, "the folder of the output does not exist", f"make it: mkdir -p {path.parent}"))


def _problem(path: Path, message: str, fix: str) -> Problem:
    return Problem(message=message, fix=fix, file=str(path))
