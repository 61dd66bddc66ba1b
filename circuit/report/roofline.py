"""How fast a plan can run on a device: bytes and operations of each launch against the device's rates.

The time of a launch is the longest of moving its bytes and of what each unit has to do, for a processor starts
instructions of several units at once; the ceiling is the sum of these, the prediction adds what a launch costs beside
its work. Both are for one device and leave out what is between steps.
"""

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from circuit.errors import PlanError, Problem
from circuit.load.devices import Device, rate
from circuit.lower.ir import Slot
from circuit.plan.ir import Plan
from circuit.report.cost import Cost, Costs
from circuit.report.positions import Step

PORTABLE = "fma.f32"
"""What products run on where bytes must be equal on every class."""

LOGIC = "logic.u32"
"""What takes codes out of words."""

DOTS = "dot4.i8"
"""What multiplies codes with codes."""

ON_REQUEST = ("score", "hidden")
"""Sections that a step of answering has not: what log-probabilities and embeddings need."""


class Work(Struct, frozen=True, kw_only=True):
    """A task: `sequences` at once, each either one more token after `context` others, or `context` tokens read."""

    name: str
    mode: Literal["decode", "prefill"]
    sequences: int
    context: int


FIRST_PREFILL = Work(name="prefill 4k", mode="prefill", sequences=1, context=4096)
WORKS = (
    Work(name="decode 1", mode="decode", sequences=1, context=4096),
    Work(name="decode 16", mode="decode", sequences=16, context=4096),
    Work(name="decode 128", mode="decode", sequences=128, context=4096),
    FIRST_PREFILL,
    Work(name="prefill 32k", mode="prefill", sequences=1, context=32768),
)
"""What is asked of every device. Decode, and the first prefill, are cut to the model's context; what is beyond it else
is left out.
"""

Bound = Literal["memory", "operations"]


class Launches(Struct, frozen=True, kw_only=True):
    """All launches of one kernel under one rule. Bytes and operations are of all of them together.

    `weights`, `states` and `edges` are the bytes read and written of each kind.
    """

    rule: str
    kernel: str
    launches: int
    weights: int
    states: int
    edges: int
    products: int
    others: int
    codes: int
    dots: int


class Counts(Launches, frozen=True, kw_only=True):
    """The same on any device. `costs`: of one launch, and how many launches have it."""

    costs: tuple[tuple[Cost, int], ...]


class Counted(Struct, frozen=True, kw_only=True):
    """One work without a device: all of a Roofline that no rate is needed for."""

    work: Work
    rows: tuple[int, int]
    steps: int
    sites: tuple[Counts, ...]
    launches: int
    tokens: int


class Site(Launches, frozen=True, kw_only=True):
    """The same on one device: `ceiling_s`, seconds of all of them together, is without what launches cost."""

    ceiling_s: float
    bound: Bound


class Roofline(Struct, frozen=True, kw_only=True):
    """One work on one device. `tokens` is how many a run of `ceiling_s` gives; `launch_s` is of all launches.

    `steps` is how often the plan runs. `unit` is the instruction that products run on. `weight_floor_s`: reading the
    weights once, whatever else happens.
    """

    work: Work
    rows: tuple[int, int]
    steps: int
    unit: str
    sites: tuple[Site, ...]
    launches: int
    launch_s: float | None
    ceiling_s: float
    weight_bytes: int
    weight_floor_s: float
    tokens: int


def roofline(
    plans: tuple[Plan, ...], device: Device, work: Work, unit: str = PORTABLE, *, costs: Costs | None = None
) -> Roofline:
    """The roofline of the plan of the set that covers the work. A context beyond the plan's is a PlanError. `costs` are
    those of the report, where it has more to ask of the same kernels."""
    return timed(counted(plans, work, Costs() if costs is None else costs), device, unit)


def counted(plans: tuple[Plan, ...], work: Work, costs: Costs) -> Counted:
    """What the plan of the set that covers the work does in it. A context beyond the plan's is a PlanError."""
    steps = tuple(steps_of(plans, work))
    found: dict[tuple[str, str], list[tuple[Cost, tuple[Slot, ...], int]]] = {}
    launches = 0
    for plan, step in steps:
        times: dict[tuple[str, int], int] = {}
        for launch in plan.launches:
            if launch.section in ON_REQUEST:
                continue
            times[launch.rule, launch.kernel] = times.get((launch.rule, launch.kernel), 0) + 1
        for (rule, place), count in times.items():
            kernel = plan.kernels[place]
            cost = costs.at_any_position(kernel, step)
            found.setdefault((rule, kernel.name), []).append((cost, kernel.slots, count))
            launches += count
    return Counted(
        work=work,
        rows=steps[0][0].rows,
        steps=len(steps),
        sites=tuple(_counts(rule, name, each) for (rule, name), each in found.items()),
        launches=launches,
        tokens=work.sequences * (1 if work.mode == "decode" else work.context),
    )


