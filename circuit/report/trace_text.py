"""The comparison of a trace with a plan set as sections."""

from collections.abc import Iterator

from circuit.report.differences_text import members_text
from circuit.report.sections import Section, Table
from circuit.report.trace import Edit, StepKind, TraceReport


def trace_sections(found: TraceReport) -> tuple[Section, ...]:
    """The steps, what differs in each kind of step, what was launched before them, and counts by kernel."""
    different = [kind for kind in found.kinds if kind.edits]
    return (_steps(found), *map(_edits, different[:MOST_KINDS]), *_before(found), *_counts(found))


MOST_KINDS, MOST_EDITS = 8, 40
"""Kinds of steps that are shown, and what is shown of each; JSON has all."""


def _steps(found: TraceReport) -> Section:
    rows = tuple(
        (
            ", ".join(kind.plans),
            ", ".join(kind.sections),
            str(kind.steps),
            str(kind.launches),
            _verdict(kind),
        )
        for kind in found.kinds[:MOST_EDITS]
    )
    verdict = "the trace is as planned" if found.equal else "the trace is not as planned"
    notes = [
        f"{found.kind}: {found.launches:,} launches in {found.steps:,} steps",
        "plan: the one most like the step; plans that launch the same kernels are named together",
    ]
    different = sum(bool(kind.edits) for kind in found.kinds)
    if different > MOST_KINDS:
        notes.append(f"{different} kinds of steps differ; the first {MOST_KINDS} are shown, --json has all")
    if found.unused:
        notes.append(f"no step is of: {', '.join(found.unused)}")
    return Section(
        title=f"{verdict}: {found.arch} on class {found.hardware_class}",
        table=Table(head=("plan", "and", "steps", "launches", "is"), rows=rows),
        notes=tuple(notes),
    )


def _verdict(kind: StepKind) -> str:
    more, fewer = (sum(edit.count for edit in kind.edits if edit.became == became) for became in _BECAME)
    return f"{more} more, {fewer} fewer" if kind.edits else "as planned"


_BECAME = ("not in the plan", "not in the trace")


def _edits(kind: StepKind) -> Section:
    steps = f"step {kind.first}" if kind.steps == 1 else f"step {kind.first} and {kind.steps - 1} like it"
    return Section(
        title=f"{steps} beside {', '.join(kind.plans)}",
        table=Table(
            head=("kernel, nodes", "at", "n", "is"),
            rows=tuple(row for edit in kind.edits[:MOST_EDITS] for row in _rows(edit)),
        ),
        notes=("at: the launch of the plan, or the one that it is before", *_left_out(kind)),
    )


def _left_out(kind: StepKind) -> tuple[str, ...]:
    more = len(kind.edits) - MOST_EDITS
    return (f"and {more:,} more; --json has all",) if more > 0 else ()


def _rows(edit: Edit) -> Iterator[tuple[str, ...]]:
    yield edit.kernel, str(edit.at), str(edit.count), edit.became
    if edit.members:
        yield f"  {members_text(edit.members)}", "", "", ""


def _before(found: TraceReport) -> Iterator[Section]:
    if found.before:
        yield Section(
            title="before the first step",
            table=Table(head=("kernel", "n"), rows=tuple((name, str(count)) for name, count in found.before)),
        )


def _counts(found: TraceReport) -> Iterator[Section]:
    if found.counts:
        rows = tuple((each.kernel, str(each.planned), str(each.traced)) for each in found.counts)
        yield Section(
            title="launches in all, of kernels of which there are more or fewer",
            table=Table(head=("kernel", "planned", "traced"), rows=rows),
        )
