"""The kernel base as sections."""

from circuit.report.laxity import Laxity
from circuit.report.lkb import Lkb
from circuit.report.promotion_text import measure_notes, promotion_sections, share_text
from circuit.report.sections import Section, Table, bytes_text, not_rendered, time_text

_MODES = ("decode", "prefill")
_LAUNCHES = "decode, prefill: launches of the plans that the works begin with"


def lkb_sections(found: Lkb) -> tuple[Section, ...]:
    """Coverage in all, by family and by op; relations, what is left, promotion, laxity of each work."""
    return (
        _covered(found),
        _families(found),
        _ops(found),
        _relations(found),
        _residual(found),
        *_promotion(found),
        *(_laxity(found, work) for work in found.works),
    )


def _covered(found: Lkb) -> Section:
    on = f"class {found.hardware_class}" if not found.device else f"{found.device}, class {found.hardware_class}"
    rows = tuple((name, *(f"{part:.1%}" for part in parts)) for name, parts in found.covered)
    parts_of = "the time that each work takes at best" if found.device else "the launches; for the time give --hardware"
    return Section(
        title=f"kernel base of {found.model_type} ({found.arch}) on {on}",
        table=Table(head=("coverage", *found.works), rows=rows),
        notes=(
            f"parts of {parts_of}",
            "generated: from the definition of its ops; tuned: at values that the class states for itself",
            "measured: by a relation with evidence of this class at such rows; nobody measures single ops",
            f"policy: {' '.join(f'{key}={value}' for key, value in found.policy)}",
            *not_rendered(found.language, found.rendered),
        ),
    )


def _families(found: Lkb) -> Section:
    rows = tuple(
        (
            each.family,
            each.stated_by,
            "yes" if each.tuned else "no",
            f"{len(each.measured)} of {len(each.rules)}",
            *(str(n) for n in each.launches),
            *(share_text(part) for part in each.shares if found.device),
        )
        for each in found.families
        if any(each.launches)
    )
    unused = [each.family for each in found.families if not any(each.launches)]
    notes = [
        _LAUNCHES,
        "values: the class that states them",
        "rules: those that were measured, of those that took launches",
    ]
    if unused:
        notes.append(f"not used: {', '.join(unused)}")
    shares = found.works if found.device else ()
    return Section(
        title="coverage by family",
        table=Table(head=("family", "values", "tuned", "rules", *_MODES, *shares), rows=rows),
        notes=tuple(notes),
    )


def _ops(found: Lkb) -> Section:
    rows = tuple(
        (
            f"{each.op}: {', '.join(each.families)}",
            *(str(n) for n in (each.nodes, each.fused, each.tuned, each.measured)),
        )
        for each in found.ops
    )
    return Section(
        title=f"coverage by op, in {found.works[0]}",
        table=Table(head=("op: families", "nodes", "fused", "tuned", "measured"), rows=rows),
    )


def _relations(found: Lkb) -> Section:
    rows = tuple(
        (
            each.rule,
            *(str(n) for n in each.launches),
            *(share_text(part) for part in each.shares if found.device),
            each.against or "measured",
        )
        for each in found.relations
    )
    machines = dict.fromkeys(machine for each in found.relations for machine in each.machines if not each.against)
    shares = found.works if found.device else ()
    return Section(
        title="relations in use",
        table=Table(head=("rule", *_MODES, *shares, "evidence"), rows=rows),
        notes=(_LAUNCHES, *(f"measured on: {machine}" for machine in machines)),
    )


def _residual(found: Lkb) -> Section:
    rows = tuple((path, str(lines)) for path, lines in found.sources)
    lines = sum(n for _, n in found.sources)
    notes = [f"{lines:,} lines that no family generates: the driver of emitted folders, no kernel"] if rows else []
    if not rows:
        notes.append(f"no hand-written source of {', '.join(found.chain)}")
    notes.append(
        f"copies of what {found.hardware_class} would inherit: {', '.join(found.copies)}"
        if found.copies
        else "no point of the class is a copy of what it would inherit"
    )
    table = Table(head=("source", "lines"), rows=rows) if rows else None
    return Section(title="residual", table=table, notes=tuple(notes))


def _promotion(found: Lkb) -> tuple[Section, ...]:
    notes = [f"lost nothing where it was measured, and is opt-in: {rule}" for rule in found.defaults]
    if found.rendered:
        notes += measure_notes(found.unmeasured, found.hardware_class)
    return promotion_sections(found.promotions, tuple(notes))


def _laxity(found: Lkb, work: str) -> Section:
    own = sorted(
        (each for each in found.laxity if each.work == work),
        key=lambda each: (each.fused_bytes - each.unfused_bytes, each.rule),
    )
    rows = [_row(each, found.device != "") for each in own]
    saved = sum(each.unfused_bytes - each.fused_bytes for each in own)
    launches = sum(each.unfused_launches - each.launches for each in own)
    times = [each.saved_s for each in own if each.saved_s is not None]
    total = ("all", str(sum(each.groups for each in own)), str(launches), bytes_text(saved))
    rows.append((*total, "", *((time_text(sum(times)),) if found.device else ())))
    return Section(
        title=f"laxity in the first step of {work}: what fusing saves",
        table=Table(
            head=("rule", "groups", "launches", "bytes", "of unfused", *(("time",) if found.device else ())),
            rows=tuple(rows),
        ),
        notes=("launches, bytes: saved against a launch for each op, both counted on definitions",),
    )


def _row(each: Laxity, timed: bool) -> tuple[str, ...]:
    saved = each.unfused_bytes - each.fused_bytes
    return (
        each.rule,
        str(each.groups),
        str(each.unfused_launches - each.launches),
        bytes_text(saved),
        f"{saved / each.unfused_bytes:.2%}",
        *((time_text(each.saved_s or 0.0),) if timed else ()),
    )
