"""Groups to a plan: kernels, buffers and their places in the arena, launches, weights in order of reading, digests."""

from collections.abc import Iterator

from msgspec import Struct

from circuit.errors import PlanError, Problem
from circuit.load.families import Family, Point
from circuit.load.hardware import HardwareClass, vector_lanes
from circuit.load.policy import Policy
from circuit.lower.ir import Group, Kernel, Slot
from circuit.plan.arena import Span, place
from circuit.plan.certificate import certificate
from circuit.plan.digest import (
    Run,
    bytes_part,
    class_part,
    digest_of,
    kernels_part,
    policy_part,
    rules_part,
    run_part,
    step_part,
)
from circuit.plan.ir import Buffer, BufferAt, Launch, Plan, StateAt, StepInput, Target, WeightAt
from circuit.plan.kernels import Kernels, Realize, shared_by_plans
from circuit.plan.shared import Shared, wired_by
from circuit.plan.wires import Ends, Wired, Wires
from circuit.tir.activations import activation_notes
from circuit.tir.ir import Tir


class Request(Struct, frozen=True, kw_only=True):
    """What a plan is asked for: a class with its families, a policy, a mode and rows (inclusive).

    `settings` are those that are not as the rules state them. `scheduled`: whether `realize` makes kernels to be
    rendered, or definitions. `shared`: what its plans have in common."""

    hardware: HardwareClass
    families: tuple[Family, ...]
    policy: Policy
    settings: tuple[str, ...] = ()
    mode: str
    rows: tuple[int, int]
    run: Run
    realize: Realize
    scheduled: bool
    shared: Shared | None = None


def plan(tir: Tir, groups: tuple[Group, ...], request: Request) -> Plan:
    """The plan of groups that `fuse` made for the same mode and rows."""
    _refuse_unknown_formats(tir)
    shared = request.shared or shared_by_plans(tir)
    wired = wired_by(tir, groups, shared)
    wires = wired.wires
    made = Kernels(
        tir=tir,
        wires=wires,
        families=request.families,
        most_rows={mode: most for mode, (_, most) in request.hardware.rows},
        mode=request.mode,
        rows=request.rows,
        realize=request.realize,
        scheduled=request.scheduled,
        shared=shared,
    )
    order = tuple(map(made.of, groups, wired.signatures))
    draft = _Draft(tir=tir, wired=wired, kernels=tuple(made.made), groups=groups, order=order)
    buffers, arena_bytes = draft.buffers(request.rows[1])
    changed = tuple(_changed(made.points, groups))
    parts = shared.parts | {
        "policy": policy_part(request.policy),
        "run": run_part(request.run),
        "step": step_part(request.mode, request.rows),
        "rules": rules_part(groups, request.settings),
        "kernels": kernels_part(made.made, order),
        "class": class_part(request.hardware),
        "bytes": bytes_part(
            shared.meanings, request.policy, ((node, what) for group, what in changed for node in group.nodes)
        ),
    }
    return Plan(
        arch=tir.arch,
        hardware_class=request.hardware.name,
        vector_lanes=vector_lanes(request.hardware),
        mode=request.mode,
        rows=request.rows,
        context=tir.context,
        policy=request.policy.entries,
        notes=activation_notes(tir, request.policy),
        settings=request.settings,
        buffers=buffers,
        arena_bytes=arena_bytes,
        weights=wired.weights,
        states=tir.states,
        kernels=tuple(made.made),
        launches=draft.launches(),
        outputs=tuple((tir.edges[edge].name, _own_buffer(tir, wires, edge)) for edge in tir.outputs),
        certificate=certificate(f"{group.rule} of {tir.nodes[group.nodes[0]].id}" for group, _ in changed),
        parts=tuple(sorted(parts.items())),
        digest=digest_of(parts),
    )


def _own_buffer(tir: Tir, wires: Wires, edge: int) -> int:
    """The buffer of an output of the step, which is read as a whole."""
    assert wires.columns[edge] == tir.edges[edge].dim, f"the output {tir.edges[edge].name} shares its buffer"
    return wires.home[edge].buffer


def _refuse_unknown_formats(tir: Tir) -> None:
    unknown = [weight.name for weight in tir.weights if weight.format == "file"]
    if unknown:
        message = f"the storage format of {unknown[0]} and {len(unknown) - 1} more weights is not known"
        fix = "give the checkpoint with its tensors, or a config that states the format of its weights"
        raise PlanError(Problem(message=message, fix=fix))


