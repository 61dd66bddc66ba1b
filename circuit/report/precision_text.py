"""The report of precisions as sections."""

from circuit.report.operands import Operand
from circuit.report.precision import Path, Precision, PrecisionSite
from circuit.report.sections import Section, Table, not_rendered


def precision_sections(report: Precision) -> tuple[Section, ...]:
    """What is declared, how values get into the class's instructions, then every kernel with its steps."""
    return (_declared(report), _paths(report), *map(_site, report.sites))


def _declared(report: Precision) -> Section:
    rows = tuple((each.what, each.declared, each.origin, each.planned) for each in report.declared)
    notes = [f"policy: {' '.join(f'{key}={value}' for key, value in report.policy)}"]
    notes += not_rendered(report.language, report.rendered)
    return Section(
        title=f"{report.model_type} ({report.arch}) on {report.device}, class {report.hardware_class}: declared",
        table=Table(head=("what", "declared", "by", "planned"), rows=rows),
        notes=tuple(notes),
    )


def _paths(report: Precision) -> Section:
    instructions = [each.instruction for each in report.paths[0].operands]
    rows = tuple((f"{path.what} {path.format}", *map(_operand, path.operands)) for path in report.paths)
    return Section(
        title="how values get into the instructions of the class",
        table=Table(head=("values", *instructions), rows=rows),
        notes=(
            "stored: as they are; exact: converted without loss, x 2^n into the scale; -: no path without a rounding, "
            "and none is taken",
            *_reasons(report.paths),
        ),
    )


def _reasons(paths: tuple[Path, ...]) -> tuple[str, ...]:
    found: dict[str, list[str]] = {}
    for path in paths:
        for each in path.operands:
            if each.why:
                found.setdefault(each.why, []).append(each.instruction)
    return tuple(f"no path into {', '.join(dict.fromkeys(names))}: {why}" for why, names in found.items())


def _operand(each: Operand) -> str:
    if each.how == "exact" and each.shift:
        return f"exact 2^{each.shift}"
    return {"as stored": "stored", "exact": "exact", "no path": "-"}[each.how]


def _site(site: PrecisionSite) -> Section:
    rows = []
    for op in site.ops:
        for place, step in enumerate(op.steps):
            declared = "same" if step.declared == step.required else step.declared
            label = op.op if place == 0 else ""
            rows.append((label, step.step, step.required, declared, step.conversion, step.rounding))
    products = dict.fromkeys(op.runs_on for op in site.ops if any(step.step == "mma" for step in op.steps))
    on = f"; products on {', '.join(products)}" if products else ""
    return Section(
        title=site.kernel,
        table=Table(head=("op", "step", "required", "declared", "conversion", "rounding"), rows=tuple(rows)),
        notes=(f"{site.numerics}, launches: {site.launches}; in {', '.join(site.plans)}{on}",),
    )
