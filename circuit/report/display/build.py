"""From plans to what is displayed of them: one plan, the figures of its launches in one step, the card, the memory."""

import math
from dataclasses import dataclass, replace

from circuit.errors import PlanError, Problem
from circuit.load.devices import Device
from circuit.load.hardware import HardwareClass
from circuit.lower.ir import Group
from circuit.plan.ir import Plan
from circuit.report.display.parts import Drawn, parts_of
from circuit.report.display.record import Card, Display, Figures, Part, Room, Spot, Stored, Totals
from circuit.report.memory import Memory, baked_bytes, memory, most_sequences, needed, stored_bytes, weight_bytes
from circuit.report.positions import Step
from circuit.report.roofline import Roofline, Site, Work, covering, roofline, share
from circuit.sigma.page import PAGE
from circuit.text import listed
from circuit.tir.ir import Tir

CONTEXT = 4096
"""Positions of a sequence in the step shown, or the model's context where that is shorter: as the planner's works."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What is asked for: a mode, how many rows its step has (of as many sequences in decode, of one in prefill), and
    memory that is not for the plan. Without rows: one in decode; in prefill as many as a step can have, up to CONTEXT.
    """

    mode: str = "decode"
    rows: int | None = None
    reserved: int = 0


def display(
    tir: Tir,
    plans: tuple[tuple[Plan, tuple[Group, ...]], ...],
    panel: int,
    names: tuple[str, str],
    hardware: HardwareClass,
    device: Device,
    shown: Shown,
) -> Display:
    """What is shown of a plan set. `names`: the model's, and its model_type; `panel`: outputs in a panel."""
    every = tuple(plan for plan, _ in plans)
    work = _work(every, shown)
    step = _step(work)
    found = roofline(every, device, work)
    plan = covering(every, work.mode, step.sequences * step.rows)
    groups = next(groups for each, groups in plans if each is plan)
    figures = {(site.rule, site.kernel): _figures(site, found) for site in found.sites}
    parts, diagrams = parts_of(Drawn(tir=tir, groups=groups, plan=plan, step=step, figures=figures))
    held = memory(every, panel)
    return Display(
        card=_card(tir, plan, held, panel, names),
        device=device,
        language=hardware.language,
        rendered=hardware.proven_by == hardware.name,
        work=work,
        rows=plan.rows,
        parts=parts,
        diagrams=diagrams,
        totals=_totals(found),
        unit=found.unit,
        spots=tuple(_spot(site, found) for site in found.sites),
        room=_room(held, device, work, shown.reserved),
    )


def _work(plans: tuple[Plan, ...], shown: Shown) -> Work:
    context = min(CONTEXT, plans[0].context)
    most = max(plan.rows[1] for plan in plans if plan.mode == shown.mode)
    if shown.rows is not None and shown.rows > most:
        message = f"--rows {shown.rows}: a {shown.mode} step of class {plans[0].hardware_class} has at most {most} rows"
        raise PlanError(Problem(message=message, fix=f"give --rows of at most {most}"))
    if shown.mode == "decode":
        rows = shown.rows or 1
        return Work(name=f"decode {rows}", mode="decode", sequences=rows, context=context)
    rows = shown.rows or min(most, context)
    if rows > plans[0].context:
        message = f"--rows {rows}: the model has {plans[0].context} positions"
        raise PlanError(Problem(message=message, fix=f"give --rows of at most {plans[0].context}"))
    return Work(name=f"prefill {rows}", mode="prefill", sequences=1, context=rows)


def _step(work: Work) -> Step:
    """The one step of the work: of a prefill, the last, whose last row gets logits."""
    if work.mode == "decode":
        return Step(sequences=work.sequences, rows=1, first=work.context - 1, logit_rows=work.sequences)
    return Step(sequences=1, rows=work.context, first=0, logit_rows=1)


def _flops(site: Site) -> int:
    return 2 * site.products + site.others


def _figures(site: Site, of: Roofline) -> Figures:
    """Of one of the site's launches: in one step, they are all alike."""
    n = site.launches
    return Figures(
        weights=site.weights // n,
        states=site.states // n,
        edges=site.edges // n,
        flops=_flops(site) // n,
        dots=site.dots // n,
        ceiling_s=site.ceiling_s / n,
        share=share(site, of) / n,
        bound=site.bound,
    )


def _spot(site: Site, of: Roofline) -> Spot:
    return Spot(
        rule=site.rule,
        kernel=site.kernel,
        launches=site.launches,
        flops=_flops(site),
        dots=site.dots,
        n_bytes=site.weights + site.states + site.edges,
        ceiling_s=site.ceiling_s,
        share=share(site, of),
        bound=site.bound,
    )


def _totals(found: Roofline) -> Totals:
    sites = found.sites
    return Totals(
        launches=found.launches,
        kernels=len(sites),
        weights=sum(site.weights for site in sites),
        states=sum(site.states for site in sites),
        edges=sum(site.edges for site in sites),
        flops=sum(map(_flops, sites)),
        dots=sum(site.dots for site in sites),
        ceiling_s=found.ceiling_s,
        launch_s=found.launch_s,
        tokens=found.tokens,
    )


def _card(tir: Tir, plan: Plan, held: Memory, panel: int, names: tuple[str, str]) -> Card:
    formats: dict[str, Stored] = {}
    for weight in plan.weights:
        known = formats.get(weight.format, Stored(format=weight.format, tensors=0, parameters=0, stored=0, baked=0))
        formats[weight.format] = replace(
            known,
            tensors=known.tensors + 1,
            parameters=known.parameters + math.prod(weight.shape),
            stored=known.stored + stored_bytes(weight),
            baked=known.baked + baked_bytes(weight, panel),
        )
    return Card(
        name=names[0],
        model_type=names[1],
        arch=plan.arch,
        parameters=sum(each.parameters for each in formats.values()),
        layers=len({node.layer for node in tir.nodes if node.layer is not None}),
        widths=tuple((name, value) for name, value in tir.dims if name != "layers"),
        formats=tuple(formats.values()),
        context=plan.context,
        kv_format=listed(dict.fromkeys(format for _, format, _, _ in held.states)),
        kv_bytes=held.token_bytes,
        policy=plan.policy,
        bytes_digest=dict(plan.parts)["bytes"],
    )


def _room(held: Memory, device: Device, work: Work, reserved: int) -> Room:
    total, weights = int(device.memory_bytes.value), weight_bytes(held)
    arena = max(n for _, _, n in held.arenas)
    pages = work.sequences * -(-work.context // PAGE) * held.page_bytes
    return Room(
        memory=total,
        weights=weights,
        pages=pages,
        arena=arena,
        reserved=reserved,
        free=total - reserved - needed(held, work.sequences, work.context),
        most_sequences=most_sequences(held, total - reserved, work.context),
    )


def part_named(report: Display, name: str) -> Part:
    """The part that `--layer` names, as `3`, `layer 3` or `head`; an unknown one is a PlanError."""
    wanted = f"layer {name}" if name.isdecimal() else name
    found = next((part for part in report.parts if part.name == wanted), None)
    if found is None:
        numbers = [part.layer for part in report.parts if part.layer is not None]
        others = listed(part.name for part in report.parts if part.layer is None)
        layers = f"layers {min(numbers)}-{max(numbers)}" if numbers else "no layers"
        message = f"there is no layer `{name}`; there are {layers}, and {others}"
        raise PlanError(Problem(message=message, fix=f"give --layer a number of them, or one of: {others}"))
    return found
