"""`met circuit lkb`: the kernel base of a class, as one model uses it."""

from cli.circuits import checkpoint_of
from cli.forms import check_forms, print_report, print_schema
from cli.models import ModelArgument
from cli.options import JsonOption, PolicyOption
from cli.planner import MarkdownOption, SchemaOption
from cli.target import ClassOption, DeviceOption, target

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
    from circuit.comparisons import kernel_base
    from circuit.pipeline import Goal
    from circuit.report.lkb import Lkb
    from circuit.report.lkb_text import lkb_sections
    from circuit_exec.library import library

    check_forms(as_json, markdown, schema)
    if schema:
        print_schema(Lkb, "lkb")
        return
    name, device = target(hardware, hardware_class)
    goal = Goal(hardware_class=name, choices=tuple(policy or ()), scheduled=False)
    found = kernel_base((checkpoint_of(model), goal), library(), device)
    print_report(found, lkb_sections(found), as_json, markdown)
