"""Copies of values for the iterations of an unrolled range."""

from itertools import product

from circuit.render.peephole import fit_to_processor
from circuit.uop.build import i32
from circuit.uop.node import Op, Storage, UOp, range_size, toposort
from circuit.uop.orders import local_room
from circuit.uop.simplify import simplify_all


class Copies:
    """Which REDUCEs are copies of one: they are independent of each other and can share a loop."""

    def __init__(self) -> None:
        self._siblings: dict[UOp, tuple[UOp, ...]] = {}
        self._slots = 1 << 16  # of storage that copies got for themselves

    def of(self, node: UOp) -> tuple[UOp, ...]:
        """All copies, the node among them, in order."""
        return self._siblings.get(node, (node,))

    def note(self, copies: list[UOp]) -> None:
        """Copies of one REDUCE."""
        distinct = tuple(dict.fromkeys(copies))
        for node in distinct:
            self._siblings[node] = distinct

    def own(self, storage: UOp) -> UOp:
        """An ALLOC like `storage`, for one copy."""
        assert isinstance(storage.arg, Storage)
        self._slots += 1
        a = storage.arg
        return UOp(Op.ALLOC, (), Storage(self._slots, a.size, a.dtype, a.name, a.lo, a.hi))


def unroll(values: tuple[UOp, ...], ranges: tuple[UOp, ...], copies: Copies) -> list[tuple[UOp, ...]]:
    """The values at every place of the ranges, the last range fastest."""
    if not ranges:
        return [values]
    gone = frozenset(ranges)
    below = toposort(*values)
    reduces = tuple(n for n in below if n.op is Op.REDUCE and n not in values and not gone.isdisjoint(n.ranges))
    rooms = tuple(dict.fromkeys(local_room(n) for n in below if n.op is Op.AFTER and not gone.isdisjoint(_written(n))))
    differing = _above((*ranges, *(room for room in rooms if room is not None)), below)
    found: list[tuple[UOp, ...]] = []
    for at in product(*(range(range_size(r)) for r in ranges)):
        replace = dict(zip(ranges, map(i32, at), strict=True)) | {
            room: copies.own(room) for room in rooms if room is not None
        }
        for node in differing:
            if node not in replace:
                replace[node] = UOp(node.op, tuple(replace.get(s, s) for s in node.src), node.arg)
        found.append(fit_to_processor(simplify_all(tuple(replace.get(v, v) for v in (*values, *reduces)))))
    for n in range(len(values), len(values) + len(reduces)):
        copies.note([copy[n] for copy in found])
    for n, value in enumerate(values):
        if value.op is Op.REDUCE:
            copies.note([copy[n] for copy in found])
    return [copy[: len(values)] for copy in found]


def _above(replaced: tuple[UOp, ...], nodes: list[UOp]) -> list[UOp]:
    """The nodes that hold one that is replaced, in their order; `nodes` stand after their sources."""
    holding = set(replaced)
    for node in nodes:
        if not holding.isdisjoint(node.src):
            holding.add(node)
    return [node for node in nodes if node in holding]


def fills_room(effect: UOp, r: UOp) -> bool:
    """Whether local storage holds something else at every place of a range, so that lanes cannot share it."""
    return any(n.op is Op.AFTER and r in _written(n) for n in toposort(effect))


def _written(node: UOp) -> frozenset[UOp]:
    """The free ranges of the effects that fill local storage; none for storage that all see."""
    if local_room(node) is None:
        return frozenset()
    return frozenset[UOp]().union(*(effect.ranges for effect in node.src[1:]))