def _changed(points: dict[str, Point], groups: tuple[Group, ...]) -> Iterator[tuple[Group, str]]:
    """Groups that compute at another numerics point than their definitions', and that point."""
    for group in groups:
        point = points[group.family]
        if group.numerics == "differs" or point.claim == "changes":
            yield group, f"{group.rule} {point.family}.{point.id} {point.numerics}"


class _Draft(Struct, frozen=True, kw_only=True):
    """What all parts of one plan are made from."""

    tir: Tir
    wired: Wired
    kernels: tuple[Kernel, ...]
    groups: tuple[Group, ...]
    order: tuple[int, ...]

    def buffers(self, rows_hi: int) -> tuple[tuple[Buffer, ...], int]:
        """The edges' buffers, then the scratch of each launch in order. An output of the step lives to the end."""
        wires = self.wired.wires
        first = [0] * len(wires.buffers)
        last = [0] * len(wires.buffers)
        for launch, ends in enumerate(wires.ends):
            for edge in ends.writes:
                first[wires.home[edge].buffer] = last[wires.home[edge].buffer] = launch
            for edge in ends.reads:
                if edge in wires.home:
                    last[wires.home[edge].buffer] = launch
        for edge in self.tir.outputs:
            last[wires.home[edge].buffer] = len(self.groups) - 1
        wanted = [
            (name, self.tir.edges[edges[0]].rows, wires.columns[edges[0]], first[at], last[at])
            for at, (name, edges) in enumerate(wires.buffers)
        ]
        wanted += [
            (self._scratch_name(launch, slot), slot.rows, slot.columns, launch, launch)
            for launch, slot in self._scratch()
        ]
        spans = tuple(Span(n_bytes=4 * rows_hi * width, first=a, last=b) for _, _, width, a, b in wanted)
        offsets, total = place(spans)
        made = zip(wanted, spans, offsets, strict=True)
        return tuple(
            Buffer(
                name=name,
                rows=rows,
                columns=width,
                offset_bytes=at,
                n_bytes=span.n_bytes,
                first=span.first,
                last=span.last,
            )
            for (name, rows, width, _, _), span, at in made
        ), total

    def launches(self) -> tuple[Launch, ...]:
        """One launch a group."""
        wired, scratch = self.wired, dict[tuple[int, int], int]()
        for at, (launch, slot) in enumerate(self._scratch(), start=len(wired.wires.buffers)):
            scratch[launch, slot.place] = at
        found, known = [], dict[Target, Target]()  # equal targets are one record, which is kept once
        for launch, (group, ends, reads) in enumerate(zip(self.groups, wired.wires.ends, wired.reads, strict=True)):
            node = self.tir.nodes[group.nodes[0]]
            slots = self.kernels[self.order[launch]].slots
            targets = (self._target(slot, ends, reads, scratch, launch) for slot in slots)
            found.append(
                Launch(
                    rule=group.rule,
                    numerics=group.numerics,
                    kernel=self.order[launch],
                    members=tuple(self.tir.nodes[place].id for place in group.nodes),
                    targets=tuple(known.setdefault(target, target) for target in targets),
                    section=node.section,
                    layer=node.layer,
                )
            )
        return tuple(found)

    def _scratch(self) -> Iterator[tuple[int, Slot]]:
        for launch, kernel in enumerate(self.order):
            for slot in self.kernels[kernel].slots:
                if slot.kind == "scratch":
                    yield launch, slot

    def _scratch_name(self, launch: int, slot: Slot) -> str:
        return f"{self.tir.nodes[self.groups[launch].nodes[-1]].id}.scratch{slot.place}"

    def _target(
        self, slot: Slot, ends: Ends, weights: tuple[int, ...], scratch: dict[tuple[int, int], int], launch: int
    ) -> Target:
        match slot.kind:
            case "in":
                return self.wired.wires.home[ends.reads[slot.place]]
            case "out":
                return self.wired.wires.home[ends.writes[slot.place]]
            case "scratch":
                return BufferAt(buffer=scratch[launch, slot.place])
            case "weight":
                return WeightAt(weight=weights[slot.place])
            case "state":
                return StateAt(state=ends.states[slot.place])
            case "step":
                return StepInput(name=slot.name)
        raise AssertionError(f"a slot of kind {slot.kind}")
