"""A plan as text. Layers that are the same are folded into one with a range; `unfolded_text` prints each launch."""

import re
from collections.abc import Iterator
from itertools import groupby
from textwrap import wrap

from msgspec import Struct

from circuit.lower.ir import Slot
from circuit.plan.digest import kernel_digest
from circuit.plan.ir import BufferAt, Launch, Plan, StateAt, StepInput, Target, WeightAt

WIDTH = 100


def plan_text(plan: Plan) -> str:
    """The plan with equal layers folded: names of layer i, i+1 and i-1 stand for those of each layer."""
    return _text(plan, _folded(plan))


def unfolded_text(plan: Plan) -> str:
    """The plan with every launch, and every buffer with its place in the arena."""
    lines = [line for place in range(len(plan.launches)) for line in _launch(plan, place, None)]
    return _text(plan, [*lines, "", *_buffers(plan)])


def _text(plan: Plan, launches: list[str]) -> str:
    bodies = ([*_head(plan)], [*_kernels(plan)], launches, [*_certificate(plan)])
    return "\n\n".join("\n".join(body) for body in bodies) + "\n"


def _head(plan: Plan) -> Iterator[str]:
    lo, hi = plan.rows
    yield f"plan of {plan.arch} on class {plan.hardware_class}: {plan.mode}, rows {lo}-{hi}, context {plan.context}"
    yield f"digest {plan.digest}"
    yield f"policy {' '.join(f'{key}={value}' for key, value in plan.policy)}"
    for note in plan.notes:
        yield from wrap(note, WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    if plan.settings:
        yield from wrap(f"settings {' '.join(plan.settings)}", WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    for name, value in plan.parts:
        yield f"part {name:<10} {value}"
    counts = (
        f"{len(plan.launches)} launches of {len(plan.kernels)} kernels",
        f"{len(plan.weights)} weights",
        f"{len(plan.states)} states",
        f"arena {plan.arena_bytes} bytes",
    )
    yield "total " + ", ".join(counts)


def _kernels(plan: Plan) -> Iterator[str]:
    for place, kernel in enumerate(plan.kernels):
        yield f"kernel k{place} {kernel.name} {kernel.family}.{kernel.point} {kernel_digest(kernel)[:16]}"


def _certificate(plan: Plan) -> Iterator[str]:
    yield "certificate"
    for axis in plan.certificate:
        yield from wrap(
            f"{axis.axis}: {axis.holds}; {axis.evidence}",
            WIDTH,
            initial_indent="  ",
            subsequent_indent="      ",
            break_long_words=False,
            break_on_hyphens=False,
        )


def _buffers(plan: Plan) -> Iterator[str]:
    for place, buffer in enumerate(plan.buffers):
        yield (
            f"buffer b{place} {buffer.name} {buffer.rows} x {buffer.columns} at {buffer.offset_bytes} "
            f"bytes {buffer.n_bytes} alive {buffer.first}-{buffer.last}"
        )


class _Run(Struct, frozen=True, kw_only=True):
    """Launches of one layer that follow each other: `body` with the layer's number left out."""

    layer: int | None
    places: tuple[int, ...]
    body: tuple[str, ...]


def _folded(plan: Plan) -> list[str]:
    runs = []
    for layer, grouped in groupby(range(len(plan.launches)), key=lambda place: plan.launches[place].layer):
        places = tuple(grouped)
        body = tuple(line for place in places for line in _launch(plan, place, layer))
        runs.append(_Run(layer=layer, places=places, body=body))
    alike: dict[tuple[str, ...], list[_Run]] = {}
    for run in runs:
        alike.setdefault(run.body if run.layer is not None else (str(run.places),), []).append(run)
    lines = []
    for same in alike.values():
        first = same[0]
        if first.layer is not None:
            layers = [run.layer for run in same if run.layer is not None]
            launches = ranges_text([place for run in same for place in run.places])
            lines += wrap(f"layer i = {ranges_text(layers)} ({len(same)}x): launches {launches}", WIDTH)
        lines += first.body
    return lines


def _launch(plan: Plan, place: int, layer: int | None) -> Iterator[str]:
    """One launch; where `layer` is given, names of that layer and its neighbours are relative to it."""
    launch = plan.launches[place]
    kernel = plan.kernels[launch.kernel]
    names = " ".join(relative(name, layer) for name in launch.members)
    head = "    " if layer is not None else f"{place:>3} "
    yield from wrap(
        f"{launch.rule} k{launch.kernel} {kernel.family}.{kernel.point} {launch.numerics} [{names}]",
        WIDTH,
        initial_indent=head,
        subsequent_indent="        ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    for verb, kinds in (
        ("reads", ("in", "step")),
        ("writes", ("out", "scratch")),
        ("weights", ("weight",)),
        ("state", ("state",)),
    ):
        found = [_target(plan, slot, target, layer) for slot, target in _targets(plan, launch) if slot.kind in kinds]
        if found:
            yield from wrap(
                f"{verb} {' '.join(found)}",
                WIDTH,
                initial_indent="      ",
                subsequent_indent="        ",
                break_long_words=False,
                break_on_hyphens=False,
            )


def _targets(plan: Plan, launch: Launch) -> Iterator[tuple[Slot, Target]]:
    yield from zip(plan.kernels[launch.kernel].slots, launch.targets, strict=True)


def _target(plan: Plan, slot: Slot, target: Target, layer: int | None) -> str:
    match target:
        case BufferAt(buffer=place, column=column):
            buffer = plan.buffers[place]
            at = f"[{column}]" if column else ""
            return f"{relative(buffer.name, layer)}{at}"
        case WeightAt(weight=place):
            weight = plan.weights[place]
            return f"{relative(weight.name, layer)}:{weight.format}"
        case StateAt(state=place):
            return relative(plan.states[place].name, layer)
        case StepInput(name=name):
            return f"${name}"


def relative(name: str, layer: int | None) -> str:
    """`l7.attn.q` as `l{i}.attn.q` in layer 7, as `l{i+1}.attn.q` in layer 6."""
    found = re.match(r"l(\d+)\.(.*)", name)
    if layer is None or found is None:
        return name
    step = int(found[1]) - layer
    return f"l{{i{step:+d}}}.{found[2]}" if step else f"l{{i}}.{found[2]}"


def ranges_text(numbers: list[int]) -> str:
    """`0-3, 7`, of rising numbers."""
    found: list[list[int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ", ".join(str(lo) if lo == hi else f"{lo}-{hi}" for lo, hi in found)
