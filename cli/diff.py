"""`met circuit diff`: the same tokens run in several ways, compared element by element."""

import itertools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from circuit.errors import PlanError, Problem
from cli.diff_plans import diff_plans
from cli.models import model_path
from cli.options import JsonOption, Rules
from cli.planner import MarkdownOption, SchemaOption

if TYPE_CHECKING:
    from circuit_exec.diff.sides import Side
    from cli.diff_plans import Lists

EXAMPLES = """Examples:

\b
  met circuit diff smollm2 --rules reference,all --threads 1,2
  met circuit diff smollm2 --chunk 512,64 --positions 1024 --groups
  met circuit diff smollm2 --steps 0,16 --positions 0,1023,8191
  met circuit diff smollm2 --tokens ids.txt --against logits.npy --tolerance 0.001
  met circuit diff --plans smollm2 config.json
  met circuit diff --plans smollm2 --rules reference,all
  met circuit diff --plans config.json --hardware h200,b200 --policy kv=bf16,default
  met circuit diff --plans smollm2 --library own,../other-checkout

Exit code 1: a claimed equality fails, the repeat differs, the control does not, or a tolerance is exceeded; with
--plans, the plans differ.
"""
POSITIONS = 64
TOLERANCE = 0.001
THREADS, STEPS = "1", "0"


def diff(
    models: Annotated[
        list[str],
        typer.Argument(metavar="MODEL [B]", help="A model as for every command; with --plans, one or two of them."),
    ],
    plans: Annotated[
        bool, typer.Option("--plans", help="Compare two plan sets and run nothing: A,B of a list are the two sides.")
    ] = False,
    rules: Annotated[str, typer.Option("--rules", metavar="A,B", help="Rule sets: reference, all.")] = "all",
    threads: Annotated[str, typer.Option("--threads", metavar="N,N", help="Numbers of threads.")] = THREADS,
    chunk: Annotated[
        str | None, typer.Option("--chunk", metavar="N,N", show_default="the most", help="Prompt rows in one step.")
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy", metavar="A,B", show_default="default", help="Policies: KEY=VALUE, joined by +, or default."
        ),
    ] = None,
    steps: Annotated[
        str, typer.Option("--steps", metavar="N,N", help="How many of the last tokens are decode steps.")
    ] = STEPS,
    positions: Annotated[
        str | None,
        typer.Option(
            "--positions",
            metavar="N|P,P",
            show_default="64, or all of --tokens",
            help="N: so many tokens, all compared. A list with a comma: the positions whose logits are compared.",
        ),
    ] = None,
    tokens: Annotated[
        Path | None,
        typer.Option("--tokens", metavar="FILE", show_default="pseudo-text", help="Token ids, as in `met logits`."),
    ] = None,
    groups: Annotated[
        bool, typer.Option("--groups", help="Compare what every group computes, not only logits.")
    ] = False,
    against: Annotated[
        Path | None, typer.Option("--against", metavar="FILE.npy", help="Logits from elsewhere to compare with.")
    ] = None,
    tolerance: Annotated[
        float, typer.Option("--tolerance", metavar="X", help="The largest difference to --against that is accepted.")
    ] = TOLERANCE,
    hardware: Annotated[
        str | None, typer.Option("--hardware", metavar="A,B", show_default="none", help="Devices, for --plans.")
    ] = None,
    hardware_class: Annotated[
        str | None, typer.Option("--class", metavar="A,B", show_default="cpu", help="Hardware classes, for --plans.")
    ] = None,
    libraries: Annotated[
        str | None,
        typer.Option(
            "--library",
            metavar="A,B",
            show_default="own",
            help="Folders with other versions of kernels/ and recipes/, for --plans; own: those of this met.",
        ),
    ] = None,
    as_json: JsonOption = False,
    markdown: MarkdownOption = False,
    schema: SchemaOption = False,
) -> None:
    """Run a model in several ways on the same tokens and report the first element that differs.

    Every combination of the lists is a side; each is compared with the first one, to the bit. A repeat of the first
    must be equal, a control with another token must differ.

    With --plans nothing runs: which part digests differ, group by group in what, and why. It ends as diff does: with 0
    where the plans are equal, with 1 where they differ, with 2 where they cannot be compared.
    """
    running = {
        "--threads": threads != THREADS,
        "--chunk": chunk is not None,
        "--steps": steps != STEPS,
        "--positions": positions is not None,
        "--tokens": tokens is not None,
        "--groups": groups,
        "--against": against is not None,
        "--tolerance": tolerance != TOLERANCE,
    }
    lists = (("--hardware", hardware), ("--class", hardware_class), ("--library", libraries))
    planning = {**dict(lists), "--markdown": markdown, "--schema": schema}
    if plans:
        _none_of(running, "runs the model, and --plans does not", "leave out", "or --plans")
        entries = _plan_lists((*lists, ("--policy", policy or "default")), rules)
        return diff_plans(models, entries, as_json, markdown, schema)
    _none_of({name: value not in (None, False) for name, value in planning.items()}, "is for --plans", "leave out")
    if len(models) > 1:
        raise _refused(f"diff runs one model, and {len(models)} are given", "give one, or --plans to compare plans")
    from circuit_exec.cache import user_cache
    from circuit_exec.checkpoint.open import opened
    from circuit_exec.diff.run import Request
    from circuit_exec.diff.run import diff as run_diff
    from circuit_exec.diff.sides import Sides
    from cli.diff_text import report_json, report_text
    from cli.progress import progress_bar

    wanted = _sides(rules, threads, chunk, policy, steps)
    given, asked = _positions(positions, tokens)
    most = max(side.steps for side in wanted)
    if most > (given if isinstance(given, int) else len(given)):
        raise _refused(f"--steps {most} is more than there are tokens", "give fewer steps, or more --positions")
    if not 0 <= tolerance < float("inf"):
        raise _refused(f"--tolerance {tolerance} is no tolerance", "give a number from 0")
    request = Request(
        tokens=given,
        asked=asked,
        sides=wanted,
        see="groups" if groups else "logits",
        against=against,
        tolerance=tolerance,
    )
    path = model_path(models[0])
    with progress_bar() as progress:
        checkpoint = opened(path, user_cache())
        sides = Sides(checkpoint=checkpoint, cache=user_cache(), progress=progress)
        report = run_diff(request, sides)
    print((report_json if as_json else report_text)(report), end="")
    if not report.holds:
        raise typer.Exit(1)


