"""The kernel of a group at a point, to be rendered: its definition, verified and scheduled."""

from circuit.errors import PlanError, Problem
from circuit.load.families import Point
from circuit.lower.ir import Definition, Group, Kernel
from circuit.lower.kernels import kernel_name, matrices_of
from circuit.lower.schedules import schedule
from circuit.sigma.page import head_words
from circuit.sigma.storage import unit_inputs
from circuit.tir.ir import Tir
from circuit.uop.build import group as group_of
from circuit.uop.node import Op, Storage, UOp, toposort
from circuit.uop.orders import expand_orders
from circuit.uop.schedule import apply
from circuit.uop.verify import verify_loops

ROOM_BYTES = 6 * 2**20
"""The most local storage of one kernel: the thread that asks for a step has the stack of its process, 8 MiB as a rule,
and schedules keep up to 1 MiB there too."""


def realize(tir: Tir, group: Group, point: Point, definition: Definition) -> Kernel:
    """The kernel that one launch of the group runs. Equal groups give equal kernels, whatever their layer.

    The definition is verified: every access is proven in range, every pair of accesses ordered. A schedule keeps both
    by construction, also where intervals cannot show that the main part and the tail of a split never meet.
    """
    _refuse_too_much_room(tir, group, definition.effects)
    written_out = (expand_orders(group_of(*definition.effects)),)
    effects = apply(written_out, schedule(point, written_out, _unit(tir, group)))
    verify_loops(*definition.effects)
    return Kernel(
        name=kernel_name(tir, group),
        family=point.family,
        point=point.id,
        definition=definition.effects,
        effects=effects,
        slots=definition.slots,
    )


def _refuse_too_much_room(tir: Tir, group: Group, effects: tuple[UOp, ...]) -> None:
    rooms = {node.arg for node in toposort(*effects) if node.op is Op.ALLOC}
    n_bytes = sum(4 * room.size for room in rooms if isinstance(room, Storage))
    if n_bytes > ROOM_BYTES:
        node = tir.nodes[group.nodes[0]].id
        message = f"{node}: rule `{group.rule}` keeps {n_bytes} bytes in each thread, which has room for {ROOM_BYTES}"
        own = group.numerics == "bit_identical"
        fix = f"give --policy fuse.{group.rule}=off" if own else "give a config with a shorter context"
        raise PlanError(Problem(message=message, fix=fix))


def _unit(tir: Tir, group: Group) -> int:
    """Inputs of a storage unit of what the group projects with; words of a head of a state that it reads."""
    states = [tir.states[place] for node in group.nodes for place in tir.nodes[node].states]
    if states:
        return head_words(states[0].format, states[0].head_dim)
    return max((unit_inputs(w.format) for w in matrices_of(tir, group)), default=1)
