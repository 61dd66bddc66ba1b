"""From plans to what is displayed of them: one plan, the figures of its launches in one step, the card, the memory."""

import math

from msgspec import Struct
from msgspec.structs import replace

from circuit.errors import PlanError, Problem
from circuit.load.devices import Device
from circuit.load.hardware import HardwareClass, is_rendered
from circuit.lower.ir import Group
from circuit.plan.ir import Plan
from circuit.report.cost import Costs
from circuit.report.display.parts import Drawn, parts_of
from circuit.report.display.record import Card, Display, Figures, OnDevice, Part, Room, Spot, Stored, Timed, Totals
from circuit.report.memory import Memory, baked_bytes, memory, most_sequences, needed, stored_bytes, weight_bytes
from circuit.report.positions import Step
from circuit.report.roofline import Counted, Counts, Work, counted, covering, share, timed
from circuit.sigma.page import PAGE
from circuit.text import listed
from circuit.tir.ir import Tir

CONTEXT = 4096
"""Positions of a sequence in the step shown, or the model's context where that is shorter: as the planner's works."""


class Shown(Struct, frozen=True, kw_only=True):
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
    device: Device | None,
    shown: Shown,
) -> Display:
    """What is shown of a plan set. `names`: the model's, and its model_type; `panel`: outputs in a panel. Without a
    device, nothing that takes its figures.
    """
    every = tuple(plan for plan, _ in plans)
    work = _work(every, shown)
    step = _step(work)
    costs = Costs()
    found = counted(every, work, costs)
    held = memory(every, panel)
    on_device = None if device is None else _on(device, found, held, shown.reserved)
    times = (None,) * len(found.sites) if on_device is None else tuple(spot.timed for spot in on_device.spots)
    plan = covering(every, work.mode, step.sequences * step.rows)
    groups = next(groups for each, groups in plans if each is plan)
    figures = {(each.rule, each.kernel): _figures(each, time) for each, time in zip(found.sites, times, strict=True)}
    parts, diagrams = parts_of(Drawn(tir=tir, groups=groups, plan=plan, step=step, costs=costs, figures=figures))
    return Display(
        card=_card(tir, plan, held, panel, names),
        hardware_class=hardware.name,
        language=hardware.language,
        rendered=is_rendered(hardware),
        work=work,
        rows=plan.rows,
        parts=parts,
        diagrams=diagrams,
        totals=_totals(found),
        on_device=on_device,
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


def _flops(counts: Counts) -> int:
    return 2 * counts.products + counts.others


def _figures(counts: Counts, time: Timed | None) -> Figures:
    """Of one of the site's launches: in one step, they are all alike."""
    n = counts.launches
    return Figures(
        weights=counts.weights // n,
        states=counts.states // n,
        edges=counts.edges // n,
        flops=_flops(counts) // n,
        dots=counts.dots // n,
        timed=None if time is None else replace(time, ceiling_s=time.ceiling_s / n, share=time.share / n),
    )


def _on(device: Device, found: Counted, held: Memory, reserved: int) -> OnDevice:
    roof = timed(found, device)
    times = (Timed(ceiling_s=each.ceiling_s, share=share(each, roof), bound=each.bound) for each in roof.sites)
    return OnDevice(
        device=device,
        unit=roof.unit,
        ceiling_s=roof.ceiling_s,
        launch_s=roof.launch_s,
        spots=tuple(_spot(each, time) for each, time in zip(found.sites, times, strict=True)),
        room=_room(held, device, found.work, reserved),
    )


def _spot(counts: Counts, time: Timed) -> Spot:
    return Spot(
        rule=counts.rule,
        kernel=counts.kernel,
        launches=counts.launches,
        flops=_flops(counts),
        dots=counts.dots,
        n_bytes=counts.weights + counts.states + counts.edges,
        timed=time,
    )


def _totals(found: Counted) -> Totals:
    sites = found.sites
    return Totals(
        launches=found.launches,
        kernels=len(sites),
        weights=sum(site.weights for site in sites),
        states=sum(site.states for site in sites),
        edges=sum(site.edges for site in sites),
        flops=sum(map(_flops, sites)),
        dots=sum(site.dots for site in sites),
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
