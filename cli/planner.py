"""`met circuit devices`, `plan`, `memory`: what a model takes on a device, and how fast it can be there."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from circuit.errors import PlanError, Problem
from cli.circuits import checkpoint_of
from cli.models import ModelArgument
from cli.options import JsonOption, PolicyOption, RulesOption

if TYPE_CHECKING:
    from circuit.load.devices import Device
    from circuit.report.planner import Planner
    from circuit.report.sections import Section

DEVICES_EXAMPLES = """Examples:

\b
  met circuit devices
  met circuit devices h200
"""
PLAN_EXAMPLES = """Examples:

\b
  met circuit plan config.json --hardware h200
  met circuit plan smollm2 --hardware epyc_9654 --markdown
  met circuit plan config.json --hardware rtx_4090 --policy kv=bf16 --json
"""
MEMORY_EXAMPLES = """Examples:

\b
  met circuit memory config.json --hardware l4
  met circuit memory smollm2 --hardware m2_max --json
"""

HardwareOption = Annotated[
    str,
    typer.Option(
        "--hardware", metavar="D", help="A device, as `met circuit devices` lists them; `this`: the machine at hand."
    ),
]
MarkdownOption = Annotated[bool, typer.Option("--markdown", help="Print Markdown.")]
SchemaOption = Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of --json, and nothing else.")]
ReservedOption = Annotated[
    int, typer.Option("--reserved", metavar="BYTES", min=0, help="Memory that others hold: a driver, a desktop.")
]


def devices(
    device: Annotated[str | None, typer.Argument(metavar="[DEVICE]", help="One device, with its sources.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List the devices that plans can be made for, with their figures; for one device, where each comes from."""
    from circuit.load.devices import device_named, load_devices
    from circuit.report.as_json import record_json
    from circuit.report.devices_text import device_sections, devices_sections
    from circuit.report.sections import sections_text
    from circuit_exec.library import library

    known = load_devices(library())
    chosen = known if device is None else (device_named(known, device),)
    if as_json:
        print("[" + ",".join(record_json(each).rstrip() for each in chosen) + "]")
    else:
        sections = devices_sections(known) if device is None else device_sections(chosen[0])
        print(sections_text(sections), end="")


def plan(
    model: ModelArgument,
    hardware: HardwareOption,
    reserved: ReservedOption = 0,
    as_json: JsonOption = False,
    markdown: MarkdownOption = False,
    schema: SchemaOption = False,
    policy: PolicyOption = None,
    rules: RulesOption = "all",
) -> None:
    """Plan a model for a device: weights, states, roofline, gaps, and what fits. Needs no weights and no device."""
    from circuit.report.planner_text import planner_sections

    _report(model, hardware, reserved, tuple(policy or ()), rules, planner_sections, as_json, markdown, schema)


def memory(
    model: ModelArgument,
    hardware: HardwareOption,
    reserved: ReservedOption = 0,
    as_json: JsonOption = False,
    markdown: MarkdownOption = False,
    schema: SchemaOption = False,
    policy: PolicyOption = None,
    rules: RulesOption = "all",
) -> None:
    """Print what a model holds in memory, and how many sequences of which length fit a device."""
    from circuit.report.planner_text import fit_sections, memory_sections

    def sections(report: "Planner") -> "tuple[Section, ...]":
        return (*memory_sections(report.memory), *fit_sections(report.memory, report.fit))

    _report(model, hardware, reserved, tuple(policy or ()), rules, sections, as_json, markdown, schema)


def _report(
    model: str,
    hardware: str,
    reserved: int,
    policy: tuple[str, ...],
    rules: str,
    sections: "Callable[[Planner], tuple[Section, ...]]",
    as_json: bool,
    markdown: bool,
    schema: bool,
) -> None:
    from circuit.report.as_json import record_json, record_schema
    from circuit.report.planner import Planner
    from circuit.report.sections import sections_markdown, sections_text

    if as_json + markdown + schema > 1:
        message = "--json, --markdown and --schema are three forms of one report"
        raise PlanError(Problem(message=message, fix="give one of them"))
    if schema:
        print(record_schema(Planner, "met circuit plan"), end="")
        return
    report = _planner(model, hardware, reserved, policy, rules)
    if as_json:
        print(record_json(report), end="")
    else:
        print((sections_markdown if markdown else sections_text)(sections(report)), end="")


def _planner(model: str, name: str, reserved: int, policy: tuple[str, ...], rules: str) -> "Planner":
    from circuit.pipeline import Goal, assessed
    from circuit_exec.library import library

    device = device_of(name)
    goal = Goal(
        hardware_class=device.hardware_class,
        choices=policy,
        rules="reference" if rules == "reference" else "all",
        scheduled=False,
    )
    return assessed(checkpoint_of(model), library(), goal, device, reserved)


def device_of(name: str) -> "Device":
    """The device that --hardware names; `this` is the machine at hand, as `met calibrate` found it."""
    from circuit.load.devices import device_named, load_devices
    from circuit_exec.library import library

    if name != "this":
        return device_named(load_devices(library()), name)
    from circuit_exec.calibrate import own_device, own_device_path

    return device_named(load_devices(library(), own_device(own_device_path())), name)
