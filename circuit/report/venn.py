"""Which kernels of a model other models have too, on one class: each site of its plans, set beside theirs.

A site is shared where another model runs the same program; `shared` also needs evidence that was measured on the class.
Where another model has the ops of a site in one launch of the same family, what they differ in says what a kernel would
have to take as a parameter to serve both.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from circuit.load.devices import Device
from circuit.load.evidence import Evidence
from circuit.load.rules import Rule
from circuit.plan.ir import Plan
from circuit.report.computed import Computed, Difference, differences
from circuit.report.measured import against_evidence
from circuit.report.promotion import Differing, Promotion, more_share, promotions
from circuit.report.shares import Share, shares_of
from circuit.report.sides import Side, is_rendered

Standing = Literal["shared", "shared-unmeasured", "policy variant", "parameterization", "novel"]
STANDINGS: tuple[Standing, ...] = ("shared", "shared-unmeasured", "policy variant", "parameterization", "novel")


@dataclass(frozen=True, slots=True, kw_only=True)
class VennModel:
    """A model of the comparison under its letter. `weights` are the storage formats of its projections."""

    letter: str
    model_type: str
    arch: str
    context: int
    dims: tuple[tuple[str, int], ...]
    weights: tuple[str, ...]
    policy: tuple[tuple[str, str], ...]
    bytes_digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VennSite:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Venn:
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
    shares = () if device is None else shares_of(sides[0].plans, device)
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
        rendered=is_rendered(sides[0]),
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
    """One site of one plan, beside the nearest kernel of the others' plans for such rows."""
    best: tuple[tuple[int, int, int, int], int, Computed, tuple[Difference, ...]] | None = None
    overlap: set[str] = set()
    for at, side in enumerate(sides):
        for other in _for_rows(side, plan) if at != own else ():
            if other.family == same.family:
                overlap |= set(other.ops)
            if not _alike(same, other):
                continue
            differs = differences(same, other)
            rank = (STANDINGS.index(_standing(differs)), int(same.ops != other.ops), len(differs), at)
            if best is None or rank < best[0]:
                best = (rank, at, other, differs)
    measured = () if against_evidence(rules.get(same.rule), records, plan.mode, plan.rows) else _machines(same, records)
    if best is None:
        standing: Standing = "novel"
        fresh = [f"{op} ({m})" for op, m in zip(same.ops, same.members, strict=True) if op not in overlap]
    else:
        standing = _standing(best[3])
        standing = "shared-unmeasured" if standing == "shared" and not measured else standing
        fresh = []
    return VennSite(
        mode=plan.mode,
        rows=(plan.rows,),
        rule=same.rule,
        family=same.family,
        kernel=same.kernel,
        members=same.members,
        launches=len(same.launches),
        standing=standing,
        beside="" if best is None else chr(ord("A") + best[1]),
        there="" if best is None else best[2].kernel,
        differs=() if best is None else best[3],
        novel=tuple(fresh),
        measured=measured,
        share=None,
    )


def _for_rows(side: Side, plan: Plan) -> Iterator[Computed]:
    """What a model's plans compute for the mode and some of the rows of a plan of another model."""
    for other, parts in zip(side.plans, side.computed, strict=True):
        if other.mode == plan.mode and other.rows[0] <= plan.rows[1] and plan.rows[0] <= other.rows[1]:
            yield from parts


def _alike(one: Computed, other: Computed) -> bool:
    """Whether a kernel can be set beside another: the same ops, or some of those of one launch of its family."""
    return one.ops == other.ops or (one.family == other.family and not Counter(one.ops) - Counter(other.ops))


def _standing(differs: tuple[Difference, ...]) -> Standing:
    if not differs:
        return "shared"
    return "policy variant" if all(each.kind == "policy" for each in differs) else "parameterization"


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
