"""In what two plan sets differ: which part digests, then group by group, then why.

Plans are made of definitions here: the part `kernels` hashes these and the values of points, as two kernels of one
definition and the same values are scheduled alike. Two plans are a pair where they are for the same mode and some of
the same rows.
"""

import hashlib
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from circuit.plan.ir import Plan
from circuit.report.computed import Computed, Difference, differences
from circuit.report.plan_why import Reason, reasons
from circuit.report.sides import Side, point_text


class Named(Struct, frozen=True, kw_only=True):
    """A side, to be told apart by."""

    letter: str
    model_type: str
    arch: str
    hardware_class: str
    rules: str
    policy: tuple[tuple[str, str], ...]
    settings: tuple[str, ...]
    plans: tuple[tuple[str, tuple[int, int]], ...]


class Part(Struct, frozen=True, kw_only=True):
    """One part digest in the pairs of plans: of how many it differs in how many. `own` and `other` are the digests of
    the sides where they are the same in all plans, else ""."""

    name: str
    pairs: int
    different: int
    own: str
    other: str


class GroupDiff(Struct, frozen=True, kw_only=True):
    """A group that is not the same in both plans. `launches` are how many there are in each; `differs` says in what a
    changed one does: its rule, numerics, family, point, and the facts of its kernel."""

    members: tuple[str, ...]
    became: Literal["only in A", "only in B", "changed"]
    rules: tuple[str, str]
    launches: tuple[int, int]
    differs: tuple[Difference, ...]


class Pair(Struct, frozen=True, kw_only=True):
    """Pairs of plans with the same differences. `rows` are the rows of each pair's plans; `equal` counts the groups
    that are the same in both, and their launches."""

    mode: str
    rows: tuple[tuple[tuple[int, int], tuple[int, int]], ...]
    equal: tuple[int, int]
    groups: tuple[GroupDiff, ...]


class PlanDiff(Struct, frozen=True, kw_only=True):
    """The comparison. `equal`: whether all digests are; `same_bytes`: whether the parts `bytes` are, so that equal
    weights give equal output bytes."""

    equal: bool
    same_bytes: bool
    sides: tuple[Named, Named]
    parts: tuple[Part, ...]
    pairs: tuple[Pair, ...]
    reasons: tuple[Reason, ...]


def plan_diff(one: Side, other: Side) -> PlanDiff:
    """The comparison of two plan sets."""
    paired = list(_paired(one, other))
    parts = tuple(_parts([(_digests(one, a), _digests(other, b)) for (a, _), (b, _) in paired]))
    different = tuple(part.name for part in parts if part.different)
    same_rows = [(p.mode, p.rows) for p in one.plans] == [(p.mode, p.rows) for p in other.plans]
    return PlanDiff(
        equal=same_rows and not different,
        same_bytes="bytes" not in different,
        sides=(_named("A", one), _named("B", other)),
        parts=parts,
        pairs=tuple(_folded(_pair(one, a, other, b) for a, b in paired)),
        reasons=tuple(reasons(one, other, different)),
    )


Made = tuple[Plan, tuple[Computed, ...]]


def _paired(one: Side, other: Side) -> Iterator[tuple[Made, Made]]:
    for a in zip(one.plans, one.computed, strict=True):
        for b in zip(other.plans, other.computed, strict=True):
            overlap = a[0].rows[0] <= b[0].rows[1] and b[0].rows[0] <= a[0].rows[1]
            if a[0].mode == b[0].mode and overlap:
                yield a, b


def _named(letter: str, side: Side) -> Named:
    return Named(
        letter=letter,
        model_type=side.model_type,
        arch=side.tir.arch,
        hardware_class=side.hardware.name,
        rules=side.which,
        policy=side.plans[0].policy,
        settings=side.plans[0].settings,
        plans=tuple((plan.mode, plan.rows) for plan in side.plans),
    )


def _digests(side: Side, plan: Plan) -> dict[str, str]:
    """The part digests of a plan of definitions; `kernels` with the values of its points."""
    parts = dict(plan.parts)
    points = [f"{kernel.family}.{point_text(side, kernel.family, kernel.point)}" for kernel in plan.kernels]
    return parts | {"kernels": hashlib.sha256("\n".join([parts["kernels"], *points]).encode()).hexdigest()}


def _parts(paired: list[tuple[dict[str, str], dict[str, str]]]) -> Iterator[Part]:
    for name in paired[0][0]:
        values = [(a[name], b[name]) for a, b in paired]
        sides = [set(each) for each in zip(*values, strict=True)]
        own, other = (each.pop() if len(each) == 1 else "" for each in sides)
        yield Part(name=name, pairs=len(values), different=sum(a != b for a, b in values), own=own, other=other)


def _pair(own: Side, one: Made, there: Side, other: Made) -> Pair:
    equal, launches = 0, 0
    groups = []
    for a, b in _matched(one[1], other[1]):
        found = _group(own, a, there, b)
        if found is not None:
            groups.append(found)
        elif a is not None:
            equal, launches = equal + 1, launches + len(a.launches)
    rows = (one[0].rows, other[0].rows)
    return Pair(mode=one[0].mode, rows=(rows,), equal=(equal, launches), groups=tuple(groups))


def _matched(
    one: tuple[Computed, ...], other: tuple[Computed, ...]
) -> Iterator[tuple[Computed | None, Computed | None]]:
    """Groups of the same members: those of one kernel each in order, as layers may differ. The order is that of A."""
    rest: dict[tuple[str, ...], list[Computed]] = {}
    for part in other:
        rest.setdefault(part.members, []).append(part)
    for part in one:
        same = rest.get(part.members)
        yield part, (same.pop(0) if same else None)
    for part in other:
        if part in rest[part.members]:
            yield None, part


def _group(own: Side, a: Computed | None, there: Side, b: Computed | None) -> GroupDiff | None:
    part = a or b
    assert part is not None, "one of the sides has the group"
    differs = () if a is None or b is None else tuple(_differs(own, a, there, b))
    if a is not None and b is not None and not differs:
        return None
    return GroupDiff(
        members=part.members,
        became="changed" if a is not None and b is not None else "only in A" if b is None else "only in B",
        rules=("" if a is None else a.rule, "" if b is None else b.rule),
        launches=(0 if a is None else len(a.launches), 0 if b is None else len(b.launches)),
        differs=differs,
    )


def _differs(one: Side, a: Computed, other: Side, b: Computed) -> Iterator[Difference]:
    stated = (
        ("rule", a.rule, b.rule),
        ("numerics", a.numerics, b.numerics),
        ("family", a.family, b.family),
        ("point", point_text(one, a.family, a.point), point_text(other, b.family, b.point)),
        ("launches", str(len(a.launches)), str(len(b.launches))),
    )
    for name, own, there in stated:
        if own != there:
            yield Difference(name=name, kind="plan", own=own, other=there)
    yield from differences(a, b)


def _folded(pairs: Iterator[Pair]) -> Iterator[Pair]:
    """Pairs of plans with the same differences are told once."""
    alike: dict[Pair, list[tuple[tuple[int, int], tuple[int, int]]]] = {}
    for pair in pairs:
        alike.setdefault(replace(pair, rows=()), []).extend(pair.rows)
    for pair, rows in alike.items():
        yield replace(pair, rows=tuple(rows))
