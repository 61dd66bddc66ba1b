"""Reductions in a stated order, written out as plain left folds: `fold:256` and `lanes:128`.

The result computes the same sums in the same order, so it has the same bytes. For a REDUCE over a range k of end K:

fold:256    total of the chunk folds, from the identity of the total; chunk c holds k = 256*c .. 256*c+255. The chunk
            loop is named `k.chunk`, the loop inside a chunk keeps the name `k`. A last, shorter chunk of a constant K
            is a fold of its own (range `k'`), so that every loop has a constant trip count.
lanes:128   lane l folds k = l, l+128, ...; then lane l += lane l+64, +32, ..., +1. The lanes are UPCAST ranges over
            local storage: `k.lane` (and `k.lane'`, the lanes that have one round less); their rounds are named `k`
            (and `k'`), the ranges of the tree `k.tree`.

A name ends in apostrophes where it would not be the only one; a schedule names ranges without them.
"""

from msgspec.structs import replace

from circuit.uop.build import after, alloc, end, i32, index, load, loop, reduce, store, where
from circuit.uop.node import Axis, Const, DType, Fold, Loop, Op, Storage, UOp, const, substitute, toposort
from circuit.uop.scalar import identity
from circuit.uop.simplify import simplify

CHUNK = 256
LANES = 128


def expand_orders(kernel: UOp) -> UOp:
    """The kernel with every REDUCE a plain `fold`."""
    taken = Taken(kernel)
    new: dict[UOp, UOp] = {}
    for node in toposort(kernel):
        src = tuple(new[s] for s in node.src)
        same = node if src == node.src else UOp(node.op, src, node.arg)
        match same.arg:
            case Fold(order="fold:256"):
                new[node] = _chunks(same, taken)
            case Fold(order="lanes:128"):
                new[node] = _lanes(same, taken)
            case Fold(order=order) if order != "fold":
                raise AssertionError(f"there is no reduction order {order}")
            case _:
                new[node] = same
    return new[kernel]


class Taken:
    """Names of ranges and slots of ALLOCs that a kernel uses."""

    def __init__(self, kernel: UOp) -> None:
        nodes = toposort(kernel)
        self._names = {n.arg.name for n in nodes if isinstance(n.arg, Loop)}
        self._slots = {n.arg.slot for n in nodes if n.op is Op.ALLOC and isinstance(n.arg, Storage)}

    def loop(self, name: str, size: UOp | int, axis: Axis = Axis.LOOP) -> UOp:
        """A range whose name is `name`, with apostrophes where that is taken."""
        while name in self._names:
            name += "'"
        self._names.add(name)
        return loop(name, size, axis)

    def alloc(self, size: int, dtype: DType, name: str) -> UOp:
        """Local storage of its own."""
        slot = max(self._slots, default=-1) + 1
        self._slots.add(slot)
        return alloc(slot, size, dtype, name)

    def alloc_like(self, room: UOp) -> UOp:
        """Local storage of its own, of the size and type of another."""
        assert isinstance(room.arg, Storage), room
        like = self.alloc(room.arg.size, room.arg.dtype, room.arg.name)
        assert isinstance(like.arg, Storage)
        return UOp(Op.ALLOC, (), replace(room.arg, slot=like.arg.slot))

    def free(self, name: str) -> None:
        """The name is not used any more."""
        self._names.discard(name)


def own_name(r: UOp) -> str:
    """The name of a RANGE."""
    assert isinstance(r.arg, Loop), r
    return r.arg.name


def base_name(r: UOp) -> str:
    """The name of a RANGE without the apostrophes that tell copies apart."""
    return own_name(r).rstrip("'")


def local_room(node: UOp) -> UOp | None:
    """The ALLOC under AFTERs, if it is one."""
    while node.op is Op.AFTER:
        node = node.src[0]
    return node if node.op is Op.ALLOC else None


def _parts(node: UOp) -> tuple[str, tuple[UOp, ...], UOp]:
    """Op, values and the one range of a REDUCE."""
    assert isinstance(node.arg, Fold)
    n = 2 if node.arg.op == "mulacc" else 1
    assert len(node.src) == n + 1, f"{node.arg.order} reduces one range, not {len(node.src) - n}"
    return node.arg.op, node.src[:n], node.src[n]


def _fold(op: str, values: tuple[UOp, ...], k: UOp, place: UOp, inner: UOp) -> UOp:
    """The left fold over `inner` of the values where k is `place`."""
    moved = tuple(substitute(v, {k: place}) for v in values)
    return reduce(op, *moved, inner)


def _chunks(node: UOp, taken: Taken) -> UOp:
    op, values, k = _parts(node)
    size, joins = k.src[0], "add" if op == "mulacc" else op
    taken.free(own_name(k))
    chunk = base_name(k) + ".chunk"
    if not isinstance(size.arg, Const):
        c = taken.loop(chunk, simplify((size + (CHUNK - 1)) // CHUNK))
        rest = size - c * CHUNK
        i = taken.loop(own_name(k), simplify(where(rest < CHUNK, rest, CHUNK)))
        return reduce(joins, _fold(op, values, k, c * CHUNK + i, i), c)
    whole, rest_size = divmod(size.arg.bits, CHUNK)
    total: UOp = const(node.dtype, identity(joins, node.dtype))
    if whole:
        c, i = taken.loop(chunk, whole), taken.loop(own_name(k), CHUNK)
        total = reduce(joins, _fold(op, values, k, c * CHUNK + i, i), c)
    if not rest_size:
        return total
    i = taken.loop(own_name(k), rest_size)
    return join(joins, total, _fold(op, values, k, i + whole * CHUNK, i))


def join(op: str, a: UOp, b: UOp) -> UOp:
    """Two parts of a REDUCE's total as one."""
    return UOp({"add": Op.ADD, "mul": Op.MUL, "max": Op.MAX}[op], (a, b))


def _lanes(node: UOp, taken: Taken) -> UOp:
    op, values, k = _parts(node)
    assert isinstance(k.src[0].arg, Const), f"lanes:128 over range {own_name(k)}, whose end is not a constant"
    joins = "add" if op == "mulacc" else op
    room = taken.alloc(LANES, node.dtype, f"{own_name(k)}.lanes")
    rounds, longer = divmod(k.src[0].arg.bits, LANES)
    taken.free(own_name(k))
    effects: list[UOp] = []
    for first, count, n in ((0, longer, rounds + 1), (longer, LANES - longer, rounds)):
        if count:
            lane = taken.loop(base_name(k) + ".lane", count, Axis.UPCAST)
            value: UOp = const(node.dtype, identity(op, node.dtype))
            if n:
                i = taken.loop(own_name(k), n)
                value = _fold(op, values, k, i * LANES + lane + first, i)
            effects.append(end(store(index(room, lane + first), value), lane))
    done = after(room, *effects)
    half = LANES
    while half > 1:
        half //= 2
        lane = taken.loop(base_name(k) + ".tree", half, Axis.UPCAST)
        sum_of = join(joins, load(index(done, lane)), load(index(done, lane + half)))
        done = after(room, end(store(index(done, lane), sum_of), lane))
    return load(index(done, i32(0)))
