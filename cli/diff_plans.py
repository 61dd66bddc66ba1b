"""`met circuit diff --plans`: two plan sets compared, without running anything."""

from pathlib import Path
from typing import TYPE_CHECKING

from circuit.errors import PlanError, Problem
from cli.answer import Option, Question, print_compared
from cli.circuits import model_of
from cli.forms import check_forms, form_of, print_schema, report_text
from cli.options import Rules
from cli.target import target, target_words

if TYPE_CHECKING:
    from circuit.comparisons import Asked
    from circuit.load.inputs import Library
    from circuit_exec.checkpoint.records import Checkpoint

OWN = "own"
"""The library that comes with met."""

Lists = tuple[tuple[str, list[str]], ...]
"""Options with their entries: one for both sides, or one for each."""


def diff_plans(models: list[str], given: Lists, as_json: bool, markdown: bool, schema: bool) -> None:
    """Prints the comparison; ends with 1 where the plans differ."""
    check_forms(as_json, markdown, schema)
    if schema:
        from circuit.report.plan_diff import PlanDiff

        print_schema(PlanDiff, "diff --plans")
        return
    sides = _sides(models, given)
    opened = tuple(model_of(model) for model, _ in sides)
    others = [_other_library(options) for _, options in sides]
    form = form_of(as_json, markdown)

    def made(own: "Library") -> tuple[str, bool]:
        from circuit.comparisons import plans_compared
        from circuit.report.plan_diff_text import plan_diff_sections

        one, other = (_asked(model, options, own) for model, (_, options) in zip(opened, sides, strict=True))
        found = plans_compared(one, other, *(each or own for each in others))
        return report_text(found, plan_diff_sections(found), form), found.equal

    options: dict[str, Option] = {}
    for place, ((_, chosen), other) in enumerate(zip(sides, others, strict=True)):
        own = target_words(chosen.get("--hardware"), chosen.get("--class"))
        own |= {"policy": chosen["--policy"], "rules": chosen["--rules"], "library": _key(other)}
        options |= {f"{name} {place}": value for name, value in own.items()}
    print_compared(Question(command="diff --plans", models=opened, options=options), form, made)


def _sides(models: list[str], given: Lists) -> "list[tuple[str, dict[str, str]]]":
    """Model and options of each side."""
    lists = (("MODEL", models), *given)
    for option, words in lists:
        if len(words) > 2:
            message = f"--plans compares two sides, and {option} has {len(words)} entries"
            raise PlanError(Problem(message=message, fix=f"give {option} one entry for both sides, or one for each"))
    if all(len(set(words)) <= 1 for _, words in lists):
        message = "both sides of --plans are the same"
        fix = "give two models, or A,B to one of --rules, --policy, --class, --hardware and --library"
        raise PlanError(Problem(message=message, fix=fix))
    return [
        (models[at % len(models)], {name: words[at % len(words)] for name, words in given if words}) for at in (0, 1)
    ]


def _asked(model: "Checkpoint", options: dict[str, str], own: "Library") -> "Asked":
    from circuit.compiled import Goal
    from circuit_exec.checkpoint.texts import checkpoint_texts

    name, _ = target(options.get("--hardware"), options.get("--class"), own)
    policy = options["--policy"]
    choices = () if policy == "default" else tuple(policy.split("+"))
    which: Rules = "reference" if options["--rules"] == "reference" else "all"  # what else there is was refused
    goal = Goal(hardware_class=name, choices=choices, rules=which, scheduled=False)
    return checkpoint_texts(model), goal


def _other_library(options: dict[str, str]) -> "Library | None":
    """The library of a folder; None for met's own."""
    from circuit_exec.library import library

    folder = options.get("--library", OWN)
    return None if folder == OWN else library(Path(folder))


def _key(library: "Library | None") -> str | None:
    """The key of everything that another library says."""
    from circuit_exec.cache import key_of
    from circuit_exec.program_key import library_parts

    return None if library is None else key_of(*library_parts(library))
