"""Which kernels of a model other models have too, on one class: each site of its plans, set beside theirs.

A site is shared where another model runs the same program; `shared` also needs evidence that was measured on the class.
Where another model has the ops of a site in one launch of the same family, what they differ in says what a kernel would
have to take as a parameter to serve both.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from circuit.load.devices import Device
from circuit.load.evidence import Evidence
from circuit.load.hardware import is_rendered
from circuit.load.rules import Rule
from circuit.plan.ir import Plan
from circuit.report.computed import Computed, Difference, differences, has_codes
from circuit.report.cost import Costs
from circuit.report.measured import against_evidence
from circuit.report.promotion import Differing, Promotion, more_share, promotions
from circuit.report.shares import Share, shares_of
from circuit.report.sides import Side

Standing = Literal["shared", "shared-unmeasured", "policy variant", "parameterization", "novel"]
STANDINGS: tuple[Standing, ...] = ("shared", "shared-unmeasured", "policy variant", "parameterization", "novel")


class VennModel(Struct, frozen=True, kw_only=True):
    """A model of the comparison under its letter. `weights` are the storage formats of its projections."""

    letter: str
    model_type: str
    arch: str
    context: int
    dims: tuple[tuple[str, int], ...]
    weights: tuple[str, ...]
    policy: tuple[tuple[str, str], ...]
    bytes_digest: str


class VennSite(Struct, frozen=True, kw_only=True):
    """All launches of one kernel under one rule, in the plans of `rows` of a mode.

    `beside` is the letter of the model with the nearest kernel, `there` its name, `differs` what is different about it:
    nothing where it is shared. `novel` are ops, with the nodes that they are, that no other model has in one launch of
    the family. `measured` are machines with evidence for the rule at such rows. `share` is the part of the mode's work
    that the site takes on the device; None without a device, or where the work has other rows.
    """

    mode: str
    rows: tuple[tuple[int, int], ...]
    rule: str
    family: str
    kernel: str
    members: tuple[str, ...]
    launches: int
    standing: Standing
    beside: str
    there: str
    differs: tuple[Difference, ...]
    novel: tuple[str, ...]
    measured: tuple[str, ...]
    share: float | None


class Venn(Struct, frozen=True, kw_only=True):
    """The first model beside the others. `others` are, by letter, the novel sites of each other model: what it has that
    none of the rest has. `works` are the names of the works that shares are of."""

    hardware_class: str
    device: str
    language: str
    rendered: bool
    models: tuple[VennModel, ...]
    works: tuple[tuple[str, str], ...]
    sites: tuple[VennSite, ...]
    promotions: tuple[Promotion, ...]
    unmeasured: tuple[tuple[str, float | None], ...]
    others: tuple[tuple[str, tuple[VennSite, ...]], ...]


def venn(sides: tuple[Side, ...], records: tuple[Evidence, ...], device: Device | None) -> Venn:
    """The report of sides of one class; `records` are the evidence of that class."""
    letters = tuple(chr(ord("A") + place) for place in range(len(sides)))
    shares = () if device is None else shares_of(sides[0].plans, device, Costs())
    sites = tuple(_sites(sides, 0, records, shares))
    own = sides[0].hardware
    others = tuple(
        (letters[at], tuple(site for site in _sites(sides, at, records, ()) if site.standing == "novel"))
        for at in range(1, len(sides))
    )
    return Venn(
        hardware_class=own.name,
        device="" if device is None else device.name,
        language=own.language,
        rendered=is_rendered(sides[0].hardware),
        models=tuple(_model(letter, side) for letter, side in zip(letters, sides, strict=True)),
        works=tuple((share.mode, share.work) for share in shares),
        sites=sites,
        promotions=promotions(
            Differing(family=s.family, kernel=s.kernel, differs=s.differs, share=_decode(s)) for s in sites
        ),
        unmeasured=_unmeasured(sites, sides[0].rules),
        others=others,
    )


def _model(letter: str, side: Side) -> VennModel:
    return VennModel(
        letter=letter,
        model_type=side.model_type,
        arch=side.tir.arch,
        context=side.tir.context,
        dims=side.tir.dims,
        weights=tuple(dict.fromkeys(weight.format for weight in side.tir.weights if len(weight.shape) == 2)),
        policy=side.plans[0].policy,
        bytes_digest=dict(side.plans[0].parts)["bytes"],
    )


def _sites(
    sides: tuple[Side, ...], own: int, records: tuple[Evidence, ...], shares: tuple[Share, ...]
) -> Iterator[VennSite]:
    """The sites of one model; those of plans of one mode that stand alike are one, in the order of the first."""
    rules = {rule.id: rule for rule in sides[own].rules}
    alike: dict[tuple[object, ...], VennSite] = {}
    for plan, parts in zip(sides[own].plans, sides[own].computed, strict=True):
        share = next((s for s in shares if (s.mode, s.rows) == (plan.mode, plan.rows)), None)
        for same in _by_kernel(parts):
            site = _placed(same, plan, sides, own, rules, records)
            if share is not None:
                site = replace(site, share=dict(share.sites).get((site.rule, site.kernel), 0.0))
            key = (site.mode, site.rule, site.kernel, site.launches, site.standing, site.beside, site.differs)
            known = alike.get(key)
            alike[key] = site if known is None else _joined(known, site)
    yield from alike.values()


def _joined(site: VennSite, more: VennSite) -> VennSite:
    """The site with the rows of another plan, which are joined to the last ones where they follow these."""
    (*before, last), (rows,) = site.rows, more.rows
    ranges = (*before, (last[0], rows[1])) if last[1] + 1 == rows[0] else (*site.rows, rows)
    measured = tuple(dict.fromkeys((*site.measured, *more.measured)))
    return replace(site, rows=ranges, measured=measured, share=more.share if site.share is None else site.share)


def _by_kernel(parts: tuple[Computed, ...]) -> Iterator[Computed]:
    """Launches of one kernel under one rule are one site, whatever their members are called."""
    alike: dict[tuple[str, str], Computed] = {}
    for part in parts:
        known = alike.get((part.rule, part.kernel))
        alike[part.rule, part.kernel] = (
            part if known is None else replace(known, launches=(*known.launches, *part.launches))
        )
    yield from alike.values()


def _placed(
    same: Computed, plan: Plan, sides: tuple[Side, ...], own: int, rules: dict[str, Rule], records: tuple[Evidence, ...]
) -> VennSite:
    """One site of one plan, beside the nearest kernel of the others' plans for such rows; else for any rows."""
    others = [(at, side) for at, side in enumerate(sides) if at != own]
    best = _best(same, [(at, there, ()) for at, side in others for there in _for_rows(side, plan)])
    if best is None:
        best = _best(same, [each for at, side in others for each in _elsewhere(at, side, plan)])
    measured = () if against_evidence(rules.get(same.rule), records, plan.mode, plan.rows) else _machines(same, records)
    fresh: list[str] = []
    if set(same.ops) <= POLICY_OPS:
        standing: Standing = "policy variant" if best is None else _standing(best.differs)
    elif best is None:
        standing = "novel"
        known = {
            op
            for _, side in others
            for parts in side.computed
            for p in parts
            if p.family == same.family
            for op in p.ops
        }
        fresh = [f"{op} ({m})" for op, m in zip(same.ops, same.members, strict=True) if op not in known]
        fresh = fresh or [f"{op} ({m})" for op, m in zip(same.ops, same.members, strict=True)]
    else:
        standing = _standing(best.differs)
    if standing == "shared" and not measured:
        standing = "shared-unmeasured"
    return VennSite(
        mode=plan.mode,
        rows=(plan.rows,),
        rule=same.rule,
        family=same.family,
        kernel=same.kernel,
        members=same.members,
        launches=len(same.launches),
        standing=standing,
        beside="" if best is None else chr(ord("A") + best.side),
        there="" if best is None else best.there.kernel,
        differs=() if best is None else best.differs,
        novel=tuple(fresh),
        measured=measured,
        share=None,
    )


