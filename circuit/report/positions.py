"""The rows of a step, and what the ends of loops are in it."""

import operator
from collections.abc import Callable

from msgspec import Struct

from circuit.uop.node import Op, UOp, const_value


class Step(Struct, frozen=True, kw_only=True):
    """The rows of one step: each of `sequences` has `rows` of them, at positions `first`, `first + 1`, ...

    `logit_rows` are those that get logits, over all sequences.
    """

    sequences: int
    rows: int
    first: int
    logit_rows: int


def formula(end: UOp, part: int = 1) -> Callable[[int], int]:
    """The end of a loop in parts of some size, rounded up, as a function of the row's position."""
    return lambda position: counts(end, part, range(position, position + 1))[0]


def counts(end: UOp, part: int, positions: range) -> list[int]:
    """The end of a loop in parts of some size, rounded up, for rows at several positions."""
    column: dict[UOp, list[int]] = {}
    for node in below(end):
        src = [column[s] for s in _value_sources(node)]
        match node.op:
            case Op.CONST:
                column[node] = [int(const_value(node))] * len(positions)
            case Op.LOAD if not src:
                column[node] = list(positions)
            case Op.LOAD:
                column[node] = src[0]
            case Op.WHERE:
                column[node] = [b if a else c for a, b, c in zip(*src, strict=True)]
            case _ if node.op in _OF_TWO:
                column[node] = list(map(_OF_TWO[node.op], *src))
            case _:
                raise AssertionError(f"the end of a loop has {node.op}")
    return [-(-value // part) for value in column[end]]


_OF_TWO: dict[Op, Callable[[int, int], int]] = {
    Op.ADD: operator.add,
    Op.MUL: operator.mul,
    Op.MAX: max,
    Op.FLOORDIV: operator.floordiv,
    Op.FLOORMOD: operator.mod,
    Op.CMPLT: operator.lt,
    Op.XOR: operator.xor,
}


def _value_sources(node: UOp) -> tuple[UOp, ...]:
    """What a node's integer value is made of: a LOAD from local storage has the value that was stored there."""
    if node.op is not Op.LOAD:
        return node.src
    base = node.src[0].src[0]
    if base.op is Op.AFTER and base.src[0].op in (Op.ALLOC, Op.AFTER):
        for effect in base.src[1:]:
            if effect.op is Op.STORE:
                return (effect.src[1],)
    return ()


def below(root: UOp) -> list[UOp]:
    """The nodes that an integer's value is made of, each after what it is made of."""
    order: list[UOp] = []
    seen: set[UOp] = set()
    stack = [root]
    while stack:
        node = stack[-1]
        waiting = [s for s in _value_sources(node) if s not in seen] if node not in seen else []
        if waiting:
            stack += waiting
            continue
        stack.pop()
        if node not in seen:
            seen.add(node)
            order.append(node)
    return order
