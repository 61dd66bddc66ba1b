"""`met circuit diff --plans`: two plan sets compared, without running anything."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from circuit.errors import PlanError, Problem
from cli.circuits import checkpoint_of
from cli.forms import check_forms, form_of, print_schema, report_text
from cli.options import Rules
from cli.target import target

if TYPE_CHECKING:
    from circuit.comparisons import Asked
    from circuit.load.inputs import Library

OWN = "own"
"""The library that comes with met."""

Lists = tuple[tuple[str, list[str]], ...]
"""Options with their entries: one for both sides, or one for each."""


def diff_plans(models: list[str], given: Lists, as_json: bool, markdown: bool, schema: bool) -> None:
    """Prints the comparison; ends with 1 where the plans differ."""
    from circuit.comparisons import plans_compared
    from circuit.report.plan_diff import PlanDiff
    from circuit.report.plan_diff_text import plan_diff_sections

    check_forms(as_json, markdown, schema)
    if schema:
        print_schema(PlanDiff, "diff --plans")
        return
    sides = _sides(models, given)
    one, other = (_asked(*side) for side in sides)
    found = plans_compared(one, other, *(_library(options) for _, options in sides))
    print(report_text(found, plan_diff_sections(found), form_of(as_json, markdown)), end="")
    if not found.equal:
        raise typer.Exit(1)


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


def _asked(model: str, options: dict[str, str]) -> "Asked":
    from circuit.pipeline import Goal

    name, _ = target(options.get("--hardware"), options.get("--class"))
    policy = options["--policy"]
    choices = () if policy == "default" else tuple(policy.split("+"))
    which: Rules = "reference" if options["--rules"] == "reference" else "all"  # what else there is was refused
    goal = Goal(hardware_class=name, choices=choices, rules=which, scheduled=False)
    return checkpoint_of(model), goal


def _library(options: dict[str, str]) -> "Library":
    from circuit_exec.library import library

    folder = options.get("--library", OWN)
    return library(None if folder == OWN else Path(folder))
