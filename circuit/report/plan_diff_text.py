"""The comparison of two plan sets as sections."""

from collections.abc import Iterator

from circuit.report.computed import numberless
from circuit.report.differences_text import cells_of, difference_rows, members_text
from circuit.report.plan_diff import GroupDiff, Named, Pair, Part, PlanDiff
from circuit.report.plan_why import Reason
from circuit.report.sections import Section, Table


def plan_diff_sections(found: PlanDiff) -> tuple[Section, ...]:
    """Both sides, the parts, what is different of each pair of plans, and why."""
    return (
        _sides(found),
        _parts(found),
        *(section for pair in found.pairs for section in _pair(pair)),
        *_reasons(found.reasons),
    )


def _sides(found: PlanDiff) -> Section:
    rows = tuple(
        (f"{side.letter}: {side.model_type} ({side.arch})", side.hardware_class, side.rules) for side in found.sides
    )
    one, other = found.sides
    notes = [f"policy of {side.letter}: {_policy(side)}" for side in found.sides]
    if notes[0].partition(": ")[2] == notes[1].partition(": ")[2]:
        notes = [f"policy: {_policy(one)}"]
    notes += [f"plans of {side.letter}: {_plans(side)}" for side in (one, other)]
    same = "the output bytes are" if found.same_bytes else "the output bytes need not be"
    notes.append(f"{same} equal where the weights are: the parts `bytes` {'are' if found.same_bytes else 'differ'}")
    verdict = "the plans are equal" if found.equal else "the plans differ"
    return Section(title=verdict, table=Table(head=("side", "class", "rules"), rows=rows), notes=tuple(notes))


def _policy(side: Named) -> str:
    return " ".join([*(f"{key}={value}" for key, value in side.policy), *side.settings])


def _plans(side: Named) -> str:
    return ", ".join(f"{mode} {lo}-{hi}" for mode, (lo, hi) in side.plans)


def _parts(found: PlanDiff) -> Section:
    return Section(
        title="part digests",
        table=Table(
            head=("part", "A", "B", ""),
            rows=tuple((part.name, _digest(part.own), _digest(part.other), _verdict(part)) for part in found.parts),
        ),
        notes=(
            "of each pair of plans for the same mode and some of the same rows; the part `kernels` is of definitions "
            "and of the values of points here, which together are scheduled in one way",
        ),
    )


def _digest(digest: str) -> str:
    return digest[:12] or "by plan"


def _verdict(part: Part) -> str:
    if part.different in (0, part.pairs):
        return "differs" if part.different else "equal"
    return f"differs in {part.different} of {part.pairs}"


def _pair(pair: Pair) -> Iterator[Section]:
    """What is different of plans for some rows of a mode."""
    rows = ", ".join(_range(a) if a == b else f"{_range(a)} of A and {_range(b)} of B" for a, b in pair.rows)
    groups, launches = pair.equal
    alike = f"{groups} groups of {launches} launches are the same"
    if not pair.groups:
        yield Section(title=f"{pair.mode}, rows {rows}: {alike}, and there are no others")
        return
    yield Section(title=f"{pair.mode}, rows {rows}: {alike}")
    for side, became in (("A", "only in A"), ("B", "only in B")):
        own = [group for group in pair.groups if group.became == became]
        if own:
            cells = tuple((members_text(g.members), g.rules[side == "B"], str(sum(g.launches))) for g in own)
            yield Section(title=f"{pair.mode}: {became}", table=Table(head=("group", "rule", "n"), rows=cells))
    changed = [group for group in pair.groups if group.became == "changed"]
    if changed:
        lines = tuple(row for group in changed for row in _changed(group))
        yield Section(title=f"{pair.mode}: changed", table=Table(head=("group, fact", "kind", "A", "B"), rows=lines))


def _changed(group: GroupDiff) -> Iterator[tuple[str, ...]]:
    a, b = group.launches
    yield (f"{members_text(group.members)} ({a}x)" if a == b else members_text(group.members), "", "", "")
    yield from difference_rows(group.differs)


def _range(rows: tuple[int, int]) -> str:
    return str(rows[0]) if rows[0] == rows[1] else f"{rows[0]}-{rows[1]}"


def _reasons(found: tuple[Reason, ...]) -> Iterator[Section]:
    """By part. What is said of several nodes with the same values is said once."""
    alike: dict[tuple[str, str, str, str], int] = {}
    for each in found:
        what = each.what.partition(" of ")[0] if each.part == "parameters" else each.what
        key = (each.part, numberless(what), *cells_of(each.own, each.other))
        alike[key] = alike.get(key, 0) + 1
    if not alike:
        return
    rows: list[tuple[str, ...]] = []
    last = ""
    for (part, what, own, other), n in alike.items():
        if part != last:
            rows.append((part, "", ""))
        last = part
        rows.append((f"  {what}{f' ({n}x)' if n > 1 else ''}", own, other))
    yield Section(
        title="why: what the parts hash",
        table=Table(head=("part, value", "A", "B"), rows=tuple(rows)),
        notes=("rules: the class, the line of its FUSIONS.toml, and a digest of what is there",)
        if any(e.part == "rules" for e in found)
        else (),
    )
