"""`met circuit venn`: which kernels of a model others have too."""

from typing import TYPE_CHECKING, Annotated

import typer

from circuit.errors import PlanError, Problem
from cli.answer import Question, answer
from cli.circuits import model_of
from cli.forms import check_forms, form_of, print_schema, report_text
from cli.options import JsonOption, PolicyOption, RulesOption
from cli.planner import MarkdownOption, SchemaOption
from cli.target import ClassOption, DeviceOption, target, target_words

if TYPE_CHECKING:
    from circuit.load.inputs import Library

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
    check_forms(as_json, markdown, schema)
    if schema:
        from circuit.report.venn import Venn

        print_schema(Venn, "venn")
        return
    if not 2 <= len(models) <= MOST_MODELS:
        message = f"venn is given {len(models)} model{'s' if len(models) > 1 else ''}"
        raise PlanError(Problem(message=message, fix=f"give A and at least one other, at most {MOST_MODELS} in all"))
    own = tuple(policy or ())
    theirs = own if others is None else tuple(others)
    form = form_of(as_json, markdown)
    opened = tuple(map(model_of, models))

    def made(library: "Library") -> str:
        from circuit.comparisons import venned
        from circuit.compiled import Goal
        from circuit.report.venn_text import venn_sections
        from circuit_exec.checkpoint.texts import checkpoint_texts

        name, device = target(hardware, hardware_class, library)
        choices = [own, *([theirs] * (len(models) - 1))]
        goals = tuple(Goal(hardware_class=name, choices=each, rules=rules, scheduled=False) for each in choices)
        found = venned(tuple(zip(map(checkpoint_texts, opened), goals, strict=True)), library, device)
        return report_text(found, venn_sections(found), form)

    options = target_words(hardware, hardware_class) | {"policy": own, "others": theirs, "rules": rules}
    print(answer(Question(command="venn", models=opened, options=options), form, made), end="")
