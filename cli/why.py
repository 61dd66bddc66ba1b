"""`met circuit why`: which rule took a node, what each other rule has against it, and why its kernel point."""

from typing import TYPE_CHECKING, Annotated

import typer

from cli.answer import Option, Question, answer
from cli.circuits import Mode, model_of, parse_rows, stage_result
from cli.forms import form_of
from cli.models import ModelArgument
from cli.options import JsonOption, PolicyOption, RulesOption

if TYPE_CHECKING:
    from circuit.compiled import Goal
    from circuit.load.inputs import CheckpointTexts, Library
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
    span = None if rows is None else parse_rows(rows)
    modes: tuple[Mode, ...] = ("decode", "prefill") if mode is None else (mode,)
    choices = tuple(policy or ())
    opened = model_of(model)

    def made(library: "Library") -> str:
        from circuit.compiled import Goal
        from circuit.pipeline import explained
        from circuit.report.why_text import why_json, why_text
        from circuit_exec.checkpoint.texts import checkpoint_texts

        steps = tuple((each, span) for each in modes)
        goal = Goal(hardware_class=hardware_class, choices=choices, rules=rules, steps=steps)
        answers = explained(_tir(checkpoint_texts(opened), library, goal), library, goal, node)
        return (why_json if as_json else why_text)(answers)

    options: dict[str, Option] = {"node": node, "class": hardware_class, "modes": modes, "rows": rows}
    question = Question(command="why", models=(opened,), options=options | {"policy": choices, "rules": rules})
    print(answer(question, form_of(as_json, False), made), end="")


def _tir(texts: "CheckpointTexts", library: "Library", goal: "Goal") -> "Tir":
    from circuit.tir.ir import Bound

    bound = stage_result(texts, library, goal, "tir")
    assert isinstance(bound, Bound), bound
    return bound.tir
