"""Every command by its words, in the order of the help, and where it is: a command's module is imported to run it."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import typer

from cli.command import Command

GROUPS = {
    "circuit": "See what a model compiles to; needs no weights.",
    "recipe": "Write, check, show and verify recipes: a checkpoint, its policy, its resources, and what comes out.",
}
"""Commands of two words begin with one of these."""

_FUNCTION = {"map": "map_"}
_FILE = {
    ("run",): "generate",
    ("circuit", "map"): "circuits",
    ("circuit", "show"): "circuits",
    ("circuit", "lint"): "prove",
    ("circuit", "devices"): "planner",
    ("recipe", "write"): "recipe_write",
    ("recipe", "check"): "recipe",
    ("recipe", "show"): "recipe",
    ("recipe", "verify"): "recipe",
}
"""The module in cli/ of a command whose module is not called as the command is."""
_REPORTS = ("plan", "memory", "precision", "audit")
"""Commands of `cli/planner.py` that are made from a record, and not each a function."""

NAMES: tuple[tuple[str, ...], ...] = (
    *((word,) for word in "fetch run chat serve logits bench record calibrate emit".split()),
    *(("circuit", word) for word in "prove lint map show diff why display devices".split()),
    *(("circuit", word) for word in (*_REPORTS, *"lkb trace venn".split())),
    *(("recipe", word) for word in "write check show verify".split()),
)


def add_command(app: typer.Typer, name: tuple[str, ...]) -> None:
    """Adds a command to the app or group that it is in."""
    function, examples = _found(name)
    app.command(name[-1], epilog=examples, cls=Command)(function)


def _found(name: tuple[str, ...]) -> tuple[Callable[..., Any], str]:
    """The function that runs, and the examples of its help: EXAMPLES, or MAP_EXAMPLES where a module has several."""
    word = name[-1]
    if name[0] == "circuit" and word in _REPORTS:
        from cli.planner import REPORTS, command_of

        report = next(report for report in REPORTS if report.name == word)
        return command_of(report), report.examples
    module = import_module(f"cli.{_FILE.get(name, word)}")
    examples = getattr(module, f"{word.upper()}_EXAMPLES", None) or module.EXAMPLES
    return getattr(module, _FUNCTION.get(word, word)), examples
