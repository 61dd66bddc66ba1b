"""The kernel base of a class as one model uses it: what is tuned and measured, what is left, what fusing saves."""

from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from circuit.load.devices import Device
from circuit.load.evidence import Evidence
from circuit.load.families import Family
from circuit.load.hardware import is_rendered
from circuit.lower.evidence import losses
from circuit.lower.proven import rule_hash
from circuit.plan.ir import Plan
from circuit.report.computed import Computed, differences
from circuit.report.cost import Costs
from circuit.report.laxity import Laxity, laxity
from circuit.report.measured import against_evidence
from circuit.report.promotion import Differing, Promotion, more_share, promotions
from circuit.report.roofline import FIRST_PREFILL, WORKS, Work
from circuit.report.shares import Share, shares_of
from circuit.report.sides import Side, class_of_file
from circuit.text import Source


class FamilyCoverage(Struct, frozen=True, kw_only=True):
    """A family and what the model's works launch of it.

    `stated_by`: the class whose points they are; `tuned`: whether it is this class, which then has chosen the values
    for itself, and renders them. `rules` took the launches, `measured` are those of them with evidence at such rows.
    """

    family: str
    made: str
    ops: tuple[str, ...]
    stated_by: str
    tuned: bool
    points: tuple[str, ...]
    launches: tuple[int, ...]
    shares: tuple[float | None, ...]
    rules: tuple[str, ...]
    measured: tuple[str, ...]


class OpCoverage(Struct, frozen=True, kw_only=True):
    """An op, with its role, in the plan of the first work: `nodes` in all, `fused` into launches with others, and how
    many are in launches of a `tuned` family and of a `measured` rule. Every one is generated from its definition."""

    op: str
    families: tuple[str, ...]
    nodes: int
    fused: int
    tuned: int
    measured: int


class Relation(Struct, frozen=True, kw_only=True):
    """A rule that fuses, as the works use it. `against`: why it counts as not measured in decode, "" where it was."""

    rule: str
    launches: tuple[int, ...]
    shares: tuple[float | None, ...]
    against: str
    machines: tuple[str, ...]


class Lkb(Struct, frozen=True, kw_only=True):
    """The report. `covered` has for each work the parts of the step that are generated, tuned and measured; without a
    device, parts of the launches. `sources` are hand-written files of the class, with their lines; `copies` points that
    state what the class would inherit; `defaults` relations that are opt-in and lose nowhere where they were measured.
    """

    model_type: str
    arch: str
    hardware_class: str
    chain: tuple[str, ...]
    device: str
    language: str
    rendered: bool
    policy: tuple[tuple[str, str], ...]
    works: tuple[str, ...]
    covered: tuple[tuple[str, tuple[float, ...]], ...]
    families: tuple[FamilyCoverage, ...]
    ops: tuple[OpCoverage, ...]
    relations: tuple[Relation, ...]
    sources: tuple[tuple[str, int], ...]
    copies: tuple[str, ...]
    promotions: tuple[Promotion, ...]
    defaults: tuple[str, ...]
    unmeasured: tuple[tuple[str, float | None], ...]
    laxity: tuple[Laxity, ...]


class Base(Struct, frozen=True, kw_only=True):
    """What the library has for a class: evidence, families of what it inherits from, and hand-written files."""

    records: tuple[Evidence, ...]
    inherited: tuple[Family, ...]
    sources: tuple[Source, ...]


class _At(Struct, frozen=True, kw_only=True):
    """One work, and what the plan that does it computes; `share` is of all launches of a rule and kernel."""

    work: Work
    plan: Plan
    computed: tuple[Computed, ...]
    share: Share | None


