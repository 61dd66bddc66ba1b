"""`met circuit devices`, `plan`, `memory`, `precision`, `audit`: a model on a device, before there is either."""

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct

from circuit.errors import Problem
from cli.answer import Option, Question, answer, print_answer
from cli.circuits import model_of
from cli.forms import check_forms, form_of, print_schema, report_text
from cli.models import ModelArgument
from cli.options import JsonOption, PolicyOption, RulesOption

if TYPE_CHECKING:
    from circuit.compiled import Goal
    from circuit.load.devices import Device
    from circuit.load.inputs import CheckpointTexts, Library
    from circuit.report.audit import Audit
    from circuit.report.fit import AskedFit
    from circuit.report.planner import Planner
    from circuit.report.precision import Precision
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
  met circuit memory config.json --hardware l4 --context 32768 --sequences 4
  met circuit memory smollm2 --hardware m2_max --json
"""

PRECISION_EXAMPLES = """Examples:

\b
  met circuit precision config.json --hardware h200
  met circuit precision smollm2 --hardware cloud_zen4_2 --policy activations=int8/g32
"""
AUDIT_EXAMPLES = """Examples:

\b
  met circuit audit config.json --hardware l4
  met circuit audit config.json --hardware h200 --json
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
ContextOption = Annotated[
    int | None,
    typer.Option(
        "--context",
        metavar="N",
        min=1,
        show_default="not checked",
        help="Refuse if N positions do not fit; a plan tells decode's speed there.",
    ),
]
SequencesOption = Annotated[
    int | None,
    typer.Option(
        "--sequences", metavar="N", min=1, show_default="not checked", help="Refuse if N sequences at once do not fit."
    ),
]