Candidate = tuple[int, Computed, tuple[Difference, ...]]
"""The place of a side, a kernel of it, and what is different of its plan already."""


class _Best(Struct, frozen=True, kw_only=True):
    """The nearest kernel, and of which side."""

    side: int
    there: Computed
    differs: tuple[Difference, ...]


def _best(same: Computed, candidates: list[Candidate]) -> _Best | None:
    """Of kernels that can be set beside it, the one with the best standing, the same ops and the fewest differences."""
    found: list[tuple[tuple[int, int, int, int], _Best]] = []
    for side, other, known in candidates:
        if _alike(same, other):
            differs = (*known, *differences(same, other))
            rank = (STANDINGS.index(_standing(differs)), int(same.ops != other.ops), len(differs), side)
            found.append((rank, _Best(side=side, there=other, differs=differs)))
    return min(found, key=lambda each: each[0])[1] if found else None


def _for_rows(side: Side, plan: Plan) -> Iterator[Computed]:
    """What a model's plans compute for the mode and some of the rows of a plan of another model."""
    for other, parts in zip(side.plans, side.computed, strict=True):
        if other.mode == plan.mode and other.rows[0] <= plan.rows[1] and plan.rows[0] <= other.rows[1]:
            yield from parts


def _elsewhere(at: int, side: Side, plan: Plan) -> Iterator[Candidate]:
    """What all plans of a model compute, with the rows as a difference."""
    for other, parts in zip(side.plans, side.computed, strict=True):
        own, there = (f"{each.mode} {each.rows[0]}-{each.rows[1]}" for each in (plan, other))
        for part in parts:
            yield at, part, (Difference(name="rows", kind="plan", own=own, other=there),)


POLICY_OPS = frozenset({"act_quant"})
"""Ops that the policy puts into a circuit."""


def _alike(one: Computed, other: Computed) -> bool:
    """Whether a kernel can be set beside another: the same ops, or some of those of one launch of its family; where the
    policy made codes of the rows of one side, some of the ops of either, in any family."""
    if one.ops == other.ops:
        return True
    if has_codes(one) == has_codes(other):
        return one.family == other.family and not Counter(one.ops) - Counter(other.ops)
    a, b = (Counter(op for op in each.ops if op not in POLICY_OPS) for each in (one, other))
    return bool(a and b) and (not a - b or not b - a)


def _standing(differs: tuple[Difference, ...]) -> Standing:
    """Other rows alone are as little a policy as a parameter is."""
    if not differs:
        return "shared"
    kinds = {each.kind for each in differs} - {"plan"}
    return "policy variant" if kinds == {"policy"} else "parameterization"


def _machines(same: Computed, records: tuple[Evidence, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(record.machine for record in records if record.rule == same.rule))


def _decode(site: VennSite) -> float | None:
    return site.share if site.mode == "decode" else None


def _unmeasured(sites: tuple[VennSite, ...], rules: tuple[Rule, ...]) -> tuple[tuple[str, float | None], ...]:
    """Relations of decode sites that are shared but for a measurement, each with its share."""
    relations = {rule.id for rule in rules if rule.numerics == "bit_identical"}
    found: dict[str, float | None] = {}
    for site in sites:
        if site.standing == "shared-unmeasured" and site.mode == "decode" and site.rule in relations:
            found[site.rule] = more_share(found.get(site.rule), site.share)
    return tuple(sorted(found.items(), key=lambda item: (-(item[1] or 0.0), item[0])))