def lkb(side: Side, unfused: tuple[Plan, ...], base: Base, device: Device | None) -> Lkb:
    """The report of a model's plans; `unfused` are its plans with a launch for each op."""
    works = [replace(work, context=min(work.context, side.tir.context)) for work in (WORKS[0], FIRST_PREFILL)]
    costs = Costs()
    shares = (None, None) if device is None else shares_of(side.plans, device, costs)
    ats = [_at(side, work, share) for work, share in zip(works, shares, strict=True)]
    families = tuple(_families(side, ats, base.records))
    relations = tuple(_relations(side, ats, base.records))
    return Lkb(
        model_type=side.model_type,
        arch=side.tir.arch,
        hardware_class=side.hardware.name,
        chain=side.hardware.chain,
        device="" if device is None else device.name,
        language=side.hardware.language,
        rendered=is_rendered(side.hardware),
        policy=side.plans[0].policy,
        works=tuple(work.name for work in works),
        covered=_covered(side, ats, base.records),
        families=families,
        ops=_ops(side, ats[0], base.records),
        relations=relations,
        sources=tuple((source.path, source.text.count("\n")) for source in base.sources),
        copies=tuple(_copies(side, base.inherited)),
        promotions=promotions(_differing(ats[0])),
        defaults=tuple(_defaults(side, base.records)),
        unmeasured=tuple((each.rule, each.shares[0]) for each in relations if each.against and each.launches[0]),
        laxity=tuple(found for work in works for found in laxity(side.plans, unfused, work, device, costs)),
    )


def _at(side: Side, work: Work, share: Share | None) -> _At:
    """The plan that a work begins with: the one for one row, or for a whole chunk of the prompt."""
    own = [(p, c) for p, c in zip(side.plans, side.computed, strict=True) if p.mode == work.mode]
    rows = 1 if work.mode == "decode" else min(work.context, max(plan.rows[1] for plan, _ in own))
    plan, parts = next((p, c) for p, c in own if p.rows[0] <= rows <= p.rows[1])
    return _At(work=work, plan=plan, computed=parts, share=share)


def _part(at: _At, parts: Iterable[Computed]) -> float | None:
    """The part of the work's time that some launches take."""
    if at.share is None:
        return None
    whole = dict(at.share.sites)
    counts: dict[tuple[str, str], int] = {}
    for part in at.computed:
        key = (part.rule, part.kernel)
        counts[key] = counts.get(key, 0) + len(part.launches)
    return sum(whole.get((p.rule, p.kernel), 0.0) * len(p.launches) / counts[p.rule, p.kernel] for p in parts)


def _stated_by(side: Side, family: str) -> str:
    return class_of_file(next(each.file for each in side.families if each.id == family))


def _is_tuned(side: Side, family: str) -> bool:
    return is_rendered(side.hardware) and _stated_by(side, family) == side.hardware.name


def _is_measured(side: Side, at: _At, part: Computed, records: tuple[Evidence, ...]) -> bool:
    rule = next(rule for rule in side.rules if rule.id == part.rule)
    return not against_evidence(rule, records, at.plan.mode, at.plan.rows)


def _covered(side: Side, ats: list[_At], records: tuple[Evidence, ...]) -> tuple[tuple[str, tuple[float, ...]], ...]:
    """Generated, tuned, measured: of each work the part of the time, or without a device of the launches."""

    def of(at: _At, parts: list[Computed]) -> float:
        share = _part(at, parts)
        return share if share is not None else sum(len(p.launches) for p in parts) / len(at.plan.launches)

    generated = {family.id for family in side.families if family.made == "generated"}
    return (
        ("generated", tuple(of(at, [p for p in at.computed if p.family in generated]) for at in ats)),
        ("tuned", tuple(of(at, [p for p in at.computed if _is_tuned(side, p.family)]) for at in ats)),
        ("measured", tuple(of(at, [p for p in at.computed if _is_measured(side, at, p, records)]) for at in ats)),
    )


