"""A recipe's file as a command has it: read, its checkpoint opened, its resources compared with its device."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from circuit.errors import LoadError, PlanError, Problem

if TYPE_CHECKING:
    from circuit.load.recipe import Recipe
    from circuit.report.planner import Planner
    from circuit_exec.checkpoint.records import Checkpoint
    from circuit_exec.model import Model


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

    checkpoint = open_checkpoint_of(recipe)
    others = tuple(other_files(recipe, file_hashes(checkpoint, user_cache()), checkpoint.path))
    if others:
        raise LoadError(others)
    return checkpoint


def assessed_recipe(recipe: "Recipe", checkpoint: "Checkpoint") -> "Planner":
    """The planner's report of the recipe's model on its device; resources that do not fit are refused."""
    from circuit.compiled import Goal
    from circuit.load.hardware import load_hardware
    from circuit.load.recipe import problem_of
    from circuit.report.recipe_fit import unfit
    from circuit.reports import assessed
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
    goal = Goal(hardware_class=device.hardware_class, choices=choices_of(recipe), scheduled=False)
    report = assessed(texts, files, goal, device, recipe.resources.reserved_bytes)
    problems = tuple(unfit(recipe, report.memory, device, load_hardware(files, device.hardware_class)))
    if problems:
        raise LoadError(problems)
    return report


def choices_of(recipe: "Recipe") -> tuple[str, ...]:
    from circuit.load.recipe import choices

    return choices(recipe)


def open_checkpoint_of(recipe: "Recipe") -> "Checkpoint":
    from circuit_exec.cache import user_cache
    from circuit_exec.checkpoint.open import opened

    return opened(source_path(recipe), user_cache())


def open_model(recipe: "Recipe", n_threads: int, hardware_class: str) -> "Model":
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
            choices_of(recipe),
            progress,
            hardware_class=hardware_class,
            n_pages=pages_for(recipe.resources.context),
        )


def relative(model: str, folder: Path) -> str:
    """A checkpoint's path as a recipe in that folder names it; a fetched name stays."""
    if not Path(model).exists():
        return model
    return model if Path(model).is_absolute() else Path(os.path.relpath(model, folder)).as_posix()