def _sides(rules: str, threads: str, chunk: str | None, policy: str | None, steps: str) -> "tuple[Side, ...]":
    """Every combination, in the order of the options; the first of each list is the first side."""
    from circuit_exec.diff.sides import Side

    chunks = (None,) if chunk is None else _numbers("--chunk", chunk, 1)
    policies = [() if each == "default" else tuple(each.split("+")) for each in _words("--policy", policy or "default")]
    wanted = itertools.product(
        _rules(rules), policies, _numbers("--threads", threads, 1), chunks, _numbers("--steps", steps, 0)
    )
    return tuple(Side(rules=r, policy=p, threads=t, chunk=c, steps=s) for r, p, t, c, s in wanted)


def _rules(text: str) -> list[Rules]:
    found: list[Rules] = []
    for word in _words("--rules", text):
        match word:
            case "reference" | "all":
                found.append(word)
            case _:
                raise _refused(f"--rules has `{word}`, which is no rule set", "use reference, all or both")
    return found


def _positions(text: str | None, file: Path | None) -> tuple[tuple[int, ...] | int, tuple[int, ...]]:
    """The tokens, or how many to make, and the positions to compare, rising."""
    from cli.tokens import parse_tokens, read_tokens

    ids = None if file is None else tuple(parse_tokens(read_tokens(file)))
    if text is None:
        asked = tuple(range(POSITIONS if ids is None else len(ids)))
    elif "," in text:
        asked = tuple(sorted(_numbers("--positions", text.rstrip(","), 0)))
    else:
        (count,) = _numbers("--positions", text, 1)
        asked = tuple(range(count))
    if ids is None:
        return asked[-1] + 1, asked
    if asked[-1] >= len(ids):
        message = f"--positions asks for position {asked[-1]}, the file has {len(ids)} tokens"
        raise _refused(message, "give fewer positions, or a longer file")
    return (ids[: asked[-1] + 1] if text is not None and "," not in text else ids), asked


def _numbers(option: str, text: str, least: int) -> tuple[int, ...]:
    words = _words(option, text)
    wrong = [word for word in words if not re.fullmatch(r"[0-9]{1,9}", word) or int(word) < least]
    if wrong:
        raise _refused(f"{option} has `{wrong[0]}`", f"give whole numbers from {least}, separated by commas")
    return tuple(dict.fromkeys(int(word) for word in words))


def _words(option: str, text: str) -> list[str]:
    words = [word.strip() for word in text.split(",")]
    if not all(words):
        raise _refused(f"{option} has an empty entry", "separate the entries by single commas")
    if len(set(words)) < len(words):
        raise _refused(f"{option} has the same entry twice", "give each entry once")
    return words


def _plan_lists(given: tuple[tuple[str, str | None], ...], rules: str) -> "Lists":
    """The lists of --plans, checked; without an entry where an option is not given."""
    words: list[tuple[str, list[str]]] = [(name, _words(name, text) if text else []) for name, text in given]
    return (*words, ("--rules", [*_rules(rules)]))


def _none_of(given: dict[str, bool], why: str, fix: str, more: str = "") -> None:
    """Refuses options that would have no effect."""
    for option in (name for name, is_given in given.items() if is_given):
        raise _refused(f"{option} {why}", f"{fix} {option} {more}".rstrip())


def _refused(message: str, fix: str) -> PlanError:
    return PlanError(Problem(message=message, fix=fix))
