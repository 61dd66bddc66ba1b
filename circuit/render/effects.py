"""Questions about effects and folds that decide how they are written."""

from circuit.render.blocks import axis_of
from circuit.uop.node import Axis, Op, Space, UOp, bound_ranges, toposort


def parts_of(effect: UOp) -> tuple[UOp, ...]:
    """The effects of a group, flat."""
    return tuple(p for s in effect.src for p in parts_of(s)) if effect.op is Op.STACK else (effect,)


def holds_loop(node: UOp) -> bool:
    """Whether a fold runs inside the loop of a fold."""
    ranges = frozenset(bound_ranges(node))
    folds = (n for n in toposort(*node.src) if n.op is Op.REDUCE and not ranges.isdisjoint(n.ranges))
    return any(axis_of(r) is not Axis.UPCAST for n in folds for r in bound_ranges(n))


def first_thread_only(node: UOp) -> bool:
    """Whether an effect stores what all threads see and is not split over them."""
    stores: list[UOp] = []
    threads = any(axis_of(r) is Axis.THREAD for r in node.ranges)
    pending = [node]
    while pending:
        effect = pending.pop()
        match effect.op:
            case Op.STORE:
                stores.append(effect)
            case Op.END:
                threads = threads or any(axis_of(r) is Axis.THREAD for r in effect.src[1:])
                pending.append(effect.src[0])
            case Op.STACK:
                pending.extend(effect.src)
    shared = [s.src[0].space is Space.GLOBAL for s in stores]
    assert threads or all(shared) or not any(shared), "one loop stores to shared and to local storage, unthreaded"
    return all(shared) and not threads
