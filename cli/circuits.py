"""`met circuit`: what became of a config, and what a model compiles to. Needs no weights."""

import json
import re
from typing import TYPE_CHECKING, Annotated, Literal, assert_never

import typer

from circuit.errors import PlanError, Problem
from cli.answer import Question, answer
from cli.forms import form_of
from cli.models import ModelArgument, model_path
from cli.options import JsonOption, PolicyOption, RulesOption

if TYPE_CHECKING:
    from circuit.compiled import Goal, Stage
    from circuit.load.inputs import CheckpointTexts, Library
    from circuit.plan.ir import Plan
    from circuit_exec.checkpoint.records import Checkpoint

MAP_EXAMPLES = """Examples:

\b
  met circuit map smollm2
  met circuit map config.json --json
"""
SHOW_EXAMPLES = """Examples:

\b
  met circuit show smollm2
  met circuit show config.json --mode prefill --rows 1-512
  met circuit show config.json --stage tir
  met circuit show config.json --json --policy parity=portable
"""


StageName = Literal["bir", "tir", "groups", "plan", "source"]
Mode = Literal["decode", "prefill"]


def map_(model: ModelArgument, as_json: JsonOption = False) -> None:
    """Print what became of every key of a config: used, ignored because, or absent with its default."""

    def made(library: "Library") -> str:
        from circuit.load.config import map_config
        from circuit.load.ledger import ledger_json, ledger_text
        from circuit_exec.checkpoint.texts import checkpoint_texts

        _, ledger = map_config(checkpoint_texts(opened), library)
        return (ledger_json if as_json else ledger_text)(ledger)

    opened = model_of(model)
    question = Question(command="map", models=(opened,), options={})
    print(answer(question, form_of(as_json, False), made), end="")


def show(
    model: ModelArgument,
    hardware_class: Annotated[str, typer.Option("--class", metavar="C", help="The hardware class.")] = "cpu",
    mode: Annotated[
        Mode | None, typer.Option("--mode", show_default="decode; both for source", help="What the step does.")
    ] = None,
    rows: Annotated[
        str | None, typer.Option("--rows", metavar="LO-HI", show_default="the class's", help="The step's rows.")
    ] = None,
    stage: Annotated[StageName, typer.Option("--stage", help="The stage to print.")] = "plan",
    expand: Annotated[
        bool, typer.Option("--expand", help="Print each launch; layers that are the same unfolded.")
    ] = False,
    as_json: JsonOption = False,
    policy: PolicyOption = None,
    rules: RulesOption = "all",
) -> None:
    """Print a stage of the compiler: circuit, ops, groups, the plan with its digest, or the C source."""
    _check_options(stage, expand, as_json)
    span = None if rows is None else parse_rows(rows)
    modes = [mode] if mode is not None else ["decode", "prefill"] if stage == "source" else ["decode"]
    choices = tuple(policy or ())
    opened = model_of(model)

    def made(library: "Library") -> str:
        from circuit.compiled import Goal
        from circuit_exec.checkpoint.texts import checkpoint_texts

        steps = tuple((each, span) for each in modes)
        goal = Goal(hardware_class=hardware_class, choices=choices, rules=rules, steps=steps)
        return _stage_text(checkpoint_texts(opened), library, goal, stage, expand, as_json)

    question = Question(
        command="show",
        models=(opened,),
        options={
            "class": hardware_class,
            "modes": tuple(modes),
            "rows": rows,
            "stage": stage,
            "expand": expand,
            "policy": choices,
            "rules": rules,
        },
    )
    print(answer(question, form_of(as_json, False), made), end="")


def _stage_text(
    texts: "CheckpointTexts", library: "Library", goal: "Goal", stage: StageName, expand: bool, as_json: bool
) -> str:
    match stage:
        case "plan" if as_json:
            return _plans_json(_plans(texts, library, goal))
        case "plan":
            from circuit.plan.text import plan_text, unfolded_text

            return "\n".join(map(unfolded_text if expand else plan_text, _plans(texts, library, goal)))
        case "source":
            from circuit.emit.program import emit_program
            from circuit.emit.sources import program_text

            return program_text(emit_program(_plans(texts, library, goal)))
        case "bir" | "tir" | "groups":
            return _text(stage_result(texts, library, goal, stage))
        case _:
            assert_never(stage)


def _check_options(stage: StageName, expand: bool, as_json: bool) -> None:
    """Refuses what would have no effect."""
    for option, given in (("--expand", expand), ("--json", as_json)):
        if given and stage != "plan":
            message = f"{option} is for the plan, not for --stage {stage}"
            raise PlanError(Problem(message=message, fix=f"leave out {option} or --stage"))
    if expand and as_json:
        raise PlanError(Problem(message="--json prints every launch already", fix="leave out --expand"))


def parse_rows(text: str) -> tuple[int, int]:
    """LO-HI, or one number for both."""
    found = re.fullmatch(r"([1-9][0-9]{0,6})(?:-([1-9][0-9]{0,6}))?", text)
    lo, hi = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
    if lo > hi:
        raise PlanError(Problem(message=f"--rows {text} is no range", fix="give LO-HI, as in --rows 1-64"))
    return lo, hi


def model_of(model: str) -> "Checkpoint":
    """MODEL, opened."""
    from circuit_exec.cache import user_cache
    from circuit_exec.checkpoint.open import opened

    return opened(model_path(model), user_cache())


def checkpoint_of(model: str) -> "CheckpointTexts":
    """What the compiler reads of MODEL."""
    from circuit_exec.checkpoint.texts import checkpoint_texts

    return checkpoint_texts(model_of(model))


def stage_result(texts: "CheckpointTexts", library: "Library", goal: "Goal", name: str) -> "Stage":
    """Runs the stages up to the one that is asked for."""
    from circuit.pipeline import stages

    return next(result for stage, result in stages(texts, library, goal) if stage == name)


def _plans(texts: "CheckpointTexts", library: "Library", goal: "Goal") -> "tuple[Plan, ...]":
    from circuit.compiled import PlanSet

    result = stage_result(texts, library, goal, "plan")
    assert isinstance(result, PlanSet), result
    return result.plans


def _text(result: "Stage") -> str:
    from circuit.compiled import GroupedSet
    from circuit.front.bir import Bir
    from circuit.front.text import bir_text
    from circuit.lower.text import groups_text
    from circuit.tir.ir import Bound
    from circuit.tir.text import tir_text

    match result:
        case Bir():
            return bir_text(result)
        case Bound():
            return tir_text(result.tir)
        case GroupedSet():
            parts = [(f"{each.mode}, rows {each.rows[0]}-{each.rows[1]}", each.groups) for each in result.sets]
            return "\n".join(f"{head}\n{groups_text(result.tir, groups)}" for head, groups in parts)
        case _:
            raise AssertionError(f"{result} has no text of its own")


def _plans_json(plans: "tuple[Plan, ...]") -> str:
    """The plan as one object; where the rows are split into several plans, an object with all of them."""
    from circuit.plan.as_json import plan_json, plan_object

    if len(plans) == 1:
        return plan_json(plans[0])
    return json.dumps({"plans": [plan_object(plan) for plan in plans]}, indent=1) + "\n"
