"""`met circuit lkb`: the kernel base of a class, as one model uses it."""

from typing import TYPE_CHECKING

from cli.answer import Question, answer
from cli.circuits import model_of
from cli.forms import check_forms, form_of, print_schema, report_text
from cli.models import ModelArgument
from cli.options import JsonOption, PolicyOption
from cli.planner import MarkdownOption, SchemaOption
from cli.target import ClassOption, DeviceOption, target, target_words

if TYPE_CHECKING:
    from circuit.load.inputs import Library

EXAMPLES = """Examples:

\b
  met circuit lkb smollm2 --class avx2
  met circuit lkb config.json --hardware h200
  met circuit lkb smollm2 --hardware this --markdown
"""


def lkb(
    model: ModelArgument,
    hardware: DeviceOption = None,
    hardware_class: ClassOption = None,
    as_json: JsonOption = False,
    markdown: MarkdownOption = False,
    schema: SchemaOption = False,
    policy: PolicyOption = None,
) -> None:
    """Tell what of a class's kernels a model uses is generated, tuned and measured, and what is left to do.

    Also what no family generates, what could become a parameter or a default, and what each fusion saves in bytes and
    launches against a launch for each op.
    """
    check_forms(as_json, markdown, schema)
    if schema:
        from circuit.report.lkb import Lkb

        print_schema(Lkb, "lkb")
        return
    form, choices = form_of(as_json, markdown), tuple(policy or ())
    opened = model_of(model)

    def made(library: "Library") -> str:
        from circuit.comparisons import kernel_base
        from circuit.compiled import Goal
        from circuit.report.lkb_text import lkb_sections
        from circuit_exec.checkpoint.texts import checkpoint_texts

        name, device = target(hardware, hardware_class, library)
        goal = Goal(hardware_class=name, choices=choices, scheduled=False)
        found = kernel_base((checkpoint_texts(opened), goal), library, device)
        return report_text(found, lkb_sections(found), form)

    options = target_words(hardware, hardware_class) | {"policy": choices}
    print(answer(Question(command="lkb", models=(opened,), options=options), form, made), end="")
