"""`met circuit display`: a model as a card, a strip of its layers and a string diagram of each distinct one."""

import os
import sys
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from circuit.errors import PlanError, Problem
from cli.answer import Option, Question, answer
from cli.circuits import Mode, model_of
from cli.forms import check_forms, form_of, print_schema
from cli.models import ModelArgument
from cli.options import JsonOption, PolicyOption, RulesOption
from cli.planner import MarkdownOption, ReservedOption, SchemaOption
from cli.target import ClassOption, DeviceOption, target, target_words
from cli.whole_file import write_whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from circuit.load.inputs import Library
    from circuit.report.display.record import Display

EXAMPLES = """Examples:

\b
  met circuit display smollm2
  met circuit display config.json --hardware h200 --mode prefill --width 120
  met circuit display smollm2 --class avx2 --layer 3 --ascii
  met circuit display config.json --hardware h200 --html model.html --svg model.svg
"""
LEAST, WIDTH = 72, 80
"""The fewest columns that the text is laid out for, and those it has where nobody asks."""

FileOption = Path | None


def display(
    model: ModelArgument,
    hardware: DeviceOption = None,
    hardware_class: ClassOption = None,
    mode: Annotated[Mode, typer.Option("--mode", help="What the step does.")] = "decode",
    rows: Annotated[
        int | None,
        typer.Option(
            "--rows", metavar="N", min=1, show_default="1 in decode, at most 4096 in prefill", help="Its rows."
        ),
    ] = None,
    layer: Annotated[
        str | None,
        typer.Option("--layer", metavar="N|NAME", show_default="every distinct one", help="One layer's diagram alone."),
    ] = None,
    width: Annotated[int, typer.Option("--width", metavar="N", min=LEAST, help="Columns of the text.")] = WIDTH,
    ascii_only: Annotated[bool, typer.Option("--ascii", help="Draw with ASCII alone.")] = False,
    html: Annotated[
        FileOption, typer.Option("--html", metavar="FILE", help="Write it as one page for the browser.")
    ] = None,
    svg: Annotated[FileOption, typer.Option("--svg", metavar="FILE", help="Write the diagrams as SVG.")] = None,
    as_json: JsonOption = False,
    markdown: MarkdownOption = False,
    schema: SchemaOption = False,
    reserved: ReservedOption = 0,
    policy: PolicyOption = None,
    rules: RulesOption = "all",
) -> None:
    """Show a model: card, strip of layers, a string diagram of each distinct one, totals of a step. Needs no weights.

    On a device it has also times, the roofline and the device's memory.
    With --html or --svg, what is written takes the place of the text.
    """
    check_forms(as_json, markdown, schema)
    _check(
        {
            "--json": as_json,
            "--markdown": markdown,
            "--schema": schema,
            "--html": html is not None,
            "--svg": svg is not None,
        },
        {"--ascii": ascii_only, "--width": width != WIDTH, "--layer": layer is not None},
    )
    if schema:
        from circuit.report.display.record import Display

        print_schema(Display, "display")
        return
    if reserved and hardware is None:
        message = f"--reserved {reserved} is memory of a device, and none is given"
        raise PlanError(Problem(message=message, fix="give --hardware, or leave out --reserved"))
    choices = tuple(policy or ())
    opened = model_of(model)

    @cache
    def found(library: "Library") -> "Display":
        from circuit.compiled import Goal
        from circuit.report.display.build import Shown
        from circuit.reports import displayed
        from circuit_exec.checkpoint.texts import checkpoint_texts

        name, device = target(hardware, hardware_class, library)
        goal = Goal(hardware_class=name, choices=choices, rules=rules, scheduled=False)
        asked = Shown(mode=mode, rows=rows, reserved=reserved)
        return displayed(checkpoint_texts(opened), library, goal, device, _name(model), asked)

    options: dict[str, Option] = {"name": _name(model), "mode": mode, "rows": rows, "layer": layer, "width": width}
    options |= {"ascii": ascii_only, "reserved": reserved, "policy": choices, "rules": rules}
    question = Question(command="display", models=(opened,), options=options | target_words(hardware, hardware_class))
    for kind, file, what in (("html", html, "the page"), ("svg", svg, "the picture")):
        if file is not None:
            _write(file, answer(question, kind, partial(_drawn, found, kind, layer)), what, kind)
    if as_json or markdown or (html is None and svg is None):
        form = form_of(as_json, markdown)
        if form == "text" and sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
            form = "colours"
        print(answer(question, form, lambda library: _text(found(library), form, width, ascii_only, layer)), end="")


def _text(found: "Display", form: str, width: int, ascii_only: bool, layer: str | None) -> str:
    from circuit.report.as_json import record_json
    from circuit.report.display.build import part_named
    from circuit.report.display.colour import PLAIN, TERMINAL
    from circuit.report.display.lines import ASCII, UNICODE
    from circuit.report.display.text import display_markdown, display_text

    only = None if layer is None else part_named(found, layer)
    glyphs = ASCII if ascii_only else UNICODE
    if form == "json":
        return record_json(found)
    if form == "markdown":
        return display_markdown(found, glyphs, only)
    return display_text(found, width, glyphs, only, TERMINAL if form == "colours" else PLAIN)


def _drawn(shown: "Callable[[Library], Display]", kind: str, layer: str | None, library: "Library") -> str:
    """The whole of a file that is asked for."""
    from circuit.report.display.build import part_named
    from circuit_exec.display_page import page, picture

    found = shown(library)
    only = None if layer is None else part_named(found, layer)
    return page(found) if kind == "html" else picture(found, only)


def _write(file: Path, text: str, what: str, kind: str) -> None:
    data = text.encode("utf-8")
    write_whole(file, lambda into: into.write(data), what, f"--{kind}")


_WITHOUT = {
    "--json": ("--ascii", "--width", "--layer"),
    "--schema": ("--ascii", "--width", "--layer"),
    "--markdown": ("--width",),
    "--html": ("--ascii", "--width", "--layer"),
    "--svg": ("--ascii", "--width"),
}
"""What changes nothing of a form."""


def _check(forms: dict[str, bool], options: dict[str, bool]) -> None:
    """Refuses what would have no effect: an option that the form which is given does not have."""
    given = [form for form, has in forms.items() if has]
    printed = [form for form in given if form in ("--json", "--markdown", "--schema")]
    for form in printed or given:
        for option in _WITHOUT[form]:
            if options[option]:
                raise PlanError(Problem(message=f"{option} changes nothing of {form}", fix="leave out one of them"))


def _name(model: str) -> str:
    """What the model is called: a fetched name, or the last part of a path; of a config.json, its folder's."""
    path = Path(model)
    if not path.exists():
        return model
    named = path.parent if path.name == "config.json" else path
    return named.name.removesuffix(".gguf") or "config.json"