def timed(found: Counted, device: Device, unit: str = PORTABLE) -> Roofline:
    """The same on a device."""
    rates = _rates(device, unit)
    sites = tuple(_site(each, device, rates) for each in found.sites)
    weight_bytes = sum(site.weights for site in sites) // found.steps
    return Roofline(
        work=found.work,
        rows=found.rows,
        steps=found.steps,
        unit=unit,
        sites=sites,
        launches=found.launches,
        launch_s=None if device.launch_s is None else found.launches * device.launch_s.value,
        ceiling_s=sum(site.ceiling_s for site in sites),
        weight_bytes=weight_bytes,
        weight_floor_s=weight_bytes / device.bandwidth.value,
        tokens=found.tokens,
    )


class Rates(Struct, frozen=True, kw_only=True):
    """Operations a second: of products, of the vector unit, of logic on words and of integer products. `same_unit`: the
    vector unit does the products too.

    Where a rate is None, the device states none, and the ceiling counts these operations as free.
    """

    same_unit: bool
    products: float
    vector: float
    codes: float | None
    dots: float | None


def _rates(device: Device, unit: str) -> Rates:
    products, vector, codes, dots = (rate(device, name) for name in (unit, PORTABLE, LOGIC, DOTS))
    assert products is not None, f"{device.id} has no rate for {unit}"
    assert vector is not None, f"{device.id} has no rate for {PORTABLE}"
    return Rates(
        same_unit=unit == PORTABLE,
        products=products.value,
        vector=vector.value,
        codes=None if codes is None else codes.value,
        dots=None if dots is None else dots.value,
    )


def _work_s(cost: Cost, rates: Rates) -> float:
    """Seconds for all operations, where units that differ work at the same time; a multiply-add counts two."""
    products_s, others_s = 2 * cost.products / rates.products, 2 * cost.others / rates.vector
    codes_s = 0.0 if rates.codes is None else cost.codes / rates.codes
    dots_s = 0.0 if rates.dots is None else 2 * cost.dots / rates.dots
    floats_s = products_s + others_s if rates.same_unit else max(products_s, others_s)
    return max(floats_s, codes_s, dots_s)


def share(site: Site, of: Roofline) -> float:
    """The part of the ceiling's time that a site takes."""
    return site.ceiling_s / of.ceiling_s


def steps_of(plans: tuple[Plan, ...], work: Work) -> Iterator[tuple[Plan, Step]]:
    """The steps of a work, each with the plan that covers its rows."""
    own = [plan for plan in plans if plan.mode == work.mode]
    if work.context > own[0].context:
        message = f"{work.name} is at {work.context} positions, the model has {own[0].context}"
        raise PlanError(Problem(message=message, fix=f"ask for at most {own[0].context} positions"))
    most = max(plan.rows[1] for plan in own)
    if work.mode == "decode":
        if work.sequences > most:
            message = f"{work.name} has {work.sequences} rows, the class plans for at most {most}"
            raise PlanError(Problem(message=message, fix=f"ask for at most {most} sequences"))
        yield (
            covering(plans, work.mode, work.sequences),
            Step(sequences=work.sequences, rows=1, first=work.context - 1, logit_rows=work.sequences),
        )
        return
    for first in range(0, work.context, most):
        rows = min(most, work.context - first)
        last = first + rows == work.context
        yield covering(plans, work.mode, rows), Step(sequences=1, rows=rows, first=first, logit_rows=int(last))


def covering(plans: tuple[Plan, ...], mode: str, rows: int) -> Plan:
    """The plan of the set that runs a step of a mode with so many rows; there must be one."""
    return next(plan for plan in plans if plan.mode == mode and plan.rows[0] <= rows <= plan.rows[1])


def _counts(rule: str, kernel: str, found: list[tuple[Cost, tuple[Slot, ...], int]]) -> Counts:
    kinds = {"weight": 0, "state": 0, "edge": 0}
    products = others = codes = dots = launches = 0
    for cost, slots, count in found:
        for slot, read, written in zip(slots, cost.read, cost.written, strict=True):
            kind = slot.kind if slot.kind in kinds else "edge"
            kinds[kind] += count * (read + written)
        products += count * cost.products
        others += count * cost.others
        codes += count * cost.codes
        dots += count * cost.dots
        launches += count
    return Counts(
        rule=rule,
        kernel=kernel,
        launches=launches,
        weights=kinds["weight"],
        states=kinds["state"],
        edges=kinds["edge"],
        products=products,
        others=others,
        codes=codes,
        dots=dots,
        costs=tuple((cost, count) for cost, _, count in found),
    )


def _site(counts: Counts, device: Device, rates: Rates) -> Site:
    moving = working = seconds = 0.0
    for cost, count in counts.costs:
        memory_s, work_s = (sum(cost.read) + sum(cost.written)) / device.bandwidth.value, _work_s(cost, rates)
        moving += count * memory_s
        working += count * work_s
        seconds += count * max(memory_s, work_s)
    return Site(
        rule=counts.rule,
        kernel=counts.kernel,
        launches=counts.launches,
        weights=counts.weights,
        states=counts.states,
        edges=counts.edges,
        products=counts.products,
        others=counts.others,
        codes=counts.codes,
        dots=counts.dots,
        ceiling_s=seconds,
        bound="memory" if moving >= working else "operations",
    )
