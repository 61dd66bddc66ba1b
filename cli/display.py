"""`met circuit display`: a model as a card, a strip of its layers and a string diagram of each distinct one."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from circuit.errors import PlanError, Problem
from cli.circuits import Mode, checkpoint_of
from cli.forms import check_forms, print_schema
from cli.models import ModelArgument
from cli.options import JsonOption, PolicyOption, RulesOption
from cli.planner import MarkdownOption, ReservedOption, SchemaOption
from cli.target import ClassOption, DeviceOption, target
from cli.whole_file import write_whole

if TYPE_CHECKING:
    from circuit.report.display.record import Display, Part

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
    from circuit.pipeline import Goal, displayed
    from circuit.report.as_json import record_json
    from circuit.report.display.build import Shown, part_named
    from circuit.report.display.colour import PLAIN, TERMINAL
    from circuit.report.display.lines import ASCII, UNICODE
    from circuit.report.display.record import Display
    from circuit.report.display.text import display_markdown, display_text
    from circuit_exec.library import library

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
        print_schema(Display, "display")
        return
    name, device = target(hardware, hardware_class)
    if reserved and device is None:
        message = f"--reserved {reserved} is memory of a device, and none is given"
        raise PlanError(Problem(message=message, fix="give --hardware, or leave out --reserved"))
    goal = Goal(hardware_class=name, choices=tuple(policy or ()), rules=rules, scheduled=False)
    asked = Shown(mode=mode, rows=rows, reserved=reserved)
    found = displayed(checkpoint_of(model), library(), goal, device, _name(model), asked)
    only = None if layer is None else part_named(found, layer)
    glyphs = ASCII if ascii_only else UNICODE
    _write(found, only, html, svg)
    if as_json:
        print(record_json(found), end="")
    elif markdown:
        print(display_markdown(found, glyphs, only), end="")
    elif html is None and svg is None:
        colours = TERMINAL if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else PLAIN
        print(display_text(found, width, glyphs, only, colours), end="")


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


def _write(found: "Display", only: "Part | None", html: FileOption, svg: FileOption) -> None:
    """The files that are asked for."""
    from circuit_exec.display_page import page, picture

    if html is not None:
        text = page(found).encode("utf-8")
        write_whole(html, lambda file: file.write(text), "the page", "--html")
    if svg is not None:
        drawn = picture(found, only).encode("utf-8")
        write_whole(svg, lambda file: file.write(drawn), "the picture", "--svg")


def _name(model: str) -> str:
    """What the model is called: a fetched name, or the last part of a path; of a config.json, its folder's."""
    path = Path(model)
    if not path.exists():
        return model
    named = path.parent if path.name == "config.json" else path
    return named.name.removesuffix(".gguf") or "config.json"
