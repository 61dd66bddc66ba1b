"""The launches that a profiler saw beside those of a plan set: what is not in the plan, and what is not in the trace.

Kernels are told by their names, as the emitted program has them. It has one function for kernels that come out as the
same text, under the name of one of them; so kernels that differ only in the number behind their names count as one.
A step begins at a launch that begins a plan; it is compared with the plan whose launches are most like it, with the
sections besides the main one that ran.
"""

import re
from collections import Counter
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from circuit.load.named_plan import NamedLaunch, NamedPlan

MAIN = "main"


class Trace(Struct, frozen=True, kw_only=True):
    """What a profiler recorded. `launches` are names of kernels in the order in which they began."""

    kind: Literal["Chrome trace", "Nsight Systems export"]
    launches: tuple[str, ...]


class Edit(Struct, frozen=True, kw_only=True):
    """Launches of one kernel that follow each other and that only one side has.

    `at` is the place in the plan of the first, or before which they are. `members`: of the first, where it is the
    plan's.
    """

    became: Literal["not in the plan", "not in the trace"]
    at: int
    kernel: str
    members: tuple[str, ...]
    count: int


class StepKind(Struct, frozen=True, kw_only=True):
    """Steps of a trace that are alike. `plans` are those of the set that launch the nearest sequence; `sections` what
    ran besides the main one; `first` is the number of the first such step, from 0. Without `edits` it is as planned."""

    plans: tuple[str, ...]
    sections: tuple[str, ...]
    launches: int
    steps: int
    first: int
    edits: tuple[Edit, ...]


class KernelCount(Struct, frozen=True, kw_only=True):
    """A kernel that the trace launches more or less often than the plans of its steps do."""

    kernel: str
    planned: int
    traced: int


class TraceReport(Struct, frozen=True, kw_only=True):
    """The comparison. `equal`: every step is as planned, and nothing was launched before the first.

    `before` are kernels that were, with how often. `unused` are plans that no step is of.
    """

    equal: bool
    kind: str
    arch: str
    hardware_class: str
    launches: int
    steps: int
    before: tuple[tuple[str, int], ...]
    kinds: tuple[StepKind, ...]
    counts: tuple[KernelCount, ...]
    unused: tuple[str, ...]


def compare_trace(plans: tuple[NamedPlan, ...], trace: Trace) -> TraceReport:
    """The report of a trace that has at least one launch."""
    known = plain_names({launch.kernel for plan in plans for launch in plan.launches})
    sequences = _sequences(plans, known)
    names = [planned_name(name, known) for name in trace.launches]
    before, steps = _split(names, _firsts(sequences))
    found: dict[tuple[str, ...], StepKind] = {}
    planned: Counter[str] = Counter()
    for number, step in enumerate(steps):
        same = found.get(step)
        found[step] = _nearest(sequences, step, number) if same is None else replace(same, steps=same.steps + 1)
        planned.update(_expected(step, found[step].edits))
    used = {name for kind in found.values() for name in kind.plans}
    traced = Counter(names)
    return TraceReport(
        equal=not before and not any(kind.edits for kind in found.values()),
        kind=trace.kind,
        arch=plans[0].arch,
        hardware_class=plans[0].hardware_class,
        launches=len(names),
        steps=len(steps),
        before=tuple(Counter(before).items()),
        kinds=tuple(found.values()),
        counts=tuple(
            KernelCount(kernel=name, planned=planned[name], traced=traced[name])
            for name in dict.fromkeys((*planned, *names))
            if planned[name] != traced[name]
        ),
        unused=tuple(label for plan in plans if (label := _label(plan)) not in used),
    )


def plain_names(kernels: set[str]) -> dict[str, str]:
    """For each kernel of a plan set the name that it counts under: that without the number that tells it apart."""
    numbered = {name: re.fullmatch(r"(.+)_[0-9]+", name) for name in kernels}
    return {name: n[1] if n is not None and n[1] in kernels else name for name, n in numbered.items()}


def planned_name(name: str, known: dict[str, str]) -> str:
    """The name that a kernel of a trace counts under: without what a demangler adds, and without the number of a plan
    that an emitted program has where two plans call different kernels the same. What no plan has stays as it is."""
    bare = re.match(r"(?:void )?([A-Za-z_]\w*)\s*(?:[<(]|$)", name)
    if bare is None:
        return name
    of_plan = re.fullmatch(r"(.+)_plan[0-9]+", bare[1])
    if of_plan is not None and bare[1] not in known:
        return known.get(of_plan[1], name)
    return known.get(bare[1], name)


