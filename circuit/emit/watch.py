"""What each launch of a step leaves behind, by name: the edges of its group, and the rows that it writes to a state.

After a step of a plan with shared buffers most edges are overwritten; `plan.apart` gives one where none is.
"""

from collections.abc import Iterator

from msgspec import Struct

from circuit.emit.barriers import written_slots
from circuit.lower.graph import graph_of
from circuit.lower.ir import Group
from circuit.plan.ir import Launch, Plan, StateAt
from circuit.plan.wires import wires_of
from circuit.tir.ir import Tir, row_words


class InArena(Struct, frozen=True, kw_only=True):
    """Row i begins `stride` elements of 4 bytes after row i - 1; the first one at `offset_bytes`."""

    offset_bytes: int
    stride: int
    format: str


class InState(Struct, frozen=True, kw_only=True):
    """Keys or values of `heads` x `head_dim` in the pages of a state, at the positions of the step's rows: decoded."""

    state: int
    side: str  # keys | values
    heads: int
    head_dim: int
    format: str


class Watched(Struct, frozen=True, kw_only=True):
    """One edge or state side that launch `launch` writes: `rows` ("n" or "m") x `columns` elements of 4 bytes."""

    launch: int
    rule: str
    members: tuple[str, ...]
    name: str
    rows: str
    columns: int
    place: InArena | InState


def watched(tir: Tir, groups: tuple[Group, ...], plan: Plan) -> tuple[Watched, ...]:
    """All of section main, in the order of the launches. `groups` are those that the plan was made of."""
    wires = wires_of(tir, graph_of(tir), groups)
    written = tuple(written_slots(kernel) for kernel in plan.kernels)
    found = []
    for place, (launch, ends) in enumerate(zip(plan.launches, wires.ends, strict=True)):
        if launch.section != "main":
            continue
        for edge in ends.writes:
            record, home = tir.edges[edge], wires.home[edge]
            at = plan.buffers[home.buffer].offset_bytes + 4 * home.column
            room = InArena(offset_bytes=at, stride=wires.columns[edge], format=record.format)
            found.append(_watched(place, launch, record.name, record.rows, row_words(record), room))
        for target in _written_states(plan, launch, written[launch.kernel]):
            state = plan.states[target]
            for side in ("keys", "values"):
                held = InState(state=target, side=side, heads=state.heads, head_dim=state.head_dim, format=state.format)
                found.append(_watched(place, launch, f"{state.name}.{side}", "n", state.heads * state.head_dim, held))
    return tuple(found)


def _watched(place: int, launch: Launch, name: str, rows: str, columns: int, at: InArena | InState) -> Watched:
    return Watched(
        launch=place, rule=launch.rule, members=launch.members, name=name, rows=rows, columns=columns, place=at
    )


def _written_states(plan: Plan, launch: Launch, written: frozenset[int]) -> Iterator[int]:
    for slot, target in zip(plan.kernels[launch.kernel].slots, launch.targets, strict=True):
        if isinstance(target, StateAt) and slot.slot in written:
            yield target.state
