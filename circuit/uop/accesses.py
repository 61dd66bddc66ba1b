"""Which LOADs and STOREs of a program touch one storage, which come before which, and whether their places can meet."""

import math

from msgspec import Struct

from circuit.uop.affine import Form, Forms, form_of, interval
from circuit.uop.build import i32
from circuit.uop.evaluate import storage_name, storage_of
from circuit.uop.node import Axis, Loop, Op, Param, Storage, UOp
from circuit.uop.simplify import simplify
from circuit.uop.within import within


class Access(Struct, frozen=True, kw_only=True):
    """A LOAD or STORE; `before` are the numbers of the accesses that are among its sources, however far."""

    node: UOp
    number: int
    storage: UOp
    name: str
    flat: UOp  # the row-major place, simplified
    form: Form
    before: frozenset[int]
    stores_before: bool


def accesses(nodes: list[UOp]) -> list[list[Access]]:
    """The accesses of a program by storage, each group in post-order; storage that is only read is left out."""
    below: dict[UOp, int] = {}  # a bit for each access among a node's sources
    groups: dict[tuple[str, int], list[Access]] = {}
    found: list[Access] = []
    for node in nodes:
        mask = 0
        for source in node.src:
            mask |= below[source]
        if node.op in (Op.LOAD, Op.STORE):
            access = _access(node, len(found), mask, found)
            groups.setdefault(_key(access.storage), []).append(access)
            mask |= 1 << len(found)
            found.append(access)
        below[node] = mask
    return [group for group in groups.values() if group[0].storage.op is Op.ALLOC or _stored(group)]


def _stored(group: list[Access]) -> bool:
    return any(access.node.op is Op.STORE for access in group)


def can_meet(a: Access, b: Access) -> bool:
    """Whether the places may be equal in one turn of the loops around both.

    Turns of a THREAD loop are not ordered: for storage that threads share, its variable counts as two.
    """
    if _apart(a, b):
        return False
    split = [r for r in a.node.ranges & b.node.ranges if isinstance(r.arg, Loop) and r.arg.axis is not Axis.LOOP]
    if split and a.storage.op is not Op.ALLOC:
        return True
    gap = simplify(a.flat - b.flat)
    return not (within(gap, -(2**31), -1) or within(gap, 1, 2**31 - 1))


def _apart(a: Access, b: Access) -> bool:
    """Whether the places differ whatever their variables are, each with variables of its own."""
    steps = {abs(c) for form in (a.form, b.form) for c in form[0].values()}
    for step in (2**32, *sorted(steps, reverse=True), math.gcd(*steps)):  # places modulo a step
        if step:
            (lo, hi), (low, high) = interval(_modulo(a.form, step)), interval(_modulo(b.form, step))
            if (high - lo) // step == (low - hi - 1) // step:  # no difference is a multiple of it
                return True
    return False


def _modulo(form: Form, step: int) -> Form:
    return {atom: c for atom, c in form[0].items() if c % step}, form[1]


def _access(node: UOp, number: int, mask: int, found: list[Access]) -> Access:
    storage, flat = storage_of(node.src[0]), simplify(_flat(node.src[0]))
    before = frozenset(access.number for access in found if mask >> access.number & 1)
    return Access(
        node=node,
        number=number,
        storage=storage,
        name=storage_name(storage),
        flat=flat,
        form=form_of(Forms(), flat),
        before=before,
        stores_before=any(found[n].storage is storage and found[n].node.op is Op.STORE for n in before),
    )


def _flat(place: UOp) -> UOp:
    """The row-major place of an INDEX."""
    total, stride = i32(0), 1
    while place.op in (Op.INDEX, Op.AFTER):
        if place.op is Op.INDEX:
            for at, size in zip(reversed(place.src[1:]), reversed(_popped(place)), strict=True):
                total, stride = total + at * stride, stride * size
        place = place.src[0]
    return total


def _popped(place: UOp) -> tuple[int, ...]:
    return place.src[0].shape[: len(place.src) - 1]


def _key(storage: UOp) -> tuple[str, int]:
    """PARAM and BUFFER share the slots; nodes of one slot may differ in their declared shape."""
    assert isinstance(storage.arg, Param | Storage) or storage.op is Op.STACK, storage
    slot = storage.arg.slot if isinstance(storage.arg, Param | Storage) else id(storage)
    return (storage.op if storage.op in (Op.ALLOC, Op.STACK) else "buffer", slot)
