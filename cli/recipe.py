"""`met recipe`: a checkpoint, a policy, resources and what comes out, written, checked, shown and verified."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from circuit.errors import LoadError, PlanError, Problem
from cli import recipe_write
from cli.options import JsonOption

if TYPE_CHECKING:
    from circuit.load.recipe import Recipe
    from circuit.report.planner import Planner
    from circuit_exec.checkpoint.records import Checkpoint
    from circuit_exec.model import Model
    from circuit_exec.recipe_run import Check

app = typer.Typer(
    help="Write, check, show and verify recipes: a checkpoint, its policy, its resources, and what comes out.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.command("write", epilog=recipe_write.EXAMPLES)(recipe_write.write)

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


@app.command("check", epilog=CHECK_EXAMPLES)
def check(file: FileArgument) -> None:
    """Refuse a recipe that states too little or too much, that does not fit, or whose checkpoint is another one."""
    recipe = opened(file)
    checkpoint = checked_checkpoint(recipe)
    report = assessed_recipe(recipe, checkpoint)
    print(f"{file}: {report.model_type} on {report.device.id} is well stated and fits")


@app.command("show", epilog=SHOW_EXAMPLES)
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
    plans = tuple((name, plan_digests(checkpoint, _choices(recipe), name)) for name in classes)
    found = shown(recipe, report, plans)
    print(record_json(found) if as_json else sections_text(shown_sections(found)), end="")


@app.command("verify", epilog=VERIFY_EXAMPLES)
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
    checkpoint = _checkpoint(recipe)
    name = class_to_run(library(), this_host(), hardware_class).name
    n_threads = recipe.resources.threads if threads is None else threads
    n_threads = available_threads() if n_threads is None else n_threads  # a recipe for a GPU states none
    print(f"{file} on class {name}, {n_threads} thread{'s' if n_threads != 1 else ''}")
    for each in verified(recipe, checkpoint, user_cache(), name, lambda: _model(recipe, n_threads, name)):
        print(_line(each), flush=True)
        if each.differs:
            raise typer.Exit(1)
    print("verified" if recipe.expect.outputs else "verified: digests alone, no output is recorded")


def _line(check: "Check") -> str:
    if check.differs:
        return f"  differs: {check.what}: {check.differs}"
    return f"  {'equal' if check.compared else 'not recorded'}: {check.what}: {check.found}"


def opened(file: Path) -> "Recipe":
    """The recipe of a file, with all that is wrong in its text."""
    from circuit.load.recipe import load_recipe
    from circuit.text import Source
    from circuit_exec.library import library

    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = (getattr(error, "strerror", None) or "it is not UTF-8 text").lower()
        message = f"the recipe cannot be read: {reason}"
        raise LoadError(Problem(message=message, fix="give a recipe, as `met recipe write` writes it")) from None
    return load_recipe(Source(path=str(file), text=text), library())


def source_path(recipe: "Recipe") -> str:
    """Where the recipe's checkpoint is: the name of a fetched model, or a path from the recipe's folder."""
    from circuit.load.recipe import problem_of
    from cli.models import model_path

    source = recipe.checkpoint.source
    beside = Path(recipe.document.source.path).parent / source
    if beside.exists():
        return str(beside)
    try:
        return model_path(source)
    except LoadError as error:
        (problem,) = error.problems
        raise LoadError(problem_of(recipe, ("checkpoint", "source"), problem.message, problem.fix)) from None


def checked_checkpoint(recipe: "Recipe") -> "Checkpoint":
    """The recipe's checkpoint, whose files have the hashes that the recipe states."""
    from circuit_exec.cache import user_cache
    from circuit_exec.recipe_run import file_hashes, other_files

    checkpoint = _checkpoint(recipe)
    others = tuple(other_files(recipe, file_hashes(checkpoint, user_cache()), checkpoint.path))
    if others:
        raise LoadError(others)
    return checkpoint


def assessed_recipe(recipe: "Recipe", checkpoint: "Checkpoint") -> "Planner":
    """The planner's report of the recipe's model on its device; resources that do not fit are refused."""
    from circuit.load.hardware import load_hardware
    from circuit.load.recipe import problem_of
    from circuit.pipeline import Goal, assessed
    from circuit.report.recipe_fit import unfit
    from circuit_exec.checkpoint.texts import checkpoint_texts
    from circuit_exec.library import library
    from cli.planner import device_of

    try:
        device = device_of(recipe.resources.hardware)
    except PlanError as error:
        (problem,) = error.problems
        at = ("resources", "hardware")
        raise LoadError(problem_of(recipe, at, problem.message, problem.fix)) from None
    texts, files = checkpoint_texts(checkpoint), library()
    goal = Goal(hardware_class=device.hardware_class, choices=_choices(recipe), scheduled=False)
    report = assessed(texts, files, goal, device, recipe.resources.reserved_bytes)
    problems = tuple(unfit(recipe, report.memory, device, load_hardware(files, device.hardware_class)))
    if problems:
        raise LoadError(problems)
    return report


def _choices(recipe: "Recipe") -> tuple[str, ...]:
    from circuit.load.recipe import choices

    return choices(recipe)


def _checkpoint(recipe: "Recipe") -> "Checkpoint":
    from circuit_exec.cache import user_cache
    from circuit_exec.checkpoint.exact import with_exact_bf16
    from circuit_exec.checkpoint.open import open_checkpoint

    return with_exact_bf16(open_checkpoint(source_path(recipe)), user_cache())


def _model(recipe: "Recipe", n_threads: int, hardware_class: str) -> "Model":
    from circuit_exec.cache import user_cache
    from circuit_exec.kv import pages_for
    from circuit_exec.model import load_model
    from cli.progress import progress_bar

    with progress_bar() as progress:
        return load_model(
            source_path(recipe),
            user_cache(),
            n_threads,
            "all",
            _choices(recipe),
            progress,
            hardware_class=hardware_class,
            n_pages=pages_for(recipe.resources.context),
        )


def relative(model: str, folder: Path) -> str:
    """A checkpoint's path as a recipe in that folder names it; a fetched name stays."""
    if not Path(model).exists():
        return model
    return model if Path(model).is_absolute() else Path(os.path.relpath(model, folder)).as_posix()
