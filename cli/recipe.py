"""`met recipe`: a checkpoint, a policy, resources and what comes out, written, checked, shown and verified."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from circuit.errors import PlanError, Problem
from cli.options import JsonOption
from cli.recipe_opened import assessed_recipe, checked_checkpoint, choices_of, open_checkpoint_of, open_model, opened

if TYPE_CHECKING:
    from circuit_exec.recipe_run import Check

CHECK_EXAMPLES = """Examples:

\b
  met recipe check recipe.toml
"""
SHOW_EXAMPLES = """Examples:

\b
  met recipe show recipe.toml
  met recipe show recipe.toml --json
"""
VERIFY_EXAMPLES = """Examples:

\b
  met recipe verify recipe.toml
  met recipe verify recipe.toml --threads 1 --class cpu

Exit code 1: something differs from what is recorded; the first that does is printed last.
"""

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A recipe.")]


def check(file: FileArgument) -> None:
    """Refuse a recipe that states too little or too much, that does not fit, or whose checkpoint is another one."""
    recipe = opened(file)
    checkpoint = checked_checkpoint(recipe)
    report = assessed_recipe(recipe, checkpoint)
    print(f"{file}: {report.model_type} on {report.device.id} is well stated and fits")


def show(file: FileArgument, as_json: JsonOption = False) -> None:
    """Print every value with the line it comes from, and the digests that the recipe comes to here."""
    from circuit.report.as_json import record_json
    from circuit.report.recipe_show import shown, shown_sections
    from circuit.report.sections import sections_text
    from circuit_exec.recipe_run import plan_digests

    recipe = opened(file)
    checkpoint = checked_checkpoint(recipe)
    report = assessed_recipe(recipe, checkpoint)
    classes = dict.fromkeys(name for name, _, _ in (recipe.expect.plans if recipe.expect else ()))
    if report.language == "c":
        classes[report.device.hardware_class] = None
    plans = tuple((name, plan_digests(checkpoint, choices_of(recipe), name)) for name in classes)
    found = shown(recipe, report, plans)
    print(record_json(found) if as_json else sections_text(shown_sections(found)), end="")


def verify(
    file: FileArgument,
    threads: Annotated[
        int | None, typer.Option("--threads", metavar="N", show_default="the recipe's", help="No byte depends on it.")
    ] = None,
    hardware_class: Annotated[
        str | None, typer.Option("--class", metavar="C", show_default="this host's", help="Where the prompts run.")
    ] = None,
) -> None:
    """Compare the weights, the digests and the output of the recorded prompts with what the recipe records."""
    from circuit_exec.build import available_threads
    from circuit_exec.cache import user_cache
    from circuit_exec.host import class_to_run, this_host
    from circuit_exec.library import library
    from circuit_exec.recipe_run import verified

    recipe = opened(file)
    if recipe.expect is None:
        message = "the recipe records nothing that can be verified"
        raise PlanError(Problem(message=message, fix="write it with `met recipe write`, which records", file=str(file)))
    checkpoint = open_checkpoint_of(recipe)
    name = class_to_run(library(), this_host(), hardware_class).name
    n_threads = recipe.resources.threads if threads is None else threads
    n_threads = available_threads() if n_threads is None else n_threads  # a recipe for a GPU states none
    print(f"{file} on class {name}, {n_threads} thread{'s' if n_threads != 1 else ''}")
    for each in verified(recipe, checkpoint, user_cache(), name, lambda: open_model(recipe, n_threads, name)):
        print(_line(each), flush=True)
        if each.differs:
            raise typer.Exit(1)
    print("verified" if recipe.expect.outputs else "verified: digests alone, no output is recorded")


def _line(check: "Check") -> str:
    if check.differs:
        return f"  differs: {check.what}: {check.differs}"
    return f"  {'equal' if check.compared else 'not recorded'}: {check.what}: {check.found}"
