"""`met circuit venn`: which kernels of a model others have too."""

from typing import Annotated

import typer

from circuit.errors import PlanError, Problem
from cli.circuits import checkpoint_of
from cli.forms import check_forms, print_report, print_schema
from cli.options import JsonOption, PolicyOption, RulesOption
from cli.planner import MarkdownOption, SchemaOption
from cli.target import ClassOption, DeviceOption, target

EXAMPLES = """Examples:

\b
  met circuit venn smollm2 config.json
  met circuit venn a/config.json b/config.json c/config.json --hardware h200
  met circuit venn smollm2 smollm2 --policy kv=bf16 --others-policy kv=f32
"""
MOST_MODELS = 8
"""More are no table."""

ModelsArgument = Annotated[
    list[str],
    typer.Argument(metavar="A B [C...]", help="Models as for every command; A is set beside all others.", min=1),
]


def venn(
    models: ModelsArgument,
    hardware: DeviceOption = None,
    hardware_class: ClassOption = None,
    as_json: JsonOption = False,
    markdown: MarkdownOption = False,
    schema: SchemaOption = False,
    policy: PolicyOption = None,
    others: Annotated[
        list[str] | None,
        typer.Option(
            "--others-policy", metavar="KEY=VALUE", show_default="that of A", help="As --policy, for B and on."
        ),
    ] = None,
    rules: RulesOption = "all",
) -> None:
    """Tell which kernels of model A the others have too, in decode and prefill.

    Every site of A is shared, or differs by policy or by parameters, which are named, or is novel; with its share of
    the step where a device is given, and with what would make one kernel of several.
    """
    from circuit.comparisons import venned
    from circuit.pipeline import Goal
    from circuit.report.venn import Venn
    from circuit.report.venn_text import venn_sections
    from circuit_exec.library import library

    check_forms(as_json, markdown, schema)
    if schema:
        print_schema(Venn, "venn")
        return
    if not 2 <= len(models) <= MOST_MODELS:
        message = f"venn is given {len(models)} model{'s' if len(models) > 1 else ''}"
        raise PlanError(Problem(message=message, fix=f"give A and at least one other, at most {MOST_MODELS} in all"))
    name, device = target(hardware, hardware_class)
    own = tuple(policy or ())
    choices = [own, *([own if others is None else tuple(others)] * (len(models) - 1))]
    goals = tuple(Goal(hardware_class=name, choices=each, rules=rules, scheduled=False) for each in choices)
    found = venned(tuple(zip(map(checkpoint_of, models), goals, strict=True)), library(), device)
    print_report(found, venn_sections(found), as_json, markdown)
