"""`met circuit why`: which rule took a node, what each other rule has against it, and why its kernel point."""

from typing import TYPE_CHECKING, Annotated

import typer

from cli.circuits import Mode, checkpoint_of, parse_rows, stage_result
from cli.models import ModelArgument
from cli.options import JsonOption, PolicyOption, RulesOption

if TYPE_CHECKING:
    from circuit.pipeline import Goal
    from circuit.tir.ir import Tir

EXAMPLES = """Examples:

\b
  met circuit why smollm2 l0.mlp.down
  met circuit why config.json l1.attn.q --mode prefill --rows 1-64
  met circuit why smollm2 l0.attn.k --rules reference --json
"""


def why(
    model: ModelArgument,
    node: Annotated[str, typer.Argument(metavar="NODE", help="A node, as `met circuit show --stage tir` names it.")],
    hardware_class: Annotated[str, typer.Option("--class", metavar="C", help="The hardware class.")] = "cpu",
    mode: Annotated[Mode | None, typer.Option("--mode", show_default="both", help="What the step does.")] = None,
    rows: Annotated[
        str | None, typer.Option("--rows", metavar="LO-HI", show_default="the class's", help="The step's rows.")
    ] = None,
    as_json: JsonOption = False,
    policy: PolicyOption = None,
    rules: RulesOption = "all",
) -> None:
    """Tell why a node is computed as it is.

    The rule that took it, why each other rule with its op did not, and which point of the family runs. One block for
    all plans with the same answer.
    """
    from circuit.pipeline import Goal, explained
    from circuit.report.why_text import why_json, why_text
    from circuit_exec.library import library

    span = None if rows is None else parse_rows(rows)
    modes: tuple[Mode, ...] = ("decode", "prefill") if mode is None else (mode,)
    goal = Goal(
        hardware_class=hardware_class,
        choices=tuple(policy or ()),
        rules=rules,
        steps=tuple((each, span) for each in modes),
    )
    answers = explained(_tir(model, goal), library(), goal, node)
    print((why_json if as_json else why_text)(answers), end="")


def _tir(model: str, goal: "Goal") -> "Tir":
    from circuit.tir.bind import Bound

    bound = stage_result(checkpoint_of(model), goal, "tir")
    assert isinstance(bound, Bound), bound
    return bound.tir
