"""`met circuit trace`: what a profiler saw, beside what the plan launches."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from circuit.errors import PlanError, Problem
from cli.circuits import checkpoint_of
from cli.forms import check_forms, form_of, print_schema, report_text
from cli.options import JsonOption, PolicyOption, Rules
from cli.planner import MarkdownOption, SchemaOption
from cli.target import ClassOption, target

if TYPE_CHECKING:
    from circuit.load.plan_file import NamedPlan

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
    from circuit.report.trace import TraceReport, compare_trace
    from circuit.report.trace_text import trace_sections
    from circuit_exec.trace.read import read_trace

    check_forms(as_json, markdown, schema)
    if schema:
        print_schema(TraceReport, "trace")
        return
    read = read_trace(file)
    options = {"--hardware": hardware, "--class": hardware_class, "--policy": policy, "--rules": rules}
    plans = _of_file(plan, [name for name, value in options.items() if value]) or _of_model(
        plan, target(hardware, hardware_class)[0], tuple(policy or ()), rules or "all"
    )
    found = compare_trace(plans, read)
    print(report_text(found, trace_sections(found), form_of(as_json, markdown)), end="")
    if not found.equal:
        raise typer.Exit(1)


def _of_file(path: str, given: list[str]) -> "tuple[NamedPlan, ...]":
    """The plans of a file of `met circuit show --json`; none where the path is no such file."""
    from circuit.load.plan_file import load_plans
    from circuit.text import Source

    if not path.endswith(".json") or not Path(path).is_file():
        return ()
    text = Path(path).read_text(encoding="utf-8", errors="replace")
    if '"launches"' not in text:  # a config has no such key
        return ()
    if given:
        message = f"{given[0]} is for a model, and the plans of a file are made"
        raise PlanError(Problem(message=message, fix=f"leave out {given[0]}", file=path))
    return load_plans(Source(path=path, text=text))


def _of_model(model: str, hardware_class: str, choices: tuple[str, ...], rules: Rules) -> "tuple[NamedPlan, ...]":
    from circuit.comparisons import named_plans
    from circuit.pipeline import Goal
    from circuit_exec.library import library

    goal = Goal(hardware_class=hardware_class, choices=choices, rules=rules, scheduled=False)
    return named_plans((checkpoint_of(model), goal), library())