Sequences = dict[tuple[NamedLaunch, ...], tuple[str, ...]]
"""Launches, with the plans that have them: plans of several rows can differ in points alone."""


def _sequences(plans: tuple[NamedPlan, ...], known: dict[str, str]) -> Sequences:
    found: Sequences = {}
    for plan in plans:
        launches = tuple(replace(launch, kernel=known[launch.kernel]) for launch in plan.launches)
        found[launches] = (*found.get(launches, ()), _label(plan))
    return found


def _label(plan: NamedPlan) -> str:
    lo, hi = plan.rows
    return f"{plan.mode} {lo}" if lo == hi else f"{plan.mode} {lo}-{hi}"


def _firsts(sequences: Sequences) -> set[str]:
    """Kernels that begin a step, and are nowhere else in it."""
    kernels = [[launch.kernel for launch in launches] for launches in sequences]
    return {names[0] for names in kernels if not any(each.count(names[0]) > 1 for each in kernels)}


def _split(names: list[str], firsts: set[str]) -> tuple[list[str], list[tuple[str, ...]]]:
    """What is before the first step, and the steps. A trace that begins none is one step."""
    starts = [at for at, name in enumerate(names) if name in firsts]
    if not starts:
        return [], [tuple(names)]
    return names[: starts[0]], [tuple(names[a:b]) for a, b in zip(starts, [*starts[1:], len(names)], strict=True)]


def _nearest(sequences: Sequences, step: tuple[str, ...], number: int) -> StepKind:
    """The comparison with the plan that leaves the fewest launches over."""
    best: tuple[int, StepKind] | None = None
    for launches, plans in sequences.items():
        sections = _sections(launches, step)
        own = [each for each in launches if each.section in (MAIN, *sections)]
        edits = tuple(_edits(own, step))
        left = sum(edit.count for edit in edits)
        if best is None or left < best[0]:
            kind = StepKind(plans=plans, sections=sections, launches=len(step), steps=1, first=number, edits=edits)
            best = (left, kind)
    assert best is not None, "a plan set has plans"
    return best[1]


def _sections(launches: tuple[NamedLaunch, ...], step: tuple[str, ...]) -> tuple[str, ...]:
    """The sections besides the main one that ran: the step has their kernels more often than the others ask for."""
    left = Counter(step) - Counter(each.kernel for each in launches if each.section == MAIN)
    found = []
    for section in dict.fromkeys(each.section for each in launches if each.section != MAIN):
        asked = Counter(each.kernel for each in launches if each.section == section)
        if all(left[kernel] >= count for kernel, count in asked.items()):
            left -= asked
            found.append(section)
    return tuple(found)


def _edits(planned: list[NamedLaunch], step: tuple[str, ...]) -> Iterator[Edit]:
    """What only one side has, in the order of the plan."""
    names = [each.kernel for each in planned]
    if tuple(names) == step:
        return
    for tag, a, b, c, d in SequenceMatcher(None, names, step, autojunk=False).get_opcodes():
        if tag != "equal":
            yield from _runs("not in the trace", a, names[a:b], planned)
            yield from _runs("not in the plan", b, list(step[c:d]), None)


def _runs(
    became: Literal["not in the plan", "not in the trace"], at: int, names: list[str], planned: list[NamedLaunch] | None
) -> Iterator[Edit]:
    """Launches of one kernel that follow each other are one edit."""
    start = 0
    for end in range(1, len(names) + 1):
        if end == len(names) or names[end] != names[start]:
            place = at if planned is None else at + start
            members = () if planned is None else planned[place].members
            yield Edit(became=became, at=place, kernel=names[start], members=members, count=end - start)
            start = end


def _expected(step: tuple[str, ...], edits: tuple[Edit, ...]) -> Counter[str]:
    """How often the plan of a step launches each kernel: what ran, without what is too much, with what is missing."""
    found = Counter(step)
    for edit in edits:
        found[edit.kernel] += edit.count if edit.became == "not in the trace" else -edit.count
    return found
