"""`met circuit trace`: what a profiler saw, beside what the plan launches."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from circuit.errors import PlanError, Problem
from cli.answer import Option, Question, print_compared
from cli.circuits import model_of
from cli.forms import check_forms, form_of, print_schema, report_text
from cli.options import JsonOption, PolicyOption, Rules
from cli.planner import MarkdownOption, SchemaOption
from cli.target import ClassOption, target, target_words

if TYPE_CHECKING:
    from circuit.load.inputs import Library
    from circuit.load.named_plan import NamedPlan
    from circuit.text import Source
    from circuit_exec.checkpoint.records import Checkpoint

EXAMPLES = """Examples:

\b
  met circuit trace config.json trace.json --hardware h200
  met circuit trace config.json report.sqlite --class hopper --policy kv=bf16
  met circuit show config.json --class hopper --json > plan.json
  met circuit trace plan.json trace.json.gz

Exit code 1: a step of the trace is not as planned.
"""


def trace(
    plan: Annotated[
        str,
        typer.Argument(metavar="PLAN", help="A model as for every command, or what `met circuit show --json` printed."),
    ],
    file: Annotated[
        str,
        typer.Argument(metavar="TRACE", help="A Chrome trace (.json, .json.gz) or an SQLite export of Nsight Systems."),
    ],
    hardware: Annotated[
        str | None,
        typer.Option(
            "--hardware",
            metavar="D",
            show_default="none",
            help="A device, as `met circuit devices` lists them; `this`: the machine at hand.",
        ),
    ] = None,
    hardware_class: ClassOption = None,
    as_json: JsonOption = False,
    markdown: MarkdownOption = False,
    schema: SchemaOption = False,
    policy: PolicyOption = None,
    rules: Annotated[
        Rules | None,
        typer.Option("--rules", show_default="all", help="all: fused kernels; reference: one kernel for each op."),
    ] = None,
) -> None:
    """Compare the launches of a profiler's trace with those of a model's plans, in order.

    Every step of the trace is set beside the plan that is most like it: launches that the plan does not have, and
    launches that the trace does not have. Kernels are told by their names.
    """
    check_forms(as_json, markdown, schema)
    if schema:
        from circuit.report.trace import TraceReport

        print_schema(TraceReport, "trace")
        return
    from circuit_exec.cache import key_of
    from circuit_exec.trace.read import read_trace

    read, form = read_trace(file), form_of(as_json, markdown)
    given = {"--hardware": hardware, "--class": hardware_class, "--policy": policy, "--rules": rules}
    source = _plan_file(plan, [name for name, value in given.items() if value])
    opened = None if source else model_of(plan)
    choices, which = tuple(policy or ()), rules or "all"

    def made(library: "Library") -> tuple[str, bool]:
        from circuit.report.trace import compare_trace
        from circuit.report.trace_text import trace_sections

        if opened is not None:
            plans = _of_model(opened, target(hardware, hardware_class, library)[0], choices, which, library)
        else:
            plans = _of_file(source)
        found = compare_trace(plans, read)
        return report_text(found, trace_sections(found), form), found.equal

    options: dict[str, Option] = {"trace": key_of(read.kind, *read.launches), "policy": choices, "rules": which}
    options |= {"plan": key_of(source.path, source.text) if source else None}
    options |= target_words(hardware, hardware_class)
    models = () if opened is None else (opened,)
    print_compared(Question(command="trace", models=models, options=options), form, made)


def _plan_file(path: str, given: list[str]) -> "Source | None":
    """A file of `met circuit show --json`; None where the path is no such file."""
    from circuit.text import Source

    if not path.endswith(".json") or not Path(path).is_file():
        return None
    text = Path(path).read_text(encoding="utf-8", errors="replace")
    if '"launches"' not in text:  # a config has no such key
        return None
    if given:
        message = f"{given[0]} is for a model, and the plans of a file are made"
        raise PlanError(Problem(message=message, fix=f"leave out {given[0]}", file=path))
    return Source(path=path, text=text)


def _of_file(source: "Source | None") -> "tuple[NamedPlan, ...]":
    from circuit.load.plan_file import load_plans

    assert source is not None, "what is no model is a file"
    return load_plans(source)


def _of_model(
    model: "Checkpoint", hardware_class: str, choices: tuple[str, ...], rules: Rules, library: "Library"
) -> "tuple[NamedPlan, ...]":
    from circuit.comparisons import named_plans
    from circuit.compiled import Goal
    from circuit_exec.checkpoint.texts import checkpoint_texts

    goal = Goal(hardware_class=hardware_class, choices=choices, rules=rules, scheduled=False)
    return named_plans((checkpoint_texts(model), goal), library)
