"""Promotion as a section."""

from circuit.report.differences_text import short
from circuit.report.promotion import Promotion
from circuit.report.sections import Section, Table


def promotion_sections(found: tuple[Promotion, ...], notes: tuple[str, ...]) -> tuple[Section, ...]:
    """One, or none where there is nothing to say."""
    rows = tuple(
        (each.fact, each.family, each.kind, _values(each), str(each.kernels), share_text(each.share))
        for each in found
        if each.kind not in ("chain", "plan") and each.fact != "ops"
    )
    if rows:
        said = "param: could be given at run time; dim, format, policy: a kernel for each value, made by one family"
        notes = (said, *notes)
    if not notes:
        return ()
    head = ("fact", "family", "kind", "values", "kernels", "decode")
    table = Table(head=head, rows=rows) if rows else None
    return (Section(title="promotion: what would make one kernel of several", table=table, notes=notes),)


def measure_notes(rules: tuple[tuple[str, float | None], ...], hardware_class: str) -> tuple[str, ...]:
    """How to measure relations that were not, each with its share of decode."""
    return tuple(
        f"to measure: {rule}{f' ({share_text(share)})' if share is not None else ''}, by "
        f"`met circuit prove {rule} --class {hardware_class} --ab MODEL --write`"
        for rule, share in rules
    )


def share_text(share: float | None) -> str:
    """`12.3%`, or nothing."""
    return "" if share is None else f"{share:.1%}"


_VALUES = 16


def _values(each: Promotion) -> str:
    shown = ", ".join(short(value) for value in each.values)
    return shown if len(shown) <= _VALUES else f"{len(each.values)} values"