def _families(side: Side, ats: list[_At], records: tuple[Evidence, ...]) -> Iterator[FamilyCoverage]:
    """Every family of the class, those that the works do not use too, in the order of their ids."""
    for family in side.families:
        own = [[part for part in at.computed if part.family == family.id] for at in ats]
        pairs = [(at, part) for at, parts in zip(ats, own, strict=True) for part in parts]
        yield FamilyCoverage(
            family=family.id,
            made=family.made,
            ops=family.ops,
            stated_by=_stated_by(side, family.id),
            tuned=_is_tuned(side, family.id),
            points=tuple(dict.fromkeys(part.point for _, part in pairs)),
            launches=tuple(sum(len(part.launches) for part in parts) for parts in own),
            shares=tuple(_part(at, parts) for at, parts in zip(ats, own, strict=True)),
            rules=tuple(dict.fromkeys(part.rule for _, part in pairs)),
            measured=tuple(dict.fromkeys(p.rule for at, p in pairs if _is_measured(side, at, p, records))),
        )


def _ops(side: Side, at: _At, records: tuple[Evidence, ...]) -> tuple[OpCoverage, ...]:
    """In the order of the circuit."""
    names = {node.id: node.op if node.role is None else f"{node.op}:{node.role}" for node in side.tir.nodes}
    found: dict[str, OpCoverage] = {}
    for part in at.computed:
        tuned, measured = _is_tuned(side, part.family), _is_measured(side, at, part, records)
        for place in part.launches:
            members = at.plan.launches[place].members
            for op in (names[member] for member in members):
                known = found.get(op) or OpCoverage(op=op, families=(), nodes=0, fused=0, tuned=0, measured=0)
                found[op] = OpCoverage(
                    op=op,
                    families=tuple(dict.fromkeys((*known.families, part.family))),
                    nodes=known.nodes + 1,
                    fused=known.fused + (len(members) > 1),
                    tuned=known.tuned + tuned,
                    measured=known.measured + measured,
                )
    return tuple(found.values())


def _relations(side: Side, ats: list[_At], records: tuple[Evidence, ...]) -> Iterator[Relation]:
    """Those that the works use, the largest share of decode first."""
    rules = [rule for rule in side.rules if rule.numerics == "bit_identical"]
    found = []
    for rule in rules:
        own = [[part for part in at.computed if part.rule == rule.id] for at in ats]
        if any(own):
            found.append(
                Relation(
                    rule=rule.id,
                    launches=tuple(sum(len(part.launches) for part in parts) for parts in own),
                    shares=tuple(_part(at, parts) for at, parts in zip(ats, own, strict=True)),
                    against=against_evidence(rule, records, "decode", rule.rows),
                    machines=tuple(dict.fromkeys(r.machine for r in records if r.rule == rule.id)),
                )
            )
    yield from sorted(found, key=lambda each: (-(each.shares[0] or 0.0), -(each.shares[-1] or 0.0), each.rule))


def _copies(side: Side, inherited: tuple[Family, ...]) -> Iterator[str]:
    """Points that the class states as it would inherit them."""
    known = {(family.id, point.id): point for family in inherited for point in family.points}
    for family in side.families:
        for point in family.points if class_of_file(family.file) == side.hardware.name else ():
            other = known.get((family.id, point.id))
            if other is not None and replace(point, file=other.file, line=other.line) == other:
                yield f"{family.id}.{point.id}"


def _differing(at: _At) -> Iterator[Differing]:
    """Kernels of one family that have the same ops, each beside the first of them."""
    first: dict[tuple[str, tuple[str, ...]], Computed] = {}
    seen: set[tuple[str, str]] = set()
    for part in at.computed:
        known = first.setdefault((part.family, part.ops), part)
        if (part.rule, part.kernel) not in seen and known.kernel != part.kernel:
            seen.add((part.rule, part.kernel))
            same = [each for each in at.computed if (each.rule, each.kernel) == (part.rule, part.kernel)]
            share = more_share(None, _part(at, same))
            yield Differing(family=part.family, kernel=part.kernel, differs=differences(part, known), share=share)


def _defaults(side: Side, records: tuple[Evidence, ...]) -> Iterator[str]:
    """Opt-in relations that were measured as they are and lose neither time nor energy anywhere."""
    for rule in side.rules:
        own = [record for record in records if record.rule == rule.id and record.hash == rule_hash(rule)]
        if rule.opt_in and own and not any(losses(record) for record in own):
            yield rule.id