def devices(
    device: Annotated[str | None, typer.Argument(metavar="[DEVICE]", help="One device, with its sources.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List the devices that plans can be made for, with their figures; for one device, where each comes from."""
    question = Question(command="devices", models=(), options={"device": device})
    print(answer(question, form_of(as_json, False), lambda library: _devices_text(library, device, as_json)), end="")


def _devices_text(library: "Library", name: str | None, as_json: bool) -> str:
    from circuit.load.devices import device_named, load_devices
    from circuit.report.as_json import record_json
    from circuit.report.devices_text import device_sections, devices_sections
    from circuit.report.sections import sections_text

    known = load_devices(library)
    chosen = known if name is None else (device_named(known, name),)
    if as_json:
        return "[" + ",".join(record_json(each).rstrip() for each in chosen) + "]\n"
    return sections_text(devices_sections(known) if name is None else device_sections(chosen[0]))


class _Asked(Struct, frozen=True, kw_only=True):
    """What a report is asked about."""

    texts: "CheckpointTexts"
    library: "Library"
    reserved: int
    asked: "AskedFit | None"
    goal: "Goal"
    device: "Device"


class Report(Struct, frozen=True, kw_only=True):
    """One report of a model on a device. `sized`: whether it says what fits, so that its command has those options.

    `record` gives the record's type, `answer` the record and its sections; `refused`: what of the record is refused by
    policy, after it was printed. All of them import what they need.
    """

    name: str
    help: str
    examples: str
    sized: bool
    record: Callable[[], type]
    answer: "Callable[[_Asked], tuple[object, tuple[Section, ...], tuple[Problem, ...]]]"


_OF_SIZE = ("reserved", "context", "sequences")
"""Options of reports that depend on what fits."""


def command_of(report: Report) -> Callable[..., None]:
    """The command that prints a report: options and forms are those of all of them."""

    def command(
        model: ModelArgument,
        hardware: HardwareOption,
        reserved: ReservedOption = 0,
        context: ContextOption = None,
        sequences: SequencesOption = None,
        as_json: JsonOption = False,
        markdown: MarkdownOption = False,
        schema: SchemaOption = False,
        policy: PolicyOption = None,
        rules: RulesOption = "all",
    ) -> None:
        check_forms(as_json, markdown, schema)
        if schema:
            print_schema(report.record(), report.name)
            return
        form, choices = form_of(as_json, markdown), tuple(policy or ())
        opened = model_of(model)

        def made(library: "Library") -> tuple[str, tuple[Problem, ...]]:
            from circuit.compiled import Goal
            from circuit.report.fit import AskedFit
            from circuit_exec.checkpoint.texts import checkpoint_texts

            device, texts = device_of(hardware, library), checkpoint_texts(opened)
            goal = Goal(hardware_class=device.hardware_class, choices=choices, rules=rules, scheduled=False)
            asked = None if context is None and sequences is None else AskedFit(sequences=sequences, context=context)
            question = _Asked(texts=texts, library=library, reserved=reserved, asked=asked, goal=goal, device=device)
            record, sections, refused = report.answer(question)
            return report_text(record, sections, form), refused

        options: dict[str, Option] = {"hardware": hardware, "reserved": reserved, "context": context}
        options |= {"sequences": sequences, "policy": choices, "rules": rules, **device_words(hardware)}
        print_answer(Question(command=report.name, models=(opened,), options=options), form, made)

    signature = inspect.signature(command)
    kept = [each for each in signature.parameters.values() if report.sized or each.name not in _OF_SIZE]
    command.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
    command.__doc__ = report.help
    return command


def _planner(question: _Asked) -> "Planner":
    from circuit.reports import assessed

    return assessed(question.texts, question.library, question.goal, question.device, question.reserved, question.asked)


def _planner_record() -> type:
    from circuit.report.planner import Planner

    return Planner


def _plan(question: _Asked) -> "tuple[Planner, tuple[Section, ...], tuple[Problem, ...]]":
    from circuit.report.planner_text import planner_sections

    found = _planner(question)
    return found, planner_sections(found), ()


def _memory(question: _Asked) -> "tuple[Planner, tuple[Section, ...], tuple[Problem, ...]]":
    from circuit.report.planner_text import fit_sections, memory_sections

    found = _planner(question)
    return found, (*memory_sections(found.memory), *fit_sections(found.memory, found.fit)), ()


def _precision_record() -> type:
    from circuit.report.precision import Precision

    return Precision


def _precision(question: _Asked) -> "tuple[Precision, tuple[Section, ...], tuple[Problem, ...]]":
    from circuit.report.precision_text import precision_sections
    from circuit.reports import precisions

    found = precisions(question.texts, question.library, question.goal, question.device)
    return found, precision_sections(found), ()


def _audit_record() -> type:
    from circuit.report.audit import Audit

    return Audit


def _audit(question: _Asked) -> "tuple[Audit, tuple[Section, ...], tuple[Problem, ...]]":
    from circuit.pipeline import audited
    from circuit.report.audit import violations
    from circuit.report.audit_text import audit_sections

    found = audited(question.texts, question.library, question.goal)
    return found, audit_sections(found), violations(found)


REPORTS = (
    Report(
        name="plan",
        help="Plan a model for a device: memory, formats, audit, roofline, gaps, what fits. Needs no weights.",
        examples=PLAN_EXAMPLES,
        sized=True,
        record=_planner_record,
        answer=_plan,
    ),
    Report(
        name="memory",
        help="Print what a model holds in memory, and how many sequences of which length fit a device.",
        examples=MEMORY_EXAMPLES,
        sized=True,
        record=_planner_record,
        answer=_memory,
    ),
    Report(
        name="precision",
        help="Print the precision of every step: required, declared by its kernel, each conversion and rounding.",
        examples=PRECISION_EXAMPLES,
        sized=False,
        record=_precision_record,
        answer=_precision,
    ),
    Report(
        name="audit",
        help="Print what every multiplication runs on, and what the class requires; a violation is refused.",
        examples=AUDIT_EXAMPLES,
        sized=False,
        record=_audit_record,
        answer=_audit,
    ),
)
"""Every report of a model on a device, in the order of `met circuit --help`."""


def device_of(name: str, library: "Library | None" = None) -> "Device":
    """The device that --hardware names; `this` is the machine at hand, as `met calibrate` found it."""
    from circuit.load.devices import device_named, load_devices
    from circuit_exec.library import library as all_texts

    texts = library or all_texts()
    if name != "this":
        return device_named(load_devices(texts), name)
    from circuit_exec.own_device import own_device, own_device_path

    return device_named(load_devices(texts, own_device(own_device_path())), name)


def device_words(name: str) -> dict[str, Option]:
    """What `this` stands for, as an option of a question; nothing of another name."""
    if name != "this":
        return {}
    from circuit_exec.own_device import own_device, own_device_path

    return {"this": own_device(own_device_path()).text}
